"""All measures by name: what they count in each document, what they score, and what they report."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from .comet_score import COMET_MEASURE, check_comet, comet_entry, comet_scores, comet_statistics
from .documents import Documents, check_counts, check_sources
from .lexical import check_blanks, consistency_entry, consistency_scores, consistency_statistics
from .pronouns import (
    FORMALITY_F1,
    PRONOUN_F1,
    check_languages,
    pronoun_entry,
    pronoun_scores,
    pronoun_statistics,
)
from .surface import MEASURES, surface_entry, surface_scores, surface_statistics
from .taggers import load_tagger
from .tcp_score import TCP_MEASURES, LabelledDocument, check_labels, tcp_entry, tcp_scores, tcp_statistics


PRONOUN_MEASURES = {measure.name: measure for measure in (PRONOUN_F1, FORMALITY_F1)}
CONSISTENCY_MEASURE = "lexical-consistency"
# computed where they are asked for: each needs more than hypotheses and references
DISCOURSE_MEASURES = (*PRONOUN_MEASURES, *TCP_MEASURES, CONSISTENCY_MEASURE)
ALL_MEASURES = (*MEASURES, *DISCOURSE_MEASURES, COMET_MEASURE)
# all others are the better, the higher they are
LOWER_IS_BETTER = ("TER",)


@dataclasses.dataclass(frozen=True)
class MeasureInputs:
    """
    What discourse measures and COMET read beside hypotheses and references.

    Args:
        sources (`Sequence[Sequence[str]]`, *optional*):
            Source documents, for pronoun-F1, formality-F1, lexical-consistency and COMET.
        source_lang (`str`, *optional*):
            Their language; pronoun-F1 and formality-F1 need to know that it is English.
        tagger (`str`, *optional*, defaults to `"hanta"`):
            Finds pronouns: `"hanta"`, `"spacy"` or `"none"` (see `training.metrics.taggers`).
        labels (`Sequence[Mapping]`, *optional*):
            Records of the labelled test set, for TCP, TC, CP and PT (see `training.metrics.tcp_score`).
        is_tokenized (`bool`, *optional*, defaults to `False`):
            Hypotheses are tokenised like the references of the labelled test set already.
        comet (`str`, *optional*):
            Path of a COMET checkpoint, a `.ckpt` file or a folder that holds one, for COMET (see
            `training.metrics.comet_score`).
        comet_command (`str`, *optional*):
            Command that scores with it; `comet-score` on PATH by default.
    """

    sources: Documents | None = None
    source_lang: str | None = None
    tagger: str = "hanta"
    labels: Sequence[LabelledDocument] | None = None
    is_tokenized: bool = False
    comet: str | None = None
    comet_command: str | None = None


@dataclasses.dataclass(frozen=True)
class Measured:
    """
    What a measure says of one system.

    Args:
        entry (`dict`):
            `score` (None where undefined), `signature` and, of discourse measures, what the score is made of;
            JSON-able.
        statistics (`np.ndarray` of shape `(D, K)`):
            Counts of each document, from whose sums the score of any set of documents follows (`scores_from_sums`).
    """

    entry: dict[str, Any]
    statistics: np.ndarray


def check_measure(
    measure: str,
    references: Documents,
    target_lang: str | None,
    inputs: MeasureInputs,
    names: Sequence[str] | None = None,
) -> None:
    """
    Require what a measure needs, before anything is translated or counted.

    Raises:
        `ValueError`: for an unknown measure, and for documents, languages or taggers that it cannot do with.
    """
    if measure not in ALL_MEASURES:
        raise ValueError(f"`measure` must be one of {', '.join(map(repr, ALL_MEASURES))}, got {measure!r}.")
    if measure in MEASURES:
        return
    if measure in TCP_MEASURES:
        if inputs.labels is None or len(inputs.labels) != len(references):
            raise ValueError(
                f"{measure} needs the labels of each document in `inputs.labels`: got "
                f"{'none' if inputs.labels is None else len(inputs.labels)} for {len(references)} documents."
            )
        check_labels(inputs.labels, names)
        return
    if measure in PRONOUN_MEASURES:
        check_languages(measure, inputs.source_lang, target_lang)
        load_tagger(inputs.tagger)
    elif measure == COMET_MEASURE:
        check_comet(inputs.comet, inputs.comet_command)
    else:
        check_blanks(inputs.source_lang, target_lang)
    if inputs.sources is None:
        raise ValueError(f"{measure} reads the source beside its translation: give it in `inputs.sources`.")
    check_sources(inputs.sources, references, names)


def document_statistics(
    hypotheses: Documents,
    references: Documents,
    measure: str,
    target_lang: str | None = None,
    inputs: MeasureInputs | None = None,
) -> np.ndarray:
    """
    Count what a measure needs to know of each document; the score of a set of documents depends on the sums alone.

    Args:
        hypotheses, references (`Sequence[Sequence[str]]`):
            D documents as lists of sentences, with equal counts.
        measure (`str`):
            One of `ALL_MEASURES`.
        target_lang (`str`, *optional*):
            Language of the references.
        inputs (`MeasureInputs`, *optional*):
            What discourse measures read beside them.

    Returns:
        `np.ndarray` of shape `(D, K)`, as the module of the measure describes it.
    """
    inputs = inputs or MeasureInputs()
    check_measure(measure, references, target_lang, inputs)
    if measure in PRONOUN_MEASURES:
        tagger = load_tagger(inputs.tagger)
        return pronoun_statistics(PRONOUN_MEASURES[measure], inputs.sources or (), hypotheses, references, tagger)
    if measure in TCP_MEASURES:
        return tcp_statistics(hypotheses, inputs.labels or (), is_tokenized=inputs.is_tokenized)
    if measure == CONSISTENCY_MEASURE:
        return consistency_statistics(inputs.sources or (), hypotheses, references)
    if measure == COMET_MEASURE:
        return comet_statistics(inputs.sources or (), hypotheses, references, inputs.comet, inputs.comet_command)
    return surface_statistics(hypotheses, references, measure, target_lang)


def scores_from_sums(sums: np.ndarray, measure: str) -> np.ndarray:
    """
    Score R sets of documents from the sums of their `document_statistics`.

    Args:
        sums (`np.ndarray` of shape `(R, K)`):
            Sums over the documents of each set.
        measure (`str`):
            One of `ALL_MEASURES`.

    Returns:
        `np.ndarray` of shape `(R,)`: scores, NaN where a discourse measure has nothing to count. Those of BLEU, chrF
        and TER equal sacreBLEU's.
    """
    if measure in PRONOUN_MEASURES:
        return pronoun_scores(PRONOUN_MEASURES[measure], sums)
    if measure in TCP_MEASURES:
        return tcp_scores(measure, sums)
    if measure == CONSISTENCY_MEASURE:
        return consistency_scores(sums)
    if measure == COMET_MEASURE:
        return comet_scores(sums)
    return surface_scores(sums, measure)


def _entry(sums: np.ndarray, measure: str, target_lang: str | None, inputs: MeasureInputs) -> dict[str, Any]:
    if measure in PRONOUN_MEASURES:
        return pronoun_entry(PRONOUN_MEASURES[measure], sums, load_tagger(inputs.tagger))
    if measure in TCP_MEASURES:
        return tcp_entry(measure, sums, is_tokenized=inputs.is_tokenized)
    if measure == CONSISTENCY_MEASURE:
        return consistency_entry(sums)
    if measure == COMET_MEASURE:
        return comet_entry(sums, inputs.comet, inputs.comet_command)
    return surface_entry(sums, measure, target_lang)


def measure_documents(
    hypotheses: Documents,
    references: Documents,
    target_lang: str | None = None,
    *,
    measures: Sequence[str] = MEASURES,
    names: Sequence[str] | None = None,
    inputs: MeasureInputs | None = None,
) -> dict[str, Measured]:
    """
    Score translated documents, and keep the counts of each document for the bootstrap.

    Args:
        hypotheses, references, target_lang, measures, names, inputs: As in `score_documents`.

    Returns:
        `dict[str, Measured]`: entry and counts of each measure, in the order asked for.

    Raises:
        `ValueError`: where counts differ (the document is named), for an unknown measure, or without any sentence.
    """
    inputs = inputs or MeasureInputs()
    check_counts(hypotheses, references, names)
    # what is missing for the last measure is said before the first is counted
    for measure in measures:
        check_measure(measure, references, target_lang, inputs, names)
    measured = {}
    for measure in measures:
        statistics = document_statistics(hypotheses, references, measure, target_lang, inputs)
        entry = _entry(statistics.sum(axis=0), measure, target_lang, inputs)
        measured[measure] = Measured(entry, statistics)
    return measured


def score_documents(
    hypotheses: Documents,
    references: Documents,
    target_lang: str | None = None,
    *,
    measures: Sequence[str] = MEASURES,
    names: Sequence[str] | None = None,
    inputs: MeasureInputs | None = None,
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
            What to compute, of `ALL_MEASURES`. TER takes longer than BLEU and chrF together; leave it out in training.
        names (`Sequence[str]`, *optional*):
            What to call the documents in an error.
        inputs (`MeasureInputs`, *optional*):
            What discourse measures read beside hypotheses and references.

    Returns:
        `dict[str, dict]`: for each measure `{"score": float, "signature": str}`, in the order asked for; JSON-able.
        BLEU and chrF run from 0 to 100, TER from 0 (the best) up. Discourse measures are percentages, None where there
        is nothing to count, and add what their score is made of.

    Raises:
        `ValueError`: where counts differ (the document is named), for an unknown measure, or without any sentence.
    """
    measured = measure_documents(hypotheses, references, target_lang, measures=measures, names=names, inputs=inputs)
    return {measure: found.entry for measure, found in measured.items()}


