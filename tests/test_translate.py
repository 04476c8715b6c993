"""The command that translates files: line for line, like the pipeline, whole or not at all, and able to go on."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from training import translate
from training.journal import Journal
from training.translate import main, split_text


SHORT = ["--max_sentence_tokens", "4", "--device", "cpu", "--threads", "1"]
TEXT = "\ufeffThe door is open.\r\n\n  It is late. \n* * *\rGo home.\u2028Stop\n\n\nIt was calm.\nNo end"


@pytest.fixture(scope="module")
def checkpoint(make_model, tokenizer, tmp_path_factory):
    """Folder of a tiny random document model."""
    folder = tmp_path_factory.mktemp("checkpoint")
    model = make_model("concat-document", d_model=16, encoder_layers=1, decoder_layers=1, max_part_tokens=100)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def pipe(checkpoint):
    arguments = translate.TranslationArguments(model=str(checkpoint), device="cpu")
    return translate.load_pipeline(arguments)


@pytest.fixture
def loads(monkeypatch):
    """Counts how often a model is loaded, and lets the pipeline stop after some documents."""
    state = {"loaded": 0, "stop_after": None}
    load = translate.load_pipeline

    def load_counted(arguments):
        state["loaded"] += 1
        pipe = load(arguments)
        call = type(pipe).__call__

        class Stopping(type(pipe)):
            def __call__(self, *args, **kwargs):
                for index, result in enumerate(call(self, *args, **kwargs)):
                    if index == state["stop_after"]:
                        raise KeyboardInterrupt
                    yield result

        pipe.__class__ = Stopping
        return pipe

    monkeypatch.setattr(translate, "load_pipeline", load_counted)
    return state


def run(checkpoint, source, target, *options):
    main(["--model", str(checkpoint), "--input", str(source), "--output", str(target), *SHORT, *options])


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8"))
    return path


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def test_text_is_translated_as_by_the_pipeline(checkpoint, pipe, tmp_path):
    source, target = write(tmp_path / "in.txt", TEXT), tmp_path / "out.txt"
    run(checkpoint, source, target, "--num_beams", "2")
    expected = pipe(TEXT, num_beams=2, max_sentence_tokens=4)["translation_text"]
    assert read(target) == expected
    assert expected.count("\n") == TEXT.count("\n") and expected.count("\u2028") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_blank_lines_can_end_documents(checkpoint, pipe, tmp_path):
    documents = split_text(TEXT, "blank_line")
    assert documents == ["\ufeffThe door is open.\r\n\n", TEXT[21:-19], "It was calm.\nNo end"]
    assert "".join(documents) == TEXT
    source, target = write(tmp_path / "in.txt", TEXT), tmp_path / "out.txt"
    run(checkpoint, source, target, "--document_boundary", "blank_line", "--batch_size", "2")
    results = pipe(documents, max_sentence_tokens=4)
    assert read(target) == "".join(result["translation_text"] for result in results)


@pytest.mark.parametrize("text", ["", "\n", "\n\n", "1\r\n", " \n\n a"])
@pytest.mark.parametrize("boundary", ["file", "blank_line"])
def test_documents_of_a_text_add_up_to_it(text, boundary):
    assert "".join(split_text(text, boundary)) == text


@pytest.mark.parametrize("text", ["", "\n\n\r\n", "* * *\n"])
def test_files_without_a_letter_come_back_as_they_are(checkpoint, tmp_path, text):
    run(checkpoint, write(tmp_path / "in.txt", text), tmp_path / "out.txt")
    assert read(tmp_path / "out.txt") == text


def test_records_get_their_translation(checkpoint, pipe, toy_corpus, toy_documents, tmp_path):
    run(checkpoint, toy_corpus, tmp_path / "out.jsonl", "--with_status")
    records = [json.loads(line) for line in read(tmp_path / "out.jsonl").splitlines()]
    results = pipe([record["src"] for record in toy_documents], max_sentence_tokens=4)
    assert [record["id"] for record in records] == [record["id"] for record in toy_documents]
    assert [record["src"] for record in records] == [record["src"] for record in toy_documents]
    for record, result in zip(records, results, strict=True):
        assert record["tgt"] == [sentence["translation"] for sentence in result["sentences"]]
        assert record["status"] == [sentence["status"] for sentence in result["sentences"]]
        assert len(record["score"]) == len(record["src"])


def test_hypothesis_stands_beside_the_reference(checkpoint, toy_corpus, toy_documents, tmp_path):
    run(checkpoint, toy_corpus, tmp_path / "out.jsonl", "--target_field", "hypothesis")
    records = [json.loads(line) for line in read(tmp_path / "out.jsonl").splitlines()]
    assert [record["tgt"] for record in records] == [record["tgt"] for record in toy_documents]
    assert all(len(record["hypothesis"]) == len(record["src"]) for record in records)


def test_status_of_a_text_goes_into_a_file_of_its_own(checkpoint, tmp_path):
    run(checkpoint, write(tmp_path / "in.txt", "Go.\n\n1"), tmp_path / "out.txt", "--with_status")
    rows = [json.loads(line) for line in read(tmp_path / "out.txt.status.jsonl").splitlines()]
    assert [(row["document"], row["sentence"], row["source"]) for row in rows] == [
        (0, 0, "Go."),
        (0, 1, ""),
        (0, 2, "1"),
    ]
    assert [row["status"] for row in rows][1:] == ["empty", "copied"]


def test_standard_input_to_standard_output(checkpoint, pipe, capfdbinary, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode("utf-8"))))
    main(["--model", str(checkpoint), *SHORT])
    output = capfdbinary.readouterr()
    assert output.out.decode("utf-8") == pipe(TEXT, max_sentence_tokens=4)["translation_text"]
    assert b"10 sentences" in output.err


def test_interrupted_run_goes_on_where_it_stopped(checkpoint, loads, tmp_path):
    text = "".join(f"Day {number} was calm.\n\n" for number in range(5))
    source = write(tmp_path / "in.txt", text)
    options = ("--document_boundary", "blank_line", "--batch_size", "2")
    run(checkpoint, source, tmp_path / "whole.txt", *options)
    loads["stop_after"] = 3
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint, source, tmp_path / "out.txt", *options)
    assert not (tmp_path / "out.txt").exists()
    journal = tmp_path / "out.txt.partial"
    # the kill came in the middle of a line
    journal.write_bytes(journal.read_bytes()[:-7])
    loads["stop_after"] = 3
    run(checkpoint, source, tmp_path / "out.txt", *options)
    assert read(tmp_path / "out.txt") == read(tmp_path / "whole.txt")
    assert not journal.exists()


def test_finished_journal_needs_no_model(checkpoint, loads, tmp_path, monkeypatch):
    source = write(tmp_path / "in.txt", "Go home.\n")
    monkeypatch.setattr(Journal, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint, source, tmp_path / "out.txt")
    monkeypatch.undo()
    monkeypatch.setattr(translate, "load_pipeline", None)
    run(checkpoint, source, tmp_path / "out.txt")
    assert read(tmp_path / "out.txt").count("\n") == 1


def test_other_options_start_anew(checkpoint, loads, tmp_path):
    source = write(tmp_path / "in.txt", "Go home.\n\nIt is late.\n")
    loads["stop_after"] = 1
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint, source, tmp_path / "out.txt", "--document_boundary", "blank_line")
    loads["stop_after"] = None
    run(checkpoint, source, tmp_path / "out.txt", "--document_boundary", "blank_line", "--num_beams", "2")
    run(checkpoint, source, tmp_path / "fresh.txt", "--document_boundary", "blank_line", "--num_beams", "2")
    assert read(tmp_path / "out.txt") == read(tmp_path / "fresh.txt")


def test_journal_drops_a_torn_line_and_everything_of_another_job(tmp_path):
    output = tmp_path / "out"
    with Journal(output, "a") as journal:
        journal.append({"text": "first\u2028"})
        journal.append({"text": "second"})
    path = tmp_path / "out.partial"
    path.write_bytes(path.read_bytes() + b'{"text": "thi')
    with Journal(output, "a") as journal:
        assert list(journal) == [{"text": "first\u2028"}, {"text": "second"}]
        journal.append({"text": "third"})
        assert len(journal) == 3
        journal.write(output, lambda index, result: f"{index} {result['text']}\n")
    assert output.read_text() == "0 first\u2028\n1 second\n2 third\n"
    with Journal(output, "b") as journal:
        assert len(journal) == 0 and list(journal) == []


def test_killed_process_leaves_no_half_file(checkpoint, tmp_path):
    """A real kill, in the middle of the work."""
    source = write(tmp_path / "in.txt", "The keeper lit the lamp.\n\n" * 400)
    command = [sys.executable, "-m", "training.translate", "--model", str(checkpoint), "--input", str(source)]
    command += [
        "--output",
        str(tmp_path / "out.txt"),
        "--document_boundary",
        "blank_line",
        "--batch_size",
        "1",
        *SHORT,
    ]
    root = Path(__file__).resolve().parent.parent
    process = subprocess.Popen(command, cwd=root, stderr=subprocess.DEVNULL)
    journal = tmp_path / "out.txt.partial"
    while process.poll() is None and not (journal.exists() and journal.stat().st_size > 2000):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out.txt").exists()
    with Journal(tmp_path / "out.txt", json.loads(journal.read_text().splitlines()[0])["key"]) as left:
        assert 0 < len(left) < 400


def test_wrong_arguments_are_refused_before_any_work(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(translate, "load_pipeline", None)
    source, there = write(tmp_path / "in.txt", "Go."), write(tmp_path / "there.txt", "precious")
    write(tmp_path / "new.status.jsonl", "precious")
    model = ["--model", str(checkpoint), "--input", str(source)]
    cases = [
        (["--model", str(checkpoint), "--input", str(tmp_path / "none.txt")], "there is no file"),
        ([*model, "--output", str(there)], "pass `--overwrite`"),
        ([*model, "--output", "/dev/null", "--overwrite"], "/dev/null is no regular file"),
        ([*model, "--output", str(tmp_path / "new"), "--with_status"], "`--with_status` would replace"),
        ([*model, "--no_repeat_ngram_size", "-1"], "`--no_repeat_ngram_size` must be 0 or more, got -1"),
        ([*model, "--output", str(source), "--overwrite"], "must not be the input"),
        ([*model, "--output", str(tmp_path / "no" / "out.txt")], "there is no folder"),
        ([*model, "--output", str(tmp_path)], "is a folder"),
        (["--model", str(tmp_path), "--input", str(source)], "no model folder"),
        ([*model, "--decoding", "fast"], "invalid choice: 'fast'"),
        ([*model, "--num_beam", "2"], "not used by the HfArgumentParser"),
        ([*model, "--num_beams", "0"], "must be 1 or more"),
        ([*model, "--with_status"], "name one with `--output`"),
        ([*model, "--input_format", "jsonl", "--segmentation", "sentences"], "are for texts"),
        ([*model, "--target_field", "hypothesis"], "is for records"),
    ]
    for arguments, message in cases:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2, arguments
        assert message in " ".join(capsys.readouterr().err.split()), arguments
    assert read(there) == "precious"
    assert not list(tmp_path.glob("*.partial"))


def test_faulty_input_is_named_before_the_model_is_loaded(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(translate, "load_pipeline", None)
    (tmp_path / "latin1.txt").write_bytes("Gut\nGrün".encode("latin-1"))
    with pytest.raises(SystemExit, match=r"latin1.txt:2: not UTF-8 \(byte 0xfc"):
        run(checkpoint, tmp_path / "latin1.txt", tmp_path / "out.txt")
    for name, data, message in (
        ("utf16.txt", "Grün".encode("utf-16"), "iconv -f utf-16"),
        ("packed.txt", gzip.compress(b"Go."), "packed by gzip. Unpack it"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(SystemExit, match=message):
            run(checkpoint, tmp_path / name, tmp_path / "out.txt")
        (tmp_path / name).unlink()
    write(tmp_path / "bad.jsonl", '{"id": "a", "src": ["Go."]}\n{"id": "b", "src": "Go."}\n')
    with pytest.raises(SystemExit, match=r"bad.jsonl:2: document 'b': `src` must be a list"):
        run(checkpoint, tmp_path / "bad.jsonl", tmp_path / "out.jsonl")
    assert sorted(os.listdir(tmp_path)) == ["bad.jsonl", "latin1.txt"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "nobody-of-this-name"], "`--model`: nobody-of-this-name is no model folder"),
        (["--device", "cuda:9"], "`--device`: 'cuda:9' cannot be used here"),
    ],
)
def test_a_model_or_device_that_is_not_there_is_named_and_leaves_nothing(checkpoint, tmp_path, options, message):
    source = write(tmp_path / "in.txt", "Go.")
    with pytest.raises(SystemExit, match=message):
        run(checkpoint, source, tmp_path / "out.txt", *options)
    assert os.listdir(tmp_path) == ["in.txt"]


def test_overwrite_replaces_the_output(checkpoint, tmp_path):
    source, target = write(tmp_path / "in.txt", "1\n"), write(tmp_path / "out.txt", "old")
    run(checkpoint, source, target, "--overwrite")
    assert read(target) == "1\n"
