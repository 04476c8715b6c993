"""Experiments on synthetic tasks: the YAML file of one, and the runs that it asks for."""

import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from modeling_docmt.configuration_docmt import SYSTEMS, DocMTConfig

from .learning import LearningPlan
from .synthetic_cipher import CipherTask
from .synthetic_discourse import DiscourseTask
from .synthetic_documents import SyntheticTask, WordVocabulary


TASKS: dict[str, type[CipherTask] | type[DiscourseTask]] = {"cipher": CipherTask, "discourse": DiscourseTask}


@dataclass(frozen=True)
class Run:
    """
    One training of an experiment.

    Attributes:
        setting, system (`str`): Names in the experiment.
        seed (`int`): Of the language and the documents, of the first weights and of the order of the batches.
        task (`SyntheticTask`): What is learned.
        plan (`LearningPlan`): How.
        preset (`str`): Row of `SYSTEMS`.
        changes (`dict`): Fields of `DocMTConfig` that differ from the preset.
    """

    setting: str
    system: str
    seed: int
    task: SyntheticTask
    plan: LearningPlan
    preset: str
    changes: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str, int]:
        """Names the run within its experiment."""
        return self.setting, self.system, self.seed

    def config(self, vocabulary: WordVocabulary) -> DocMTConfig:
        """Configuration of the model."""
        return DocMTConfig.from_system(self.preset, **{**vocabulary.config_fields(), **self.changes})

    def recipe(self) -> dict[str, Any]:
        """All that decides on the outcome, for JSON."""
        return {
            "task": self.task.name,
            "data": _as_json(dataclasses.asdict(self.task)),  # type: ignore[call-overload]
            "training": dataclasses.asdict(self.plan),
            "preset": self.preset,
            "config": dict(self.changes),
        }


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """
    Systems that learn the same tasks, as an experiment's YAML file describes them.

    Args:
        task (`str`): `"cipher"` or `"discourse"`.
        output (`str`): JSON file of the results; runs that are in it are not done again.
        seeds (`list[int]`): Each system learns each setting once a seed.
        systems (`dict[str, dict]`):
            What is compared: by name, fields of `DocMTConfig` that differ from the preset. `system` says which preset,
            if that is not the name itself.
        settings (`dict[str, dict]`, *optional*):
            By name, options of the task, added to those of `data`; `training` among them holds options of
            `LearningPlan`, added to those of the experiment.
        data (`dict`, *optional*): Options of the task in all settings.
        model (`dict`, *optional*): Fields of `DocMTConfig` in all systems.
        training (`dict`, *optional*): Options of `LearningPlan`.
        plot (`str`, *optional*): PNG file of the learning curves.
    """

    task: str
    output: str
    seeds: list[int]
    systems: dict[str, dict[str, Any]]
    settings: dict[str, dict[str, Any]] = field(default_factory=lambda: {"default": {}})
    data: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    plot: str | None = None

    def __post_init__(self):
        check_choice("task", self.task, TASKS)
        if not (self.seeds and self.systems and self.settings):
            raise ValueError("`seeds`, `systems` and `settings` must name at least one each.")
        # a mistake in the last run should not show after an hour
        for run in self.runs():
            run.config(WordVocabulary(run.task.words()))

    @classmethod
    def from_file(cls, path: str | Path, **changes: Any) -> "Experiment":
        """
        Read an experiment.

        Args:
            path (`str` or `Path`): YAML file.
            changes: Fields in place of those of the file; `None` leaves them.

        Raises:
            `ValueError`: if something in it has no meaning; the nearest name is suggested.
        """
        options = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        options |= {name: value for name, value in changes.items() if value is not None}
        check_names(options, [f.name for f in dataclasses.fields(cls)], str(path))
        missing = [name for name in ("task", "output", "seeds", "systems") if name not in options]
        if missing:
            raise ValueError(f"{path}: `{missing[0]}` is missing.")
        return cls(**options)

    def runs(self) -> Iterator[Run]:
        """All runs, those of the same documents behind each other."""
        fields_of_config = [f.name for f in dataclasses.fields(DocMTConfig)]
        for setting, of_setting in self.settings.items():
            options = dict(of_setting or {})
            plan = _build(LearningPlan, {**self.training, **options.pop("training", {})}, "training")
            for seed in self.seeds:
                task = make_task(self.task, {**self.data, **options, "seed": seed})
                for name, own in self.systems.items():
                    changes = {**self.model, **(own or {})}
                    preset = changes.pop("system", name)
                    check_choice(f"system of `{name}`", preset, SYSTEMS)
                    check_names(changes, fields_of_config, f"system `{name}`")
                    yield Run(setting, name, seed, task, plan, preset, changes)


def make_task(name: str, options: Mapping[str, Any]) -> SyntheticTask:
    """
    A task by name.

    Args:
        name (`str`): Key of `TASKS`.
        options (`Mapping[str, Any]`): Arguments of its class.
    """
    check_choice("task", name, TASKS)
    return _build(TASKS[name], options, f"task `{name}`")


def check_choice(what: str, value: str, choices: Iterable[str]) -> None:
    """Refuse what is no choice."""
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_names(names: Iterable[str], known: list[str], where: str) -> None:
    """Refuse names that do not exist, with the nearest one that does."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            raise ValueError(f"{where}: there is no option `{name}`.{hint}")


def _build(kind: type, options: Mapping[str, Any], where: str) -> Any:
    check_names(options, [f.name for f in dataclasses.fields(kind)], where)
    return kind(**options)


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    """Tuples as lists, as they come back from a file."""
    return {name: list(entry) if isinstance(entry, tuple) else entry for name, entry in value.items()}
