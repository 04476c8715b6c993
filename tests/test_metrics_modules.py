"""The measures as modules of the library evaluate: loaded from their folders offline, equal to the plain functions."""

import socket
from pathlib import Path

import pytest

from training.metrics import score_formality, score_lexical_consistency, score_pronouns, score_tcp
from training.metrics.tcp_score import parse_labels


evaluate = pytest.importorskip("evaluate")

FOLDER = Path(__file__).resolve().parent.parent / "training" / "metrics"

SOURCES = [["It sleeps.", "Are you here?", "The merman sees it."], ["A merman!", "A merman?"]]
HYPOTHESES = [["Er schläft.", "Bist du hier?", "Der Wassermann sieht es."], ["Ein Wassermann!", "Ein Mann?"]]
REFERENCES = [["Es schläft.", "Sind Sie hier?", "Der Wassermann sieht es."], ["Ein Wassermann!", "Ein Wassermann?"]]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a metric asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize(
    ("folder", "score", "options"),
    [
        ("pronoun_f1", score_pronouns, {"tagger": "none"}),
        ("formality_f1", score_formality, {"tagger": "none"}),
        ("lexical_consistency", score_lexical_consistency, {"source_lang": "en", "target_lang": "de"}),
    ],
)
def test_modules_give_what_the_functions_give(folder, score, options):
    metric = evaluate.load(str(FOLDER / folder))
    expected = score(SOURCES, HYPOTHESES, REFERENCES, **options)
    assert expected["score"] is not None
    texts = {"sources": SOURCES, "predictions": HYPOTHESES, "references": REFERENCES}
    assert metric.compute(**texts, **options) == expected
    for index in range(2):
        metric.add_batch(**{side: documents[index : index + 1] for side, documents in texts.items()})
    assert metric.compute(**options) == expected


def test_tcp_reads_labels_as_released():
    references, phenomena = ["he left .", "but he slept .", "he saw her ."], ["tense", "conjunction", "pronoun"]
    labels = ["1:left,went", "0:but,yet\t", "2:her"]
    hypotheses = [["He went."], ["Yet he slept."], ["He saw her."]]
    documents = [
        {"tgt_tok": reference, "phenomenon": phenomenon, "labels": parse_labels(line)}
        for reference, phenomenon, line in zip(references, phenomena, labels, strict=True)
    ]
    metric = evaluate.load(str(FOLDER / "tcp"))
    found = metric.compute(predictions=hypotheses, references=references, phenomena=phenomena, labels=labels)
    assert found == score_tcp(hypotheses, documents)
    assert (found["TC"], found["CP"], found["PT"]) == (100, 0, 100)


@pytest.mark.parametrize("folder", ["pronoun_f1", "formality_f1", "tcp", "lexical_consistency"])
def test_modules_say_what_they_are(folder):
    metric = evaluate.load(str(FOLDER / folder))
    assert metric.name == folder
    assert "predictions" in metric.features
    assert "Returns:" in metric.inputs_description
    assert "@inproceedings" in metric.citation
    assert metric.description.strip()
