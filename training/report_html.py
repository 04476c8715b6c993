"""Parts of the page of a report: everything that came from elsewhere is escaped here."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .report_cells import Cell, Column, Table
from .report_results import Result, recipes_of
from .report_systems import SystemRow, TestSet


# of a result: what it is and not how it was made
NAMES = ("kind", "name", "result_file", "model")
SIGNS = {"better": ("▲", "clearly better"), "worse": ("▼", "clearly worse"), "unclear": ("", "not clear of zero")}


def escape(text: Any) -> str:
    """Text that the page shows as it is, also inside of attributes."""
    return html.escape(str(text), quote=True)


def breakable(text: str) -> str:
    """Escaped text that may be broken where names of files and signatures have no blanks."""
    return re.sub(r"([/_|]|\.(?=[a-z]))", r"\1<wbr>", escape(text))


def _cell(cell: Cell, column: Column, *, is_first: bool) -> str:
    text = breakable(cell.text) if column.is_text else escape(cell.text)
    if cell.anchor:
        text = f'<a href="#{escape(cell.anchor)}">{text}</a>'
    if cell.sign:
        shape, meaning = SIGNS[cell.sign]
        text = f'<span class="{cell.sign}" title="{meaning}">{text}{f" {shape}" if shape else ""}</span>'
    detail = f"<small>{escape(cell.detail)}</small>" if cell.detail else ""
    if is_first:
        return f'<th scope="row">{text}{detail}</th>'
    kinds = ["number"] * (not column.is_text) + ["missing"] * cell.is_missing
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<td{kind}>{text}{detail}</td>"


def _head(columns: Sequence[Column]) -> str:
    rows = []
    if any(column.group for column in columns):
        cells, start = [], 0
        while start < len(columns):
            end = start + 1
            while end < len(columns) and columns[end].group == columns[start].group:
                end += 1
            group = columns[start].group
            cells.append(f'<th colspan="{end - start}"{" class=group" if group else ""}>{escape(group)}</th>')
            start = end
        rows.append("".join(cells))
    cells = []
    for column in columns:
        note = f"<small>{escape(column.note)}</small>" if column.note else ""
        cells.append(f"<th scope=col{'' if column.is_text else ' class=number'}>{breakable(column.name)}{note}</th>")
    rows.append("".join(cells))
    return "".join(f"<tr>{row}</tr>" for row in rows)


def render_table(table: Table, *, level: int = 3) -> str:
    """
    A table with its heading, in a box of its own that scrolls where the page is too narrow; empty without rows.

    Args:
        table (`Table`): What to show.
        level (`int`, *optional*, defaults to 3): Level of the heading.
    """
    if not any(rows for _, rows in table.blocks):
        return ""
    bodies = []
    for heading, rows in table.blocks:
        lines = []
        if heading:
            span = len(table.columns)
            text = f"<span>{breakable(heading)}</span>"
            lines.append(f'<tr class="block"><th colspan="{span}" scope="rowgroup">{text}</th></tr>')
        for row in rows:
            cells = zip(row, table.columns, strict=True)
            lines.append(
                "<tr>" + "".join(_cell(*cell, is_first=index == 0) for index, cell in enumerate(cells)) + "</tr>"
            )
        bodies.append("<tbody>\n" + "\n".join(lines) + "\n</tbody>")
    note = f"<p class=note>{escape(table.note)}</p>" if table.note else ""
    label = escape(table.title)
    return (
        f"<h{level}>{breakable(table.title)}</h{level}>{note}\n"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>\n'
        f"<thead>{_head(table.columns)}</thead>\n" + "\n".join(bodies) + "\n</table></div>\n"
    )


def _facts(pairs: Sequence[tuple[str, Any]]) -> str:
    known = [(name, value) for name, value in pairs if value not in (None, "", {}, [])]
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{_value(value)}</dd>" for name, value in known) + "</dl>"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        # files with their hashes stand below each other
        between = "<br>" if any(len(_plain(item)) == 64 for item in value.values()) else "; "
        return between.join(f"{breakable(str(key))}: {breakable(_plain(item))}" for key, item in value.items())
    return breakable(_plain(value))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def recipe_of_result(result: Result) -> str:
    """How a result was made: command, date, commit, versions, hardware, and the data by their hashes."""
    parts = []
    for run in recipes_of(result):
        commit = f"{run['commit']}{' with changes' if run.get('dirty') else ''}" if run.get("commit") else None
        versions = ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())
        pairs = [
            ("date", run.get("date")),
            ("commit", commit),
            ("versions", versions),
            ("hardware", ", ".join(f"{key} {value}" for key, value in run.get("hardware", {}).items())),
        ]
        parts.append(f"<pre>{escape(run.get('command', ''))}</pre>{_facts(pairs)}")
    settings = {k: v for k, v in result.items() if not isinstance(v, dict | list) and v is not None and k not in NAMES}
    pairs = [("decoding", result.get("decoding")), ("hypotheses", result.get("hypotheses"))]
    pairs += [("scoring", result.get("scoring")), ("settings", settings)]
    pairs += [("compared with", result.get("baseline_hypotheses")), ("training texts", result.get("train_sha256"))]
    name = result.get("result_file", "this evaluation")
    return f"<h4>{escape(result['kind'])}: {breakable(name)}</h4>{''.join(parts)}{_facts(pairs)}"


def _on_test_set(test_set: TestSet, entry: Mapping[str, Any]) -> str:
    statuses = ", ".join(f"{name} {count:,}" for name, count in entry.get("status", {}).items())
    setting = entry.get("intervals", {})
    intervals = (
        f"bootstrap over {setting['documents']} documents, {setting['resamples']:,} resamples, seed {setting['seed']}"
        if setting
        else ""
    )
    parts = [f"SHA-256 {test_set.sha256}", f"sentences by status: {statuses}" if statuses else "", intervals]
    parts += [f"without {measure}: {reason}" for measure, reason in entry.get("measures_left_out", {}).items()]
    return "; ".join(filter(None, parts))


def recipe_of_row(row: SystemRow) -> str:
    """The recipe of a row, folded: its weights, its test sets, and the results that it is made of."""
    facts = _facts(
        [
            ("weights", row.model.get("weights_sha256")),
            ("folder", row.model.get("path")),
            *((test_set.name, _on_test_set(test_set, entry)) for test_set, entry in row.test_sets.items()),
            *((str(entry["suite"]), entry.get("sha256")) for entry in row.suites),
        ]
    )
    setting = f" · {escape(row.setting)}" if row.test_sets else ""
    heading = f"<summary><b>{breakable(row.name)}</b>{setting} · {escape(row.pair)}</summary>"
    results = "".join(map(recipe_of_result, row.results))
    # a link to what is inside opens what is folded
    return f'<details>{heading}<div id="{escape(row.anchor)}">{facts}{results}</div></details>\n'
