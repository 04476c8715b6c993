"""
TCP: are tense, conjunctions and pronouns translated as a labelled test set has them?

The test set of Sun et al. (2022) marks words of the tokenised English reference and lists for each what else would do
in its place. A label is hit where one of its candidates occurs in the hypothesis within 20 tokens of the place that
corresponds to it. TC, CP and PT are the hit rates of the documents on tense, conjunctions and pronouns, in percent,
and TCP is their geometric mean.

Source: Sun et al. (2022), "Rethinking Document-level Neural Machine Translation", and the scorer released with it,
followed to the letter: positions scale with the lengths in tokens and are rounded down, a candidate of several words
is any substring of the window, candidates are case-sensitive, an empty one never hits, and the same label twice counts
twice. Its text is tokenised in the way of Moses with hyphens split off, which `tokenize_english` does for hypotheses.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .documents import Documents


# raised whenever the same text would score otherwise
DEFINITION = 2

WINDOW = 20
# in the order of the statistics
PHENOMENA = {"TC": "tense", "CP": "conjunction", "PT": "pronoun"}
TCP_MEASURES = ("TCP", *PHENOMENA)

LabelledDocument = Mapping[str, Any]

_ABBREVIATIONS = frozenset(
    "Adm Apr Aug Bros Capt Co Col Corp Dec Dr Feb Gen Gov Hon Inc Jan Jr Lt Ltd Maj Mar Messrs Mr Mrs Ms Mt Nov Oct "
    "Ph Prof Rep Reps Rev Sen Sens Sep Sgt Sr St etc v vs".split()
)


def tokenize_english(sentence: str) -> list[str]:
    """
    Split an English sentence as the references of the test set are: like Moses with hyphens split off, unescaped.

    Args:
        sentence (`str`):
            One sentence; the period at its end is always a token of its own.

    Returns:
        `list[str]`: tokens, such as `head`, `@-@`, `on`; `Manuel`, `’`, `s`; `don`, `'t`; `p.m.`.
    """
    text = re.sub(r"([^\w\s.'`,-])", r" \1 ", sentence)
    text = re.sub(r"(?<=\w)-(?=\w)", " @-@ ", text)
    text = re.sub(r"(?<!\d),|,(?!\d)", " , ", text)
    text = re.sub(r"(\.{2,})", r" \1 ", text)
    # a contraction keeps its apostrophe, as in "don 't"; any other is a token of its own
    text = re.sub(r"(?<![^\W\d_])'|'(?![^\W\d_])", " ' ", text)
    text = re.sub(r"(?<=[^\W\d_])'(?=[^\W\d_])", " '", text)
    tokens: list[str] = []
    for word, following in itertools.pairwise((*text.split(), "")):
        stem = word[:-1]
        if word.endswith(".") and stem and not word.endswith("..") and not _keeps_period(stem, following):
            tokens += (stem, ".")
        else:
            tokens.append(word)
    return tokens


def _keeps_period(stem: str, following: str) -> bool:
    if not following:
        return False
    is_initialism = "." in stem and re.search(r"[^\W\d_]", stem) is not None
    is_initial = len(stem) == 1 and stem.isupper()
    return is_initialism or is_initial or stem in _ABBREVIATIONS or following[0].islower()


def parse_labels(line: str) -> list[dict[str, Any]]:
    """
    Read the labels of one document as the files of the test set have them.

    Args:
        line (`str`):
            `position:candidate,candidate,…`, separated by tabs; a tab may stand at the end.

    Returns:
        `list[dict]`: `pos` and `candidates` of each label, in order.

    Raises:
        `ValueError`: for a label without a position.
    """
    labels = []
    for label in line.rstrip("\r\n").split("\t"):
        if not label:
            continue
        position, colon, candidates = label.partition(":")
        if not colon or not position.isdecimal():
            raise ValueError(
                f"a label must be the index of a token, a colon and candidates, such as '5:reported,covered', got "
                f"{label!r}."
            )
        labels.append({"pos": int(position), "candidates": candidates.split(",")})
    return labels


def check_labels(documents: Sequence[LabelledDocument], names: Sequence[str] | None = None) -> None:
    """
    Require the labels of the test set.

    Args:
        documents (`Sequence[Mapping]`):
            Records with `phenomenon` (`tense`, `conjunction` or `pronoun`), `tgt_tok` (the tokenised reference
            document) and `labels`, a list of `{"pos": index of a token, "candidates": [...]}`.
        names (`Sequence[str]`, *optional*):
            What to call the documents in an error; their numbers from 0 by default.

    Raises:
        `ValueError`: naming the document, and what it lacks.
    """
    for index, document in enumerate(documents):
        name = repr(names[index]) if names is not None else str(index)
        missing = [key for key in ("phenomenon", "tgt_tok", "labels") if key not in document]
        if missing:
            raise ValueError(
                f"document {name} has no `{missing[0]}`: {', '.join(TCP_MEASURES)} need the labelled test set of Sun "
                "et al., whose records hold `phenomenon`, `tgt_tok` and `labels`. Leave them out for other test sets."
            )
        if document["phenomenon"] not in PHENOMENA.values():
            raise ValueError(
                f"document {name}: `phenomenon` must be one of {', '.join(map(repr, PHENOMENA.values()))}, got "
                f"{document['phenomenon']!r}."
            )
        tokens = len(document["tgt_tok"].split())
        for label in document["labels"]:
            if not 0 <= label["pos"] < tokens:
                raise ValueError(
                    f"document {name}: a label stands at position {label['pos']}, but `tgt_tok` has {tokens} tokens. "
                    "Labels and tokenised reference do not belong together."
                )


def is_hit(position: int, candidates: Sequence[str], hypothesis: Sequence[str], reference_tokens: int) -> bool:
    """
    Whether one of the candidates of a label occurs around its place.

    Args:
        position (`int`):
            Token of the reference that the label stands at, from 0.
        candidates (`Sequence[str]`):
            Words, or several words joined by blanks.
        hypothesis (`Sequence[str]`):
            Tokens of the translated document.
        reference_tokens (`int`):
            Number of tokens of the reference document.
    """
    # in floating point as the released scorer has it, where 7 * (122 / 14) is less than 61
    place = int(position * (len(hypothesis) / reference_tokens))
    window = hypothesis[max(place - WINDOW, 0) : place + WINDOW]
    text = " ".join(window)
    return any(candidate in (text if " " in candidate else window) for candidate in candidates if candidate.strip())


def tcp_statistics(
    hypotheses: Documents, documents: Sequence[LabelledDocument], *, is_tokenized: bool = False
) -> np.ndarray:
    """
    Count hits and labels of each document; the score of a set of documents depends on the sums alone.

    Args:
        hypotheses (`Sequence[Sequence[str]]`):
            D translated documents as lists of sentences; their numbers of sentences do not matter.
        documents (`Sequence[Mapping]`):
            The D labelled documents (see `check_labels`).
        is_tokenized (`bool`, *optional*, defaults to `False`):
            The hypotheses are tokenised like the references already.

    Returns:
        `np.ndarray` of shape `(D, 6)`, int64: hits and labels of tense, conjunction, pronoun.
    """
    statistics = np.zeros((len(documents), len(PHENOMENA), 2), dtype=np.int64)
    for row, sentences, document in zip(statistics, hypotheses, documents, strict=True):
        tokens = [token for text in sentences for token in (text.split() if is_tokenized else tokenize_english(text))]
        reference_tokens = len(document["tgt_tok"].split())
        hits = sum(is_hit(label["pos"], label["candidates"], tokens, reference_tokens) for label in document["labels"])
        row[list(PHENOMENA.values()).index(document["phenomenon"])] = hits, len(document["labels"])
    return statistics.reshape(len(documents), -1)


def tcp_scores(measure: str, sums: np.ndarray) -> np.ndarray:
    """
    Score R sets of documents from the sums of their `tcp_statistics`.

    Args:
        measure (`str`):
            `"TCP"`, `"TC"`, `"CP"` or `"PT"`.
        sums (`np.ndarray` of shape `(R, 6)`):
            Sums over the documents of each set.

    Returns:
        `np.ndarray` of shape `(R,)`: percent; NaN where a phenomenon that counts has no label.
    """
    hits, labels = sums[:, 0::2], sums[:, 1::2]  # (R, 3)
    rates = np.divide(100.0 * hits, labels, out=np.full(hits.shape, np.nan), where=labels > 0)
    if measure == "TCP":
        return rates.prod(axis=1) ** (1 / len(PHENOMENA))
    return rates[:, list(PHENOMENA).index(measure)]


def tcp_entry(measure: str, sums: np.ndarray, *, is_tokenized: bool = False) -> dict[str, Any]:
    """
    Report a measure on all documents.

    Args:
        measure (`str`):
            `"TCP"`, `"TC"`, `"CP"` or `"PT"`.
        sums (`np.ndarray` of shape `(6,)`):
            Sums of `tcp_statistics`.

    Returns:
        `dict`: JSON-able: `score` in percent, None without labels; for TCP the three rates `TC`, `CP` and `PT`; `hits`
        and `labels` by phenomenon; `signature`.
    """
    rates = {name: _rounded(tcp_scores(name, sums[None])[0]) for name in TCP_MEASURES}
    hits, labels = (dict(zip(PHENOMENA, sums[start::2].tolist(), strict=True)) for start in (0, 1))
    tokenizer = "none" if is_tokenized else "moses-like"
    signature = f"{measure}|case:mixed|tok:{tokenizer}|window:{WINDOW}|version:{DEFINITION}"
    if measure == "TCP":
        parts = {name: rates[name] for name in PHENOMENA}
        return {"score": rates["TCP"], "signature": signature, **parts, "hits": hits, "labels": labels}
    return {"score": rates[measure], "signature": signature, "hits": hits[measure], "labels": labels[measure]}


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
