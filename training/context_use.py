r"""
Does a model use its context? The log-probability of reference translations with the right context, another and none.

    python -m training.context_use --model hub_cards/docmt-tiny-en-de --data test.en-de.wesnoth.jsonl.gz \
        --output context.json

Each sentence of a test set that has context is scored three times, teacher-forced: with the sentences before it; with
as many pairs of source and reference sentences drawn from other documents; and by itself, as at the beginning of a
document. Right less none, in nats a target token, is the CXMI of Fernandes et al. (2021), "Measuring and Increasing
Context Usage in Context-Aware Machine Translation", of one model that goes without its context; right less shuffled
tells what context says from its being there. Above 0, context helps. Intervals are from a bootstrap over documents.

Context is that of `training.contrastive`: in the format of the model, on the target side the reference's, as many
sentences as the system has for itself, 4 where it takes any number. The tokens of the current sentence count, and what
closes it. Systems without context get exactly 0.

Input: a model folder and document records. Output: a table, and with `--output` a JSON file.
"""

import itertools
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from transformers.utils import logging

from modeling_docmt.configuration_docmt import ALIGNMENTS

from .bootstrap import CONFIDENCE, RESAMPLES, SEED, draw_documents
from .command_line import make_parser
from .context_use_items import CONTEXTS, check_documents, context_items, context_sizes, text_pairs
from .contrastive import System, open_system, system_format
from .contrastive_scorer import ScorerSettings, score_items
from .contrastive_sequences import ContextSizes, SystemFormat, build_sequences
from .documents import Record, read_documents
from .measure import format_table
from .results import expand_path, portable_path, run_info, sha256_of_file, write_json_atomic


logger = logging.get_logger(__name__)

# raised whenever the same model may get another number
DEFINITION = 1
MEASURE_OPTIONS = ("context_sentences", "batch_tokens", "resamples", "seed")
NO_CONTEXT = "the system sees no context: it was scored once, and the differences are 0 by definition"


@dataclass
class ContextUseArguments:
    """Options of `context_use`."""

    model: str = field(metadata={"help": "Model folder."})
    data: list[str] = field(metadata={"help": "Test sets: JSON Lines of documents with `src` and `tgt`."})
    context_sentences: int | None = field(
        default=None, metadata={"help": "Sentences of context, on both sides; by default the system's own number."}
    )
    alignment: str | None = field(
        default=None,
        metadata={
            "help": "Alignment of windows in cross-attention; by default that of decoding.",
            "choices": list(ALIGNMENTS),
        },
    )
    separator: str | None = field(
        default=None,
        metadata={"help": "For models of another kind: text, or a special token, between sentences of context."},
    )
    max_documents: int | None = field(default=None, metadata={"help": "The first documents of each test set only."})
    batch_tokens: int = field(default=2048, metadata={"help": "Tokens of a batch, both sides and padding included."})
    num_processes: int = field(default=1, metadata={"help": "Processes that score, each with the model; for CPUs."})
    threads: int | None = field(default=None, metadata={"help": "Threads of each process on the CPU."})
    device: str | None = field(default=None, metadata={"help": "cpu, cuda, …; by default a GPU where there is one."})
    dtype: str = field(default="float32", metadata={"help": "Type of the weights."})
    resamples: int = field(default=RESAMPLES, metadata={"help": "Draws of the bootstrap; 0 leaves it out."})
    seed: int = field(default=SEED, metadata={"help": "Seed of the shuffled context and of the bootstrap."})
    output: str | None = field(default=None, metadata={"help": "JSON file of the results."})

    def __post_init__(self) -> None:
        self.data = [expand_path(path) for path in self.data]
        least = {"context_sentences": 1, "max_documents": 1, "batch_tokens": 1, "num_processes": 1, "threads": 1}
        for name, lowest in (least | {"resamples": 0}).items():
            if getattr(self, name) is not None and getattr(self, name) < lowest:
                raise ValueError(f"`--{name}` must be {lowest} or more, got {getattr(self, name)}.")


