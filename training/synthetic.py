"""
Tasks with a known right answer: what a system can learn, how fast, and from how far away.

    python -m training.synthetic run training/configs/synthetic.cipher.yaml
    python -m training.synthetic write --task cipher --options sentences=32 --count 100 --output cipher.jsonl

`run` trains the systems of an experiment, with as many updates and tokens each, and examines them: words behind right
translations (teacher forcing) while they learn, and greedy translations in the end. The results are in one JSON file,
written after each run; finished runs are not done again, so an experiment may be stopped, or done in pieces with
`--systems`, `--settings`, `--seeds` and `--most_runs`. Pieces that are done at the same time need an `--output` each;
`--merge` joins them. `write` makes documents for the other commands.

Tasks: `cipher`, long documents whose words stand for others and change places (`CipherTask`); `discourse`, words that
need what was said before (`DiscourseTask`).
"""

import functools
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from tqdm import tqdm
from transformers import HfArgumentParser
from transformers.utils import logging

from .documents import write_documents
from .learning import learn
from .results import portable_path, run_info
from .synthetic_documents import SyntheticDocument, SyntheticTask, WordVocabulary, as_record, make_documents
from .synthetic_experiment import TASKS, Experiment, Run, make_task
from .synthetic_plot import save_curves
from .synthetic_report import RunFile, distance_table, summary_table


logger = logging.get_logger(__name__)


@dataclass
class RunArguments:
    """Options of `run`."""

    experiment: str = field(metadata={"help": "YAML file of the experiment, see `Experiment`."})
    output: str | None = field(default=None, metadata={"help": "JSON file, in place of that of the experiment."})
    plot: str | None = field(default=None, metadata={"help": "PNG file, in place of that of the experiment."})
    systems: list[str] = field(default_factory=list, metadata={"help": "Do the runs of these systems only."})
    settings: list[str] = field(default_factory=list, metadata={"help": "Do the runs of these settings only."})
    seeds: list[int] = field(default_factory=list, metadata={"help": "Do the runs of these seeds only."})
    most_runs: int | None = field(default=None, metadata={"help": "Do so many runs that are missing, and stop."})
    merge: list[str] = field(default_factory=list, metadata={"help": "Take over the runs in these JSON files first."})


@dataclass
class WriteArguments:
    """Options of `write`."""

    task: str = field(metadata={"help": "Name of the task.", "choices": list(TASKS)})
    output: str = field(metadata={"help": "JSONL file, packed if its name ends in .gz."})
    count: int = field(default=1000, metadata={"help": "Documents."})
    split: str = field(default="train", metadata={"help": "Which documents: others for another name."})
    options: list[str] = field(default_factory=list, metadata={"help": "Options of the task, as 'sentences=16'."})


def main(argv: Sequence[str] | None = None) -> Any:
    """Run or write, as the first argument says."""
    argv = sys.argv[1:] if argv is None else list(argv)
    commands: dict[str, tuple[type, Any]] = {"run": (RunArguments, run), "write": (WriteArguments, write)}
    if not argv or argv[0] not in commands:
        print(__doc__)
        if argv[:1] in (["-h"], ["--help"]):
            raise SystemExit(0)
        raise SystemExit(f"The first argument must be 'run' or 'write', got {argv[0]!r}." if argv else 2)
    kind, command = commands[argv[0]]
    rest = argv[1:]
    if argv[0] == "run" and rest and not rest[0].startswith("-"):
        rest = ["--experiment", *rest]
    parser = HfArgumentParser(kind, allow_abbrev=False, description=__doc__)  # type: ignore[arg-type]
    (args,) = parser.parse_args_into_dataclasses(rest)
    return command(args, argv)


