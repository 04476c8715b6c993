r"""
What the encoder states of trained models know about positions, layer by layer: probes on frozen states.

    python -m training.probe --model outputs/concat-document outputs/p-transformer \
        --train_file train.en-de.ted.jsonl.gz --validation_file dev.en-de.ted.jsonl.gz \
        --test_file test.en-de.ted.jsonl.gz --output probe.json --plot probe.png

Three tasks, each with a linear map and a softmax on the states of the embeddings (layer 0) and of each encoder layer:
which position a token has, exactly and within 3; which signed distance two tokens have; which of them stands first.
Probes are trained on states of the training documents, picked by the validation documents, and scored on the test
documents. Documents are cut and formatted as for the system of the model; `<sos>` and `<eos>` count as positions, but
are not asked for. `python -m training.probe --help` has the options.

Input: checkpoint folders of DocMT models and document records. Output: a table, with `--output` a JSON file, and with
`--plot` a picture. Source: Li et al. (P-Transformer), on probing tasks; see `probe_maps` for what is ours.
"""

import copy
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, concatenate_datasets
from transformers import AutoConfig
from transformers.utils import logging

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration

from .arguments import parse_arguments as parse_flags
from .data import encode_corpus
from .documents import load_corpus
from .hypotheses import load_tokenizer
from .plotting import load_pyplot
from .probe_maps import COMBINATIONS
from .probe_report import probe_table, save_probe_plot
from .probe_sequences import SPLITS, probe_sequences
from .probe_training import TOLERANCE
from .results import expand_path, portable_path, run_info, sha256_of_file, sha256_of_files, write_json_atomic


logger = logging.get_logger(__name__)

# without validation files, one training document of so many is kept for validation
HELD_OUT = 10


@dataclass
class ProbeArguments:
    """Options of `probe`."""

    model: list[str] = field(metadata={"help": "Checkpoint folders, compared with each other."})
    train_file: list[str] = field(metadata={"help": "Documents to train probes on: JSONL records, or folders."})
    test_file: list[str] = field(metadata={"help": "Documents to score them on."})
    validation_file: list[str] = field(
        default_factory=list,
        metadata={"help": f"Documents to pick them by; by default every {HELD_OUT}th training document, kept apart."},
    )
    max_train_documents: int | None = field(default=None, metadata={"help": "The first training documents only."})
    max_test_documents: int | None = field(
        default=None, metadata={"help": "The first documents of test and validation files only."}
    )
    part_tokens: int | None = field(
        default=None,
        metadata={"help": "Cut documents into parts of at most so many tokens; by default as the model has it."},
    )
    max_distance: int = field(default=20, metadata={"help": "Largest distance of a pair in tokens, K."})
    combination: str = field(
        default="difference",
        metadata={
            "help": "What a probe sees of two states: their 'difference', or 'mlp', a trained layer over both.",
            "choices": list(COMBINATIONS),
        },
    )
    epochs: int = field(default=10, metadata={"help": "Passes over the training documents, each with fresh pairs."})
    max_updates: int | None = field(default=None, metadata={"help": "Stop after as many updates; one a batch."})
    learning_rate: float = field(default=1e-3, metadata={"help": "Learning rate of Adam."})
    batch_tokens: int = field(default=4096, metadata={"help": "Source tokens of a batch, padding included."})
    seed: int = field(default=0, metadata={"help": "Seed of pairs, order and weights."})
    device: str | None = field(default=None, metadata={"help": "cpu, cuda, …; by default a GPU where there is one."})
    output: str | None = field(default=None, metadata={"help": "JSON file of the results."})
    plot: str | None = field(default=None, metadata={"help": "Picture of the results; needs matplotlib."})

    def __post_init__(self) -> None:
        for name in ("train_file", "validation_file", "test_file"):
            setattr(self, name, [expand_path(path) for path in getattr(self, name)])
        for name in ("max_train_documents", "max_test_documents", "part_tokens", "max_updates"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"`--{name}` must be 1 or more, got {getattr(self, name)}.")
        for name in ("max_distance", "epochs", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"`--{name}` must be 1 or more, got {getattr(self, name)}.")
        if self.learning_rate <= 0:
            raise ValueError(f"`--learning_rate` must be above 0, got {self.learning_rate}.")


def read_splits(arguments: ProbeArguments) -> dict[str, Dataset]:
    """
    Read the documents of the three splits.

    Raises:
        `ValueError`: where there is one training document and nothing to validate with.
    """
    splits = {
        "train": _read(arguments.train_file, arguments.max_train_documents),
        "test": _read(arguments.test_file, arguments.max_test_documents),
    }
    if arguments.validation_file:
        splits["validation"] = _read(arguments.validation_file, arguments.max_test_documents)
        return splits
    count = len(splits["train"])
    if count < 2:
        raise ValueError(
            f"`--train_file` holds {count} document(s), of which none can be kept for validation: name documents for "
            "it as `--validation_file`."
        )
    held_out = range(HELD_OUT - 1, count, HELD_OUT) if count >= HELD_OUT else range(count - 1, count)
    logger.info(f"No `--validation_file`: {len(held_out)} of {count} training documents are kept for validation.")
    splits["validation"] = splits["train"].select(held_out)
    splits["train"] = splits["train"].select([i for i in range(count) if i not in held_out])
    return splits


def _read(paths: Sequence[str], limit: int | None) -> Dataset:
    documents = concatenate_datasets([load_corpus(path).select_columns(["src", "tgt"]) for path in paths])
    return documents if limit is None else documents.select(range(min(limit, len(documents))))


