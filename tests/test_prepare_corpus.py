"""The command that writes a corpus: filters, counts, outputs, refusals."""

import json

import datasets
import pytest
from huggingface_hub import DatasetCard

from training.corpus_filters import CorpusFilter, clean_sentence, select_sentences
from training.documents import load_corpus, read_documents
from training.prepare_corpus import CorpusArguments, main, prepare_corpus


def document(name="a", source=("One.", "Two."), target=("Eins.", "Zwei."), **further):
    return {"id": name, "src": list(source), "tgt": list(target), **further}


@pytest.fixture
def line_files(tmp_path):
    """Three documents, one of them twice; an empty side, a form feed and a U+2028 inside."""
    source = "The tide\u2028rose.\nIt was\x0clate.\n\nGo on.\n\n\nThe end.\n\nThe end.\n"
    target = "Die Flut stieg.\nEs war spät.\n\nWeiter.\n \n\nDas Ende.\n\nDas Ende.\n"
    (tmp_path / "sea.en").write_text(source, encoding="utf-8", newline="\n")
    (tmp_path / "sea.de").write_text(target.replace("Weiter.", "") or target, encoding="utf-8", newline="\n")
    return tmp_path


def arguments(folder, **changes):
    settings = {
        "format": "lines",
        "source_files": [str(folder / "sea.en")],
        "target_files": [str(folder / "sea.de")],
        "source_lang": "en",
        "target_lang": "de",
        "output_dir": str(folder / "corpus"),
    }
    return CorpusArguments(**{**settings, **changes})


# filters


@pytest.mark.parametrize(
    ("limits", "pair", "reason"),
    [
        ({}, ("", "Eins."), "empty_side"),
        ({}, ("One.", ""), "empty_side"),
        ({"max_sentence_words": 3}, ("a b c", "a b c d"), "too_many_words"),
        ({"max_sentence_characters": 5}, ("abcdef", "abc"), "too_many_characters"),
        ({"max_length_ratio": 2.0}, ("abc", "abcdefg"), "length_ratio"),
        ({"drop_identical_pairs": True}, ("Berlin", "Berlin"), "identical_sides"),
    ],
)
def test_a_faulty_pair_is_dropped_and_counted_under_its_reason(limits, pair, reason):
    corpus_filter = CorpusFilter(**limits)
    kept = corpus_filter.apply(document(source=["x y", pair[0]], target=["y z", pair[1]]))
    assert kept["src"] == ["x y"] and kept["tgt"] == ["y z"]
    assert corpus_filter.report()["faulty_pairs"] == {reason: {"count": 1, "share": 0.5}}


def test_a_pair_at_the_limit_stays():
    corpus_filter = CorpusFilter(max_sentence_words=3, max_sentence_characters=6, max_length_ratio=2.0)
    assert corpus_filter.apply(document(source=["a b c"], target=["abc"])) is not None
    assert corpus_filter.apply(document(source=["abcdef"], target=["abc"])) is not None


@pytest.mark.parametrize(
    ("limits", "record", "reason"),
    [
        ({"faulty_pairs": "drop_document"}, document(source=["", "Two."]), "faulty_pairs"),
        ({"min_sentences": 3}, document(), "too_few_sentences"),
        ({}, document(source=[], target=[]), "too_few_sentences"),
        ({"max_sentences": 1}, document(), "too_many_sentences"),
        ({"exclude_ids": ("a",)}, document(), "excluded_id"),
        ({}, {"id": "a", "src": ["One."]}, "no_translation"),
    ],
)
def test_a_document_is_left_out_and_counted_under_its_reason(limits, record, reason):
    corpus_filter = CorpusFilter(**limits)
    assert corpus_filter.apply(record) is None
    report = corpus_filter.report()
    assert report["dropped_documents"] == {reason: {"count": 1, "share": 1.0}}
    assert report["counts"]["documents_out"] == report["counts"]["sentences_out"] == 0


def test_duplicates_are_told_by_their_sentences_and_not_by_their_ids():
    corpus_filter = CorpusFilter(drop_duplicates=True)
    assert corpus_filter.apply(document("a")) is not None
    assert corpus_filter.apply(document("a", target=["Eins!", "Zwei."])) is not None
    assert corpus_filter.apply(document("b")) is None


