"""The sections of a report, once for the page and for Markdown: what they are called and what stands in them."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from .claims_corrected import Correction
from .report_cells import Table
from .report_claims import ClaimsView, html_claims, markdown_claims
from .report_context import (
    attention_table,
    breakdown_tables,
    context_table,
    suite_differences_table,
    suites_table,
)
from .report_corrected import corrected_table
from .report_experiments import (
    class_table,
    listed_table,
    probe_tables,
    signature_table,
    synthetic_probe_tables,
    synthetic_tables,
    training_table,
)
from .report_html import recipe_of_result, recipe_of_row
from .report_results import Result, recipes_of
from .report_systems import by_pair, system_rows
from .report_tables import differences_table, scores_table, summary_table


DIFFERENCES = (
    "Score of the system less that of the other one on the same documents, with the 95 % interval of a paired "
    "bootstrap over documents and its two-sided p. ▲ and ▼: better and worse, the interval being clear of zero."
)

Drawn = Literal["context", "loss", "files", "documents"]


@dataclasses.dataclass(frozen=True)
class Note:
    """A paragraph beneath a heading."""

    text: str


@dataclasses.dataclass(frozen=True)
class Folded:
    """Tables that the page folds beneath a title; Markdown has them as they are."""

    title: str
    tables: Sequence[Table]


@dataclasses.dataclass(frozen=True)
class Markup:
    """What each form has in a way of its own."""

    html: str = ""
    markdown: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class PageOnly:
    """What only the page can show, by name: pictures, documents."""

    name: Drawn
    caption: str = ""


Part = Table | Note | Folded | Markup | PageOnly


def _recipe_lines(results: Sequence[Result]) -> list[str]:
    lines = []
    for result in results:
        for run in recipes_of(result):
            commit = f"commit `{run['commit'][:12]}`{' with changes' if run.get('dirty') else ''}"
            versions = ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())
            facts = [run.get("date", "")[:10], commit if run.get("commit") else "", versions]
            name = result.get("result_file", result["kind"])
            lines.append(f"- `{name}`: `{run.get('command', '')}`; {'; '.join(filter(None, facts))}")
    return lines


def summary_note(results: Sequence[Result], source: str | None = None) -> str:
    """
    What a reader of the summary must know.

    Args:
        results (`Sequence[Mapping]`): Contents of result files.
        source (`str`, *optional*): File with intervals, signatures and recipes, to be named.
    """
    signatures = {
        score["signature"]: None
        for result in results
        if result["kind"] == "evaluation"
        for entry in result["test_sets"]
        for measure, score in entry["scores"].items()
        if measure in ("d-BLEU", "COMET")
    }
    note = (
        "Updates and CPU hours are those of the last training alone, without that of the weights it started from. "
        "Behind a score stands its 95 % interval: bootstrap over documents; of contrastive accuracy, Wilson's."
    )
    note += f" Signatures: {', '.join(f'`{signature}`' for signature in signatures)}." if signatures else ""
    return note + (
        f" All measures, differences, and the command, commit and versions of each row: `{source}`." if source else ""
    )


def report_sections(
    results: Sequence[Result], claims: ClaimsView | None = None, correction: Correction | None = None
) -> dict[str, list[Part]]:
    """
    Lay out results as sections.

    Args:
        results (`Sequence[Mapping]`): Contents of result files.
        claims (`ClaimsView`, *optional*): Claims of the papers, judged by them.
        correction (`Correction`, *optional*): Two systems, compared in all measures.

    Returns:
        `dict[str, list]`: by heading, the parts in their order; headings of empty sections are left to the caller.
    """
    rows = system_rows(results)
    pairs = by_pair(rows)
    scored = {pair: of_pair for pair, of_pair in pairs.items() if any(row.test_sets for row in of_pair)}
    differences = [differences_table(pair, of_pair) for pair, of_pair in scored.items()]
    shown = [id(result) for row in rows for result in row.results]
    others = [recipe_of_result(result) for result in results if id(result) not in shown]
    folded = f"<details><summary>Other results</summary>{''.join(others)}</details>\n" if others else ""
    return {
        "Claims": [Markup(html_claims(claims), markdown_claims(claims))] if claims else [],
        "Systems": [
            *(summary_table(pair, of_pair) for pair, of_pair in pairs.items()),
            Markup(markdown=[summary_note(results)]),
        ],
        "Scores": [
            *(scores_table(pair, of_pair) for pair, of_pair in scored.items()),
            Folded("Pronouns and forms of address, class by class", [class_table(results)]),
        ],
        "Differences": [
            *([corrected_table(correction)] if correction else []),
            *([Note(DIFFERENCES)] if any(block for table in differences for _, block in table.blocks) else []),
            *differences,
        ],
        "Use of context": [
            *(suites_table(rows), suite_differences_table(rows)),
            PageOnly("context", "Accuracy by number of context sentences; the numbers are in the tables below."),
            Folded("Accuracy by context, distance, pronoun and other labels", breakdown_tables(rows)),
            *(context_table(rows), attention_table(rows)),
        ],
        "Documents": [PageOnly("documents")],
        "Training": [
            training_table(results),
            PageOnly("loss", "Loss by updates. Validation sequences are those of each system, which may differ."),
        ],
        "Experiments": [
            *synthetic_tables(results),
            *probe_tables(results),
            *synthetic_probe_tables(results),
            Folded("Time and memory: ratios of benchmarks", [listed_table(results)]),
            PageOnly("files"),
        ],
        "Signatures": [signature_table(results)],
        "Recipes": [Markup("".join(map(recipe_of_row, rows)) + folded, _recipe_lines(results))],
    }