def run(args: RunArguments, argv: Sequence[str]) -> dict[str, Any]:
    """
    Do the runs of an experiment that are missing.

    Args:
        args (`RunArguments`): Which.
        argv (`Sequence[str]`): The command, for the results.

    Returns:
        `dict`: what is in the JSON file.
    """
    experiment = Experiment.from_file(args.experiment, output=args.output, plot=args.plot)
    wanted = _select(experiment, args)
    results = RunFile(experiment.output, experiment.task)
    for path in args.merge:
        if not Path(path).is_file():
            raise ValueError(f"`merge` names {portable_path(path)!r}, which is no file.")
        taken = results.take(RunFile(path, experiment.task), list(experiment.runs()))
        logger.warning(f"Took over {taken} runs of {portable_path(path)}.")
    missing = [one for one in wanted if not results.has(one)]
    done = len(wanted) - len(missing)
    if done:
        logger.warning(f"{done} of {len(wanted)} runs are in {experiment.output} already.")
    recipe = run_info(argv)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more would sum in another order
    try:
        for one in tqdm(missing[: args.most_runs], desc="runs", disable=None):
            results.add(one, _learn(one), recipe)
            final = results.runs[-1]["final"]
            words = {name: 100 * final[name]["words"]["accuracy"] for name in ("read", "translated")}
            tqdm.write(f"{one.key}: {words['read']:.1f} % of the words, translating {words['translated']:.1f} %")
    finally:
        torch.set_num_threads(threads)
    if results.runs:
        print(summary_table(results.content["summary"]))
        print(distance_table(results.runs))
        if experiment.plot:
            save_curves(experiment.plot, results.runs, TASKS[experiment.task].without_context)
    return results.content


def _select(experiment: Experiment, args: RunArguments) -> list[Run]:
    chosen: dict[str, tuple[list, list]] = {
        "systems": (args.systems, list(experiment.systems)),
        "settings": (args.settings, list(experiment.settings)),
        "seeds": (args.seeds, list(experiment.seeds)),
    }
    for name, (some, every) in chosen.items():
        unknown = [value for value in some if value not in every]
        if unknown:
            raise ValueError(f"`{name}` must be of the experiment, which has {every}, got {unknown[0]!r}.")
    if args.most_runs is not None and args.most_runs < 0:
        raise ValueError(f"`most_runs` must be 0 or more, got {args.most_runs}.")
    systems, settings, seeds = (some or every for some, every in chosen.values())
    return [
        one for one in experiment.runs() if one.system in systems and one.setting in settings and one.seed in seeds
    ]


def _learn(one: Run) -> dict[str, Any]:
    vocabulary = WordVocabulary(one.task.words())
    training = _documents(one.task, "train", one.plan.training_words)
    evaluation = tuple(make_documents(one.task, "evaluation", one.plan.evaluation_documents))
    label = f"{one.setting}, {one.system}, seed {one.seed}"
    return learn(one.config(vocabulary), one.plan, vocabulary, training, evaluation, seed=one.seed, label=label)


# systems learn from the same documents, one after the other
@functools.lru_cache(maxsize=1)
def _documents(task: SyntheticTask, split: str, words: int) -> tuple[SyntheticDocument, ...]:
    """The first documents of a split that have so many target words together."""
    documents = []
    for index in itertools.count():
        documents.append(task.document(split, index))
        words -= sum(map(len, documents[-1].target))
        if words <= 0:
            return tuple(documents)
    raise AssertionError("a count has no end")


def write(args: WriteArguments, argv: Sequence[str]) -> None:
    """Write documents of a task as records."""
    if args.count < 1:
        raise ValueError(f"`count` must be positive, got {args.count}.")
    options = {}
    for text in args.options:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"`options` must be name=value, got {text!r}.")
        options[name] = yaml.safe_load(value)
    task = make_task(args.task, options)
    records = (
        as_record(document, f"{task.name}-{args.split}-{index}")
        for index, document in enumerate(make_documents(task, args.split, args.count))
    )
    written = write_documents(args.output, tqdm(records, total=args.count, desc="documents", disable=None))
    print(f"{written} documents in {args.output}")


if __name__ == "__main__":
    main()
