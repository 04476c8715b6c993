"""
Measure interval attention against full attention and against the gather of keys per query: time and memory.

    python -m training.benchmark attention --lengths 1024 2048 4096 --output attention.json

One attention, forward and backward, on random tensors. Output: milliseconds (best round and median), peak memory of
tensors beyond the inputs in MiB, and both as ratios to interval attention, as a table and as JSON. The variants of a
scenario take turns within each round.

Scenarios: `window` (self-attention), `relative` (its term of relative positions), `ratio` (cross-attention along a
line), `alignment` (cross-attention that follows sentences), `sentence` (same sentence only), `packed` (documents of
several lengths in one row against padded rows: these as one flat row of interval attention, with and without the
queries of the padding, or as batches of windows are often computed, see `PaddedBlocks`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from modeling_docmt.attention_interval import RelativeTerm, interval_attention
from modeling_docmt.attention_reference import gather_interval_attention
from modeling_docmt.interval_kernels_docmt import IntervalAttentionFunction, IntervalTask
from modeling_docmt.interval_plan_docmt import IntervalPlan

from .measure import MIB, Benchmark, MeasureArguments, Panel, format_table, interleave, peak_bytes


Bounds = tuple[np.ndarray, np.ndarray, int]  # lo, hi, number of keys
Variants = dict[str, Callable[[], Any]]  # each runs forward and backward once
# tokens of the documents in `packed`
DOCUMENT_TOKENS = (2000, 1500, 900, 700, 500, 400, 300, 150)


@dataclass(kw_only=True)
class AttentionArguments(MeasureArguments):
    """Options of `benchmark attention`."""

    scenarios: list[str] = field(
        default_factory=lambda: ["window", "relative", "ratio", "alignment", "sentence", "packed"],
        metadata={"help": "Scenarios to measure, see above."},
    )
    lengths: list[int] = field(
        default_factory=lambda: [1024, 2048, 4096], metadata={"help": "Queries; `packed` has lengths of its own."}
    )
    window: int = field(default=20, metadata={"help": "Keys on either side of a query."})
    heads: int = field(default=8, metadata={"help": "Heads."})
    head_dim: int = field(default=64, metadata={"help": "Dimension of a head."})
    dtype: str = field(default="float32", metadata={"help": "float32, bfloat16 or float64."})
    device: str = field(default="cpu", metadata={"help": "cpu or cuda."})
    rounds: int = field(default=7, metadata={"help": "Rounds; the best one counts, the median is reported too."})
    slow_variants: bool = field(default=True, metadata={"help": "Measure full attention and the gather too."})


class _ProductsTask(IntervalTask):
    """Matrix products where the fused kernel would be taken: what a relative term is compared with."""

    def fused_on_cpu(self, query, value, table) -> bool:
        return False


def measure_attention(args: AttentionArguments) -> dict[str, Any]:
    """One entry a scenario, length and variant."""
    unknown = sorted(set(args.scenarios) - set(SCENARIOS))
    if unknown:
        raise ValueError(f"`scenarios` must be of {', '.join(SCENARIOS)}, got {', '.join(unknown)}.")
    if min(args.lengths) < 1:
        raise ValueError(f"`lengths` must be positive, got {args.lengths}.")
    entries = []
    for scenario in args.scenarios:
        lengths = [sum(DOCUMENT_TOKENS)] if scenario == "packed" else args.lengths
        for length in lengths:
            entries += _measure(scenario, length, SCENARIOS[scenario](length, args), args)
    settings = {name: getattr(args, name) for name in ("window", "heads", "head_dim", "dtype", "device")}
    return {**settings, "entries": entries}


def _measure(scenario: str, length: int, variants: Variants, args: AttentionArguments) -> list[dict[str, Any]]:
    peaks = {name: peak_bytes(run, args.device) for name, run in variants.items()}  # warms up, too
    timings = interleave(variants, args.rounds, label=f"{scenario} {length}", device=args.device)
    ours = next(iter(variants))
    return [
        {
            "scenario": scenario,
            "queries": length,
            "variant": name,
            "milliseconds": round(timing.best * 1e3, 2),
            "median_milliseconds": round(timing.median * 1e3, 2),
            "times_slower": round(timing.best / timings[ours].best, 2),
            "median_times_slower": round(timing.median / timings[ours].median, 2),
            "peak_mib": round(peaks[name] / MIB, 2),
            "times_larger": round(peaks[name] / max(1, peaks[ours]), 2),
        }
        for name, timing in timings.items()
    ]


def window_bounds(length: int, window: int, centres: np.ndarray | None = None, num_keys: int | None = None) -> Bounds:
    """Keys up to `window` before and behind the centre of each query, by default its own position."""
    num_keys = length if num_keys is None else num_keys
    centres = np.arange(length) if centres is None else np.clip(centres, 0, num_keys - 1)
    return np.maximum(centres - window, 0), np.minimum(centres + window, num_keys - 1), num_keys


def _packed_bounds(window: int) -> Bounds:
    ends = np.repeat(np.cumsum(DOCUMENT_TOKENS), DOCUMENT_TOKENS)
    starts = ends - np.repeat(DOCUMENT_TOKENS, DOCUMENT_TOKENS)
    rows = np.arange(len(ends))
    return np.maximum(rows - window, starts), np.minimum(rows + window, ends - 1), len(ends)


def _padded_bounds(window: int, leave_out_padding: bool) -> Bounds:
    """The documents as rows of equal length; padding sees its row, or nothing."""
    longest = max(DOCUMENT_TOKENS)
    positions = np.tile(np.arange(longest), len(DOCUMENT_TOKENS))
    starts = np.repeat(np.arange(len(DOCUMENT_TOKENS)) * longest, longest)
    tokens = np.repeat(DOCUMENT_TOKENS, longest) if leave_out_padding else np.full(len(positions), longest)
    hi = np.where(positions < tokens, np.minimum(positions + window, tokens - 1), -1)
    return starts + np.maximum(positions - window, 0), starts + hi, len(positions)


def _alignment_bounds(length: int, window: int) -> Bounds:
    """Windows that jump to the start of each source sentence; sentences have 10 to 40 tokens on either side."""
    generator = np.random.default_rng(0)
    source, target = generator.integers(10, 41, size=(2, length // 10 + 1))
    starts = np.cumsum(source) - source
    inside = np.concatenate([np.arange(size) for size in target])[:length]
    centres = np.repeat(starts, target)[:length] + inside
    return window_bounds(length, window, centres, int(centres.max()) + 1)


def _sentence_bounds(length: int) -> Bounds:
    """Sentences of 5 to 200 tokens, each a block of its own."""
    sizes = np.random.default_rng(0).integers(5, 201, size=length // 5 + 1)
    ends = np.repeat(np.cumsum(sizes), sizes)[:length]
    starts = ends - np.repeat(sizes, sizes)[:length]
    return starts, np.minimum(ends, length) - 1, length


def _states(rows: int, args: AttentionArguments) -> torch.Tensor:
    shape = (rows, args.heads, args.head_dim)
    return torch.randn(shape, dtype=getattr(torch, args.dtype), device=args.device).requires_grad_()


def _runner(attend: Callable, num_queries: int, num_keys: int, args: AttentionArguments, *more) -> Callable:
    """A function that runs `attend(query, key, value)` forward and backward, `more` being parameters it reads."""
    inputs = [_states(num_queries, args), _states(num_keys, args), _states(num_keys, args)]
    grad_output = torch.randn_like(inputs[0])
    return lambda: torch.autograd.grad(attend(*inputs), [*inputs, *more], grad_output)


def _interval(bounds: Bounds, args: AttentionArguments, relative: RelativeTerm | None = None) -> Callable:
    plan = IntervalPlan.build(*bounds, device=args.device)
    scaling = args.head_dim**-0.5

    def attend(query, key, value):
        return interval_attention(query, key, value, plan, scaling, relative=relative)

    more = [] if relative is None else [relative.table]
    return _runner(attend, plan.num_queries, plan.num_keys, args, *more)


def _products(bounds: Bounds, args: AttentionArguments) -> Callable:
    plan = IntervalPlan.build(*bounds, device=args.device)
    task = _ProductsTask(plan, args.head_dim**-0.5, 0, 0.0)

    def attend(query, key, value):
        return IntervalAttentionFunction.apply(query, key, value, None, None, task)

    return _runner(attend, plan.num_queries, plan.num_keys, args)


def _gather(bounds: Bounds, args: AttentionArguments, relative: RelativeTerm | None = None) -> Callable:
    plan = IntervalPlan.build(*bounds, device=args.device)

    def attend(query, key, value):
        return gather_interval_attention(query, key, value, plan, args.head_dim**-0.5, relative=relative)

    more = [] if relative is None else [relative.table]
    return _runner(attend, plan.num_queries, plan.num_keys, args, *more)


def _full(num_queries: int, num_keys: int, args: AttentionArguments, mask: torch.Tensor | None = None):
    """PyTorch's fused attention over all keys, in the layout that it likes best."""

    def states(rows):
        return _states(rows, args).detach().transpose(0, 1)[None].contiguous().requires_grad_()

    inputs = [states(num_queries), states(num_keys), states(num_keys)]
    grad_output = torch.randn_like(inputs[0])

    def run():
        output = nn.functional.scaled_dot_product_attention(*inputs, attn_mask=mask)
        return torch.autograd.grad(output, inputs, grad_output)

    return run


