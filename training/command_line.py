"""What the commands of this package have in common: how their help reads, and how they tell of a mistake."""

import sys
from argparse import ArgumentDefaultsHelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from transformers import HfArgumentParser


class HelpFormatter(RawDescriptionHelpFormatter, ArgumentDefaultsHelpFormatter):
    """Keeps the lines of a description, in which commands stand, and adds defaults to options."""


def make_parser(dataclass_types: type | Sequence[type], description: str | None = None) -> HfArgumentParser:
    """
    A parser of command lines.

    Args:
        dataclass_types (`type` or `Sequence[type]`): Dataclasses of options.
        description (`str`, *optional*): What `--help` says first, as it is.
    """
    return HfArgumentParser(
        dataclass_types,  # type: ignore[arg-type]
        allow_abbrev=False,
        description=description,
        formatter_class=HelpFormatter,
    )


def check_first_argument(argv: Sequence[str], choices: Iterable[str], description: str | None) -> None:
    """
    Require that a command line begins with the name of a subcommand; else show the help, and end.

    Args:
        argv (`Sequence[str]`): The words of the command line.
        choices (`Iterable[str]`): Names of subcommands.
        description (`str`, *optional*): What the help says.
    """
    names = list(choices)
    if argv and argv[0] in names:
        return
    print(f"{(description or '').rstrip()}\n\n`{names[0]} --help` has the options.")
    if argv and argv[0] in ("-h", "--help"):
        raise SystemExit(0)
    raise SystemExit(f"The first argument must be one of {', '.join(names)}, got {argv[0] if argv else 'none'}.")


def run_command(main: Callable[[], Any]) -> None:
    """
    Run a command from the shell: a wrong argument or file is answered with what to do, not with a traceback.

    Args:
        main (`Callable`): The command; what it returns is for Python alone.
    """
    try:
        main()
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"{Path(sys.argv[0]).stem}: {error}") from error
