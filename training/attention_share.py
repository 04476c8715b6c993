"""
How much of its attention a model pays to the aligned source sentence, layer by layer.

    python -m training.attention_share --model outputs/window-attn --data test.en-de.wesnoth.jsonl.gz

For each query of the decoder, the weights of cross-attention on the source sentence that it translates are summed;
the share is their mean over heads, layers and queries, separators included, in percent (Herold and Ney 2023, table 1).
In a layer with a gate, the heads that see one sentence alone count beside the others. The model reads its own
translation. Where that has another number of sentences than the source, it reads the reference, and the result counts
those documents. Of a context window, queries of the current sentence count alone.

Input: a model folder and document records. Output: a table, and with `--output` a JSON file.
"""

import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from transformers import AutoConfig, PreTrainedTokenizerBase

from modeling_docmt import DocMTForConditionalGeneration
from modeling_docmt.documents_docmt import encode_sentences
from modeling_docmt.formatting_docmt import Window, format_window, training_windows
from modeling_docmt.sentences_docmt import source_sentence_ids, target_sentence_ids

from .command_line import make_parser, run_command
from .documents import read_documents
from .hypotheses import load_tokenizer
from .results import expand_path, portable_path, run_info, sha256_of_file, write_json_atomic
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


@dataclass
class ModelSequence:
    """
    What the model reads of a document at a time.

    Args:
        source_ids, labels (`list[int]`): Formatted ids.
        window (`Window`): Its sentences, counted among those of the document that are on both sides.
        sentences (`list[int]`): Number of each of those in the document, from 0.
    """

    source_ids: list[int]
    labels: list[int]
    window: Window
    sentences: list[int]

    def inputs(self, model: DocMTForConditionalGeneration) -> dict[str, torch.Tensor]:
        """Arguments of `forward`, without padding."""
        start = [model.config.decoder_start_token_id, *self.labels[:-1]]
        return {
            "input_ids": torch.tensor([self.source_ids], device=model.device),
            "decoder_input_ids": torch.tensor([start], device=model.device),
        }

    def numbers(self, model: DocMTForConditionalGeneration) -> tuple[torch.LongTensor, torch.LongTensor]:
        """Sentence of each source token `(S,)`, and that which each query predicts `(T,)`; -1 for `<bod>`."""
        config, inputs = model.config, self.inputs(model)
        first = self.window.first - self.window.bod
        # a target without context begins with the current sentence
        first_target = self.window.current if config.sequence_format == "source_context" else first
        places = (
            source_sentence_ids(inputs["input_ids"], config)[0] + first,
            target_sentence_ids(inputs["decoder_input_ids"], config)[0] + first_target,
        )
        # the last entry is that of -1
        number = torch.tensor([*self.sentences, -1], device=model.device)
        source, target = (number[place] for place in places)
        return source, target

    @property
    def current(self) -> int:
        """Number of the first sentence that is translated; those before it are context."""
        return self.sentences[self.window.current]


def sequences(
    source: list[list[int]], target: list[list[int]], model: DocMTForConditionalGeneration
) -> Iterator[ModelSequence]:
    """Sequences of a document of token ids; a pair of sentences with an empty side is left out."""
    kept = [index for index, pair in enumerate(zip(source, target, strict=True)) if all(pair)]
    sources, targets = [source[index] for index in kept], [target[index] for index in kept]
    lengths = [len(s) for s in sources], [len(t) for t in targets]
    for window in training_windows(*lengths, model.config, resolutions="document"):
        yield ModelSequence(*format_window(sources, targets, window, model.config), window, kept)


@torch.no_grad()
def attention_share(
    model: DocMTForConditionalGeneration, documents: list[tuple[list[list[int]], list[list[int]]]]
) -> Share:
    """The share over documents of source and target sentences of token ids; the model must be on eager attention."""
    share = Share(torch.zeros(model.config.decoder_layers, dtype=torch.float64))
    for source, target in tqdm(documents, desc="attention", file=sys.stderr):
        for sequence in sequences(source, target, model):
            attentions = model(**sequence.inputs(model), output_attentions=True, use_cache=False).cross_attentions
            shown, asked = sequence.numbers(model)
            counts = asked >= sequence.current
            share.add(tuple(weights[0][:, counts] for weights in attentions), asked[counts][:, None] == shown)
    return share


def load_eager_model(folder: str) -> DocMTForConditionalGeneration:
    """
    Load a checkpoint on eager attention, which alone returns its weights.

    Raises:
        `ValueError`: for a model of another kind.
    """
    kind = AutoConfig.from_pretrained(folder).model_type
    if kind != "docmt":
        raise ValueError(
            f"`--model`: {folder} holds a {kind!r}, and attention of DocMT models is read. A Marian model becomes one "
            "by `python -m modeling_docmt.convert_marian`."
        )
    return DocMTForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()


def encode_pairs(
    model: DocMTForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    records: list[dict[str, Any]],
    *,
    target: str = "own",
    num_beams: int = 1,
) -> tuple[list[tuple[list[list[int]], list[list[int]]]], int]:
    """
    Token ids of the source of documents, and of what the model reads on the target side.

    Args:
        records (`list[dict]`): Documents with `src` and `tgt`.
        target (`str`, *optional*, defaults to `"own"`): `"own"` translation, or `"reference"`.
        num_beams (`int`, *optional*, defaults to 1): Beams of the own translation.

    Returns:
        `tuple`: sentences of ids of both sides, one pair a document, and how many documents have the reference since
        their own translation has another number of sentences.
    """
    targets = [record["tgt"] for record in records]
    fallbacks = 0
    if target == "own":
        # as the model would: any number of sentences where its sequences hold several
        decoding = {"decoding": "free"} if model.config.default_decoding == "counted" else {}
        own = translate_records(model, tokenizer, records, num_beams=num_beams, **decoding)
        for index, (hypothesis, record) in enumerate(zip(own, records, strict=True)):
            # a source sentence without a translation: the count did not fit
            if any(s.strip() and not t.strip() for s, t in zip(record["src"], hypothesis, strict=True)):
                fallbacks += 1
            else:
                targets[index] = hypothesis
    pairs = [
        (encode_sentences(tokenizer, record["src"]), encode_sentences(tokenizer, sentences, target=True))
        for record, sentences in zip(records, targets, strict=True)
    ]
    return pairs, fallbacks


def first_sentences(record: dict[str, Any], count: int | None) -> dict[str, Any]:
    """A document cut behind its first sentences; `None` leaves it whole."""
    return {**record, "src": record["src"][:count], "tgt": record["tgt"][:count]}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Measure the share, see the module's docstring."""
    argv = sys.argv[1:] if argv is None else argv
    parser = make_parser(ShareArguments, __doc__)
    (args,) = parser.parse_args_into_dataclasses(argv)
    paths = [expand_path(path) for path in args.data]
    model, tokenizer = load_eager_model(args.model), load_tokenizer(args.model)
    entries = []
    for path in paths:
        records = itertools.islice(read_documents([path]), args.max_documents)
        cut = [first_sentences(record, args.max_sentences) for record in records]
        pairs, fallbacks = encode_pairs(model, tokenizer, cut, target=args.target, num_beams=args.num_beams)
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
    weights = Path(args.model) / "model.safetensors"
    results = {
        "kind": "attention-share",
        "model": portable_path(args.model),
        "weights_sha256": sha256_of_file(weights) if weights.is_file() else None,
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
    run_command(main)
