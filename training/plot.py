r"""
Pictures of what trained models do. The first argument says of what, the others are its options.

    python -m training.plot attention --model outputs/global-local --data dev.en-de.ted.jsonl.gz --document 0 \
        --output attention.png

`attention`: how much of its attention a sentence of one document pays to each of its sentences, in the encoder and
from the translation to the source. An entry is the sum of the weights of all words of the one sentence on all words of
the other, averaged over heads and divided by the number of words, so that a row sums to 1 (Zheng et al. 2020, on
visualisation). There is a panel for each layer that sees more than one sentence, and one for their mean:

- of attention with two views, local and global, the global one is shown;
- of `global-local`, the global block; a source of one sentence, which skips it, counts as looking at itself;
- where a system cuts a document into parts or context windows, a row is from the sequence that translates the
  sentence; `<bod>` has a column of its own.

The model reads its own translation, or the reference (`--target reference`). Beside the picture stands a JSON file of
the same name with all matrices, those of layers that see one sentence alone among them, and the mean attention by
place: to the sentence itself, its neighbours, and the first two. With `--documents 10` that mean is over ten documents
from the one of the picture on.
"""

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm
from transformers.utils import logging

from modeling_docmt import DocMTForConditionalGeneration
from modeling_docmt.attention_heads import AttentionHeads
from modeling_docmt.attention_long_short_term import LongShortTermAttention
from modeling_docmt.attention_segment import SegmentAttention
from modeling_docmt.attention_sentence import GatedSentenceAttention, SentenceAttention

from .attention_share import ModelSequence, encode_pairs, first_sentences, load_eager_model, sequences
from .command_line import check_first_argument, make_parser
from .documents import read_documents
from .hypotheses import load_tokenizer
from .measure import format_table
from .plotting import load_pyplot
from .results import expand_path, portable_path, run_info, sha256_of_file, write_json_atomic


logger = logging.get_logger(__name__)

# local heads, and then as many global ones
TWO_VIEWS = (GatedSentenceAttention, LongShortTermAttention)
# title of the pictures of each place
PLACES = {"encoder": "source to source", "cross": "target to source"}
# seen from a sentence
BY_PLACE = ("own", "previous", "next", "first", "second")


@dataclass
class AttentionArguments:
    """Options of `attention`."""

    model: str = field(metadata={"help": "Checkpoint folder."})
    data: str = field(metadata={"help": "File of document records."})
    output: str = field(metadata={"help": "Picture; its data go into a JSON file of the same name."})
    document: int = field(default=0, metadata={"help": "Which document of the file, from 0."})
    documents: int = field(default=1, metadata={"help": "So many from that one on give attention by place."})
    max_sentences: int | None = field(default=None, metadata={"help": "The first sentences of the document only."})
    target: str = field(default="own", metadata={"help": "What the model reads.", "choices": ["own", "reference"]})
    num_beams: int = field(default=1, metadata={"help": "Beams of the translation that the model reads."})

    def __post_init__(self) -> None:
        self.data = expand_path(self.data)
        if self.document < 0:
            raise ValueError(f"`--document` must be 0 or more, got {self.document}.")
        if self.documents < 1:
            raise ValueError(f"`--documents` must be 1 or more, got {self.documents}.")
        if self.max_sentences is not None and self.max_sentences < 1:
            raise ValueError(f"`--max_sentences` must be 1 or more, got {self.max_sentences}.")
        if Path(self.output).suffix in ("", ".json"):
            raise ValueError(
                f"`--output` must end in .png or another format of pictures, got {self.output!r}: the JSON file gets "
                "its name from it."
            )


@dataclass
class LayerAttention:
    """
    Attention of a layer between the sentences of a document.

    Args:
        name (`str`): Of the layer.
        sees_document (`bool`): Whether it looks beyond one sentence.
        sums (`torch.Tensor` of shape `(N, 1 + N)`): Weights of all words of a sentence; column 0 is `<bod>`.
    """

    name: str
    sees_document: bool
    sums: torch.Tensor


