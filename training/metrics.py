"""
Scores of translated documents: s-BLEU, d-BLEU, chrF and TER through sacreBLEU, each with its signature.

A hypothesis is a document, a list of sentences, and sentence i of the hypothesis stands against sentence i of the
reference. s-BLEU (Papineni et al., 2002), chrF (Popović, 2015) and TER (Snover et al., 2006) read one sentence a
line; d-BLEU reads one document a line, its sentences joined by one blank. The two kinds of BLEU are not comparable
with each other, since n-gram counts are clipped line by line.
"""

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER


MEASURES = ("s-BLEU", "d-BLEU", "chrF", "TER")

Documents = Sequence[Sequence[str]]

# languages written without blanks, where 13a would take a clause for a word
_TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}
# the extras of sacrebleu that hold the dictionaries
_TOKENIZER_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}


def bleu_tokenizer(target_lang: str | None) -> str:
    """
    Return the name of sacreBLEU's tokenizer for a language.

    Args:
        target_lang (`str`, *optional*):
            Language code, with or without script and region (`zh`, `zh-TW`, `zho_Hans`); None for unknown.

    Returns:
        `str`: `zh`, `ja-mecab` or `ko-mecab` for Chinese, Japanese and Korean, and `13a` for everything else.
    """
    if not target_lang:
        return "13a"
    return _TOKENIZERS.get(target_lang.replace("_", "-").split("-")[0].lower(), "13a")


def build_metric(measure: str, target_lang: str | None = None) -> BLEU | CHRF | TER:
    """
    Return sacreBLEU's metric for a measure, set as every number of this project is.

    Args:
        measure (`str`):
            One of `MEASURES`.
        target_lang (`str`, *optional*):
            Language of the references; it chooses the tokenizer of BLEU, and splits Chinese, Japanese and Korean into
            characters for TER, whose words are what stands between blanks.

    Raises:
        `ValueError`: for an unknown measure, or a tokenizer whose dictionary is not installed.
    """
    tokenizer = bleu_tokenizer(target_lang)
    if measure in ("s-BLEU", "d-BLEU"):
        try:
            return BLEU(tokenize=tokenizer)
        # sacrebleu turns the missing dictionary into a RuntimeError
        except (ImportError, RuntimeError) as error:
            raise ValueError(
                f"BLEU for target_lang={target_lang!r} needs the tokenizer {tokenizer!r}, which is not installed. "
                f"Install it with `pip install '{_TOKENIZER_EXTRAS.get(tokenizer, 'sacrebleu')}'`."
            ) from error
    if measure == "chrF":
        return CHRF()
    if measure == "TER":
        without_blanks = tokenizer != "13a"
        return TER(normalized=without_blanks, asian_support=without_blanks)
    raise ValueError(f"`measure` must be one of {', '.join(map(repr, MEASURES))}, got {measure!r}.")


def signature(metric: BLEU | CHRF | TER) -> str:
    """Return the signature of a metric with its name in front: `BLEU|nrefs:1|case:mixed|eff:no|tok:13a|…`."""
    name = f"chrF{metric.beta}" if isinstance(metric, CHRF) else type(metric).__name__
    return f"{name}|{metric.get_signature()}"


def check_counts(hypotheses: Documents, references: Documents, names: Sequence[str] | None = None) -> None:
    """
    Require that sentence i of each hypothesis can stand against sentence i of its reference.

    Args:
        hypotheses, references (`Sequence[Sequence[str]]`):
            Documents as lists of sentences.
        names (`Sequence[str]`, *optional*):
            What to call the documents in an error; their numbers from 0 by default.

    Raises:
        `TypeError`: for a document that is one string.
        `ValueError`: for different numbers of documents, the first document with different numbers of sentences, and
            where there is no sentence at all.
    """
    for kind, documents in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(documents, str) or any(isinstance(document, str) for document in documents):
            raise TypeError(f"`{kind}` must hold a list of sentences for each document, got a string.")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} hypothesis documents and {len(references)} reference documents. Give one "
            "hypothesis for each reference, in the same order."
        )
    for index, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True)):
        if len(hypothesis) != len(reference):
            name = repr(names[index]) if names is not None else str(index)
            raise ValueError(
                f"document {name} has {len(hypothesis)} hypothesis sentences and {len(reference)} reference "
                "sentences, but sentence i is scored against sentence i. Translate it sentence by sentence, or repair "
                "its alignment first."
            )
    if not any(len(reference) for reference in references):
        raise ValueError("there is nothing to score: the references hold no sentence.")


def metric_lines(documents: Documents, measure: str) -> list[str]:
    """Return what a measure takes for a line: a document for d-BLEU, a sentence for the others."""
    if measure == "d-BLEU":
        return [" ".join(document) for document in documents]
    return [sentence for document in documents for sentence in document]


def score_documents(
    hypotheses: Documents,
    references: Documents,
    target_lang: str | None = None,
    *,
    measures: Sequence[str] = MEASURES,
    names: Sequence[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """
    Score translated documents against their references.

    Args:
        hypotheses, references (`Sequence[Sequence[str]]`):
            Documents as lists of sentences, detokenised text without special tokens. Empty sentences may occur on
            either side.
        target_lang (`str`, *optional*):
            Language of the references (see `build_metric`).
        measures (`Sequence[str]`, *optional*, defaults to `MEASURES`):
            What to compute. TER takes longer than the rest together; leave it out in training.
        names (`Sequence[str]`, *optional*):
            What to call the documents in an error.

    Returns:
        `dict[str, dict]`: for each measure `{"score": float, "signature": str}`, in the order asked for; JSON-able.
        BLEU and chrF run from 0 to 100, TER from 0 (the best) up.

    Raises:
        `ValueError`: where counts differ (the document is named), for an unknown measure, or without any sentence.
    """
    check_counts(hypotheses, references, names)
    scores = {}
    for measure in measures:
        metric = build_metric(measure, target_lang)
        lines = metric_lines(hypotheses, measure)
        score = metric.corpus_score(lines, [metric_lines(references, measure)]).score
        # four places: more is noise, and 100.00000000000004 is not a score
        scores[measure] = {"score": round(score, 4), "signature": signature(metric)}
    return scores
