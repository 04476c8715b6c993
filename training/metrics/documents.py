"""What every measure takes: documents as lists of sentences, and the checks that they stand against each other."""

from collections.abc import Sequence


Documents = Sequence[Sequence[str]]

# languages written without blanks, where a clause would pass for a word
_TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}


def primary_language(language: str) -> str:
    """Return a language code without script and region, in lower case: `zh` for `zh-TW`, `zho` for `zho_Hans`."""
    return language.replace("_", "-").split("-")[0].lower()


def bleu_tokenizer(target_lang: str | None) -> str:
    """
    Return the name of sacreBLEU's tokenizer for a language.

    Args:
        target_lang (`str`, *optional*):
            Language code, with or without script and region (`zh`, `zh-TW`, `zho_Hans`); None for unknown.

    Returns:
        `str`: `zh`, `ja-mecab` or `ko-mecab` for Chinese, Japanese and Korean, and `13a` for everything else.
    """
    return _TOKENIZERS.get(primary_language(target_lang), "13a") if target_lang else "13a"


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
    _check_nesting("hypotheses", hypotheses)
    _check_nesting("references", references)
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} hypothesis documents and {len(references)} reference documents. Give one "
            "hypothesis for each reference, in the same order."
        )
    for index, (hypothesis, reference) in enumerate(zip(hypotheses, references, strict=True)):
        if len(hypothesis) != len(reference):
            raise ValueError(
                f"document {_name(index, names)} has {len(hypothesis)} hypothesis sentences and {len(reference)} "
                "reference sentences, but sentence i is scored against sentence i. Translate it sentence by sentence, "
                "or repair its alignment first."
            )
    if not any(len(reference) for reference in references):
        raise ValueError(
            "there is nothing to score: the references hold no sentence. Check that the test set is the right file."
        )


def check_sources(sources: Documents, references: Documents, names: Sequence[str] | None = None) -> None:
    """
    Require that sentence i of each source is what sentence i of its reference translates.

    Args:
        sources, references (`Sequence[Sequence[str]]`):
            Documents as lists of sentences.
        names (`Sequence[str]`, *optional*):
            What to call the documents in an error; their numbers from 0 by default.

    Raises:
        `TypeError`: for a document that is one string.
        `ValueError`: for different numbers of documents, or of sentences in one.
    """
    _check_nesting("sources", sources)
    if len(sources) != len(references):
        raise ValueError(
            f"there are {len(sources)} source documents and {len(references)} reference documents. Give the source of "
            "each reference, in the same order."
        )
    for index, (source, reference) in enumerate(zip(sources, references, strict=True)):
        if len(source) != len(reference):
            raise ValueError(
                f"document {_name(index, names)} has {len(source)} source sentences and {len(reference)} reference "
                "sentences, but sentence i is read together with sentence i. Repair its alignment first."
            )


def _check_nesting(kind: str, documents: Documents) -> None:
    if isinstance(documents, str) or any(isinstance(document, str) for document in documents):
        raise TypeError(f"`{kind}` must hold a list of sentences for each document, got a string.")


def _name(index: int, names: Sequence[str] | None) -> str:
    return repr(names[index]) if names is not None else str(index)
