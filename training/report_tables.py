"""Tables of trained systems: a summary, all scores, and the differences from baselines."""

from collections.abc import Iterable, Sequence
from typing import Any

from .metrics import ALL_MEASURES, LOWER_IS_BETTER
from .report_cells import NOTHING, Cell, Column, Table, difference_cell, interval_text, number
from .report_context import accuracy_cell, context_cell
from .report_results import suite_name
from .report_systems import Entry, SystemRow, TestSet


_BASELINES = {"copy": "copy of the source"}


def score_cell(entry: Entry, measure: str) -> Cell:
    """Score of a measure on a test set, and its interval."""
    score = entry["scores"].get(measure)
    if score is None:
        return NOTHING
    found = entry.get("intervals", {}).get("measures", {}).get(measure, {})
    return Cell(number(score["score"]), interval_text(found.get("interval")))


def measures_of(rows: Iterable[SystemRow]) -> list[str]:
    """Measures that any of the rows has, in the usual order."""
    found = dict.fromkeys(m for row in rows for entry in row.test_sets.values() for m in entry["scores"])
    return [m for m in ALL_MEASURES if m in found] + [m for m in found if m not in ALL_MEASURES]


def test_sets_of(rows: Iterable[SystemRow]) -> list[TestSet]:
    """Test sets of the rows, those first on which most rows are scored."""
    counts: dict[TestSet, int] = {}
    for row in rows:
        for test_set in row.test_sets:
            counts[test_set] = counts.get(test_set, 0) + 1
    return sorted(counts, key=lambda test_set: (-counts[test_set], test_set))


def test_set_label(test_set: TestSet, all_of_them: Sequence[TestSet]) -> str:
    """Name of a test set; where another one has the name, what tells them apart too."""
    same = [other for other in all_of_them if other.name == test_set.name]
    if len(same) == 1:
        return test_set.name
    return f"{test_set.name} ({test_set.documents} documents, {test_set.sha256[:8]})"


def baseline_name(name: str) -> str:
    """What to call a baseline."""
    return _BASELINES.get(name, name)


def _name_cells(row: SystemRow) -> list[Cell]:
    return [Cell(row.name, row.kind, anchor=row.anchor), Cell(row.setting)]


_NAME_COLUMNS = [
    Column("system", is_text=True),
    Column("decoding", is_text=True),
]


def summary_table(pair: str, rows: Sequence[SystemRow]) -> Table:
    """
    One row for each system and setting of decoding: what it cost, and the score that matters most of each kind.

    Args:
        pair (`str`): Languages.
        rows (`Sequence[SystemRow]`): Systems.
    """
    test_sets = test_sets_of(rows)
    suites = sorted({suite_name(entry) for row in rows for entry in row.suites})
    columns = [
        *_NAME_COLUMNS,
        Column("parameters (M)", note="millions"),
        Column("updates", "this run"),
        Column("CPU hours", "this run"),
    ]
    # the languages are in the heading
    labels = [test_set_label(test_set, test_sets).replace(f".{pair}", "") for test_set in test_sets]
    for measure in ("d-BLEU", "COMET"):
        columns += [Column(label, measure) for label in labels]
    columns += [Column(suite.replace(f".{pair}", ""), "contrastive accuracy, %") for suite in suites]
    columns += [Column(label, "right less shuffled context, nats a token") for label in labels]
    cells = []
    for row in rows:
        training, parameters = row.training or {}, _parameters(row)
        cpu = training.get("cpu_seconds")
        line = [
            *_name_cells(row),
            NOTHING if parameters is None else Cell(f"{parameters / 1e6:.2f}"),
            NOTHING if training.get("updates") is None else Cell(f"{training['updates']:,}"),
            Cell(number(None if cpu is None else cpu / 3600, 2)),
        ]
        for measure in ("d-BLEU", "COMET"):
            line += [
                score_cell(row.test_sets[test_set], measure) if test_set in row.test_sets else NOTHING
                for test_set in test_sets
            ]
        line += [_best_known(row, suite) for suite in suites]
        line += [context_cell(row.context_on(test_set), "right_less_shuffled") for test_set in test_sets]
        cells.append(line)
    return Table(pair, columns, [("", cells)]).without_empty_columns()


