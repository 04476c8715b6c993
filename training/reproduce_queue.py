"""Reads the file of a queue of runs: what there is to run, in which order, and what one run needs of another."""

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from .checkpoints import whole_checkpoints
from .results import expand_path


QUEUE = "training/configs/reproduce.yaml"
CONFIGS = "training/configs"
RESULTS = "training/results"
# the fields of short entries, which stand for a whole run
TRAIN_FIELDS = ("train", "config", "options", "needs", "leaves", "hours", "tells")
EVALUATE_FIELDS = ("evaluate", "config", "called", "options", "baselines", "model", "needs", "hours", "tells")


@dataclass(frozen=True)
class QueuedRun:
    """
    One run of the queue.

    Args:
        name (`str`): Names the run, its log and its lock.
        command (`str`): Module of this package and its arguments, as behind `python -m`; `$NAME` is a variable.
        output (`str`): File that is there once the run is done; it may have been done on another machine.
        hours (`float`): CPU hours it takes, as measured or estimated.
        tells (`str`): The question it answers.
        needs (`tuple[str, ...]`): Runs that come before it.
        leaves (`tuple[str, ...]`): What it leaves for other runs and is not in the repository, such as weights.
        checkpoints (`str`, *optional*): Folder with the checkpoints from which a training goes on.
    """

    name: str
    command: str
    output: str
    hours: float
    tells: str
    needs: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    checkpoints: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the result file is there."""
        return Path(self.output).is_file()

    @property
    def is_here(self) -> bool:
        """Whether all that other runs need of it is there, too."""
        return self.is_done and all(Path(path).exists() for path in self.leaves)

    def words(self) -> list[str]:
        """The command to start, with the option to go on from a checkpoint where there is one."""
        try:
            words = [expand_path(word) for word in shlex.split(self.command)]
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error
        if self.checkpoints is not None and whole_checkpoints(self.checkpoints):
            words += ["--resume_from_checkpoint", "true"]
        return [sys.executable, "-m", *words]


def read_queue(path: str | Path) -> list[QueuedRun]:
    """
    Read the runs of a queue, the most telling first.

    An entry has the fields of `QueuedRun`, or is a short one. `train: NAME` trains by the file of this name in the
    folder of configurations (or by another `config` there, into `runs/NAME`), with further `options`.
    `evaluate: NAME` needs that training (or has a `model` and `needs`), is `called` so in reports, and is compared
    with `baselines`, names of evaluations before it.

    Raises:
        `ValueError`: for unknown or missing fields, names that are there twice, and needs that no run before fulfils.
    """
    entries = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{path}: must hold a list of runs.")
    runs: dict[str, QueuedRun] = {}
    called: dict[str, str] = {}
    for number, entry in enumerate(entries, start=1):
        name = entry.get("name", entry.get("train", entry.get("evaluate", number)))
        run = _run(entry, called, f"{path}: run {name!r}")
        if run.name in runs:
            raise ValueError(f"{path}: run {run.name!r} is there twice.")
        absent = [need for need in run.needs if need not in runs]
        if absent:
            raise ValueError(f"{path}: run {run.name!r} needs {absent[0]!r}, which no run before it is.")
        runs[run.name] = run
    return list(runs.values())


def _run(entry: Mapping[str, Any], called: dict[str, str], where: str) -> QueuedRun:
    """The run of an entry; keeps in `called` what an evaluation is called."""
    if "train" in entry:
        _check(entry, TRAIN_FIELDS, ("hours", "tells"), where)
        return _training(entry)
    if "evaluate" in entry:
        _check(entry, EVALUATE_FIELDS, ("hours", "tells"), where)
        unknown = [name for name in entry.get("baselines", ()) if name not in called]
        if unknown:
            raise ValueError(f"{where} has a baseline {unknown[0]!r}, which no entry before it evaluates.")
        called[entry["evaluate"]] = entry.get("called", entry["evaluate"])
        return _evaluation(entry, called)
    needed = [one.name for one in fields(QueuedRun) if one.default is MISSING]
    _check(entry, [one.name for one in fields(QueuedRun)], needed, where)
    return QueuedRun(**{**entry, "needs": tuple(entry.get("needs", ())), "leaves": tuple(entry.get("leaves", ()))})


def _check(entry: Mapping[str, Any], known: Sequence[str], needed: Iterable[str], where: str) -> None:
    unknown = [name for name in entry if name not in known]
    if unknown:
        raise ValueError(f"{where} has a field {unknown[0]!r}. There are {', '.join(known)}.")
    missing = [name for name in needed if name not in entry]
    if missing:
        raise ValueError(f"{where} has no `{missing[0]}`.")


def _training(entry: Mapping[str, Any]) -> QueuedRun:
    name, folder = entry["train"], f"runs/{entry['train']}"
    words = [f"training.train {CONFIGS}/{entry.get('config', name)}.yaml", entry.get("options", "")]
    # a configuration that is named otherwise writes into a folder named otherwise
    words += [f"--output_dir {folder}"] if "config" in entry else []
    leaves = (f"{folder}/model.safetensors", *entry.get("leaves", ()))
    return _short_run(f"{name}.train", entry, [*words, "--results_file"], entry.get("needs", ()), leaves, folder)


def _evaluation(entry: Mapping[str, Any], called: Mapping[str, str]) -> QueuedRun:
    name, baselines = entry["evaluate"], entry.get("baselines", ())
    words = [f"training.evaluate {CONFIGS}/{entry['config']}.yaml" if "config" in entry else "training.evaluate"]
    words += [f"--model {entry.get('model', f'runs/{name}')} --name {called[name]}", entry.get("options", "")]
    if baselines:
        words.append("--baselines " + " ".join(f"{called[other]}={_hypotheses(other)}" for other in baselines))
    words.append(f"--save_hypotheses {_hypotheses(name)} --output")
    needs = (*entry.get("needs", (f"{name}.train",)), *(f"{other}.eval" for other in baselines))
    return _short_run(f"{name}.eval", entry, words, needs, (_hypotheses(name),))


def _short_run(
    name: str,
    entry: Mapping[str, Any],
    words: Iterable[str],
    needs: Iterable[str],
    leaves: tuple[str, ...],
    checkpoints: str | None = None,
) -> QueuedRun:
    """The run of a short entry; its command ends in the option that names the result file."""
    output = f"{RESULTS}/{name}.json"
    command = " ".join(filter(None, [*words, output]))
    return QueuedRun(name, command, output, entry["hours"], entry["tells"], tuple(needs), leaves, checkpoints)


def _hypotheses(name: str) -> str:
    return f"runs/hyp.{name}"
