"""Checkpoints of a training, as far as they can be gone on from."""

import json
from pathlib import Path


def whole_checkpoints(folder: str | Path) -> list[Path]:
    """
    The checkpoints in a folder that were written to their end, by their updates.

    A checkpoint is written file by file into its place, and one that a kill has cut off is still there; the state of
    the Trainer is what is written last.
    """
    found = [path for path in Path(folder).glob("checkpoint-*") if _step(path).isdigit() and _has_state(path)]
    return sorted(found, key=lambda path: int(_step(path)))


def _step(path: Path) -> str:
    return path.name.removeprefix("checkpoint-")


def _has_state(path: Path) -> bool:
    try:
        json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True
