"""Training by the real command on the toy documents."""

import json
import shutil

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file

from modeling_docmt import SYSTEMS, DocMTConfig, DocMTForConditionalGeneration, DocMTTokenizer
from modeling_docmt.loss_docmt import translation_loss
from training.arguments import (
    DataArguments,
    ModelArguments,
    TrainingArguments,
    parse_arguments,
    parse_config_overrides,
)
from training.data import encode_corpus
from training.results import sha256_of_file
from training.train import build_config, encode_documents, main
from training.trainer import DocMTTrainer, scaled_groups


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


@pytest.fixture(scope="module")
def start(make_model, tmp_path_factory):
    """Folder of a sentence-level model, the start of others."""
    folder = tmp_path_factory.mktemp("start")
    make_model().save_pretrained(folder)
    return folder


def weights(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("is_transfer", [False, True], ids=["plain", "transfer"])
def test_a_run_stopped_and_resumed_equals_the_uninterrupted_one(train, start, is_transfer):
    # the second fails if words are drawn from a generator that is not saved, or learning rates are not
    options = {"save_strategy": "steps", "save_steps": 3}
    if is_transfer:
        # of eight batches in an epoch: the words come back between the stop and the end
        options |= {"config_overrides": "", "init_from": start, "init_parts": "encoder", "loaded_lr_scale": 0.2}
        options |= {"word_dropout": 0.3, "word_dropout_epochs": 0.6}
    whole = train("whole", **options)[1]
    # the schedule of six updates, stopped after three: the folder holds what a killed run leaves
    stopped = train("stopped", **options)[1]
    shutil.rmtree(stopped / "checkpoint-6")
    (stopped / "model.safetensors").unlink()
    results, resumed = train("stopped", **options, resume_from_checkpoint=True)
    assert results["updates"] == 6
    for name, tensor in weights(whole).items():
        assert torch.equal(weights(resumed)[name], tensor), name


def test_a_folder_of_another_run_is_neither_mixed_in_nor_written_over(train):
    """Fails if a stopped run goes on from the weights of one before it in the same folder."""
    options = {"save_strategy": "steps", "save_steps": 3}
    folder = train("one", **options)[1]
    before = weights(folder)
    with pytest.raises(ValueError, match="has checkpoints of an earlier run.*Name another folder"):
        train("one", system="concat-adj", **options)
    message = "checkpoint-6 is of another run, with context_sentences=0 in place of 2"
    with pytest.raises(ValueError, match=message):
        train("one", system="concat-adj", resume_from_checkpoint=True, **options)
    for name, tensor in weights(folder).items():
        assert torch.equal(before[name], tensor), name


@pytest.mark.parametrize("focus", [None, "der=3"])
@pytest.mark.parametrize("system", ["window-attn", "concat-adj"])
def test_the_loss_is_that_of_all_logits_though_padding_has_none(make_model, tokenizer, tmp_path, system, focus):
    changes = {"window_size": 2} if system == "window-attn" else {"context_loss_weight": 0.25}
    model = make_model(system, **changes)
    options = {"label_smoothing_factor": 0.1, "focus_words": focus, "use_cpu": True, "report_to": "none"}
    trainer = DocMTTrainer(
        model,
        TrainingArguments(output_dir=str(tmp_path), **options),
        format_config=model.config,
        processing_class=tokenizer,
    )
    sep, eos = model.config.sep_token_id, model.config.eos_token_id
    der = tokenizer("der", add_special_tokens=False)["input_ids"]
    rows = [([300, 301, sep, 302, eos], [303, *der, 304, sep, 305, eos]), ([306, eos], [*der, eos])]
    batch = trainer.data_collator([{"input_ids": source, "labels": target} for source, target in rows])
    labels = batch["labels"]
    seen: list = []
    model.lm_head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape[:-1].numel()))
    for is_training in (False, True):
        torch.manual_seed(0)
        loss = trainer.compute_loss(model.train(is_training), dict(batch))
        weights = None
        if focus and is_training:
            weights = torch.where(torch.isin(labels, torch.tensor(der)), 3.0, 1.0)
            assert weights.max() == 3
        inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
        torch.manual_seed(0)
        logits = model(**inputs, alignment=model.config.training_alignment, use_cache=False).logits
        smoothing = 0.1 if is_training else 0.0
        expected = translation_loss(logits, labels, model.config, label_smoothing=smoothing, token_weights=weights)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert seen == [labels.ne(-100).sum(), labels.numel()] * 2


