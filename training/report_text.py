"""Parts of reports in Markdown: text that stands as it is, and tables."""

import re
from collections.abc import Sequence


def escape_markdown(text: str) -> str:
    """Text that stands in a cell as it is, whatever Markdown or HTML would make of it."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]])", r"\\\1", text).replace("\n", " ")


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
