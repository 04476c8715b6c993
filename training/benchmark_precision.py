"""
Measure what a smaller type of numbers costs in quality, and brings in size and speed.

    python -m training.benchmark_precision --model hub_cards/docmt-tiny-en-de --data test.jsonl \
        --precisions float32 bfloat16 int8-dynamic torchao-int8-weights --output precision.json

Input: a model and document records with references. Output: for each precision and test set chrF and s-BLEU, the share
of sentences that are translated as in float32, bytes of the weights and speed, as a table and as JSON. Embeddings and
output layer, one matrix where they are tied, stay as they are in int8.

| precision | weights of linear layers | activations there | by |
| --- | --- | --- | --- |
| `float32` | float32 | float32 | PyTorch |
| `bfloat16` | bfloat16, as all else | bfloat16 | PyTorch |
| `int8-dynamic` | int8, a scale a row | int8, a scale a call | PyTorch (`torch.ao.quantization`, deprecated there) |
| `torchao-int8-weights` | int8, a scale a row | as they were | torchao |
| `torchao-int8-dynamic` | int8, a scale a row | int8, a scale a token | torchao |
"""

import copy
import importlib.metadata
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer
from modeling_docmt.documents_docmt import encode_sentences

from .documents import Record, read_documents
from .measure import Benchmark, MeasureArguments, format_table, interleave
from .metrics import score_documents
from .results import portable_path, sha256_of_file
from .trainer import translate_records


def linear_names(model: nn.Module) -> list[str]:
    """Names of the linear layers but the output layer, which shares its weight with the embeddings."""
    return [name for name, module in model.named_modules() if isinstance(module, nn.Linear) and name != "lm_head"]


def _int8_dynamic(model: nn.Module) -> nn.Module:
    from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is deprecated is in the table above
        return quantize_dynamic(model, dict.fromkeys(linear_names(model), per_channel_dynamic_qconfig))


def _torchao(model: nn.Module, config_name: str) -> nn.Module:
    try:
        from torchao import quantization
    except ImportError as error:
        raise ValueError(
            "`precisions` that begin with 'torchao' need that package: pip install 'docmt[quantize]', or leave them "
            "out."
        ) from error
    names = set(linear_names(model))
    model = copy.deepcopy(model)
    quantization.quantize_(model, getattr(quantization, config_name)(), filter_fn=lambda _, name: name in names)
    return model


PRECISIONS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "float32": lambda model: model,
    "bfloat16": lambda model: copy.deepcopy(model).to(torch.bfloat16),
    "int8-dynamic": _int8_dynamic,
    "torchao-int8-weights": partial(_torchao, config_name="Int8WeightOnlyConfig"),
    "torchao-int8-dynamic": partial(_torchao, config_name="Int8DynamicActivationInt8WeightConfig"),
}


