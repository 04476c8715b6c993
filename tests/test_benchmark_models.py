import json
import sys

import pytest
import torch

from modeling_docmt import attention_bounded
from training import benchmark_decoding, benchmark_steps
from training.benchmark import main
from training.benchmark_models import ModelArguments, as_row, docmt_config, random_sentences


SHAPE = "--d_model 16 --layers 1 --heads 2 --ffn 16 --vocabulary 300 --window 3 --sentence_tokens 5".split()
MODELS = [
    "MarianMTModel",
    "concat-document",
    "lst-attn",
    "p-transformer",
    "g-transformer",
    "global-local",
    "window-attn",
    "window-attn sinusoidal",
]
GATHER = "window-attn gather"
RAGGED = ["packed", "packed, all logits", "padding as tokens"]


def run(name, output, *flags):
    results = main([name, *SHAPE, *flags, "--output", str(output)])
    assert json.loads(output.read_text()) == results
    assert results["layers"] == 1 and results["threads"] == 1 and "versions" in results["run"]
    return results


def test_documents_have_the_length_asked_for():
    args = ModelArguments(vocabulary=300, sentence_tokens=5)
    config = docmt_config("window-attn", args)
    for tokens in (5, 18, 20):
        sentences = random_sentences(tokens, config, args)
        row = as_row(sentences, config)
        assert len(row) == tokens and row[-1] == config.eos_token_id
        assert row.count(config.sep_token_id) == len(sentences) - 1
        special = {config.sep_token_id, config.eos_token_id}
        assert all(266 <= token < 299 for token in row if token not in special)
    assert random_sentences(20, config, args, seed=1) != random_sentences(20, config, args)


def test_steps_have_time_and_memory_of_every_model_and_length(tmp_path, capsys):
    flags = ["--lengths", "20", "40", "--longest_gather", "20", "--rounds", "2", "--ragged", "20", "9", "3"]
    results = run("steps", tmp_path / "steps.json", *flags)
    found = [(entry["batch"], entry["model"]) for entry in results["entries"]]
    expected = [("20", model) for model in (*MODELS, GATHER)] + [("40", model) for model in MODELS]
    assert found == [*expected, *(("ragged", name) for name in RAGGED)]
    for entry in results["entries"]:
        assert 0 < entry["seconds"] <= entry["median_seconds"] and entry["peak_mib"] > 0
        assert entry["rounds"] == 2
        if entry["model"] == entry["reference"]:
            assert entry["speed_up"] == entry["memory_ratio"] == 1
    assert [entry["tokens"] for entry in results["entries"][-2:]] == [32, 32]
    assert "20: times faster than MarianMTModel" in results["goals"]
    assert "20: memory of the gather, times ours" in results["goals"]
    assert "40: memory of the gather, times ours" not in results["goals"]
    assert "tokens/s at 40 over 20" in results["goals"]
    assert "ragged: packed, times faster than padded" in capsys.readouterr().out


def test_steps_with_autocast_optimizer_and_a_plot(tmp_path):
    pytest.importorskip("matplotlib")
    flags = "--autocast bfloat16 --optimizer true --dropout 0 --lengths 20 --rounds 1 --models window-attn".split()
    plot = tmp_path / "steps.png"
    results = run("steps", tmp_path / "steps.json", *flags, "--plot", str(plot))
    assert [entry["model"] for entry in results["entries"]] == ["window-attn", *RAGGED]
    assert results["goals"].keys() == {"ragged: packed, times faster than padded"}
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_sentence_level_model_reads_the_sentences_of_the_document():
    """Fails if it is timed on one sentence as long as the document, or on fewer tokens."""
    args = benchmark_steps.StepsArguments(
        d_model=16, layers=1, heads=2, ffn=16, vocabulary=300, window=3, sentence_tokens=5, lengths=[23], ragged=[]
    )
    shapes = {}
    for name in ("sentence-level", "concat-document"):
        step = benchmark_steps._Step(benchmark_steps._model(name, args), [23], args)
        shapes[name] = tuple(step.inputs["labels"].shape)
        assert step.tokens == step.inputs["labels"].ne(-100).sum() == 23
    assert shapes == {"sentence-level": (5, 5), "concat-document": (1, 23)}