def test_ids_that_occur_again_are_made_unique():
    corpus_filter = CorpusFilter()
    names = [corpus_filter.apply(document(name))["id"] for name in ("a", "a", "a#2", "a")]
    assert names == ["a", "a#2", "a#2#2", "a#3"]
    assert corpus_filter.report()["counts"]["ids_made_unique"] == 3


def test_entries_of_a_dropped_sentence_go_with_it():
    record = document(para=[4, 5], score=[0.1, 0.2], alt={"B": ["x", "y"]}, tags=["keep", "both"])
    selected = select_sentences(record, [1])
    assert selected == document(
        source=["Two."], target=["Zwei."], para=[5], score=[0.2], alt={"B": ["y"]}, tags=["keep", "both"]
    )


def test_cleaning_removes_line_breaks_and_keeps_other_spaces():
    assert clean_sentence("\t a\u2028\n b\x0c\x85c\u00a0\u3000d \r") == "a b c\u00a0\u3000d"


def test_normalizing_composes_and_drops_what_is_invisible_but_keeps_joiners():
    assert clean_sentence("u\u0308ber\u00ad  all\ufeff") == "u\u0308ber\u00ad  all\ufeff"
    assert clean_sentence("u\u0308ber\u00ad  \n all\ufeff", normalize=True) == "\u00fcber all"
    assert clean_sentence("\U0001f468\u200d\U0001f469", normalize=True) == "\U0001f468\u200d\U0001f469"


def test_documents_to_translate_keep_their_empty_and_long_sentences():
    corpus_filter = CorpusFilter(parallel=False, max_sentence_words=1)
    assert corpus_filter.apply({"id": "a", "src": ["", "a b c"]})["src"] == ["", "a b c"]


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ({"max_sentence_words": 0}, "`max_sentence_words` must be 1 or more, got 0"),
        ({"max_length_ratio": 0.5}, "`max_length_ratio` must be 1 or more .* got 0.5"),
        ({"min_sentences": 5, "max_sentences": 4}, "min_sentences=5 and max_sentences=4"),
    ],
)
def test_a_limit_that_nothing_passes_is_refused(limit, problem):
    with pytest.raises(ValueError, match=problem):
        CorpusFilter(**limit)


# the command


def test_the_folder_holds_the_same_documents_as_jsonl_and_as_arrow(line_files):
    info = prepare_corpus(arguments(line_files, drop_duplicates=True))
    folder = line_files / "corpus"
    records = list(read_documents(folder / "documents.jsonl.gz"))
    assert [(record["src"], record["tgt"]) for record in records] == [
        (["The tide rose.", "It was late."], ["Die Flut stieg.", "Es war spät."]),
        (["The end."], ["Das Ende."]),
    ]
    assert records[0]["src_lang"] == "en" and records[0]["tgt_lang"] == "de"
    assert list(datasets.load_from_disk(str(folder))) == records
    assert list(load_corpus(folder)) == records
    assert info == json.loads((folder / "info.json").read_text(encoding="utf-8"))


def test_info_counts_everything_and_names_files_by_content(line_files):
    info = prepare_corpus(arguments(line_files, drop_duplicates=True))
    assert info["counts"] == {
        "documents_in": 4,
        "documents_out": 2,
        "sentences_in": 5,
        "sentences_out": 3,
        "source_words": 8,
        "target_words": 8,
        "ids_made_unique": 0,
    }
    # the pair with an empty side was all of its document
    assert info["dropped_documents"] == {
        "duplicate": {"count": 1, "share": 0.25},
        "too_few_sentences": {"count": 1, "share": 0.25},
    }
    assert info["faulty_pairs"] == {"empty_side": {"count": 1, "share": 0.2}}
    assert set(info["inputs"]) == {"sea.en", "sea.de"}
    assert "documents.jsonl.gz" in info["outputs"] and len(info["outputs"]["documents.jsonl.gz"]) == 64
    assert {"datasets", "python"} <= set(info["versions"])


def test_same_input_gives_the_same_bytes(line_files):
    first = prepare_corpus(arguments(line_files, output_dir=str(line_files / "first")))
    second = prepare_corpus(arguments(line_files, output_dir=str(line_files / "second")))
    assert len(first["outputs"]) == 4
    assert first["outputs"] == second["outputs"]


