"""COMET: the scores of another environment's command, each beside its own sentence, and the way out of every error."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from training.bootstrap import bootstrap_intervals, paired_bootstrap
from training.metrics import MeasureInputs, check_measure, measure_documents, score_documents
from training.metrics.comet_score import checkpoint_name, comet_version, find_checkpoint


# speaks the options and the JSON of unbabel-comet 2.2.7, and reads its files as that does
FAKE = """#!{python}
import argparse, json, os, sys

parser = argparse.ArgumentParser(allow_abbrev=False)
for option in ("sources", "translations", "references", "to_json", "model"):
    parser.add_argument("--" + option, required=True)
parser.add_argument("--gpus", type=int, default=1)
parser.add_argument("--quiet", action="store_true")
parser.add_argument("--only_system", action="store_true")
options = parser.parse_args()
fault = os.environ.get("FAKE_FAULT")
with open(os.environ["FAKE_CALLS"], "a") as calls:
    print(json.dumps([vars(options), os.environ.get("HF_HUB_OFFLINE")]), file=calls)
if fault == "fail":
    print("Traceback\\nOSError: no such tokenizer", file=sys.stderr)
    sys.exit(3)
if not os.path.isfile(options.model):
    sys.exit("no such model")
sides = {{}}
for side, path in (("src", options.sources), ("mt", options.translations), ("ref", options.references)):
    with open(path, encoding="utf-8") as file:
        sides[side] = [line.strip() for line in file.readlines()]
if fault == "shift":
    sides["ref"] = [*sides["ref"][1:], ""]
if fault == "short":
    sides["ref"] = sides["ref"][1:]
segments = [dict(zip(sides, texts)) for texts in zip(*sides.values())]
for segment in segments:
    segment["COMET"] = 0.5 if segment["mt"] == segment["ref"] else len(segment["mt"]) / 100
if fault == "nan":
    segments[1]["COMET"] = float("nan")
with open(options.to_json, "w", encoding="utf-8") as file:
    json.dump({{options.translations: segments}}, file, ensure_ascii=False)
