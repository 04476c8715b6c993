"""The numbers that decide on claims, found in result files: with their spread, seeds, and how they were made."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .claims import COVERAGE, WITH_INTERVAL, Selector
from .report_cells import number, wilson_interval
from .report_results import Result, file_stem, recipes_of, run_name, suite_name
from .report_systems import system_rows
from .reproduce_queue import QueuedRun
from .synthetic_report import summarize


Entry = Mapping[str, Any]
Interval = tuple[float, float]

# of a selector: kinds of result files that it reads
RESULT_KINDS = {
    "synthetic": ("synthetic",),
    "evaluation": ("evaluation",),
    "contrastive": ("evaluation", "contrastive"),
    "context_use": ("evaluation", "context-use"),
    "attention_share": ("evaluation", "attention-share"),
    "attention_map": ("sentence-attention",),
    "training": ("training",),
    "probe": ("probe",),
}
DECIMALS = {"context_use": 3, "training": 3}
# by measure, else by kind; scores are called by their measure
UNITS = {
    "parameters": "parameters",
    "coverage": "%",
    "peak_mib": "MiB",
    "seconds": "s",
    "synthetic": "%",
    "contrastive": "%",
    "context_use": "nats a token",
    "attention_share": "%",
    "attention_map": "%",
    "probe": "%",
}
# same for all seeds: another run cannot change it
COUNTED = ("parameters",)


class Absent(Exception):
    """An entry that a result file does not have; says which."""


class Misnamed(Exception):
    """A measure that a run does not have, though the run is there; says which there are."""


@dataclasses.dataclass(frozen=True)
class Observation:
    """
    A number from one run.

    Args:
        estimate (`float`): The number.
        interval (`tuple[float, float]`, *optional*): Its 95 % interval.
        seed (`int`, *optional*): Seed of the training; None for a benchmark.
        entry (`dict`): Part of the result file that it stands in.
        names (`tuple[str, ...]`): What other results may call the system.
    """

    estimate: float
    interval: Interval | None
    seed: int | None
    entry: Entry
    names: tuple[str, ...] = ()

    @property
    def ends(self) -> Interval:
        """The interval, else the number itself."""
        return self.interval or (self.estimate, self.estimate)


@dataclasses.dataclass(frozen=True)
class Value:
    """
    A number, once for each seed.

    Args:
        selector (`Selector`): Where it was found.
        observations (`tuple[Observation, ...]`): One a seed.
        commands (`tuple[str, ...]`): What made it.
    """

    selector: Selector
    observations: tuple[Observation, ...]
    commands: tuple[str, ...]

    @property
    def estimate(self) -> float:
        """The mean over the seeds."""
        return statistics.fmean(observation.estimate for observation in self.observations)

    @property
    def ends(self) -> Interval:
        """From the lowest to the highest, of intervals where there are any."""
        ends = [observation.ends for observation in self.observations]
        return min(low for low, _ in ends), max(high for _, high in ends)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs; empty for a benchmark."""
        return tuple(observation.seed for observation in self.observations if observation.seed is not None)

    @property
    def depends_on_seed(self) -> bool:
        """Whether another seed may give another number."""
        return bool(self.seeds) and self.selector.fields.get("measure") not in COUNTED

    @property
    def decimals(self) -> int:
        """Digits behind the point that say something."""
        if self.selector.fields.get("measure") in COUNTED:
            return 0
        if self.selector.kind == "benchmark":
            return 2 if abs(self.estimate) < 100 else 0
        return DECIMALS.get(self.selector.kind, 1)

    @property
    def unit(self) -> str:
        """What it is counted in."""
        measure = str(self.selector.fields.get("measure", ""))
        return UNITS.get(measure, measure if self.selector.kind == "evaluation" else UNITS.get(self.selector.kind, ""))

    @property
    def text(self) -> str:
        """`93.6 % (92.3 – 95.8)`."""
        low, high = (number(end, self.decimals) for end in self.ends)
        text = f"{number(self.estimate, self.decimals)} {self.unit}".rstrip()
        return text + ("" if low == high else f" ({low} – {high})")


@dataclasses.dataclass(frozen=True)
class Missing:
    """A number that is not there yet: in which file, why, and the command that makes it, where the queue has one."""

    selector: Selector
    file: str
    reason: str
    command: str = ""


