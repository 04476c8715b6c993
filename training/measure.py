"""
How this project measures time and memory, and the frame that all its benchmarks share.

Times are compared in turns: every variant once a round, so that a busy machine disturbs all alike; the best round
counts, the median is reported too. On a CPU with one thread it is processor time, which other processes disturb least.
Memory is counted in bytes of tensors, allocation by allocation, or in resident bytes of a process.
"""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.autograd import (
    ProfilerActivity,
    ProfilerConfig,
    ProfilerState,
    _disable_profiler,
    _enable_profiler,
    _prepare_profiler,
)
from tqdm import tqdm

from .command_line import make_parser
from .plotting import load_pyplot, save_figure
from .results import run_info, write_json_atomic


MIB = 2**20


@dataclass(kw_only=True)
class MeasureArguments:
    """Options of every benchmark."""

    rounds: int = field(default=5, metadata={"help": "Rounds; the best one counts, the median is reported too."})
    threads: int = field(default=1, metadata={"help": "Threads of PyTorch; ratios are steady on one only."})
    output: str | None = field(default=None, metadata={"help": "JSON file of the results."})
    plot: str | None = field(default=None, metadata={"help": "PNG file of the results; needs matplotlib."})


@dataclass(frozen=True)
class Timing:
    """Seconds of each round of a variant."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        """Seconds of the best round."""
        return min(self.rounds)

    @property
    def median(self) -> float:
        """Seconds of the median round."""
        return statistics.median(self.rounds)


def clock_of(device: str = "cpu") -> Callable[[], float]:
    """Processor time on a CPU with one thread, else time; on other devices with their work done."""
    if device != "cpu":

        def clock() -> float:
            torch.cuda.synchronize()
            return time.perf_counter()

        return clock
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def interleave(
    variants: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    label: str = "",
    device: str = "cpu",
    most_seconds: float = float("inf"),
) -> dict[str, Timing]:
    """
    Time variants in turns.

    Args:
        variants (`Mapping[str, Callable]`): What to run, by name; results are dropped.
        rounds (`int`): Times that each is run.
        label (`str`, *optional*): For the progress bar.
        device (`str`, *optional*, defaults to `"cpu"`): Where they compute.
        most_seconds (`float`, *optional*): No round begins after this time.
    """
    clock, start_of_all = clock_of(device), time.perf_counter()
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for done in tqdm(range(rounds), desc=label, file=sys.stderr, disable=None):
        if done and time.perf_counter() - start_of_all > most_seconds:
            break
        for name, run in variants.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    timings = {name: Timing(tuple(measured)) for name, measured in seconds.items()}
    # what is known so far, should a long run be stopped
    best = ", ".join(f"{name} {timing.best:.4g} s" for name, timing in timings.items())
    print(f"{label}: {best}", file=sys.stderr, flush=True)
    return timings


class TensorMemory:
    """
    Bytes of tensors on the CPU from `start` to `stop`, beyond those that were there before.

    Every allocation counts. In something long, call `cut` now and then: events of the allocator are summed and
    forgotten.
    """

    def __init__(self):
        self.held = self.peak = 0

    def start(self) -> None:
        config = ProfilerConfig(
            ProfilerState.KINETO, False, True, False, False, False, torch._C._profiler._ExperimentalConfig()
        )
        _prepare_profiler(config, {ProfilerActivity.CPU})
        # a scope that nothing has: operators leave no events, only the allocator does
        _enable_profiler(config, {ProfilerActivity.CPU}, {torch._C._profiler.RecordScope.LITE_INTERPRETER})

    def stop(self) -> int:
        """The largest sum so far."""
        events = [event for event in _disable_profiler().events() if event.name() == "[memory]"]
        for event in sorted(events, key=lambda event: event.start_ns()):
            self.held += event.nbytes()
            self.peak = max(self.peak, self.held)
        return self.peak

    def cut(self) -> None:
        self.stop()
        self.start()


def peak_bytes(run: Callable[[], Any], device: str = "cpu") -> int:
    """Largest sum of tensor bytes that `run` holds at one time, beyond what was there before."""
    if device != "cpu":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = run()
        torch.cuda.synchronize()
        del result
        return torch.cuda.max_memory_allocated() - before
    memory = TensorMemory()
    memory.start()
    result = run()
    del result
    return memory.stop()


def process_bytes(name: str = "VmHWM") -> int | None:
    """Resident bytes of this process, `"VmHWM"` the most so far and `"VmRSS"` now; `None` where Linux does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")]
    return sizes[0] if sizes else None