sys.exit(fault == "late")
"""

SOURCES = [["One.", "Two.", "Three."], ["Four."], []]
HYPOTHESES = [["Eins.", "", "Drei!"], ["Vier!!!"], []]
REFERENCES = [["Eins.", "Zwei.", "Drei."], ["Vier."], []]


@pytest.fixture
def comet(tmp_path, monkeypatch):
    """Inputs with a fake command, its environment and a checkpoint, beside the file that its calls go to."""
    command, calls = tmp_path / "bin" / "comet-score", tmp_path / "calls.jsonl"
    package = tmp_path / "site" / "unbabel_comet-2.2.7.dist-info"
    checkpoint = tmp_path / "tiny-comet" / "checkpoints" / "model.ckpt"
    for file in (command, package / "METADATA", checkpoint):
        file.parent.mkdir(parents=True)
    command.write_text(FAKE.format(python=sys.executable), encoding="utf-8")
    command.chmod(0o755)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: unbabel-comet\nVersion: 2.2.7\n", encoding="utf-8")
    checkpoint.write_bytes(b"weights")
    (tmp_path / "tiny-comet" / "hparams.yaml").write_text("pretrained_model: 'tiny/encoder'\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("FAKE_CALLS", str(calls))
    inputs = {"sources": SOURCES, "comet": str(tmp_path / "tiny-comet"), "comet_command": str(command)}
    return inputs, calls


def score(inputs, hypotheses=HYPOTHESES, references=REFERENCES, **changes):
    asked = MeasureInputs(**{**inputs, **changes})
    return score_documents(hypotheses, references, "de", measures=("COMET",), inputs=asked)["COMET"]


def calls_of(comet):
    return [json.loads(line) for line in comet[1].read_text(encoding="utf-8").splitlines()]


def test_score_is_the_mean_of_all_sentences_in_percent(comet):
    """Fails if documents count alike, or the sentence without a translation is left out."""
    measured = measure_documents(HYPOTHESES, REFERENCES, measures=("COMET",), inputs=MeasureInputs(**comet[0]))
    found = measured["COMET"]
    assert found.statistics == pytest.approx(np.array([[0.5 + 0 + 0.05, 3], [0.07, 1], [0, 0]]))
    assert found.entry["score"] == pytest.approx(100 * 0.62 / 4, abs=1e-4)
    assert found.entry["sentences"] == 4
    assert json.loads(json.dumps(found.entry)) == found.entry
    assert len(calls_of(comet)) == 1


def test_signature_names_checkpoint_hash_and_version(comet):
    digest = hashlib.sha256(b"weights").hexdigest()
    found = score(comet[0])
    assert found["checkpoint"] == {"name": "tiny-comet", "sha256": digest}
    assert found["signature"] == (
        f"COMET|model:tiny-comet|sha256:{digest[:12]}|mean:sentences|unbabel-comet:2.2.7|version:1"
    )


def test_other_weights_under_the_same_name_have_another_hash(comet):
    """Fails if the hash is remembered by the path alone."""
    before = score(comet[0])
    Path(comet[0]["comet"], "checkpoints", "model.ckpt").write_bytes(b"other weights")
    assert score(comet[0])["checkpoint"]["sha256"] != before["checkpoint"]["sha256"]


def test_command_runs_offline_on_absolute_paths_unless_the_user_asks(comet, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    score(comet[0])
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    score(comet[0])
    (first, is_offline), (second, asked) = calls_of(comet)
    assert (is_offline, first["gpus"]) == ("1", 0)
    assert (asked, second["gpus"]) == ("0", 1)
    assert first["model"] == str(find_checkpoint(comet[0]["comet"]))
    assert os.path.isabs(first["model"])
    assert first["quiet"]


@pytest.mark.parametrize("text", ["Ei\nns.", "Ei\rns.", "\r\nEins.\r\n", "Ei\u2028\x85\x0b\x0cns.", "\ud800ns."])
def test_line_breaks_do_not_shift_sentences(comet, text):
    """Fails if texts are written as they are: all that follow would stand beside a wrong source."""
    inputs = MeasureInputs(**{**comet[0], "sources": [[text, "Two.", text], ["Four."], []]})
    hypotheses, references = [["Eins.", text, "Drei."], ["Vier."], []], [[text, "Zwei.", "Drei."], ["Vier."], []]
    found = measure_documents(hypotheses, references, measures=("COMET",), inputs=inputs)["COMET"]
    assert found.statistics[:, 1].tolist() == [3, 1, 0]
    assert found.statistics[1, 0] == 0.5


def test_intervals_and_comparisons_are_those_of_documents(comet):
    inputs = MeasureInputs(**comet[0])
    setting: dict[str, Any] = {"measures": ("COMET",), "inputs": inputs}
    found = bootstrap_intervals(HYPOTHESES, REFERENCES, **setting)["measures"]["COMET"]
    assert found["interval"] == pytest.approx([7, 100 * 0.55 / 3], abs=1e-4)
    # three draws of the document without a sentence
    assert found["undefined_draws"] == pytest.approx(1000 / 27, abs=20)
    compared = paired_bootstrap(REFERENCES, HYPOTHESES, REFERENCES, **setting)["measures"]["COMET"]
    assert (compared["score"], compared["baseline_score"]) == (50, 15.5)
    assert (compared["losses"], compared["ties"]) == (0, 0)
    assert compared["wins"] == 1000 - compared["undefined_draws"]


@pytest.mark.parametrize("path", ["", "checkpoints", "checkpoints/model.ckpt"])
def test_folder_and_file_of_a_checkpoint_are_the_same(comet, path):
    assert find_checkpoint(os.path.join(comet[0]["comet"], path)).name == "model.ckpt"
    assert score({**comet[0], "comet": os.path.join(comet[0]["comet"], path)}) == score(comet[0])


def test_relative_paths_are_those_of_the_caller(comet, monkeypatch, tmp_path):
    """Fails if they are left to the command, which runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    assert score({**comet[0], "comet": "tiny-comet", "comet_command": "bin/comet-score"}) == score(comet[0])


def test_a_checkpoint_in_a_cache_of_the_hub_has_the_name_of_its_repository():
    file = Path("/cache/hub/models--Unbabel--wmt22-comet-da/snapshots/371e9839ca/checkpoints/model.ckpt")
    assert checkpoint_name(file) == "Unbabel/wmt22-comet-da"


def test_command_is_found_on_the_path(comet, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(comet[0]["comet_command"]).parent), prepend=os.pathsep)
    assert score(comet[0], comet_command=None) == score(comet[0])


def test_version_is_that_of_the_interpreter_in_a_script_of_pip(comet, tmp_path):
    """Where the path of the interpreter is too long for a first line, pip lets a shell start it."""
    script = tmp_path / "long" / "comet-score"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n", encoding="utf-8")
    assert comet_version(str(script)) == "2.2.7"


