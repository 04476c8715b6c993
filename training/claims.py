"""
What the papers claim, and what would have to be seen for each claim to hold: the YAML file of them, read and checked.

    papers:
      p-transformer: "Li et al., P-Transformer"
    claims:
      - id: length-vanilla
        paper: p-transformer
        where: figure 7
        claim: Plain attention fails as documents grow.
        each: {synthetic: synthetic.length, system: concat-document, measure: words}
        values:
          2 sentences: {setting: 2 sentences}
          32 sentences: {setting: 32 sentences}
        holds_when:
          - 2 sentences > 32 sentences by 20

`each` holds what the values share. A value names a result file (without `.json`; a list of files is one for each
seed) and how to find a number in it, see `SELECTORS`. A comparison is `A > B by N` (clear from a difference of N
on), `A >= B within N` (at least as much, up to N), or `A = B`; B is a value, a number, `2 x value` or `value + 100`.
Where no run can show a claim, `not_run` says why. Numbers and verdicts are in no claim, they are computed from the
result files: `claims_values` finds the numbers, `claims_verdict` judges.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .metrics import ALL_MEASURES


CLAIMS = "training/claims.yaml"
CONFIGS = Path(__file__).parent / "configs"

# by the field that names the result file: what else a selector needs, and what it may have
SELECTORS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "synthetic": (("system", "measure"), ("setting", "distances")),
    "evaluation": (("test_set", "measure"), ()),
    "contrastive": (("suite",), ("label", "group")),
    "context_use": (("test_set", "measure"), ()),
    "attention_share": (("test_set",), ()),
    "attention_map": (("side", "measure"), ()),
    "training": (("measure",), ()),
    "probe": (("model", "task", "measure"), ("layer", "distance")),
    "benchmark": (("entry", "measure"), ("list",)),
}
# their values come with an interval; of the others, a comparison must say which difference is clear
WITH_INTERVAL = ("evaluation", "contrastive", "context_use")
COVERAGE = "coverage"

_COMPARISON = re.compile(
    r"(?P<left>.+?) (?P<sign>>=|<=|>|<|=) (?P<right>.+?)(?: (?P<word>by|within) (?P<margin>\d+(?:\.\d+)?))?"
)
_TERM = re.compile(r"(?:(?P<factor>\d+(?:\.\d+)?) x )?(?P<name>.+?)(?: \+ (?P<offset>\d+(?:\.\d+)?))?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORDS = {">": "by", "<": "by", ">=": "within", "<=": "within", "=": None}


@dataclasses.dataclass(frozen=True)
class Selector:
    """
    Where a number is.

    Args:
        kind (`str`): Key of `SELECTORS`.
        files (`tuple[str, ...]`): Result files, one for each seed where each seed has a file.
        fields (`Mapping[str, Any]`): What finds it in the file.
    """

    kind: str
    files: tuple[str, ...]
    fields: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Term:
    """The right side of a comparison: `factor` times a value, plus `offset`; without a name, the offset alone."""

    name: str | None
    factor: float = 1.0
    offset: float = 0.0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`left sign right`, with the margin that belongs to the sign; `text` is how the file has it."""

    text: str
    left: str
    sign: str
    right: Term
    margin: float | None

    @property
    def names(self) -> tuple[str, ...]:
        """The values in it."""
        return (self.left,) if self.right.name is None else (self.left, self.right.name)


@dataclasses.dataclass(frozen=True)
class Claim:
    """
    A claim of a paper.

    Args:
        id (`str`): Names it.
        paper (`str`): Which of the papers.
        where (`str`): Table, figure or section.
        claim (`str`): The claim in a sentence.
        values (`Mapping[str, Selector]`): Numbers that decide on it, by name.
        holds_when (`tuple[Comparison, ...]`): All of these must hold.
        not_run (`str`): Why no run can show it; then it has no values.
        note (`str`): What a reader must know of the comparison.
    """

    id: str
    paper: str
    where: str
    claim: str
    values: Mapping[str, Selector] = dataclasses.field(default_factory=dict)
    holds_when: tuple[Comparison, ...] = ()
    not_run: str = ""
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Compared:
    """
    Two systems that are compared in all measures.

    Args:
        system, baseline (`str`): Files of their evaluations.
        named_suite (`str`): The contrastive suite that was named beforehand; all other measures are corrected.
        repeats (`tuple[tuple[str, str], ...]`, *optional*): Files of the same two with other seeds.
    """

    system: str
    baseline: str
    named_suite: str
    repeats: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class ClaimList:
    """A file of claims: names of the papers, the claims in their order, and the two systems of `compared`."""

    papers: Mapping[str, str]
    claims: tuple[Claim, ...]
    compared: Compared | None = None


