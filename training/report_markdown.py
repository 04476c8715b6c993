"""The tables of a report as Markdown, for files that are read beside the code, and for a block of a README."""

import re
from collections.abc import Sequence

from .claims_corrected import Correction
from .report_cells import Cell, Column, Table
from .report_claims import ClaimsView
from .report_html import SIGNS
from .report_results import Result
from .report_sections import Folded, Markup, Note, Part, report_sections, summary_note
from .report_systems import by_pair, system_rows
from .report_tables import summary_table
from .report_text import escape_markdown, markdown_table


__all__ = ["fill_block", "markdown_report", "markdown_table", "render_markdown", "summary_lines"]


def _cell(cell: Cell) -> str:
    shape = SIGNS[cell.sign][0] if cell.sign else ""
    detail = f" ({cell.detail})" if cell.detail else ""
    return escape_markdown(f"{cell.text}{f' {shape}' if shape else ''}{detail}")


def _heading(column: Column) -> str:
    return escape_markdown(f"{column.group}: {column.name}" if column.group else column.name)


def render_markdown(table: Table, *, level: int = 3) -> list[str]:
    """A table with its heading as lines of Markdown, a table of its own for each block; none without rows."""
    lines: list[str] = []
    for heading, rows in table.blocks:
        if rows:
            lines += [f"**{escape_markdown(heading)}**", ""] if heading else []
            cells = [[_cell(cell) for cell in row] for row in rows]
            texts = [column.is_text for column in table.columns]
            lines += [*markdown_table([_heading(column) for column in table.columns], cells, texts), ""]
    if not lines:
        return []
    note = [escape_markdown(table.note), ""] if table.note else []
    return ["#" * level + f" {escape_markdown(table.title)}", "", *note, *lines]


def _lines(tables: Sequence[Table], level: int = 3) -> list[str]:
    return [line for table in tables for line in render_markdown(table, level=level)]


def summary_lines(results: Sequence[Result], *, level: int = 3, source: str | None = None) -> list[str]:
    """
    The summary of trained systems, as it stands in a README.

    Args:
        results (`Sequence[Mapping]`): Contents of result files.
        level (`int`, *optional*, defaults to 3): Level of the headings.
        source (`str`, *optional*): File with intervals, signatures and recipes, to be named beneath.
    """
    pairs = by_pair(system_rows(results))
    tables = [summary_table(pair, of_pair) for pair, of_pair in pairs.items()]
    return [*_lines(tables, level), summary_note(results, source)]


def _part(part: Part) -> list[str]:
    if isinstance(part, Table):
        return render_markdown(part)
    if isinstance(part, Folded):
        return _lines(part.tables)
    if isinstance(part, Note):
        return [escape_markdown(part.text), ""]
    return [*part.markdown, ""] if isinstance(part, Markup) and part.markdown else []


def markdown_report(
    results: Sequence[Result], claims: ClaimsView | None = None, correction: Correction | None = None
) -> str:
    """All tables of results as a Markdown document; the same for the same input."""
    lines = ["# Results", "", "Made by `python -m training.report` from the result files that are named below.", ""]
    for name, parts in report_sections(results, claims, correction).items():
        content = [line for part in parts for line in _part(part)]
        lines += [f"## {name}", "", *content, ""] if content else []
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def fill_block(text: str, name: str, lines: Sequence[str]) -> str:
    """
    Put lines between the comments `<!-- name:begin … -->` and `<!-- name:end -->` of a Markdown text.

    Raises:
        `ValueError`: where the text has no such block.
    """
    block = re.compile(rf"(<!-- {name}:begin[^\n]*-->\n).*?(<!-- {name}:end -->)", flags=re.DOTALL)
    if not block.search(text):
        raise ValueError(f"there is no block {name!r}: put `<!-- {name}:begin -->` and `<!-- {name}:end -->` in.")
    content = "\n".join(lines)
    return block.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)
