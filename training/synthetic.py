"""
Tasks with a known right answer: what a system can learn, how fast, and from how far away.

    python -m training.synthetic run training/configs/synthetic.cipher.yaml
    python -m training.synthetic write --task cipher --options sentences=32 --count 100 --output cipher.jsonl

`run` trains the systems of an experiment, with as many updates and tokens each, and examines them: words behind right
translations (teacher forcing) while they learn, and greedy translations in the end. The results are in one JSON file,
written after each run; finished runs are not done again, so an experiment may be stopped, or done in pieces with
`--systems`, `--settings`, `--seeds` and `--most_runs`. Pieces that are done at the same time need an `--output` each;
`--merge` joins them. Where a run starts from another (`start_from`), that one comes first, and is learned again if its
weights are gone; `--weights` names a folder where they stay. `write` makes documents for the other commands.

Tasks: `cipher`, long documents whose words stand for others and change places (`CipherTask`); `discourse`, words that
need what was said before (`DiscourseTask`).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from tqdm import tqdm
from transformers.utils import logging

from modeling_docmt import DocMTForConditionalGeneration

from .command_line import check_first_argument, make_parser
from .documents import write_documents
from .learning import LoadedStart, learn
from .results import portable_path, run_info
from .synthetic_distances import save_distances
from .synthetic_documents import WordVocabulary, as_record, documents_of_words, make_documents
from .synthetic_experiment import TASKS, Experiment, Run, make_task
from .synthetic_measures import probe_encoder, translate_sentences_alone
from .synthetic_plot import save_curves
from .synthetic_reach import reaches
from .synthetic_report import RunFile, distance_table, probe_summary_table, summary_table
from .synthetic_starts import StartWeights, start_weights


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
    weights: str | None = field(
        default=None,
        metadata={"help": "Folder of weights from which other runs start; by default they are gone in the end."},
    )
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
    check_first_argument(argv, commands, __doc__)
    kind, command = commands[argv[0]]
    rest = argv[1:]
    if argv[0] == "run" and rest and not rest[0].startswith("-"):
        rest = ["--experiment", *rest]
    parser = make_parser(kind, __doc__)
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
    starts = {one.start.run.key for one in experiment.runs() if one.start is not None}
    try:
        with start_weights(args.weights) as weights:
            for wanted_run in tqdm(missing[: args.most_runs], desc="runs", disable=None):
                for one in [*weights.missing(wanted_run), wanted_run]:
                    found = _learn(one, weights, is_start=one.key in starts)
                    _add(results, one, found, recipe)
    finally:
        torch.set_num_threads(threads)
    if results.runs:
        print(summary_table(results.content["summary"]))
        print(distance_table(results.runs))
        if experiment.probe is not None:
            print(probe_summary_table(results.content["summary"]))
        _examine_reach(experiment, results)
        if experiment.plot:
            save_curves(experiment.plot, results.runs, TASKS[experiment.task].without_context)
    return results.content


def _examine_reach(experiment: Experiment, results: RunFile) -> None:
    """Of phenomena with distances: how far systems see, and what they make of it."""
    without_context = TASKS[experiment.task].without_context
    if without_context:
        results.keep_reach(reaches(one for one in experiment.runs() if results.has(one)))
        if experiment.plot:
            path = Path(experiment.plot).with_suffix(".distances.png")
            save_distances(path, results.runs, results.content["reach"], without_context)


def _add(results: RunFile, one: Run, found: dict[str, Any], recipe: dict[str, Any]) -> None:
    if results.has(one):
        logger.warning(f"{one.key}: learned again, as its weights were gone; its results stay as they were.")
        return
    results.add(one, found, recipe)
    words = {name: 100 * found["final"][name]["words"]["accuracy"] for name in ("read", "translated")}
    tqdm.write(f"{one.key}: {words['read']:.1f} % of the words, translating {words['translated']:.1f} %")


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


def _learn(one: Run, weights: StartWeights, *, is_start: bool) -> dict[str, Any]:
    vocabulary = WordVocabulary(one.task.words())
    training = documents_of_words(one.task, "train", one.plan.training_words)
    evaluation = tuple(make_documents(one.task, "evaluation", one.plan.evaluation_documents))
    label = f"{one.setting}, {one.system}, seed {one.seed}"
    start = None
    if one.start is not None:
        start = LoadedStart(weights.path(one.start.run), one.start.parts, one.start.loaded_lr_scale)

    def further(model: DocMTForConditionalGeneration) -> dict[str, Any]:
        if is_start:
            weights.save(one, model)
        found = {}
        if one.single_sentences:
            found["single_sentences"] = translate_sentences_alone(
                model, evaluation, vocabulary, batch_tokens=4 * one.plan.batch_tokens
            )
        if one.probe is not None:
            found["probe"] = probe_encoder(model, one.task, vocabulary, one.probe, seed=one.seed, label=label)
        return found

    return learn(
        one.config(vocabulary),
        one.plan,
        vocabulary,
        training,
        evaluation,
        seed=one.seed,
        label=label,
        start=start,
        generation=one.generation,
        further=further,
    )


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