def score_pronouns(
    sources: Documents,
    hypotheses: Documents,
    references: Documents,
    *,
    source_lang: str = "en",
    target_lang: str = "de",
    tagger: str = "hanta",
) -> dict[str, Any]:
    """
    Compute pronoun F1: the translations of "it" by gender.

    Args:
        sources, hypotheses, references (`Sequence[Sequence[str]]`):
            Documents as lists of sentences, detokenised, sentence i of each beside sentence i of the others.
        source_lang, target_lang (`str`, *optional*, default to `"en"` and `"de"`):
            Languages; there is no other pair.
        tagger (`str`, *optional*, defaults to `"hanta"`):
            `"hanta"`, `"spacy"` or `"none"` (see `training.metrics.taggers`).

    Returns:
        `dict`: `score`, `precision`, `recall`, `classes`, `sentences`, `blonde_weights` and `signature` (see
        `training.metrics.pronouns`).

    Raises:
        `ValueError`: for different counts, other languages, no sentence, or a tagger that is not installed.
    """
    inputs = MeasureInputs(sources=sources, source_lang=source_lang, tagger=tagger)
    return _score_one(PRONOUN_F1.name, hypotheses, references, target_lang, inputs)


def score_formality(
    sources: Documents,
    hypotheses: Documents,
    references: Documents,
    *,
    source_lang: str = "en",
    target_lang: str = "de",
    tagger: str = "hanta",
) -> dict[str, Any]:
    """
    Compute formality F1: the translations of "you" by "Sie" or "du".

    Args:
        sources, hypotheses, references, source_lang, target_lang, tagger: As in `score_pronouns`.

    Returns:
        `dict`: as `score_pronouns` does.

    Raises:
        `ValueError`: for different counts, other languages, no sentence, or a tagger that is not installed.
    """
    inputs = MeasureInputs(sources=sources, source_lang=source_lang, tagger=tagger)
    return _score_one(FORMALITY_F1.name, hypotheses, references, target_lang, inputs)


