"""Cells and tables of a report, as data that HTML and Markdown are made of."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .metrics import LOWER_IS_BETTER


MISSING = "-"
# of a normal distribution, for intervals of 95 %
_Z = 1.959964

Sign = Literal["", "better", "worse", "unclear"]


@dataclasses.dataclass(frozen=True)
class Cell:
    """
    A cell.

    Args:
        text (`str`): What it says.
        detail (`str`, *optional*): Smaller, beneath: an interval, counts.
        sign (`str`, *optional*): Of a difference: whether it is `better`, `worse`, or `unclear`.
        anchor (`str`, *optional*): Name of the place on the page that it leads to.
    """

    text: str
    detail: str = ""
    sign: Sign = ""
    anchor: str = ""

    @property
    def is_missing(self) -> bool:
        return self.text == MISSING and not self.detail


NOTHING = Cell(MISSING)


@dataclasses.dataclass(frozen=True)
class Column:
    """A column: its name, the heading that it shares with its neighbours, whether it holds text, and what it says."""

    name: str
    group: str = ""
    is_text: bool = False
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """
    A table.

    Args:
        title (`str`): Its heading.
        columns (`list[Column]`): Columns.
        blocks (`list[tuple[str, list[list[Cell]]]]`): Rows in blocks, each with a heading, which may be empty.
        note (`str`, *optional*): What a reader must know.
    """

    title: str
    columns: list[Column]
    blocks: list[tuple[str, list[list[Cell]]]]
    note: str = ""

    def without_empty_columns(self) -> "Table":
        """The table without the columns of numbers that no row has."""
        rows = [row for _, block in self.blocks for row in block]
        kept = [
            index
            for index, column in enumerate(self.columns)
            if column.is_text or any(not row[index].is_missing for row in rows)
        ]
        blocks = [(heading, [[row[index] for index in kept] for row in block]) for heading, block in self.blocks]
        return dataclasses.replace(self, columns=[self.columns[index] for index in kept], blocks=blocks)


def number(value: float | None, decimals: int = 1, *, signed: bool = False) -> str:
    """A number with a fixed number of decimals, `-` where there is none."""
    if value is None:
        return MISSING
    return f"{value:+.{decimals}f}" if signed else f"{value:,.{decimals}f}"


def interval_text(interval: Sequence[float] | None, decimals: int = 1, *, signed: bool = False) -> str:
    """An interval as `6.9 – 12.4`, empty where there is none."""
    return " – ".join(number(end, decimals, signed=signed) for end in interval) if interval else ""


def wilson_interval(correct: int, items: int) -> tuple[float, float] | None:
    """
    The 95 % score interval of a share, in percent.

    Source: Wilson (1927), "Probable Inference, the Law of Succession, and Statistical Inference".
    """
    if not items:
        return None
    share, z2 = correct / items, _Z**2
    centre = (share + z2 / (2 * items)) / (1 + z2 / items)
    half = _Z / (1 + z2 / items) * math.sqrt(share * (1 - share) / items + z2 / (4 * items**2))
    return 100 * (centre - half), 100 * (centre + half)


def difference_cell(found: Mapping[str, Any] | None, measure: str) -> Cell:
    """A difference with interval and p, and whether it is clear of zero."""
    if found is None or found["difference"] is None or found["interval"] is None:
        return NOTHING
    low, high = found["interval"]
    sign: Sign = "unclear"
    if low > 0 or high < 0:
        sign = "better" if (low > 0) != (measure in LOWER_IS_BETTER) else "worse"
    p_value = "" if found["p_value"] is None else f", p {found['p_value']:.3f}"
    detail = interval_text(found["interval"], 2, signed=True) + p_value
    return Cell(number(found["difference"], 2, signed=True), detail, sign)
