"""Scores of translations on a card: a table of them, how sure they are, and their signatures."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.metrics import LOWER_IS_BETTER, MEASURES
from training.metrics.comet_score import COMET_MEASURE
from training.report_cells import interval_text, number
from training.report_markdown import markdown_table
from training.report_systems import SystemRow
from training.report_tables import baseline_name, measures_of

from .card_results import CardResults


# the others are about what goes from sentence to sentence
TEXT_MEASURES = (*MEASURES, COMET_MEASURE)
# what they are, of those that few know
NOTES = {
    "d-BLEU": "s-BLEU counts sentence by sentence, d-BLEU a document as one line; they cannot be compared.",
    "pronoun-F1": "pronoun-F1: the pronouns that stand for *it*, against those of the reference.",
    "formality-F1": "formality-F1: the forms that stand for *you*, against those of the reference.",
    "lexical-consistency": "lexical-consistency: repeated source terms with one translation throughout, percent.",
    "TCP": "TCP: tenses (TC), conjunctions (CP) and pronouns (PT) as wanted, percent, and their geometric mean.",
}
README_MEASURES = (*TEXT_MEASURES, "pronoun-F1", "formality-F1")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> list[str]:
    """Lay out a table whose first `texts` columns hold text, and the others numbers; nothing without rows."""
    return markdown_table(header, rows, [column < texts for column in range(len(header))]) if rows else []


def names_of_test_sets(rows: Sequence[SystemRow]) -> dict[str, str]:
    """Names of the test sets of some rows by the hashes of their content, in the order of the results."""
    return {test_set.sha256: test_set.name for row in rows for test_set in row.test_sets}


def entry_on(row: SystemRow, sha256: str) -> Mapping[str, Any] | None:
    """What was measured of a row on the test set of this content."""
    return next((entry for test_set, entry in row.test_sets.items() if test_set.sha256 == sha256), None)


def _systems(found: CardResults, model_name: str, sha256: str) -> dict[str, Mapping[str, Any]]:
    """Entries of the model, of its baselines and of the others on a test set; a result of its own beats a baseline."""
    labels = found.labels(model_name)
    of_model: dict[str, Mapping[str, Any]] = {}
    baselines: dict[str, Mapping[str, Any]] = {}
    of_others: dict[str, Mapping[str, Any]] = {}
    for row in (*found.model, *found.others):
        entry = entry_on(row, sha256)
        if entry is not None:
            is_model = any(row is other for other in found.model)
            (of_model if is_model else of_others)[labels[id(row)]] = entry
            if is_model:
                baselines |= {baseline_name(name): one for name, one in entry.get("baselines", {}).items()}
    return of_model | baselines | of_others


def score_table(
    found: CardResults, model_name: str, measures: Sequence[str], *, with_intervals: bool = True
) -> list[str]:
    """
    Lay out scores: for each test set the model, its baselines, and the other systems that have a score.

    Args:
        found (`CardResults`): Results.
        model_name (`str`): Name of the model.
        measures (`Sequence[str]`): Columns; those that the model does not have are left out.
        with_intervals (`bool`, *optional*, defaults to `True`): Put the intervals of the model behind its scores.
    """
    columns = [measure for measure in measures_of(found.model) if measure in measures]
    rows = []
    for sha256, name in names_of_test_sets(found.model).items():
        for system, entry in _systems(found, model_name, sha256).items():
            cells = [_score(entry, measure, with_intervals and "**" in system) for measure in columns]
            if any(cells):
                rows.append([name, system, *cells])
    header = ["test set", "system", *(f"{name} ↓" if name in LOWER_IS_BETTER else name for name in columns)]
    return table(header, rows, texts=2) if columns else []


def _score(entry: Mapping[str, Any], measure: str, with_interval: bool) -> str:
    score = entry["scores"].get(measure)
    # a measure of what does not occur has no value
    if score is None or score["score"] is None:
        return ""
    interval = entry.get("intervals", {}).get("measures", {}).get(measure, {}).get("interval")
    text = number(score["score"])
    return f"{text} ({interval_text(interval)})" if with_interval and interval else text


def difference_table(found: CardResults, model_name: str) -> list[str]:
    """Lay out the differences of the model from its baselines, one row each; `*` marks an interval clear of 0."""
    columns, lines = measures_of(found.model), []
    for row in found.model:
        for test_set, entry in row.test_sets.items():
            for name, baseline in entry.get("baselines", {}).items():
                differences = baseline.get("bootstrap", {}).get("measures", {})
                cells = [_difference(differences.get(measure)) for measure in columns]
                if any(cells):
                    lines.append([test_set.name, baseline_name(name), *cells])
    kept = [place for place in range(len(columns)) if any(line[place + 2] for line in lines)]
    header = ["test set", f"{model_name} less", *(columns[place] for place in kept)]
    return table(header, [[*line[:2], *(line[place + 2] for place in kept)] for line in lines], texts=2)


def _difference(difference: Mapping[str, Any] | None) -> str:
    # without an interval there was nothing to count in one of the two
    if difference is None or difference["difference"] is None or difference["interval"] is None:
        return ""
    low, high = difference["interval"]
    mark = "\\*" if low > 0 or high < 0 else ""
    interval = interval_text((low, high), 2, signed=True)
    return f"{number(difference['difference'], 2, signed=True)}{mark} ({interval})"


def bootstrap_resamples(found: CardResults) -> int | None:
    """Draws behind the intervals, where there are any."""
    for row in found.model:
        for entry in row.test_sets.values():
            for bootstrap in (entry.get("intervals"), *(b.get("bootstrap") for b in entry["baselines"].values())):
                if bootstrap and bootstrap.get("resamples"):
                    return bootstrap["resamples"]
    return None


def signature_lines(found: CardResults, measures: Sequence[str] | None = None) -> list[str]:
    """Name the signatures of the model's scores, one a line, with the measures that share it; of all by default."""
    names: dict[str, dict[str, None]] = {}
    for row in found.model:
        for entry in row.test_sets.values():
            for measure, score in entry["scores"].items():
                if measures is None or measure in measures:
                    names.setdefault(score["signature"], {})[measure] = None
    return [f"{', '.join(which)}: `{signature}`" for signature, which in names.items()]


def measure_notes(found: CardResults) -> list[str]:
    """Say what those of the model's measures are whose names do not."""
    return [NOTES[measure] for measure in measures_of(found.model) if measure in NOTES]
