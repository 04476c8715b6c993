"""Result files: whole or not there, and without a trace of the machine they were made on."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from training.results import (
    command_line,
    commit_info,
    expand_path,
    portable_path,
    run_info,
    sha256_of_file,
    sha256_of_files,
    write_json_atomic,
    write_text_atomic,
)


def test_path_below_the_working_directory_is_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert portable_path(tmp_path / "a" / "b.json") == "a/b.json"
    assert portable_path("a/../c.json") == "c.json"


def test_path_elsewhere_is_a_file_name_or_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCMT_DATA", "/somewhere/data")
    assert portable_path("/somewhere/data/x/test.jsonl.gz") == "$DOCMT_DATA/x/test.jsonl.gz"
    assert portable_path("/home/me/secret/test.jsonl.gz") == "test.jsonl.gz"
    monkeypatch.delenv("DOCMT_DATA")
    assert portable_path("../up/test.jsonl.gz") == "test.jsonl.gz"


def test_variables_in_paths_are_filled_in_and_unset_ones_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCMT_DATA", "/somewhere/data")
    monkeypatch.delenv("DOCMT_NOWHERE", raising=False)
    assert expand_path("$DOCMT_DATA/test.jsonl.gz") == "/somewhere/data/test.jsonl.gz"
    with pytest.raises(ValueError, match=r"\$DOCMT_NOWHERE/a.jsonl: set the environment variable"):
        expand_path("$DOCMT_NOWHERE/a.jsonl")
    (tmp_path / "in$dollars.jsonl").touch()
    assert expand_path(str(tmp_path / "in$dollars.jsonl")).endswith("in$dollars.jsonl")


def test_command_keeps_options_and_hides_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCMT_DATA", "/somewhere/data")
    arguments = ["--data", "/somewhere/data/a.jsonl", "--model=/home/me/model", "--num_beams", "4", "--name", "a b"]
    command = command_line([*arguments, "--baselines", "other=/home/me/b.jsonl"])
    assert command.endswith(""" --baselines other=b.jsonl""")
    command = command_line(arguments)
    assert command.endswith("""--data "$DOCMT_DATA/a.jsonl" --model=model --num_beams 4 --name 'a b'""")


def test_run_info_is_json_and_names_no_folder_or_host():
    info = run_info([str(Path(__file__).resolve())])
    text = json.dumps(info)
    assert str(Path(__file__).resolve().parent.parent) not in text
    assert socket.gethostname() not in text
    assert {"command", "date", "versions", "hardware"} <= set(info)
    assert {"python", "torch", "transformers", "sacrebleu"} <= set(info["versions"])
    assert info["hardware"]["torch_threads"] >= 1


def test_commit_is_that_of_the_checkout():
    info = commit_info()
    if not info:
        pytest.skip("the code under test is not in a git checkout")
    root = Path(__file__).resolve().parent.parent
    expected = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert info["commit"] == expected.stdout.strip()
    assert isinstance(info["dirty"], bool)


def test_no_commit_where_git_is_absent(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit_info() == {}


def test_sha256_is_that_of_the_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "a.txt"
    file.write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of_file(file) == expected
    assert sha256_of_files([file]) == {"a.txt": expected}


def test_json_keeps_order_unicode_and_ends_in_a_line_end(tmp_path):
    file = tmp_path / "new" / "folder" / "result.json"
    write_json_atomic(file, {"z": "Müller 翻訳", "a": 1})
    text = file.read_text(encoding="utf-8")
    assert text == '{\n  "z": "Müller 翻訳",\n  "a": 1\n}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_is_refused_and_the_old_file_stays(tmp_path, value):
    file = tmp_path / "result.json"
    write_json_atomic(file, {"score": 1.0})
    with pytest.raises(ValueError, match="result.json"):
        write_json_atomic(file, {"score": value})
    assert json.loads(file.read_text(encoding="utf-8")) == {"score": 1.0}


def test_failed_rename_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    file = tmp_path / "result.txt"
    write_text_atomic(file, "old")

    def refuse(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_text_atomic(file, "new")
    assert file.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.txt"]


def test_module_command_is_named_as_typed(tmp_path):
    root = Path(__file__).resolve().parent.parent
    (tmp_path / "probe_command.py").write_text(
        "from training.results import command_line\nprint(command_line())\n", encoding="utf-8"
    )
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{tmp_path}"}
    arguments = [sys.executable, "-m", "probe_command", "--flag", "x"]
    process = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
    assert process.stdout.strip() == "python -m probe_command --flag x"
