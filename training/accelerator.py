"""
What a GPU says, in a quarter of an hour: windows at the size of Transformer base, in bfloat16.

    python -m training.accelerator --output_dir runs/accelerator
    python -m training.accelerator --size small --device cpu --output_dir runs/accelerator-small

Three parts, each a command of this package that leaves a JSON file in the folder: attention alone, and whole training
steps, by length, against the attention of PyTorch (flash attention on a GPU) and `MarianMTModel`; then a `window-attn`
model is trained on all training documents, and scored. `--size small` does the same with little models and lengths, on
any machine, to see that it runs; its figures say nothing. A part that is done is not done again, so the command may be
repeated; a part begins only while its time fits into `--minutes`.
"""

import glob
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from .command_line import make_parser
from .reproduce import RunQueue
from .reproduce_queue import QueuedRun
from .results import expand_path, run_info, write_json_atomic


logger = logging.get_logger(__name__)

# options of the parts, by size
SIZES: dict[str, dict[str, Any]] = {
    "full": {
        "lengths": [1024, 4096, 16384, 65536],
        "longest_others": 16384,
        "shape": {},
        "rounds": 5,
        "most_seconds": 30,
        "training": {"max_steps": 3000, "train_batch_tokens": 16384, "warmup_steps": 500, "learning_rate": 7e-4},
        "vocab_size": 16000,
        "documents": None,
    },
    "small": {
        "lengths": [64, 128],
        "longest_others": 128,
        "shape": {"d_model": 32, "layers": 1, "heads": 2, "ffn": 64},
        "rounds": 1,
        "most_seconds": 5,
        "training": {"max_steps": 3, "train_batch_tokens": 256, "warmup_steps": 1, "learning_rate": 1e-3},
        "vocab_size": 600,
        "documents": 2,
    },
}
# minutes of the parts at full size on one GPU; estimates
MINUTES = {"tokenizer": 0.5, "attention": 1.5, "steps": 4.0, "training": 7.0, "scores": 2.0}


@dataclass
class AcceleratorArguments:
    """Options of the command."""

    train_file: list[str] = field(
        default_factory=lambda: ["$DOCMT_DATA/train.en-de.*.jsonl.gz"],
        metadata={"help": "Training documents; patterns and variables are filled in."},
    )
    test_file: list[str] = field(
        default_factory=lambda: ["$DOCMT_DATA/test.en-de.wesnoth.jsonl.gz"],
        metadata={"help": "Test documents, in the same way."},
    )
    output_dir: str = field(default="runs/accelerator", metadata={"help": "Folder of results and models."})
    size: str = field(default="full", metadata={"help": "'full' or 'small'.", "choices": list(SIZES)})
    device: str | None = field(default=None, metadata={"help": "cuda or cpu; a GPU where there is one by default."})
    minutes: float = field(default=15.0, metadata={"help": "No part begins that would end after so many minutes."})


def expand(patterns: Sequence[str], name: str) -> list[str]:
    """
    The files that patterns name.

    Raises:
        `ValueError`: naming the option and the pattern that names none.
    """
    files: list[str] = []
    for pattern in patterns:
        found = sorted(glob.glob(expand_path(pattern)))
        if not found:
            raise ValueError(f"`--{name}` names {pattern!r}, which is no file. Give JSONL files of documents.")
        files += found
    return files