def to_precision(model: DocMTForConditionalGeneration, precision: str) -> DocMTForConditionalGeneration:
    """
    A copy of a float32 model in another precision, for translating.

    Args:
        model (`DocMTForConditionalGeneration`): Left as it is.
        precision (`str`): A key of `PRECISIONS`; with `"float32"` the model itself comes back.

    Raises:
        `ValueError`: if there is no such precision, or its package is missing.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"`precision` must be one of {', '.join(map(repr, PRECISIONS))}, got {precision!r}.")
    return PRECISIONS[precision](model).eval()


def weight_bytes(model: nn.Module) -> int:
    """Bytes of the weights as `torch.save` would write them, shared ones once; nothing is written."""
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    return buffer.tell()


@dataclass(kw_only=True)
class PrecisionArguments(MeasureArguments):
    """Options of `benchmark_precision`."""

    model: str = field(metadata={"help": "Checkpoint folder."})
    data: list[str] = field(metadata={"help": "Test sets: JSONL files of document records."})
    precisions: list[str] = field(
        default_factory=lambda: ["float32", "bfloat16", "int8-dynamic"],
        metadata={"help": f"What to measure, of {', '.join(PRECISIONS)}."},
    )
    documents: int = field(default=6, metadata={"help": "Documents of each test set, the first ones."})
    num_beams: int = field(default=4, metadata={"help": "Beams."})
    rounds: int = field(default=1, metadata={"help": "Rounds; the best one counts, the median is reported too."})


def measure_precision(args: PrecisionArguments) -> dict[str, Any]:
    """Load model and documents, and translate them in every precision."""
    if "float32" not in args.precisions:
        raise ValueError(f"`precisions` must include 'float32', which the others are compared with: {args.precisions}")
    tokenizer = DocMTTokenizer.from_pretrained(args.model)
    model = DocMTForConditionalGeneration.from_pretrained(args.model, dtype=torch.float32).eval()
    models = {name: to_precision(model, name) for name in args.precisions}
    sizes = {name: weight_bytes(copy) for name, copy in models.items()}
    with torch.inference_mode():
        entries = [entry for path in args.data for entry in _measure_test_set(path, models, tokenizer, args)]
    for entry in entries:
        entry["weight_bytes"] = sizes[entry["precision"]]
    has_torchao = any(name.startswith("torchao") for name in args.precisions)
    return {
        "model": portable_path(args.model),
        "weights_sha256": sha256_of_file(Path(args.model) / "model.safetensors"),
        "system": model.config.system,
        "num_beams": args.num_beams,
        "decoding": model.generation_config.decoding,
        "torchao": importlib.metadata.version("torchao") if has_torchao else None,
        "entries": entries,
    }


def _measure_test_set(
    path: str, models: dict[str, Any], tokenizer: DocMTTokenizer, args: PrecisionArguments
) -> list[dict[str, Any]]:
    """One entry a precision."""
    records: list[Record] = [record for _, record in zip(range(args.documents), read_documents(path), strict=False)]
    outputs: dict[str, list[list[str]]] = {}

    def run(name: str) -> None:
        outputs[name] = translate_records(models[name], tokenizer, records, num_beams=args.num_beams)

    name = Path(path).name.removesuffix(".gz").removesuffix(".jsonl")
    timings = interleave({p: partial(run, p) for p in models}, args.rounds, label=name)
    exact = [sentence for document in outputs["float32"] for sentence in document]
    entries = []
    for precision, documents in outputs.items():
        sentences = [sentence for document in documents for sentence in document]
        scores = score_documents(
            documents,
            [record["tgt"] for record in records],
            target_lang=records[0].get("tgt_lang"),
            measures=("s-BLEU", "chrF"),
        )
        tokens = sum(len(ids) + 1 for ids in encode_sentences(tokenizer, sentences, target=True))
        entries.append(
            {
                "test_set": name,
                "sha256": sha256_of_file(path),
                "precision": precision,
                "documents": len(records),
                "sentences": len(sentences),
                "scores": scores,
                "same_as_float32": round(
                    sum(a == b for a, b in zip(sentences, exact, strict=True)) / len(sentences), 4
                ),
                "seconds": round(timings[precision].best, 2),
                "median_seconds": round(timings[precision].median, 2),
                "tokens_per_second": round(tokens / timings[precision].best, 1),
                "speed_up": round(timings["float32"].best / timings[precision].best, 2),
            }
        )
    return entries


def _table(results: dict[str, Any]) -> str:
    rows = [
        {
            **entry,
            "chrF": round(entry["scores"]["chrF"]["score"], 1),
            "s-BLEU": round(entry["scores"]["s-BLEU"]["score"], 1),
            "same": f"{100 * entry['same_as_float32']:.0f} %",
            "mib": round(entry["weight_bytes"] / 2**20, 1),
        }
        for entry in results["entries"]
    ]
    headings = {"test_set": "test set", "precision": "precision", "chrF": "chrF", "s-BLEU": "s-BLEU"}
    headings |= {"same": "as in float32", "mib": "MiB", "tokens_per_second": "tokens/s", "speed_up": "speed-up"}
    return format_table(rows, headings)


BENCHMARK = Benchmark("precision-benchmark", PrecisionArguments, __doc__ or "", measure_precision, _table)
main = BENCHMARK.main


if __name__ == "__main__":
    main()
