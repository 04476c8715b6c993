"""The tables of a report as Markdown, for files that are read beside the code, and for a block of a README."""

import re
from collections.abc import Sequence

from .report_cells import Cell, Column, Table
from .report_context import (
    attention_table,
    breakdown_tables,
    context_table,
    suite_differences_table,
    suites_table,
)
from .report_experiments import (
    class_table,
    listed_table,
    probe_tables,
    signature_table,
    synthetic_tables,
    training_table,
)
from .report_html import SIGNS
from .report_results import Result, recipes_of
from .report_systems import by_pair, system_rows
from .report_tables import differences_table, scores_table, summary_table


def escape_markdown(text: str) -> str:
    """Text that stands in a cell as it is, whatever Markdown or HTML would make of it."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]])", r"\\\1", text).replace("\n", " ")


def _cell(cell: Cell) -> str:
    shape = SIGNS[cell.sign][0] if cell.sign else ""
    detail = f" ({cell.detail})" if cell.detail else ""
    return escape_markdown(f"{cell.text}{f' {shape}' if shape else ''}{detail}")


def _heading(column: Column) -> str:
    return escape_markdown(f"{column.group}: {column.name}" if column.group else column.name)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[bool]) -> list[str]:
    """
    Lay out a table.

    Args:
        header (`Sequence[str]`): Names of the columns.
        rows (`Sequence[Sequence[str]]`): Cells.
        texts (`Sequence[bool]`): Whether a column holds text; numbers stand on the right.
    """
    rule = "|" + "".join("---|" if is_text else "--:|" for is_text in texts)
    return ["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)]


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


def _recipes(results: Sequence[Result]) -> list[str]:
    lines = []
    for result in results:
        for run in recipes_of(result):
            commit = f"commit `{run['commit'][:12]}`{' with changes' if run.get('dirty') else ''}"
            versions = ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())
            facts = [run.get("date", "")[:10], commit if run.get("commit") else "", versions]
            name = result.get("result_file", result["kind"])
            lines.append(f"- `{name}`: `{run.get('command', '')}`; {'; '.join(filter(None, facts))}")
    return lines


def summary_lines(results: Sequence[Result], *, level: int = 3, source: str | None = None) -> list[str]:
    """
    The summary of trained systems, as it stands in a README.

    Args:
        results (`Sequence[Mapping]`): Contents of result files.
        level (`int`, *optional*, defaults to 3): Level of the headings.
        source (`str`, *optional*): File with intervals, signatures and recipes, to be named beneath.
    """
    pairs = by_pair(system_rows(results))
    lines = _lines([summary_table(pair, of_pair) for pair, of_pair in pairs.items()], level)
    signatures = {
        score["signature"]: None
        for result in results
        if result["kind"] == "evaluation"
        for entry in result["test_sets"]
        for measure, score in entry["scores"].items()
        if measure in ("d-BLEU", "COMET")
    }
    note = "Behind a score stands its 95 % interval: bootstrap over documents; of contrastive accuracy, Wilson's."
    note += f" Signatures: {', '.join(f'`{signature}`' for signature in signatures)}." if signatures else ""
    note += (
        f" All measures, differences, and the command, commit and versions of each row: `{source}`." if source else ""
    )
    return [*lines, note]


def markdown_report(results: Sequence[Result]) -> str:
    """All tables of results as a Markdown document; the same for the same input."""
    rows = system_rows(results)
    pairs = by_pair(rows)
    scored = {pair: of_pair for pair, of_pair in pairs.items() if any(row.test_sets for row in of_pair)}
    sections = {
        "Systems": summary_lines(results),
        "Scores": _lines([*(scores_table(pair, of_pair) for pair, of_pair in scored.items()), class_table(results)]),
        "Differences": _lines([differences_table(pair, of_pair) for pair, of_pair in scored.items()]),
        "Use of context": _lines(
            [
                *(suites_table(rows), suite_differences_table(rows), *breakdown_tables(rows)),
                *(context_table(rows), attention_table(rows)),
            ]
        ),
        "Training": _lines([training_table(results)]),
        "Experiments": _lines([*synthetic_tables(results), *probe_tables(results), listed_table(results)]),
        "Signatures": _lines([signature_table(results)]),
        "Recipes": _recipes(results),
    }
    lines = ["# Results", "", "Made by `python -m training.report` from the result files that are named below.", ""]
    for name, content in sections.items():
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
