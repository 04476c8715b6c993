"""Runs of an experiment that start from the weights of other runs."""

import json

import pytest
import torch

from modeling_docmt import DocMTConfig
from training.learning import LearningPlan, LoadedStart, learn
from training.synthetic import main
from training.synthetic_cipher import CipherTask
from training.synthetic_documents import WordVocabulary, make_documents
from training.synthetic_experiment import Experiment


SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "dropout": 0.0,
}
TRAINING = {
    "updates": 3,
    "warmup_updates": 1,
    "evaluate_every": 3,
    "batch_tokens": 64,
    "training_words": 100,
    "evaluation_documents": 24,
    "decoded_documents": 2,
}
# listed before what it starts from
FROZEN = {"system": "concat-document", "start_from": "first", "loaded_lr_scale": 0.0}
SYSTEMS = {"frozen": FROZEN, "other": {"system": "p-transformer"}, "first": {"system": "concat-document"}}


def options(**changes) -> dict:
    known = {"task": "cipher", "output": "unused.json", "seeds": [1], "model": SIZES, "training": TRAINING}
    return {**known, "data": {"sentences": 2, "vocabulary": 8}, "systems": SYSTEMS, **changes}


@pytest.fixture
def write(tmp_path):
    def write_experiment(**changes) -> list[str]:
        path = tmp_path / "experiment.yaml"
        path.write_text(json.dumps(options(output=str(tmp_path / "results.json"), **changes)))
        return ["run", str(path)]

    return write_experiment


def systems_of(results: dict) -> list[str]:
    return [run["system"] for run in results["runs"]]


def measured(results: dict) -> dict[str, tuple]:
    return {run["system"]: (run["curve"][-1]["words"], run["final"], run.get("start")) for run in results["runs"]}


def test_a_run_comes_behind_the_one_that_it_starts_from_and_has_its_weights(write):
    """Weights that do not move give the results of the start; fails if others are loaded, or if the rate is not 0."""
    results = main(write())
    assert systems_of(results) == ["first", "frozen", "other"]
    found = measured(results)
    assert found["frozen"][:2] == found["first"][:2] != found["other"][:2]
    start = found["frozen"][2]
    assert start["parts"] == "all" and start["fresh_parameters"] == 0 and start["loaded_parameters"] > 0
    assert found["first"][2] is None


def test_a_start_whose_weights_are_gone_is_learned_again_and_kept_once(write, tmp_path, caplog):
    whole = measured(main(write()))
    (tmp_path / "results.json").unlink()
    main([*write(), "--most_runs", "1"])
    assert "learned again" not in caplog.text
    results = main([*write(), "--systems", "frozen"])
    assert systems_of(results) == ["first", "frozen"]
    assert "('default', 'first', 1): learned again" in caplog.text
    assert measured(results) == {name: whole[name] for name in ("first", "frozen")}


def test_weights_in_a_folder_stay(write, tmp_path, caplog):
    folder = tmp_path / "weights"
    main([*write(), "--systems", "first", "--weights", str(folder)])
    (kept,) = folder.iterdir()
    assert {path.name for path in kept.iterdir()} >= {"config.json", "model.safetensors"}
    main([*write(), "--systems", "frozen", "--weights", str(folder)])
    assert "learned again" not in caplog.text
    assert list(folder.iterdir()) == [kept]


def test_a_start_that_was_not_asked_for_is_done_first(write):
    assert systems_of(main([*write(), "--systems", "frozen"])) == ["first", "frozen"]


def test_another_recipe_of_the_start_makes_another_run(write, tmp_path):
    """Fails if the recipe of a run says nothing of its start, or if weights are found by the name of the system."""
    folder = str(tmp_path / "weights")
    main([*write(), "--systems", "frozen", "--weights", folder])
    first = {"system": "concat-document", "training": {"training_words": 50}}
    with pytest.raises(ValueError, match=r"'frozen', 1\) was run with other options \(start\)"):
        main([*write(systems={**SYSTEMS, "first": first}), "--systems", "frozen", "--weights", folder])
    (tmp_path / "results.json").unlink()
    main([*write(systems={**SYSTEMS, "first": first}), "--systems", "frozen", "--weights", folder])
    assert len(list((tmp_path / "weights").iterdir())) == 2


def test_what_a_run_measures_does_not_change_the_weights_that_others_start_from():
    plain, probed = (list(Experiment(**options(probe=probe)).runs()) for probe in (None, {"updates": 5}))
    assert [run.recipe_of_weights() for run in plain] == [run.recipe_of_weights() for run in probed]
    assert all("probe" in run.recipe() for run in probed) and not any("probe" in run.recipe() for run in plain)


def test_a_system_may_have_its_own_training():
    own = {"first": {"system": "concat-document", "training": {"training_words": 9}}, "concat-adj": None}
    runs = Experiment(**options(systems=own, settings={"short": {"training": {"training_words": 7}}})).runs()
    assert [run.plan.training_words for run in runs] == [9, 7]


def test_the_encoder_alone_is_loaded_and_learns_at_its_own_rate(tmp_path):
    """Fails if rates of loaded and fresh weights are mixed up, or set anew at each update."""
    task = CipherTask(sentences=2, vocabulary=8)
    vocabulary = WordVocabulary(task.words())
    documents = list(make_documents(task, "train", 8))
    plan = LearningPlan(**TRAINING)
    config = DocMTConfig.from_system("concat-document", **SIZES, **vocabulary.config_fields())
    states = {}

    def keep(name):
        def further(model):
            states[name] = {key: weight.clone() for key, weight in model.state_dict().items()}
            if name == "start":
                model.save_pretrained(tmp_path)
            return {"kept": name}

        return further

    found = learn(config, plan, vocabulary, documents, documents, seed=1, further=keep("start"))
    assert found["kept"] == "start"
    start = LoadedStart(tmp_path, "encoder", 0.0)
    found = learn(config, plan, vocabulary, documents, documents, seed=2, start=start, further=keep("end"))
    moved = {name for name in states["end"] if not torch.equal(states["end"][name], states["start"][name])}
    assert not any(name.startswith("model.encoder.") for name in moved)
    assert any(name.startswith("model.decoder.layers") for name in moved)
    assert found["start"]["parts"] == "encoder"


@pytest.mark.parametrize(
    ("systems", "message"),
    [
        ({"concat-adj": {"start_from": "first"}}, "`start_from` of `concat-adj` must be one of 'concat-adj'"),
        (
            {"concat-adj": {"start_from": "mr-doc2doc"}, "mr-doc2doc": {"start_from": "concat-adj"}},
            "goes in a circle: 'concat-adj' from 'mr-doc2doc' from 'concat-adj'",
        ),
        ({"concat-adj": {"start_from": "concat-adj"}}, "goes in a circle"),
        ({"concat-adj": {"loaded_lr_scale": 0.5}}, "name the system as `start_from`, or leave them out"),
        ({"first": SYSTEMS["first"], "concat-adj": {"start_from": "first", "start_parts": "decoder"}}, "'encoder'"),
        ({"first": SYSTEMS["first"], "concat-adj": {"start_from": "first", "loaded_lr_scale": -1}}, "0 or more"),
        ({"concat-adj": {"start": "first"}}, "there is no option `start`"),
    ],
)
def test_mistakes_about_starts_are_found_before_the_first_run(systems, message):
    with pytest.raises(ValueError, match=message):
        Experiment(**options(systems=systems))


def test_mistakes_about_probes_are_found_before_the_first_run():
    with pytest.raises(ValueError, match="probe: there is no option `update`. Did you mean `updates`"):
        Experiment(**options(probe={"update": 5}))
