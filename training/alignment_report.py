"""
How well an alignment of window attention follows the sentences: drift and hit rate on parallel documents.

    python -m training.alignment_report --model outputs/window-attn --data dev.en-de.wesnoth.jsonl.gz

For each query of the target, the aligned source position b is compared with that of `sent-align`, which starts every
sentence right: mean and 95th percentile of the difference in tokens, and the hit rate, the share of queries whose
window reaches the source sentence that they translate (Herold and Ney 2023, section 3.3; the measures are ours).
Documents are cut as in training, at `--part_tokens` target tokens. Also says how far the model sees at all.

Input: the checkpoint folder of a model with windows, and document records. Output: a table, and JSON.
"""

import itertools
import os
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from modeling_docmt import DocMTConfig, DocMTTokenizer
from modeling_docmt.alignment_docmt import SourceSentences, TargetPlaces, align
from modeling_docmt.configuration_docmt import ALIGNMENTS
from modeling_docmt.documents_docmt import encode_sentences

from .command_line import make_parser, run_command
from .data import build_sequences
from .documents import read_documents
from .results import expand_path, portable_path, run_info, sha256_of_file, write_json_atomic


@dataclass
class ReportArguments:
    """Options of `alignment_report`."""

    model: str = field(metadata={"help": "Checkpoint folder of a model with windows."})
    data: list[str] = field(metadata={"help": "JSONL files of document records."})
    part_tokens: int | None = field(default=None, metadata={"help": "Target tokens of a part; None for no limit."})
    max_documents: int | None = field(default=None, metadata={"help": "The first documents of each file only."})
    output: str | None = field(default=None, metadata={"help": "JSON file."})


def receptive_field(config: DocMTConfig) -> dict[str, int]:
    """
    Tokens that an output depends on, where all attention is within windows of w.

    Returns:
        `dict`: `headline`, `2 w L_e + w L_d` as Herold and Ney (2023) count; `encoder`, tokens on each side of a
        source token; `decoder`, target tokens before a query; `source`, tokens on each side of the aligned positions
        of those target tokens.
    """
    window, encoder, decoder = config.window, config.encoder_layers, config.decoder_layers
    return {
        "headline": 2 * window * encoder + window * decoder,
        "encoder": window * encoder,
        "decoder": window * decoder,
        "source": window + window * encoder,
    }


def drift(sequences: list[tuple[list[int], list[int]]], alignment: str, config: DocMTConfig) -> dict[str, float]:
    """Drift and hit rate of an alignment over training sequences of source ids and labels."""
    differences, hits = [], []
    for source_ids, labels in sequences:
        source = SourceSentences.from_ids(torch.tensor([source_ids]), np.array([len(source_ids)]), config)
        separators = np.isin(labels[:-1], config.separator_ids())
        sentences = np.concatenate(([0], np.cumsum(separators)))
        positions = np.arange(len(labels))
        starts = np.maximum.accumulate(np.where(np.concatenate(([True], separators)), positions, 0))
        target = TargetPlaces(
            documents=np.zeros_like(positions),
            positions=positions,
            sentences=sentences,
            places=positions - starts,
            lengths=np.full_like(positions, len(positions)),
            sentence_lengths=np.bincount(sentences)[sentences],
        )
        centers = align(alignment, source, target, config)
        differences.append(np.abs(centers - align("sent-align", source, target, config)))
        own = np.minimum(sentences, source.counts[0] - 1)
        first, last = source.starts[0, own], source.ends[0, own] - 1
        hits.append((centers + config.window >= first) & (centers - config.window <= last))
    all_differences, all_hits = np.concatenate(differences), np.concatenate(hits)
    return {
        "mean": float(all_differences.mean()),
        "percentile_95": float(np.percentile(all_differences, 95)),
        "hit_rate": float(all_hits.mean()),
    }


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Report, see the module's docstring."""
    argv = sys.argv[1:] if argv is None else argv
    parser = make_parser(ReportArguments, __doc__)
    (args,) = parser.parse_args_into_dataclasses(argv)
    tokenizer = DocMTTokenizer.from_pretrained(args.model)
    config = DocMTConfig.from_pretrained(args.model)
    config.window  # noqa: B018 - says what is missing
    config.max_part_tokens = args.part_tokens
    entries: list[dict[str, Any]] = []
    for path in map(expand_path, args.data):
        sequences = []
        for record in itertools.islice(read_documents([path]), args.max_documents):
            source, target = (
                encode_sentences(tokenizer, record[side], target=side == "tgt") for side in ("src", "tgt")
            )
            sequences += build_sequences(source, target, config)
        for alignment in ALIGNMENTS:
            entries.append(
                {
                    "data": portable_path(path),
                    "data_sha256": sha256_of_file(path),
                    "sequences": len(sequences),
                    "alignment": alignment,
                    **drift(sequences, alignment, config),
                }
            )
    results = {
        "kind": "alignment-report",
        "window_size": config.window_size,
        "train_ratio": config.train_ratio,
        "part_tokens": args.part_tokens,
        "receptive_field": receptive_field(config),
        "entries": entries,
        "run": run_info(argv),
    }
    print(f"receptive field: {results['receptive_field']}")
    print(f"{'data':36} {'alignment':12} {'mean drift':>10} {'95 %':>7} {'hit rate':>9}")
    for entry in entries:
        print(
            f"{os.path.basename(entry['data']):36} {entry['alignment']:12} {entry['mean']:10.1f} "
            f"{entry['percentile_95']:7.1f} {100 * entry['hit_rate']:8.1f}%"
        )
    if args.output:
        write_json_atomic(args.output, results)
    return results


if __name__ == "__main__":
    run_command(main)
