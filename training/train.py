"""
Train a document-level translation model.

    python -m training.train CONFIG.yaml [--learning_rate 0.001 ...]
    python -m training.train --system concat-adj --train_file train.jsonl --tokenizer_name runs/tokenizer ...

Input: document records (JSONL, or folders of `prepare_corpus`) and a tokenizer. Output: `output_dir` with checkpoints,
TensorBoard logs and a model that `from_pretrained` and `pipeline` load, and a JSON file of what was run and measured.
A run that was stopped goes on with `--resume_from_checkpoint true`, to the same weights.
"""

import copy
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, concatenate_datasets
from transformers import (
    AutoTokenizer,
    EarlyStoppingCallback,
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    SchedulerType,
    set_seed,
)
from transformers.utils import logging

from modeling_docmt import SYSTEMS, DocMTConfig, DocMTForConditionalGeneration, DocMTTokenizer

from .arguments import DataArguments, ModelArguments, TrainingArguments, parse_arguments, parse_config_overrides
from .checkpoints import whole_checkpoints
from .data import encode_corpus
from .documents import load_corpus
from .results import expand_path, portable_path, run_info, sha256_of_file, sha256_of_files, write_json_atomic
from .starting_weights import StartingWeights, load_starting_weights, separator_from_eos
from .trainer import CpuTimeCallback, DocMTTrainer


logger = logging.get_logger(__name__)