def test_a_prepared_folder_is_an_input_again(line_files):
    first = prepare_corpus(arguments(line_files))
    folder = str(line_files / "corpus")
    second = prepare_corpus(CorpusArguments("records", [folder], output_dir=str(line_files / "again")))
    assert second["outputs"] == first["outputs"]


def test_the_card_says_what_the_folder_holds_and_what_the_viewer_shows(line_files):
    info = prepare_corpus(arguments(line_files, license="cc0-1.0", drop_duplicates=True))
    card = DatasetCard.load(line_files / "corpus" / "README.md")
    assert card.data.language == ["en", "de"] and card.data.license == "cc0-1.0"
    assert card.data.to_dict()["configs"] == [{"config_name": "default", "data_files": "documents.jsonl.gz"}]
    assert (line_files / "corpus" / "documents.jsonl.gz").is_file()
    assert f"| documents | {info['counts']['documents_out']} |" in card.text
    assert info["command"] in card.text and "1 duplicate" in card.text
    prepare_corpus(arguments(line_files, monolingual=True, target_files=None, output_dir=str(line_files / "one")))
    card = DatasetCard.load(line_files / "one" / "README.md")
    assert card.data.language == ["en"] and card.data.license == "unknown" and "target words" not in card.text


def test_a_fault_leaves_no_folder_behind(line_files):
    with open(line_files / "sea.de", "a", encoding="utf-8") as file:
        file.write("Noch eine Zeile.\n")
    before = sorted(line_files.iterdir())
    with pytest.raises(ValueError, match=r"sea\.en has 9 lines and .*sea\.de has 10"):
        prepare_corpus(arguments(line_files, on_error="skip"))
    assert sorted(line_files.iterdir()) == before


def test_an_old_folder_is_replaced_only_on_request_and_only_if_it_is_ours(line_files):
    prepare_corpus(arguments(line_files))
    with pytest.raises(ValueError, match="exists. Name another one, or replace it with `--overwrite`"):
        prepare_corpus(arguments(line_files))
    info = prepare_corpus(arguments(line_files, min_sentences=2, overwrite=True))
    assert info["counts"]["documents_out"] == len(load_corpus(line_files / "corpus")) == 1
    with pytest.raises(ValueError, match="is not a folder of this command"):
        prepare_corpus(arguments(line_files, output_dir=str(line_files), overwrite=True))
    assert sorted(path.name for path in line_files.iterdir()) == ["corpus", "sea.de", "sea.en"]


def test_faulty_documents_stop_the_command_or_are_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(document("good")), json.dumps(document("bad", target=["Eins."])), "{"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = {"format": "records", "source_files": [str(path)], "output_dir": str(tmp_path / "out")}
    with pytest.raises(ValueError, match=r"a\.jsonl:2: document 'bad'"):
        prepare_corpus(CorpusArguments(**settings))
    info = prepare_corpus(CorpusArguments(**settings, on_error="skip", source_lang="en"))
    assert info["dropped_documents"] == {"faulty": {"count": 2, "share": 0.666667}}
    assert [message.split(": ")[0] for message in info["messages"]] == [f"{path.name}:2", f"{path.name}:3"]
    assert load_corpus(tmp_path / "out")["src_lang"][:] == ["en"]


def test_a_corpus_of_which_nothing_is_left_is_an_error_with_the_reasons(line_files):
    with pytest.raises(ValueError, match=r"no document is left of 4: .*too_few_sentences.*'count': 4"):
        prepare_corpus(arguments(line_files, min_sentences=9))