def load_model(folder: str, device: torch.device) -> DocMTForConditionalGeneration:
    """
    Load a checkpoint in float32, frozen.

    Raises:
        `ValueError`: for a model of another kind.
    """
    kind = AutoConfig.from_pretrained(folder).model_type
    if kind != "docmt":
        raise ValueError(
            f"`--model`: {folder} holds a {kind!r}, and states of DocMT models are probed. A Marian model becomes one "
            "by `python -m modeling_docmt.convert_marian`."
        )
    model = DocMTForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    return model.requires_grad_(False).to(device).eval()


def sequence_config(config: DocMTConfig, part_tokens: int | None) -> DocMTConfig:
    """
    The configuration by which documents are cut: that of the model, with parts of another size if wanted.

    Raises:
        `ValueError`: for a size where sequences are no parts of documents.
    """
    if part_tokens is None:
        return config
    if config.sequence_format != "document":
        raise ValueError(
            f"`--part_tokens` cuts documents into parts, but a sequence of system {config.system!r} is of format "
            f"{config.sequence_format!r}. Leave it out."
        )
    config = copy.deepcopy(config)
    config.max_part_tokens = part_tokens
    return config


def probe_model(folder: str, name: str, splits: dict[str, Dataset], arguments: ProbeArguments) -> dict[str, Any]:
    """
    Train and score the probes of one model.

    Args:
        folder (`str`): Its checkpoint.
        name (`str`): What to call it.
        splits (`dict[str, Dataset]`): Documents for training, validation and test.
        arguments (`ProbeArguments`): Options.

    Returns:
        `dict`: the entry of the model in the result file.
    """
    start = time.perf_counter()
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model, tokenizer = load_model(folder, device), load_tokenizer(folder)
    config = sequence_config(model.config, arguments.part_tokens)
    sequences = {}
    for split in SPLITS:
        # whole parts, as decoding has them, whatever else the model was trained on
        sequences[split] = encode_corpus(splits[split], tokenizer, config, resolutions="document")
        if not len(sequences[split]):
            raise ValueError(f"`--{split}_file`: no sentence is left to probe. Check that `src` and `tgt` hold text.")
    found = probe_sequences(
        model,
        sequences,
        max_distance=arguments.max_distance,
        combination=arguments.combination,
        epochs=arguments.epochs,
        max_updates=arguments.max_updates,
        learning_rate=arguments.learning_rate,
        batch_tokens=arguments.batch_tokens,
        seed=arguments.seed,
        name=name,
    )
    return {
        "name": name,
        **describe_model(folder, model),
        "part_tokens": config.max_part_tokens if config.sequence_format == "document" else None,
        "seconds": round(time.perf_counter() - start, 1),
        **found,
    }


def model_names(folders: Sequence[str]) -> list[str]:
    """Names of checkpoints: of their folders, and where these are alike with the folder that they are in."""
    paths = [Path(folder).resolve() for folder in folders]
    names = [path.name for path in paths]
    return [
        name if names.count(name) == 1 else f"{path.parent.name}/{name}"
        for name, path in zip(names, paths, strict=True)
    ]


def describe_model(folder: str, model: DocMTForConditionalGeneration) -> dict[str, Any]:
    """Say which weights were probed."""
    info: dict[str, Any] = {"path": portable_path(folder)}
    weights = Path(folder) / "model.safetensors"
    if weights.is_file():
        info["weights_sha256"] = sha256_of_file(weights)
    names = ("system", "sequence_format", "encoder_self_attention", "position_encoding", "d_model", "encoder_layers")
    return {**info, **{name: getattr(model.config, name) for name in names}}


def probe(arguments: ProbeArguments, command: Sequence[str] | None = None) -> dict[str, Any]:
    """
    Probe the models, and write what was asked for.

    Args:
        arguments (`ProbeArguments`):
            What to do.
        command (`Sequence[str]`, *optional*):
            Arguments as typed, for the record; those of the process by default.

    Returns:
        `dict`: the content of the result file.
    """
    if arguments.plot:
        load_pyplot()  # not only after hours of work
    splits = read_splits(arguments)
    named = zip(arguments.model, model_names(arguments.model), strict=True)
    models = [probe_model(folder, name, splits, arguments) for folder, name in named]
    files = {split: getattr(arguments, f"{split}_file") for split in SPLITS}
    names = ("max_distance", "combination", "epochs", "max_updates", "learning_rate", "batch_tokens", "seed")
    result = {
        "kind": "probe",
        "tolerance": TOLERANCE,
        **{name: getattr(arguments, name) for name in names},
        "documents": {split: len(splits[split]) for split in SPLITS},
        "files": {split: [portable_path(path) for path in files[split]] for split in SPLITS},
        "sha256": {split: sha256_of_files(p for p in files[split] if Path(p).is_file()) for split in SPLITS},
        "models": models,
        "run": run_info(command),
    }
    if arguments.output is not None:
        write_json_atomic(arguments.output, result)
    if arguments.plot is not None:
        save_probe_plot(arguments.plot, result)
    return result


def parse_arguments(arguments: Sequence[str] | None = None) -> ProbeArguments:
    """Read flags; a YAML file in front of them holds their defaults."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    (parsed,) = parse_flags(words, [ProbeArguments], description=__doc__)
    return parsed


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    try:
        result = probe(parse_arguments(arguments), arguments)
    # a wrong argument or file is answered with what to do, not with a traceback
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"probe: {error}") from error
    print(probe_table(result))


if __name__ == "__main__":
    main()
