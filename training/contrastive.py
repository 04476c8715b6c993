r"""
Contrastive test suites: does a model give the right translation a better score than wrong ones?

    python -m training.contrastive --model hub_cards/docmt-tiny-en-de --suite contrapro.en-de.jsonl.gz \
        --output contrapro.json
    python -m training.contrastive --model MODEL --suite large-contrastive-pronouns.en-fr.jsonl.gz --curve 0 1 2 3 \
        --output pronouns.json --plot pronouns.png
    python -m training.contrastive --model MODEL --suite contrapro.json --documents documents --preset S0
    python -m training.contrastive --model MODEL --suite OpenSubs.current.src --target_file OpenSubs.current.trg \
        --source_context_file OpenSubs.c3.context.src --target_context_file OpenSubs.c3.context.trg \
        --candidates_per_item 2

The score of a candidate is the sum of the log-probabilities of its target tokens; an item is right where the right
candidate scores strictly better than each of the others. Context is that of the suite, on the target side the
reference's, in the format of the model: whole-document systems get `--source_context_sentences` and
`--target_context_sentences` (by default as many as the suite holds on both sides, 4 at most), `concat-adj` up to its
own k, `sentence-level` the sentence alone. Any other sequence-to-sequence model gets the sentence alone, or context
that is joined by `--separator`.

Input: a model folder, and suites, see `contrastive_readers` for their layouts. Output: tables, with `--output` a JSON
file, with `--output_scores` the score of each candidate, and with `--plot` a picture. Source: Müller et al. (2018) for
ContraPro, Voita et al. (2019) for consistency.
"""

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedTokenizerBase
from transformers.utils import logging

from .command_line import make_parser
from .contrastive_arguments import ContrastiveArguments
from .contrastive_items import ContrastiveItem, HeldContext, held_context
from .contrastive_lines import DocumentFolder, read_line_suite
from .contrastive_paired import pack_decisions
from .contrastive_readers import read_suite
from .contrastive_report import breakdowns, contrastive_table, count_scores, is_correct, save_curves
from .contrastive_scorer import ScorerSettings, WorkerPool, score_here, score_items, window_alignment
from .contrastive_sequences import (
    STANDARD_CONTEXT,
    ContextSizes,
    PlainFormat,
    SentenceCache,
    SystemFormat,
    build_sequences,
    check_context,
    resolve_context,
)
from .hypotheses import load_tokenizer
from .plotting import load_pyplot
from .results import (
    portable_path,
    run_info,
    sha256_of_file,
    sha256_of_files,
    write_json_atomic,
    write_text_atomic,
)


logger = logging.get_logger(__name__)

# options that are reported beside the scores
RECIPE = ("preset", "score_span", "normalize_length", "dtype", "batch_tokens", "num_processes", "max_items")


@dataclass(frozen=True)
class System:
    """What is scored: the format of a model, its sentences, and how to score its sequences."""

    form: SystemFormat | PlainFormat
    cache: SentenceCache
    score: Callable[..., Iterator[list[list[float]]]]
    alignment: str | None = None


@dataclass(frozen=True)
class Pass:
    """A suite scored with one size of context."""

    sizes: ContextSizes
    scores: list[list[float]]
    facts: dict[str, Any]


