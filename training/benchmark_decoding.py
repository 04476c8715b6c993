"""
Measure the decoding of documents through `generate()`: speed against others, time of a step, and memory.

    python -m training.benchmark decoding --output decoding.json --plot decoding.png

Random weights, greedy search, and as many target tokens as source tokens, which is forced. Parts:

- `documents`: window attention, sentence by sentence, against `MarianMTModel` of the same shape, which translates each
  document as one sequence, and against further systems; and a larger batch against CTranslate2 in float32
  (`pip install ctranslate2`; with its weights being those of the Marian model).
- `steps`: processor time of one step at a target position near the start and far behind, in two documents that are
  decoded in turns, step by step; and the keys that the cache holds there.
- `memory`: peak memory of a short and of a long document in one part, resident bytes of a fresh process each.
"""

import contextlib
import importlib.metadata
import multiprocessing
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import nn
from transformers import MarianMTModel

from modeling_docmt import DocMTForConditionalGeneration
from modeling_docmt.search_docmt import DocumentSearch

from .benchmark_models import ModelArguments, as_row, docmt_config, docmt_model, marian_model, random_sentences
from .measure import (
    MIB,
    Benchmark,
    Panel,
    TensorMemory,
    Timing,
    clock_of,
    format_table,
    interleave,
    process_bytes,
)


WINDOWS, MARIAN, CTRANSLATE2 = "window-attn", "MarianMTModel", "CTranslate2 float32"
PARTS = ("documents", "steps", "memory")
# steps between two sums of allocator events
CUT = 200


@dataclass(kw_only=True)
class DecodingArguments(ModelArguments):
    """Options of `benchmark decoding`."""

    rounds: int = field(default=3, metadata={"help": "Rounds of `documents`; the best one counts."})
    parts: list[str] = field(default_factory=lambda: list(PARTS), metadata={"help": "Parts to measure, see above."})
    documents: int = field(default=4, metadata={"help": "Documents against Marian."})
    tokens: int = field(default=1000, metadata={"help": "Tokens of each of these documents."})
    systems: list[str] = field(
        default_factory=lambda: ["concat-document"], metadata={"help": "Further systems on these documents."}
    )
    large_documents: int = field(default=16, metadata={"help": "Documents against CTranslate2; 0: not measured."})
    large_rounds: int = field(default=1, metadata={"help": "Rounds of these."})
    positions: list[int] = field(
        default_factory=lambda: [25, 10000], metadata={"help": "Target positions of `steps`."}
    )
    step_batches: list[int] = field(default_factory=lambda: [1, 16], metadata={"help": "Documents in a step."})
    steps: int = field(default=100, metadata={"help": "Steps that are timed from each position on."})
    memory_tokens: list[int] = field(
        default_factory=lambda: [2000, 20000], metadata={"help": "Lengths of the documents of `memory`."}
    )
    memory_layers: int = field(default=2, metadata={"help": "Layers on each side in `memory`, which takes long."})
    count_tensors: bool = field(default=True, metadata={"help": "Count tensors in `memory`, too."})


def measure_decoding(args: DecodingArguments) -> dict[str, Any]:
    """One dictionary a part, and the ratios that goals are set for."""
    unknown = sorted(set(args.parts) - set(PARTS))
    if unknown:
        raise ValueError(f"`parts` must be of {', '.join(PARTS)}, got {', '.join(unknown)}.")
    results: dict[str, Any] = {**args.shape(), "goals": {}}
    if "documents" in args.parts:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            results["ctranslate2_version"] = importlib.metadata.version("ctranslate2")
        results["documents"] = _documents(args, results["goals"])
    if "steps" in args.parts:
        results["steps"] = _steps(args, results["goals"])
    if "memory" in args.parts:
        results["memory"] = _memory(args, results["goals"])
    return results


