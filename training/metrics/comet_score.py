"""
COMET: a learned score of source, hypothesis and reference, by the original package in an environment of its own.

unbabel-comet asks for an older Transformers than ours, so it is not imported: its command `comet-score` runs as a
process of its own and leaves the scores of the sentences in a file. To have it,

    python -m venv comet-env && comet-env/bin/pip install unbabel-comet 'setuptools<81'

(its torchmetrics imports `pkg_resources`, which later setuptools do not have), and give the path of a checkpoint as it
is downloaded from the Hub: a folder with `hparams.yaml` and `checkpoints/model.ckpt`, such as that of
Unbabel/wmt22-comet-da. The checkpoint is a pickle: take one that you trust. The command gets HF_HUB_OFFLINE=1 unless
that variable is set already, so tokenizer and configuration of the encoder that `hparams.yaml` names must be in the
cache; HF_HUB_OFFLINE=0 lets it download them.

The score is 100 times the mean of the scores of all sentences of the test set, which is what `comet-score` calls the
score of a system, in percent points as most papers print it. Its range is that of the checkpoint (of wmt22-comet-da
about 0 to 100). Every sentence counts alike, one with an empty hypothesis too: it has the score that the checkpoint
gives to nothing. The command reads a sentence a line, without blanks at its ends, so a line break within a sentence
becomes a blank. Version 2.2.7 computes in half precision, on a CPU too: single scores are good to about three
digits, and can differ in the last one between machines.

Source: Rei et al. (2020), "COMET: A Neural Framework for MT Evaluation", and the package unbabel-comet.
"""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from training.results import sha256_of_file

from .documents import Documents


COMET_MEASURE = "COMET"
COMET_COMMAND = "comet-score"

# raised whenever the same text would score otherwise
DEFINITION = 1

_SETUP = "`python -m venv comet-env && comet-env/bin/pip install unbabel-comet 'setuptools<81'`"
_LAST_LINES = 12

logger = logging.get_logger(__name__)


def check_comet(checkpoint: str | None, command: str | None = None) -> None:
    """
    Require what COMET needs beside documents, before anything is translated.

    Args:
        checkpoint (`str`, *optional*):
            Path of the checkpoint, see `find_checkpoint`.
        command (`str`, *optional*):
            Path or name of the command; `comet-score` by default.

    Raises:
        `ValueError`: where either is missing, with the way to get it.
    """
    find_checkpoint(checkpoint)
    comet_version(find_command(command))


def find_checkpoint(checkpoint: str | None) -> Path:
    """
    Return the file of weights that a path means.

    Args:
        checkpoint (`str`, *optional*):
            A `.ckpt` file, the folder `checkpoints` around one, or the folder around that, which holds `hparams.yaml`.

    Returns:
        `Path`: absolute, its links left as they are.

    Raises:
        `ValueError`: for no path, a path that does not exist or holds no single checkpoint, and a checkpoint without
            `hparams.yaml` in the folder above its own.
    """
    if checkpoint is None:
        raise ValueError(
            "COMET needs a checkpoint: give the path of one in `inputs.comet`, such as a downloaded copy of "
            "Unbabel/wmt22-comet-da, or leave COMET out."
        )
    path = Path(os.path.abspath(os.path.expanduser(checkpoint)))
    files = [path] if path.is_file() else sorted({*path.glob("*.ckpt"), *path.glob("checkpoints/*.ckpt")})
    if len(files) != 1 or files[0].suffix != ".ckpt":
        found = f"{len(files)} files *.ckpt" if path.is_dir() else "another file" if path.is_file() else "nothing"
        raise ValueError(
            f"no COMET checkpoint at {checkpoint!r}: it must be one file *.ckpt, or a folder that holds one as "
            f"`checkpoints/model.ckpt`, found {found}. Download one first, such as Unbabel/wmt22-comet-da; COMET is "
            "not looked for on the Hub."
        )
    # the package looks for it there and nowhere else
    if not (files[0].parent.parent / "hparams.yaml").is_file():
        raise ValueError(
            f"{checkpoint!r}: COMET needs `hparams.yaml` in the folder above that of {files[0].name!r}, which is not "
            "there. Keep the layout of the downloaded checkpoint: `hparams.yaml` and `checkpoints/model.ckpt`."
        )
    return files[0]


