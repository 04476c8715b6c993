"""From an OPUS-MT checkpoint to a document-level model of every system: converted, fine-tuned, evaluated."""

import json
from pathlib import Path

import pytest
from marian_models import write_opus_checkpoint

from modeling_docmt import SYSTEMS, DocMTForConditionalGeneration
from modeling_docmt.convert_marian import main as convert
from training.evaluate import main as evaluate
from training.train import main as train


RECIPE = Path(__file__).resolve().parents[2] / "training" / "configs" / "finetune-marian.yaml"
# small enough for a test; all else is as in the recipe
SIZES = {
    **{"max_steps": 3, "eval_steps": 3, "save_steps": 3, "warmup_steps": 1, "train_batch_tokens": 400},
    **{"gradient_accumulation_steps": 1, "use_cpu": True, "bf16": False, "report_to": "none", "disable_tqdm": True},
}


@pytest.fixture(scope="module")
def opus(tmp_path_factory, toy_documents) -> Path:
    folder = tmp_path_factory.mktemp("opus-mt-en-de")
    layers = {"encoder_layers": 2, "decoder_layers": 2, "activation_function": "swish", "scale_embedding": True}
    write_opus_checkpoint(folder, toy_documents, **layers)
    return folder


@pytest.mark.parametrize(
    "system",
    [s if s == "window-attn" else pytest.param(s, marks=pytest.mark.slow) for s in SYSTEMS],
)
def test_a_converted_model_is_fine_tuned_by_the_recipe(opus, toy_corpus, tmp_path, system):
    start, output, scores = tmp_path / "start", tmp_path / "run", tmp_path / "scores.json"
    convert([str(opus), str(start), "--system", system])
    paths = {"init_from": start, "output_dir": output, "train_file": toy_corpus, "validation_file": toy_corpus}
    options = {"system": system, **paths, **SIZES}
    if system == "global-local":
        # the system has no biases in its decoder, and Marian models do
        options["config_overrides"] = "decoder_attention_bias=true"
    results = train([str(RECIPE), *(text for name, value in options.items() for text in (f"--{name}", str(value)))])
    assert results["updates"] == 3 and results["system"] == system
    weights = results["starting_weights"]
    assert not weights["unused"]
    # all that a Marian model has is loaded; a sentence-level one has nothing else
    is_dense = {"long_short_term", "recurrent", "window"}.isdisjoint(SYSTEMS[system].values())
    adds_nothing = is_dense and system not in ("p-transformer", "g-transformer", "global-local")
    assert not weights["fresh"] or not adds_nothing
    assert all(isinstance(entry["loss"], float) for entry in results["loss_curve"] if "loss" in entry)
    model = DocMTForConditionalGeneration.from_pretrained(output)
    assert model.config.system == system and model.config.source_lang == "en"

    if system != "window-attn":
        return
    options = ["--num_beams", "1", "--measures", "s-BLEU", "chrF", "--max_documents", "3", "--resamples", "0"]
    evaluate(["--model", str(output), "--data", str(toy_corpus), "--output", str(scores), *options])
    (test_set,) = json.loads(scores.read_text(encoding="utf-8"))["test_sets"]
    assert test_set["documents"] == 3 and test_set["scores"]["chrF"]["signature"]