class SentenceMaps:
    """
    Sums the weights of attention between sentences while a model reads a document.

    Args:
        model (`DocMTForConditionalGeneration`): The model, on eager attention.
        num_sentences (`int`): Sentences of the document, N.
    """

    def __init__(self, model: DocMTForConditionalGeneration, num_sentences: int):
        self.model, self.num_sentences = model, num_sentences
        self.modules: dict[str, list[nn.Module]] = {
            "encoder": [module for module in model.get_encoder().modules() if isinstance(module, AttentionHeads)],
            "cross": [layer.encoder_attn for layer in model.get_decoder().layers],
        }
        self.layers = {
            place: [
                LayerAttention(
                    name="global block" if isinstance(module, SegmentAttention) else f"layer {index + 1}",
                    sees_document=not isinstance(module, SentenceAttention),
                    sums=torch.zeros(num_sentences, 1 + num_sentences, dtype=torch.float64),
                )
                for index, module in enumerate(modules)
            ]
            for place, modules in self.modules.items()
        }
        self.counts = {place: torch.zeros(num_sentences, dtype=torch.float64) for place in PLACES}

    @torch.no_grad()
    def add(self, sequence: ModelSequence) -> None:
        """Let the model read a sequence, and count its sentences but those that are context."""
        shown, asked = (numbers.cpu() for numbers in sequence.numbers(self.model))
        columns = nn.functional.one_hot(1 + shown, 1 + self.num_sentences).double()
        rows = {"encoder": self._rows(shown, sequence), "cross": self._rows(asked, sequence)}
        with self._hooks(rows, columns) as seen:
            self.model(**sequence.inputs(self.model), use_cache=False)
        for place, layers in self.layers.items():
            self.counts[place] += rows[place].sum(dim=0)
            for index, layer in enumerate(layers):
                if (place, index) not in seen:
                    # a global block that is skipped, of one sentence
                    layer.sums += rows[place].T @ columns

    def _rows(self, numbers: torch.LongTensor, sequence: ModelSequence) -> torch.Tensor:
        """One-hot vectors of the sentences, `(tokens, N)`; zeros for context."""
        counts = numbers >= sequence.current
        rows = nn.functional.one_hot(numbers.clamp(min=0), self.num_sentences)
        return (rows * counts[:, None]).double()

    @contextmanager
    def _hooks(self, rows: dict[str, torch.Tensor], columns: torch.Tensor) -> Iterator[set]:
        """Add up what the modules return in one pass; which of them were called."""
        seen: set = set()

        def hook_of(place: str, index: int) -> Callable:
            def add(module: nn.Module, arguments: Any, outputs: Any) -> None:
                weights = outputs[1][0]  # (H, T, K)
                if isinstance(module, TWO_VIEWS):
                    weights = weights.chunk(2)[1]
                between = rows[place].T @ weights.mean(dim=0).cpu().double() @ columns
                self.layers[place][index].sums += between
                seen.add((place, index))

            return add

        handles = [
            module.register_forward_hook(hook_of(place, index))
            for place, modules in self.modules.items()
            for index, module in enumerate(modules)
        ]
        try:
            yield seen
        finally:
            for handle in handles:
                handle.remove()


def sentence_attention(
    model: DocMTForConditionalGeneration, source: list[list[int]], target: list[list[int]]
) -> dict[str, Any]:
    """
    Attention between the sentences of a document.

    Args:
        model (`DocMTForConditionalGeneration`): The model, on eager attention.
        source, target (`list[list[int]]`): Token ids of N sentences each; pairs with an empty side are left out.

    Returns:
        `dict`: `rows`, numbers of the sentences from 1; `columns`, the same, and 0 in front for `<bod>` where it is
        read; and for `encoder` and `cross` the matrices, rows summing to 1: a list `layers` with `name`,
        `sees_document` and `matrix`, and `mean`, of the layers that see the document, or of all if none does.

    Raises:
        `ValueError`: if no pair of sentences is left.
    """
    maps = SentenceMaps(model, len(source))
    kept: list[int] = []
    for sequence in sequences(source, target, model):
        kept = sequence.sentences
        maps.add(sequence)
    if not kept:
        raise ValueError("the document has no sentence with words on both sides: choose another one.")
    has_bod = any(bool(layer.sums[:, 0].any()) for layers in maps.layers.values() for layer in layers)
    columns = [*([0] if has_bod else []), *(1 + index for index in kept)]
    found: dict[str, Any] = {"rows": [1 + index for index in kept], "columns": columns}
    for place, layers in maps.layers.items():
        matrices = [(layer.sums[kept] / maps.counts[place][kept, None])[:, columns] for layer in layers]
        seeing = [matrix for layer, matrix in zip(layers, matrices, strict=True) if layer.sees_document]
        found[place] = {
            "mean": torch.stack(seeing or matrices).mean(dim=0).tolist(),
            "layers": [
                {"name": layer.name, "sees_document": layer.sees_document, "matrix": matrix.tolist()}
                for layer, matrix in zip(layers, matrices, strict=True)
            ],
        }
    return found


def attention_by_place(documents: Sequence[dict[str, Any]], side: str) -> dict[str, float]:
    """
    Mean weight on the sentence itself, on its neighbours, and on the first two, over the sentences that have them.

    Args:
        documents (`Sequence[dict]`): Of `sentence_attention`.
        side (`str`): `"encoder"` or `"cross"`.

    Returns:
        `dict[str, float]`: percent, by place; one that no sentence has is left out.
    """
    places: dict[str, list[float]] = {name: [] for name in BY_PLACE}
    for found in documents:
        count, offset = len(found["rows"]), len(found["columns"]) - len(found["rows"])
        for place, weights in enumerate(found[side]["mean"]):
            for name, index in zip(BY_PLACE, (place, place - 1, place + 1, 0, 1), strict=True):
                if 0 <= index < count:
                    places[name].append(weights[offset + index])
    return {name: round(100 * sum(found) / len(found), 2) for name, found in places.items() if found}


def attention_table(results: dict[str, Any]) -> str:
    """Where the mean attention goes, as text."""
    cells = [{"attention": PLACES[place], **results[place]["by_place"]} for place in PLACES]
    return format_table(cells, {"attention": "attention (%)", **{name: name for name in BY_PLACE}})