class ResultFiles:
    """
    Result files, in which numbers are looked up.

    Args:
        results (`Sequence[Mapping]`): Their contents, with the names of the files as `result_file`.
        queue (`Sequence[QueuedRun]`, *optional*): Runs that make result files.
    """

    def __init__(self, results: Sequence[Result], queue: Sequence[QueuedRun] = ()):
        self.by_name = {result["result_file"].removesuffix(".json"): result for result in results}
        self._queue = {Path(run.output).stem: f"python -m {run.command}" for run in queue}
        # a system is scored in one file, and its seed stands in that of its training
        self._seeds: dict[int, int] = {}
        for row in system_rows(results):
            if row.training is not None and row.training.get("seed") is not None:
                self._seeds |= {id(result): row.training["seed"] for result in row.results}

    def command(self, file: str) -> str:
        """What makes a file, by the queue; empty where it does not."""
        return self._queue.get(file, "")

    def find(self, selector: Selector, where: str) -> Value | Missing:
        """
        Look up a number.

        Args:
            selector (`Selector`): Where it is.
            where (`str`): The claim and the value, for errors.

        Raises:
            `ValueError`: for a file of a kind in which it cannot be, and a measure that no run of an experiment has.
        """
        observations: list[Observation] = []
        commands: dict[str, None] = {}
        for file in selector.files:
            if file not in self.by_name:
                return Missing(selector, file, "is not there", self.command(file))
            result = self.by_name[file]
            kinds = RESULT_KINDS.get(selector.kind)
            if result["kind"] not in kinds if kinds else not result["kind"].endswith("benchmark"):
                raise ValueError(f"{where}: {file}.json is of kind {result['kind']!r}, which has no {selector.kind}.")
            try:
                observations += READERS[selector.kind](result, selector.fields, self._seeds.get(id(result)))
                _check_recipe(selector, result, observations)
            except Absent as absent:
                return Missing(selector, file, str(absent), self.command(file))
            except Misnamed as misnamed:
                raise ValueError(f"{where}: {file}.json {misnamed}") from misnamed
            recorded = [str(run["command"]) for run in recipes_of(result) if run.get("command")]
            commands |= dict.fromkeys(recorded)
        return Value(selector, tuple(observations), tuple(commands))


def _check_recipe(selector: Selector, result: Result, observations: Sequence[Observation]) -> None:
    """No number without command and seed, and none of a score without its interval."""
    if not all(run.get("command") for run in recipes_of(result)):
        raise Absent("does not say by which command it was made")
    if selector.kind != "benchmark" and any(observation.seed is None for observation in observations):
        raise Absent("has no seed, and no training result of this system has one")
    if selector.kind in WITH_INTERVAL and any(observation.interval is None for observation in observations):
        raise Absent(f"has no interval of {selector.fields.get('measure', 'the accuracy')}")


def _one(entries: Sequence[Entry], what: str) -> Entry:
    if not entries:
        raise Absent(f"has no {what}")
    return entries[0]


def _score(found: Any, what: str) -> float:
    if found is None:
        raise Absent(f"has no {what}")
    return float(found)


def _interval(found: Sequence[float] | None) -> Interval | None:
    return None if found is None else (float(found[0]), float(found[1]))


def _names(result: Result) -> tuple[str, ...]:
    return tuple(filter(None, (result.get("name"), run_name(result))))


def _synthetic(result: Result, fields: Entry, seed: int | None) -> list[Observation]:
    setting, system, measure = fields.get("setting", "default"), fields["system"], fields["measure"]
    runs = [run for run in result["runs"] if (run["setting"], run["system"]) == (setting, system)]
    _one(runs, f"run of {system!r}" + ("" if setting == "default" else f", {setting!r}"))
    return [Observation(_learned(run, measure, fields.get("distances")), None, run["seed"], run) for run in runs]


def _learned(run: Entry, measure: str, distances: Sequence[int] | None) -> float:
    """A measure of the summary, of this run alone; at some distances, the right words of a phenomenon in percent."""
    if distances is None:
        way = "translated" if measure.startswith("translated_") else "read"
        found = run["final"][way].get(measure.removeprefix("translated_"))
        if found is not None:
            return 100 * _score(found["accuracy"], measure)
        # probes and the like; rounded, unlike those above
        (row,) = summarize([dict(run)])
        if measure not in row:
            names = ", ".join(name for name, value in row.items() if isinstance(value, float | int))
            raise Misnamed(f"has no measure {measure!r} of {run['system']!r}. There are {names}.")
        return _score(row[measure], f"{measure!r} of {run['system']!r}")
    by_distance = run["final"]["read"].get(measure, {}).get("by_distance", {})
    parts = [by_distance.get(str(distance)) for distance in distances]
    known = [part for part in parts if part is not None and part["count"]]
    if len(known) < len(parts):
        raise Absent(f"has {measure!r} not at all the distances {', '.join(map(str, distances))}")
    right = sum(part["accuracy"] * part["count"] for part in known)
    return 100 * right / sum(part["count"] for part in known)


def _evaluation(result: Result, fields: Entry, seed: int | None) -> list[Observation]:
    test_set, measure = fields["test_set"], fields["measure"]
    entry = _one([entry for entry in result["test_sets"] if entry["name"] == test_set], f"test set {test_set!r}")
    if measure == COVERAGE:
        found = entry.get("coverage") or {}
        score = _score(found.get("score"), f"{measure} of {test_set}, which needs `--decoding free`")
        interval = wilson_interval(found["covered_documents"], found["documents"])
        return [Observation(score, interval, seed, entry, _names(result))]
    score = _score(entry["scores"].get(measure, {}).get("score"), f"{measure} on {test_set}")
    found = entry.get("intervals", {}).get("measures", {}).get(measure, {})
    return [Observation(score, _interval(found.get("interval")), seed, entry, _names(result))]