def _forced(args: ModelArguments) -> dict[str, Any]:
    words = args.sentence_tokens - 1
    lengths = {"min_sentence_tokens": words, "max_sentence_tokens": words}
    return {"num_beams": 1, "do_sample": False, **lengths}


# part: documents


def _documents(args: DecodingArguments, goals: dict[str, float]) -> list[dict[str, Any]]:
    if args.tokens % args.sentence_tokens:
        raise ValueError(f"`tokens` must be whole sentences of {args.sentence_tokens} tokens, got {args.tokens}.")
    ours, marian = docmt_model(WINDOWS, args), marian_model(args, args.tokens)
    runs: dict[str, Callable[[], Any]] = {
        WINDOWS: _docmt_run(ours, args.documents, "sequential", args),
        MARIAN: _marian_run(marian, args.documents, args),
    }
    for system in args.systems:
        # the systems with windows decode sentence by sentence, the others in one go, each as is its default
        model = docmt_model(system, args)
        runs[system] = _docmt_run(model, args.documents, model.config.default_decoding, args)
    entries = _measure_documents(runs, args.documents, args.rounds, args)
    goals[f"{args.documents} documents: times faster than {MARIAN}"] = _times_faster(entries, MARIAN)
    if args.large_documents:
        with _ctranslate2_run(marian, args.large_documents, args) as run:
            runs = {WINDOWS: _docmt_run(ours, args.large_documents, "sequential", args), CTRANSLATE2: run}
            large = _measure_documents(runs, args.large_documents, args.large_rounds, args)
        goals[f"{args.large_documents} documents: times faster than {CTRANSLATE2}"] = _times_faster(large, CTRANSLATE2)
        entries += large
    return entries


def _measure_documents(
    runs: dict[str, Callable[[], Any]], documents: int, rounds: int, args: DecodingArguments
) -> list[dict[str, Any]]:
    timings = interleave(runs, rounds, label=f"{documents} documents")
    tokens = documents * args.tokens
    return [
        {
            "documents": documents,
            "tokens": tokens,
            "model": name,
            "seconds": round(timing.best, 2),
            "median_seconds": round(timing.median, 2),
            "tokens_per_second": round(tokens / timing.best, 1),
            "times_slower": round(timing.best / timings[WINDOWS].best, 2),
            "median_times_slower": round(timing.median / timings[WINDOWS].median, 2),
        }
        for name, timing in timings.items()
    ]


def _times_faster(entries: list[dict[str, Any]], model: str) -> float:
    return next(entry["times_slower"] for entry in entries if entry["model"] == model)


def _docmt_run(
    model: DocMTForConditionalGeneration, documents: int, decoding: str, args: DecodingArguments
) -> Callable[[], None]:
    rows = [as_row(random_sentences(args.tokens, model.config, args, seed), model.config) for seed in range(documents)]
    ids = torch.tensor(rows)

    def run() -> None:
        output = model.generate(ids, attention_mask=torch.ones_like(ids), decoding=decoding, **_forced(args))
        _check_length(output.shape[1] - 1, args.tokens)

    return run


def _marian_rows(documents: int, args: DecodingArguments) -> list[list[int]]:
    """The same words without separators, and the token that ends sequences of Marian."""
    config = docmt_config(WINDOWS, args)
    rows = [as_row(random_sentences(args.tokens, config, args, seed), config) for seed in range(documents)]
    return [[*row[:-1], 0] for row in rows]


def _marian_run(model: MarianMTModel, documents: int, args: DecodingArguments) -> Callable[[], None]:
    ids = torch.tensor(_marian_rows(documents, args))
    lengths = {"min_new_tokens": args.tokens, "max_new_tokens": args.tokens}

    def run() -> None:
        mask = torch.ones_like(ids)
        output = model.generate(ids, attention_mask=mask, num_beams=1, do_sample=False, **lengths)
        _check_length(output.shape[1] - 1, args.tokens)

    return run


