"""The way of a user, by the real commands: raw text to corpus, tokenizer, model, translation, scores."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


REPOSITORY = Path(__file__).resolve().parents[2]
SMALL_MODEL = "d_model=16,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,decoder_attention_heads=2"


def run(*arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess:
    """Run `python -m ...` as a user does, from the checkout; the output is part of a failure."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", *map(str, arguments)]
    result = subprocess.run(
        command, input=stdin, capture_output=True, encoding="utf-8", cwd=REPOSITORY, env=environment
    )
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}\n{result.stderr}"
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def documents(toy_documents) -> list[dict]:
    """Those that files with an empty line between documents can hold."""
    return [record for record in toy_documents if record["id"] not in ("empty-lines", "numbers", "long-sentence")]


@pytest.fixture(scope="module")
def corpus(folder, documents) -> Path:
    for side, language in (("src", "en"), ("tgt", "de")):
        text = "\n\n".join("\n".join(record[side]) for record in documents) + "\n"
        (folder / f"raw.{language}.txt").write_text(text, encoding="utf-8")
    run(
        *("training.prepare_corpus", "--format", "lines", "--boundaries", "blank"),
        *("--source_lang", "en", "--target_lang", "de"),
        *("--source_files", folder / "raw.en.txt", "--target_files", folder / "raw.de.txt"),
        *("--output_dir", folder / "corpus"),
    )
    return folder / "corpus" / "documents.jsonl.gz"


@pytest.fixture(scope="module")
def tokenizer_folder(folder, corpus) -> Path:
    output = folder / "tokenizer"
    run("training.train_tokenizer", "--train_files", corpus, "--output_dir", output, "--vocab_size", "560")
    return output


@pytest.fixture(scope="module")
def model_folder(folder, corpus, tokenizer_folder) -> Path:
    output = folder / "model"
    run(
        *("training.train", "--system", "concat-adj", "--train_file", corpus, "--validation_file", corpus),
        *("--tokenizer_name", tokenizer_folder, "--output_dir", output, "--config_overrides", SMALL_MODEL),
        *("--max_steps", "2", "--train_batch_tokens", "256", "--eval_strategy", "steps", "--eval_steps", "2"),
        *("--predict_with_generate", "true", "--max_eval_samples", "2", "--use_cpu", "true"),
    )
    return output


def test_corpus_has_the_documents_of_the_raw_files(corpus, documents):
    records = [json.loads(line) for line in gzip.decompress(corpus.read_bytes()).splitlines()]
    assert [record["src"] for record in records] == [record["src"] for record in documents]
    assert [record["tgt"] for record in records] == [record["tgt"] for record in documents]
    assert (corpus.parent / "info.json").exists()


def test_training_leaves_a_model_and_what_was_measured(model_folder):
    results = json.loads((model_folder / "results.json").read_text(encoding="utf-8"))
    assert results["updates"] == 2
    assert results["run"]["command"]
    assert "eval_s_bleu" in results["metrics"]
    assert (model_folder / "model.safetensors").exists()
    assert (model_folder / "pipeline_docmt.py").exists()


def test_evaluation_writes_scores_with_their_signatures(folder, corpus, model_folder):
    output = folder / "scores.json"
    run(
        *("training.evaluate", "--model", model_folder, "--data", corpus, "--output", output),
        *("--num_beams", "1", "--measures", "s-BLEU", "d-BLEU", "chrF", "--baseline", "copy"),
    )
    text = output.read_text(encoding="utf-8")
    assert "nrefs:1" in text
    assert json.loads(text)


def test_texts_are_translated_line_for_line(folder, model_folder):
    text = "The door is open.\r\n\r\n  Run!\n1 234,50\n"
    (folder / "text.txt").write_bytes(text.encode())
    options = ("--num_beams", "2", "--max_sentence_tokens", "8")
    output = folder / "text.de.txt"
    run("training.translate", "--model", model_folder, "--input", folder / "text.txt", "--output", output, *options)
    translation = output.read_bytes().decode()
    first, blank, indented, number, end = translation.replace("\r\n", "\n").split("\n")
    assert first
    assert indented.startswith("  ")
    assert (blank, number, end) == ("", "1 234,50", "")
    assert translation.count("\r\n") == 2


def test_documents_are_translated_sentence_for_sentence(folder, corpus, documents, model_folder):
    output = folder / "documents.de.jsonl"
    options = ("--num_beams", "1", "--max_sentence_tokens", "8", "--with_status", "true")
    run("training.translate", "--model", model_folder, "--input", corpus, "--output", output, *options)
    with open(output, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    assert [record["id"] for record in records] == [
        json.loads(line)["id"] for line in gzip.decompress(corpus.read_bytes()).splitlines()
    ]
    assert [len(record["tgt"]) for record in records] == [len(record["src"]) for record in documents]
