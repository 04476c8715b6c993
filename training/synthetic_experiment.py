"""Experiments on synthetic tasks: the YAML file of one, and the runs that it asks for."""

import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from transformers import GenerationConfig

from modeling_docmt.configuration_docmt import SYSTEMS, DocMTConfig
from modeling_docmt.decoding_options_docmt import DocumentOptions

from .learning import LearningPlan
from .starting_weights import INIT_PARTS
from .synthetic_cipher import CipherTask
from .synthetic_discourse import DiscourseTask
from .synthetic_documents import SyntheticTask, WordVocabulary
from .synthetic_measures import ProbePlan


TASKS: dict[str, type[CipherTask] | type[DiscourseTask]] = {"cipher": CipherTask, "discourse": DiscourseTask}


@dataclass(frozen=True)
class Start:
    """
    Another run whose weights a run starts from.

    Attributes:
        run (`Run`): Of the same setting and seed.
        parts (`str`): What is loaded, a key of `INIT_PARTS`.
        loaded_lr_scale (`float`): Learning rate of what is loaded, by that of what is fresh.
    """

    run: "Run"
    parts: str
    loaded_lr_scale: float


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
        generation (`dict`): Options of `generate()` in the end, in place of the defaults.
        start (`Start`, *optional*): Where its first weights are from; by default they are fresh.
        probe (`ProbePlan`, *optional*): How the encoder is probed in the end; by default it is not.
        single_sentences (`bool`): Whether sentences that come alone are translated in the end.
    """

    setting: str
    system: str
    seed: int
    task: SyntheticTask
    plan: LearningPlan
    preset: str
    changes: Mapping[str, Any]
    generation: Mapping[str, Any] = field(default_factory=dict)
    start: Start | None = None
    probe: ProbePlan | None = None
    single_sentences: bool = False

    @property
    def key(self) -> tuple[str, str, int]:
        """Names the run within its experiment."""
        return self.setting, self.system, self.seed

    def config(self, vocabulary: WordVocabulary) -> DocMTConfig:
        """Configuration of the model."""
        return DocMTConfig.from_system(self.preset, **{**vocabulary.config_fields(), **self.changes})

    def recipe_of_weights(self) -> dict[str, Any]:
        """All that decides on the trained model, for JSON."""
        recipe = {
            "task": self.task.name,
            "data": _as_json(dataclasses.asdict(self.task)),  # type: ignore[call-overload]
            "training": dataclasses.asdict(self.plan),
            "preset": self.preset,
            "config": dict(self.changes),
        }
        # a run that starts from nothing has the recipe that it had before runs could start from others
        if self.start is not None:
            start = {"parts": self.start.parts, "loaded_lr_scale": self.start.loaded_lr_scale}
            recipe["start"] = {"recipe": self.start.run.recipe_of_weights(), **start}
        return recipe

    def recipe(self) -> dict[str, Any]:
        """All that decides on the outcome, for JSON."""
        recipe = self.recipe_of_weights()
        # as above: what is left at its default is not in it
        if self.generation:
            recipe["generation"] = dict(self.generation)
        if self.probe is not None:
            recipe["probe"] = dataclasses.asdict(self.probe)
        if self.single_sentences:
            recipe["single_sentences"] = True
        return recipe


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """
    Systems that learn the same tasks, as an experiment's YAML file describes them.

    Args:
        task (`str`): `"cipher"` or `"discourse"`.
        output (`str`): JSON file of the results; runs that are in it are not done again.
        seeds (`list[int]`): Each system learns each setting once a seed.
        systems (`dict[str, dict]`):
            What is compared: by name, fields of `DocMTConfig` that differ from the preset. `system` says which
            preset, if that is not the name itself; `training` holds options of `LearningPlan` of this system alone,
            `generation` those of `generate()` in the end; `start_from` names the system whose weights, of the same
            setting and seed, are the first ones, with `start_parts` (`"all"` or `"encoder"`) and `loaded_lr_scale`,
            see `LoadedStart`.
        settings (`dict[str, dict]`, *optional*):
            By name, options of the task, added to those of `data`; `training` among them holds options of
            `LearningPlan`, added to those of the experiment.
        data (`dict`, *optional*): Options of the task in all settings.
        model (`dict`, *optional*): Fields of `DocMTConfig` in all systems.
        training (`dict`, *optional*): Options of `LearningPlan`.
        probe (`dict`, *optional*): Options of `ProbePlan`, empty for its defaults: the encoders are probed in the end.
        single_sentences (`bool`, *optional*, defaults to `False`):
            Translate single sentences of the evaluation documents in the end, see `translate_sentences_alone`.
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
    probe: dict[str, Any] | None = None
    single_sentences: bool = False
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
        """All runs, those of the same documents behind each other, and each behind the one that it starts from."""
        order = self._starts_first()
        for setting, of_setting in self.settings.items():
            options = dict(of_setting or {})
            training = {**self.training, **options.pop("training", {})}
            for seed in self.seeds:
                task = make_task(self.task, {**self.data, **options, "seed": seed})
                runs: dict[str, Run] = {}
                for name in order:
                    runs[name] = self._run(setting, name, seed, task, training, runs)
                    yield runs[name]

    def _run(
        self,
        setting: str,
        name: str,
        seed: int,
        task: SyntheticTask,
        training: Mapping[str, Any],
        earlier: Mapping[str, Run],
    ) -> Run:
        own = dict(self.systems[name] or {})
        plan = _build(LearningPlan, {**training, **own.pop("training", {})}, "training")
        generation = own.pop("generation", {})
        check_names(generation, [*DocumentOptions.names(), *vars(GenerationConfig())], f"generation of `{name}`")
        start = _start(name, own, earlier)
        changes = {**self.model, **own}
        preset = changes.pop("system", name)
        check_choice(f"system of `{name}`", preset, SYSTEMS)
        check_names(changes, [f.name for f in dataclasses.fields(DocMTConfig)], f"system `{name}`")
        probe = None if self.probe is None else _build(ProbePlan, self.probe, "probe")
        return Run(setting, name, seed, task, plan, preset, changes, generation, start, probe, self.single_sentences)

    def _starts_first(self) -> list[str]:
        """Systems in their order, but for those that start from a later one."""
        starts = {name: (own or {}).get("start_from") for name, own in self.systems.items()}
        for name, start in starts.items():
            if start is not None:
                check_choice(f"`start_from` of `{name}`", start, self.systems)
        order: list[str] = []
        for name in starts:
            chain = [name]
            while (start := starts[chain[-1]]) is not None and start not in order:
                if start in chain:
                    raise ValueError(f"`start_from` goes in a circle: {' from '.join(map(repr, [*chain, start]))}.")
                chain.append(start)
            order += [one for one in reversed(chain) if one not in order]
        return order


def _start(name: str, own: dict[str, Any], earlier: Mapping[str, Run]) -> Start | None:
    """Take the options of a start out of those of a system."""
    source = own.pop("start_from", None)
    parts, scale = own.pop("start_parts", None), own.pop("loaded_lr_scale", None)
    if source is None:
        if (parts, scale) != (None, None):
            raise ValueError(
                f"system `{name}`: `start_parts` and `loaded_lr_scale` are about weights that are loaded: name the "
                "system as `start_from`, or leave them out."
            )
        return None
    parts, scale = "all" if parts is None else parts, 1.0 if scale is None else float(scale)
    check_choice(f"`start_parts` of `{name}`", parts, INIT_PARTS)
    if scale < 0:
        raise ValueError(f"system `{name}`: `loaded_lr_scale` must be 0 or more, got {scale}.")
    return Start(earlier[source], parts, scale)


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
