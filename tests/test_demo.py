"""The demo: source and translation side by side, from a checkpoint folder alone."""

import pytest

from training.demo import EXAMPLE, display_width, main, side_by_side


@pytest.fixture(scope="module")
def save_checkpoint(make_model, tokenizer, tmp_path_factory):
    def save(system):
        folder = tmp_path_factory.mktemp(system)
        model = make_model(system, d_model=16, encoder_layers=1, decoder_layers=1)
        model.generation_config.max_sentence_tokens = 3
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)

    return save


def test_columns_wrap_to_the_width():
    table = side_by_side([("a few words here", "one two"), ("", ""), ("x", "y")], width=22)
    assert table.split("\n") == ["a few       one two", "words here", "", "x           y"]
    assert all(display_width(line) <= 22 for line in side_by_side([("漢字" * 20, "b")], 22).split("\n"))


def test_example_is_shown_with_its_translation(save_checkpoint, capsys):
    main(["--model", save_checkpoint("sentence-level"), "--num_beams", "1"])
    output = capsys.readouterr().out
    for word in ("The door is", "translation", "tokens/s", "loaded in"):
        assert word in output
    assert "with context" not in output


def test_document_model_is_shown_with_and_without_context(save_checkpoint, capsys, tmp_path):
    (tmp_path / "letter.txt").write_text("Go home. It is late.\n\n42\n", encoding="utf-8")
    main(["--model", save_checkpoint("concat-document"), "--num_beams", "2", "--file", str(tmp_path / "letter.txt")])
    output = capsys.readouterr().out
    assert "with context" in output and "each sentence alone" in output
    assert "3 sentences" in output
    assert "The door" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--model", "no-such-folder"], "there is no checkpoint"), (["--num_beam", "2"], "unrecognized arguments")],
)
def test_wrong_arguments_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err


def test_missing_file_is_named(save_checkpoint, capsys):
    with pytest.raises(SystemExit):
        main(["--model", save_checkpoint("sentence-level"), "--file", "no-such-file.txt"])
    assert "there is no file no-such-file.txt" in capsys.readouterr().err


def test_example_is_a_document_of_some_paragraphs():
    assert 10 <= EXAMPLE.count(".") and EXAMPLE.count("\n\n") >= 2