def test_scores_are_of_the_set_whose_documents_were_given(make_model, tokenizer, toy_documents, tmp_path):
    """Fails if a test set is said to have the scores of the validation documents."""
    model = make_model("concat-adj")
    sequences = encode_corpus(Dataset.from_list(toy_documents[:2]), tokenizer, model.config)
    options = {"format_config": model.config, "processing_class": tokenizer}
    options |= {"evaluation_documents": [toy_documents[0]]}
    arguments = TrainingArguments(str(tmp_path), use_cpu=True, report_to="none", predict_with_generate=True)
    trainer = DocMTTrainer(model, arguments, eval_dataset=sequences, **options)
    assert {"eval_loss", "eval_s_bleu"} <= set(trainer.evaluate())
    found = trainer.evaluate(sequences.select([0]), metric_key_prefix="test")
    assert "test_loss" in found and "test_s_bleu" not in found
    with pytest.raises(ValueError, match="`predict` would translate single sequences"):
        trainer.predict(sequences)
    for wrong, message in (
        ({"compute_metrics": print}, "`compute_metrics` is never called"),
        ({"eval_dataset": {"a": sequences}}, "are those of one `eval_dataset`"),
    ):
        with pytest.raises(ValueError, match=message):
            DocMTTrainer(model, arguments, **options, **wrong)


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
    # separators that training has not seen are no part of decoding
    longest = max(len(document["src"]) for document in toy_documents)
    is_set = model.config.indexed_separators or system == "global-local"
    assert model.config.max_part_sentences in (range(2, max(longest, 20) + 1) if is_set else [None])
    assert results["updates"] == 3 and results["system"] == system
    assert results["run"]["command"].count("--output_dir")
    assert json.loads((folder / "results.json").read_text())["parameters"] == results["parameters"]
    assert results["weights_sha256"] == sha256_of_file(folder / "model.safetensors")


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


def test_loaded_weights_learn_at_their_own_rate(train, start, tokenizer):
    """Fails if the scale reaches the fresh decoder, or not all of the loaded encoder."""
    results, document = train(
        "document",
        system="concat-adj",
        config_overrides="",
        init_from=start,
        init_parts="encoder",
        loaded_lr_scale=0.0,
        separator_from_eos=True,
        weight_decay=0.1,
        warmup_steps=0,
        max_steps=2,
        learning_rate=0.01,
    )
    before, after = weights(start), weights(document)
    for name in before:
        if name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight")):
            before[name][tokenizer.sep_token_id] = before[name][tokenizer.eos_token_id]
    for name, tensor in after.items():
        is_loaded = "decoder.layers" not in name
        assert torch.equal(before[name], tensor) is is_loaded, name
    assert results["loaded_lr_scale"] == 0.0
    assert results["starting_weights"]["parts"] == "encoder"
    assert results["starting_weights"]["fresh_parameters"] == sum(
        tensor.numel() for name, tensor in after.items() if "decoder.layers" in name
    )
    assert results["loss_curve"][0]["loss"] > 0


def test_groups_of_the_optimizer_keep_their_weight_decay():
    a, b, c = (torch.nn.Parameter(torch.zeros(1)) for _ in range(3))
    groups = [{"params": [a, b], "weight_decay": 0.1, "lr": 0.5}, {"params": [c], "weight_decay": 0.0, "lr": 0.5}]
    scaled = scaled_groups(groups, {id(b), id(c)}, 0.2)
    assert [([id(p) for p in group["params"]], group["weight_decay"], group["lr"]) for group in scaled] == [
        ([id(a)], 0.1, 0.5),
        ([id(b)], 0.1, 0.1),
        ([id(c)], 0.0, 0.1),
    ]


