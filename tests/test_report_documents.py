"""The documents of a report: sentence against sentence, marked words, and what a browser makes of the page."""

import gzip
import json
import random
import re
import shutil
import subprocess

import pytest
from test_report import Page, entry_of, evaluation, others, training, write_results

from training.metrics import load_tagger
from training.metrics.pronouns import FORMALITY_F1, PRONOUN_F1, count_sentence
from training.report import main
from training.report_documents import mark, marked_forms
from training.report_page import DocumentView, build_report, write_report
from training.results import sha256_of_file


NAME = "test.en-de.tales"
RECORDS = [
    {
        "id": "first/tale",
        "src_lang": "en",
        "tgt_lang": "de",
        "src": ["The lamp is old.", "It is broken.", "You saw it & them.", "Do you <b>know</b> her?"],
        "tgt": ["Die Lampe ist alt.", "Sie ist kaputt.", "Du sahst sie.", "Kennen Sie sie?"],
    },
    {"id": "second", "src_lang": "en", "tgt_lang": "de", "src": ["Are you there?"], "tgt": ["Sind Sie da?"]},
]
LITTLE = [["Die Lampe ist alt.", "Er ist kaputt.", "", "Kennst du ihn?"], ["Bist du da?"]]
COPY = [list(record["src"]) for record in RECORDS]
STATUSES = [["ok", "repetition", "empty", "ok"], ["ok"]]


def view(records=RECORDS, hypotheses=None, **changes):
    hypotheses = {"little": LITTLE, "copy": COPY} if hypotheses is None else hypotheses
    return DocumentView(NAME, records, hypotheses, **changes)


def report(documents, **options):
    return build_report([evaluation()], [documents], **{"tagger": "none", **options})


def sentence_rows(text):
    """Cells of each sentence, by number of the document."""
    return [table[1:] for tables in Page(text).tables.values() for table in tables if table[0][:2] == ["#", "source"]]


def test_sentence_i_of_each_side_stands_in_row_i():
    # fails if a system is shifted, or a document or a sentence is left out
    first, second = sentence_rows(report(view()))
    assert [row[1] for row in first] == RECORDS[0]["src"]
    assert [row[2] for row in first] == RECORDS[0]["tgt"]
    assert [row[3] for row in first] == ["Die Lampe ist alt.", "Er ist kaputt.", "nothing", "Kennst du ihn?"]
    assert [row[4] for row in first] == RECORDS[0]["src"]
    assert second == [["1 ≠", "Are you there?", "Sind Sie da?", "Bist du da?", "Are you there?"]]


def test_sentences_in_which_systems_differ_are_told():
    # fails if a difference from the reference counts
    same = view(hypotheses={"little": LITTLE, "tiny.little": [[*LITTLE[0][:3], "x"], LITTLE[1]]})
    text = report(same)
    first, second = sentence_rows(text)
    assert [row[0] for row in first] == ["1", "2", "3", "4 ≠"] and second[0][0] == "1"
    assert "4 sentences · 1 differ" in text and "1 sentence · 0 differ" in text
    assert "only sentences in which systems differ" in text
    assert "only sentences in which systems differ" not in report(view(hypotheses={"little": LITTLE}))


def test_statuses_are_shown_where_something_went_wrong():
    text = report(view(statuses={"little": STATUSES}))
    assert [row[3] for row in sentence_rows(text)[0]] == [
        "Die Lampe ist alt.",
        "Er ist kaputt. repetition",
        "nothing",
        "Kennst du ihn?",
    ]


def test_text_of_documents_cannot_become_part_of_the_page():
    evil = '<script>alert("x")</script>'
    records = [{"id": evil, "src_lang": evil, "tgt_lang": evil, "src": [evil], "tgt": [evil]}]
    english = [{"id": "a", "src_lang": "en", "tgt_lang": "de", "src": [f"it {evil}"], "tgt": [f"es {evil} it's"]}]
    for documents in (records, english):
        text = report(view(documents, {"little": [[f"{evil} es"]]}, statuses={"little": [[evil]]}))
        assert "script" not in Page(text).elements
        assert sentence_rows(text)[0][0][3] == f"{evil} es {evil}"


