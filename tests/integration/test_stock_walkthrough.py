"""The walk-through runs from top to bottom, as a user runs it, and what it says is so."""

import os
import re
import subprocess
import sys
from pathlib import Path


REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_walkthrough_learns_translates_and_shows_attention(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HF_DATASETS_CACHE": str(tmp_path / "datasets")}
    environment |= {"HF_MODULES_CACHE": str(tmp_path / "modules")}
    command = [sys.executable, "-m", "training.walkthrough"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=600)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    losses = [float(loss) for loss in re.search(r"^loss: (.*)$", result.stdout, re.MULTILINE)[1].split(", ")]
    assert losses[-1] < 0.3 * losses[0]
    assert "The bridge is old.  ->  Die Brücke ist alt.  (ok)" in result.stdout
    chrf = float(re.search(r"chrF (\S+)", result.stdout)[1])
    assert chrf > 60
    rows = [
        list(map(float, re.findall(r"(\d+) %", line))) for line in result.stdout.splitlines()[-20:] if " %" in line
    ]
    assert len({len(rows), *map(len, rows)}) == 1 and len(rows) > 2
    assert all(abs(sum(row) - 100) <= len(row) for row in rows)
    assert sum(row[index] for index, row in enumerate(rows)) > 100
    assert (tmp_path / "runs" / "walkthrough" / "model.safetensors").exists()


def test_every_code_cell_is_explained():
    text = (REPOSITORY / "training" / "walkthrough.py").read_text(encoding="utf-8")
    kinds = [line for line in text.splitlines() if line.startswith("# %%")]
    assert len(kinds) >= 12
    assert kinds == ["# %% [markdown]", "# %%"] * (len(kinds) // 2)
