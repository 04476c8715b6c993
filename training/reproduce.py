"""
The runs behind the results of this project, as a queue that can be stopped at any time.

    python -m training.reproduce list
    python -m training.reproduce run --workers 2 --hours 3
    python -m training.reproduce run --only tiny-en-de.p-transformer.train

The queue is a YAML file: runs in the order of what they tell us, each a command of this package, the result file that
it leaves behind, and what it costs. A run whose result file is there is done. Killed runs start again where they
stopped: training from its last checkpoint, synthetic experiments behind the last finished run. Several processes may
work off the same queue; no run is done twice. Each run writes to `runs/queue/<name>.log`.
"""

import contextlib
import fcntl
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, fields
from pathlib import Path

import yaml
from transformers import HfArgumentParser
from transformers.utils import logging

from .measure import format_table


logger = logging.get_logger(__name__)

QUEUE = "training/configs/reproduce.yaml"
LOG_LINES = 5


@dataclass(frozen=True)
class QueuedRun:
    """
    One run of the queue.

    Args:
        name (`str`): Names the run, its log and its lock.
        command (`str`): Module of this package and its arguments, as behind `python -m`; `$NAME` is a variable.
        output (`str`): File that is there once the run is done.
        hours (`float`): CPU hours it takes, as measured or estimated.
        tells (`str`): The question it answers.
        needs (`list[str]`): Runs that come before it.
        checkpoints (`str`, *optional*): Folder with the checkpoints from which a training goes on.
    """

    name: str
    command: str
    output: str
    hours: float
    tells: str
    needs: tuple[str, ...] = ()
    checkpoints: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the result file is there."""
        return Path(self.output).is_file()

    def words(self) -> list[str]:
        """The command to start, with the option to go on from a checkpoint where there is one."""
        words = [os.path.expandvars(word) for word in shlex.split(self.command)]
        unset = [word for word in words if word.startswith("$")]
        if unset:
            raise ValueError(f"{self.name}: `{unset[0]}` names a variable that is not set, the folder of data.")
        if self.checkpoints is not None and any(Path(self.checkpoints).glob("checkpoint-*")):
            words += ["--resume_from_checkpoint", "true"]
        return [sys.executable, "-m", *words]


@dataclass
class QueueArguments:
    """Options of `list` and `run`."""

    queue: str = field(default=QUEUE, metadata={"help": "YAML file of the runs."})
    only: list[str] = field(default_factory=list, metadata={"help": "These runs, and no others."})
    workers: int = field(default=1, metadata={"help": "Runs at the same time, one thread each."})
    hours: float | None = field(default=None, metadata={"help": "Start no run after so many hours."})
    folder: str = field(default="runs/queue", metadata={"help": "Where logs and locks go."})

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"`--workers` must be 1 or more, got {self.workers}.")


def read_queue(path: str | Path) -> list[QueuedRun]:
    """
    Read the runs of a queue, the most telling first.

    Raises:
        `ValueError`: for unknown or missing fields, names that are there twice, and needs that no run before fulfils.
    """
    entries = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{path}: must hold a list of runs.")
    known = [one.name for one in fields(QueuedRun)]
    runs: list[QueuedRun] = []
    for number, entry in enumerate(entries, start=1):
        where = f"{path}: run {entry.get('name', number)!r}"
        unknown = [name for name in entry if name not in known]
        if unknown:
            raise ValueError(f"{where} has a field {unknown[0]!r}. There are {', '.join(known)}.")
        missing = [name for name in known[:5] if name not in entry]
        if missing:
            raise ValueError(f"{where} has no `{missing[0]}`.")
        run = QueuedRun(**{**entry, "needs": tuple(entry.get("needs", ()))})
        if any(run.name == other.name for other in runs):
            raise ValueError(f"{where} is there twice.")
        absent = [name for name in run.needs if all(name != other.name for other in runs)]
        if absent:
            raise ValueError(f"{where} needs {absent[0]!r}, which no run before it is.")
        runs.append(run)
    return runs


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

    def state(self, run: QueuedRun) -> str:
        """`done`, `running`, `failed`, `ready`, or what it waits for."""
        if run.is_done:
            return "done"
        with self.lock(run) as is_free:
            if not is_free:
                return "running"
        if self.mark(run).is_file():
            return "failed"
        waits = [name for name in run.needs if not self.runs[name].is_done]
        return f"waits for {waits[0]}" if waits else "ready"

    def mark(self, run: QueuedRun) -> Path:
        """The file that says that a run has failed; a new try takes it away."""
        return self.folder / f"{run.name}.failed"

    @contextlib.contextmanager
    def lock(self, run: QueuedRun) -> Iterator[bool]:
        """Hold a run; gives whether it was free. The lock ends with its process, however that ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f"{run.name}.lock", "a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def do(self, run: QueuedRun) -> bool:
        """Do a run; gives whether its result is there. One that another process holds is left to it."""
        with self.lock(run) as is_free:
            if not is_free or run.is_done:
                return run.is_done
            words, log = run.words(), self.folder / f"{run.name}.log"
            self.mark(run).unlink(missing_ok=True)
            logger.warning(f"{run.name}: started, about {run.hours:.2g} CPU hours; {log} has its output.")
            start = time.time()
            with open(log, "a", encoding="utf-8") as output:
                code = subprocess.run(
                    words, stdout=output, stderr=output, env={"OMP_NUM_THREADS": "1", **os.environ}
                ).returncode
            if code == 0 and run.is_done:
                logger.warning(f"{run.name}: done in {(time.time() - start) / 3600:.2f} hours.")
                return True
            last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
            reason = f"exit status {code}" if code else f"no {run.output}"
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
                todo = [self.runs[name] for name in names if name not in started]
                # a run that failed before is tried again, once
                ready = [run for run in todo if self.state(run) in ("ready", "failed") and self.is_fed(run)]
                if ready and len(working) < workers and (end is None or time.time() < end):
                    started[ready[0].name] = pool.submit(self.do, ready[0])
                elif working:
                    wait(working, return_when=FIRST_COMPLETED)
                else:
                    return {name: future.result() for name, future in started.items()}

    def is_fed(self, run: QueuedRun) -> bool:
        """Whether all that a run needs is done."""
        return all(self.runs[name].is_done for name in run.needs)

    def table(self, names: Sequence[str]) -> str:
        """Runs, their states and costs, and what is left."""
        runs = [self.runs[name] for name in names]
        rows = [
            {"run": run.name, "state": self.state(run), "hours": f"{run.hours:g}", "tells": run.tells} for run in runs
        ]
        left = sum(run.hours for run in runs if not run.is_done)
        columns = {"run": "run", "state": "state", "hours": "CPU hours", "tells": "tells"}
        return f"{format_table(rows, columns)}\n{left:g} CPU hours are left."


def main(argv: Sequence[str] | None = None) -> None:
    """List or run, as the first argument says."""
    words = sys.argv[1:] if argv is None else list(argv)
    if not words or words[0] not in ("list", "run"):
        raise SystemExit(f"{__doc__}\nThe first argument must be 'list' or 'run'.")
    parser = HfArgumentParser(QueueArguments, allow_abbrev=False, description=__doc__)  # type: ignore[arg-type]
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
