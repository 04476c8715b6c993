"""
Is a difference in score more than chance? Paired bootstrap resampling over documents.

The documents of the test set are drawn again and again, with replacement, as many as there are, and both systems are
scored on each draw (Koehn, 2004). The document is the unit, not the sentence: sentences of one document share its
subject and its words, and d-BLEU has no smaller unit. Scores of the draws come from the sums of each document's
n-gram counts, so 1,000 draws cost a matrix product; `tests/test_bootstrap.py` holds them to sacreBLEU's own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .metrics import Documents, build_metric, check_counts, metric_lines


BOOTSTRAP_MEASURES = ("s-BLEU", "d-BLEU", "chrF")
RESAMPLES = 1000
SEED = 12345
CONFIDENCE = 0.95
# draws that differ by less are tied; sums of counts are exact, their quotients are not
TIE = 1e-9


def document_statistics(
    hypotheses: Documents, references: Documents, measure: str, target_lang: str | None = None
) -> np.ndarray:
    """
    Count what a measure needs to know of each document; the score of a set of documents depends on the sums alone.

    Args:
        hypotheses, references (`Sequence[Sequence[str]]`):
            D documents as lists of sentences, with equal counts.
        measure (`str`):
            `"s-BLEU"`, `"d-BLEU"` or `"chrF"`.
        target_lang (`str`, *optional*):
            Language of the references.

    Returns:
        `np.ndarray` of shape `(D, K)`, int64. BLEU (K = 10): hypothesis length, reference length, matches of 4 n-gram
        orders, n-grams of 4 orders. chrF (K = 18): hypothesis n-grams, reference n-grams, matches, for 6 orders.
    """
    if measure not in BOOTSTRAP_MEASURES:
        raise ValueError(f"`measure` must be one of {', '.join(map(repr, BOOTSTRAP_MEASURES))}, got {measure!r}.")
    metric = build_metric(measure, target_lang)
    lines, reference_lines = metric_lines(hypotheses, measure), metric_lines(references, measure)
    # sacrebleu has no public name for the counts behind chrF
    of_lines = np.asarray(metric._extract_corpus_statistics(lines, [reference_lines]), dtype=np.int64)
    lines_of_documents = [1 if measure == "d-BLEU" else len(document) for document in references]
    statistics = np.zeros((len(references), of_lines.shape[1]), dtype=np.int64)
    np.add.at(statistics, np.repeat(np.arange(len(references)), lines_of_documents), of_lines)
    return statistics


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


def scores_from_sums(sums: np.ndarray, measure: str) -> np.ndarray:
    """
    Score R sets of documents from the sums of their `document_statistics`.

    Args:
        sums (`np.ndarray` of shape `(R, K)`):
            Sums over the documents of each set.
        measure (`str`):
            `"s-BLEU"`, `"d-BLEU"` or `"chrF"`.

    Returns:
        `np.ndarray` of shape `(R,)`: scores from 0 to 100, equal to sacreBLEU's.
    """
    return _chrf(sums) if measure == "chrF" else _bleu(sums)


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


def _interval(values: np.ndarray) -> list[float]:
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail])
    return [round(float(low), 4), round(float(high), 4)]


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
    measures: Sequence[str] = BOOTSTRAP_MEASURES,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> dict[str, Any]:
    """
    Find how far the score of one system depends on the choice of documents.

    Returns:
        `dict`: the setting (`unit`, `documents`, `resamples`, `seed`, `confidence`) and `measures`, which maps each
        measure to its `score` and the 95 % percentile `interval`.

    Raises:
        `ValueError`: for fewer than 2 documents, or different counts.
    """
    check_counts(hypotheses, references)
    draws = draw_documents(len(references), resamples, seed)
    results = {}
    for measure in measures:
        statistics = document_statistics(hypotheses, references, measure, target_lang)
        score = float(scores_from_sums(statistics.sum(axis=0, keepdims=True), measure)[0])
        interval = _interval(scores_from_sums(draws @ statistics, measure))
        results[measure] = {"score": round(score, 4), "interval": interval}
    return {**_setting(len(references), resamples, seed), "measures": results}


def compare_draws(difference: float, differences: np.ndarray) -> dict[str, Any]:
    """
    Sum up the differences of two systems over the draws.

    Args:
        difference (`float`):
            Score of the system less that of the baseline, on all documents.
        differences (`np.ndarray` of shape `(R,)`):
            The same for each draw.

    Returns:
        `dict`: `difference`, the 95 % percentile `interval`, the two-sided `p_value`, and in how many draws the system
        `wins`, `ties` and `loses`.

    The p-value is the share of draws at least as far from their own mean as the difference is from zero, the null
    hypothesis being that the two systems score the same on the population of documents; one draw is added to both
    counts, so that R draws never claim less than 1 / (R + 1). Two equal systems have p = 1.
    """
    far = np.abs(differences - differences.mean()) >= abs(difference) - TIE
    return {
        "difference": round(difference, 4),
        "interval": _interval(differences),
        "p_value": round(float((far.sum() + 1) / (len(differences) + 1)), 6),
        "wins": int((differences > TIE).sum()),
        "ties": int((np.abs(differences) <= TIE).sum()),
        "losses": int((differences < -TIE).sum()),
    }


def paired_bootstrap(
    hypotheses: Documents,
    baseline_hypotheses: Documents,
    references: Documents,
    target_lang: str | None = None,
    *,
    measures: Sequence[str] = BOOTSTRAP_MEASURES,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> dict[str, Any]:
    """
    Compare two systems on the same documents.

    Args:
        hypotheses, baseline_hypotheses, references (`Sequence[Sequence[str]]`):
            The same documents from the system, the baseline and the translators, as lists of sentences.
        target_lang (`str`, *optional*):
            Language of the references; it chooses BLEU's tokenizer.
        measures (`Sequence[str]`, *optional*, defaults to `("s-BLEU", "d-BLEU", "chrF")`):
            What to compare.
        resamples (`int`, *optional*, defaults to 1000):
            Number of draws.
        seed (`int`, *optional*, defaults to 12345):
            Seed of the draws.

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
        statistics = document_statistics(hypotheses, references, measure, target_lang)
        baseline = document_statistics(baseline_hypotheses, references, measure, target_lang)
        totals = np.stack((statistics.sum(axis=0), baseline.sum(axis=0)))
        score, baseline_score = (float(value) for value in scores_from_sums(totals, measure))
        differences = scores_from_sums(draws @ statistics, measure) - scores_from_sums(draws @ baseline, measure)
        results[measure] = {
            "score": round(score, 4),
            "baseline_score": round(baseline_score, 4),
            **compare_draws(score - baseline_score, differences),
        }
    return {**_setting(len(references), resamples, seed), "measures": results}