def marks_of(text):
    return re.findall(r'<mark class="([a-z]+)" title="[a-z]+">(\w+)</mark>', text)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("It works.", "Sie geht, er geht, es geht.", [("feminine", "Sie"), ("masculine", "er"), ("neuter", "es")]),
        ("They took it.", "Sie nahmen ihn.", [("masculine", "ihn")]),  # "Sie" may be "they"
        ("Do you know?", "Wissen Sie, weißt du?", [("formal", "Sie"), ("informal", "du")]),
        ("Do you know her?", "Kennst du sie?", [("informal", "du")]),  # "sie" may be "her"
        ("You broke it.", "Du hast es.", [("informal", "Du"), ("neuter", "es")]),
        ("She sleeps.", "Sie schläft.", []),  # nothing counts
    ],
)
def test_marked_is_what_the_measures_count(source, target, expected):
    # each case fails if its rule is left out
    tagger = load_tagger("none")
    _, german = marked_forms(source, tagger)
    words = tagger.pronouns(target, "de", frozenset(german))
    assert marks_of(mark(target, words, german)) == expected


def test_marks_are_as_many_as_the_measures_count():
    """On random sentences, each class has as many marks as `count_sentence` counts in the reference."""
    chance, tagger = random.Random(0), load_tagger("none")
    english = "it It its you You she them lamp , . 'the".split()
    german = "er Er ihm sie Sie ihr Ihr es Es du dein ihnen Lampe , . sich".split()
    counted = 0
    for _ in range(300):
        source = " ".join(chance.choices(english, k=4))
        target = " ".join(chance.choices(german, k=7))
        _, classes = marked_forms(source, tagger)
        names = [
            name for name, _ in marks_of(mark(target, tagger.pronouns(target, "de", frozenset(classes)), classes))
        ]
        wanted = {}
        for measure in (PRONOUN_F1, FORMALITY_F1):
            counts = count_sentence(measure, source, "", target, tagger)
            wanted |= {} if counts is None else {n: c[2] for n, c in zip(measure.classes, counts, strict=True)}
        assert {name: names.count(name) for name in wanted} == wanted
        assert len(names) == sum(wanted.values())
        counted += len(names)
    assert counted > 100


def test_marking_changes_no_text():
    # fails if text before, between or behind words is lost, or a word within another is marked
    text = "  Es <gibt>  es, es-es & Essen. "
    marked = mark(text, ["Es", "es"], {"Es": "neuter", "es": "neuter"})
    assert re.sub(r"</?mark[^>]*>", "", marked) == "  Es &lt;gibt&gt;  es, es-es &amp; Essen. "
    assert marks_of(marked) == [("neuter", "Es"), ("neuter", "es")]


def test_marks_need_no_colours():
    # fails if two classes look alike without colour
    text = report(view())
    rules = dict(re.findall(r"mark\.([a-z]+) \{([^}]*)\}", text))
    names = ("masculine", "feminine", "neuter", "formal", "informal")
    shapes = [re.search(r"text-decoration-style: (\w+)", rules[name])[1] for name in names]
    assert len(set(shapes)) == 5
    assert "border-style: dashed" in rules["you"]
    assert all(f'<mark class="{name}">{name}</mark>' in text for name in (*names, "it", "you"))


def test_the_page_shows_marks_and_says_who_found_them():
    text = report(view())
    found = marks_of(text)
    assert ("it", "It") in found and ("you", "You") in found and ("feminine", "Sie") in found
    assert "found by the tagger none" in text
    # of the first document, and of the second
    assert "4 sentences · 4 differ · 3 with pronouns" in text and "1 sentence · 1 differ · 1 with pronouns" in text


