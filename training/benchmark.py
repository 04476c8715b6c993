"""
Measure speed and memory. The first argument says of what, the others are its options.

    python -m training.benchmark batches --model hub_cards/docmt-tiny-en-de --data test.jsonl  # decoding by batch size
    python -m training.benchmark attention  # interval attention by itself, against full attention and the gather
    python -m training.benchmark steps      # training steps of whole models, against MarianMTModel
    python -m training.benchmark decoding   # documents through `generate()`, against MarianMTModel and CTranslate2
    python -m training.benchmark precision --model MODEL --data test.jsonl  # bfloat16 and int8: quality, size, speed

Each prints a table and writes JSON with `--output`, most a picture with `--plot`. `... steps --help` has the options.
"""

import sys
from collections.abc import Sequence
from typing import Any

from . import benchmark_attention, benchmark_batches, benchmark_decoding, benchmark_precision, benchmark_steps
from .command_line import check_first_argument
from .measure import Benchmark


BENCHMARKS: dict[str, Benchmark] = {
    "batches": benchmark_batches.BENCHMARK,
    "attention": benchmark_attention.BENCHMARK,
    "steps": benchmark_steps.BENCHMARK,
    "decoding": benchmark_decoding.BENCHMARK,
    "precision": benchmark_precision.BENCHMARK,
}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark that the first argument names."""
    argv = sys.argv[1:] if argv is None else list(argv)
    check_first_argument(argv, BENCHMARKS, __doc__)
    return BENCHMARKS[argv[0]].main(argv[1:], recipe=argv)


if __name__ == "__main__":
    main()
