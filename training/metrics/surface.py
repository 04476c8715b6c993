"""
s-BLEU, d-BLEU, chrF and TER through sacreBLEU, from counts that can be summed over documents.

s-BLEU (Papineni et al., 2002), chrF (Popović, 2015) and TER (Snover et al., 2006) read one sentence a line; d-BLEU
reads one document a line, its sentences joined by one blank. The two kinds of BLEU are not comparable with each
other, since n-gram counts are clipped line by line.
"""

from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER

from .documents import Documents, bleu_tokenizer


MEASURES = ("s-BLEU", "d-BLEU", "chrF", "TER")

# the extras of sacrebleu that hold the dictionaries
_TOKENIZER_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}


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


def metric_lines(documents: Documents, measure: str) -> list[str]:
    """Return what a measure takes for a line: a document for d-BLEU, a sentence for the others."""
    if measure == "d-BLEU":
        return [" ".join(document) for document in documents]
    return [sentence for document in documents for sentence in document]


def surface_statistics(
    hypotheses: Documents, references: Documents, measure: str, target_lang: str | None = None
) -> np.ndarray:
    """
    Count what sacreBLEU needs to know of each document; the score of a set of documents depends on the sums alone.

    Args:
        hypotheses, references (`Sequence[Sequence[str]]`):
            D documents as lists of sentences, with equal counts.
        measure (`str`):
            One of `MEASURES`.
        target_lang (`str`, *optional*):
            Language of the references.

    Returns:
        `np.ndarray` of shape `(D, K)`. BLEU (K = 10): hypothesis length, reference length, matches of 4 n-gram orders,
        n-grams of 4 orders. chrF (K = 18): hypothesis n-grams, reference n-grams, matches, for 6 orders. TER (K = 2):
        edits, reference length.
    """
    metric = build_metric(measure, target_lang)
    lines, reference_lines = metric_lines(hypotheses, measure), metric_lines(references, measure)
    # sacrebleu has no public name for the counts behind its scores
    of_lines = np.asarray(metric._extract_corpus_statistics(lines, [reference_lines]))
    lines_of_documents = [1 if measure == "d-BLEU" else len(document) for document in references]
    statistics = np.zeros((len(references), of_lines.shape[1]), dtype=of_lines.dtype)
    np.add.at(statistics, np.repeat(np.arange(len(references)), lines_of_documents), of_lines)
    return statistics


def surface_entry(sums: np.ndarray, measure: str, target_lang: str | None = None) -> dict[str, Any]:
    """
    Score all documents with sacreBLEU's own formula.

    Args:
        sums (`np.ndarray` of shape `(K,)`):
            Sums of `surface_statistics` over the documents.

    Returns:
        `dict`: `score` and `signature`.
    """
    metric = build_metric(measure, target_lang)
    # its signature knows how many references there are once it has seen some
    metric.corpus_score([""], [[""]])
    score = metric._compute_score_from_stats(sums.tolist()).score
    # four places: more is noise, and 100.00000000000004 is not a score
    return {"score": round(score, 4), "signature": signature(metric)}


def surface_scores(sums: np.ndarray, measure: str) -> np.ndarray:
    """
    Score R sets of documents at once from the sums of their `surface_statistics`.

    Args:
        sums (`np.ndarray` of shape `(R, K)`):
            Sums over the documents of each set.
        measure (`str`):
            One of `MEASURES`.

    Returns:
        `np.ndarray` of shape `(R,)`: scores equal to sacreBLEU's.
    """
    if measure == "TER":
        return _ter(sums)
    return _chrf(sums) if measure == "chrF" else _bleu(sums)


def _bleu(sums: np.ndarray) -> np.ndarray:
    hypothesis_length, reference_length = sums[:, 0], sums[:, 1]
    matches, totals = sums[:, 2:6], sums[:, 6:10]
    # the n-th order without a match in a row counts as 2^-n matches (smoothing "exp")
    misses = (matches == 0) & (totals > 0)
    smoothed = np.where(misses, 0.5 ** np.cumsum(misses, axis=1), matches)
    # a hypothesis without n-grams of some order scores 0, as does one without any match
    defined = np.all(totals > 0, axis=1) & np.any(matches > 0, axis=1)  # (R,)
    precisions = np.where(defined[:, None], smoothed / np.maximum(totals, 1), 1.0)
    brevity = np.exp(np.minimum(0.0, 1 - reference_length / np.maximum(hypothesis_length, 1)))
    return np.where(defined, 100 * brevity * np.exp(np.log(precisions).mean(axis=1)), 0.0)


def _chrf(sums: np.ndarray, beta: int = 2) -> np.ndarray:
    hypothesis, reference, matches = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    # orders longer than either side are left out of the means
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.where(counted, matches / np.maximum(hypothesis, 1), 0).sum(axis=1) / orders
    recall = np.where(counted, matches / np.maximum(reference, 1), 0).sum(axis=1) / orders
    denominator = beta**2 * precision + recall
    numerator = 100 * (1 + beta**2) * precision * recall
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _ter(sums: np.ndarray) -> np.ndarray:
    edits, reference_length = sums[:, 0], sums[:, 1]
    # words against an empty reference are all wrong
    without_reference = np.where(edits > 0, 100.0, 0.0)
    return np.where(reference_length > 0, 100 * edits / np.maximum(reference_length, 1), without_reference)
