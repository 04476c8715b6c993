"""The parts of the page that Gradio has no component for, as HTML: the sentences, a message, the downloads."""

import base64
import html
import re
from collections.abc import Sequence

from .downloads import download_files
from .translation import STATUS_WORDS, Row, Translation, differing_words


MEDIA_TYPES = {"txt": "text/plain", "tsv": "text/tab-separated-values", "json": "application/json"}
DOWNLOAD_WORDS = {"txt": "Text, layout kept (.txt)", "tsv": "Table (.tsv)", "json": "JSON"}


def escape(text: str) -> str:
    """Text as HTML, and nothing that the templates of Gradio would read."""
    return html.escape(text).replace("{", "&#123;").replace("$", "&#36;")


def message(text: str) -> str:
    """What went wrong and what to do, with `code` in it, read out by screen readers; empty for no text."""
    words = re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))
    return f'<p class="docmt-message" role="alert">{words}</p>' if text else ""


def sentence_numbers(rows: Sequence[Row]) -> list[int | None]:
    """Numbers of the sentences as shown, from 1; `None` for a blank line."""
    numbers: list[int | None] = []
    count = 0
    for row in rows:
        count += row.status != "empty"
        numbers.append(None if row.status == "empty" else count)
    return numbers


def summary(translation: Translation) -> str:
    """One line on what was done and what needs a look."""
    recipe = translation.recipe
    count = sum(row.status != "empty" for row in translation.rows)
    facts = [f"{count} sentence{'s' * (count != 1)} in {translation.seconds:.1f} s"]
    if translation.has_comparison:
        facts.append(f"{translation.changed} differ{'s' * (translation.changed == 1)} without context")
    if translation.doubtful:
        facts.append(f"{translation.doubtful} need{'s' * (translation.doubtful == 1)} a look (see Status)")
    beams = f"{recipe['num_beams']} beam{'s' * (recipe['num_beams'] != 1)}"
    facts.append(f"{recipe['model']} ({recipe['system']}), {recipe['decoding']}, {beams}")
    return escape(" · ".join(facts))


def sentence_table(translation: Translation) -> str:
    """
    The sentences of a document side by side, each row a button.

    Args:
        translation (`Translation`): The document.

    Returns:
        `str`: a table whose rows have `data-sentence`, their index from 0; blank lines have none.
    """
    source, target = str(translation.recipe["source_lang"]), str(translation.recipe["target_lang"])
    compared = translation.has_comparison
    titles = ["#", f"Source ({source})", f"Translation ({target})", *(["Without context"] * compared), "Status"]
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = []
    for index, (row, number) in enumerate(zip(translation.rows, sentence_numbers(translation.rows), strict=True)):
        if number is None:
            body.append(f'<tr class="docmt-blank"><td colspan="{len(titles)}">blank line</td></tr>')
            continue
        first, second = differing_words(row.translation, row.translation if row.alone is None else row.alone)
        words, level = STATUS_WORDS[row.status]
        cells = [
            f'<th scope="row"><button type="button" aria-label="Sentence {number}: show what it attended to">{number}'
            "</button></th>",
            _cell(titles[1], source, escape(row.source)),
            _cell(titles[2], target, _marked(first, "docmt-with")),
        ]
        if compared:
            same = row.alone == row.translation
            alone = '<span class="docmt-quiet">the same</span>' if same else _marked(second, "docmt-without")
            cells.append(_cell(titles[3], "en" if same else target, alone))
        cells.append(_cell(titles[-1], "en", f'<span class="docmt-status docmt-{level}">{escape(words)}</span>'))
        body.append(f'<tr data-sentence="{index}">{"".join(cells)}</tr>')
    legend = (
        '<p class="docmt-legend">Words that differ: <mark class="docmt-with">with context</mark> '
        '<mark class="docmt-without">without context</mark></p>'
    )
    return (
        f'<p class="docmt-summary" role="status">{summary(translation)}</p>{legend * compared}'
        '<div class="docmt-scroll" tabindex="0" role="region" aria-label="Translated sentences">'
        f'<table class="docmt-rows"><caption class="docmt-hidden">The sentences of the document. The button of a row '
        f"shows what its translation attended to.</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def download_links(translation: Translation) -> str:
    """Links that hold the files themselves, so that nothing is kept on the server."""
    links = []
    for name, content in download_files(translation).items():
        kind = name.rpartition(".")[2]
        data = base64.b64encode(content.encode("utf-8")).decode("ascii")
        address = f"data:{MEDIA_TYPES[kind]};charset=utf-8;base64,{data}"
        links.append(
            f'<a class="docmt-download" download="{escape(name)}" href="{address}">{DOWNLOAD_WORDS[kind]}</a>'
        )
    return f'<nav class="docmt-downloads" aria-label="Downloads">Download: {"".join(links)}</nav>'


def _cell(title: str, language: str, content: str) -> str:
    return f'<td data-title="{escape(title)}" lang="{escape(language)}" dir="auto"><div>{content}</div></td>'


def _marked(stretches: Sequence[tuple[str, bool]], kind: str) -> str:
    return "".join(
        f'<mark class="{kind}">{escape(text)}</mark>' if differs else escape(text) for text, differs in stretches
    )
