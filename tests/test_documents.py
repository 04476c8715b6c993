"""Records: checks, reading, loading as a table, writing."""

import gzip
import json
import os

import datasets
import pytest

from training.documents import load_corpus, read_documents, validate_record, write_documents


RECORD = {
    "id": "harbour",
    "src_lang": "en",
    "tgt_lang": "de",
    "src": ["A boat.", "It left."],
    "tgt": ["Ein Boot.", ""],
}


def as_file(tmp_path, *records, name="train.jsonl"):
    path = tmp_path / name
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_bytes(("\n".join(lines) + "\n").encode("utf-8"))
    return path


def without_none(row):
    return {key: value for key, value in row.items() if value is not None}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": None}, "`id` must be"),
        ({"id": True}, "`id` must be"),
        ({"src": "A boat."}, "`src` must be a list of sentences, got str"),
        ({"src": ["A boat.", 3]}, r"`src`\[1\] must be a text, got 3"),
        ({"tgt": ["Ein Boot."]}, "2 source sentences and 1 target sentences"),
        ({"tgt": None}, "has no `tgt`"),
        ({"tgt": ["Ein Boot.", "\ud83d"]}, r"`tgt`\[1\] has half a surrogate pair"),
        ({"src_lang": ["en"]}, "`src_lang` must be a language code"),
        ({"para": [0]}, "`para` has 1 entries for 2 sentences"),
        ({"alt": ["Ein Kahn.", "x"]}, "`alt` must hold further references by name"),
        ({"alt": {"B": "Ein Kahn."}}, r"`alt\['B'\]` must be a list of sentences"),
        ({"alt": {"B": ["Ein Kahn."]}}, r"`alt\['B'\]` has 1 entries"),
    ],
)
def test_a_faulty_record_is_refused_with_place_and_document(change, problem):
    with pytest.raises(ValueError, match=problem) as error:
        validate_record({**RECORD, **change}, "train.jsonl:7")
    assert str(error.value).startswith("train.jsonl:7: ")
    assert "id" in change or "document 'harbour'" in str(error.value)


def test_a_valid_record_keeps_further_keys_and_gets_its_core_keys_first():
    record = {"topic": "sea", **RECORD, "id": 17, "alt": {"B": ["Ein Kahn.", ""]}}
    checked = validate_record(record, "here")
    assert list(checked) == ["id", "src_lang", "tgt_lang", "src", "tgt", "topic", "alt"]
    assert checked == {**record, "id": "17"}


def test_a_document_without_translation_passes_only_where_it_is_expected(tmp_path):
    path = as_file(tmp_path, {"id": "a", "src": ["One."]})
    assert list(read_documents(path, require_target=False)) == [{"id": "a", "src": ["One."]}]
    with pytest.raises(ValueError, match="has no `tgt`"):
        list(read_documents(path))


def test_toy_corpus_is_read_as_it_is_written(toy_corpus, toy_documents):
    assert list(read_documents(toy_corpus)) == toy_documents


def test_gzip_byte_order_mark_crlf_and_empty_lines_do_not_change_the_documents(tmp_path):
    line = json.dumps(RECORD).encode()
    path = tmp_path / "packed.jsonl"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + line + b"\r\n\r\n" + line + b"\n\n"))
    assert list(read_documents(path)) == [RECORD, RECORD]


def test_unicode_line_separators_stay_inside_their_sentence(tmp_path):
    record = {**RECORD, "src": ["A\u2028boat.", "It\x0cleft\x85."]}
    path = tmp_path / "raw.jsonl"
    path.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    assert list(read_documents(path)) == [record]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{not json", "not a JSON document"),
        ('["a", "b"]', "must be a JSON object, got list"),
        ('{"id": "x", "text": ["One."]}', r"has no `src`, only \['text'\]"),
    ],
)
def test_the_first_faulty_line_is_named(tmp_path, line, problem):
    path = as_file(tmp_path, RECORD, line)
    with pytest.raises(ValueError, match=problem) as error:
        list(read_documents(path))
    assert str(error.value).startswith(f"{path}:2: ")


def test_bytes_that_are_not_utf8_are_named_with_line_and_position(tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes(json.dumps(RECORD).encode() + b'\n{"id": "caf\xe9"}\n')
    with pytest.raises(ValueError, match=r"latin\.jsonl:2: byte 0xe9 at position 11 is not utf-8"):
        list(read_documents(path))


def test_cut_gzip_and_missing_file_are_explained(tmp_path):
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(RECORD).encode() * 100)[:-20])
    with pytest.raises(ValueError, match="damaged or cut off"):
        list(read_documents(path))
    with pytest.raises(ValueError, match="there is no such file"):
        list(read_documents(tmp_path / "absent.jsonl"))


def test_on_problem_receives_faulty_documents_and_the_others_pass(tmp_path):
    messages = []
    path = as_file(tmp_path, {**RECORD, "tgt": []}, "{", RECORD)
    assert list(read_documents(path, on_problem=messages.append)) == [RECORD]
    assert [message.split(": ")[0] for message in messages] == [f"{path}:1", f"{path}:2"]


