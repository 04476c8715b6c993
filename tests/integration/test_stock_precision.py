"""bfloat16 and int8: every sentence is translated, near to what float32 says, and the benchmark measures it."""

import importlib.util
import json

import pytest
import torch

from training.benchmark_precision import PRECISIONS, linear_names, main, to_precision, weight_bytes


needs_torchao = pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")
SMALLER = [
    pytest.param(name, marks=needs_torchao if name.startswith("torchao") else ())
    for name in PRECISIONS
    if name != "float32"
]
DOCUMENTS = [["The door is open.", "Close it."], ["Run!"], ["Who is there?", "It is late.", "Go."]]


@pytest.mark.parametrize("system", ["window-attn", "global-local"])
@pytest.mark.parametrize("precision", SMALLER)
def test_smaller_models_translate_every_sentence_and_stay_near(make_model, tokenizer, precision, system):
    model = make_model(system)
    smaller = to_precision(model, precision)
    inputs = tokenizer(DOCUMENTS, return_tensors="pt", padding=True)
    decoder_ids = torch.tensor([[tokenizer.bos_token_id, 300, 301]] * 3)
    with torch.no_grad():
        mask = torch.ones_like(decoder_ids)
        logits, near = (
            each(**inputs, decoder_input_ids=decoder_ids, decoder_attention_mask=mask, use_cache=False).logits.float()
            for each in (model, smaller)
        )
    # rounding shows, and only rounding
    assert 0 < (near - logits).abs().max() < 0.1 * logits.abs().max()
    for num_beams in (1, 3):
        output = smaller.generate(**inputs, num_beams=num_beams, max_sentence_tokens=6, return_dict_in_generate=True)
        assert [len(sentences) for sentences in output.sentences] == [2, 1, 3]
    assert len(tokenizer.decode_documents(output.sequences)) == 3


@pytest.mark.parametrize("precision", SMALLER)
def test_only_what_is_meant_becomes_smaller(make_model, precision):
    model = make_model(d_model=64)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    smaller = to_precision(model, precision)
    assert weight_bytes(smaller) < 0.75 * weight_bytes(model)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert "lm_head" not in linear_names(model) and len(linear_names(model)) == 2 * 6 + 2 * 10
    kept = smaller.lm_head.weight if precision == "bfloat16" else model.lm_head.weight
    assert torch.equal(smaller.model.shared.weight, kept)


def test_an_unknown_precision_is_refused(make_model):
    with pytest.raises(ValueError, match="'bfloat16'.*got 'int4'"):
        to_precision(make_model(), "int4")


def test_the_benchmark_compares_with_float32(make_model, tokenizer, toy_corpus, tmp_path, capsys):
    make_model("concat-adj").save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    options = ["--model", str(tmp_path / "model"), "--data", str(toy_corpus), "--documents", "2", "--num_beams", "1"]
    output = tmp_path / "precision.json"
    main([*options, "--precisions", "float32", "bfloat16", "int8-dynamic", "--output", str(output)])
    results = json.loads(output.read_text(encoding="utf-8"))
    assert results["kind"] == "precision-benchmark" and results["run"]["command"]
    entries = {entry["precision"]: entry for entry in results["entries"]}
    assert list(entries) == ["float32", "bfloat16", "int8-dynamic"]
    assert entries["float32"]["same_as_float32"] == 1.0 == entries["float32"]["speed_up"]
    assert all(0 <= entry["same_as_float32"] <= 1 for entry in entries.values())
    assert "nrefs:1" in entries["bfloat16"]["scores"]["chrF"]["signature"]
    assert len({entry["sentences"] for entry in entries.values()}) == 1
    assert "as in float32" in capsys.readouterr().out
    with pytest.raises(ValueError, match="must include 'float32'"):
        main([*options, "--precisions", "bfloat16"])