@dataclass(frozen=True)
class Benchmark:
    """
    A benchmark as a command.

    Attributes:
        kind (`str`): What the results are called.
        arguments (`type`): Dataclass of its options, a `MeasureArguments`.
        description (`str`): For `--help`.
        measure (`Callable`): From the options to the results, a dictionary for JSON.
        table (`Callable`): From the results to text.
        panels (`Callable`, *optional*): From the results to the panels of a plot, see `save_plot`.
    """

    kind: str
    arguments: type[MeasureArguments]
    description: str
    measure: Callable[[Any], dict[str, Any]]
    table: Callable[[dict[str, Any]], str]
    panels: Callable[[dict[str, Any]], list["Panel"]] | None = None

    def main(self, argv: Sequence[str] | None = None, recipe: Sequence[str] | None = None) -> dict[str, Any]:
        """
        Measure, print and write.

        Args:
            argv (`Sequence[str]`, *optional*): Options; those of the process by default.
            recipe (`Sequence[str]`, *optional*): Arguments of the command where they are more than the options.
        """
        argv = sys.argv[1:] if argv is None else list(argv)
        parser = make_parser(self.arguments, self.description)
        (args,) = parser.parse_args_into_dataclasses(argv)
        if args.rounds < 1 or args.threads < 1:
            raise ValueError(f"`rounds` and `threads` must be positive, got {args.rounds} and {args.threads}.")
        if args.plot and self.panels is None:
            raise ValueError(f"`plot` draws nothing for this benchmark, got {args.plot!r}.")
        if args.plot:
            load_pyplot()  # not only after minutes of work
        threads = torch.get_num_threads()
        torch.set_num_threads(args.threads)
        torch.manual_seed(0)
        try:
            measured = self.measure(args)
        finally:
            torch.set_num_threads(threads)
        settings = {"rounds": args.rounds, "threads": args.threads}
        results = {"kind": self.kind, **settings, **measured, "run": run_info(argv if recipe is None else recipe)}
        print(self.table(results))
        if args.output:
            write_json_atomic(args.output, results)
        if args.plot and self.panels is not None:
            save_plot(args.plot, self.panels(results))
        return results


def format_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """
    Rows as lines of text.

    Args:
        rows (`Sequence[Mapping]`): Cells by name; a missing one, or `None`, is left empty.
        columns (`Mapping[str, str]`): Name of each cell, and the heading of its column.
    """
    cells = [list(columns.values())]
    cells += [["" if row.get(name) is None else str(row[name]) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_text = [any(isinstance(row.get(name), str) for row in rows) for name in columns]
    lines = []
    for line in cells:
        pairs = zip(line, widths, is_text, strict=True)
        lines.append("  ".join(c.ljust(width) if text else c.rjust(width) for c, width, text in pairs).rstrip())
    return "\n".join(lines)


@dataclass(frozen=True)
class Panel:
    """A plot: lines by name, each as its x and y; axes that start at 0."""

    title: str
    x: str
    y: str
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]


def save_plot(path: str, panels: Sequence[Panel]) -> None:
    """Write panels, side by side, as a PNG file."""
    pyplot = load_pyplot()
    figure, axes = pyplot.subplots(1, len(panels), figsize=(5.5 * len(panels), 4), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        for name, (x, y) in panel.lines.items():
            axis.plot(x, y, marker="o", markersize=4, label=name)
        axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y, xlim=(0, None), ylim=(0, None))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)
