"""
How much of its attention a model pays to the aligned source sentence, layer by layer.

    python -m training.attention_share --model outputs/window-attn --data test.en-de.wesnoth.jsonl.gz

For each query of the decoder, the weights of cross-attention on the source sentence that it translates are summed;
the share is their mean over heads, layers and queries, separators included, in percent (Herold and Ney 2023, table 1).
The model reads its own translation. Where that has another number of sentences than the source, it reads the
reference, and the result counts those documents. Of a context window, queries of the current sentence count alone.

Input: a model folder and document records. Output: a table, and with `--output` a JSON file.
"""

import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm import tqdm
from transformers import HfArgumentParser, PreTrainedTokenizerBase

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer
from modeling_docmt.documents_docmt import encode_sentences
from modeling_docmt.formatting_docmt import format_window, training_windows
from modeling_docmt.sentences_docmt import source_sentence_ids, target_sentence_ids

from .documents import read_documents
from .results import portable_path, run_info, sha256_of_file, write_json_atomic
from .trainer import translate_records


@dataclass
class ShareArguments:
    """Options of `attention_share`."""

    model: str = field(metadata={"help": "Checkpoint folder."})
    data: list[str] = field(metadata={"help": "JSONL files of document records."})
    max_documents: int | None = field(default=None, metadata={"help": "The first documents of each file only."})
    max_sentences: int | None = field(default=None, metadata={"help": "The first sentences of a document only."})
    num_beams: int = field(default=1, metadata={"help": "Beams of the translations that the model reads."})
    target: str = field(default="own", metadata={"help": "What the model reads.", "choices": ["own", "reference"]})
    output: str | None = field(default=None, metadata={"help": "JSON file."})


@dataclass
class Share:
    """Sums over queries: of the share of each layer, and their number."""

    sums: torch.Tensor
    queries: int = 0

    def add(self, attentions: tuple[torch.Tensor, ...], same: torch.Tensor) -> None:
        """
        Count the queries of one sequence.

        Args:
            attentions (`tuple[torch.Tensor, ...]`): Weights of each layer, `(H, T, S)`, for the queries that count.
            same (`torch.BoolTensor` of shape `(T, S)`): Whether query and key belong to aligned sentences.
        """
        self.sums += torch.stack([(weights * same).sum(-1).mean(0).sum() for weights in attentions]).double()
        self.queries += len(same)

    @property
    def per_layer(self) -> list[float]:
        """Percent, the first layer first."""
        return (100 * self.sums / max(self.queries, 1)).tolist()


def sequences(
    source: list[list[int]], target: list[list[int]], model: DocMTForConditionalGeneration
) -> Iterator[tuple[list[int], list[int], int]]:
    """Formatted source and target ids of each sequence of a document, and the first target sentence that counts."""
    config = model.config
    pairs = [(s, t) for s, t in zip(source, target, strict=True) if s and t]
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    lengths = [len(s) for s in sources], [len(t) for t in targets]
    for window in training_windows(*lengths, config, resolutions="document"):
        yield (
            *format_window(sources, targets, window, config),
            window.current - window.first + window.bod if config.sequence_format == "context_window" else 0,
        )


@torch.no_grad()
def attention_share(
    model: DocMTForConditionalGeneration, documents: list[tuple[list[list[int]], list[list[int]]]]
) -> Share:
    """The share over documents of source and target sentences of token ids; the model must be on eager attention."""
    config = model.config
    share = Share(torch.zeros(config.decoder_layers, dtype=torch.float64))
    for source, target in tqdm(documents, desc="attention", file=sys.stderr):
        for source_ids, labels, first in sequences(source, target, model):
            ids = torch.tensor([source_ids], device=model.device)
            start = torch.tensor([[config.decoder_start_token_id, *labels[:-1]]], device=model.device)
            attentions = model(
                input_ids=ids, decoder_input_ids=start, output_attentions=True, use_cache=False
            ).cross_attentions
            asked, shown = target_sentence_ids(start, config)[0], source_sentence_ids(ids, config)[0]
            if config.sequence_format == "source_context":
                asked = asked + shown.max()  # the target is the last sentence of the source
            counts = asked >= first
            same = asked[counts][:, None] == shown
            share.add(tuple(weights[0][:, counts] for weights in attentions), same)
    return share


def read_pairs(
    model: DocMTForConditionalGeneration, tokenizer: PreTrainedTokenizerBase, path: str, args: ShareArguments
) -> tuple[list[tuple[list[list[int]], list[list[int]]]], int]:
    """Token ids of source and of what the model reads, a document; and how many have to read the reference."""
    records = list(itertools.islice(read_documents([path]), args.max_documents))
    sides = {side: [record[side][: args.max_sentences] for record in records] for side in ("src", "tgt")}
    records = [{**record, "src": s, "tgt": t} for record, s, t in zip(records, *sides.values(), strict=True)]
    targets = [record["tgt"] for record in records]
    fallbacks = 0
    if args.target == "own":
        # as the model would: any number of sentences where its sequences hold several
        decoding = {"decoding": "free"} if model.config.default_decoding == "counted" else {}
        own = translate_records(model, tokenizer, records, num_beams=args.num_beams, **decoding)
        for index, (hypothesis, record) in enumerate(zip(own, records, strict=True)):
            # a source sentence without a translation: the count did not fit
            if any(s.strip() and not t.strip() for s, t in zip(record["src"], hypothesis, strict=True)):
                fallbacks += 1
            else:
                targets[index] = hypothesis
    pairs = [
        (encode_sentences(tokenizer, record["src"]), encode_sentences(tokenizer, target, target=True))
        for record, target in zip(records, targets, strict=True)
    ]
    return pairs, fallbacks


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Measure the share, see the module's docstring."""
    argv = sys.argv[1:] if argv is None else argv
    parser = HfArgumentParser(ShareArguments, allow_abbrev=False, description=__doc__)
    (args,) = parser.parse_args_into_dataclasses(argv)
    tokenizer = DocMTTokenizer.from_pretrained(args.model)
    # weights are there on eager alone
    model = DocMTForConditionalGeneration.from_pretrained(args.model, attn_implementation="eager").eval()
    entries = []
    for path in map(os.path.expandvars, args.data):
        pairs, fallbacks = read_pairs(model, tokenizer, path, args)
        share = attention_share(model, pairs)
        entries.append(
            {
                "data": portable_path(path),
                "data_sha256": sha256_of_file(path),
                "documents": len(pairs),
                "documents_that_read_the_reference": fallbacks,
                "queries": share.queries,
                "share": sum(share.per_layer) / len(share.per_layer),
                "share_per_layer": share.per_layer,
            }
        )
    results = {
        "kind": "attention-share",
        "system": model.config.system,
        "alignment": model.config.alignment if model.config.cross_attention == "window" else None,
        "target": args.target,
        "num_beams": args.num_beams,
        "entries": entries,
        "run": run_info(argv),
    }
    print(f"{'data':40} {'share':>7}  by layer")
    for entry in entries:
        layers = " ".join(f"{value:6.1f}" for value in entry["share_per_layer"])
        print(f"{os.path.basename(entry['data']):40} {entry['share']:6.1f}%  {layers}")
    if args.output:
        write_json_atomic(args.output, results)
    return results


if __name__ == "__main__":
    main()