def _check_fields(found: Any, needed: Sequence[str], others: Sequence[str], where: str) -> None:
    if not isinstance(found, Mapping):
        raise ValueError(f"{where}: must be a mapping, got {found!r}.")
    unknown = [name for name in found if name not in (*needed, *others)]
    if unknown:
        raise ValueError(f"{where}: there is no `{unknown[0]}`, but {', '.join((*needed, *others))}.")
    missing = [name for name in needed if name not in found]
    if missing:
        raise ValueError(f"{where}: `{missing[0]}` is missing.")


def read_comparison(text: str, names: Sequence[str], where: str) -> Comparison:
    """
    Read a comparison.

    Args:
        text (`str`): `A > B by 20`.
        names (`Sequence[str]`): Names of the values.
        where (`str`): The claim, for errors.

    Raises:
        `ValueError`: for another form, and names that no value has.
    """
    found = _COMPARISON.fullmatch(str(text))
    if found is None:
        raise ValueError(f"{where}: a comparison reads `A > B by N`, `A >= B within N` or `A = B`, got {text!r}.")
    sign, word = found["sign"], found["word"]
    if word not in (None, _WORDS[sign]) or (word is None and _WORDS[sign] == "within"):
        takes = f"`{_WORDS[sign]} N`" if _WORDS[sign] else "nothing behind it"
        raise ValueError(f"{where}: `{sign}` takes {takes}, got {text!r}.")
    if _NUMBER.fullmatch(found["right"]):
        right = Term(None, offset=float(found["right"]))
    else:
        term = _TERM.fullmatch(found["right"])
        assert term is not None  # `.+?` takes what is there
        right = Term(term["name"], float(term["factor"] or 1), float(term["offset"] or 0))
    for name in (found["left"], right.name):
        if name is not None and name not in names:
            raise ValueError(f"{where}: {text!r} names {name!r}. The values are {', '.join(map(repr, names))}.")
    return Comparison(
        str(text), found["left"], sign, right, None if found["margin"] is None else float(found["margin"])
    )


def read_selector(fields: Mapping[str, Any], where: str) -> Selector:
    """
    Read where a number is.

    Raises:
        `ValueError`: for unknown kinds of files, unknown fields, and names that an experiment or a measure has not.
    """
    kinds = [name for name in fields if name in SELECTORS] if isinstance(fields, Mapping) else []
    if len(kinds) != 1:
        raise ValueError(f"{where}: must name one result file, as one of {', '.join(SELECTORS)}, got {fields!r}.")
    (kind,) = kinds
    needed, others = SELECTORS[kind]
    _check_fields(fields, (kind, *needed), others, where)
    files = fields[kind] if isinstance(fields[kind], list) else [fields[kind]]
    if not files or not all(isinstance(file, str) and not file.endswith(".json") for file in files):
        raise ValueError(f"{where}: `{kind}` must be the name of a result file without `.json`, got {fields[kind]!r}.")
    if kind == "synthetic":
        _check_experiment(fields, files, where)
    if kind == "evaluation" and fields["measure"] not in (*ALL_MEASURES, COVERAGE):
        measures = ", ".join((*ALL_MEASURES, COVERAGE))
        raise ValueError(f"{where}: `measure` must be one of {measures}, got {fields['measure']!r}.")
    if ("label" in fields) != ("group" in fields):
        raise ValueError(f"{where}: `label` and `group` go together.")
    if kind == "benchmark" and not isinstance(fields["entry"], Mapping):
        raise ValueError(f"{where}: `entry` must hold what tells it from others, got {fields['entry']!r}.")
    return Selector(kind, tuple(files), {name: value for name, value in fields.items() if name != kind})


