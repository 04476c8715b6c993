"""Training by the real command on the toy documents."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from modeling_docmt import SYSTEMS, DocMTConfig, DocMTForConditionalGeneration, DocMTTokenizer
from training.arguments import (
    DataArguments,
    ModelArguments,
    TrainingArguments,
    parse_arguments,
    parse_config_overrides,
)
from training.train import main


SHAPE = "d_model=16,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,decoder_attention_heads=2"
SHAPE += ",encoder_ffn_dim=32,decoder_ffn_dim=32"


@pytest.fixture(scope="module")
def tokenizer_folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def train(tokenizer_folder, toy_corpus, tmp_path):
    def run(name="run", **options):
        settings = {
            "system": "sentence-level",
            "config_overrides": SHAPE,
            "tokenizer_name": tokenizer_folder,
            "train_file": toy_corpus,
            "output_dir": tmp_path / name,
            "train_batch_tokens": 150,
            "max_steps": 6,
            "warmup_steps": 2,
            "logging_steps": 1,
            "save_strategy": "no",
            "use_cpu": True,
            "report_to": "none",
            "disable_tqdm": True,
            **options,
        }
        flags = [text for key, value in settings.items() for text in (f"--{key}", str(value))]
        return main(flags), tmp_path / name

    return run


def weights(folder):
    return load_file(folder / "model.safetensors")


def test_a_run_stopped_and_resumed_equals_the_uninterrupted_one(train):
    whole = train("whole", save_strategy="steps", save_steps=3)[1]
    # the schedule of six updates, stopped after three: the folder holds what a killed run leaves
    stopped = train("stopped", save_strategy="steps", save_steps=3)[1]
    shutil.rmtree(stopped / "checkpoint-6")
    (stopped / "model.safetensors").unlink()
    results, resumed = train("stopped", save_strategy="steps", save_steps=3, resume_from_checkpoint=True)
    assert results["updates"] == 6
    for name, tensor in weights(whole).items():
        assert torch.equal(weights(resumed)[name], tensor), name


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_trains_and_leaves_a_model_that_loads(train, toy_documents, system):
    results, folder = train(system, system=system, max_steps=3)
    model = DocMTForConditionalGeneration.from_pretrained(folder)
    tokenizer = DocMTTokenizer.from_pretrained(folder)
    assert model.config.system == system and model.config.source_lang == "en"
    assert model.generation_config.decoding == model.config.default_decoding
    assert 0.3 < model.config.train_ratio < 3
    ids = model.generate(**tokenizer([["Hello.", "You."]], return_tensors="pt", padding=True), max_sentence_tokens=4)
    assert len(tokenizer.decode_documents(ids)[0]) == 2
    assert results["updates"] == 3 and results["system"] == system
    assert results["run"]["command"].count("--output_dir")
    assert json.loads((folder / "results.json").read_text())["parameters"] == results["parameters"]


@pytest.mark.parametrize(
    ("system", "changes"),
    [
        ("window-attn", "window_size=2"),
        ("window-attn", "window_size=2,training_alignment=sent-align,position_encoding=sinusoidal"),
        ("lst-attn", "lst_mode=heads"),
    ],
)
def test_windows_and_views_train_on_documents_and_are_evaluated(train, toy_corpus, system, changes):
    # fails if the batches do not say where targets end, or if a mask is lost to checkpointing
    results, folder = train(
        system,
        system=system,
        config_overrides=f"{SHAPE},{changes}",
        max_steps=2,
        validation_file=toy_corpus,
        eval_strategy="steps",
        eval_steps=2,
        max_eval_samples=2,
        activation_checkpointing=True,
    )
    assert results["updates"] == 2 and 0 < results["metrics"]["eval_loss"] < 20
    if system == "window-attn":
        config = DocMTConfig.from_pretrained(folder)
        assert config.window_size == 2
        assert ("relative_keys" in " ".join(weights(folder))) is (config.position_encoding == "relative")


def test_evaluation_translates_documents_and_reports_both_bleus(train, toy_corpus):
    results, _ = train(
        validation_file=toy_corpus,
        eval_strategy="steps",
        eval_steps=3,
        predict_with_generate=True,
        max_eval_samples=2,
        max_steps=3,
    )
    assert {"eval_loss", "eval_s_bleu", "eval_d_bleu", "eval_chrf"} <= set(results["metrics"])


def test_training_stops_early_without_improvement(train, toy_corpus):
    results, _ = train(
        validation_file=toy_corpus,
        eval_strategy="steps",
        save_strategy="steps",
        eval_steps=1,
        save_steps=1,
        learning_rate=0.0,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        early_stopping_patience=2,
    )
    assert results["updates"] < 6


def test_weights_of_another_system_are_the_start(train):
    _, sentence = train("sentence", max_steps=2)
    _, document = train("document", system="concat-adj", init_from=sentence, learning_rate=0.0, max_steps=1)
    assert DocMTConfig.from_pretrained(document).system == "concat-adj"
    for name, tensor in weights(sentence).items():
        assert torch.equal(weights(document)[name], tensor), name


def test_a_converted_sentence_level_model_can_produce_separators_again(make_model, tokenizer, train, tmp_path):
    converted = make_model(use_final_logits_bias=True)
    converted.final_logits_bias[:, tokenizer.sep_token_id] = -100.0
    converted.save_pretrained(tmp_path / "converted")
    _, document = train("document", system="concat-adj", config_overrides="", init_from=tmp_path / "converted")
    assert weights(document)["final_logits_bias"][0, tokenizer.sep_token_id] == 0


def test_a_marian_peer_of_the_same_size_trains_on_the_same_data(train):
    ours, _ = train("ours", max_steps=2)
    marian, folder = train("marian", architecture="marian", max_steps=2)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "marian"
    assert marian["train_target_tokens"] == ours["train_target_tokens"]
    assert marian["parameters"] == ours["parameters"]


def test_two_runs_with_one_seed_give_the_same_weights_and_another_seed_others(train):
    first, again = (weights(train(name, max_steps=2)[1]) for name in ("first", "again"))
    other = weights(train("other", max_steps=2, seed=7)[1])
    assert all(torch.equal(tensor, again[name]) for name, tensor in first.items())
    assert not all(torch.equal(tensor, other[name]) for name, tensor in first.items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "marian", "system": "concat-adj"}, "sentence-level"),
        ({"eval_strategy": "steps"}, "`validation_file` is needed"),
        ({"resume_from_checkpoint": True}, "no checkpoint"),
        ({"config_overrides": "d_modle=16"}, "Did you mean `d_model`"),
        ({"train_file": "$NO_SUCH_FOLDER/x.jsonl"}, "environment variable"),
    ],
)
def test_what_cannot_work_is_refused_before_training(train, options, message):
    with pytest.raises(ValueError, match=message):
        train(**options)


def test_a_yaml_file_gives_defaults_that_flags_override(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("system: concat-adj\ntrain_file: [a.jsonl, b.jsonl]\nlearning_rate: 0.01\nuse_cpu: true\n")
    model_args, data_args, args = parse_arguments(
        [str(path), "--learning_rate", "0.02"], [ModelArguments, DataArguments, TrainingArguments]
    )
    assert model_args.system == "concat-adj" and data_args.train_file == ["a.jsonl", "b.jsonl"]
    assert args.learning_rate == 0.02 and args.use_cpu


def test_a_misspelled_key_of_the_file_is_refused_with_the_nearest_name(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("learning_rte: 0.01\n")
    with pytest.raises(ValueError, match="Did you mean `learning_rate`"):
        parse_arguments([str(path)], [ModelArguments, DataArguments, TrainingArguments])


def test_config_overrides_get_the_types_of_the_fields():
    overrides = parse_config_overrides("d_model=16,normalize_before=true,dropout=0.0,max_part_tokens=null")
    assert overrides == {"d_model": 16, "normalize_before": True, "dropout": 0.0, "max_part_tokens": None}
