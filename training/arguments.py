"""Arguments of `training.train`: dataclasses read from flags, from YAML files that may build on others, or both."""

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml
from transformers import Seq2SeqTrainingArguments

from modeling_docmt.configuration_docmt import SYSTEMS, DocMTConfig

from .command_line import make_parser


@dataclass
class ModelArguments:
    """What is trained: a system from scratch, or one that starts from earlier weights."""

    system: str = field(
        default="sentence-level",
        metadata={"help": f"System of the literature: {', '.join(SYSTEMS)}.", "choices": list(SYSTEMS)},
    )
    config_overrides: str | None = field(
        default=None,
        metadata={"help": "Changes to the system's configuration, as 'd_model=256,encoder_layers=3'."},
    )
    init_from: str | None = field(
        default=None,
        metadata={"help": "Checkpoint folder whose weights are the start, such as a sentence-level model."},
    )
    init_parts: str = field(
        default="all",
        metadata={
            "help": "What is loaded from `init_from`: 'all' that both models have, or the 'encoder' with its "
            "embeddings, which tied embeddings share with the decoder; the rest of the decoder is fresh.",
            "choices": ["all", "encoder"],
        },
    )
    separator_from_eos: bool = field(
        default=False,
        metadata={
            "help": "The embedding of `<sep>` begins as that of `<eos>`: `init_from` knows sentences alone, and has "
            "never learned what closes one of several."
        },
    )
    tokenizer_name: str | None = field(
        default=None, metadata={"help": "Tokenizer folder; that of `init_from` where missing."}
    )
    architecture: str = field(
        default="docmt",
        metadata={
            "help": "'docmt', or 'marian': a MarianMTModel of the same shape, to compare with (sentence-level only).",
            "choices": ["docmt", "marian"],
        },
    )


