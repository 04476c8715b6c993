"""
Results on one page: all systems, how sure the numbers are, how they were made, and what the systems translate.

    python -m training.report training/results/*.json --output report.html
    python -m training.report training/results/*.json --output report.html --data test.en-de.wesnoth.jsonl.gz \
        --hypotheses docmt-tiny-en-de=runs/hyp.concat-adj sentence-level=runs/hyp.sentence-level
    python -m training.report training/results/*.json --markdown training/results/report.md --readme README.md
    python -m training.report training/results/*.json --claims training/claims.yaml --output report.html

Input: result files of `training.evaluate`, `contrastive`, `train`, `attention_share`, `synthetic`, `probe` and the
benchmarks. With `--data` and `--hypotheses`, documents are shown sentence by sentence, with the translations of
several systems side by side and with their pronouns marked. With `--claims`, the claims of a YAML file (see
`training.claims`) are judged by the results.

Output: with `--output` one HTML file that needs nothing else, with `--markdown` the tables as Markdown, with
`--readme` the summary between `<!-- systems:begin -->` and `<!-- systems:end -->` of a README, and the claims between
`<!-- claims:begin -->` and `<!-- claims:end -->`. The same input gives the same bytes.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .arguments import parse_arguments as parse_flags
from .claims import read_claims
from .claims_corrected import Correction, correct
from .claims_values import ResultFiles
from .claims_verdict import judge_all
from .corpus_lines import read_lines
from .documents import Record
from .evaluate_arguments import test_set_name
from .evaluate_inputs import read_test_set
from .hypotheses import hypotheses_file, read_hypotheses
from .metrics import TAGGERS
from .report_claims import ClaimsView, readme_claims
from .report_markdown import fill_block, markdown_report, summary_lines
from .report_page import DocumentView, write_report
from .report_pictures import pictures_beside
from .report_results import Result, read_results
from .reproduce_queue import QUEUE, read_queue
from .results import expand_path, portable_path, sha256_of_file, write_text_atomic


BLOCKS = ("systems", "claims")


@dataclass
class ReportArguments:
    """What to report, and where it goes."""

    results: list[str] = field(default_factory=list, metadata={"help": "Result files (JSON)."})
    output: str | None = field(default=None, metadata={"help": "HTML file."})
    markdown: str | None = field(default=None, metadata={"help": "Markdown file of the tables."})
    readme: str | None = field(default=None, metadata={"help": "README whose blocks are filled."})
    blocks: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Its blocks, 'systems' and 'claims'; by default 'systems', and 'claims' where both are there."
        },
    )
    claims: str | None = field(default=None, metadata={"help": "YAML file of claims to judge, training/claims.yaml."})
    queue: str = field(default=QUEUE, metadata={"help": "YAML file of the runs that make result files, for claims."})
    data: list[str] = field(
        default_factory=list, metadata={"help": "Test sets whose documents are shown: JSON Lines, gzip or not."}
    )
    hypotheses: list[str] = field(
        default_factory=list,
        metadata={
            "help": "Translations to show, as NAME=FOLDER with a file a test set (`<test set>.jsonl`), or NAME=FILE "
            "where there is one test set; NAME is a system of the results, or the file of a result."
        },
    )
    max_documents: int = field(default=20, metadata={"help": "Documents of a test set that are shown."})
    tagger: str = field(
        default="hanta", metadata={"help": f"Finds the pronouns that are marked: {', '.join(TAGGERS)}."}
    )

    def __post_init__(self) -> None:
        self.data = [expand_path(path) for path in self.data]
        if not self.results:
            raise ValueError("name the result files to report: `python -m training.report RESULT.json...`.")
        if not (self.output or self.markdown or self.readme):
            raise ValueError("name what to write: `--output`, `--markdown` or `--readme`.")
        if bool(self.data) != bool(self.hypotheses):
            raise ValueError("`--data` and `--hypotheses` go together: the test sets, and what was made of them.")
        if self.data and not self.output:
            raise ValueError("documents are shown on the HTML page only: name it with `--output`.")
        unknown = [block for block in self.blocks if block not in BLOCKS]
        if unknown:
            raise ValueError(f"`--blocks` must be of {', '.join(BLOCKS)}, got {unknown[0]!r}.")
        if self.blocks and not self.readme:
            raise ValueError("`--blocks` are those of a README: name it with `--readme`.")
        if "claims" in self.blocks and not self.claims:
            raise ValueError("the block 'claims' needs a file of claims: name it with `--claims`.")
        if self.max_documents < 1:
            raise ValueError(f"`--max_documents` must be 1 or more, got {self.max_documents}.")
        if self.tagger not in TAGGERS:
            raise ValueError(f"`--tagger` must be one of {', '.join(TAGGERS)}, got {self.tagger!r}.")
        names = [test_set_name(path) for path in self.data]
        if len(set(names)) < len(names):
            raise ValueError(f"`--data` names two test sets alike: {', '.join(names)}. Rename one of the files.")


def named_paths(hypotheses: Sequence[str]) -> dict[str, Path]:
    """
    Read NAME=PATH.

    Raises:
        `ValueError`: for something else, and a name that is there twice.
    """
    found: dict[str, Path] = {}
    for word in hypotheses:
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise ValueError(f"`--hypotheses` takes NAME=FOLDER or NAME=FILE, got {word!r}.")
        if name in found:
            raise ValueError(f"`--hypotheses` names {name!r} twice. Give each system once.")
        found[name] = Path(expand_path(path))
    return found


def read_statuses(path: Path, records: Sequence[Record]) -> list[list[str]] | None:
    """The status of each sentence in a file of hypotheses that `training.evaluate` wrote; None where it has none."""
    if not path.name.removesuffix(".gz").endswith(".jsonl"):
        return None
    documents = (json.loads(line) for _, line in read_lines(path) if line.strip())
    found = {str(document["id"]): document.get("status") for document in documents}
    statuses = [found[record["id"]] for record in records]
    return None if any(status is None for status in statuses) else statuses


def check_content(path: str, results: Sequence[Result]) -> None:
    """
    Require that a test set is the one that was scored, not only of its name.

    Raises:
        `ValueError`: where results know the name with other content.
    """
    name = test_set_name(path)
    entries = [entry for result in results if result["kind"] == "evaluation" for entry in result["test_sets"]]
    hashes = {entry["sha256"] for entry in entries if entry["name"] == name}
    if hashes and sha256_of_file(path) not in hashes:
        raise ValueError(
            f"{portable_path(path)}: is another file than the {name} of the results, by its hash. Show the documents "
            "that were scored."
        )


def read_views(arguments: ReportArguments, results: Sequence[Result]) -> list[DocumentView]:
    """Read the documents to show, with all translations of them."""
    paths, views = named_paths(arguments.hypotheses), []
    for file in arguments.data:
        name, records = test_set_name(file), read_test_set(file)
        check_content(file, results)
        hypotheses, statuses = {}, {}
        for system, path in paths.items():
            translations = hypotheses_file(path, name, is_only=len(arguments.data) == 1)
            hypotheses[system] = read_hypotheses(translations, records).documents
            status = read_statuses(translations, records)
            if status is not None:
                statuses[system] = status
        views.append(DocumentView(name, records, hypotheses, statuses))
    return views


def judge_claims(arguments: ReportArguments, results: Sequence[Result]) -> tuple[ClaimsView | None, Correction | None]:
    """Judge the claims that are asked for, and compare the two systems that their file names."""
    if arguments.claims is None:
        return None, None
    claims = read_claims(arguments.claims)
    correction = correct(results, claims.compared) if claims.compared else None
    judged = judge_all(claims.claims, ResultFiles(results, read_queue(arguments.queue)), correction)
    pictures = [path.name for path in pictures_beside(arguments.results)]
    return ClaimsView(claims.papers, judged, pictures), correction


def filled_readme(arguments: ReportArguments, results: Sequence[Result], claims: ClaimsView | None) -> str:
    """
    The README with its blocks filled.

    Raises:
        `ValueError`: where it lacks a block that is asked for.
    """
    assert arguments.readme is not None
    text = Path(arguments.readme).read_text(encoding="utf-8")
    source = portable_path(arguments.markdown) if arguments.markdown else None
    blocks = arguments.blocks or [name for name in BLOCKS if name == "systems" or (claims and f"<!-- {name}:" in text)]
    if "systems" in blocks:
        text = fill_block(text, "systems", summary_lines(results, level=4, source=source))
    if "claims" in blocks and claims is not None:
        text = fill_block(text, "claims", readme_claims(claims, source))
    return text


def report(arguments: ReportArguments) -> None:
    """Read everything, then write what was asked for."""
    results: list[dict[str, Any]] = read_results(arguments.results)
    views = read_views(arguments, results)
    claims, correction = judge_claims(arguments, results)
    readme = None if arguments.readme is None else filled_readme(arguments, results, claims)
    if arguments.output is not None:
        write_report(
            arguments.output,
            results,
            views,
            claims=claims,
            correction=correction,
            pictures=pictures_beside(arguments.results),
            tagger=arguments.tagger,
            max_documents=arguments.max_documents,
        )
    if arguments.markdown is not None:
        write_text_atomic(arguments.markdown, markdown_report(results, claims, correction))
    if arguments.readme is not None and readme is not None:
        write_text_atomic(arguments.readme, readme)


def parse_arguments(arguments: Sequence[str] | None = None) -> ReportArguments:
    """Read the command line; the result files come first, without a flag."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    first = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    words = ["--results", *words] if first else words
    (parsed,) = parse_flags(words, [ReportArguments], description=__doc__)
    return parsed


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, see the module's docstring."""
    try:
        report(parse_arguments(arguments))
    # a wrong argument or file is answered with what to do, not with a traceback
    except (ValueError, OSError) as error:
        raise SystemExit(f"report: {error}") from error


if __name__ == "__main__":
    main()
