"""What `training.evaluate` asks of the model itself, beside its translations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from training.attention_share import attention_share, encode_pairs
from training.context_use import context_use
from training.contrastive import RECIPE, evaluate_suite, open_system, scorer_settings
from training.documents import Record
from training.evaluate_arguments import EvaluationArguments, generation_options
from training.evaluate_inputs import Inputs, suite_arguments
from training.hypotheses import Hypotheses, Translator, decoding_mode
from training.results import portable_path, sha256_of_file


def score_sequences(arguments: EvaluationArguments, inputs: Inputs) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """
    Let the model score translations that are given: those of contrastive suites, and references in their context.

    Args:
        arguments (`EvaluationArguments`): The model, and what is asked for.
        inputs (`Inputs`): Suites and test sets.

    Returns:
        `tuple`: what goes into the result file (`suites` as in that of `training.contrastive`, and `scoring`, the
        recipe), and for each test set its `context_use`; either is empty where it is not asked for.
    """
    options = suite_arguments(arguments)
    suites, uses = [], []
    with open_system(scorer_settings(options), num_processes=options.num_processes) as system:
        for path, items in inputs.suites.items():
            suites.append(evaluate_suite(path, items, system, options)[0])
        for test_set in inputs.test_sets if arguments.context_use else []:
            uses.append(
                context_use(
                    test_set.records,
                    system,
                    batch_tokens=options.batch_tokens,
                    resamples=arguments.resamples,
                    seed=arguments.seed,
                    name=test_set.name,
                )
            )
    recipe = {"alignment": system.alignment, **{name: getattr(options, name) for name in RECIPE}}
    return {"scoring": recipe, **({"suites": suites} if suites else {})}, uses


def share_entry(translator: Translator, records: Sequence[Record], hypotheses: Hypotheses) -> dict[str, Any]:
    """
    How much of its cross-attention a model pays to the aligned source sentence while it reads its own translation.

    The model is on eager attention afterwards, and on the CPU.

    Args:
        translator (`Translator`): A DocMT model.
        records (`Sequence[dict]`): Documents.
        hypotheses (`Hypotheses`): Their translations; where one of a sentence is missing, the reference is read.

    Returns:
        `dict`: `share` in percent, `share_per_layer`, and the numbers of documents and queries that they are made of.
    """
    model = translator.model.to("cpu")
    # the one that returns its weights
    model.set_attn_implementation("eager")
    read, fallbacks = [], 0
    for record, translation in zip(records, hypotheses.documents, strict=True):
        pairs = zip(record["src"], translation, strict=True)
        is_whole = all(target.strip() for source, target in pairs if source.strip())
        fallbacks += not is_whole
        read.append({**record, "tgt": translation if is_whole else record["tgt"]})
    share = attention_share(model, encode_pairs(model, translator.tokenizer, read, target="reference")[0])
    return {
        "share": round(sum(share.per_layer) / len(share.per_layer), 4),
        "share_per_layer": [round(value, 4) for value in share.per_layer],
        "queries": share.queries,
        "documents": len(records),
        "documents_that_read_the_reference": fallbacks,
    }


def describe_model(folder: str) -> dict[str, Any]:
    """Say which model it is."""
    config = AutoConfig.from_pretrained(folder)
    info: dict[str, Any] = {"path": portable_path(folder), "model_type": config.model_type}
    if config.model_type == "docmt":
        info["system"] = config.system
    if (Path(folder) / "model.safetensors").is_file():
        info["weights_sha256"] = sha256_of_file(Path(folder) / "model.safetensors")
    return info


def describe_decoding(translator: Translator, arguments: EvaluationArguments) -> dict[str, Any]:
    """Say how the model translated."""
    model = translator.model
    decoding = generation_options(arguments)
    decoding["decoding"] = decoding_mode(model, decoding) if translator.is_docmt else "sentence"
    if translator.is_docmt and model.config.sequence_format == "document" and decoding["decoding"] == "sequential":
        decoding.setdefault("source_context", "full")
    if translator.is_docmt and model.config.sequence_format in ("context_window", "source_context"):
        decoding["context_sentences"] = model.config.context_sentences
    decoding |= {"batch_size": arguments.batch_size, "dtype": str(model.dtype).removeprefix("torch.")}
    return {**decoding, "device": translator.device.type}
