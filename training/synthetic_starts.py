"""Weights of finished runs from which other runs of an experiment start."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from modeling_docmt import DocMTForConditionalGeneration

from .synthetic_experiment import Run


class StartWeights:
    """
    A folder of weights, each under a name that says how they came to be, so that none are taken for others.

    Args:
        folder (`str` or `Path`): Made if it is not there.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, run: Run) -> Path:
        """Folder of the weights of a run."""
        recipe = json.dumps(run.recipe_of_weights(), sort_keys=True)
        return self.folder / hashlib.sha256(recipe.encode()).hexdigest()[:16]

    def save(self, run: Run, model: DocMTForConditionalGeneration) -> None:
        """Keep the weights of a run; a folder under its name is complete."""
        path = self.path(run)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        model.save_pretrained(partial)
        # another process may have been here first, with the same weights
        if path.exists():
            shutil.rmtree(partial)
        else:
            partial.rename(path)

    def missing(self, run: Run) -> list[Run]:
        """The runs that come first as their weights are not here, in order."""
        if run.start is None or self.path(run.start.run).exists():
            return []
        return [*self.missing(run.start.run), run.start.run]


@contextlib.contextmanager
def start_weights(folder: str | None) -> Iterator[StartWeights]:
    """Weights in a folder that stays, or without one in a folder that goes."""
    if folder is not None:
        yield StartWeights(folder)
        return
    with tempfile.TemporaryDirectory(prefix="docmt-starts-") as temporary:
        yield StartWeights(temporary)
