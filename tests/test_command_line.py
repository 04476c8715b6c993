"""What commands share: help that can be read, subcommands, and mistakes that are told in a line."""

from dataclasses import dataclass, field

import pytest

from training.command_line import check_first_argument, make_parser, run_command


@dataclass
class Options:
    count: int = field(default=3, metadata={"help": "How many."})


def test_help_keeps_the_lines_of_commands_and_names_defaults():
    text = make_parser(Options, "Counts.\n\n    python -m count \\\n        --count 4\n").format_help()
    assert "    python -m count \\\n        --count 4\n" in text
    assert "How many. (default: 3)" in text


def test_an_option_is_not_guessed_from_its_beginning():
    with pytest.raises(ValueError, match="--cou"):
        make_parser(Options).parse_args_into_dataclasses(["--cou", "4"])


def test_the_first_argument_names_a_subcommand(capsys):
    check_first_argument(["run", "--count"], ("list", "run"), "Runs.")
    assert capsys.readouterr().out == ""
    for argv, status in ((["--help"], 0), ([], "The first argument must be one of list, run, got none.")):
        with pytest.raises(SystemExit) as stop:
            check_first_argument(argv, ("list", "run"), "Runs.")
        assert stop.value.code == status
        assert capsys.readouterr().out == "Runs.\n\n`list --help` has the options.\n"


def test_a_mistake_is_told_without_a_traceback_and_a_fault_of_ours_is_not_hidden(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/count.py"])

    def fail(error):
        raise error

    with pytest.raises(SystemExit, match="^count: `--count` must be positive$"):
        run_command(lambda: fail(ValueError("`--count` must be positive")))
    with pytest.raises(TypeError):
        run_command(lambda: fail(TypeError("a fault")))