def read_items(path: str, arguments: ContrastiveArguments) -> list[ContrastiveItem]:
    """Read a suite as the arguments have it."""
    if arguments.target_file is not None:
        items = read_line_suite(
            path,
            arguments.target_file,
            arguments.source_context_file,
            arguments.target_context_file,
            candidates_per_item=arguments.candidates_per_item,
        )
    else:
        asked = [arguments.source_context_sentences, arguments.target_context_sentences]
        asked += [arguments.right_context_sentences, *arguments.curve]
        documents = None
        if arguments.documents is not None:
            documents = DocumentFolder(arguments.documents, arguments.source_lang)
        items = read_suite(
            path,
            arguments.suite_format,
            documents=documents,
            context_sentences=max(STANDARD_CONTEXT, *(number or 0 for number in asked)),
        )
    if arguments.max_items is None or arguments.max_items >= len(items):
        return items
    return [items[index * len(items) // arguments.max_items] for index in range(arguments.max_items)]


def system_format(
    model: str, separator: str | None = None
) -> tuple[SystemFormat | PlainFormat, PreTrainedTokenizerBase]:
    """The format of a model folder, and its tokenizer; no weights are read."""
    config = AutoConfig.from_pretrained(model)
    if config.model_type == "docmt":
        if separator is not None:
            raise ValueError("`--separator` is for models of another kind: a DocMT model has its own.")
        return SystemFormat(config), load_tokenizer(model)
    tokenizer = load_tokenizer(model)
    return PlainFormat(tokenizer, separator, config.to_dict().get("max_position_embeddings")), tokenizer


@contextlib.contextmanager
def open_system(settings: ScorerSettings, *, separator: str | None = None, num_processes: int = 1) -> Iterator[System]:
    """
    Load model and tokenizer, here or in other processes, until the end of the `with` statement.

    Args:
        settings (`ScorerSettings`): The model and how it scores.
        separator (`str`, *optional*): Of models of another kind, see [`PlainFormat`].
        num_processes (`int`, *optional*, defaults to 1): Processes that score, each with the model.
    """
    # refused before anything is loaded
    alignment = window_alignment(AutoConfig.from_pretrained(settings.model), settings.alignment)
    form, tokenizer = system_format(settings.model, separator)
    cache = SentenceCache(tokenizer)
    if num_processes == 1:
        yield System(form, cache, score_here(settings.load()), alignment)
    else:
        with WorkerPool(settings, num_processes) as pool:
            yield System(form, cache, pool.score, alignment)


def scorer_settings(arguments: ContrastiveArguments) -> ScorerSettings:
    """The model of the arguments, and how it scores."""
    names = ("model", "alignment", "normalize_length", "device", "dtype", "threads")
    return ScorerSettings(**{name: getattr(arguments, name) for name in names})


def score_suite(
    items: Sequence[ContrastiveItem], system: System, sizes: ContextSizes, arguments: ContrastiveArguments, name: str
) -> Pass:
    """Score the items of a suite with one size of context."""
    start = time.perf_counter()
    sequences = build_sequences(items, system.form, system.cache, sizes, arguments.score_span)
    scores = score_items(sequences, system.score, max_tokens=arguments.batch_tokens, name=name)
    seconds = time.perf_counter() - start
    over_limit = sum(map(system.form.is_over_limit, sequences))
    if over_limit:
        logger.warning(
            f"{name}: {over_limit} of {len(items)} items are longer than sequences of training (`max_part_tokens`, "
            "`max_part_sentences`); they were scored as they are."
        )
    facts = {
        "sequences": sum(len(item.targets) for item in sequences),
        "items_with_missing_context": {
            "source": sum(item.missing_source for item in sequences),
            "target": sum(item.missing_target for item in sequences),
        },
        "items_over_part_limit": over_limit,
        "seconds": round(seconds, 3),
        "items_per_second": round(len(items) / seconds, 2) if seconds else None,
    }
    return Pass(sizes=sizes, scores=scores, facts=facts)


def suite_sizes(
    path: str, held: HeldContext, form: SystemFormat | PlainFormat, arguments: ContrastiveArguments
) -> tuple[ContextSizes, dict[int, ContextSizes]]:
    """
    Context that a suite is scored with, and that of each point of its curve by its number of sentences.

    Raises:
        `ValueError`: for a number that the system has no room for.
    """
    sizes = resolve_context(
        form,
        held,
        preset=arguments.preset,
        source=arguments.source_context_sentences,
        target=arguments.target_context_sentences,
        right=arguments.right_context_sentences,
    )
    if arguments.preset == "S0" and form.own_context is None and (sizes.source, sizes.right) != (2, 2):
        logger.warning(
            f"{path}: 'S0' asks for 2 sentences on each side, and there are {sizes.source} before and {sizes.right} "
            "behind the current one."
        )
    numbers = sorted(set(arguments.curve))
    if not numbers and arguments.plot is not None:
        own = form.own_context
        numbers = list(range(1 + min(STANDARD_CONTEXT if own is None else own, held.both_left)))
    points = {}
    for number in numbers:
        points[number] = ContextSizes(number, number if form.has_target_context else 0, sizes.right)
        check_context(form, points[number])
    return sizes, points


def evaluate_suite(
    path: str, items: Sequence[ContrastiveItem], system: System, arguments: ContrastiveArguments
) -> tuple[dict[str, Any], Pass]:
    """The entry of a suite in the result file, and the scores that it is made of."""
    held = held_context(items)
    sizes, points = suite_sizes(path, held, system.form, arguments)
    passes: dict[ContextSizes, Pass] = {}
    for wanted in dict.fromkeys([sizes, *points.values()]):
        name = f"{Path(path).name}, {wanted.source} + {wanted.target} + {wanted.right} context sentences"
        passes[wanted] = score_suite(items, system, wanted, arguments, name)
    main_pass = passes[sizes]
    decisions = [is_correct(scores, item.correct) for item, scores in zip(items, main_pass.scores, strict=True)]
    files = [path, *(arguments.line_files() if arguments.target_file else [])]
    entry = {
        "suite": portable_path(path),
        "sha256": sha256_of_files(files),
        **count_scores(items, main_pass.scores),
        "context": asdict(sizes),
        "suite_context": asdict(held),
        **main_pass.facts,
        "breakdowns": breakdowns(items, main_pass.scores),
        "decisions": pack_decisions(decisions),
        "curve": [
            {
                "context_sentences": number,
                **count_scores(items, passes[wanted].scores),
                "context": asdict(wanted),
                **passes[wanted].facts,
            }
            for number, wanted in points.items()
        ],
    }
    return entry, main_pass


def contrastive(arguments: ContrastiveArguments, command: Sequence[str] | None = None) -> dict[str, Any]:
    """
    Score the suites, and write what was asked for.

    Args:
        arguments (`ContrastiveArguments`):
            What to do.
        command (`Sequence[str]`, *optional*):
            Arguments as typed, for the record; those of the process by default.

    Returns:
        `dict`: the content of the result file.
    """
    if arguments.plot:
        load_pyplot()  # not only after minutes of work
    # a faulty suite is found before the first is scored
    suites = {path: read_items(path, arguments) for path in arguments.suite}
    entries, lines = [], []
    opened = open_system(
        scorer_settings(arguments), separator=arguments.separator, num_processes=arguments.num_processes
    )
    with opened as system:
        for path, items in suites.items():
            entry, scored = evaluate_suite(path, items, system, arguments)
            entries.append(entry)
            if arguments.output_scores is not None:
                lines += score_lines(path, items, scored.scores)
    result = {
        "kind": "contrastive",
        **describe_system(arguments),
        **{name: getattr(arguments, name) for name in RECIPE},
        "separator": arguments.separator,
        "suites": entries,
        "run": run_info(command),
    }
    if arguments.output is not None:
        write_json_atomic(arguments.output, result)
    if arguments.output_scores is not None:
        write_text_atomic(arguments.output_scores, "".join(lines))
    if arguments.plot is not None:
        save_curves(arguments.plot, result)
    return result


def describe_system(arguments: ContrastiveArguments) -> dict[str, Any]:
    """Say which model was scored, and how it aligns."""
    config = AutoConfig.from_pretrained(arguments.model)
    info: dict[str, Any] = {"model": portable_path(arguments.model)}
    weights = Path(arguments.model) / "model.safetensors"
    if weights.is_file():
        info["weights_sha256"] = sha256_of_file(weights)
    if config.model_type == "docmt":
        info |= {"system": config.system, "sequence_format": config.sequence_format}
    else:
        info |= {"system": config.model_type}
    return {**info, "alignment": window_alignment(config, arguments.alignment)}


def score_lines(path: str, items: Sequence[ContrastiveItem], scores: Sequence[Sequence[float]]) -> list[str]:
    """A line of JSON for each item; a candidate that is impossible has the score `null`."""
    suite = portable_path(path)
    return [
        json.dumps(
            {
                "suite": suite,
                "id": item.id,
                "correct": item.correct,
                "scores": [None if math.isinf(value) else value for value in values],
            },
            ensure_ascii=False,
        )
        + "\n"
        for item, values in zip(items, scores, strict=True)
    ]


def main(argv: list[str] | None = None) -> None:
    """Run the command, see the module's docstring."""
    words = sys.argv[1:] if argv is None else argv
    parser = make_parser(ContrastiveArguments, __doc__)
    try:
        (arguments,) = parser.parse_args_into_dataclasses(words)
        result = contrastive(arguments, words)
    # a wrong argument or file is answered with what to do, not with a traceback
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"contrastive: {error}") from error
    print(contrastive_table(result))


if __name__ == "__main__":
    main()
