"""
The runs behind the results of this project, as a queue that can be stopped at any time.

    python -m training.reproduce list
    python -m training.reproduce run --workers 2 --hours 3
    python -m training.reproduce run --only tiny-en-de.p-transformer.train

The queue is a YAML file: runs in the order of what they tell us, each a command of this package, the result file that
it leaves behind, and what it costs. A run whose result file is there is done. One that was done on another machine is
done again where a run to be done needs its weights or translations. Killed runs start again where they stopped:
training from its last checkpoint, synthetic experiments behind the last finished run. Several processes may work off
the same queue; no run is done twice. Each run writes to `runs/queue/<name>.log`.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from transformers.utils import logging

from .command_line import check_first_argument, make_parser
from .measure import format_table
from .reproduce_queue import QUEUE, QueuedRun, read_queue


logger = logging.get_logger(__name__)

LOG_LINES = 5


@dataclass
class QueueArguments:
    """Options of `list` and `run`."""

    queue: str = field(default=QUEUE, metadata={"help": "YAML file of the runs."})
    only: list[str] = field(default_factory=list, metadata={"help": "These runs, with what they need, and no others."})
    workers: int = field(default=1, metadata={"help": "Runs at the same time, one thread each."})
    hours: float | None = field(default=None, metadata={"help": "Start no run after so many hours."})
    folder: str = field(default="runs/queue", metadata={"help": "Where logs and locks go."})

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"`--workers` must be 1 or more, got {self.workers}.")


class RunQueue:
    """
    Works off runs, each at most once at a time over all processes.

    Args:
        runs (`Sequence[QueuedRun]`): The runs, in their order.
        folder (`str` or `Path`): Where logs, locks and marks of failed runs are.
    """

    def __init__(self, runs: Sequence[QueuedRun], folder: str | Path):
        self.runs = {run.name: run for run in runs}
        self.folder = Path(folder)

    def todo(self, names: Collection[str]) -> list[QueuedRun]:
        """Those of some runs that are not done, in order, and those before whose weights or texts are not here."""
        found: list[QueuedRun] = []
        # needs stand before what needs them
        for run in reversed(self.runs.values()):
            is_needed = any(run.name in other.needs for other in found)
            if not run.is_done and run.name in names or not run.is_here and is_needed:
                found.append(run)
        return found[::-1]

    def state(self, run: QueuedRun) -> str:
        """`done`, `done elsewhere` (what others need of it is not here), `running`, `failed`, `ready`, or its wait."""
        if run.is_done:
            return "done" if run.is_here else "done elsewhere"
        if not self.is_free(run):
            return "running"
        if self.mark(run).is_file():
            return "failed"
        waits = [name for name in run.needs if not self.runs[name].is_here]
        return f"waits for {waits[0]}" if waits else "ready"

    def mark(self, run: QueuedRun) -> Path:
        """The file that says that a run has failed; a new try takes it away."""
        return self.folder / f"{run.name}.failed"

    @contextlib.contextmanager
    def lock(self, run: QueuedRun) -> Iterator[TextIO | None]:
        """
        Hold a run; gives the file of the lock, or nothing where the run is not free.

        The lock ends with the last process that has the file open, however that ends: a run that is handed the file
        holds the lock where only the queue is killed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f"{run.name}.lock", "a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield file

    def do(self, run: QueuedRun) -> bool:
        """Do a run; gives whether its result is there. One that another process holds is left to it."""
        with self.lock(run) as held:
            if held is None or run.is_here:
                return run.is_here
            words, log = run.words(), self.folder / f"{run.name}.log"
            self.mark(run).unlink(missing_ok=True)
            logger.warning(f"{run.name}: started, about {run.hours:.2g} CPU hours; {log} has its output.")
            start = time.time()
            with open(log, "a", encoding="utf-8") as output:
                code = subprocess.run(
                    words,
                    stdout=output,
                    stderr=output,
                    env={"OMP_NUM_THREADS": "1", **os.environ},
                    pass_fds=[held.fileno()],
                ).returncode
            if code == 0 and run.is_here:
                logger.warning(f"{run.name}: done in {(time.time() - start) / 3600:.2f} hours.")
                return True
            last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
            absent = [path for path in (run.output, *run.leaves) if not Path(path).exists()]
            reason = f"exit status {code}" if code else f"no {absent[0]}"
            self.mark(run).write_text(reason + "\n", encoding="utf-8")
            logger.error(f"{run.name}: failed with {reason}.\n{last}")
            return False

    def work(self, names: Sequence[str], *, workers: int = 1, hours: float | None = None) -> dict[str, bool]:
        """
        Do what is ready, in order, until nothing is.

        Args:
            names (`Sequence[str]`): Which runs.
            workers (`int`, *optional*, defaults to 1): Runs at the same time.
            hours (`float`, *optional*): Start none after so many hours.

        Returns:
            `dict[str, bool]`: by name of the runs that were started, whether they succeeded.
        """
        end = None if hours is None else time.time() + 3600 * hours
        started: dict[str, Future] = {}
        with ThreadPoolExecutor(workers) as pool:
            while True:
                working = [future for future in started.values() if not future.done()]
                # a run that failed before is tried again, once
                ready = [
                    run
                    for run in self.todo(names)
                    if run.name not in started and self.is_free(run) and self.is_fed(run)
                ]
                if ready and len(working) < workers and (end is None or time.time() < end):
                    started[ready[0].name] = pool.submit(self.do, ready[0])
                elif working:
                    wait(working, return_when=FIRST_COMPLETED)
                else:
                    return {name: future.result() for name, future in started.items()}

    def is_fed(self, run: QueuedRun) -> bool:
        """Whether all that a run needs is here."""
        return all(self.runs[name].is_here for name in run.needs)

    def is_free(self, run: QueuedRun) -> bool:
        """Whether no process is at it."""
        with self.lock(run) as held:
            return held is not None

    def table(self, names: Collection[str]) -> str:
        """Runs, their states and costs, and what is left, with what has to be done again for it."""
        todo = self.todo(names)
        runs = [run for run in self.runs.values() if run.name in names or run in todo]
        rows = [
            {"run": run.name, "state": self.state(run), "hours": f"{run.hours:g}", "tells": run.tells} for run in runs
        ]
        columns = {"run": "run", "state": "state", "hours": "CPU hours", "tells": "tells"}
        return f"{format_table(rows, columns)}\n{sum(run.hours for run in todo):g} CPU hours are left."


def main(argv: Sequence[str] | None = None) -> None:
    """List or run, as the first argument says."""
    words = sys.argv[1:] if argv is None else list(argv)
    check_first_argument(words, ("list", "run"), __doc__)
    parser = make_parser(QueueArguments, __doc__)
    try:
        (args,) = parser.parse_args_into_dataclasses(words[1:])
        queue = RunQueue(read_queue(args.queue), args.folder)
        unknown = [name for name in args.only if name not in queue.runs]
        if unknown:
            raise ValueError(f"`--only` names {unknown[0]!r}; {args.queue} has {', '.join(queue.runs)}.")
        names = args.only or list(queue.runs)
        if words[0] == "run":
            results = queue.work(names, workers=args.workers, hours=args.hours)
            failed = [name for name, succeeded in results.items() if not succeeded]
            if failed:
                raise SystemExit(f"reproduce: {len(failed)} of {len(results)} runs failed: {', '.join(failed)}.")
    except (ValueError, OSError) as error:
        raise SystemExit(f"reproduce: {error}") from error
    print(queue.table(names))


if __name__ == "__main__":
    main()