@contextlib.contextmanager
def _ctranslate2_run(model: MarianMTModel, documents: int, args: DecodingArguments) -> Iterator[Callable[[], None]]:
    """The same model in CTranslate2."""
    try:
        import ctranslate2
        from ctranslate2.converters.transformers import MarianMTLoader
    except ImportError as error:
        raise ImportError(
            "The comparison with CTranslate2 needs it: pip install ctranslate2, or leave it out with "
            "--large_documents 0."
        ) from error
    names = [f"w{index}" for index in range(args.vocabulary)]
    names[0], names[-1] = "</s>", "<pad>"
    # all that the converter reads of a tokenizer
    tokenizer = SimpleNamespace(
        eos_token=names[0], unk_token=names[1], get_vocab=lambda: {name: index for index, name in enumerate(names)}
    )
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        spec = MarianMTLoader()(model, tokenizer)
        spec.validate()
        spec.optimize(quantization="float32")
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder, device="cpu", compute_type="float32", inter_threads=1, intra_threads=args.threads
        )
        rows = [[names[token] for token in row] for row in _marian_rows(documents, args)]
        lengths = {"min_decoding_length": args.tokens, "max_decoding_length": args.tokens, "max_input_length": 0}

        def run() -> None:
            for result in translator.translate_batch(rows, beam_size=1, max_batch_size=documents, **lengths):
                _check_length(len(result.hypotheses[0]), args.tokens)

        yield run


def _check_length(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"The comparison is void: {found} tokens were generated, not {wanted}.")


# part: steps


class _Enough(Exception):
    """Leaves `generate()` when all steps are timed."""


class _Turns:
    """Threads that go on one at a time: each from one call of `pass_on` to its next."""

    def __init__(self, count: int):
        self.order = list(range(count))
        self.may_go = [threading.Semaphore(int(member == 0)) for member in range(count)]

    def begin(self, member: int) -> None:
        self.may_go[member].acquire()

    def pass_on(self, member: int) -> None:
        following = self.order[(self.order.index(member) + 1) % len(self.order)]
        self.may_go[following].release()
        self.may_go[member].acquire()

    def leave(self, member: int) -> None:
        place = self.order.index(member)
        self.order.remove(member)
        if self.order:
            self.may_go[self.order[place % len(self.order)]].release()


@dataclass
class _Watched:
    """A document whose steps are timed, and what was seen: processor seconds, and the most keys of a sequence."""

    position: int
    seconds: list[float] = field(default_factory=list)
    with_rest: list[float] = field(default_factory=list)  # what is done between steps included
    keys: dict[str, int] = field(default_factory=dict)


def _steps(args: DecodingArguments, goals: dict[str, float]) -> list[dict[str, Any]]:
    model = docmt_model(WINDOWS, args)
    entries: list[dict[str, Any]] = []
    for batch in args.step_batches:
        watched = _watch_steps(model, batch, args)
        matmuls = interleave({"step": partial(_matrix_products, model, batch)}, 20, label="matrix products")["step"]
        first = Timing(tuple(watched[0].seconds))
        for found in watched:
            timing = Timing(tuple(found.seconds))
            entries.append(
                {
                    "documents": batch,
                    "position": found.position,
                    "milliseconds": round(timing.best * 1e3, 2),
                    "median_milliseconds": round(timing.median * 1e3, 2),
                    "mean_milliseconds_with_rest": round(statistics.mean(found.with_rest) * 1e3, 2),
                    "times_first": round(timing.best / first.best, 3),
                    "median_times_first": round(timing.median / first.median, 3),
                    "times_matrix_products": round(timing.median / matmuls.median, 2),
                    "keys": found.keys,
                }
            )
        last = entries[-1]
        name = f"step at {last['position']} over {args.positions[0]}, batch {batch}"
        goals[name] = last["median_times_first"]
        goals[f"step over its matrix products, batch {batch}"] = last["times_matrix_products"]
    return entries


