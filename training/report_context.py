"""Tables of how systems use their context: contrastive suites, log-probabilities of references, and attention."""

from collections.abc import Sequence

from .contrastive_paired import compare_suites
from .report_cells import (
    MISSING,
    NOTHING,
    Cell,
    Column,
    Table,
    difference_cell,
    interval_text,
    number,
    wilson_interval,
)
from .report_results import suite_name
from .report_systems import Entry, OnData, SystemRow


# what other systems are compared with on contrastive suites: it sees no context
REFERENCE_SYSTEM = "sentence-level"


def accuracy_cell(entry: Entry) -> Cell:
    """Accuracy on a contrastive suite, and its interval."""
    return Cell(number(entry["accuracy"]), interval_text(wilson_interval(entry["correct"], entry["items"])))


def context_text(entry: Entry) -> str:
    """Sentences of context that a suite was scored with."""
    context = entry.get("context", {})
    return ", ".join(f"{context[side]} {side}" for side in ("source", "target", "right") if side in context) or MISSING


def distinct_suites(rows: Sequence[SystemRow]) -> list[tuple[SystemRow, Entry]]:
    """Entries of suites, each once: rows that differ in decoding alone share them."""
    found: list[tuple[SystemRow, Entry]] = []
    for row in rows:
        for entry in row.suites:
            if all(other is not entry for _, other in found):
                found.append((row, entry))
    return found


def suites_table(rows: Sequence[SystemRow]) -> Table:
    """All contrastive suites, a block each."""
    columns = [
        Column("system", is_text=True),
        Column("context", is_text=True, note="source, target and right sentences"),
        Column("accuracy, %"),
        Column("items"),
        Column("correct"),
        Column("ties", note="count as wrong"),
        Column("first minimum, %", note="accuracy where the first of the best counts"),
        Column("chance, %"),
        Column("items/s"),
    ]
    entries = distinct_suites(rows)
    blocks = [
        (name, [_suite_line(row, entry) for row, entry in entries if suite_name(entry) == name])
        for name in sorted({suite_name(entry) for _, entry in entries})
    ]
    return Table("Contrastive suites", columns, blocks)


def _suite_line(row: SystemRow, entry: Entry) -> list[Cell]:
    return [
        Cell(row.name, row.kind, anchor=row.anchor),
        Cell(context_text(entry)),
        accuracy_cell(entry),
        Cell(f"{entry['items']:,}"),
        Cell(f"{entry['correct']:,}"),
        Cell(f"{entry['ties']:,}"),
        Cell(number(entry.get("first_minimum_accuracy"))),
        Cell(number(entry.get("chance"))),
        Cell(number(entry.get("items_per_second"))),
    ]


def suite_differences_table(rows: Sequence[SystemRow]) -> Table:
    """Accuracy less that of the sentence-level system on the same items, where results say which items are right."""
    entries = [(row, entry) for row, entry in distinct_suites(rows) if "decisions" in entry]
    columns = [
        Column("system", is_text=True),
        Column("less", is_text=True),
        Column("accuracy, %"),
        Column("only this", note="items that only this system gets right"),
        Column("only the other"),
    ]
    blocks = []
    for name in sorted({suite_name(entry) for _, entry in entries}):
        of_suite = [(row, entry) for row, entry in entries if suite_name(entry) == name]
        base = next(((row, entry) for row, entry in of_suite if row.kind == REFERENCE_SYSTEM), None)
        lines = []
        for row, entry in of_suite:
            if base is None or entry is base[1] or any(entry[key] != base[1][key] for key in ("sha256", "items")):
                continue
            found = compare_suites(entry, base[1])
            counts = [Cell(f"{found[key]:,}") for key in ("only_this", "only_other")]
            name_cell = Cell(row.name, row.kind, anchor=row.anchor)
            lines.append([name_cell, Cell(base[0].name), difference_cell(found, "accuracy"), *counts])
        if lines:
            blocks.append((name, lines))
    note = (
        "Draws of items, with replacement; items of one film are drawn as if they had nothing to do with each other."
    )
    return Table("Contrastive suites, differences", columns, blocks, note)