def _check_experiment(fields: Mapping[str, Any], files: Sequence[str], where: str) -> None:
    """Names of systems and settings are those of the experiment that leaves the file, where it is written."""
    for file in files:
        config = CONFIGS / f"{file}.yaml"
        if config.is_file():
            experiment = yaml.safe_load(config.read_text(encoding="utf-8"))
            choices = {"system": experiment["systems"], "setting": experiment.get("settings", {"default": {}})}
            for name, known in choices.items():
                if fields.get(name, "default" if name == "setting" else None) not in known:
                    asked, there = fields.get(name, "default"), ", ".join(map(repr, known))
                    raise ValueError(f"{where}: {config.name} has no {name} {asked!r}, but {there}.")


def read_claim(entry: Any, papers: Sequence[str], where: str) -> Claim:
    """
    Read a claim.

    Raises:
        `ValueError`: that names the claim, for whatever is wrong in it.
    """
    needed = ("id", "paper", "where", "claim")
    _check_fields(entry, needed, ("values", "holds_when", "each", "not_run", "note"), where)
    if entry["paper"] not in papers:
        raise ValueError(f"{where}: `paper` must be one of {', '.join(papers)}, got {entry['paper']!r}.")
    if re.search(r"\d", entry.get("note", "")):
        raise ValueError(f"{where}: `note` has a number. Numbers come from result files: make it a value.")
    name, paper, place, text = (str(entry[name]) for name in needed)
    if "not_run" in entry:
        if len(entry) > len(needed) + 1 + ("note" in entry):
            raise ValueError(f"{where}: has `not_run`, and so neither values nor comparisons.")
        return Claim(name, paper, place, text, not_run=str(entry["not_run"]), note=entry.get("note", ""))
    if not entry.get("values") or not entry.get("holds_when"):
        raise ValueError(f"{where}: needs `values` and `holds_when`, or `not_run`.")
    each = entry.get("each", {})
    values = {
        str(name): read_selector({**each, **(own or {})}, f"{where}, value {name!r}")
        for name, own in entry["values"].items()
    }
    comparisons = tuple(read_comparison(line, list(values), where) for line in entry["holds_when"])
    unused = [name for name in values if all(name not in comparison.names for comparison in comparisons)]
    if unused:
        raise ValueError(f"{where}: no comparison uses the value {unused[0]!r}.")
    for comparison in comparisons:
        lacks = [name for name in comparison.names if values[name].kind not in WITH_INTERVAL]
        if comparison.margin is None and comparison.sign != "=" and lacks:
            raise ValueError(
                f"{where}: {comparison.text!r} needs `by N`, the difference that is clear, as {lacks[0]!r} has none."
            )
        if len({values[name].kind for name in comparison.names}) > 1:
            raise ValueError(f"{where}: {comparison.text!r} compares numbers of different kinds.")
    return Claim(name, paper, place, text, values, comparisons, note=entry.get("note", ""))


def read_claims(path: str | Path) -> ClaimList:
    """
    Read a file of claims.

    Raises:
        `ValueError`: for unknown fields, kinds of files and names, and claims that are there twice.
    """
    content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    name = Path(path).name
    _check_fields(content, ("papers", "claims"), ("compared",), name)
    claims: list[Claim] = []
    for number, entry in enumerate(content["claims"], start=1):
        label = entry.get("id", number) if isinstance(entry, Mapping) else number
        claims.append(read_claim(entry, list(content["papers"]), f"{name}, claim {label!r}"))
        if any(claims[-1].id == other.id for other in claims[:-1]):
            raise ValueError(f"{name}, claim {label!r}: is there twice.")
    compared = None
    if "compared" in content:
        fields, where = dict(content["compared"]), f"{name}, `compared`"
        _check_fields(fields, ("system", "baseline", "named_suite"), ("repeats",), where)
        for pair in (repeats := fields.pop("repeats", ())):
            _check_fields(pair, ("system", "baseline"), (), f"{where}, `repeats`")
        compared = Compared(**fields, repeats=tuple((pair["system"], pair["baseline"]) for pair in repeats))
    return ClaimList(content["papers"], tuple(claims), compared)
