"""Processes of the Hub tests: how they are started, and what they have in common."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


REPOSITORY = Path(__file__).resolve().parents[2]
OUR_PACKAGES = ("modeling_docmt", "training", "hub_cards")


def run(
    script: str, *arguments: str, folder: Path, environment: dict[str, str], has_package: bool = False
) -> dict[str, Any]:
    """
    Run a script beside this file, as somebody who may be a stranger to this checkout.

    Args:
        script (`str`): Name of the file. Its last argument is the file that it writes its results to.
        arguments (`str`): The arguments before that.
        folder (`Path`): Working directory.
        environment (`dict[str, str]`): Variables beside those of this process, of which those of the Hub are left out.
        has_package (`bool`, *optional*, defaults to `False`): Whether the packages of this checkout can be imported.

    Returns:
        `dict`: the results.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTHONPATH"))}
    path = {"PYTHONPATH": str(REPOSITORY)} if has_package else {}
    result = subprocess.run(
        [sys.executable, str(Path(__file__).parent / script), *arguments, "outputs.json"],
        cwd=folder,
        env={**ours, **path, **environment},
        # nobody is there to answer questions
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, f"{script}\n{result.stdout}\n{result.stderr}"
    return json.loads((folder / "outputs.json").read_text(encoding="utf-8"))


def stay_on_this_machine() -> None:
    """Make every attempt to reach another machine, or to look up its name, an error that nobody expects."""

    def check(event: str, arguments: tuple) -> None:
        host = None
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            host = arguments[1][0]
        elif event == "socket.getaddrinfo":
            host = arguments[0]
        if host not in (None, "127.0.0.1"):
            raise AssertionError(f"{event} to {host!r}")

    sys.addaudithook(check)


def hide_our_packages() -> None:
    """Make our packages impossible to import, even where an editable install has them everywhere."""
    for name in OUR_PACKAGES:
        sys.modules[name] = None  # type: ignore[assignment]
        try:
            __import__(name)
        except ImportError:
            continue
        raise AssertionError(f"{name} can still be imported")
