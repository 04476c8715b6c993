"""The report as one HTML page that stands alone: nothing is loaded from elsewhere, and no script is needed to read."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from transformers.utils import logging

from .claims_corrected import Correction
from .report_cells import Table
from .report_claims import STYLE as CLAIMS_STYLE
from .report_claims import ClaimsView, picture_anchor
from .report_documents import DocumentView, check_view, render_view
from .report_html import escape, render_table
from .report_pictures import context_curves, embedded, loss_curves
from .report_results import Result, check_result
from .report_sections import Folded, Markup, Note, PageOnly, Part, report_sections
from .report_style import STYLE
from .report_systems import system_rows
from .results import write_text_atomic


__all__ = ["DocumentView", "build_report", "write_report"]

logger = logging.get_logger(__name__)

TITLE = "Document-level translation: results"
INTERVALS = (
    "Beneath a score stands its 95 % interval, from a bootstrap over documents; beneath a contrastive accuracy, the "
    "Wilson interval over items. A dash is a number that is not there. The name of a system leads to its recipe."
)


def _pictures(pictures: Sequence[str], caption: str) -> str:
    if not pictures:
        return ""
    return f"<figure>{''.join(pictures)}<figcaption class=note>{escape(caption)}</figcaption></figure>\n"


def _part(part: Part, shown: Mapping[str, str]) -> str:
    if isinstance(part, Table):
        return render_table(part)
    if isinstance(part, Note):
        return f"<p class=note>{escape(part.text)}</p>"
    if isinstance(part, Markup):
        return part.html
    if isinstance(part, Folded):
        content = "".join(map(render_table, part.tables))
        return f"<details><summary>{escape(part.title)}</summary>{content}</details>\n" if content else ""
    return shown[part.name]


def _curves(results: Sequence[Result], captions: Mapping[str, str]) -> dict[str, str]:
    try:
        drawn = {"context": context_curves(system_rows(results)), "loss": loss_curves(results)}
    except ImportError as error:
        # the numbers of the curves stand in tables beside them
        logger.warning(f"The report is without curves: {error}")
        drawn = {"context": [], "loss": []}
    return {name: _pictures(pictures, captions[name]) for name, pictures in drawn.items()}


def _embedded(pictures: Sequence[Path]) -> str:
    return "".join(
        f'<details><summary>{escape(path.name)}</summary><div id="{picture_anchor(path.name)}">{embedded(path)}</div>'
        "</details>\n"
        for path in pictures
    )


def build_report(
    results: Sequence[Result],
    documents: Sequence[DocumentView] = (),
    *,
    claims: ClaimsView | None = None,
    correction: Correction | None = None,
    pictures: Sequence[Path] = (),
    tagger: str = "hanta",
    max_documents: int | None = 20,
) -> str:
    """
    Lay out results as an HTML page.

    Args:
        results, documents, claims, correction, pictures, tagger, max_documents: As in `write_report`.

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
    parts_of = report_sections(results, claims, correction)
    captions: dict[str, str] = {
        part.name: part.caption for parts in parts_of.values() for part in parts if isinstance(part, PageOnly)
    }
    views = [
        render_view(view, number, tagger=tagger, max_documents=max_documents)
        for number, view in enumerate(documents, start=1)
    ]
    shown = {**_curves(results, captions), "files": _embedded(pictures), "documents": "".join(views)}
    texts = {name: "".join(_part(part, shown) for part in parts) for name, parts in parts_of.items()}
    sections = {name: text for name, text in texts.items() if text}
    places = {name: name.lower().replace(" ", "-") for name in sections}
    links = "".join(f'<li><a href="#{places[name]}">{name}</a></li>' for name in sections)
    parts = [f'<section id="{places[name]}"><h2>{name}</h2>\n{text}</section>\n' for name, text in sections.items()]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>{STYLE}{CLAIMS_STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{TITLE}</h1>\n"
        f"<p>{INTERVALS}</p>\n<nav><ul>{links}</ul></nav></header>\n<main>\n{''.join(parts)}</main>\n</body>\n</html>\n"
    )


def write_report(
    path: str | Path,
    results: Sequence[Result],
    documents: Sequence[DocumentView] = (),
    *,
    claims: ClaimsView | None = None,
    correction: Correction | None = None,
    pictures: Sequence[Path] = (),
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
        claims (`ClaimsView`, *optional*):
            Claims of the papers, judged by the results.
        correction (`Correction`, *optional*):
            Two systems, compared in all measures.
        pictures (`Sequence[Path]`, *optional*):
            PNG files of results, which become part of the page.
        tagger (`str`, *optional*, defaults to `"hanta"`):
            Finds the pronouns that are marked in documents: `"hanta"`, `"spacy"` or `"none"`.
        max_documents (`int`, *optional*, defaults to 20):
            Documents of a test set that are shown; the page says how many are left out. None for all.

    Raises:
        `ValueError`: for a result of an unknown kind, a test set or a system that no result names, and translations
            whose counts are not those of the records.
    """
    page = build_report(
        results,
        documents,
        claims=claims,
        correction=correction,
        pictures=pictures,
        tagger=tagger,
        max_documents=max_documents,
    )
    write_text_atomic(path, page)