def test_a_tagger_decides_what_is_a_pronoun():
    pytest.importorskip("HanTa")
    text = report(view(), tagger="hanta")
    assert "found by the tagger hanta-" in text
    assert ("feminine", "Sie") in marks_of(text)


def test_other_languages_are_shown_without_marks():
    # fails if German lists are used on anything else
    french = [{**RECORDS[1], "tgt_lang": "fr"}]
    text = report(view(french, {"little": [["es du"]]}), tagger="none")
    assert not marks_of(text)
    assert "from English to German only" in text and "only sentences with pronouns" not in text


def test_documents_that_are_left_out_are_counted():
    # fails if they vanish without a word
    text = report(view(), max_documents=1)
    assert len(sentence_rows(text)) == 1
    assert "2 documents, 5 sentences. The first 1 are shown; 1 are left out" in text
    assert "left out" not in report(view(), max_documents=2)
    assert len(sentence_rows(report(view(), max_documents=None))) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"hypotheses": {"unknown": LITTLE}},
            "a system 'unknown': there are copy, little, tiny.little",
        ),
        ({"statuses": {"unknown": STATUSES}}, "no result is of a system 'unknown'"),
        ({"hypotheses": {"little": LITTLE[:1]}}, f"{NAME}, little: there are 1 hypothesis documents and 2"),
        ({"hypotheses": {"little": [LITTLE[0][:3], LITTLE[1]]}}, "document 'first/tale' has 3 hypothesis sentences"),
        ({"statuses": {"little": [["ok"], ["ok"]]}}, r"little \(statuses\): document 'first/tale' has 1"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        report(view(**changes))


def test_a_test_set_that_no_result_knows_is_refused():
    other = DocumentView("test.en-de.other", RECORDS, {"little": LITTLE})
    with pytest.raises(ValueError, match="the test set 'test.en-de.other': there are test.en-de.tales"):
        report(other)


def test_a_report_is_written_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.html"
    write_report(path, [evaluation()], [view()], tagger="none")
    before = path.read_bytes()
    with pytest.raises(ValueError):
        write_report(path, [evaluation()], [view(hypotheses={"unknown": LITTLE})], tagger="none")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.fixture
def files(tmp_path):
    """Test set, translations of two systems, and results that know them."""
    data = tmp_path / f"{NAME}.jsonl.gz"
    with gzip.open(data, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in RECORDS)
    for folder, documents in (("little", LITTLE), ("copied", COPY)):
        (tmp_path / folder).mkdir()
        with open(tmp_path / folder / f"{NAME}.jsonl", "w", encoding="utf-8") as file:
            for record, sentences, status in zip(RECORDS, documents, STATUSES, strict=True):
                extra = {"status": status} if folder == "little" else {}
                file.write(json.dumps({"id": record["id"], "tgt": sentences, **extra}) + "\n")
    results = write_results(tmp_path, [evaluation(test_sets=[entry_of(sha256=sha256_of_file(data))])])
    return {"data": str(data), "results": results, "folder": tmp_path, "output": str(tmp_path / "report.html")}


def command(files, *hypotheses, data=None):
    main(
        [*files["results"], "--output", files["output"], "--tagger", "none", "--data", *(data or [files["data"]])]
        + ["--hypotheses", *hypotheses]
    )


def test_the_command_shows_translations_of_folders_and_files(files):
    folder = files["folder"]
    command(files, f"little={folder}/little", f"copy={folder}/copied/{NAME}.jsonl")
    with open(files["output"], encoding="utf-8") as file:
        text = file.read()
    first, second = sentence_rows(text)
    assert [row[3] for row in first] == [
        "Die Lampe ist alt.",
        "Er ist kaputt. repetition",
        "nothing",
        "Kennst du ihn?",
    ]
    assert [row[4] for row in first + second] == [sentence for record in RECORDS for sentence in record["src"]]


def test_the_command_says_what_is_wrong_with_files(files):
    folder = files["folder"]
    little = f"little={folder}/little"
    (folder / "short.txt").write_text("one line\n", encoding="utf-8")
    (folder / "empty").mkdir()
    other = folder / "other.jsonl"
    other.write_text(json.dumps(RECORDS[1]) + "\n", encoding="utf-8")
    changed = folder / "changed" / f"{NAME}.jsonl"
    changed.parent.mkdir()
    changed.write_text(json.dumps(RECORDS[0]) + "\n", encoding="utf-8")
    cases = [
        ([little, "little=x"], None, "names 'little' twice"),
        (["little"], None, "takes NAME=FOLDER or NAME=FILE, got 'little'"),
        ([f"little={folder}/short.txt"], None, "has 1 lines, but the test set has 5 sentences"),
        ([f"little={folder}/nowhere"], None, "nowhere: there is no such file or folder"),
        ([f"little={folder}/empty"], None, f"empty: holds no translation of {NAME}, .* there is nothing"),
        ([f"else={folder}/little"], None, "no result is of a system 'else'"),
        ([f"little={other}"], [str(other)], "no result is of the test set 'other'"),
        ([f"little={folder}/little/{NAME}.jsonl"], [files["data"], str(other)], "is one file for several test sets"),
        ([little], [files["data"], str(other)], "holds no translation of other"),
        ([little], [str(changed)], f"is another file than the {NAME} of the results"),
        ([little], [str(folder / "missing.jsonl")], "missing.jsonl"),
        ([little], [files["data"], files["data"]], "names two test sets alike"),
    ]
    for hypotheses, data, message in cases:
        with pytest.raises(SystemExit, match=message):
            command(files, *hypotheses, data=data)
    assert not (folder / "report.html").exists()


PROBE = """
<script>
addEventListener("load", async () => {
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.getClientRects().length).length;
  const found = {};
  found.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  document.querySelectorAll("details.document").forEach((e) => { e.open = true; });
  found.cells = shown(".sentences td.s1");
  document.querySelector("#view-1-s1").click();
  found.hidden = shown(".sentences td.s1");
  found.others = shown(".sentences td.s0");
  document.querySelector("#view-1-marked").click();
  found.marked = shown(".sentences tbody tr");
  location.hash = "#recipe-1";
  await new Promise((resolve) => setTimeout(resolve, 200));
  found.open = document.querySelector("#recipe-1").closest("details").open;
  const scroll = document.querySelector(".scroll");
  const head = scroll.querySelector("thead");
  found.sticky = getComputedStyle(head).position;
  found.background = getComputedStyle(document.body).backgroundColor;
  document.title = JSON.stringify(found);
});
</script>
"""


@pytest.mark.slow
@pytest.mark.parametrize(("width", "is_dark"), [(1366, False), (390, False), (1366, True)])
def test_a_browser_shows_the_page_as_meant(tmp_path, width, is_dark):
    """In headless Chromium: nothing sticks out, boxes choose systems and sentences, links open recipes."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    text = build_report([evaluation(), training(), *others()], [view()], tagger="none")
    (tmp_path / "report.html").write_text(text.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={width},900",
        "--virtual-time-budget=5000",
    ]
    options += [f"--user-data-dir={tmp_path / 'profile'}", *["--force-dark-mode"] * is_dark, "--dump-dom"]
    process = subprocess.run(
        [chromium, *options, f"file://{tmp_path}/report.html"], capture_output=True, text=True, timeout=300, check=True
    )
    found = json.loads(re.search(r"<title>(\{.*?\})</title>", process.stdout)[1])
    assert found == {
        "wide": False,
        "cells": 5,
        "hidden": 0,
        "others": 5,
        "marked": 4,
        "open": True,
        "sticky": "sticky",
        "background": "rgb(22, 24, 27)" if is_dark else "rgb(253, 253, 252)",
    }