def test_the_gather_gives_the_loss_of_the_model_and_is_swapped_out_again():
    args = benchmark_steps.StepsArguments(
        d_model=16, layers=1, heads=2, ffn=16, vocabulary=300, window=3, sentence_tokens=5, dropout=0.0
    )
    before = attention_bounded.interval_attention
    model = benchmark_steps._model("window-attn", args)
    inputs = benchmark_steps._inputs(model, [20, 9], args, is_padding_read=False)
    loss = model(**inputs).loss
    with benchmark_steps._attention(is_gather=True):
        assert attention_bounded.interval_attention is not before
        gathered = model(**inputs).loss
    torch.testing.assert_close(gathered, loss)
    assert attention_bounded.interval_attention is before


def test_lengths_below_a_sentence_are_refused():
    with pytest.raises(ValueError, match="`lengths` must be a sentence or more"):
        main(["steps", "--lengths", "7"])


def test_decoding_has_documents_steps_and_memory(tmp_path, capsys):
    flags = "--documents 2 --tokens 10 --large_documents 0 --rounds 2 --positions 5 25 --steps 7".split()
    flags += "--step_batches 1 2 --memory_tokens 20 --memory_layers 1 --systems lst-attn".split()
    results = run("decoding", tmp_path / "decoding.json", *flags)
    assert [entry["model"] for entry in results["documents"]] == ["window-attn", "MarianMTModel", "lst-attn"]
    assert all(0 < entry["seconds"] <= entry["median_seconds"] for entry in results["documents"])
    assert [(entry["documents"], entry["position"]) for entry in results["steps"]] == [
        (1, 5),
        (1, 25),
        (2, 5),
        (2, 25),
    ]
    for entry in results["steps"]:
        assert 0 < entry["milliseconds"] <= entry["median_milliseconds"]
        assert entry["keys"].keys() == {"source", "committed", "current"} and min(entry["keys"].values()) > 0
    assert [entry["tokens"] for entry in results["memory"]] == [20]
    assert all(entry["tensor_mib"] > 0 for entry in results["memory"])
    assert "step at 25 over 5, batch 2" in results["goals"]
    assert "peak memory at 20 over 20, tensors" in capsys.readouterr().out


def test_parts_of_decoding_can_be_chosen(tmp_path):
    flags = "--parts steps --positions 5 --step_batches 1 --steps 2".split()
    results = run("decoding", tmp_path / "decoding.json", *flags)
    assert "steps" in results and "documents" not in results and "memory" not in results
    with pytest.raises(ValueError, match="`parts` must be of documents, steps, memory, got speed"):
        main(["decoding", "--parts", "speed"])


def test_a_failing_search_ends_all_turns(monkeypatch):
    def fail(layer, states):
        raise RuntimeError("no such row")

    args = benchmark_decoding.DecodingArguments(
        d_model=16, layers=1, heads=2, ffn=16, vocabulary=300, window=3, sentence_tokens=5, positions=[5, 25], steps=7
    )
    model = benchmark_decoding.docmt_model("window-attn", args)
    monkeypatch.setattr(type(model.lm_head), "forward", fail)
    with pytest.raises(RuntimeError, match="no such row"):
        benchmark_decoding._watch_steps(model, 1, args)


def test_ctranslate2_decodes_the_same_documents(tmp_path):
    pytest.importorskip("ctranslate2")
    flags = "--parts documents --documents 1 --tokens 10 --large_documents 2 --rounds 1 --systems concat-document"
    results = run("decoding", tmp_path / "decoding.json", *flags.split())
    assert results["documents"][-1]["model"] == "CTranslate2 float32"
    assert "2 documents: times faster than CTranslate2 float32" in results["goals"]
    assert results["ctranslate2_version"]


def test_without_ctranslate2_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    args = benchmark_decoding.DecodingArguments()
    with pytest.raises(ImportError, match="pip install ctranslate2"):
        benchmark_decoding._ctranslate2_run(None, 1, args).__enter__()