def test_documents_to_translate_have_no_target(line_files):
    prepare_corpus(arguments(line_files, target_files=None, target_lang=None, monolingual=True))
    table = load_corpus(line_files / "corpus", require_target=False)
    assert len(table) == 4 and "tgt" not in table.column_names


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"target_files": None}, "needs `target_files`, or `--monolingual`"),
        ({"monolingual": True}, "needs `target_files`, or `--monolingual`"),
        ({"source_lang": None}, "`source_lang` is needed"),
        ({"target_lang": None}, "`target_lang` is needed"),
        ({"boundaries": "ids"}, "`boundary_files` .*boundary_files=None"),
        ({"boundary_files": ["x"]}, "`boundary_files` .*boundaries='blank'"),
        ({"format": "tmx"}, "`target_files` is not read with format='tmx'"),
        ({"source_files": ["a", "b"]}, "`target_files` must have one file for each of `source_files`, got 1 for 2"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(tmp_path, changes, problem):
    with pytest.raises(ValueError, match=problem):
        arguments(tmp_path, **changes)


def test_the_command_line_prints_counts_and_reasons(line_files, capsys):
    main(
        f"--format lines --source_files {line_files}/sea.en --target_files {line_files}/sea.de --source_lang en "
        f"--target_lang de --output_dir {line_files}/corpus --drop_duplicates".split()
    )
    printed = capsys.readouterr().out
    assert "dropped documents: 1 of 4 (25.00%): duplicate" in printed
    assert "faulty pairs: 1 of 5 (20.00%): empty_side" in printed
    assert "2 of 4 documents, 3 of 5 sentences" in printed
    command = json.loads((line_files / "corpus" / "info.json").read_text(encoding="utf-8"))["command"]
    assert "--drop_duplicates" in command and str(line_files) not in command


def test_the_command_line_reports_a_fault_without_a_traceback(line_files, capsys):
    with pytest.raises(SystemExit) as stop:
        main(f"--format lines --source_files {line_files}/sea.en --output_dir {line_files}/corpus".split())
    assert str(stop.value).startswith("prepare_corpus: format='lines' needs `target_files`")
    with pytest.raises(SystemExit):
        main(["--form", "lines"])
    assert "--form" in capsys.readouterr().err


def test_id_file_has_the_name_that_people_look_for(line_files):
    (line_files / "ids").write_text("".join(f"{name}\n" for name in "aabbccddd"), encoding="utf-8")
    main(
        f"--format lines --boundaries ids --id_file {line_files}/ids --source_files {line_files}/sea.en "
        f"--target_files {line_files}/sea.de --source_lang en --target_lang de "
        f"--output_dir {line_files}/corpus".split()
    )
    assert load_corpus(line_files / "corpus")["id"][:] == ["a", "d"]


@pytest.mark.parametrize("name", ["IWSLT2017.test", "NC-2016.dev.head600"])
def test_real_marker_files_become_the_documents_of_the_data_folder(docmt_data, tmp_path, name):
    files = [docmt_data / "raw" / "selective-attn" / f"{name}.{language}.txt" for language in ("en", "de")]
    if not files[0].exists():
        pytest.skip(f"{files[0].name} is not in the data folder")
    settings = {"source_lang": "en", "target_lang": "de", "boundaries": "marker"}
    source_files, target_files = [str(files[0])], [str(files[1])]
    info = prepare_corpus(
        CorpusArguments("lines", source_files, str(tmp_path / "out"), target_files, normalize_text=True, **settings)
    )
    known = {
        "IWSLT2017.test": ("test.en-de.ted.jsonl.gz", None),
        "NC-2016.dev.head600": ("dev.en-de.news.jsonl.gz", 32),
    }
    reference, complete_documents = known[name]
    expected = [(r["src"], r["tgt"]) for r in read_documents(docmt_data / reference)][:complete_documents]
    documents = [(r["src"], r["tgt"]) for r in read_documents(tmp_path / "out")]
    assert documents[: len(expected)] == expected
    assert info["counts"]["documents_out"] == (23 if complete_documents is None else 33)


def test_pairs_of_run_translation_become_documents_by_their_key(tmp_path):
    pairs = [("One.", "Eins.", "a"), ("Two.", "Zwei.", "a"), ("Three.", "Drei.", "b")]
    lines = [json.dumps({"translation": {"en": en, "de": de}, "doc_id": name}) for en, de, name in pairs]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    languages = {"source_lang": "en", "target_lang": "de"}
    settings = {"format": "translations", "source_files": [str(tmp_path / "pairs.jsonl")], **languages}
    prepare_corpus(CorpusArguments(**settings, id_key="doc_id", output_dir=str(tmp_path / "joined")))
    assert [record["tgt"] for record in read_documents(tmp_path / "joined")] == [["Eins.", "Zwei."], ["Drei."]]
    info = prepare_corpus(CorpusArguments(**settings, output_dir=str(tmp_path / "apart")))
    assert info["counts"]["documents_out"] == 3
