"""Contrastive suites from files: every layout gives all items that stand in it, or says what is wrong."""

import gzip
import json

import pytest

from training.contrastive_items import distance_label, held_context, label_values
from training.contrastive_lines import DocumentFolder, read_line_suite
from training.contrastive_readers import detect_format, read_suite


RECORD = {
    "id": "a",
    "src": ["It rains.", "The lamp is old.", "It is broken."],
    "tgt_context": ["Die Lampe ist alt."],
    "ref": "Sie ist kaputt.",
    "contrastive": ["Er ist kaputt.", "Es ist kaputt."],
    "ref_pronoun": "Sie",
    "src_pronoun": "It",
    "ante_distance": 1,
    "intrasegmental": False,
}
BLOCK = {
    "id": "b",
    "src": ["First.", "Second."],
    "candidates": [["Eins.", "Zwei."], ["Eins.", "Drei."], ["Eins.", "Vier."]],
    "true_ind": 1,
    "ctx_dist": 2,
}
SUITES = {
    # items, and candidates of all of them, as the README of the data says
    "contrapro.en-de": (12000, 11969 * 3 + 31 * 4),
    "discourse-mt.en-fr": (400, 800),
    "large-contrastive-pronouns.en-fr": (14000, 28000),
    "voita-deixis-dev.en-ru": (500, 1000),
    "voita-deixis-test.en-ru": (2500, 5000),
    "voita-ellipsis-infl.en-ru": (500, 393 * 5 + 39 * 4 + 25 * 3 + 23 * 6 + 186),
    "voita-ellipsis-vp.en-ru": (500, 252 * 11 + 214 * 10 + 15 * 9 + 8 * 8 + 92),
    "voita-lex-cohesion-dev.en-ru": (500, 394 * 2 + 93 * 3 + 8 * 4 + 5 * 5),
    "voita-lex-cohesion-test.en-ru": (1500, 1166 * 2 + 285 * 3 + 45 * 5 + 4 * 4),
}


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_records_have_their_sentence_last_and_the_reference_first(tmp_path):
    # fails if the target context is put beside the first sentences of the source, or if `true_ind` is not read
    first, second = read_suite(write_lines(tmp_path / "suite.jsonl", [RECORD, BLOCK]))
    assert first.source == ("It rains.", "The lamp is old.", "It is broken.")
    assert first.candidates == tuple(
        ("", "Die Lampe ist alt.", text) for text in (RECORD["ref"], *RECORD["contrastive"])
    )
    assert (first.current, first.correct) == (2, 0)
    assert first.labels == {
        **{"reference_pronoun": "sie", "pronouns": "it:sie", "antecedent_distance": "1", "intrasegmental": "false"}
    }
    assert second.candidates[1] == second.reference == ("Eins.", "Drei.")
    assert (second.current, second.labels) == (1, {"context_distance": "2"})
    assert label_values([first, second], "context_distance") == ["unknown", "2"]


def test_records_may_have_context_on_the_right_and_gzip(tmp_path):
    path = tmp_path / "suite.jsonl.gz"
    record = {**RECORD, "src_right": ["Buy one.", "Now."], "tgt_right": ["Kauf eine."]}
    path.write_bytes(gzip.compress((json.dumps(record) + "\n\n").encode()))
    (item,) = read_suite(path)
    assert item.source[3:] == ("Buy one.", "Now.")
    assert item.reference[3:] == ("Kauf eine.", "")
    held = held_context([item])
    assert (held.source_left, held.target_left, held.both_left) == (2, 1, 1)
    assert (held.source_right, held.target_right, held.both_right) == (2, 1, 1)


