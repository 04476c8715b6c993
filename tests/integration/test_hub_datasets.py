"""Corpora at home on the Hub: what `training.prepare_corpus` writes is what `load_dataset` reads by name."""

import json

import pytest
from hub_processes import run
from hub_server import HubServer

from training.documents import load_corpus
from training.prepare_corpus import main as prepare_corpus


KINDS = ("corpus", "corpus-parquet")


@pytest.fixture(scope="module")
def corpus(toy_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus") / "toy"
    languages = ("--source_lang", "en", "--target_lang", "de")
    prepare_corpus(["--format", "records", "--source_files", str(toy_corpus), *languages, "--output_dir", str(folder)])
    return folder


@pytest.fixture(scope="module")
def outcome(corpus, tmp_path_factory):
    """What was read, and the Hub as it was left."""
    folder = tmp_path_factory.mktemp("process")
    with HubServer() as hub:
        environment = hub.environment(folder / "hf", hub.add_user("ada"))
        read = run("hub_corpus.py", str(corpus), folder=folder, environment=environment, has_package=True)
    return read, hub


@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_read_by_name(outcome, corpus, kind):
    read, _ = outcome
    expected = load_corpus(str(corpus)).to_list()
    assert len(expected) > 10
    assert read[kind]["records"] == expected
    assert read[kind]["streamed"] == expected


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_are_lists_of_strings(outcome, kind):
    read, _ = outcome
    for side in ("src", "tgt"):
        assert f"'{side}': List(Value('string'))" in read[kind]["features"]


def test_folder_keeps_where_it_came_from(outcome, corpus):
    _, hub = outcome
    files = hub.files("ada/corpus", kind="datasets")
    assert files == {path.name: path.read_bytes() for path in corpus.iterdir()}
    assert "counts" in json.loads(files["info.json"])


def test_private_corpora_are_not_found_by_others(outcome):
    read, hub = outcome
    assert hub.repository("ada/corpus-parquet", "datasets").access == "private"
    assert read["error"] == "DatasetNotFoundError"
