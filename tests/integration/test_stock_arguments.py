"""
The options of `training.train` beside those of `run_translation.py`, the translation example of Transformers.

What has the same name means the same: `SAME`. What means something else has another name or is listed with the reason
in `DIFFERENT`; what we have no need of is in `ABSENT`. The three together are all options of that script.
"""

import json
import typing
from dataclasses import MISSING, fields

import pytest
from transformers import Seq2SeqTrainingArguments

from training.arguments import DataArguments, ModelArguments, TrainingArguments
from training.corpus_formats import read_translation_documents


# of run_translation.py: type and default
SAME = {
    "tokenizer_name": (str, None),
    "source_lang": (str, None),
    "target_lang": (str, None),
    "train_file": (str, None),
    "validation_file": (str, None),
    "preprocessing_num_workers": (int, None),
    "max_train_samples": (int, None),
    "max_eval_samples": (int, None),
}
DIFFERENT = {
    "model_name_or_path": "`init_from`: the weights of another model, for the system that `system` names",
    "config_name": "`system` and `config_overrides`",
    "num_beams": "`generation_num_beams`, an argument of Seq2SeqTrainer",
    "max_source_length": "same name: longer sequences are left out and counted, not cut; default: no limit",
    "max_target_length": "same name: longer sequences are left out and counted, not cut; default: no limit",
    "val_max_target_length": "`max_sentence_tokens` of the generation config: a bound for each sentence",
    "test_file": "`training.evaluate --data`",
    "max_predict_samples": "`training.evaluate --max_documents`",
    "source_prefix": "a multilingual source begins with what the corpus has there",
}
ABSENT = {
    "cache_dir": "HF_HOME",
    "dataset_name": "`training.prepare_corpus` reads files",
    "dataset_config_name": "`training.prepare_corpus` reads files",
    "overwrite_cache": "model sequences are not cached",
    "pad_to_max_length": "batches are padded to their longest row",
    "ignore_pad_token_for_loss": "padding never counts",
    "forced_bos_token": "models of one language pair",
    "use_fast_tokenizer": "there is one kind",
    "model_revision": "folders have no revisions",
    "token": "HF_TOKEN",
    "trust_remote_code": "the code is ours",
}
OURS = {f.name: f for kind in (ModelArguments, DataArguments) for f in fields(kind)}


@pytest.mark.parametrize("name", SAME)
def test_options_of_the_same_name_have_the_same_type_and_default(name):
    kind, default = SAME[name]
    ours = OURS[name]
    hints = typing.get_type_hints(DataArguments if name in DataArguments.__dataclass_fields__ else ModelArguments)
    if hints[name] == list[str]:
        # one file or several; none by default
        assert kind is str and ours.default_factory() == []
    else:
        assert hints[name] == kind | None and ours.default is default


def test_options_that_differ_are_named_and_no_other_is_shared():
    assert not SAME.keys() & (DIFFERENT.keys() | ABSENT.keys()) and not DIFFERENT.keys() & ABSENT.keys()
    same_name = {name for name in DIFFERENT if name in OURS}
    assert same_name == {"max_source_length", "max_target_length"}
    assert not ABSENT.keys() & OURS.keys()
    for name in same_name:
        assert OURS[name].default is None and "Leave out" in OURS[name].metadata["help"]


def test_training_arguments_are_those_of_the_stock_trainer_and_more():
    stock = {f.name: f for f in fields(Seq2SeqTrainingArguments)}
    ours = {f.name: f for f in fields(TrainingArguments)}
    assert stock.keys() <= ours.keys()

    def default(f):
        return f.default if f.default_factory is MISSING else f.default_factory()

    changed = {name for name in stock if default(stock[name]) != default(ours[name])}
    # defaults of the papers, and where a run goes
    assert changed == {
        *("output_dir", "learning_rate", "warmup_steps", "lr_scheduler_type", "adam_beta2"),
        *("label_smoothing_factor", "report_to", "generation_num_beams"),
    }


def test_json_of_run_translation_becomes_documents(tmp_path, toy_documents):
    path = tmp_path / "train.json"
    pairs = [
        {"translation": {"en": source, "de": target}, "doc_id": record["id"]}
        for record in toy_documents
        for source, target in zip(record["src"], record["tgt"], strict=True)
    ]
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    records = list(read_translation_documents(path, source_lang="en", target_lang="de", id_key="doc_id"))
    assert [record["id"] for record in records] == [record["id"] for record in toy_documents]
    stripped = [[sentence.strip() for sentence in record["tgt"]] for record in toy_documents]
    assert [record["tgt"] for record in records] == stripped
    single = list(read_translation_documents(path, source_lang="en", target_lang="de"))
    assert [len(record["src"]) for record in single] == [1] * len(pairs)
