"""The report as one HTML page that stands alone: nothing is loaded from elsewhere, and no script is needed to read."""

from collections.abc import Sequence
from pathlib import Path

from transformers.utils import logging

from .report_cells import Table
from .report_context import (
    attention_table,
    breakdown_tables,
    context_table,
    suite_differences_table,
    suites_table,
)
from .report_documents import DocumentView, check_view, render_view
from .report_experiments import (
    class_table,
    listed_table,
    probe_tables,
    signature_table,
    synthetic_tables,
    training_table,
)
from .report_html import escape, recipe_of_result, recipe_of_row, render_table
from .report_pictures import context_curves, loss_curves
from .report_results import Result, check_result
from .report_style import STYLE
from .report_systems import by_pair, system_rows
from .report_tables import differences_table, scores_table, summary_table
from .results import write_text_atomic


__all__ = ["DocumentView", "build_report", "write_report"]

logger = logging.get_logger(__name__)

TITLE = "Document-level translation: results"
INTERVALS = (
    "Beneath a score stands its 95 % interval, from a bootstrap over documents; beneath a contrastive accuracy, the "
    "Wilson interval over items. A dash is a number that is not there. The name of a system leads to its recipe."
)
DIFFERENCES = (
    "Score of the system less that of the other one on the same documents, with the 95 % interval of a paired "
    "bootstrap over documents and its two-sided p. ▲ and ▼: better and worse, the interval being clear of zero."
)


def _tables(tables: Sequence[Table]) -> str:
    return "".join(map(render_table, tables))


def _pictures(pictures: Sequence[str], caption: str) -> str:
    if not pictures:
        return ""
    return f"<figure>{''.join(pictures)}<figcaption class=note>{escape(caption)}</figcaption></figure>\n"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>\n" if content else ""


def _sections(
    results: Sequence[Result], documents: Sequence[DocumentView], tagger: str, max_documents: int | None
) -> dict[str, str]:
    rows = system_rows(results)
    pairs = by_pair(rows)
    try:
        context, losses = context_curves(rows), loss_curves(results)
    except ImportError as error:
        # the numbers of the curves stand in tables beside them
        logger.warning(f"The report is without curves: {error}")
        context, losses = [], []
    scored = {pair: of_pair for pair, of_pair in pairs.items() if any(row.test_sets for row in of_pair)}
    differences = _tables([differences_table(pair, of_pair) for pair, of_pair in scored.items()])
    views = [
        render_view(view, number, tagger=tagger, max_documents=max_documents)
        for number, view in enumerate(documents, start=1)
    ]
    shown = [id(result) for row in rows for result in row.results]
    others = [recipe_of_result(result) for result in results if id(result) not in shown]
    return {
        "Systems": _tables([summary_table(pair, of_pair) for pair, of_pair in pairs.items()]),
        "Scores": _tables([scores_table(pair, of_pair) for pair, of_pair in scored.items()])
        + _folded("Pronouns and forms of address, class by class", render_table(class_table(results))),
        "Differences": f"<p class=note>{escape(DIFFERENCES)}</p>{differences}" if differences else "",
        "Use of context": _tables([suites_table(rows), suite_differences_table(rows)])
        + _pictures(context, "Accuracy by number of context sentences; the numbers are in the tables below.")
        + _folded("Accuracy by context, distance, pronoun and other labels", _tables(breakdown_tables(rows)))
        + _tables([context_table(rows), attention_table(rows)]),
        "Documents": "".join(views),
        "Training": _tables([training_table(results)])
        + _pictures(losses, "Loss by updates. Validation sequences are those of each system, which may differ."),
        "Experiments": _tables([*synthetic_tables(results), *probe_tables(results)])
        + _folded("Time and memory: ratios of benchmarks", render_table(listed_table(results))),
        "Signatures": _tables([signature_table(results)]),
        "Recipes": "".join(map(recipe_of_row, rows)) + _folded("Other results", "".join(others)),
    }


def build_report(
    results: Sequence[Result],
    documents: Sequence[DocumentView] = (),
    *,
    tagger: str = "hanta",
    max_documents: int | None = 20,
) -> str:
    """
    Lay out results as an HTML page.

    Args:
        results, documents, tagger, max_documents: As in `write_report`.

    Returns:
        `str`: the page; the same for the same input.
    """
    if not results:
        raise ValueError("there is nothing to report: give one result at least.")
    for result in results:
        name = result.get("result_file", "a result") if isinstance(result, dict) else "a result"
        check_result(result, name)
    for view in documents:
        check_view(view, results)
    sections = {name: text for name, text in _sections(results, documents, tagger, max_documents).items() if text}
    places = {name: name.lower().replace(" ", "-") for name in sections}
    links = "".join(f'<li><a href="#{places[name]}">{name}</a></li>' for name in sections)
    parts = [f'<section id="{places[name]}"><h2>{name}</h2>\n{text}</section>\n' for name, text in sections.items()]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header><h1>{TITLE}</h1>\n"
        f"<p>{INTERVALS}</p>\n<nav><ul>{links}</ul></nav></header>\n<main>\n{''.join(parts)}</main>\n</body>\n</html>\n"
    )


def write_report(
    path: str | Path,
    results: Sequence[Result],
    documents: Sequence[DocumentView] = (),
    *,
    tagger: str = "hanta",
    max_documents: int | None = 20,
) -> None:
    """
    Write the report of results as an HTML file.

    Args:
        path (`str` or `Path`):
            The file; an older one is replaced as a whole.
        results (`Sequence[Mapping]`):
            Contents of result files, such as what `training.evaluate.evaluate` returns. `result_file`, where it is
            given, is the name of the file.
        documents (`Sequence[DocumentView]`, *optional*):
            Test sets to be shown sentence by sentence.
        tagger (`str`, *optional*, defaults to `"hanta"`):
            Finds the pronouns that are marked in documents: `"hanta"`, `"spacy"` or `"none"`.
        max_documents (`int`, *optional*, defaults to 20):
            Documents of a test set that are shown; the page says how many are left out. None for all.

    Raises:
        `ValueError`: for a result of an unknown kind, a test set or a system that no result names, and translations
            whose counts are not those of the records.
    """
    write_text_atomic(path, build_report(results, documents, tagger=tagger, max_documents=max_documents))
