"""Results that the tests make model cards of, and what holds for every card."""

import re

from huggingface_hub import ModelCard

from hub_cards.build import load_facts
from hub_cards.card import FOLDER, load_yaml


FACTS = load_facts(FOLDER / "docmt-tiny-en-de.yaml")
LICENCES = load_yaml(FOLDER / "data_licences.yaml")
RECOMMENDED = (
    "libreoffice wesnoth gnome kde rustbook po-manuals debian-books gimp widelands opensource-guide literature".split()
)
MEASURES = ["s-BLEU", "d-BLEU", "chrF", "TER", "pronoun-F1", "formality-F1", "lexical-consistency"]
CONFIG = {"sequence_format": "context_window", "context_sentences": 2, "max_part_tokens": 400, "system": "concat-adj"}
RUN = {
    "command": "python -m training.train config.yaml",
    "date": "2026-01-02T03:04:05+00:00",
    "commit": "0123456789abcdef",
    "hardware": {"cpu": "Some CPU", "torch_threads": 2},
}
TRAINING = {
    "kind": "training",
    "system": "concat-adj",
    "architecture": "docmt",
    "parameters": 5_512_345,
    "train_files": [f"$DOCMT_DATA/train.en-de.{name}.jsonl.gz" for name in RECOMMENDED],
    "train_sequences": 174_000,
    "train_target_tokens": 3_100_000,
    "updates": 4000,
    "train_batch_tokens": 1536,
    "epochs": 2.25,
    "seed": 42,
    "precision": "bfloat16 autocast",
    "cpu_seconds": 10_800.0,
    "metrics": {"train_runtime": 5400.0},
    "run": RUN,
    "result_file": "train.json",
}
SUITE = {
    "suite": "$DOCMT_DATA/suites/contrapro.en-de.jsonl.gz",
    "sha256": {"contrapro": "c" * 64},
    "items": 12_000,
    "correct": 4321,
    "accuracy": 36.0083,
    "ties": 7,
    "chance": 33.3118,
    "context": {"source": 2, "target": 2, "right": 0},
    "breakdowns": {
        "reference_pronoun": {
            "er": {"items": 3981, "correct": 307, "accuracy": 7.7116, "ties": 0},
            "es": {"items": 3984, "correct": 3292, "accuracy": 82.6305, "ties": 0},
            "ihn": {"items": 2, "correct": 1, "accuracy": 50.0, "ties": 0},
        }
    },
    "curve": [{"context_sentences": k, "items": 12_000, "correct": 1, "accuracy": 33.0 + k} for k in (0, 2)],
}
CONTEXT_USE = {
    "context": {"source": 2, "target": 2, "right": 0},
    "sentences": 27,
    "log_probability": {"right": -2.5, "shuffled": -2.625, "none": -2.75},
    "right_less_none": {"score": 0.25, "interval": [0.2, 0.3]},
    "right_less_shuffled": {"score": 0.125, "interval": [0.1, 0.15]},
    "signature": "context-use|version:1",
}
MEMORY = {
    "kind": "document-decoding-benchmark",
    **{"vocabulary": 4000, "d_model": 256, "layers": 6},
    "memory": [
        {"tokens": 2000, "layers": 1, "process_mib": 468.7, "tensor_mib": 11.36},
        {"tokens": 20000, "layers": 1, "process_mib": 476.2, "tensor_mib": 11.84},
    ],
    "run": RUN,
    "result_file": "memory.json",
}


def check_filled(card: ModelCard) -> None:
    """Nothing is left to fill in, and the tables and lists are whole."""
    text = str(card)
    # the name of a group stands in braces
    words = re.sub(r"author = \{\{.*?\}\}", "", text)
    for rest in ("{{", "}}", "{%", "%}", r"\bNone\b", r"\bnan\b", "TODO", "Information Needed", "Undefined", r"\(\)"):
        assert not re.search(rest, words), rest
    assert "\n\n\n" not in text.replace(text.split("---\n")[1], "")
    assert not re.search(r"[ \t]\n", text)
    columns = 0
    for line in text.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) if line.startswith("|") else 0
        assert cells in (columns, 0) or columns == 0, line
        columns = cells
