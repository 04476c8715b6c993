"""
Is a difference in score more than chance? Paired bootstrap resampling over documents.

The documents of the test set are drawn again and again, with replacement, as many as there are, and both systems are
scored on each draw (Koehn, 2004). The document is the unit, not the sentence: sentences of one document share its
subject and its words, and d-BLEU has no smaller unit. Scores of the draws come from the sums of each document's
counts, so 1,000 draws cost a matrix product; `tests/test_bootstrap.py` holds those of BLEU, chrF and TER to
sacreBLEU's own. What is learned from a whole test set, the table of lexical consistency, is not learned anew for a
draw.

A discourse measure can have nothing to count in a draw, such as no pronoun. Such draws are left out of intervals and
p-values, and `undefined_draws` says how many there are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .metrics import (
    LOWER_IS_BETTER,
    MEASURES,
    Documents,
    MeasureInputs,
    check_counts,
    document_statistics,
    scores_from_sums,
)


RESAMPLES = 1000
SEED = 12345
CONFIDENCE = 0.95
# draws that differ by less are tied; sums of counts are exact, their quotients are not
TIE = 1e-9


def draw_documents(documents: int, resamples: int = RESAMPLES, seed: int = SEED) -> np.ndarray:
    """
    Draw documents with replacement.

    Args:
        documents (`int`):
            Number of documents D, also the size of each draw; at least 2.
        resamples (`int`, *optional*, defaults to 1000):
            Number of draws R.
        seed (`int`, *optional*, defaults to 12345):
            Same seed and same D, same draws: systems scored in different calls meet the same documents.

    Returns:
        `np.ndarray` of shape `(R, D)`, int64: how often each document is in each draw; rows sum to D.
    """
    if documents < 2:
        raise ValueError(
            f"bootstrap resampling over documents needs at least 2 documents, got {documents}: a single one is the "
            "same in every draw. Score more documents, or leave the test out."
        )
    if resamples < 1:
        raise ValueError(f"`resamples` must be 1 or more, got {resamples}.")
    random = np.random.default_rng(seed)
    return random.multinomial(documents, np.full(documents, 1 / documents), size=resamples)


def _interval(values: np.ndarray) -> list[float] | None:
    if not len(values):
        return None
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail])
    return [round(float(low), 4), round(float(high), 4)]


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


def _undefined(values: np.ndarray) -> dict[str, int]:
    undefined = int(np.isnan(values).sum())
    return {"undefined_draws": undefined} if undefined else {}


def _setting(documents: int, resamples: int, seed: int) -> dict[str, Any]:
    return {
        "unit": "document",
        "documents": documents,
        "resamples": resamples,
        "seed": seed,
        "confidence": CONFIDENCE,
    }


def bootstrap_intervals(
    hypotheses: Documents,
    references: Documents,
    target_lang: str | None = None,
    *,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    inputs: MeasureInputs | None = None,
    statistics: Mapping[str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """
    Find how far the score of one system depends on the choice of documents.

    Args:
        hypotheses, references, target_lang, measures, resamples, seed, inputs: As in `paired_bootstrap`.
        statistics (`Mapping[str, np.ndarray]`, *optional*):
            `document_statistics` of the hypotheses by measure, where they are known already.

    Returns:
        `dict`: the setting (`unit`, `documents`, `resamples`, `seed`, `confidence`) and `measures`, which maps each
        measure to its `score` and the 95 % percentile `interval`, both None where the score is undefined.

    Raises:
        `ValueError`: for fewer than 2 documents, or different counts.
    """
    check_counts(hypotheses, references)
    draws = draw_documents(len(references), resamples, seed)
    results = {}
    for measure in measures:
        counts = _statistics(hypotheses, references, measure, target_lang, inputs, statistics)
        score = scores_from_sums(counts.sum(axis=0, keepdims=True), measure)[0]
        scores = scores_from_sums(draws @ counts, measure)
        results[measure] = {
            "score": _rounded(score),
            "interval": None if np.isnan(score) else _interval(scores[~np.isnan(scores)]),
            **_undefined(scores),
        }
    return {**_setting(len(references), resamples, seed), "measures": results}


def compare_draws(difference: float, differences: np.ndarray, *, is_lower_better: bool = False) -> dict[str, Any]:
    """
    Sum up the differences of two systems over the draws.

    Args:
        difference (`float`):
            Score of the system less that of the baseline, on all documents; NaN where one of the two is undefined.
        differences (`np.ndarray` of shape `(R,)`):
            The same for each draw.
        is_lower_better (`bool`, *optional*, defaults to `False`):
            The lower score wins, as with TER.

    Returns:
        `dict`: `difference`, the 95 % percentile `interval`, the two-sided `p_value`, and in how many draws the system
        `wins`, `ties` and `loses`; the first three are None where there is no difference, and draws without one, if
        any, are counted in `undefined_draws` alone.

    The p-value is the share of draws at least as far from their own mean as the difference is from zero, the null
    hypothesis being that the two systems score the same on the population of documents; one draw is added to both
    counts, so that R draws never claim less than 1 / (R + 1). Two equal systems have p = 1.
    """
    defined = differences[~np.isnan(differences)]
    higher, lower = int((defined > TIE).sum()), int((defined < -TIE).sum())
    wins, losses = (lower, higher) if is_lower_better else (higher, lower)
    result: dict[str, Any] = {"difference": None, "interval": None, "p_value": None}
    if len(defined) and not np.isnan(difference):
        far = np.abs(defined - defined.mean()) >= abs(difference) - TIE
        result = {
            "difference": round(float(difference), 4),
            "interval": _interval(defined),
            "p_value": round(float((far.sum() + 1) / (len(defined) + 1)), 6),
        }
    counts = {"wins": wins, "ties": len(defined) - wins - losses, "losses": losses}
    return {**result, **counts, **_undefined(differences)}


def holm(p_values: Sequence[float]) -> list[float]:
    """
    Correct p-values of several comparisons, so that the chance of even one false finding stays at the level.

    Args:
        p_values (`Sequence[float]`):
            One p-value each comparison, from 0 to 1.

    Returns:
        `list[float]`: corrected p-values in the same order, at most 1.

    Raises:
        `ValueError`: for what is no p-value.

    Source: Holm (1979), "A Simple Sequentially Rejective Multiple Test Procedure".
    """
    wrong = [p_value for p_value in p_values if not 0 <= p_value <= 1]
    if wrong:
        raise ValueError(f"`p_values` must be from 0 to 1, got {wrong[0]}.")
    corrected, largest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = largest
    return corrected


def paired_bootstrap(
    hypotheses: Documents,
    baseline_hypotheses: Documents,
    references: Documents,
    target_lang: str | None = None,
    *,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    inputs: MeasureInputs | None = None,
    statistics: Mapping[str, np.ndarray] | None = None,
    baseline_statistics: Mapping[str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """
    Compare two systems on the same documents.

    Args:
        hypotheses, baseline_hypotheses, references (`Sequence[Sequence[str]]`):
            The same documents from the system, the baseline and the translators, as lists of sentences.
        target_lang (`str`, *optional*):
            Language of the references; it chooses BLEU's tokenizer.
        measures (`Sequence[str]`, *optional*, defaults to `MEASURES`):
            What to compare, of `ALL_MEASURES`.
        resamples (`int`, *optional*, defaults to 1000):
            Number of draws.
        seed (`int`, *optional*, defaults to 12345):
            Seed of the draws.
        inputs (`MeasureInputs`, *optional*):
            What discourse measures read beside hypotheses and references.
        statistics, baseline_statistics (`Mapping[str, np.ndarray]`, *optional*):
            `document_statistics` of either system by measure, where they are known already.

    Returns:
        `dict`: the setting (`unit`, `documents`, `resamples`, `seed`, `confidence`) and `measures`, which maps each
        measure to `score`, `baseline_score` and what `compare_draws` says; JSON-able.

    Raises:
        `ValueError`: for fewer than 2 documents, or different counts.

    Source: Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation". There single sentences
    are drawn and the share of lost draws is the p-value; we draw documents and centre the draws.
    """
    check_counts(hypotheses, references)
    check_counts(baseline_hypotheses, references)
    draws = draw_documents(len(references), resamples, seed)
    results = {}
    for measure in measures:
        counts = _statistics(hypotheses, references, measure, target_lang, inputs, statistics)
        baseline = _statistics(baseline_hypotheses, references, measure, target_lang, inputs, baseline_statistics)
        score, baseline_score = scores_from_sums(np.stack((counts.sum(axis=0), baseline.sum(axis=0))), measure)
        differences = scores_from_sums(draws @ counts, measure) - scores_from_sums(draws @ baseline, measure)
        results[measure] = {
            "score": _rounded(score),
            "baseline_score": _rounded(baseline_score),
            **compare_draws(score - baseline_score, differences, is_lower_better=measure in LOWER_IS_BETTER),
        }
    return {**_setting(len(references), resamples, seed), "measures": results}


def _statistics(
    hypotheses: Documents,
    references: Documents,
    measure: str,
    target_lang: str | None,
    inputs: MeasureInputs | None,
    known: Mapping[str, np.ndarray] | None,
) -> np.ndarray:
    if known is not None and measure in known:
        return known[measure]
    return document_statistics(hypotheses, references, measure, target_lang, inputs)