def test_distances_are_reported_in_five_groups():
    assert list(map(distance_label, (0, 1, 2, 3, 4, 12))) == ["0", "1", "2", "3", ">3", ">3"]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({**RECORD, "contrastive": []}, r"suite.jsonl:2: `candidates` must be 2 or more, got 1"),
        ({"id": "b", "src": ["One."]}, r"suite.jsonl:2: no contrastive item: it has neither"),
        ({key: RECORD[key] for key in RECORD if key != "ref"}, r"suite.jsonl:2: `ref` is missing"),
        ({**RECORD, "id": "b", "src": "One."}, r"suite.jsonl:2: a list of sentences is wanted, got 'One.'"),
        ({**RECORD, "id": "b", "src": []}, r"suite.jsonl:2: .*index out of range"),
        ({**BLOCK, "true_ind": 3}, r"suite.jsonl:2: `correct` must be one of 3 candidates, got 3"),
        ({**BLOCK, "id": "a"}, r"suite.jsonl: item 'a' is there 2 times"),
        ([1], r"suite.jsonl:2: an item must be a JSON object, got list"),
    ],
)
def test_faulty_records_are_named(tmp_path, record, message):
    # fails if one of two items of a name is dropped
    with pytest.raises(ValueError, match=message):
        read_suite(write_lines(tmp_path / "suite.jsonl", [RECORD, record]))


def test_files_that_are_no_suite_are_refused(tmp_path):
    path = tmp_path / "file.json"
    for text in ("", "[]", "[3]", '{"a": {"b": 1}}', '"text"'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match="not a contrastive suite that is known here"):
            read_suite(path)
    path.write_text("[{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"file.json: not JSON"):
        read_suite(path)
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="there is no item in it"):
        read_suite(path, "discourse-mt")
    with pytest.raises(ValueError, match="there is no such file"):
        read_suite(tmp_path / "other.json")
    with pytest.raises(ValueError, match="`format` must be 'auto' or one of 'records'"):
        read_suite(path, "contracat")


@pytest.fixture
def contrapro(tmp_path):
    """A suite in the layout of ContraPro, and the documents of its items."""
    folder = tmp_path / "documents" / "1950"
    folder.mkdir(parents=True)
    english = ["One.", "Two.", "It  is\tthree.", "Four.", "It is five."]
    german = ["Eins.", "Zwei.", "Sie ist drei.", "Vier.", "Es ist fünf."]
    (folder / "1950_1_2.en").write_text("\n".join(english) + "\n", encoding="utf-8")
    (folder / "1950_1_2.de").write_text("\n".join(german) + "\n", encoding="utf-8")
    common = {"document id": "1950_1_2.de", "src pronoun": "It", "intrasegmental": None}
    entries = [
        {
            **{**common, "segment id": 3, "src segment": "It is three.", "ref segment": "Sie ist drei."},
            **{"ref pronoun": "Sie", "ante distance": 5},
            "errors": [{"contrastive": text} for text in ("Er ist drei.", "Sie ist drei.", "Es ist drei.")],
        },
        {
            **{**common, "segment id": 5, "src segment": "It is five.", "ref segment": "Es ist fünf."},
            **{"ref pronoun": "Es", "ante distance": 0},
            "errors": [{"contrastive": "Er ist fünf."}],
        },
    ]
    path = tmp_path / "contrapro.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path, entries, tmp_path / "documents"


def test_contrapro_takes_its_context_from_the_documents(contrapro):
    # fails if lines are counted from 0, or if what follows the sentence is taken for left context
    path, _, folder = contrapro
    first, second = read_suite(path, documents=DocumentFolder(folder), context_sentences=1)
    assert first.source == ("Two.", "It is three.", "Four.")
    assert first.candidates == (
        ("Zwei.", "Sie ist drei.", "Vier."),
        ("Zwei.", "Er ist drei.", "Vier."),
        ("Zwei.", "Es ist drei.", "Vier."),
    )
    assert first.current == 1
    assert first.labels == {"reference_pronoun": "sie", "pronouns": "it:sie", "antecedent_distance": ">3"}
    assert (second.source, second.current) == (("Four.", "It is five."), 1)
    whole, _ = read_suite(path, documents=DocumentFolder(folder), context_sentences=9)
    assert (len(whole.source), whole.current) == (5, 2)