def _contrastive(result: Result, fields: Entry, seed: int | None) -> list[Observation]:
    entries = [entry for entry in result.get("suites", []) if suite_name(entry) == fields["suite"]]
    entry = _one(entries, f"suite {fields['suite']!r}")
    if "label" in fields:
        group = entry.get("breakdowns", {}).get(fields["label"], {}).get(str(fields["group"]))
        entry = _one([group] if group else [], f"{fields['label']} {fields['group']!r} of {fields['suite']!r}")
    interval = wilson_interval(entry["correct"], entry["items"])
    return [Observation(_score(entry["accuracy"], "accuracy"), interval, seed, entry, _names(result))]


def _context_use(result: Result, fields: Entry, seed: int | None) -> list[Observation]:
    entry = _on_data(result["test_sets"], fields["test_set"]).get("context_use", {})
    found = entry.get(fields["measure"]) or {}
    score = _score(found.get("score"), f"use of context on {fields['test_set']}")
    return [Observation(score, _interval(found.get("interval")), seed, entry)]


def _attention_share(result: Result, fields: Entry, seed: int | None) -> list[Observation]:
    if result["kind"] == "evaluation":
        entry = _on_data(result["test_sets"], fields["test_set"]).get("attention_share", {})
    else:
        entry = _on_data(result["entries"], fields["test_set"])
    return [Observation(_score(entry.get("share"), f"attention share on {fields['test_set']}"), None, seed, entry)]


def _attention_map(result: Result, fields: Entry, seed: int | None) -> list[Observation]:
    sides = [name for name, value in result.items() if isinstance(value, dict) and "by_place" in value]
    if fields["side"] not in sides:
        raise Misnamed(f"has no side {fields['side']!r}. There are {', '.join(sides)}.")
    found = result[fields["side"]]["by_place"]
    what = f"attention to the {fields['measure']} sentence"
    return [Observation(_score(found.get(fields["measure"]), what), None, seed, result)]


def _on_data(entries: Sequence[Entry], test_set: str) -> Entry:
    names = [entry["name"] if "name" in entry else file_stem(entry["data"]) for entry in entries]
    return _one([entry for entry, name in zip(entries, names, strict=True) if name == test_set], f"data {test_set!r}")


def _training(result: Result, fields: Entry, seed: int | None) -> list[Observation]:
    found = result.get(fields["measure"], result.get("metrics", {}).get(fields["measure"]))
    return [Observation(_score(found, fields["measure"]), None, result.get("seed"), result)]


def _probe(result: Result, fields: Entry, seed: int | None) -> list[Observation]:
    models = [model for model in result["models"] if model["name"] == fields["model"]]
    _one(models, f"model {fields['model']!r}")
    return [
        Observation(_probed(model, fields), None, model.get("seed", result.get("seed")), model) for model in models
    ]


def _probed(model: Entry, fields: Entry) -> float:
    layers = model["layers"]
    layer = fields.get("layer", layers[-1]["layer"])
    found = _one([entry for entry in layers if entry["layer"] == layer], f"layer {layer}").get(fields["task"], {})
    if "distance" not in fields:
        return _score(found.get(fields["measure"]), f"{fields['measure']} of {fields['task']}")
    # both directions
    values = dict(zip(model["distances"], found.get("by_distance", []), strict=True))
    known = [values[d] for d in (-fields["distance"], fields["distance"]) if values.get(d) is not None]
    return _score(statistics.fmean(known) if known else None, f"pairs at distance {fields['distance']}")


def _benchmark(result: Result, fields: Entry, seed: int | None) -> list[Observation]:
    wanted = fields["entry"]
    entries = [
        entry
        for entry in result.get(fields.get("list", "entries"), [])
        if all(entry.get(name) == value for name, value in wanted.items())
    ]
    entry = _one(entries, "entry with " + ", ".join(f"{name} {value}" for name, value in wanted.items()))
    if len(entries) > 1:
        raise ValueError(f"{result['result_file']}: {len(entries)} entries are {dict(wanted)}. Say more of the one.")
    return [Observation(_score(entry.get(fields["measure"]), fields["measure"]), None, None, entry)]


READERS: dict[str, Callable[[Result, Entry, int | None], list[Observation]]] = {
    "synthetic": _synthetic,
    "evaluation": _evaluation,
    "contrastive": _contrastive,
    "context_use": _context_use,
    "attention_share": _attention_share,
    "attention_map": _attention_map,
    "training": _training,
    "probe": _probe,
    "benchmark": _benchmark,
}
