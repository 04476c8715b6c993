"""What `save_pretrained` writes must be enough for a user without our package: files, classes, numbers, texts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from modeling_docmt import DocMTForConditionalGeneration, DocumentTranslationPipeline


CLIENT = Path(__file__).parent / "remote_code_client.py"
OPTIONS = {"num_beams": 2, "max_sentence_tokens": 8}
TEXT = "The door is open.\n\n  Run!\r\n1 234\n"


# the files are the same for all systems, so that one is enough for every day
SYSTEMS = [
    "concat-adj",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("sentence-level", "concat-document")),
]


@pytest.fixture(scope="module", params=SYSTEMS)
def model(request, make_model):
    return make_model(request.param, source_lang="en", target_lang="de")


@pytest.fixture(scope="module")
def inputs(toy_documents, tokenizer) -> dict:
    documents = [record["src"][:3] for record in toy_documents if record["id"] in ("one-sentence", "pronouns")]
    return {
        "documents": documents,
        "decoder_input_ids": [[tokenizer.bos_token_id, 300, 301], [tokenizer.bos_token_id, 310, 311]],
        "text": TEXT,
        "options": OPTIONS,
    }


@pytest.fixture(scope="module")
def checkpoint(model, tokenizer, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "docmt-random"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def remote(checkpoint, inputs, tmp_path_factory) -> dict:
    """Results of the client: another process, another folder, an empty cache."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "inputs.json").write_text(json.dumps(inputs), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HOME": str(folder / "hf"), "HF_MODULES_CACHE": str(folder / "modules"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(CLIENT), str(checkpoint), "inputs.json", "outputs.json"]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads((folder / "outputs.json").read_text(encoding="utf-8"))


def test_checkpoint_loads_without_our_package(remote):
    assert remote["out_of_reach"]
    assert remote["classes"] == [
        *("DocMTConfig", "DocMTTokenizer", "DocMTModel", "DocMTForConditionalGeneration"),
        "DocumentTranslationPipeline",
    ]
    assert all(module.startswith("transformers_modules.") for module in remote["modules"]), remote["modules"]


def test_logits_are_those_of_the_saved_model(remote, model, tokenizer, inputs):
    batch = tokenizer(inputs["documents"], return_tensors="pt", padding=True)
    assert remote["input_ids"] == batch["input_ids"].tolist()
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=torch.tensor(inputs["decoder_input_ids"])).logits
    torch.testing.assert_close(torch.tensor(remote["logits"]), logits, atol=1e-5, rtol=0)
    assert remote["states_agree"]


def test_translations_are_those_of_the_saved_model(remote, model, tokenizer, inputs):
    batch = tokenizer(inputs["documents"], return_tensors="pt", padding=True)
    assert remote["sequences"] == model.generate(**batch, **OPTIONS).tolist()
    pipe = DocumentTranslationPipeline(model=model, tokenizer=tokenizer)
    translations = pipe(inputs["documents"], **OPTIONS)
    assert remote["translations"] == [translation["translation_text"] for translation in translations]
    assert remote["text_translation"] == pipe(TEXT, **OPTIONS)["translation_text"]


def test_checkpoint_holds_every_file_of_its_code(checkpoint):
    written = {path.name for path in checkpoint.glob("*.py")}
    assert written >= {
        *("configuration_docmt.py", "modeling_docmt.py", "tokenization_docmt.py", "pipeline_docmt.py"),
        *("generation_docmt.py", "documents_docmt.py", "formatting_docmt.py", "attention_dense.py"),
    }
    assert "attention_reference.py" not in written
    assert "convert_marian.py" not in written


def test_loaded_checkpoint_saves_the_same_files_again(checkpoint, tmp_path):
    DocMTForConditionalGeneration.from_pretrained(checkpoint).save_pretrained(tmp_path)
    again = {path.name: path.read_bytes() for path in tmp_path.glob("*.py")}
    assert again == {name: (checkpoint / name).read_bytes() for name in again}
    assert "pipeline_docmt.py" in again