def parts(args: AcceleratorArguments, device: str) -> list[QueuedRun]:
    """The commands, in order."""
    size, folder = SIZES[args.size], Path(args.output_dir)
    train, test = expand(args.train_file, "train_file"), expand(args.test_file, "test_file")
    is_gpu = device == "cuda"
    tokenizer, model = folder / "tokenizer", folder / "window-attn"
    shape, lengths = size["shape"], size["lengths"]
    limits = {"rounds": size["rounds"], "device": device}

    def result(name: str) -> str:
        return str(folder / f"{name}.json")

    overrides = {"dropout": 0.1, "relative_cross": "true", "training_alignment": "sent-align"}
    names = {"layers": ("encoder_layers", "decoder_layers"), "ffn": ("encoder_ffn_dim", "decoder_ffn_dim")}
    names |= {"heads": ("encoder_attention_heads", "decoder_attention_heads")}
    for short, value in shape.items():
        overrides |= dict.fromkeys(names.get(short, (short,)), value)
    commands: dict[str, tuple[str, dict[str, Any], str]] = {
        "tokenizer": (
            "training.train_tokenizer",
            {"train_files": train, "vocab_size": size["vocab_size"], "output_dir": tokenizer},
            str(tokenizer / "tokenizer.json"),
        ),
        "attention": (
            "training.benchmark attention",
            {"scenarios": ["window"], "lengths": lengths, "dtype": "bfloat16" if is_gpu else "float32", **limits},
            result("attention"),
        ),
        "steps": (
            "training.benchmark steps",
            {
                **{"models": ["MarianMTModel", "concat-document", "window-attn"], "lengths": lengths, **shape},
                **{"longest_others": size["longest_others"], "most_seconds": size["most_seconds"], **limits},
                **({"autocast": "bfloat16"} if is_gpu else {"ragged": [60, 30]}),
            },
            result("steps"),
        ),
        "training": (
            "training.train",
            {
                **{"system": "window-attn", "train_file": train, "tokenizer_name": tokenizer, "output_dir": model},
                **{"config_overrides": ",".join(f"{name}={value}" for name, value in overrides.items())},
                **{"train_part_tokens": 1024, "max_source_length": 1200, "max_target_length": 1200},
                **{"logging_steps": 50, "save_strategy": "no", "report_to": "none", **size["training"]},
                **({"bf16": True} if is_gpu else {"use_cpu": True}),
                **({"max_train_samples": size["documents"]} if size["documents"] else {}),
            },
            result("training"),
        ),
        "scores": (
            "training.evaluate",
            {
                **{"model": model, "data": test, "num_beams": 4, "device": device},
                **({"max_documents": size["documents"]} if size["documents"] else {}),
            },
            result("scores"),
        ),
    }
    runs = []
    for name, (module, options, output) in commands.items():
        if name != "tokenizer":
            options["results_file" if name == "training" else "output"] = output
        command = shlex.join([*module.split(), *_flags(options)])
        needs = {"training": ("tokenizer",), "scores": ("training",)}.get(name, ())
        runs.append(QueuedRun(name, command, output, MINUTES[name] / 60, name, needs))
    return runs


def _flags(options: dict[str, Any]) -> list[str]:
    words = []
    for name, value in options.items():
        words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return words


def measure(args: AcceleratorArguments, command: Sequence[str] | None = None) -> dict[str, Any]:
    """
    Do the parts that fit into the time.

    Returns:
        `dict`: what is in `summary.json`: which parts were done, and the results of each.
    """
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cpu" and args.size == "full":
        raise ValueError("There is no GPU; `--size full` would take days. Use `--size small` to see that it runs.")
    runs = parts(args, device)
    queue = RunQueue(runs, Path(args.output_dir) / "logs")
    start, results, left_out = time.time(), {}, []
    for run in runs:
        spent = (time.time() - start) / 60
        fits = run.is_done or args.size == "small" or spent + MINUTES[run.name] <= args.minutes
        if not (fits and queue.is_fed(run) and queue.do(run)):
            left_out.append(run.name)
            logger.warning(f"{run.name}: left out or failed, after {spent:.1f} of {args.minutes:g} minutes.")
        elif run.name != "tokenizer":
            results[run.name] = json.loads(Path(run.output).read_text(encoding="utf-8"))
    summary = {
        "kind": "accelerator",
        "size": args.size,
        "device": device,
        "minutes": round((time.time() - start) / 60, 2),
        "left_out": left_out,
        "results": results,
        "run": run_info(command),
    }
    write_json_atomic(Path(args.output_dir) / "summary.json", summary)
    return summary


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command, see the module's docstring."""
    words = sys.argv[1:] if argv is None else list(argv)
    parser = make_parser(AcceleratorArguments, __doc__)
    try:
        (args,) = parser.parse_args_into_dataclasses(words)
        summary = measure(args, words)
    except (ValueError, OSError) as error:
        raise SystemExit(f"accelerator: {error}") from error
    done = ", ".join(summary["results"]) or "nothing"
    print(f"{done} in {summary['minutes']} minutes on {summary['device']}; {args.output_dir}/summary.json")
    if summary["left_out"]:
        raise SystemExit(f"accelerator: without {', '.join(summary['left_out'])}; see {args.output_dir}/logs.")


if __name__ == "__main__":
    main()