def context_use(
    records: Sequence[Record],
    system: System,
    *,
    context_sentences: int | None = None,
    batch_tokens: int = 2048,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    name: str = "test set",
) -> dict[str, Any]:
    """
    Measure what the right context is worth to a model.

    Args:
        records (`Sequence[dict]`): Documents with `src` and `tgt`.
        system (`System`): The model, as `training.contrastive.open_system` opens it.
        context_sentences (`int`, *optional*): In place of the system's own number.
        batch_tokens (`int`, *optional*, defaults to 2048): Tokens of a batch; they change no number.
        resamples, seed (`int`, *optional*, default to 1000 and 12345): Of the bootstrap; the seed of shuffling, too.
        name (`str`, *optional*): What errors and progress bars say.

    Returns:
        `dict`: JSON-able. `context` sizes; what was counted, and what was not; `log_probability` of the current
        sentences by context, `right_less_none` (CXMI) and `right_less_shuffled` with their 95 % intervals, in nats a
        target token; `signature`; a `note` where the system sees no context.

    Raises:
        `ValueError`: for fewer than 2 documents with text, or where no sentence has context.
    """
    documents = text_pairs(records)
    check_documents(documents, name)
    sizes = context_sizes(system.form, documents, context_sentences)
    start = time.perf_counter()
    items = context_items(documents, max(sizes.source, sizes.target), seed)
    # without context, all three are the last
    scored = CONTEXTS if sizes != ContextSizes(0, 0) else CONTEXTS[-1:]
    columns, over_limit = {}, 0
    for context in scored:
        sequences = build_sequences(items[context], system.form, system.cache, sizes, "current")
        found = score_items(sequences, system.score, max_tokens=batch_tokens, name=f"{name}, context: {context}")
        columns[context] = [scores[0] for scores in found]
        over_limit = max(over_limit, sum(map(system.form.is_over_limit, sequences)))
    tokens = [len(sequence.scored[0]) for sequence in sequences]
    table = np.array([*(columns.get(context, columns["none"]) for context in CONTEXTS), tokens])  # (4, sentences)
    owners = np.repeat(np.arange(len(documents)), [max(len(document) - 1, 0) for document in documents])
    sums = np.stack([np.bincount(owners, row, minlength=len(documents)) for row in table], axis=1)  # (documents, 4)
    if over_limit:
        logger.warning(
            f"{name}: {over_limit} of {len(tokens)} sentences with their context are longer than sequences of "
            "training (`max_part_tokens`, `max_part_sentences`); they were scored as they are."
        )
    return {
        "context": asdict(sizes),
        "documents": len(documents),
        "sentences": len(tokens),
        "sentences_without_context": sum(map(bool, documents)),
        "sentences_without_text": sum(len(record["src"]) for record in records) - sum(map(len, documents)),
        "sentences_over_part_limit": over_limit,
        "target_tokens": int(sums[:, 3].sum()),
        **differences(sums, resamples, seed),
        "signature": _signature(system, sizes, resamples, seed),
        **({} if len(scored) > 1 else {"note": NO_CONTEXT}),
        "seconds": round(time.perf_counter() - start, 2),
    }


def differences(sums: np.ndarray, resamples: int = RESAMPLES, seed: int = SEED) -> dict[str, Any]:
    """
    Compare the contexts.

    Args:
        sums (`np.ndarray` of shape `(D, 4)`): Of each document the log-probability with each of `CONTEXTS`, and the
            target tokens.
        resamples, seed (`int`, *optional*): Of the bootstrap over documents; 0 draws leave the intervals `None`.

    Returns:
        `dict`: `log_probability`, `right_less_none` and `right_less_shuffled`, see `context_use`. Draws of documents
        in which no sentence has context are left out, and counted in `undefined_draws` if there are any.
    """
    drawn = sums.sum(axis=0, keepdims=True)  # the first row is that of the whole test set
    if resamples:
        drawn = np.concatenate((drawn, draw_documents(len(sums), resamples, seed) @ sums))
    counted = drawn[drawn[:, 3] > 0]
    means = counted[:, :3] / counted[:, 3:]
    result: dict[str, Any] = {
        "log_probability": {context: round(float(means[0, place]), 6) for place, context in enumerate(CONTEXTS)}
    }
    for place, context in ((2, "none"), (1, "shuffled")):
        values, interval = means[:, 0] - means[:, place], None
        if resamples:
            tail = 50 * (1 - CONFIDENCE)
            interval = [round(float(bound), 6) for bound in np.percentile(values[1:], [tail, 100 - tail])]
        result[f"right_less_{context}"] = {"score": round(float(values[0]), 6), "interval": interval}
        if len(counted) < len(drawn):
            result[f"right_less_{context}"]["undefined_draws"] = len(drawn) - len(counted)
    return result