# what a model started from another one, and a Marian peer, have in common with it
SHAPE_FIELDS = (
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "activation_function",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "scale_embedding",
    "tie_word_embeddings",
    "decoder_start_token_id",
)
# of a saved configuration: how it was saved, and not what
SAVED_FIELDS = ("architectures", "auto_map", "dtype", "transformers_version", "_name_or_path", "use_cache")
# what a MarianConfig does not know
STYLE_FIELDS = ("normalize_before", "use_final_logits_bias", "init_std")


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Train, evaluate and save; returns what the results file holds."""
    argv = sys.argv[1:] if argv is None else argv
    model_args, data_args, args = parse_arguments(
        argv, [ModelArguments, DataArguments, TrainingArguments], description=__doc__
    )
    data_args.train_file = [expand_path(path) for path in data_args.train_file]
    data_args.validation_file = [expand_path(path) for path in data_args.validation_file]
    logging.set_verbosity(args.get_process_log_level())
    check_arguments(model_args, data_args, args)
    checkpoint = checkpoint_to_resume(args)
    set_seed(args.seed)
    torch.set_float32_matmul_precision(args.float32_matmul_precision)

    tokenizer = load_tokenizer(model_args)
    train_documents = load_documents(data_args.train_file, data_args.max_train_samples)
    config = build_config(model_args, data_args, tokenizer, train_documents)
    train_sequences = encode_documents(train_documents, tokenizer, config, data_args)
    config.train_ratio = mean_ratio(train_sequences)
    if config.indexed_separators:
        # decoding must not use a separator that training has not seen
        config.max_part_sentences = max(train_sequences["sentences"])
    eval_documents = load_documents(data_args.validation_file) if data_args.validation_file else None
    eval_sequences = None
    if eval_documents:
        # of all resolutions of training, the one that decoding has
        eval_sequences = encode_documents(eval_documents, tokenizer, config, data_args, resolutions="document")
    model, start_weights = build_model(model_args, config)
    if checkpoint is not None:
        check_same_model(checkpoint, model.config)

    callbacks: list = [CpuTimeCallback()]
    if args.early_stopping_patience is not None:
        callbacks.append(EarlyStoppingCallback(early_stopping_patience=args.early_stopping_patience))
    trainer = DocMTTrainer(
        model=model,
        args=args,
        format_config=config,
        processing_class=tokenizer,
        train_dataset=train_sequences,
        eval_dataset=eval_sequences,
        evaluation_documents=list(first(eval_documents, data_args.max_eval_samples)) if eval_documents else None,
        loaded_parameters=start_weights.loaded if start_weights else (),
        callbacks=callbacks,
    )
    start = time.time()
    outcome = trainer.train(resume_from_checkpoint=checkpoint)
    metrics = dict(outcome.metrics)
    if eval_sequences is not None and args.eval_strategy != "no":
        metrics.update(trainer.evaluate())
    trainer.save_model()
    trainer.save_state()
    results = describe_run(argv, model_args, data_args, args, config, model, train_sequences, trainer, metrics)
    results["starting_weights"] = None if start_weights is None else start_weights.summary(model)
    results["wall_seconds_of_this_process"] = round(time.time() - start, 1)
    weights = Path(args.output_dir) / "model.safetensors"
    # of more than 50 GB there are several files, and the index says which
    results["weights_sha256"] = sha256_of_file(weights) if weights.is_file() else None
    if trainer.is_world_process_zero():
        write_json_atomic(args.results_file or Path(args.output_dir) / "results.json", results)
    return results


def check_arguments(model_args: ModelArguments, data_args: DataArguments, args: TrainingArguments) -> None:
    """Refuse what cannot work, before any work is done."""
    if not data_args.train_file:
        raise ValueError("`train_file` is needed: one or more JSONL files or prepared folders of documents.")
    if not (model_args.tokenizer_name or model_args.init_from):
        raise ValueError("`tokenizer_name` is needed, or `init_from` with a tokenizer in it: see train_tokenizer.")
    if args.eval_strategy != "no" and not data_args.validation_file:
        raise ValueError(f"`validation_file` is needed by `eval_strategy={str(args.eval_strategy)!r}`.")
    if model_args.init_from is None and model_args.separator_from_eos:
        raise ValueError("`separator_from_eos=True` is about weights that are loaded: name them as `init_from`.")
    if model_args.init_from is None and (model_args.init_parts != "all" or args.loaded_lr_scale != 1.0):
        raise ValueError(
            f"`init_parts={model_args.init_parts!r}` and `loaded_lr_scale={args.loaded_lr_scale}` are about weights "
            "that are loaded: name their checkpoint as `init_from`, or leave them out."
        )
    if args.loaded_lr_scale < 0:
        raise ValueError(f"`loaded_lr_scale` must be 0 or more, got {args.loaded_lr_scale}.")
    if not 0 <= args.word_dropout < 1:
        raise ValueError(f"`word_dropout` must be at least 0 and below 1, got {args.word_dropout}.")
    if args.focus_source_words and not args.focus_words:
        raise ValueError(
            f"`focus_source_words={args.focus_source_words}` says where `focus_words` count more, and there are none: "
            "give them weights as 'er=12,sie=6', or leave the source words out."
        )
    if model_args.architecture == "marian":
        if model_args.init_from is not None:
            raise ValueError(
                f"`architecture='marian'` starts from fresh weights, got `init_from={model_args.init_from!r}`: give "
                "`tokenizer_name` alone, and the shape in `config_overrides`."
            )
        if model_args.system != "sentence-level":
            raise ValueError(f"`architecture='marian'` is sentence-level, got `system={model_args.system!r}`.")
        if args.predict_with_generate:
            raise ValueError(
                "`predict_with_generate` translates documents, which a MarianMTModel does not: train without it and "
                "evaluate the model after `convert_marian`."
            )


def load_tokenizer(model_args: ModelArguments) -> PreTrainedTokenizerBase:
    """The tokenizer named, without asking for remote code where the class is ours."""
    option = "tokenizer_name" if model_args.tokenizer_name else "init_from"
    name = str(getattr(model_args, option))
    kind = AutoTokenizer if (Path(name) / "source.spm").exists() else DocMTTokenizer
    try:
        return kind.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"`{option}`: no tokenizer could be loaded from {name}. Check the name, or make one with `python -m "
            "training.train_tokenizer`."
        ) from error


def load_documents(paths: list[str], limit: int | None = None) -> Dataset:
    """All documents of some files, in order, at most `limit`."""
    columns = ["src_lang", "tgt_lang", "src", "tgt"]
    corpora = [load_corpus(path).select_columns(columns) for path in paths]
    return first(concatenate_datasets(corpora), limit)


def first(documents: Dataset, limit: int | None) -> Dataset:
    """The first documents, or all."""
    return documents if limit is None else documents.select(range(min(limit, len(documents))))


def build_config(
    model_args: ModelArguments,
    data_args: DataArguments,
    tokenizer: PreTrainedTokenizerBase,
    documents: Dataset,
) -> DocMTConfig:
    """The system's configuration, on the shape of `init_from` where there is one, with ids of the tokenizer."""
    changes = parse_config_overrides(model_args.config_overrides)
    base: dict[str, Any] = {}
    if model_args.init_from:
        start = DocMTConfig.from_pretrained(model_args.init_from)
        base = {name: getattr(start, name) for name in SHAPE_FIELDS + STYLE_FIELDS}
    ids = token_ids(tokenizer)
    if {**SYSTEMS[model_args.system], **changes}.get("use_sos"):
        ids["decoder_start_token_id"] = ids["sos_token_id"]
    elif not base:
        ids["decoder_start_token_id"] = ids["pad_token_id"] if ids["bos_token_id"] is None else ids["bos_token_id"]
    languages = {
        "source_lang": data_args.source_lang or documents[0]["src_lang"],
        "target_lang": data_args.target_lang or documents[0]["tgt_lang"],
    }
    return DocMTConfig.from_system(
        model_args.system, vocab_size=len(tokenizer), dtype="float32", **{**base, **ids, **languages, **changes}
    )