def test_contrapro_is_read_without_documents_too(contrapro):
    path, _, _ = contrapro
    assert [item.source for item in read_suite(path)] == [("It is three.",), ("It is five.",)]


def test_other_documents_than_those_of_the_suite_are_refused(contrapro):
    path, entries, folder = contrapro
    for key, value, message in (
        ("document id", "1951_1_2.de", "item 0: document '1951_1_2.en' is not in"),
        ("segment id", 2, "item 0: line 2 of '1950_1_2.en' is not the source sentence of the item"),
        ("segment id", 6, "item 0: line 6 of '1950_1_2.en' is not the source sentence of the item"),
    ):
        path.write_text(json.dumps([{**entries[0], key: value}]), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            read_suite(path, documents=DocumentFolder(folder))
    with pytest.raises(ValueError, match="`documents`: there is no folder"):
        DocumentFolder(folder / "none")


def test_documents_belong_to_contrapro_alone(contrapro, tmp_path):
    path = write_lines(tmp_path / "suite.jsonl", [RECORD])
    with pytest.raises(
        ValueError, match="documents hold the context of format 'contrapro', and this one is 'records'"
    ):
        read_suite(path, documents=DocumentFolder(contrapro[2]))


def test_line_files_end_an_item_where_the_source_changes(tmp_path):
    # fails if context lines are not those of the line of text
    names = ("source", "target", "source_context", "target_context")
    files = [tmp_path / name for name in names]
    texts = (
        "It is.\nIt is.\nIt is.\nIt is.\nThey.\n",
        "Er ist.\nSie ist.\nEs ist.\nEr ist.\nSie.\n",
        "A.\nB.\nA.\nB.\nC.\nD.\nC.\nD.\n\nE.\n",
        "b.\nb.\nd.\nd.\ne.\n",
    )
    for path, text in zip(files, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="source:5: `candidates` must be 2 or more, got 1"):
        read_line_suite(*files)
    for path, text, size in zip(files, texts, (4, 4, 8, 4), strict=True):
        path.write_text("".join(text.splitlines(keepends=True)[:size]), encoding="utf-8")
    first, second = read_line_suite(*files)
    assert (first.id, first.source) == ("line-0", ("A.", "B.", "It is."))
    assert first.candidates == (("", "b.", "Er ist."), ("", "b.", "Sie ist."))
    assert (second.id, second.source, second.reference) == ("line-2", ("C.", "D.", "It is."), ("", "d.", "Es ist."))
    # without its context, the source is the same throughout, but the first translation comes again
    files[1].write_text("Er ist.\nSie ist.\nEr ist.\nEs ist.\n", encoding="utf-8")
    first, second = read_line_suite(*files[:2])
    assert [candidate[-1] for candidate in second.candidates] == ["Er ist.", "Es ist."]
    files[1].write_text("Er ist.\nSie ist.\nEs ist.\nDas ist.\n", encoding="utf-8")
    assert [len(item.candidates) for item in read_line_suite(*files[:2])] == [4]
    assert len(read_line_suite(*files[:2], candidates_per_item=2)) == 2
    with pytest.raises(ValueError, match="source:1: the source changes within 4 lines"):
        read_line_suite(*files, candidates_per_item=4)
    with pytest.raises(ValueError, match="4 lines are no items of `candidates_per_item=3` lines"):
        read_line_suite(*files, candidates_per_item=3)
    files[1].write_text("Er ist.\n", encoding="utf-8")
    with pytest.raises(ValueError, match="source has 4 lines and .*target 1"):
        read_line_suite(*files)


@pytest.mark.parametrize("suite", SUITES)
def test_suites_have_the_size_that_their_readme_says(docmt_data, suite):
    # fails if an item is dropped, or merged with another one
    items = read_suite(docmt_data / "suites" / f"{suite}.jsonl.gz")
    assert (len(items), sum(len(item.candidates) for item in items)) == SUITES[suite]


def test_suites_without_candidates_are_refused(docmt_data):
    for name in ("scat-valid.en-fr", "tcp.zh-en"):
        with pytest.raises(ValueError, match="no contrastive item"):
            read_suite(docmt_data / "suites" / f"{name}.jsonl.gz")


def content(item):
    """All that is scored, in one order of the candidates that are wrong."""
    wrong = [candidate for index, candidate in enumerate(item.candidates) if index != item.correct]
    return item.source, item.current, item.reference, sorted(wrong)


def test_original_json_of_voita_gives_the_same_items(docmt_data):
    for raw, suite in (("deixis_dev.first30", "voita-deixis-dev"), ("ellipsis_vp.first15", "voita-ellipsis-vp")):
        path = docmt_data / "raw" / "voita" / f"{raw}.json"
        assert detect_format(path) == "voita"
        items = read_suite(path)
        expected = read_suite(docmt_data / "suites" / f"{suite}.en-ru.jsonl.gz")[: len(items)]
        assert list(map(content, items)) == list(map(content, expected))
        assert label_values(items, "context_distance") == label_values(expected, "context_distance")


def test_original_json_of_discourse_mt_gives_the_same_items(docmt_data):
    items = read_suite(docmt_data / "raw" / "discourse-mt" / "anaphora.json")
    expected = [
        item
        for item in read_suite(docmt_data / "suites" / "discourse-mt.en-fr.jsonl.gz")
        if item.labels["phenomenon"] == "anaphora"
    ]
    assert list(map(content, items)) == list(map(content, expected))
    for name in ("status", "type"):
        assert label_values(items, name) == label_values(expected, name)


def test_original_json_of_contrapro_gives_the_same_items(docmt_data):
    """Of the cut file each item has one error that is the reference itself; it is left out."""
    path = docmt_data / "raw" / "contrapro" / "contrapro_subset.first40.json"
    items = {item.source[-1] + item.reference[-1]: item for item in read_suite(path)}
    assert len(items) == 40
    found = 0
    for expected in read_suite(docmt_data / "suites" / "contrapro.en-de.jsonl.gz"):
        item = items.get(expected.source[-1] + expected.reference[-1])
        if item is None or "pronouns" not in expected.labels:
            continue
        found += 1
        assert {c[-1] for c in item.candidates} <= {c[-1] for c in expected.candidates}
        for name in ("pronouns", "antecedent_distance", "intrasegmental"):
            assert item.labels[name] == expected.labels[name]
    assert found >= 38


@pytest.mark.parametrize(
    ("folder", "files", "suite", "options"),
    [
        (
            "large-contrastive-en-fr",
            [f"head.OpenSubs.{name}" for name in ("current.src", "current.trg", "c3.context.src", "c3.context.trg")],
            "large-contrastive-pronouns.en-fr",
            {"candidates_per_item": 2},
        ),
        (
            "contrapro",
            [f"head.contrapro.{name}" for name in ("text.en", "text.de", "context.en")],
            "contrapro.en-de",
            {},
        ),
    ],
)
def test_original_line_files_give_the_same_items(docmt_data, folder, files, suite, options):
    items = read_line_suite(*(docmt_data / "raw" / folder / name for name in files), **options)
    expected = read_suite(docmt_data / "suites" / f"{suite}.jsonl.gz")[: len(items)]
    # the last item may be cut, and the target context of the one suite is not in these files
    for item, wanted in list(zip(items, expected, strict=True))[:-1]:
        missing = len(item.source) - len(wanted.source)
        assert item.source[max(missing, 0) :] == wanted.source
        assert [candidate[-1] for candidate in item.candidates] == [candidate[-1] for candidate in wanted.candidates]
        if len(files) == 4:
            assert item.reference == wanted.reference