def _signature(system: System, sizes: ContextSizes, resamples: int, seed: int) -> str:
    form = system.form
    sequence_format = form.config.sequence_format if isinstance(form, SystemFormat) else "plain"
    alignment = f"alignment:{system.alignment}|" if system.alignment else ""
    return (
        f"context-use|format:{sequence_format}|source:{sizes.source}|target:{sizes.target}-reference|{alignment}"
        f"shuffled:pairs-of-other-documents|unit:nats-per-target-token|bootstrap:documents-{resamples}|seed:{seed}|"
        f"version:{DEFINITION}"
    )


def context_use_table(entries: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Lay out results by name of the test set for reading, a row each; `*` marks an interval clear of 0."""
    rows = []
    for name, entry in entries:
        context = f"{entry['context']['source']} + {entry['context']['target']}"
        row = {"name": name, "context": context, "sentences": entry["sentences"]}
        row |= {context: f"{value:.4f}" for context, value in entry["log_probability"].items()}
        row |= {key: shown_difference(entry[key]) for key in ("right_less_none", "right_less_shuffled")}
        rows.append(row)
    heading = {"name": "context use (nats a token)", "context": "context", "sentences": "sentences"}
    heading |= {context: f"log p, {context}" for context in CONTEXTS}
    return format_table(rows, heading | {"right_less_none": "less none", "right_less_shuffled": "less shuffled"})


def shown_difference(found: dict[str, Any]) -> str:
    """A difference with its interval, and `*` where that is clear of 0."""
    if found["interval"] is None:
        return f"{found['score']:+.4f}"
    low, high = found["interval"]
    return f"{found['score']:+.4f} [{low:+.4f}, {high:+.4f}]" + (" *" if low > 0 or high < 0 else "")


def run(arguments: ContextUseArguments, command: Sequence[str] | None = None) -> dict[str, Any]:
    """
    Measure the use of context on test sets, and write what was asked for.

    Args:
        arguments (`ContextUseArguments`): What to do.
        command (`Sequence[str]`, *optional*): Arguments as typed, for the record; those of the process by default.

    Returns:
        `dict`: the content of the result file.
    """
    # what can be wrong is found before the model is loaded
    form, _ = system_format(arguments.model, arguments.separator)
    test_sets = {}
    for path in arguments.data:
        test_sets[path] = list(itertools.islice(read_documents(path), arguments.max_documents))
        documents = text_pairs(test_sets[path])
        check_documents(documents, path)
        context_sizes(form, documents, arguments.context_sentences)
    settings = ScorerSettings(
        **{name: getattr(arguments, name) for name in ("model", "alignment", "device", "dtype", "threads")}
    )
    entries = []
    with open_system(settings, separator=arguments.separator, num_processes=arguments.num_processes) as system:
        for path, records in test_sets.items():
            found = context_use(
                records,
                system,
                name=os.path.basename(path),
                **{option: getattr(arguments, option) for option in MEASURE_OPTIONS},
            )
            entries.append({"data": portable_path(path), "sha256": sha256_of_file(path), "context_use": found})
    result = {
        "kind": "context-use",
        "model": portable_path(arguments.model),
        **{name: getattr(arguments, name) for name in ("dtype", "batch_tokens", "num_processes", "max_documents")},
        "test_sets": entries,
        "run": run_info(command),
    }
    if arguments.output is not None:
        write_json_atomic(arguments.output, result)
    return result


def main(argv: list[str] | None = None) -> None:
    """Run the command, see the module's docstring."""
    words = sys.argv[1:] if argv is None else argv
    parser = make_parser(ContextUseArguments, __doc__)
    try:
        (arguments,) = parser.parse_args_into_dataclasses(words)
        result = run(arguments, words)
    # a wrong argument or file is answered with what to do, not with a traceback
    except (ValueError, OSError) as error:
        raise SystemExit(f"context_use: {error}") from error
    entries = result["test_sets"]
    print(context_use_table([(os.path.basename(entry["data"]), entry["context_use"]) for entry in entries]))


if __name__ == "__main__":
    main()
