"""The claims of the papers in a report: what was seen, how, and the verdict, for HTML, Markdown and a README."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from .claims_values import Missing, Value
from .claims_verdict import HELD, NOT_HELD, NOT_RUN, UNCLEAR, VERDICTS, Judged, Outcome
from .report_cells import interval_text, number
from .report_html import breakable, escape
from .report_pictures import picture_names
from .report_text import escape_markdown, markdown_table


# by verdict and by state of a comparison: class of the page, and a sign for those who see no colours
LOOKS = {HELD: ("better", "▲"), NOT_HELD: ("worse", "▼"), UNCLEAR: ("unclear", "?"), NOT_RUN: ("missing", "-")}
STATES = {"holds": LOOKS[HELD], "fails": LOOKS[NOT_HELD], "unclear": LOOKS[UNCLEAR]}
NOTE = (
    "Verdicts are computed from the result files, by the comparisons that training/claims.yaml names for each claim. "
    "What is clear: of scores and accuracies, a 95 % interval of the difference on the same documents or items that "
    "is clear of zero, where there is one, else intervals that do not overlap; of several seeds, ranges that do not "
    "overlap and means that differ by the margin that is named (by N); of one seed, the margin alone. “One seed”: "
    "another one may turn the verdict. In brackets: the interval of a score, the range of several seeds. All systems "
    "are small and briefly trained, so a verdict says what was seen here, not whether a paper is right."
)
STYLE = """
.scroll.claims { max-height: none; }
.claims td, .claims th { white-space: normal; }
.claims tbody th { position: static; max-width: 24rem; min-width: 14rem; }
.claims td small, .claims tbody th small { white-space: normal; font-weight: 400; }
.claims ul { list-style: none; margin: 0; padding: 0; }
.claims td.seen { min-width: 24rem; max-width: 44rem; }
.claims details { border: 0; padding: 0; }
.claims summary { padding: 0.2rem 0 0; }
.claims pre { font-size: 0.75rem; }
.claims .verdict { min-width: 8rem; }
.picture { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
"""


@dataclasses.dataclass(frozen=True)
class ClaimsView:
    """
    Judged claims, to be shown.

    Args:
        papers (`Mapping[str, str]`): Names of the papers.
        judged (`Sequence[Judged]`): Claims and verdicts.
        pictures (`Sequence[str]`): Names of pictures beside result files, such as `synthetic.length.png`.
    """

    papers: Mapping[str, str]
    judged: Sequence[Judged]
    pictures: Sequence[str] = ()

    def of(self, paper: str) -> list[Judged]:
        """Claims of a paper, in the order of the file."""
        return [one for one in self.judged if one.claim.paper == paper]

    def pictures_of(self, one: Judged) -> list[str]:
        """Pictures of the results behind a claim."""
        files = dict.fromkeys(file for value in one.found.values() for file in value.selector.files)
        return [name for file in files for name in picture_names(file) if name in self.pictures]


def picture_anchor(name: str) -> str:
    """Name of the place of a picture on the page."""
    return f"picture-{name.removesuffix('.png').replace('.', '-')}"


def count_verdicts(judged: Sequence[Judged]) -> dict[str, int]:
    """How many claims have each verdict, in the order of `VERDICTS`."""
    counts = Counter(one.verdict for one in judged)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def value_text(name: str, value: Value) -> str:
    """A number, how far it may lie off, and of how many seeds."""
    seeds = "" if not value.depends_on_seed else ", 1 seed" if len(value.seeds) == 1 else f", {len(value.seeds)} seeds"
    return f"{name}: {value.text}{seeds}"


def outcome_text(outcome: Outcome, decimals: int) -> str:
    """A comparison and what came of it."""
    decimals = max(decimals, 1) if outcome.comparison.sign != "=" else decimals
    ends = [number(end, decimals, signed=True) for end in outcome.ends]
    between = f" ({interval_text(outcome.ends, decimals, signed=True)})" if ends[0] != ends[1] else ""
    difference = number(outcome.difference, decimals, signed=True)
    return f"{outcome.comparison.text}: {difference}{between}, {outcome.basis}"


def missing_text(missing: Missing) -> str:
    """What is not there."""
    return f"{missing.file}.json {missing.reason}"


def _decimals(one: Judged, outcome: Outcome) -> int:
    return one.found[outcome.comparison.left].decimals


def recipes(one: Judged) -> dict[str, tuple[tuple[int, ...], tuple[str, ...]]]:
    """By result file of a claim, the seeds and the commands behind its numbers."""
    found: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {}
    for value in one.found.values():
        for file in value.selector.files:
            seeds = tuple(dict.fromkeys((*found.get(file, ((), ()))[0], *value.seeds)))
            found[file] = (seeds, value.commands)
    return found


def commands_to_run(one: Judged) -> dict[str, str]:
    """By file that is missing, the command of the queue that makes it; empty where there is none."""
    return {missing.file: missing.command for missing in one.missing.values()}


def _seeds_text(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}" if seeds else "no seed"


def _to_run_text(file: str, command: str) -> str:
    return f"to be run for {file}.json: " + (command or "no run of the queue makes it")


def _html_seen(one: Judged, view: ClaimsView) -> str:
    lines = [f"<li>{breakable(value_text(name, value))}</li>" for name, value in one.found.items()]
    for outcome in one.outcomes:
        look, sign = STATES[outcome.state]
        text = escape(outcome_text(outcome, _decimals(one, outcome)))
        lines.append(f'<li><small class="{look}">{sign} {text}</small></li>')
    absent = dict.fromkeys(missing_text(missing) for missing in one.missing.values())
    lines += [f"<li class=missing>{breakable(text)}</li>" for text in absent]
    if one.claim.not_run:
        lines.append(f"<li class=missing>{escape(one.claim.not_run)}</li>")
    if one.claim.note:
        lines.append(f"<li class=note>{escape(one.claim.note)}</li>")
    return f"<ul>{''.join(lines)}</ul>{_html_recipe(one, view)}"


def _html_recipe(one: Judged, view: ClaimsView) -> str:
    parts = []
    for file, (seeds, commands) in recipes(one).items():
        parts.append(
            f"<p>{breakable(f'{file}.json')}, {_seeds_text(seeds)}</p><pre>{escape(chr(10).join(commands))}</pre>"
        )
    parts += [f"<p>{breakable(_to_run_text(*pair))}</p>" for pair in commands_to_run(one).items()]
    links = [f'<a href="#{picture_anchor(name)}">{escape(name)}</a>' for name in view.pictures_of(one)]
    if not parts:
        return ""
    seen = f"<p>{', '.join(links)}</p>" if links else ""
    return f"<details><summary>recipe</summary>{''.join(parts)}{seen}</details>"


def html_claims(view: ClaimsView) -> str:
    """All claims: counts by verdict, and a table for each paper."""
    counts = "; ".join(f"{verdict}: {count}" for verdict, count in count_verdicts(view.judged).items())
    parts = [f"<p><b>{len(view.judged)} claims. {counts}.</b></p><p class=note>{escape(NOTE)}</p>"]
    for paper, title in view.papers.items():
        rows = []
        for one in view.of(paper):
            look, sign = LOOKS[one.verdict]
            rows.append(
                f'<tr><th scope="row">{escape(one.claim.claim)}<small>{escape(one.claim.where)}</small></th>'
                f'<td class="verdict"><span class="{look}">{sign} {escape(one.text)}</span></td>'
                f'<td class="seen">{_html_seen(one, view)}</td></tr>'
            )
        if rows:
            head = "".join(f"<th scope=col>{name}</th>" for name in ("claim", "verdict", "what we saw"))
            parts.append(
                f'<h3>{escape(title)}</h3>\n<div class="scroll claims" tabindex="0" role="region" '
                f'aria-label="{escape(title)}"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
                + "\n".join(rows)
                + "\n</tbody>\n</table></div>\n"
            )
    return "".join(parts)


def _counts_table(view: ClaimsView) -> list[str]:
    rows = []
    for paper, title in [*view.papers.items(), ("", "all")]:
        counts = count_verdicts(view.of(paper) if paper else view.judged)
        rows.append([escape_markdown(title), *map(str, counts.values())])
    return markdown_table(["paper", *VERDICTS], rows, [True] + [False] * len(VERDICTS))


def markdown_claims(view: ClaimsView) -> list[str]:
    """All claims as lines: counts by verdict, then each claim with what was seen, its recipe and its picture."""
    lines = [escape_markdown(NOTE), "", *_counts_table(view), ""]
    for paper, title in view.papers.items():
        judged = view.of(paper)
        lines += [f"### {escape_markdown(title)}", ""] if judged else []
        for one in judged:
            where, claim = escape_markdown(one.claim.where), escape_markdown(one.claim.claim)
            lines += [f"**{one.text}** · {where}: {claim}", ""]
            lines += [f"- {escape_markdown(value_text(name, value))}" for name, value in one.found.items()]
            for outcome in one.outcomes:
                text = escape_markdown(outcome_text(outcome, _decimals(one, outcome)))
                lines.append(f"- {STATES[outcome.state][1]} {text}")
            absent = dict.fromkeys(missing_text(missing) for missing in one.missing.values())
            lines += [f"- {escape_markdown(text)}" for text in (*absent, one.claim.not_run, one.claim.note) if text]
            for file, (seeds, commands) in recipes(one).items():
                ways = "; ".join(f"`{command}`" for command in commands)
                lines.append(f"- from `{file}.json`, {_seeds_text(seeds)}: {ways}")
            for file, command in commands_to_run(one).items():
                lines.append(
                    f"- to be run for `{file}.json`: " + (f"`{command}`" if command else "no run of the queue")
                )
            lines += [f"- [{name}]({name})" for name in view.pictures_of(one)]
            lines.append("")
    return lines


def readme_claims(view: ClaimsView, source: str | None = None) -> list[str]:
    """
    The claims for a README: counts by verdict, and a line for each claim.

    Args:
        view (`ClaimsView`): The claims.
        source (`str`, *optional*): File with the numbers and recipes, to be named beneath.
    """
    lines = [*_counts_table(view), ""]
    for paper, title in view.papers.items():
        judged = view.of(paper)
        if judged:
            lines += [f"<details><summary>{escape_markdown(title)}: {len(judged)} claims</summary>", ""]
            lines += [
                f"- {escape_markdown(one.claim.where)}: {escape_markdown(one.claim.claim)} **{one.text}**"
                for one in judged
            ]
            lines += ["", "</details>", ""]
    named = f" Numbers, comparisons and recipes: `{source}`." if source else ""
    note = "Small systems, briefly trained: a verdict says what was seen here. “One seed”: another one may turn it."
    return [*lines, note + named]