def _dense_mask(bounds: Bounds, args: AttentionArguments) -> torch.Tensor:
    visible = IntervalPlan.build(*bounds, device=args.device).visible()
    dtype = getattr(torch, args.dtype)
    return torch.zeros(visible.shape, dtype=dtype, device=args.device).masked_fill_(~visible, -torch.inf)[None, None]


def _window(length: int, args: AttentionArguments) -> Variants:
    bounds = window_bounds(length, args.window)
    variants: Variants = {"interval": _interval(bounds, args)}
    if args.slow_variants:
        variants |= {"full": _full(length, length, args), "gather": _gather(bounds, args)}
    return variants


def _relative(length: int, args: AttentionArguments) -> Variants:
    bounds = window_bounds(length, args.window)
    dtype = getattr(torch, args.dtype)
    table = torch.randn(2 * args.window + 1, args.head_dim, dtype=dtype, device=args.device).requires_grad_()
    by_head = torch.randn(2 * args.window + 1, args.heads, args.head_dim, dtype=dtype, device=args.device)
    variants: Variants = {
        "products without the term": _products(bounds, args),
        "table shared by heads": _interval(bounds, args, RelativeTerm(table, args.window)),
        "table of each head": _interval(bounds, args, RelativeTerm(by_head.requires_grad_(), args.window)),
        "fused without the term": _interval(bounds, args),
    }
    if args.slow_variants:
        variants["gather with the term"] = _gather(bounds, args, RelativeTerm(table, args.window))
    return variants


