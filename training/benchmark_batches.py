"""
Measure decoding speed against the batch size, and whether the batch changes anything.

    python -m training.benchmark batches --model hub_cards/docmt-tiny-en-de --data test.jsonl --output benchmark.json

Input: a model and document records. Output: tokens per second for each decoding mode and batch size (documents in one
call of `generate()`, and sequences that are searched together), their ratios, and how many documents came out
differently, as a table and as JSON. The batch sizes take turns within each round.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer, encode_documents
from modeling_docmt.configuration_docmt import required_token

from .documents import read_documents
from .measure import Benchmark, MeasureArguments, format_table, interleave


@dataclass(kw_only=True)
class BatchesArguments(MeasureArguments):
    """Options of `benchmark batches`."""

    model: str = field(metadata={"help": "Checkpoint folder."})
    data: list[str] = field(metadata={"help": "JSONL files of document records."})
    documents: int = field(default=16, metadata={"help": "Documents to translate, the first of the data."})
    max_sentences: int = field(default=12, metadata={"help": "Sentences of a document that are used."})
    batch_sizes: list[int] = field(
        default_factory=lambda: [1, 3, 16],
        metadata={"help": "Documents in one call, and sequences that are searched together."},
    )
    decoding: list[str] = field(
        default_factory=lambda: ["sentence", "counted", "sequential"], metadata={"help": "Modes to measure."}
    )
    num_beams: int = field(default=4, metadata={"help": "Beams."})
    rounds: int = field(default=3, metadata={"help": "Rounds; the best one counts, the median is reported too."})


def translate_in_batches(
    model: DocMTForConditionalGeneration, documents: list[list[int]], batch_size: int, **options
) -> tuple[list[list[list[int]]], list[float]]:
    """Sentences of ids a document, and the sum of sentence scores a document, over calls of `batch_size`."""
    pad = required_token(model.config, "pad_token_id")
    sentences, scores = [], []
    for first in range(0, len(documents), batch_size):
        rows = documents[first : first + batch_size]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        output = model.generate(ids, attention_mask=mask, return_dict_in_generate=True, **options)
        sentences += output.sentences
        scores += [sum(document) for document in output.sentence_scores]
    return sentences, scores


def measure_batches(args: BatchesArguments) -> dict[str, Any]:
    """Load model and documents, and translate them in batches of every size."""
    if min(args.batch_sizes) < 1:
        raise ValueError(f"`batch_sizes` must be positive, got {args.batch_sizes}.")
    tokenizer = DocMTTokenizer.from_pretrained(args.model)
    model = DocMTForConditionalGeneration.from_pretrained(args.model).eval()
    sources = [
        r["src"][: args.max_sentences] for _, r in zip(range(args.documents), read_documents(args.data), strict=False)
    ]
    documents = encode_documents(tokenizer, sources)
    return {
        "system": model.config.system,
        "num_beams": args.num_beams,
        "documents": len(documents),
        "sentences": sum(map(len, sources)),
        "entries": [entry for mode in args.decoding for entry in _measure_mode(model, documents, mode, args)],
    }


def _measure_mode(
    model: DocMTForConditionalGeneration, documents: list[list[int]], decoding: str, args: BatchesArguments
) -> list[dict[str, Any]]:
    """One entry a batch size."""
    outputs: dict[int, Any] = {}

    def run(size: int) -> None:
        options = {"decoding": decoding, "num_beams": args.num_beams, "batch_rows": size * args.num_beams}
        outputs[size] = translate_in_batches(model, documents, size, **options)

    timings = interleave({str(size): partial(run, size) for size in args.batch_sizes}, args.rounds, label=decoding)
    smallest = args.batch_sizes[0]
    reference, reference_scores = outputs[smallest]
    entries = []
    for size in args.batch_sizes:
        sentences, scores = outputs[size]
        timing = timings[str(size)]
        tokens = sum(len(sentence) + 1 for document in sentences for sentence in document)
        different = [i for i, document in enumerate(sentences) if document != reference[i]]
        entries.append(
            {
                "decoding": decoding,
                "batch_size": size,
                "tokens": tokens,
                "tokens_per_second": round(tokens / timing.best, 1),
                "median_tokens_per_second": round(tokens / timing.median, 1),
                "speed_up": round(timings[str(smallest)].best / timing.best, 2),
                "documents_that_differ": len(different),
                "score_gaps_where_they_differ": [abs(scores[i] - reference_scores[i]) for i in different],
            }
        )
    return entries


def _table(results: dict[str, Any]) -> str:
    headings = {
        "decoding": "decoding",
        "batch_size": "documents a call",
        "tokens_per_second": "tokens/s",
        "speed_up": "speed-up",
        "documents_that_differ": "differ",
    }
    return format_table(results["entries"], headings)


BENCHMARK = Benchmark("decoding-benchmark", BatchesArguments, __doc__, measure_batches, _table)
main = BENCHMARK.main
