"""
Measure decoding speed against the batch size, and whether the batch changes anything.

    python -m training.benchmark --model hub_cards/docmt-tiny-en-de --data test.jsonl --output benchmark.json

Input: a model and document records. Output: tokens per second for each decoding mode and batch size (documents in one
call of `generate()`, and sequences that are searched together), their ratios, and how many documents came out
differently, as a table and as JSON. The batch sizes take turns within each round, so that a busy machine disturbs all
alike; the best round counts. Time is that of the processor with one thread, else that of the clock.
"""

import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm import tqdm
from transformers import HfArgumentParser

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer, encode_documents
from modeling_docmt.configuration_docmt import required_token

from .documents import read_documents
from .results import run_info, write_json_atomic


@dataclass
class BenchmarkArguments:
    """Options of `benchmark`."""

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
    threads: int = field(default=1, metadata={"help": "Threads of PyTorch; ratios are steadier on one."})
    output: str | None = field(default=None, metadata={"help": "JSON file."})


def translate_in_batches(
    model: DocMTForConditionalGeneration, documents: list[list[int]], batch_size: int, **options
) -> tuple[float, list[list[list[int]]], list[float]]:
    """Seconds, sentences of ids a document, and the sum of sentence scores a document, over calls of `batch_size`."""
    pad = required_token(model.config, "pad_token_id")
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    sentences, scores = [], []
    for first in range(0, len(documents), batch_size):
        rows = documents[first : first + batch_size]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        output = model.generate(ids, attention_mask=mask, return_dict_in_generate=True, **options)
        sentences += output.sentences
        scores += [sum(document) for document in output.sentence_scores]
    return clock() - start, sentences, scores


def measure(model: DocMTForConditionalGeneration, documents: list[list[int]], args: BenchmarkArguments) -> list[dict]:
    """One entry a decoding mode and batch size."""
    entries = []
    for decoding in args.decoding:
        seconds: dict[int, list[float]] = {size: [] for size in args.batch_sizes}
        outputs: dict[int, Any] = {}
        for _ in tqdm(range(args.rounds), desc=decoding, file=sys.stderr):
            for size in args.batch_sizes:
                options = {"decoding": decoding, "num_beams": args.num_beams, "batch_rows": size * args.num_beams}
                elapsed, sentences, scores = translate_in_batches(model, documents, size, **options)
                seconds[size].append(elapsed)
                outputs[size] = (sentences, scores)
        smallest = args.batch_sizes[0]
        reference, reference_scores = outputs[smallest]
        for size in args.batch_sizes:
            sentences, scores = outputs[size]
            tokens = sum(len(sentence) + 1 for document in sentences for sentence in document)
            different = [i for i, document in enumerate(sentences) if document != reference[i]]
            entries.append(
                {
                    "decoding": decoding,
                    "batch_size": size,
                    "tokens": tokens,
                    "tokens_per_second": round(tokens / min(seconds[size]), 1),
                    "median_tokens_per_second": round(tokens / statistics.median(seconds[size]), 1),
                    "speed_up": round(min(seconds[smallest]) / min(seconds[size]), 2),
                    "documents_that_differ": len(different),
                    "score_gaps_where_they_differ": [abs(scores[i] - reference_scores[i]) for i in different],
                }
            )
    return entries


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the benchmark, see the module's docstring."""
    argv = sys.argv[1:] if argv is None else argv
    parser = HfArgumentParser(BenchmarkArguments, allow_abbrev=False, description=__doc__)
    (args,) = parser.parse_args_into_dataclasses(argv)
    if min(args.batch_sizes) < 1 or args.rounds < 1:
        raise ValueError(f"`batch_sizes` and `rounds` must be positive, got {args.batch_sizes} and {args.rounds}.")
    torch.set_num_threads(args.threads)
    tokenizer = DocMTTokenizer.from_pretrained(args.model)
    model = DocMTForConditionalGeneration.from_pretrained(args.model).eval()
    sources = [
        r["src"][: args.max_sentences] for _, r in zip(range(args.documents), read_documents(args.data), strict=False)
    ]
    documents = encode_documents(tokenizer, sources)
    results = {
        "kind": "decoding-benchmark",
        "system": model.config.system,
        "num_beams": args.num_beams,
        "documents": len(documents),
        "sentences": sum(map(len, sources)),
        "rounds": args.rounds,
        "threads": args.threads,
        "entries": measure(model, documents, args),
        "run": run_info(argv),
    }
    print(f"{'decoding':12} {'documents a call':>16} {'tokens/s':>10} {'speed-up':>9} {'differ':>7}")
    for entry in results["entries"]:
        print(
            f"{entry['decoding']:12} {entry['batch_size']:16} {entry['tokens_per_second']:10.1f} "
            f"{entry['speed_up']:9.2f} {entry['documents_that_differ']:7}"
        )
    if args.output:
        write_json_atomic(args.output, results)
    return results


if __name__ == "__main__":
    main()