def _watch_steps(model: DocMTForConditionalGeneration, batch: int, args: DecodingArguments) -> list[_Watched]:
    """Decode documents from each of the positions on, behind a given prefix, in turns."""
    size, config = args.sentence_tokens, model.config
    length = (max(args.positions) // size + args.steps // size + 2) * size
    sources = [random_sentences(length, config, args, seed) for seed in range(batch)]
    targets = [random_sentences(length, config, args, batch + seed) for seed in range(batch)]
    ids = torch.tensor([as_row(sentences, config) for sentences in sources])
    watched = [_Watched(position) for position in args.positions]
    turns, mine, failures, clock = _Turns(len(watched)), threading.local(), [], clock_of()
    step = DocumentSearch.step

    def timed_step(search: DocumentSearch) -> list[int]:
        me = watched[mine.member]
        if me.seconds:
            me.with_rest.append(clock() - mine.start)
        if len(me.seconds) == args.steps:
            raise _Enough
        turns.pass_on(mine.member)
        mine.start = start = clock()
        over = step(search)
        me.seconds.append(clock() - start)
        me.keys = {name: max(count, me.keys.get(name, 0)) for name, count in _keys_held(search).items()}
        return over

    def decode(member: int) -> None:
        mine.member = member
        turns.begin(member)
        prefix = [sentences[: watched[member].position // size] for sentences in targets]
        try:
            model.generate(
                ids, attention_mask=torch.ones_like(ids), decoding="sequential", target_prefix=prefix, **_forced(args)
            )
        except _Enough:
            pass
        except BaseException as error:
            failures.append(error)
        finally:
            turns.leave(member)

    with mock.patch.object(DocumentSearch, "step", timed_step):
        threads = [threading.Thread(target=decode, args=(member,)) for member in range(len(watched))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return watched


def _keys_held(search: DocumentSearch) -> dict[str, int]:
    """Columns of keys that a step reads; of the current stretch, those that are allocated."""
    cache = search.cache
    return {"source": cache.source.width, "committed": cache.committed.width, "current": cache.current.shape[-2]}


@torch.no_grad()
def _matrix_products(model: DocMTForConditionalGeneration, rows: int) -> None:
    """The linear layers of a step, and nothing else."""
    layers: list[nn.Linear] = [model.lm_head]
    for name, module in model.get_decoder().named_modules():
        if isinstance(module, nn.Linear) and not name.endswith(("encoder_attn.k_proj", "encoder_attn.v_proj")):
            layers.append(module)
    for layer in layers:
        layer(torch.ones(rows, layer.in_features))


# part: memory


def _memory(args: DecodingArguments, goals: dict[str, float]) -> list[dict[str, Any]]:
    entries = []
    for tokens in args.memory_tokens:
        entry: dict[str, Any] = {"tokens": tokens, "layers": args.memory_layers, "alignment": "sent-align"}
        # a fresh process has no memory of its own but that of this document
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            entry |= pool.apply(_process_memory, (args, tokens))
        if args.count_tensors:
            entry |= _tensor_memory(args, tokens)
        entries.append(entry)
    for cell, name in (("process_mib", "process"), ("tensor_mib", "tensors")):
        if entries[0].get(cell):
            ratio = entries[-1][cell] / entries[0][cell]
            goals[f"peak memory at {args.memory_tokens[-1]} over {args.memory_tokens[0]}, {name}"] = round(ratio, 3)
    return entries


def _process_memory(args: DecodingArguments, tokens: int) -> dict[str, float]:
    """Resident MiB of the process at its peak, and the same beyond what it had before the document."""
    torch.set_num_threads(args.threads)
    decode = _decoder_of_one(args)
    decode(2 * args.sentence_tokens)  # what is made once is made
    before = process_bytes("VmRSS")
    decode(tokens)
    peak = process_bytes("VmHWM")
    if peak is None or before is None:
        return {}
    return {"process_mib": round(peak / MIB, 1), "process_growth_mib": round((peak - before) / MIB, 1)}


def _tensor_memory(args: DecodingArguments, tokens: int) -> dict[str, float]:
    """MiB of tensors at their peak, beyond those of the model."""
    decode = _decoder_of_one(args)
    memory, step, count = TensorMemory(), DocumentSearch.step, 0

    def counted_step(search: DocumentSearch) -> list[int]:
        nonlocal count
        count += 1
        if count % CUT == 0:
            memory.cut()
        return step(search)

    with mock.patch.object(DocumentSearch, "step", counted_step):
        memory.start()
        decode(tokens)
        return {"tensor_mib": round(memory.stop() / MIB, 2)}


def _decoder_of_one(args: DecodingArguments) -> Callable[[int], None]:
    """A function that decodes one document of so many tokens, in one part."""
    layers = {"encoder_layers": args.memory_layers, "decoder_layers": args.memory_layers}
    model = docmt_model(WINDOWS, args, **layers)

    def decode(tokens: int) -> None:
        ids = torch.tensor([as_row(random_sentences(tokens, model.config, args), model.config)])
        output = model.generate(
            ids, attention_mask=torch.ones_like(ids), decoding="sequential", alignment="sent-align", **_forced(args)
        )
        _check_length(output.shape[1] - 1, tokens)

    return decode


# results


def _table(results: dict[str, Any]) -> str:
    headings = {
        "documents": {
            "documents": "documents",
            "model": "model",
            "seconds": "seconds",
            "median_seconds": "median",
            "tokens_per_second": "tokens/s",
            "times_slower": "slower",
        },
        "steps": {
            "documents": "documents",
            "position": "position",
            "milliseconds": "ms",
            "median_milliseconds": "median",
            "mean_milliseconds_with_rest": "mean with rest",
            "median_times_first": "over first",
            "times_matrix_products": "over products",
        },
        "memory": {
            "tokens": "tokens",
            "process_mib": "process MiB",
            "process_growth_mib": "growth MiB",
            "tensor_mib": "tensors MiB",
        },
    }
    tables = [format_table(results[part], columns) for part, columns in headings.items() if part in results]
    goals = [{"what": name, "ratio": value} for name, value in results["goals"].items()]
    return "\n\n".join([*tables, format_table(goals, {"what": "what", "ratio": "ratio"})])


def _panels(results: dict[str, Any]) -> list[Panel]:
    panels: list[Panel] = []
    if "documents" in results:
        entries = results["documents"]
        names = list(dict.fromkeys(entry["model"] for entry in entries))
        panels.append(Panel("Documents", "documents", "target tokens per second", _lines(entries, names, "documents")))
    if "steps" in results:
        batches = list(dict.fromkeys(entry["documents"] for entry in results["steps"]))
        by_batch = {}
        for batch in batches:
            rows = [entry for entry in results["steps"] if entry["documents"] == batch]
            by_batch[f"batch {batch}"] = ([e["position"] for e in rows], [e["median_milliseconds"] for e in rows])
        panels.append(Panel("Step of window attention", "target position", "milliseconds", by_batch))
    if "memory" in results:
        rows = results["memory"]
        cells = [name for name in ("process_growth_mib", "tensor_mib") if rows[0].get(name) is not None]
        lines = {name: ([row["tokens"] for row in rows], [row[name] for row in rows]) for name in cells}
        panels.append(Panel("Peak memory beyond the model", "tokens of the document", "MiB", lines))
    return panels


def _lines(entries: list[dict[str, Any]], names: list[str], x: str) -> dict[str, Any]:
    of = {name: [entry for entry in entries if entry["model"] == name] for name in names}
    return {name: ([e[x] for e in rows], [e["tokens_per_second"] for e in rows]) for name, rows in of.items()}


BENCHMARK = Benchmark("document-decoding-benchmark", DecodingArguments, __doc__, measure_decoding, _table, _panels)
main = BENCHMARK.main