def _parameters(row: SystemRow) -> int | None:
    return row.model.get("parameters") or (row.training or {}).get("parameters")


def _best_known(row: SystemRow, suite: str) -> Cell:
    entries = [entry for entry in row.suites if suite_name(entry) == suite]
    return accuracy_cell(max(entries, key=lambda entry: entry["items"])) if entries else NOTHING


def scores_table(pair: str, rows: Sequence[SystemRow]) -> Table:
    """All scores with intervals, a block for each test set; baselines without a row of their own are there too."""
    measures, test_sets = measures_of(rows), test_sets_of(rows)
    group = "log-probability of the reference, nats a token"
    columns = [
        *_NAME_COLUMNS,
        *(Column(m, note="lower is better" if m in LOWER_IS_BETTER else "") for m in measures),
        Column("coverage, %", note="documents with as many sentences as they should have"),
        Column("right less shuffled context", group),
        Column("right less no context", group),
        Column("attention, %", note="on the aligned sentence"),
        Column("tokens/s", note="in decoding"),
    ]
    blocks = []
    for test_set in test_sets:
        scored = [row for row in rows if test_set in row.test_sets]
        lines = []
        for row in scored:
            entry, share = row.test_sets[test_set], row.share_on(test_set)
            coverage = entry.get("coverage", {}).get("score")
            lines.append(
                [
                    *_name_cells(row),
                    *(score_cell(entry, measure) for measure in measures),
                    Cell(number(coverage)),
                    *(
                        context_cell(row.context_on(test_set), name)
                        for name in ("right_less_shuffled", "right_less_none")
                    ),
                    Cell(number(share["share"]), f"{share['documents']} documents") if share else NOTHING,
                    Cell(number(entry.get("target_tokens_per_second"), 0)),
                ]
            )
        for name, entry in _lone_baselines(scored, test_set):
            rest = len(columns) - len(measures) - 2
            scores = [score_cell(entry, measure) for measure in measures]
            lines.append([Cell(baseline_name(name), "baseline"), NOTHING, *scores, *[NOTHING] * rest])
        heading = f"{test_set_label(test_set, test_sets)} · {test_set.documents} documents, "
        blocks.append((f"{heading}{test_set.sentences:,} sentences", lines))
    return Table(pair, columns, blocks).without_empty_columns()


def _lone_baselines(rows: Sequence[SystemRow], test_set: TestSet) -> list[tuple[str, Entry]]:
    def plain(entry: Entry) -> dict[str, Any]:
        return {measure: score["score"] for measure, score in entry["scores"].items()}

    # the scores of a row are those of its translations, whatever they are called elsewhere
    known = [plain(row.test_sets[test_set]) for row in rows]
    found: list[tuple[str, Entry]] = []
    for row in rows:
        for name, entry in row.test_sets[test_set].get("baselines", {}).items():
            scores = plain(entry)
            if not any(all(other.get(m, s) == s for m, s in scores.items()) for other in known):
                known.append(scores)
                found.append((name, entry))
    return found


def differences_table(pair: str, rows: Sequence[SystemRow]) -> Table:
    """Differences from baselines, from the paired bootstrap over documents."""
    measures, test_sets = measures_of(rows), test_sets_of(rows)
    columns = [*_NAME_COLUMNS, Column("less", is_text=True), *(Column(measure) for measure in measures)]
    blocks = []
    for test_set in test_sets:
        lines = []
        for row in rows:
            for name, baseline in row.test_sets.get(test_set, {}).get("baselines", {}).items():
                found = baseline.get("bootstrap", {}).get("measures", {})
                if found:
                    differences = [difference_cell(found.get(measure), measure) for measure in measures]
                    lines.append([*_name_cells(row), Cell(baseline_name(name)), *differences])
        if lines:
            blocks.append((test_set_label(test_set, test_sets), lines))
    return Table(pair, columns, blocks).without_empty_columns()
