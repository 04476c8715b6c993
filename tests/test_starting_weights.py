import pytest
import torch

from training.starting_weights import load_starting_weights, separator_from_eos, summarize_names


@pytest.fixture(scope="module")
def start(make_model, tmp_path_factory):
    """Folders of a sentence-level model with tied and with untied embeddings."""
    folders = {}
    for is_tied in (True, False):
        folders[is_tied] = tmp_path_factory.mktemp("start")
        make_model(seed=1, tie_word_embeddings=is_tied).save_pretrained(folders[is_tied])
    return folders


def test_names_of_layers_are_summed_up():
    names = [*(f"a.layers.{index}.fc1.{kind}" for kind in ("weight", "bias") for index in (0, 1, 2, 5))]
    names += ["b.weight", "a.layers.3.fc2.bias", "final_logits_bias", "a.layers.10.keys"]
    assert summarize_names(names) == [
        "a.layers.0-2,5.fc1",
        "b",
        "a.layers.3.fc2",
        "final_logits_bias",
        "a.layers.10.keys",
    ]
    assert summarize_names([]) == []


@pytest.mark.parametrize("is_tied", [True, False])
def test_the_encoder_alone_is_loaded_and_tied_embeddings_come_along(start, make_model, is_tied):
    """Fails if a layer of the decoder is loaded, or if the matrix that the encoder shares counts as fresh."""
    model = make_model("concat-adj", seed=2, tie_word_embeddings=is_tied)
    earlier = make_model(seed=1, tie_word_embeddings=is_tied).state_dict()
    fresh = {name: weight.clone() for name, weight in model.state_dict().items()}
    result = load_starting_weights(model, start[is_tied], "encoder")
    shared = {"model.shared.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
    for name, weight in model.state_dict().items():
        is_loaded = name.startswith("model.encoder.") or (is_tied and name in shared)
        assert torch.equal(weight, (earlier if is_loaded else fresh)[name]), name
    assert ("model.shared.weight" in result.loaded) is is_tied
    assert ("lm_head.weight" in result.fresh) is not is_tied
    assert not any(name.startswith("model.decoder.layers") for name in result.loaded)
    assert any(name.startswith("model.decoder.layers") for name in result.unused)
    summary = result.summary(model)
    assert summary["loaded_parameters"] + summary["fresh_parameters"] == sum(p.numel() for p in model.parameters())
    assert "model.encoder.layers.0-1.fc1" in summary["loaded"]


def test_what_a_system_adds_is_fresh_and_the_rest_is_loaded(start, make_model):
    model = make_model("window-attn", window_size=2)
    result = load_starting_weights(model, start[True])
    assert result.summary(model)["fresh"] == [
        f"model.{side}.layers.0-1.self_attn.relative_keys" for side in ("encoder", "decoder")
    ]
    assert set(result.loaded) <= {name for name, _ in model.named_parameters()} and not result.unused


@pytest.mark.parametrize("is_tied", [True, False])
def test_the_separator_begins_as_the_end_of_a_sentence_in_all_tables(make_model, is_tied):
    """Fails if the output layer or the decoder's own embeddings keep what they had, or if another row changes."""
    model = make_model("concat-document", tie_word_embeddings=is_tied)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    separator_from_eos(model)
    tables = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
    for name, weight in model.state_dict().items():
        expected = before[name]
        if name in tables or name == "model.shared.weight":
            expected[model.config.sep_token_id] = expected[model.config.eos_token_id]
        assert torch.equal(weight, expected), name
    assert tables <= set(before)


def test_separators_that_must_differ_do_not_begin_alike(make_model):
    for system, named in (("sentence-level", "'sentence'"), ("p-transformer", "`indexed_separators=True`")):
        with pytest.raises(ValueError, match=f"formats with one separator: leave it out, got .*{named}"):
            separator_from_eos(make_model(system))


def test_unknown_parts_are_refused(start, make_model):
    with pytest.raises(ValueError, match="`parts` must be one of 'all', 'encoder', got 'decoder'"):
        load_starting_weights(make_model(), start[True], "decoder")
