"""What systems learn and what they do not, on tasks with known right answers. Minutes each: `make slow`."""

import json
from pathlib import Path

import pytest

from training.synthetic import main


CONFIGS = Path(__file__).parent.parent / "training" / "configs"
pytestmark = pytest.mark.learning


def learned(experiment: str, tmp_path: Path, *options: str) -> dict[str, dict]:
    """Summary rows of an experiment with its first seed, by system."""
    output = tmp_path / "results.json"
    main(["run", str(CONFIGS / experiment), "--seeds", "11", "--output", str(output), "--plot", "", *options])
    return {row["system"]: row for row in json.loads(output.read_text())["summary"]}


def test_long_sources_are_learned_by_systems_with_a_sense_of_place_alone(tmp_path):
    rows = learned("synthetic.long-sequences.yaml", tmp_path, "--settings", "24 sentences")
    words = {system: row["words"] for system, row in rows.items()}
    fails = ("concat-document", "p-transformer without P in cross-attention")
    assert all(words[system] < 15 for system in fails)
    assert all(words[system] > 60 for system in ("p-transformer", "g-transformer", "window-attn"))


def test_what_needs_context_is_learned_by_systems_that_have_it_alone(tmp_path):
    rows = learned("synthetic.discourse.yaml", tmp_path)
    alone = rows["sentence-level"]
    assert alone["control"] > 95
    assert alone["pronoun"] < 50 and alone["formality"] < 65 and alone["term"] < 65
    better = [system for system, row in rows.items() if row["pronoun"] > alone["pronoun"] + 15]
    assert len(better) >= 3
    assert all(rows["global-local"][question] > 95 for question in ("control", "pronoun", "formality", "term"))