def test_other_column_names_are_an_option_and_a_stray_src_is_not_taken_for_them(tmp_path):
    path = as_file(tmp_path, {"doc": 5, "en": ["One."], "de": ["Eins."], "src": "book", "year": 1900})
    columns = {"source_column": "en", "target_column": "de", "id_column": "doc"}
    expected = {"id": "5", "src": ["One."], "tgt": ["Eins."], "year": 1900}
    assert list(read_documents(path, **columns)) == [expected]
    with pytest.raises(ValueError, match="has no `fr`"):
        list(read_documents(path, source_column="fr", target_column="de"))


def test_a_document_without_id_is_named_after_its_line(tmp_path):
    path = as_file(tmp_path, "", {"src": ["One."], "tgt": ["Eins."]}, name="news.jsonl")
    assert [record["id"] for record in read_documents(path)] == ["news:2"]


def test_table_has_the_fixed_columns_and_gives_back_every_record(tmp_path):
    records = [
        {**RECORD, "topic": "7", "alt": {"B": ["x", "y"]}},
        {"id": "empty", "src": [], "tgt": [], "topic": "sea", "note": "8"},
        {**RECORD, "alt": {"C": ["", "z"]}, "note": 9},
    ]
    table = load_corpus(as_file(tmp_path, *records))
    assert table.column_names == ["id", "src_lang", "tgt_lang", "src", "tgt", "alt", "note", "topic"]
    assert table.features["src"] == datasets.List(datasets.Value("string"))
    assert table.features["topic"] == datasets.Value("string")
    # a text among other values comes back as a text
    assert [without_none(row) for row in table] == records


def test_table_follows_a_file_that_changed(tmp_path):
    path = as_file(tmp_path, RECORD)
    assert len(load_corpus(path)) == 1
    as_file(tmp_path, {**RECORD, "id": "jetty"})
    os.utime(path, ns=(1, 1))
    assert load_corpus(path)["id"][:] == ["jetty"]


def test_streaming_gives_the_same_documents_with_one_shard_a_file(tmp_path):
    paths = [as_file(tmp_path, {**RECORD, "id": name}, name=f"{name}.jsonl") for name in "abc"]
    stream = load_corpus(paths, streaming=True)
    assert stream.num_shards == 3
    assert list(stream) == [{**RECORD, "id": name} for name in "abc"]


@pytest.mark.parametrize("streaming", [False, True])
def test_table_without_translations_has_no_target_column(tmp_path, streaming):
    path = as_file(tmp_path, {"id": "a", "src": ["One."]})
    table = load_corpus(path, require_target=False, streaming=streaming)
    assert "tgt" not in table.features
    assert next(iter(table))["src"] == ["One."]


def test_parquet_and_saved_folders_hold_the_same_documents_as_their_jsonl(tmp_path):
    table = load_corpus(as_file(tmp_path, RECORD, {**RECORD, "id": "b", "year": 3}))
    table.to_parquet(tmp_path / "train.parquet")
    table.save_to_disk(tmp_path / "folder")
    assert list(load_corpus(tmp_path / "folder")) == list(table)
    assert list(read_documents(tmp_path / "folder")) == [without_none(row) for row in table]
    assert [row["src"] for row in load_corpus(tmp_path / "train.parquet")] == [RECORD["src"]] * 2


def test_a_misaligned_saved_folder_is_refused_with_its_row(tmp_path):
    rows = {"id": ["a", "b"], "src": [["One."], ["Two."]], "tgt": [["Eins."], []]}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "folder")
    with pytest.raises(ValueError, match="row 2: document 'b' has 1 source sentences and 0 target"):
        load_corpus(tmp_path / "folder")


def test_folders_that_are_no_corpus_are_explained(tmp_path):
    with pytest.raises(ValueError, match="not a folder of `save_to_disk`"):
        load_corpus(tmp_path)
    datasets.DatasetDict({"dev": datasets.Dataset.from_dict({"id": ["a"]})}).save_to_disk(tmp_path / "splits")
    with pytest.raises(ValueError, match=r"holds the splits \['dev'\]"):
        load_corpus(tmp_path / "splits")


def test_writing_is_repeatable_readable_and_keeps_every_character(tmp_path):
    records = [{**RECORD, "src": ["\u2028 \U0001f468\u200d\U0001f469", "שלום\r\n"]}]
    for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl"):
        assert write_documents(tmp_path / name, iter(records)) == 1
        assert list(read_documents(tmp_path / name)) == records
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    # a date in the gzip header would make tomorrow's file another one
    assert (tmp_path / "a.jsonl.gz").read_bytes()[4:8] == bytes(4)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = as_file(tmp_path, RECORD)
    before = path.read_bytes()

    def broken():
        yield RECORD
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_documents(path, broken())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_real_training_documents_survive_the_table(docmt_data):
    path = docmt_data / "tiny.en-de.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in the data folder")
    records = list(read_documents(path))
    assert len(records) == 58
    assert sum(len(record["src"]) for record in records) == 1042
    assert [without_none(row) for row in load_corpus(path)] == records
