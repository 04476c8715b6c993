"""The table of two systems in all measures, with p-values as they are and corrected for their number."""

import dataclasses

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
    ]

    def line(one: Difference, corrected: str) -> list[Cell]:
        # what is clear is said by p, not by an interval that knows nothing of the others
        cell = dataclasses.replace(difference_cell({**one.found, "p_value": None}, one.measure), sign="")
        note = "lower is better" if one.measure in LOWER_IS_BETTER else ""
        return [Cell(one.measure, note), Cell(one.data), cell, Cell(f"{one.found['p_value']:.3f}"), Cell(corrected)]

    blocks = []
    if correction.named is not None:
        blocks.append(("named beforehand", [line(correction.named, "as it is")]))
    corrected = correction.corrected
    lines = [line(one, f"{corrected[one.measure, one.data]:.3f}") for one in correction.others]
    blocks.append((f"all others, {len(lines)} comparisons", lines))
    note = (
        "One measure was named before the systems were compared, and its p-value stands for itself. Of many others "
        "some would differ by chance alone: their p-values are corrected for their number (Holm). Scores: paired "
        "bootstrap over documents; accuracy: draws of items. A single training of each system stands behind all."
    )
    return Table(f"{correction.system} less {correction.baseline}, all measures", columns, blocks, note)
