"""
Measure training steps of whole models against `MarianMTModel`: time and memory by the length of the document.

    python -m training.benchmark steps --lengths 512 1024 2048 4096 --output steps.json --plot steps.png

Forward, loss and backward of one document, with as many target as source tokens and random weights. Models: Marian of
the same shape, the systems that read whole documents, `sentence-level` on the sentences of that document, and window
attention with the gather of keys per query in place of interval attention ("window-attn gather"). Output: seconds
(best round and median), target tokens per second, peak memory of tensors beyond the parameters in MiB, gradients
included, and ratios to Marian, as a table and as JSON. `ragged` is one batch of documents of several lengths: packed
into one row with logits at the labels alone, as in training; packed, with logits of the padding too; and with the
padding taken for tokens throughout.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from transformers import PreTrainedModel

from modeling_docmt import attention_bounded
from modeling_docmt.attention_reference import gather_interval_attention

from .benchmark_models import ModelArguments, as_row, docmt_config, docmt_model, marian_model, random_sentences
from .measure import MIB, Benchmark, Panel, format_table, interleave, peak_bytes


MARIAN = "MarianMTModel"
WINDOWS, GATHER = "window-attn", "window-attn gather"


@dataclass(kw_only=True)
class StepsArguments(ModelArguments):
    """Options of `benchmark steps`."""

    vocabulary: int = field(default=8000, metadata={"help": "Words of the vocabulary, special tokens included."})
    models: list[str] = field(
        default_factory=lambda: [
            *(MARIAN, "concat-document", "lst-attn", "p-transformer", "g-transformer", "global-local"),
            *(WINDOWS, "window-attn sinusoidal", GATHER),
        ],
        metadata={"help": "Models to measure, see above."},
    )
    lengths: list[int] = field(
        default_factory=lambda: [512, 1024, 2048, 4096], metadata={"help": "Tokens of the document on each side."}
    )
    longest_gather: int = field(
        default=1024, metadata={"help": "Longest document for the gather, whose copies take gigabytes."}
    )
    longest_others: int = field(
        default=4096, metadata={"help": "Longest document for other models than Marian and window attention."}
    )
    ragged: list[int] = field(
        default_factory=lambda: [500, 375, 225, 175, 125, 100, 75, 37],
        metadata={"help": "Tokens of the documents of the ragged batch; none: not measured."},
    )
    most_seconds: float = field(default=90.0, metadata={"help": "No round of a length begins after this time."})
    optimizer: bool = field(default=False, metadata={"help": "Let AdamW update the parameters, too."})
    dropout: float = field(default=0.1, metadata={"help": "Dropout of all models."})
    autocast: str | None = field(default=None, metadata={"help": "bfloat16 for autocast; float32 by default."})
    device: str = field(default="cpu", metadata={"help": "cpu or cuda."})


def measure_steps(args: StepsArguments) -> dict[str, Any]:
    """One entry a length and model, then those of the ragged batch."""
    if min(args.lengths) < args.sentence_tokens:
        raise ValueError(f"`lengths` must be a sentence or more, {args.sentence_tokens} tokens, got {args.lengths}.")
    models = {name: _model(name, args) for name in args.models}
    entries = []
    for length in args.lengths:
        longest = {name: args.longest_others for name in models} | {MARIAN: length, WINDOWS: length}
        longest[GATHER] = min(args.longest_gather, args.longest_others)
        names = [name for name in models if length <= longest[name]]
        variants = {name: _Step(models[name], [length], args, is_gather=name == GATHER) for name in names}
        entries += _measure(str(length), variants, args)
    if args.ragged:
        model = models[WINDOWS] if WINDOWS in models else _model(WINDOWS, args)
        steps = {"packed": _Step(model, args.ragged, args, has_all_logits=False)}
        steps["packed, all logits"] = _Step(model, args.ragged, args)
        steps["padding as tokens"] = _Step(model, args.ragged, args, is_padding_read=True)
        entries += _measure("ragged", steps, args)
    settings = {name: getattr(args, name) for name in ("optimizer", "dropout", "autocast", "device", "ragged")}
    return {**args.shape(), **settings, "entries": entries, "goals": _goals(entries)}


def _model(name: str, args: StepsArguments) -> PreTrainedModel:
    if name == MARIAN:
        model = marian_model(args, max(args.lengths), dropout=args.dropout)
    else:
        model = docmt_model(WINDOWS if name == GATHER else name, args, dropout=args.dropout)
    return model.to(args.device).train()


class _Step:
    """A training step of a model on one batch. The gradients are dropped at its end."""

    def __init__(
        self,
        model: PreTrainedModel,
        lengths: Sequence[int],
        args: StepsArguments,
        is_gather: bool = False,
        is_padding_read: bool = False,
        has_all_logits: bool = True,
    ):
        self.model, self.args, self.is_gather = model, args, is_gather
        self.tokens = sum(lengths)
        self.inputs = _inputs(model, lengths, args, is_padding_read)
        if not has_all_logits:
            self.inputs["logits_at"] = self.inputs["labels"] != -100
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6) if args.optimizer else None

    def __call__(self) -> None:
        with _precision(self.args), _attention(self.is_gather):
            loss = self.model(**self.inputs).loss
        # the gather keeps what backward needs, and is not called there
        loss.backward()
        if self.optimizer is not None:
            self.optimizer.step()
        self.model.zero_grad(set_to_none=True)


def _inputs(
    model: PreTrainedModel, lengths: Sequence[int], args: StepsArguments, is_padding_read: bool
) -> dict[str, torch.Tensor]:
    config = docmt_config(WINDOWS, args)
    if getattr(model.config, "sequence_format", None) == "sentence":
        lengths = [piece for length in lengths for piece in _sentence_lengths(length, args.sentence_tokens)]
    sides = [
        [as_row(random_sentences(length, config, args, seed=2 * i + side), config) for i, length in enumerate(lengths)]
        for side in (0, 1)
    ]
    longest = max(lengths)
    padding = 0 if is_padding_read else model.config.pad_token_id  # any word will do

    def batch(rows: list[list[int]], filler: int) -> torch.Tensor:
        return torch.tensor([row + [filler] * (longest - len(row)) for row in rows], device=args.device)

    inputs = {"input_ids": batch(sides[0], padding), "labels": batch(sides[1], -100)}
    if len(set(lengths)) > 1:
        is_token = [[1] * length + [int(is_padding_read)] * (longest - length) for length in lengths]
        inputs["attention_mask"] = torch.tensor(is_token, device=args.device)
        inputs["decoder_attention_mask"] = inputs["attention_mask"]
    return inputs


def _sentence_lengths(length: int, most: int) -> list[int]:
    """Sentences as long as those of a document of `length` tokens; what is left over is one more."""
    full, rest = divmod(length, most)
    return [most] * full + ([rest] if rest else [])


def _precision(args: StepsArguments) -> Any:
    if args.autocast is None:
        return contextlib.nullcontext()
    return torch.autocast(args.device, dtype=getattr(torch, args.autocast))


@contextlib.contextmanager
def _attention(is_gather: bool) -> Iterator[None]:
    """With the reference in place of interval attention, if wanted."""
    if not is_gather:
        yield
        return

    def attend(*inputs, dropout: float = 0.0, **more):
        if dropout:
            raise ValueError("The gather has no dropout of attention weights.")
        return gather_interval_attention(*inputs, **more)

    with mock.patch.object(attention_bounded, "interval_attention", attend):
        yield


def _measure(name: str, steps: dict[str, _Step], args: StepsArguments) -> list[dict[str, Any]]:
    if args.optimizer:
        for step in steps.values():
            step()  # the optimizer makes its state
    peaks = {model: peak_bytes(step, args.device) for model, step in steps.items()}  # warms up, too
    variants: dict[str, Callable[[], Any]] = dict(steps)
    timings = interleave(variants, args.rounds, label=name, device=args.device, most_seconds=args.most_seconds)
    reference = MARIAN if MARIAN in steps else next(iter(steps))
    entries = []
    for model, timing in timings.items():
        tokens = steps[model].tokens
        entries.append(
            {
                "batch": name,
                "tokens": tokens,
                "model": model,
                "seconds": round(timing.best, 4),
                "median_seconds": round(timing.median, 4),
                "rounds": len(timing.rounds),
                "tokens_per_second": round(tokens / timing.best, 1),
                "peak_mib": round(peaks[model] / MIB, 1),
                "reference": reference,
                "speed_up": round(timings[reference].best / timing.best, 2),
                "median_speed_up": round(timings[reference].median / timing.median, 2),
                "memory_ratio": round(peaks[model] / peaks[reference], 3),
            }
        )
    return entries


def _goals(entries: list[dict[str, Any]]) -> dict[str, float]:
    """The ratios that goals are set for, of window attention, where they were measured."""
    found = {(entry["batch"], entry["model"]): entry for entry in entries}
    lengths = sorted({entry["tokens"] for entry in entries if entry["batch"] != "ragged"})
    goals = {}
    for length in lengths:
        ours = found.get((str(length), WINDOWS))
        if ours is None:
            continue
        if ours["reference"] == MARIAN:
            goals[f"{length}: times faster than {MARIAN}"] = ours["speed_up"]
            goals[f"{length}: memory, share of {MARIAN}'s"] = ours["memory_ratio"]
        if (gather := found.get((str(length), GATHER))) is not None:
            goals[f"{length}: times faster than the gather"] = round(gather["seconds"] / ours["seconds"], 2)
            goals[f"{length}: memory of the gather, times ours"] = round(gather["peak_mib"] / ours["peak_mib"], 2)
    first, last = (found.get((str(length), WINDOWS)) for length in (lengths[0], lengths[-1]))
    if first is not None and last is not None and first is not last:
        rate = last["tokens_per_second"] / first["tokens_per_second"]
        goals[f"tokens/s at {lengths[-1]} over {lengths[0]}"] = round(rate, 3)
    if (padded := found.get(("ragged", "padding as tokens"))) is not None:
        goals["ragged: packed, times faster than padded"] = round(1 / padded["speed_up"], 2)
    return goals


def _table(results: dict[str, Any]) -> str:
    headings = {
        "batch": "batch",
        "model": "model",
        "seconds": "seconds",
        "median_seconds": "median",
        "tokens_per_second": "tokens/s",
        "speed_up": "speed-up",
        "peak_mib": "MiB",
        "memory_ratio": "memory",
    }
    goals = [{"what": name, "ratio": value} for name, value in results["goals"].items()]
    return (
        format_table(results["entries"], headings) + "\n\n" + format_table(goals, {"what": "what", "ratio": "ratio"})
    )


def _panels(results: dict[str, Any]) -> list[Panel]:
    entries = [entry for entry in results["entries"] if entry["batch"] != "ragged"]
    names = list(dict.fromkeys(entry["model"] for entry in entries))

    def lines(cell: str) -> dict[str, Any]:
        of = {name: [entry for entry in entries if entry["model"] == name] for name in names}
        return {name: ([e["tokens"] for e in rows], [e[cell] for e in rows]) for name, rows in of.items()}

    return [
        Panel("Training step of one document", "tokens", "seconds", lines("seconds")),
        Panel("Rate of training", "tokens", "target tokens per second", lines("tokens_per_second")),
        Panel("Tensors of a step", "tokens", "MiB", lines("peak_mib")),
    ]


BENCHMARK = Benchmark("step-benchmark", StepsArguments, __doc__, measure_steps, _table, _panels)
main = BENCHMARK.main