@dataclass
class DataArguments:
    """The documents, by the names of `run_translation.py` where they exist."""

    train_file: list[str] = field(default_factory=list, metadata={"help": "JSONL records or prepared folders."})
    validation_file: list[str] = field(default_factory=list, metadata={"help": "The same, for evaluation."})
    source_lang: str | None = field(
        default=None, metadata={"help": "Source language; that of the records by default."}
    )
    target_lang: str | None = field(
        default=None, metadata={"help": "Target language; that of the records by default."}
    )
    max_source_length: int | None = field(
        default=None, metadata={"help": "Leave out sequences with more source tokens than this."}
    )
    max_target_length: int | None = field(
        default=None, metadata={"help": "Leave out sequences with more target tokens than this."}
    )
    train_part_tokens: int | None = field(
        default=None,
        metadata={
            "help": "Cut documents into training parts of at most so many tokens; by default `max_part_tokens` of the "
            "system, which the model keeps for decoding."
        },
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Use the first documents only."})
    max_eval_samples: int | None = field(
        default=None, metadata={"help": "Translate only the first documents while evaluating."}
    )
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that encode documents."})


@dataclass
class TrainingArguments(Seq2SeqTrainingArguments):
    """Arguments of `Seq2SeqTrainer`, with the defaults of the papers, and a batch size in tokens."""

    output_dir: str = field(default="runs/docmt", metadata={"help": "Folder of checkpoints and the final model."})
    train_batch_tokens: int = field(
        default=4096,
        metadata={"help": "Tokens of the longer side in a batch of one process, padding included."},
    )
    learning_rate: float = field(default=5e-4, metadata={"help": "Peak learning rate."})
    warmup_steps: float = field(default=4000, metadata={"help": "Updates of warm-up, or a ratio below 1."})
    lr_scheduler_type: str = field(default="inverse_sqrt", metadata={"help": "Schedule behind the warm-up."})
    adam_beta2: float = field(default=0.98, metadata={"help": "Beta 2 of Adam."})
    label_smoothing_factor: float = field(default=0.1, metadata={"help": "Epsilon of label smoothing."})
    report_to: None | str | list[str] = field(
        default="tensorboard", metadata={"help": "Where the curves go: 'tensorboard', 'none', or others of Trainer."}
    )
    word_dropout: float = field(
        default=0.0,
        metadata={"help": "Probability by which a word of source and decoder input becomes `<mask>` in training."},
    )
    word_dropout_epochs: float = field(default=30, metadata={"help": "Epochs after which `word_dropout` ends."})
    focus_words: str | None = field(
        default=None,
        metadata={
            "help": "Target words that count more in the training loss, and how much, as in 'er=12,sie=6,es=2'; see "
            "FocusWords."
        },
    )
    focus_source_words: list[str] = field(
        default_factory=list,
        metadata={"help": "Words one of which the source sentence must have for `focus_words` to count more: it."},
    )
    loaded_lr_scale: float = field(
        default=1.0,
        metadata={
            "help": "Factor of the learning rate of parameters that were loaded from `init_from`; 0 keeps them."
        },
    )
    generation_num_beams: int | None = field(default=1, metadata={"help": "Beams while evaluating."})
    early_stopping_patience: int | None = field(
        default=None, metadata={"help": "Stop after as many evaluations without improvement."}
    )
    float32_matmul_precision: str = field(
        default="highest",
        metadata={
            "help": "'medium' lets float32 matrix products use oneDNN on CPUs, and TensorFloat-32 or bfloat16 where "
            "the hardware has them; see torch.set_float32_matmul_precision.",
            "choices": ["highest", "high", "medium"],
        },
    )
    results_file: str | None = field(
        default=None,
        metadata={"help": "JSON file for what was run and measured; `output_dir`/results.json by default."},
    )


def parse_arguments(argv: list[str], dataclass_types: list[type], description: str | None = None) -> tuple[Any, ...]:
    """
    Read flags; a first argument that ends in .yaml, .yml or .json is a file of defaults for them.

    Such a file may build on another one, see `read_options`.

    Raises:
        `ValueError`: if the file has a key that is no argument; the nearest one is suggested.
    """
    parser = make_parser(dataclass_types, description)
    if argv and argv[0].endswith((".yaml", ".yml", ".json")):
        known = [f.name for dataclass_type in dataclass_types for f in fields(dataclass_type) if f.init]
        argv = [*_as_flags(read_options(argv[0], known)), *argv[1:]]
    return parser.parse_args_into_dataclasses(argv)


def option_files(path: str | Path) -> list[Path]:
    """
    A file of options and those that it builds on: itself, the `base` that it names, the base of that, and so on.

    Each stands once, and before all that it replaces options of.

    Args:
        path (`str` or `Path`): The file. A `base` is meant from the folder of the file that names it.

    Raises:
        `ValueError`: if a base is not there, or files build on each other in a circle.
    """
    return [file for file, _ in reversed(_files_with_options(Path(path)))]


def read_options(path: str | Path, known: Collection[str] | None = None) -> dict[str, Any]:
    """
    Options of a file on top of those of its `base`, or of several.

    What a file says replaces what its bases say, a later one what those before it say, and null puts back the default
    of the argument. `config_overrides` alone is put together: each name that it changes replaces that name only. It
    may be written as a mapping, or as text as on the command line; the result is text.

    Args:
        path (`str` or `Path`): YAML or JSON file.
        known (`Collection[str]`, *optional*): Names that may occur; any, where missing.

    Raises:
        `ValueError`: naming the file, if it has an unknown name or no mapping, or its bases are not in order.
    """
    options: dict[str, Any] = {}
    overrides: dict[str, Any] = {}
    for file, own in _files_with_options(Path(path)):
        for name, value in own.items():
            if name == "base":
                continue
            if known is not None and name not in known:
                raise ValueError(f"{file}: there is no argument `{name}`.{_suggestion(str(name), list(known))}")
            if name == "config_overrides":
                overrides = {} if value is None else overrides | _read_overrides(value, file)
                value = format_config_overrides(overrides) or None
            options[name] = value
    return options


def _files_with_options(path: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The files of `option_files` and what each says itself, bases first."""
    found: dict[Path, tuple[Path, dict[str, Any]]] = {}
    _add_files(path, found, [])
    return list(found.values())


def _add_files(path: Path, found: dict[Path, tuple[Path, dict[str, Any]]], above: list[Path]) -> None:
    """Put a file behind its bases into `found`; `above` are those that build on it."""
    circle = [*above, path]
    if path.resolve() in [file.resolve() for file in above]:
        files = " -> ".join(map(str, circle))
        raise ValueError(f"`base` goes in a circle: {files}. Take it out of one of them.")
    options = _read_mapping(path)
    bases = options.get("base")
    if bases is None or isinstance(bases, str):
        bases = [] if bases is None else [bases]
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise ValueError(f"{path}: `base` must be the path of a file, or a list of paths, got {bases!r}.")
    for base in bases:
        if not (path.parent / base).is_file():
            raise ValueError(
                f"{path}: `base` is {base!r}, but there is no file {path.parent / base}. It is meant from the folder "
                "of the file that names it."
            )
        _add_files(path.parent / base, found, circle)
    found.setdefault(path.resolve(), (path, options))


def _read_mapping(path: Path) -> dict[str, Any]:
    try:
        options = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: neither YAML nor JSON ({error}).") from error
    if not isinstance(options, dict):
        raise ValueError(f"{path}: must hold `name: value` lines, got {type(options).__name__}.")
    return options


def _read_overrides(value: Any, path: Path) -> dict[str, Any]:
    """`config_overrides` of one file by name; of text, the values are the words that stand there."""
    if isinstance(value, str):
        return dict(_split_overrides(value))
    if not isinstance(value, dict):
        raise ValueError(f"{path}: `config_overrides` must be a mapping, or text as 'd_model=256', got {value!r}.")
    for name, single in value.items():
        if isinstance(single, list | dict) or "," in str(single):
            raise ValueError(f"{path}: `config_overrides` must have one value a name, got {name}: {single!r}.")
    return value


def _split_overrides(text: str) -> Iterator[tuple[str, str]]:
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise ValueError(f"`config_overrides` must be name=value of fields of `DocMTConfig`, got {item!r}.")
        yield name, value


def _as_flags(options: dict[str, Any]) -> list[str]:
    flags: list[str] = []
    for name, value in options.items():
        if value is None:
            continue
        flags.append(f"--{name}")
        if isinstance(value, list):
            flags += map(str, value)
        else:
            flags.append(json.dumps(value) if isinstance(value, dict) else str(value))
    return flags


def parse_config_overrides(text: str | None) -> dict[str, Any]:
    """
    Read `"d_model=256,dropout=0.0"` into values of the types that `DocMTConfig` has.

    Raises:
        `ValueError`: for a field that does not exist, or text that is no `name=value`.
    """
    known = [f.name for f in fields(DocMTConfig)]
    overrides = {}
    for name, value in _split_overrides(text or ""):
        if name not in known:
            raise ValueError(
                f"`config_overrides` must be name=value of fields of `DocMTConfig`, got {name!r}."
                f"{_suggestion(name, known)}"
            )
        overrides[name] = yaml.safe_load(value)
    return overrides


def format_config_overrides(overrides: Mapping[str, Any]) -> str:
    """Write what `parse_config_overrides` reads: `"d_model=256,max_part_tokens=null"`."""
    # a number is written so that YAML finds a number again
    texts = {name: v if isinstance(v, str) else yaml.safe_dump(v).splitlines()[0] for name, v in overrides.items()}
    return ",".join(f"{name}={text}" for name, text in texts.items())


def _suggestion(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean `{near[0]}`?" if near else ""
