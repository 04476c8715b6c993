"""
What every result file of this project holds beside its numbers, and how it gets to the disk.

A number without its recipe cannot be checked. `run_info` collects the recipe (command, commit, versions, hardware),
`sha256_of_files` names the data by content, and `write_json_atomic` puts the whole into a file that is either
complete or not there. Nothing written here holds an absolute path or the name of the machine.
"""

import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch


PACKAGES = ("docmt", "torch", "transformers", "tokenizers", "datasets", "accelerate", "sacrebleu", "HanTa", "numpy")
# a change outside these cannot change a number
CODE_PATHS = ("modeling_docmt", ":(glob)training/**/*.py", "training/configs")


def portable_path(path: str | os.PathLike) -> str:
    """
    Write a path so that it says nothing about this machine.

    Args:
        path (`str` or `os.PathLike`):
            Any path; it need not exist.

    Returns:
        `str`: relative to the working directory for what lies below it, `$DOCMT_DATA/…` for what lies in the data
        folder of that environment variable, and the bare file name for everything else.
    """
    absolute = Path(os.path.abspath(os.path.expanduser(os.fspath(path))))
    if absolute.is_relative_to(Path.cwd()):
        return absolute.relative_to(Path.cwd()).as_posix()
    data_folder = os.environ.get("DOCMT_DATA")
    if data_folder and absolute.is_relative_to(os.path.abspath(data_folder)):
        return "$DOCMT_DATA/" + absolute.relative_to(os.path.abspath(data_folder)).as_posix()
    return absolute.name


def expand_path(path: str) -> str:
    """
    Put environment variables such as `$DOCMT_DATA` into a path: no shell does so in YAML files and behind quotes.

    Raises:
        `ValueError`: that names the path, if a variable is not set.
    """
    expanded = os.path.expandvars(path)
    if "$" in expanded and not os.path.exists(expanded):
        raise ValueError(f"{path}: set the environment variable in it to the folder of your corpora.")
    return expanded


def _portable_argument(argument: str) -> str:
    # --option=PATH, or NAME=PATH as an entry of an option
    option, equals, value = argument.partition("=")
    if not (argument.startswith("--") or os.path.isabs(value)):
        option, equals, value = "", "", argument
    is_path = os.path.isabs(value) or value.startswith(("~", "..", "./"))
    return option + equals + (portable_path(value) if is_path else value)


def command_line(arguments: Sequence[str] | None = None) -> str:
    """
    Return the command of this process as one would type it, with portable paths.

    Args:
        arguments (`Sequence[str]`, *optional*):
            The arguments after the command; `sys.argv[1:]` by default.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name:
        start = ["python", "-m", spec.name.removesuffix(".__main__")]
    elif sys.argv[0].endswith(".py"):
        start = ["python", portable_path(sys.argv[0])]
    else:
        start = [os.path.basename(sys.argv[0]) or "python"]
    words = start + [_portable_argument(argument) for argument in (sys.argv[1:] if arguments is None else arguments)]
    # the data folder stays a variable that the shell fills in
    return " ".join(f'"{word}"' if word.startswith("$DOCMT_DATA/") else shlex.quote(word) for word in words)


def _git(*arguments: str) -> str | None:
    folder = Path(__file__).resolve().parent.parent
    try:
        process = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return process.stdout.strip()


def commit_info() -> dict[str, Any]:
    """
    Return the commit of the code that is running, and whether the code differs from it.

    Returns:
        `dict`: `commit` (full hash) and `dirty` (True where the code differs); empty for an
        installed copy, which belongs to no checkout, and where git is absent.
    """
    # an installed copy may sit in a virtual environment inside the checkout of something else
    if _git("ls-files", "--error-unmatch", "training/results.py") is None:
        return {}
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return {}
    return {"commit": commit, "dirty": bool(_git("status", "--porcelain", "--", *CODE_PATHS))}


def package_versions() -> dict[str, str]:
    """Return the version of Python and of each installed package that can change a number."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def hardware_info() -> dict[str, Any]:
    """Return system, processor, core and thread counts, and the GPU where one is visible."""
    info: dict[str, Any] = {
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cpu_cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        info["gpu"] = torch.cuda.get_device_name()
        info["gpu_count"] = torch.cuda.device_count()
    return info


def run_info(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """
    Collect the recipe of the running command.

    Args:
        arguments (`Sequence[str]`, *optional*):
            The arguments of the command where they are not those of the process (`main(arguments)` in a test).

    Returns:
        `dict`: JSON-able, with `command`, `date` (UTC, to the second), `commit` and `dirty` (in a checkout only),
        `versions` and `hardware`. No absolute path and no host name is in it.
    """
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {
        "command": command_line(arguments),
        "date": date,
        **commit_info(),
        "versions": package_versions(),
        "hardware": hardware_info(),
    }


def sha256_of_file(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file's bytes, as `sha256sum` prints it (of the compressed bytes for `.gz`)."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_files(paths: Iterable[str | os.PathLike]) -> dict[str, str]:
    """Map the portable name of each file, in the order given, to the SHA-256 of its bytes."""
    return {portable_path(path): sha256_of_file(path) for path in paths}


def write_text_atomic(path: str | os.PathLike, text: str) -> None:
    """
    Write a UTF-8 text file that is whole or not there: beside its name first, then renamed.

    Folders on the way are made. Line ends are written as they are.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json_atomic(path: str | os.PathLike, value: Any) -> None:
    """
    Write JSON for people and programs: two spaces, keys in the order given, UTF-8, a line end at the end.

    Args:
        path (`str` or `os.PathLike`):
            The file; an older one is replaced as a whole.
        value (`Any`):
            What to write. It is turned into text before the file is touched.

    Raises:
        `ValueError`: for NaN and infinity, which JSON cannot hold.
        `TypeError`: for values that JSON has no form for.
    """
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{portable_path(path)}: not written, a value is no JSON ({error}).") from error
    write_text_atomic(path, text + "\n")
