"""What Transformers promises of a saved model holds for every system: dtypes, devices, shards, ties, copies."""

import copy
import json
import pickle

import pytest
import torch
from decoding_models import batch, tiny_model
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from modeling_docmt import SYSTEMS, DocMTConfig, DocMTForConditionalGeneration


every_system = pytest.mark.parametrize("system", list(SYSTEMS))
DOCUMENTS = [[[22, 23], [24]], [[25, 26, 27]], [[28], [29, 30], [31]]]
PICKLE_SUFFIXES = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}


def inputs_of(model: DocMTForConditionalGeneration) -> dict[str, torch.Tensor]:
    """Three documents of different lengths, translated into themselves."""
    inputs = batch(DOCUMENTS, model.config)
    return {**inputs, "labels": inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)}


@torch.no_grad()
def logits_of(model: DocMTForConditionalGeneration) -> torch.Tensor:
    return model(**inputs_of(model)).logits


def counts_of(output) -> list[int]:
    return [len(sentences) for sentences in output.sentences]


@pytest.mark.parametrize(
    ("system", "tied"), [*((system, True) for system in SYSTEMS), ("sentence-level", False), ("window-attn", False)]
)
def test_a_model_in_shards_loads_bit_for_bit_in_every_stock_way(system, tied, tmp_path):
    model = tiny_model(system, dtype=torch.float32, tie_word_embeddings=tied)
    model.save_pretrained(tmp_path, max_shard_size="6KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert not [path.name for path in tmp_path.iterdir() if path.suffix in PICKLE_SUFFIXES]
    weights, logits = model.state_dict(), logits_of(model)
    ways: list[dict] = [{}, {"dtype": "auto"}, {"device_map": "cpu"}, {"device_map": "auto"}]
    for options in (*ways, {"low_cpu_mem_usage": True}):
        loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, **options)
        assert loaded.state_dict().keys() == weights.keys()
        for name, weight in loaded.state_dict().items():
            assert torch.equal(weight, weights[name]), (options, name)
        assert (loaded.lm_head.weight is loaded.model.shared.weight) == tied
        assert torch.equal(logits_of(loaded), logits), options


@every_system
def test_halves_load_and_translate_every_sentence(system, tmp_path):
    model = tiny_model(system, dtype=torch.float32)
    for parameter in model.parameters():
        parameter.data.mul_(0.5)  # the weights of tiny_model are large, and rounding shows
    model.save_pretrained(tmp_path)
    exact, places = logits_of(model), inputs_of(model)["labels"] != -100
    for dtype, tolerance in ((torch.float16, 0.02), (torch.bfloat16, 0.15)):
        loaded = DocMTForConditionalGeneration.from_pretrained(tmp_path, dtype=dtype)
        assert {weight.dtype for weight in loaded.parameters()} == {dtype}
        assert torch.equal(logits_of(loaded), logits_of(copy.deepcopy(model).to(dtype)))
        error = (logits_of(loaded).float() - exact)[places].abs().max()
        assert 0 < error < tolerance * exact[places].abs().max()
        for options in ({"num_beams": 3}, {"decoding": "sentence"}):
            output = loaded.generate(**batch(DOCUMENTS, model.config), return_dict_in_generate=True, **options)
            assert counts_of(output) == [2, 1, 3]
            assert all(torch.isfinite(torch.tensor(scores)).all() for scores in output.sentence_scores)


@every_system
def test_nothing_but_the_state_dict_is_needed_behind_the_meta_device(system):
    # a table in a buffer that is not saved would stay uninitialised
    model = tiny_model(system, dtype=torch.float32)
    with torch.device("meta"):
        empty = DocMTForConditionalGeneration(model.config)
    assert {weight.device.type for weight in (*empty.parameters(), *empty.buffers())} == {"meta"}
    assert {name for name, _ in empty.named_buffers()} <= model.state_dict().keys()
    empty = empty.to_empty(device="cpu").eval()
    for weight in (*empty.parameters(), *empty.buffers()):
        weight.data.fill_(float("nan"))
    empty.load_state_dict(model.state_dict())
    empty.tie_weights()
    assert torch.equal(logits_of(empty), logits_of(model))


@every_system
def test_models_are_built_from_a_configuration_and_copied(system):
    config = tiny_model(system).config
    model = AutoModelForSeq2SeqLM.from_config(config)
    assert type(model) is DocMTForConditionalGeneration
    assert model.get_encoder() is model.model.encoder and model.get_decoder() is model.model.decoder
    loss = model(**inputs_of(model)).loss
    loss.backward()
    assert torch.isfinite(loss) and all(torch.isfinite(p.grad).all() for p in model.parameters())
    twin = copy.deepcopy(model).eval()
    assert twin.lm_head.weight is twin.model.shared.weight is not model.model.shared.weight
    assert torch.equal(logits_of(twin), logits_of(model.eval()))


@every_system
def test_a_configuration_is_the_same_behind_json_and_in_another_process(system, tmp_path):
    config = DocMTConfig.from_system(system, source_lang="en", target_lang="de", window_size=7)
    config.save_pretrained(tmp_path)
    others = [
        copy.deepcopy(config),
        pickle.loads(pickle.dumps(config)),  # what `datasets` and `multiprocessing` hand to their workers
        DocMTConfig.from_dict(json.loads(config.to_json_string(use_diff=False))),
        AutoConfig.from_pretrained(tmp_path),
    ]
    for other in others:
        assert type(other) is DocMTConfig
        other._name_or_path = ""  # where it was loaded from
        assert other.to_dict() == config.to_dict()
