"""Probes of encoders and sentences alone, for models that learned a synthetic task."""

import functools
from collections import Counter

import pytest
import torch

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from training.synthetic_cipher import CipherTask
from training.synthetic_discourse import RELATIVES, DiscourseTask
from training.synthetic_documents import WordVocabulary, documents_of_words, make_documents
from training.synthetic_measures import ProbePlan, probe_encoder, sentences_alone, translate_sentences_alone
from training.synthetic_report import probe_summary_table, summarize


DISCOURSE = DiscourseTask(sentences=6, distances=[1, 2])
CIPHER = CipherTask(sentences=4, vocabulary=12)
PLAN = ProbePlan(words=800, test_words=300, updates=80, batch_tokens=256, learning_rate=0.03, max_distance=5)


def tiny_model(system: str, vocabulary: WordVocabulary, **changes) -> DocMTForConditionalGeneration:
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    sizes = {"d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "dropout": 0.0, "max_part_tokens": None}
    torch.manual_seed(1)
    fields = {**layers, **sizes, **vocabulary.config_fields(), **changes}
    return DocMTForConditionalGeneration(DocMTConfig.from_system(system, **fields))


def test_sentences_alone_are_those_that_need_no_other():
    """Fails if an open sentence stays, or if a mark keeps the number that its sentence had in the document."""
    documents = list(make_documents(DISCOURSE, "evaluation", 30))
    alone = sentences_alone(documents)
    kept = Counter(str(document.source[0]) for document in alone)
    for document in documents:
        for index, sentence in enumerate(document.source):
            is_open = any(mark.sentence == index and mark.phenomenon != "control" for mark in document.marks)
            # "it", "you" and the second mention of a term are what others answer
            if is_open:
                continue
            assert not {"it", "you"} & set(sentence)
            kept[str(sentence)] -= 1
    assert set(kept.values()) == {0}
    controls = [(document, mark) for document in alone for mark in document.marks]
    assert controls
    for document, mark in controls:
        assert (mark.phenomenon, mark.sentence) == ("control", 0)
        assert document.target[0][mark.word] in RELATIVES.values()


@pytest.mark.parametrize("system", ["sentence-level", "concat-adj", "global-local", "mr-doc2doc"])
def test_every_word_of_a_sentence_alone_is_asked_and_those_left_out_are_counted(system):
    documents = list(make_documents(DISCOURSE, "evaluation", 6))
    vocabulary = WordVocabulary(DISCOURSE.words())
    found = translate_sentences_alone(tiny_model(system, vocabulary), documents, vocabulary, batch_tokens=256)
    alone = sentences_alone(documents)
    words = sum(len(document.target[0]) for document in alone)
    assert found["count"] == len(alone) == found["translated"]["sentences"]["count"]
    assert found["count"] + found["left_out"] == 6 * DISCOURSE.sentences
    assert found["read"]["words"]["count"] == found["translated"]["words"]["count"] == words
    assert found["read"].keys() == {"words", "control"}


def test_without_a_sentence_that_stands_alone_there_is_an_error():
    vocabulary = WordVocabulary(DISCOURSE.words())
    with pytest.raises(ValueError, match="no sentence of the evaluation documents"):
        translate_sentences_alone(tiny_model("sentence-level", vocabulary), [], vocabulary, batch_tokens=64)


def test_documents_are_the_first_with_so_many_words():
    documents = documents_of_words(CIPHER, "train", 100)
    counts = [sum(map(len, document.target)) for document in documents]
    assert sum(counts[:-1]) < 100 <= sum(counts)
    assert list(documents) == list(make_documents(CIPHER, "train", len(documents)))


@functools.cache
def probe(system: str, **changes) -> dict:
    vocabulary = WordVocabulary(CIPHER.words())
    model = tiny_model(system, vocabulary, **changes)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    found = probe_encoder(model, CIPHER, vocabulary, PLAN, seed=3)
    assert model.training
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    return found


def test_probes_find_positions_where_they_are_and_nothing_where_they_are_not():
    """Fails if probes are trained on other documents than their labels, or on labels alone."""
    found, without = probe("concat-document"), probe("window-attn", window_size=3)
    assert [layer["layer"] for layer in found["layers"]] == [0, 1]
    assert found["updates"] == PLAN.updates
    first, nothing = found["layers"][0], without["layers"][0]
    assert first["absolute"]["tolerance_accuracy"] > 80
    # words alone, without sinusoids
    assert nothing["absolute"]["tolerance_accuracy"] < 50
    assert first["order"]["accuracy"] > nothing["order"]["accuracy"]
    splits = found["data"]
    assert splits["train"]["items"] > PLAN.words > splits["test"]["items"] > PLAN.test_words


def test_a_system_of_sentences_is_probed_on_sentences():
    """Fails if documents are probed in another format than that of the system."""
    found, whole = probe("sentence-level"), probe("concat-document")
    for split in found["data"]:
        assert found["data"][split]["sequences"] == CIPHER.sentences * whole["data"][split]["sequences"]
    assert found["num_positions"] == CIPHER.max_words + 1 < whole["num_positions"]


def test_summaries_have_probes_by_layer_and_sentences_alone():
    layers = [
        {
            "layer": number,
            "absolute": {"accuracy": 40.0, "tolerance_accuracy": 60.0},
            "relative": {"accuracy": 20.0, "by_distance": [10.0, 30.0]},
            "order": {"accuracy": 70.0, "by_distance": [None, 50.0]},
        }
        for number in range(2)
    ]
    entry = {"words": {"count": 2, "accuracy": 0.5}}
    run = {"setting": "a", "system": "b", "parameters": 7, "cpu_seconds": 1.0}
    run |= {"final": {"read": entry, "translated": entry}, "probe": {"layers": layers, "distances": [-1, 1]}}
    plain = summarize([run | {"probe": {"layers": [], "distances": []}}])
    (row,) = summarize([run | {"single_sentences": {"count": 1, "left_out": 0, "read": entry, "translated": entry}}])
    assert row["probe_absolute_layer_0"] == row["probe_absolute_layer_1"] == 40.0
    assert row["probe_within_3_layer_1_range"] == [60.0, 60.0]
    assert (row["probe_relative_at_1_layer_1"], row["probe_order_at_1_layer_1"]) == (20.0, 50.0)
    assert (row["single_words"], row["translated_single_words"]) == (50.0, 50.0)
    assert {name: value for name, value in row.items() if "probe" not in name and "single" not in name} == plain[0]
    table = probe_summary_table([row]).splitlines()
    assert table[0].split()[:4] == ["setting", "system", "layer", "absolute"] and len(table) == 3
    assert probe_summary_table(plain) == ""


def test_bad_plans_are_refused():
    with pytest.raises(ValueError, match="`updates` of `probe` must be positive, got 0"):
        ProbePlan(updates=0)
    with pytest.raises(ValueError, match="`combination` of `probe` must be one of 'difference', 'mlp', got 'sum'"):
        ProbePlan(combination="sum")