# what is missing is said before anything is translated


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"comet": None}, r"COMET needs a checkpoint: give the path of one in `inputs.comet`.*wmt22-comet-da"),
        ({"comet": "no/such/folder"}, r"no COMET checkpoint at 'no/such/folder'.*found nothing. Download one"),
        ({"comet": __file__}, r"one file \*.ckpt, or a folder .*found another file"),
        ({"comet": os.path.dirname(__file__)}, r"found 0 files \*.ckpt"),
        ({"comet_command": "no-such-command"}, r"'no-such-command', which was not found.*pip install unbabel-comet"),
        ({"comet_command": "/bin/sh"}, r"cannot tell its version of unbabel-comet.*pip install unbabel-comet"),
        ({"sources": None}, "COMET reads the source beside its translation: give it in `inputs.sources`"),
        ({"sources": SOURCES[:1]}, "1 source documents and 3 reference documents"),
    ],
)
def test_what_is_missing_is_named_with_the_way_out(comet, changes, message):
    with pytest.raises(ValueError, match=message):
        check_measure("COMET", REFERENCES, "de", MeasureInputs(**{**comet[0], **changes}))
    assert not comet[1].exists()


def test_a_checkpoint_without_hyperparameters_is_refused(comet):
    Path(comet[0]["comet"], "hparams.yaml").unlink()
    with pytest.raises(ValueError, match=r"needs `hparams.yaml` in the folder above that of 'model.ckpt'"):
        score(comet[0])


def test_two_checkpoints_in_a_folder_are_refused(comet):
    shutil.copy(find_checkpoint(comet[0]["comet"]), Path(comet[0]["comet"], "checkpoints", "other.ckpt"))
    with pytest.raises(ValueError, match=r"found 2 files \*.ckpt"):
        score(comet[0])


def test_a_script_without_the_package_is_refused(comet, monkeypatch):
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(ValueError, match="cannot tell its version of unbabel-comet"):
        score(comet[0])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("fail", r"(?s)exit status 3\).*download 'tiny/encoder'.*once with HF_HUB_OFFLINE=0.*no such tokenizer$"),
        ("late", r"exit status 1\)"),
        ("short", "gave 3 scores for 4 sentences"),
        ("shift", r"as sentence 0, which is \{'src': 'One.', 'mt': 'Eins.', 'ref': 'Eins.'\}"),
        ("nan", "gave the score nan to sentence 1"),
    ],
)
def test_faults_of_the_command_are_said(comet, fault, message, monkeypatch):
    monkeypatch.setenv("FAKE_FAULT", fault)
    with pytest.raises(ValueError, match=message):
        score(comet[0])


@pytest.mark.slow
def test_real_command_gives_what_the_package_predicts():
    """`DOCMT_COMET_COMMAND` is the `comet-score` of an environment with unbabel-comet, `DOCMT_COMET_MODEL` a model."""
    command, model = os.environ.get("DOCMT_COMET_COMMAND"), os.environ.get("DOCMT_COMET_MODEL")
    if not (command and model):
        pytest.skip("no real COMET: set DOCMT_COMET_COMMAND and DOCMT_COMET_MODEL")
    inputs = MeasureInputs(sources=SOURCES, comet=model, comet_command=command)
    hypotheses = [["Eins.", " \r\n", "Dr\nei!"], ["Vier!!!"], []]
    found = measure_documents(hypotheses, REFERENCES, "de", measures=("COMET",), inputs=inputs)["COMET"]
    code = """
import json, sys
from comet import load_from_checkpoint
model = load_from_checkpoint(sys.argv[1]).eval().half()
sides = json.loads(sys.argv[2])
print(json.dumps(list(map(float, model.predict([dict(zip(sides, t)) for t in zip(*sides.values())], gpus=0).scores))))
"""
    sides = {
        "src": sum(SOURCES, []),
        "mt": ["Eins.", "", "Dr ei!", "Vier!!!"],
        "ref": sum(REFERENCES, []),
    }
    interpreter = Path(command).parent / "python"
    run = [str(interpreter), "-c", code, str(find_checkpoint(model)), json.dumps(sides)]
    process = subprocess.run(
        run, capture_output=True, text=True, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    scores = json.loads(process.stdout.splitlines()[-1])
    assert found.statistics[:, 0] == pytest.approx([sum(scores[:3]), scores[3], 0], abs=2e-3)
    assert len(set(scores)) == 4
    assert found.entry["score"] == pytest.approx(25 * sum(scores), abs=0.1)
    assert f"unbabel-comet:{comet_version(command)}|" in found.entry["signature"]
