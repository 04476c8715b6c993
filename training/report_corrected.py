"""The table of two systems in all measures, with p-values as they are and corrected for their number."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .claims_corrected import Correction, Difference
from .metrics import LOWER_IS_BETTER
from .report_cells import Cell, Column, Table, difference_cell


def corrected_table(correction: Correction) -> Table:
    """The differences, with the p-values as they are and corrected."""
    columns = [
        Column("measure", is_text=True),
        Column("data", is_text=True),
        Column("difference"),
        Column("p"),
        Column("corrected p", note="Holm"),
        *(Column("difference", note="another seed") for _ in correction.repeats),
    ]

    def difference(found: Mapping[str, Any] | None, measure: str) -> Cell:
        # what is clear is said by p, not by an interval that knows nothing of the others
        return Cell("-") if found is None else replace(difference_cell({**found, "p_value": None}, measure), sign="")

    def line(one: Difference, corrected: str) -> list[Cell]:
        note = "lower is better" if one.measure in LOWER_IS_BETTER else ""
        p_values = [Cell(f"{one.found['p_value']:.3f}"), Cell(corrected)]
        repeats = [difference(repeat.get((one.measure, one.data)), one.measure) for repeat in correction.repeats]
        return [Cell(one.measure, note), Cell(one.data), difference(one.found, one.measure), *p_values, *repeats]

    blocks = []
    if correction.named is not None:
        blocks.append(("named beforehand", [line(correction.named, "as it is")]))
    corrected = correction.corrected
    lines = [line(one, f"{corrected[one.measure, one.data]:.3f}") for one in correction.others]
    blocks.append((f"all others, {len(lines)} comparisons", lines))
    note = (
        "One measure was named before the systems were compared, and its p-value stands for itself. Of many others "
        "some would differ by chance alone: their p-values are corrected for their number (Holm). Scores: paired "
        "bootstrap over documents; accuracy: draws of items. A single training of each system stands behind all"
        + (", and another one with a seed of its own behind each further column." if correction.repeats else ".")
    )
    return Table(f"{correction.system} less {correction.baseline}, all measures", columns, blocks, note)