def test_words_are_hidden_in_training_alone_and_while_it_is_young(train, toy_corpus):
    # fails if evaluation hides words, too, or if `word_dropout_epochs` is not read
    options = {"validation_file": toy_corpus, "eval_strategy": "steps", "max_steps": 1, "learning_rate": 0.0}
    plain, late, hidden = (
        train(name, word_dropout=probability, word_dropout_epochs=epochs, **options)[0]
        for name, probability, epochs in (("plain", 0.0, 30), ("late", 0.9, 0), ("hidden", 0.9, 30))
    )
    first, *others = ([entry["loss"] for entry in r["loss_curve"] if "loss" in entry] for r in (plain, late, hidden))
    assert first == others[0] != others[1]
    assert plain["metrics"]["eval_loss"] == hidden["metrics"]["eval_loss"]
    assert (hidden["word_dropout"], hidden["word_dropout_epochs"]) == (0.9, 30)


def test_focus_words_count_more_in_training_alone(train, toy_corpus):
    # fails if the loss of evaluation is weighted, too, or that of training is not
    options = {"validation_file": toy_corpus, "eval_strategy": "steps", "max_steps": 1, "learning_rate": 0.0}
    plain = train("plain", **options)[0]
    weighted = train("weighted", focus_words="der=9", focus_source_words="the", **options)[0]
    first, other = ([entry["loss"] for entry in r["loss_curve"] if "loss" in entry] for r in (plain, weighted))
    assert other > first
    assert plain["metrics"]["eval_loss"] == weighted["metrics"]["eval_loss"]
    assert (weighted["focus_words"], weighted["focus_source_words"]) == ("der=9", ["the"])


def test_resolutions_multiply_the_training_sequences_and_not_those_of_evaluation(train, start, toy_corpus):
    options = {"validation_file": toy_corpus, "eval_strategy": "steps", "max_steps": 1, "learning_rate": 0.0}
    options |= {"system": "mr-doc2doc", "init_from": start}
    multi, folder = train("multi", **options | {"config_overrides": ""})
    single, _ = train("single", **options | {"config_overrides": "training_resolutions=document"})
    assert multi["training_resolutions"] == "multi" and single["training_resolutions"] == "document"
    assert multi["train_sequences"] > 2 * single["train_sequences"]
    assert multi["metrics"]["eval_loss"] == single["metrics"]["eval_loss"]
    config = DocMTConfig.from_pretrained(folder)
    # fails if the start token of the start, which knows no `<sos>`, is kept
    assert config.decoder_start_token_id == config.sos_token_id == 6


def test_ids_of_the_configuration_are_those_of_the_vocabulary(tokenizer):
    documents = Dataset.from_list([{"src_lang": "en", "tgt_lang": "de"}])
    for system in SYSTEMS:
        config = build_config(ModelArguments(system=system), DataArguments(), tokenizer, documents)
        start = tokenizer.sos_token_id if config.use_sos else tokenizer.bos_token_id
        assert config.decoder_start_token_id == start
        assert (config.mask_token_id, config.num_indexed_separators) == (tokenizer.mask_token_id, 255)


@pytest.mark.parametrize("resolutions", ["document", "multi", "document+sentence"])
def test_training_parts_keep_to_their_own_limit_at_every_resolution(tokenizer, toy_documents, resolutions):
    documents = Dataset.from_list([{k: r[k] for k in ("src", "tgt")} for r in toy_documents])
    config = DocMTConfig.from_system("mr-doc2doc", training_resolutions=resolutions)
    whole = encode_documents(documents, tokenizer, config, DataArguments())
    parts = encode_documents(documents, tokenizer, config, DataArguments(train_part_tokens=40))
    assert max(whole["length"]) > 2 * 40 and config.max_part_tokens == 512
    separators = set(config.separator_ids())
    counts = [len(separators.intersection(row["input_ids"])) for row in parts]
    assert all(row["length"] <= 40 or count == 0 for row, count in zip(parts, counts, strict=True))
    assert max(counts) > 0


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
        ({"resume_from_checkpoint": True}, "no whole checkpoint"),
        ({"init_parts": "encoder"}, "name their checkpoint as `init_from`"),
        ({"loaded_lr_scale": 0.2}, "name their checkpoint as `init_from`"),
        ({"separator_from_eos": True}, "about weights that are loaded"),
        ({"loaded_lr_scale": -1, "init_from": "x"}, "0 or more, got -1.0"),
        ({"word_dropout": 1.0}, "below 1, got 1.0"),
        ({"focus_source_words": "it"}, "`focus_source_words=\\['it'\\]`.*leave the source words out"),
        ({"focus_words": "er"}, "word=weight"),
        ({"architecture": "marian", "init_from": "x"}, "fresh weights"),
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