def score_lexical_consistency(
    sources: Documents,
    hypotheses: Documents,
    references: Documents,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
) -> dict[str, Any]:
    """
    Compute lexical consistency: the share of repeated source terms with one translation throughout their document.

    Args:
        sources, hypotheses, references (`Sequence[Sequence[str]]`):
            Documents as lists of sentences, detokenised, sentence i of each beside sentence i of the others.
        source_lang, target_lang (`str`, *optional*):
            Languages, to refuse those that are written without blanks.

    Returns:
        `dict`: `score`, `score_of_translated`, counts, `reference` and `signature` (see `training.metrics.lexical`).

    Raises:
        `ValueError`: for different counts, no sentence, or a language written without blanks.
    """
    inputs = MeasureInputs(sources=sources, source_lang=source_lang)
    return _score_one(CONSISTENCY_MEASURE, hypotheses, references, target_lang, inputs)


def score_tcp(
    hypotheses: Documents, documents: Sequence[LabelledDocument], *, is_tokenized: bool = False
) -> dict[str, Any]:
    """
    Compute TCP on the labelled test set of Sun et al.

    Args:
        hypotheses (`Sequence[Sequence[str]]`):
            Translated documents as lists of sentences; their numbers of sentences do not matter.
        documents (`Sequence[Mapping]`):
            Records of the test set: `phenomenon`, `tgt_tok`, `labels` (see `training.metrics.tcp_score`).
        is_tokenized (`bool`, *optional*, defaults to `False`):
            The hypotheses are tokenised like `tgt_tok` already.

    Returns:
        `dict`: `score`, `TC`, `CP`, `PT`, `hits`, `labels` and `signature`.

    Raises:
        `ValueError`: for different numbers of documents, none at all, or records without labels.
    """
    if len(hypotheses) != len(documents) or not documents:
        raise ValueError(
            f"there are {len(hypotheses)} hypothesis documents and {len(documents)} labelled documents. Give one "
            "hypothesis for each of them, in the same order, and one document at least."
        )
    check_labels(documents)
    statistics = tcp_statistics(hypotheses, documents, is_tokenized=is_tokenized)
    return tcp_entry("TCP", statistics.sum(axis=0), is_tokenized=is_tokenized)


def _score_one(
    measure: str, hypotheses: Documents, references: Documents, target_lang: str | None, inputs: MeasureInputs
) -> dict[str, Any]:
    return score_documents(hypotheses, references, target_lang, measures=(measure,), inputs=inputs)[measure]