def token_ids(tokenizer: PreTrainedTokenizerBase) -> dict[str, int | None]:
    """Fields of `DocMTConfig` that the vocabulary decides: ids of special tokens, and how many separators it has."""

    def known(token: str) -> int | None:
        index = tokenizer.convert_tokens_to_ids(token)
        return None if index == tokenizer.unk_token_id else index

    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos", "sep", "mask")}
    for token, name in (("<bod>", "bod_token_id"), ("<sos>", "sos_token_id"), ("<sep1>", "first_separator_token_id")):
        ids[name] = known(token)
    if ids["mask_token_id"] is None:
        ids["mask_token_id"] = known("<mask>")
    first_separator = ids["first_separator_token_id"]
    if first_separator is not None:
        # only those that follow without a gap
        places = itertools.count()
        count = next(place for place in places if known(f"<sep{place + 1}>") != first_separator + place)
        ids["num_indexed_separators"] = count
    return ids


def encode_documents(
    documents: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    config: DocMTConfig,
    data_args: DataArguments,
    resolutions: str | None = None,
) -> Dataset:
    """Model sequences of a corpus under the limits of the arguments; `resolutions` in place of those of the system."""
    if data_args.train_part_tokens is not None:
        config = copy.deepcopy(config)
        config.max_part_tokens = data_args.train_part_tokens
    return encode_corpus(
        documents,
        tokenizer,
        config,
        max_source_length=data_args.max_source_length,
        max_target_length=data_args.max_target_length,
        resolutions=resolutions,
        num_proc=data_args.preprocessing_num_workers,
    )


def mean_ratio(sequences: Dataset) -> float:
    """Source tokens per target token, mean over the training sequences (Herold and Ney 2023, on alignment)."""
    ratios = sequences["ratio"]
    return sum(ratios) / len(ratios)


def build_model(model_args: ModelArguments, config: DocMTConfig) -> tuple[PreTrainedModel, StartingWeights | None]:
    """A model of the configuration, with the weights of `init_from` or fresh ones, and which are of the former."""
    if model_args.architecture == "marian":
        return build_marian(config), None
    model = DocMTForConditionalGeneration(config)
    if model_args.init_from is None:
        return model, None
    start_weights = load_starting_weights(model, model_args.init_from, model_args.init_parts)
    if model_args.separator_from_eos:
        separator_from_eos(model)
    if config.use_final_logits_bias and config.sequence_format != "sentence":
        # a converted sentence-level model excludes the separators, which a document system must be able to produce
        model.final_logits_bias[:, config.separator_ids()] = 0.0
    return model, start_weights


def build_marian(config: DocMTConfig) -> MarianMTModel:
    """A stock `MarianMTModel` of the same shape, vocabulary and dropout, to compare with."""
    names = ("vocab_size", *SHAPE_FIELDS, "pad_token_id", "eos_token_id")
    model = MarianMTModel(
        MarianConfig(**{name: getattr(config, name) for name in names}, max_position_embeddings=1024)
    )
    ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    model.generation_config = GenerationConfig(**ids, bad_words_ids=[[config.pad_token_id]])
    return model