def find_command(command: str | None) -> str:
    """
    Return the path of the command.

    Raises:
        `ValueError`: where there is no such program.
    """
    found = shutil.which(os.path.expanduser(command or COMET_COMMAND))
    if found is None:
        raise ValueError(
            f"COMET needs the command {command or COMET_COMMAND!r}, which was not found. Its package asks for an "
            f"older Transformers and needs an environment of its own: {_SETUP}. Then put it on PATH or name it in "
            "`inputs.comet_command`: `comet-env/bin/comet-score`."
        )
    return os.path.abspath(found)


@functools.cache
def comet_version(command: str) -> str:
    """
    Return the version of the package that a command belongs to, by asking the interpreter of its first line.

    Args:
        command (`str`):
            Path of the command.

    Raises:
        `ValueError`: for a command that is no script of a Python environment with unbabel-comet.
    """
    code = "import importlib.metadata; print(importlib.metadata.version('unbabel-comet'))"
    try:
        process = subprocess.run([*_interpreter(command), "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{command}: cannot tell its version of unbabel-comet, without which a score means little. It must be the "
            f"script `comet-score` of a Python environment that holds the package: {_SETUP}."
        ) from error
    return process.stdout.strip()


def _interpreter(command: str) -> list[str]:
    with open(command, encoding="utf-8") as file:
        first, second = file.readline(), file.readline()
    if not first.startswith("#!"):
        raise OSError(f"{command} is no script")
    words = shlex.split(first[2:])
    # pip writes this where the path of the interpreter is too long for a first line
    long_path = re.match(r"'''exec' (\"[^\"]+\"|\S+)", second)
    return shlex.split(long_path[1]) if words == ["/bin/sh"] and long_path else words


def comet_statistics(
    sources: Documents,
    hypotheses: Documents,
    references: Documents,
    checkpoint: str | None,
    command: str | None = None,
) -> np.ndarray:
    """
    Let COMET score each sentence; the score of a set of documents depends on the sums alone.

    Args:
        sources, hypotheses, references (`Sequence[Sequence[str]]`):
            D documents as lists of sentences, with equal counts.
        checkpoint (`str`):
            Path of the checkpoint, see `find_checkpoint`.
        command (`str`, *optional*):
            Path or name of the command; `comet-score` by default.

    Returns:
        `np.ndarray` of shape `(D, 2)`, float64: sum of the scores of the sentences, and their number.

    Raises:
        `ValueError`: where something is missing, the command fails, or its scores are not those of the sentences.
    """
    sides = {"src": sources, "mt": hypotheses, "ref": references}
    lines = {side: [_line(text) for document in documents for text in document] for side, documents in sides.items()}
    scores = _run(lines, find_checkpoint(checkpoint), find_command(command))
    lengths = [len(document) for document in references]
    statistics = np.zeros((len(references), 2))
    np.add.at(statistics[:, 0], np.repeat(np.arange(len(references)), lengths), scores)
    statistics[:, 1] = lengths
    return statistics


def _line(text: str) -> str:
    # of half a surrogate pair, which UTF-8 cannot hold, a question mark is left
    return re.sub(r"[\r\n]", " ", text).encode("utf-8", "replace").decode("utf-8").strip()


def _run(lines: dict[str, list[str]], checkpoint: Path, command: str) -> list[float]:
    """Score lines of the sides `src`, `mt` and `ref` in one process."""
    logger.info(f"COMET scores {len(lines['mt'])} sentences with {checkpoint_name(checkpoint)}")
    gpus = "1" if torch.cuda.is_available() else "0"
    with tempfile.TemporaryDirectory(prefix="docmt-comet-") as folder:
        for side, texts in lines.items():
            Path(folder, side).write_text("".join(text + "\n" for text in texts), encoding="utf-8", newline="\n")
        files = ["--sources", "src", "--translations", "mt", "--references", "ref", "--to_json", "scores.json"]
        process = subprocess.run(
            [command, *files, "--model", str(checkpoint), "--gpus", gpus, "--quiet", "--only_system"],
            cwd=folder,
            env={"HF_HUB_OFFLINE": "1", **os.environ},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        output = Path(folder, "scores.json")
        if process.returncode or not output.is_file():
            said = (process.stderr.strip() or process.stdout.strip()).splitlines()
            raise ValueError(
                f"{command} failed (exit status {process.returncode}). If it was loading a tokenizer or a model, let "
                f"it download {_encoder_name(checkpoint)}, which the checkpoint needs, once with HF_HUB_OFFLINE=0. "
                "Its last lines:\n" + "\n".join(said[-_LAST_LINES:])
            )
        result = json.loads(output.read_text(encoding="utf-8"))
    return _checked_scores(result.get("mt", []), lines, command)


def _encoder_name(checkpoint: Path) -> str:
    hyperparameters = (checkpoint.parent.parent / "hparams.yaml").read_text(encoding="utf-8")
    found = re.search(r"^pretrained_model:\s*(.+)$", hyperparameters, re.MULTILINE)
    return repr(found[1].strip("\"' ")) if found else "the encoder"


def _checked_scores(segments: Sequence[dict[str, Any]], lines: dict[str, list[str]], command: str) -> list[float]:
    expected = [dict(zip(lines, texts, strict=True)) for texts in zip(*lines.values(), strict=True)]
    if len(segments) != len(expected):
        raise ValueError(
            f"{command} gave {len(segments)} scores for {len(expected)} sentences. Check that it is the command of "
            "unbabel-comet 2.2, and run it again."
        )
    for number, (segment, texts) in enumerate(zip(segments, expected, strict=True)):
        # the command pairs lines of its three files by their place: a shift would pass unseen
        if any(segment[side] != text for side, text in texts.items()):
            raise ValueError(f"{command} scored {segment} as sentence {number}, which is {texts}.")
        if not np.isfinite(segment[COMET_MEASURE]):
            raise ValueError(
                f"{command} gave the score {segment[COMET_MEASURE]} to sentence {number}, which is {texts}. Weights "
                "that overflow in half precision do that."
            )
    return [float(segment[COMET_MEASURE]) for segment in segments]


def comet_scores(sums: np.ndarray) -> np.ndarray:
    """
    Score R sets of documents from the sums of their `comet_statistics`.

    Args:
        sums (`np.ndarray` of shape `(R, 2)`):
            Sums over the documents of each set.

    Returns:
        `np.ndarray` of shape `(R,)`: 100 times the mean score of a sentence; NaN for a set without sentences.
    """
    return np.divide(100.0 * sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=sums[:, 1] > 0)


def comet_entry(sums: np.ndarray, checkpoint: str | None, command: str | None = None) -> dict[str, Any]:
    """
    Report the measure on all documents.

    Args:
        sums (`np.ndarray` of shape `(2,)`):
            Sums of `comet_statistics`.
        checkpoint, command: As in `comet_statistics`.

    Returns:
        `dict`: JSON-able: `score`; `signature` with name and first digits of the hash of the checkpoint and the
        version of the package; `sentences`; `checkpoint` with `name` and `sha256`.
    """
    file = find_checkpoint(checkpoint)
    status = file.stat()
    name, digest = checkpoint_name(file), _digest(str(file), status.st_size, status.st_mtime_ns)
    return {
        "score": round(float(comet_scores(sums[None])[0]), 4),
        "signature": f"{COMET_MEASURE}|model:{name}|sha256:{digest[:12]}|mean:sentences|"
        f"unbabel-comet:{comet_version(find_command(command))}|version:{DEFINITION}",
        "sentences": int(sums[1]),
        "checkpoint": {"name": name, "sha256": digest},
    }


# of some gigabytes, so once for all test sets and systems
@functools.cache
def _digest(path: str, size: int, modified: int) -> str:
    return sha256_of_file(path)


def checkpoint_name(file: Path) -> str:
    """
    Return what to call a checkpoint: its repository in a cache of the Hub, else the folder that holds `hparams.yaml`.

    Args:
        file (`Path`):
            As `find_checkpoint` returns it.
    """
    folder = file.parent.parent
    repository = folder.parent.parent.name if folder.parent.name == "snapshots" else ""
    return repository.removeprefix("models--").replace("--", "/") or folder.name