def save_attention_picture(path: str | Path, results: dict[str, Any]) -> None:
    """
    Draw the matrices, the mean first: a row of panels for the encoder, one for cross-attention, each with its scale.

    Args:
        path (`str` or `Path`): Picture, written as a whole or not at all.
        results (`dict`): Of `sentence_attention`.
    """
    pyplot = load_pyplot()
    panels = {}
    for place in PLACES:
        layers = results[place]["layers"]
        shown = [layer for layer in layers if layer["sees_document"]] or layers
        panels[place] = [("mean", results[place]["mean"])] if len(shown) > 1 else []
        panels[place] += [(layer["name"], layer["matrix"]) for layer in shown]
    width = max(map(len, panels.values()))
    figure, axes = pyplot.subplots(
        2, width, figsize=(2.7 * width + 1, 6), squeeze=False, layout="constrained", sharey=True
    )
    for row, (place, drawn) in zip(axes, panels.items(), strict=True):
        largest = max(max(map(max, matrix)) for _, matrix in drawn)
        for axis in row[len(drawn) :]:
            axis.set_axis_off()
        for axis, (name, matrix) in zip(row, drawn, strict=False):
            image = axis.imshow(matrix, vmin=0, vmax=largest, cmap="viridis", aspect="auto")
            axis.set_title(f"{PLACES[place]}, {name}", fontsize=8)
            _number(axis, results["rows"], results["columns"])
        figure.colorbar(image, ax=list(row), shrink=0.8).ax.tick_params(labelsize=7)
    figure.supxlabel("source sentence that is looked at", fontsize=9)
    figure.supylabel("sentence that looks", fontsize=9)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        figure.savefig(temporary, dpi=120)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
        pyplot.close(figure)


def _number(axis: Any, rows: Sequence[int], columns: Sequence[int]) -> None:
    """Numbers of sentences at the axes, not more than fit."""
    for numbers, put in ((columns, axis.set_xticks), (rows, axis.set_yticks)):
        step = -(-len(numbers) // 12)
        places = range(0, len(numbers), step)
        put(list(places), ["bod" if numbers[place] == 0 else str(numbers[place]) for place in places], fontsize=7)


def plot_attention(args: AttentionArguments, command: Sequence[str] | None = None) -> dict[str, Any]:
    """
    Read a document, draw the picture and write its data.

    Args:
        args (`AttentionArguments`): What to do.
        command (`Sequence[str]`, *optional*): Arguments as typed, for the record; those of the process by default.

    Returns:
        `dict`: the content of the JSON file.
    """
    load_pyplot()  # not only after the work
    model, tokenizer = load_eager_model(args.model), load_tokenizer(args.model)
    end = args.document + args.documents
    records = list(itertools.islice(read_documents([args.data]), args.document, end))
    if not records:
        raise ValueError(f"`--document`: {portable_path(args.data)} has no document {args.document}, counted from 0.")
    if len(records) < args.documents:
        raise ValueError(
            f"`--documents`: {portable_path(args.data)} has {len(records)} from {args.document} on, not "
            f"{args.documents}."
        )
    maps, fallbacks = [], 0
    for record in tqdm(records, desc="attention", file=sys.stderr, disable=len(records) == 1):
        record = first_sentences(record, args.max_sentences)
        [(source, target)], fell_back = encode_pairs(
            model, tokenizer, [record], target=args.target, num_beams=args.num_beams
        )
        maps.append(sentence_attention(model, source, target))
        fallbacks += fell_back
    if fallbacks:
        logger.warning(
            f"The translation of {fallbacks} of {len(records)} documents has another number of sentences than the "
            "source: the reference is read."
        )
    found = maps[0]
    for place in PLACES:
        found[place]["by_place"] = attention_by_place(maps, place)
    weights = Path(args.model) / "model.safetensors"
    results = {
        "kind": "sentence-attention",
        "model": portable_path(args.model),
        "weights_sha256": sha256_of_file(weights) if weights.is_file() else None,
        "system": model.config.system,
        "data": portable_path(args.data),
        "data_sha256": sha256_of_file(args.data) if Path(args.data).is_file() else None,
        "document": args.document,
        "document_id": records[0]["id"],
        "documents": len(records),
        "target": args.target,
        "documents_that_read_the_reference": fallbacks,
        "num_beams": args.num_beams,
        **found,
        "run": run_info(command),
    }
    save_attention_picture(args.output, results)
    write_json_atomic(Path(args.output).with_suffix(".json"), results)
    return results


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Draw the picture that the first argument names."""
    argv = sys.argv[1:] if argv is None else list(argv)
    check_first_argument(argv, ["attention"], __doc__)
    parser = make_parser(AttentionArguments, __doc__)
    try:
        (args,) = parser.parse_args_into_dataclasses(argv[1:])
        results = plot_attention(args, argv)
    # a wrong argument or file is answered with what to do, not with a traceback
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"plot: {error}") from error
    print(attention_table(results))
    return results


if __name__ == "__main__":
    main()