def breakdown_tables(rows: Sequence[SystemRow]) -> list[Table]:
    """For each suite, the accuracy of each system by number of context sentences, and in the groups of each label."""
    found: dict[tuple[str, str], list[tuple[Cell, dict[str, Cell]]]] = {}
    for row, entry in distinct_suites(rows):
        parts = {
            f"by {label.replace('_', ' ')}": {str(group): _group_cell(counts) for group, counts in groups.items()}
            for label, groups in entry.get("breakdowns", {}).items()
        }
        if entry.get("curve"):
            curve = {str(point["context_sentences"]): _group_cell(point) for point in entry["curve"]}
            parts = {"by context sentences": curve, **parts}
        for label, cells in parts.items():
            found.setdefault((suite_name(entry), label), []).append((Cell(row.name, context_text(entry)), cells))
    tables = []
    for (suite, label), lines in found.items():
        groups = list(dict.fromkeys(group for _, cells in lines for group in cells))
        columns = [Column("system", is_text=True), *(Column(group) for group in groups)]
        rows_of_cells = [[name, *(cells.get(group, NOTHING) for group in groups)] for name, cells in lines]
        tables.append(Table(f"{suite}, {label}", columns, [("", rows_of_cells)]))
    return tables


def _group_cell(counts: Entry) -> Cell:
    return Cell(number(counts["accuracy"]), f"{counts['items']:,} items")


def context_cell(entry: Entry | None, name: str) -> Cell:
    """A difference of log-probabilities, and its interval."""
    found = (entry or {}).get(name)
    if found is None:
        return NOTHING
    return Cell(number(found["score"], 3, signed=True), interval_text(found.get("interval"), 3, signed=True))


def _distinct(pairs: Sequence[tuple[SystemRow, OnData]]) -> dict[str, list[tuple[SystemRow, Entry]]]:
    """By test set, entries that rows share, each once."""
    found: dict[str, list[tuple[SystemRow, Entry]]] = {}
    for row, on_data in pairs:
        entries = found.setdefault(on_data.name, [])
        if all(entry is not on_data.entry for _, entry in entries):
            entries.append((row, on_data.entry))
    return found


def context_table(rows: Sequence[SystemRow]) -> Table:
    """Log-probabilities of references with the right context, with another and with none, a block a test set."""
    log_probability, less = "log-probability, nats a token", "right context less"
    columns = [
        Column("system", is_text=True),
        Column("context", is_text=True, note="source and target sentences"),
        Column("sentences"),
        *(Column(name, log_probability) for name in ("right", "shuffled", "none")),
        Column("shuffled context", less),
        Column("no context", less),
    ]
    blocks = []
    for name, entries in _distinct([(row, found) for row in rows for found in row.contexts]).items():
        lines = [
            [
                Cell(row.name, row.kind, anchor=row.anchor),
                Cell(context_text(entry)),
                Cell(f"{entry['sentences']:,}"),
                *(Cell(number(entry["log_probability"].get(way), 3)) for way in ("right", "shuffled", "none")),
                *(context_cell(entry, f"right_less_{way}") for way in ("shuffled", "none")),
            ]
            for row, entry in entries
        ]
        blocks.append((name, lines))
    note = "References in their own context, in that of other documents, and by themselves: above 0, context helps."
    return Table("What context is worth", columns, blocks, note)


def attention_table(rows: Sequence[SystemRow]) -> Table:
    """How much attention goes to the aligned source sentence, layer by layer, a block a test set."""
    found = _distinct([(row, on_data) for row in rows for on_data in row.shares])
    layers = max((len(entry["share_per_layer"]) for entries in found.values() for _, entry in entries), default=0)
    columns = [
        Column("system", is_text=True),
        Column("documents"),
        Column("queries"),
        Column("share, %"),
        *(Column(f"layer {layer + 1}", "decoder") for layer in range(layers)),
    ]
    blocks = []
    for name, entries in found.items():
        lines = []
        for row, entry in entries:
            shares = [Cell(number(share)) for share in entry["share_per_layer"]]
            counts = [Cell(f"{entry[key]:,}") for key in ("documents", "queries")]
            name_cell = Cell(row.name, row.kind, anchor=row.anchor)
            rest = [NOTHING] * (layers - len(shares))
            lines.append([name_cell, *counts, Cell(number(entry["share"])), *shares, *rest])
        blocks.append((name, lines))
    note = "Mean over heads and layers of cross-attention and over queries, while a model reads its own translation."
    return Table("Attention on the aligned source sentence", columns, blocks, note)