def checkpoint_to_resume(args: TrainingArguments) -> str | None:
    """
    The checkpoint that `resume_from_checkpoint` means.

    Raises:
        `ValueError`: where there is none, or, if a run is to start anew, there are some in its folder.
    """
    wanted, found = args.resume_from_checkpoint, whole_checkpoints(args.output_dir)
    if wanted is None or str(wanted).lower() == "false":
        if found:
            raise ValueError(
                f"`output_dir`: {args.output_dir} has checkpoints of an earlier run, which would be taken for those "
                "of this one. Name another folder, remove it, or go on with that run by `resume_from_checkpoint=true`."
            )
        return None
    if str(wanted).lower() != "true":
        return str(wanted)
    if not found:
        raise ValueError(f"`resume_from_checkpoint=true`, but there is no whole checkpoint in {args.output_dir!r}.")
    return str(found[-1])


def check_same_model(checkpoint: str, config: PreTrainedConfig) -> None:
    """
    Require that a checkpoint is of the model that is to be trained.

    Raises:
        `ValueError`: that names the first field in which they differ.
    """
    saved = json.loads((Path(checkpoint) / "config.json").read_text(encoding="utf-8"))
    for name, value in json.loads(config.to_json_string(use_diff=False)).items():
        if name in saved and name not in SAVED_FIELDS and saved[name] != value:
            raise ValueError(
                f"`resume_from_checkpoint`: {checkpoint} is of another run, with {name}={saved[name]!r} in place of "
                f"{value!r}. Name another `output_dir`, or the options of that run."
            )


def describe_run(
    argv, model_args, data_args, args, config, model, train_sequences, trainer, metrics
) -> dict[str, Any]:
    """What was run and measured, for the results file."""
    cpu_seconds = max((entry.get("cpu_seconds", 0.0) for entry in trainer.state.log_history), default=0.0)
    return {
        "kind": "training",
        "output_dir": portable_path(args.output_dir),
        "system": model_args.system,
        "architecture": model_args.architecture,
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "config_overrides": model_args.config_overrides,
        "init_from": None if model_args.init_from is None else portable_path(model_args.init_from),
        "separator_from_eos": model_args.separator_from_eos,
        "loaded_lr_scale": args.loaded_lr_scale,
        "source_lang": config.source_lang,
        "target_lang": config.target_lang,
        "train_files": [portable_path(path) for path in data_args.train_file],
        "train_sha256": sha256_of_files([p for p in data_args.train_file if Path(p).is_file()]),
        "validation_files": [portable_path(path) for path in data_args.validation_file],
        "sequence_format": config.sequence_format,
        "training_resolutions": config.training_resolutions,
        "train_sequences": len(train_sequences),
        "train_part_tokens": data_args.train_part_tokens or config.max_part_tokens,
        "train_target_tokens": sum(train_sequences["target_length"]),
        "train_ratio": config.train_ratio,
        "updates": trainer.state.global_step,
        "epochs": trainer.state.epoch,
        "train_batch_tokens": args.train_batch_tokens,
        "gradient_accumulation_steps": args.gradient_accumulation_steps,
        "processes": args.world_size,
        "learning_rate": args.learning_rate,
        "warmup_steps": args.warmup_steps,
        "lr_scheduler_type": SchedulerType(args.lr_scheduler_type).value,
        "label_smoothing": args.label_smoothing_factor,
        "word_dropout": args.word_dropout,
        "word_dropout_epochs": args.word_dropout_epochs if args.word_dropout else None,
        "focus_words": args.focus_words,
        "focus_source_words": args.focus_source_words,
        "seed": args.seed,
        "precision": "bfloat16 autocast" if args.bf16 else "float32",
        "float32_matmul_precision": args.float32_matmul_precision,
        "threads": torch.get_num_threads(),
        "cpu_seconds": round(cpu_seconds, 1),
        "metrics": metrics,
        "loss_curve": [
            {key: entry[key] for key in ("step", "loss", "eval_loss", "eval_s_bleu", "eval_d_bleu") if key in entry}
            for entry in trainer.state.log_history
            if "loss" in entry or "eval_loss" in entry
        ],
        "run": run_info(argv),
    }


def command() -> None:
    """Run the command `docmt-train`, whose exit status is not what `main` returns."""
    main()


if __name__ == "__main__":
    command()