class PaddedBlocks:
    """
    Window attention of a padded batch in blocks with a mask of their own: blocks of 64 queries, or of the window where
    that is larger, against copies of their keys, by the stock fused kernel; padding is computed as tokens are.
    """

    def __init__(self, lengths: Sequence[int], window: int, device: str):
        self.window, self.size = window, max(64, window)
        self.length = max(lengths)
        self.num_blocks = -(-self.length // self.size)
        queries = torch.arange(self.num_blocks * self.size).view(-1, self.size, 1)
        keys = self.size * torch.arange(self.num_blocks)[:, None, None] + torch.arange(-window, self.size + window)
        is_token = (keys >= 0) & (keys < torch.tensor(lengths)[:, None, None, None])
        visible = ((queries - keys).abs() <= window) & is_token  # (B, n, b, c)
        visible |= ~visible.any(dim=-1, keepdim=True)  # a row of -inf would be NaN
        self.mask = torch.zeros(visible.shape).masked_fill_(~visible, -torch.inf).flatten(0, 1)[:, None].to(device)

    def __call__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        """States `(B, L, H, D)` to outputs of that shape."""
        rest = self.num_blocks * self.size - self.length
        blocks = nn.functional.pad(query, (0, 0, 0, 0, 0, rest)).unflatten(1, (self.num_blocks, self.size))
        states = (blocks.flatten(0, 1).transpose(1, 2), self._keys(key), self._keys(value))
        output = nn.functional.scaled_dot_product_attention(*states, self.mask.to(query.dtype), scale=scaling)
        return output.transpose(1, 2).unflatten(0, (-1, self.num_blocks)).flatten(1, 2)[:, : self.length]

    def _keys(self, states: torch.Tensor) -> torch.Tensor:
        """Blocks with their neighbours' ends, `(B n, H, c, D)`."""
        rest, w = self.num_blocks * self.size - self.length, self.window
        blocks = nn.functional.pad(states, (0, 0, 0, 0, self.size, rest + self.size)).unflatten(1, (-1, self.size))
        before, own, behind = blocks[:, :-2, self.size - w :], blocks[:, 1:-1], blocks[:, 2:, :w]
        return torch.cat((before, own, behind), dim=2).flatten(0, 1).transpose(1, 2)


def _padded_blocks(args: AttentionArguments) -> Callable:
    blocks = PaddedBlocks(DOCUMENT_TOKENS, args.window, args.device)
    shape = (len(DOCUMENT_TOKENS), blocks.length)

    def attend(*rows):
        query, key, value = (states.unflatten(0, shape) for states in rows)
        return blocks(query, key, value, args.head_dim**-0.5).flatten(0, 1)

    return _runner(attend, shape[0] * shape[1], shape[0] * shape[1], args)


def _cross(bounds: Bounds, args: AttentionArguments) -> Variants:
    variants: Variants = {"interval": _interval(bounds, args)}
    if args.slow_variants:
        variants["dense mask"] = _full(len(bounds[0]), bounds[2], args, _dense_mask(bounds, args))
        variants["gather"] = _gather(bounds, args)
    return variants


def _ratio(length: int, args: AttentionArguments) -> Variants:
    return _cross(window_bounds(length, args.window, np.arange(length) * 11 // 10, length * 11 // 10), args)


def _alignment(length: int, args: AttentionArguments) -> Variants:
    return _cross(_alignment_bounds(length, args.window), args)


def _sentence(length: int, args: AttentionArguments) -> Variants:
    # the gather would need a copy of 200 keys a query
    bounds = _sentence_bounds(length)
    variants: Variants = {"interval": _interval(bounds, args)}
    if args.slow_variants:
        variants["dense mask"] = _full(length, length, args, _dense_mask(bounds, args))
    return variants


def _packed(length: int, args: AttentionArguments) -> Variants:
    return {
        "packed": _interval(_packed_bounds(args.window), args),
        "padded, padding computed": _interval(_padded_bounds(args.window, leave_out_padding=False), args),
        "padded, padding left out": _interval(_padded_bounds(args.window, leave_out_padding=True), args),
        "padded, blocks with masks": _padded_blocks(args),
    }


SCENARIOS: dict[str, Callable[[int, AttentionArguments], Variants]] = {
    "window": _window,
    "relative": _relative,
    "ratio": _ratio,
    "alignment": _alignment,
    "sentence": _sentence,
    "packed": _packed,
}


def _table(results: dict[str, Any]) -> str:
    headings = {
        "scenario": "scenario",
        "queries": "queries",
        "variant": "variant",
        "milliseconds": "ms",
        "times_slower": "slower",
        "peak_mib": "MiB",
        "times_larger": "larger",
    }
    return format_table(results["entries"], headings)


def _panels(results: dict[str, Any]) -> list[Panel]:
    """Time and memory of windows against the length."""
    entries = [entry for entry in results["entries"] if entry["scenario"] == "window"]
    names = list(dict.fromkeys(entry["variant"] for entry in entries))

    def lines(cell: str) -> dict[str, Any]:
        of = {name: [entry for entry in entries if entry["variant"] == name] for name in names}
        return {name: ([e["queries"] for e in rows], [e[cell] for e in rows]) for name, rows in of.items()}

    return [
        Panel("Window attention, forward and backward", "tokens", "milliseconds", lines("milliseconds")),
        Panel("Tensors beyond the inputs", "tokens", "MiB", lines("peak_mib")),
    ]


BENCHMARK = Benchmark("attention-benchmark", AttentionArguments, __doc__, measure_attention, _table, _panels)
main = BENCHMARK.main
