"""Reports on windows: drift of alignments, receptive fields, and attention paid to the aligned sentence."""

import json

import pytest
import torch
from transformers import MarianConfig

from modeling_docmt import DocMTConfig
from training import alignment_report, attention_share
from training.alignment_report import drift, receptive_field


@pytest.fixture
def save(make_model, tokenizer, tmp_path):
    def save_model(system, **changes):
        make_model(system, **changes).save_pretrained(tmp_path / "model")
        tokenizer.save_pretrained(tmp_path / "model")
        return str(tmp_path / "model")

    return save_model


def test_receptive_fields_are_those_of_the_paper():
    config = DocMTConfig.from_system("window-attn", window_size=20)
    assert receptive_field(config) == {"headline": 360, "encoder": 120, "decoder": 120, "source": 140}


def test_drift_is_counted_from_the_sentence_and_hits_are_windows_that_reach_it():
    # fails if separators belong to the sentence behind them, or if the drift is signed
    config = DocMTConfig.from_system("window-attn", window_size=1)
    sep, eos = config.sep_token_id, config.eos_token_id
    # source sentences of 3 and 5 tokens, target sentences of 5 and 3, closing tokens included
    sequences = [([300, 301, sep, 302, 303, 304, 305, eos], [310, 311, 312, 313, sep, 314, 315, eos])]
    report = drift(sequences, "one2one", config)
    # sent-align restarts at 3 where the target is at 5; before, both are the same
    assert report["mean"] == pytest.approx(3 * 2 / 8)
    # the fifth query is at 4, whose window 3..5 has left the first sentence 0..2
    assert report["hit_rate"] == pytest.approx(7 / 8)
    assert drift(sequences, "sent-align", config)["mean"] == 0
    assert drift(sequences, "sent-linear", config)["hit_rate"] == 1


def test_the_alignment_report_has_one_entry_an_alignment(save, toy_corpus, tmp_path, capsys):
    output = tmp_path / "report.json"
    alignment_report.main(["--model", save("window-attn"), "--data", str(toy_corpus), "--output", str(output)])
    entries = json.loads(output.read_text())["entries"]
    assert [entry["alignment"] for entry in entries] == ["one2one", "linear", "ratio", "sent-align", "sent-linear"]
    assert all(0 < entry["hit_rate"] <= 1 for entry in entries)
    assert "hit rate" in capsys.readouterr().out


SHARES = {
    "sentence-level": {},
    "concat-adj": {},
    "concat-document": {},
    "lst-attn": {},
    "window-attn": {},
    "p-transformer": {"relative_distances": 4},
    # a layer whose cross-attention sees one sentence, and one whose gate mixes it with all
    "g-transformer": {"global_layers": 1},
    "global-local": {},
}


@pytest.mark.parametrize("system", SHARES)
def test_the_attention_share_of_one_sentence_is_all_and_of_several_is_less(save, system, toy_corpus, tmp_path):
    # fails if the sentence of a query is that of its input, or if queries of context count
    output = tmp_path / "share.json"
    flags = ["--model", save(system, **SHARES[system]), "--data", str(toy_corpus), "--target", "reference"]
    attention_share.main([*flags, "--output", str(output), "--max_documents", "4"])
    [entry] = json.loads(output.read_text())["entries"]
    [first, second] = entry["share_per_layer"]
    if system in ("sentence-level", "global-local"):
        assert first == second == entry["share"] == pytest.approx(100, abs=1e-3)
    elif system == "g-transformer":
        # half of the heads of the gated layer see the sentence alone
        assert first == pytest.approx(100, abs=1e-3) and 50 < second < 90
    else:
        assert 0 < first < 99 and 0 < second < 99
    attention_share.main([*flags, "--output", str(output), "--max_sentences", "1"])
    [entry] = json.loads(output.read_text())["entries"]
    # in a context window, <bod> stands before the first sentence
    assert (entry["share"] == pytest.approx(100, abs=1e-3)) == (system != "concat-adj")


def test_every_query_of_a_translated_sentence_counts_once(make_model):
    """Whatever the format; fails if sentences of context count, or those of a part that is not the first."""
    source, target = [[300, 301], [], [302], [303, 304, 305]], [[310], [313], [311, 312], [314]]
    for system, changes in (
        ("sentence-level", {}),
        ("sentence-level", {"sequence_format": "source_context", "context_sentences": 2}),
        ("concat-adj", {}),
        ("concat-document", {"max_part_sentences": 2}),
        ("global-local", {"max_part_sentences": 1}),
    ):
        model = make_model(system, **changes)
        model.set_attn_implementation("eager")
        # words and closing tokens of the three that have a source
        assert attention_share.attention_share(model, [(source, target)]).queries == 2 + 3 + 2


def test_a_model_of_another_kind_is_refused(tmp_path):
    MarianConfig(vocab_size=32, d_model=16).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds a 'marian', and attention of DocMT models is read"):
        attention_share.load_eager_model(str(tmp_path))


def test_the_attention_share_reads_the_reference_where_the_count_is_wrong(save, toy_corpus, tmp_path):
    output = tmp_path / "share.json"
    folder = save("concat-document", max_part_tokens=60)
    flags = ["--model", folder, "--data", str(toy_corpus), "--output", str(output), "--max_documents", "3"]
    attention_share.main(flags)
    [entry] = json.loads(output.read_text())["entries"]
    assert 0 <= entry["documents_that_read_the_reference"] <= entry["documents"] == 3


def test_shares_over_all_source_sentences_sum_to_all(make_model):
    # INV-G6
    model = make_model("concat-document")
    model.set_attn_implementation("eager")
    config = model.config
    ids = torch.tensor([[300, 301, config.sep_token_id, 302, config.eos_token_id]])
    start = torch.tensor([[config.decoder_start_token_id, 310, config.sep_token_id, 311]])
    weights = model(input_ids=ids, decoder_input_ids=start, output_attentions=True, use_cache=False).cross_attentions
    total = 0.0
    for sentence in range(2):
        share = attention_share.Share(torch.zeros(2, dtype=torch.float64))
        same = (torch.tensor([0, 0, 0, 1, 1]) == sentence).expand(4, -1)
        share.add(tuple(layer[0] for layer in weights), same)
        total += sum(share.per_layer) / 2
    assert total == pytest.approx(100, abs=1e-3)
