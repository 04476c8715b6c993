"""The demo without its page: what is read, translated, compared, looked at and written."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
import torch
import yaml

from hub_cards.space.docmt_space import inputs, systems
from hub_cards.space.docmt_space.attention import START, eager_attention, read_attention
from hub_cards.space.docmt_space.downloads import download_files
from hub_cards.space.docmt_space.heat_maps import MAX_WORDS, attention_view, chosen_words
from hub_cards.space.docmt_space.inputs import Document, check_text, keep_line_endings, read_file
from hub_cards.space.docmt_space.pages import download_links, escape, message, sentence_table
from hub_cards.space.docmt_space.systems import System, configured_models
from hub_cards.space.docmt_space.translation import STATUS_WORDS, Row, Translation, differing_words
from modeling_docmt import DocumentTranslationPipeline
from modeling_docmt.documents_docmt import encode_sentences
from modeling_docmt.pipeline_docmt import STATUS_PRIORITY
from training.plot import sentence_attention


SPACE = Path(systems.__file__).resolve().parent.parent
TEXT = "The lighthouse is old.\r\n\r\n  It was built by sailors. The sea is near.\r\n42\r\n"
SOURCES = ["The lighthouse is old.", "", "It was built by sailors.", "The sea is near.", "42"]
# models, and the decoding whose sequences are those of `training.plot`
SYSTEMS = {
    "sentence-level": ("sentence", {}),
    "source-context": ("sentence", {"sequence_format": "source_context", "context_sentences": 1}),
    "concat-adj": ("sequential", {"context_sentences": 2}),
    "concat-document": ("counted", {}),
    "parts": ("counted", {"max_part_sentences": 2}),
    "lst-attn": ("counted", {}),
    "window-attn": ("sequential", {"window_size": 9}),
    "p-transformer": ("counted", {"relative_distances": 4}),
    "g-transformer": ("counted", {"global_layers": 1}),
    "global-local": ("sequential", {}),
    "mr-doc2doc": ("free", {}),
}
BASES = {"source-context": "sentence-level", "parts": "concat-document"}


@pytest.fixture
def make_system(make_model, tokenizer):
    def make(name="concat-adj", **changes) -> System:
        # weights so large that translations are varied
        model = make_model(name, init_std=0.5, **changes)
        model.generation_config.max_sentence_tokens = 6
        system = System(name, "unused")
        system._pipe = DocumentTranslationPipeline(model=model, tokenizer=tokenizer)
        return system

    return make


def translate(system: System, text: str = TEXT, decoding: str = "counted", **options) -> Translation:
    return system.translate(text, **{"decoding": decoding, "num_beams": 1, "segmentation": "sentences", **options})


def translation_of(*rows: Row) -> Translation:
    languages = {"source_lang": "en", "target_lang": "de"}
    recipe = {"model": "m", "system": "concat-adj", **languages, "decoding": "free", "num_beams": 1}
    return Translation("\n".join(row.translation for row in rows), list(rows), recipe)


# reading


def test_a_text_file_is_one_document_with_its_line_endings(tmp_path):
    for name, data in (
        ("a.txt", "Grüße.\r\n\r\nBye.\n".encode()),
        ("b.TXT", b"\xef\xbb\xbf" + "Grüße.\r\n\r\nBye.\n".encode()),
        ("c.txt", "Grüße.\r\n\r\nBye.\n".encode("utf-16")),
    ):
        (tmp_path / name).write_bytes(data)
        assert read_file(tmp_path / name) == [Document(name, "Grüße.\r\n\r\nBye.\n")]


def test_json_lines_are_documents_of_known_sentences(tmp_path):
    lines = [
        json.dumps({"id": "first", "src": ["One.", "Two\nlines."]}),
        "",
        json.dumps({"src": ["Three.", "\u2028"]}),
    ]
    (tmp_path / "d.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert read_file(tmp_path / "d.jsonl") == [
        Document("1: first", "One.\nTwo lines.", "lines"),
        Document("3: d.jsonl", "Three.\n ", "lines"),
    ]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("letter.docx", b"PK", r"letter\.docx: files of type \.docx cannot be read\. Save the document as plain text"),
        ("letter", b"Hello.", "files of type none cannot be read"),
        ("a.txt", "Grüße".encode("latin-1"), r"a\.txt is not UTF-8 text \(byte 2 cannot be read\).*encoding UTF-8"),
        ("a.txt", b"ab\0cd", "it holds zero bytes"),
        ("a.txt", b" \n", r"a\.txt is empty"),
        ("a.jsonl", b"\n", r"a\.jsonl is empty"),
        ("a.jsonl", b'{"src": ["One."]}\n{"src": "Two."}', r'line 2: `src` must be a list of sentences.*\{"src"'),
        ("a.jsonl", b'["One."]', "line 1: `src` must be a list"),
        ("a.jsonl", b"One.", "line 1 is not JSON"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_way_out(tmp_path, name, data, says):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=says):
        read_file(tmp_path / name)


def test_the_line_endings_of_a_file_survive_the_text_box_until_it_is_edited():
    original = "One.\r\nTwo.\rThree.\n"
    assert keep_line_endings("One.\nTwo.\nThree.\n", original) == original
    assert keep_line_endings("One.\nTwo!\nThree.\n", original) == "One.\nTwo!\nThree.\n"
    assert keep_line_endings("One.\n", None) == "One.\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "There is no text to translate. Paste a document"),
        (" \n\t\n", "There is no text"),
        ("a" * 20_001, "has 20,001 characters; this demo takes 20,000.*training.translate"),
        ("ab\ud800c", "Character 3 of the text is half of a character"),
    ],
)
def test_a_text_that_cannot_be_translated_here_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        check_text(text)
    check_text("a" * 20_000)


def test_a_document_of_too_many_sentences_is_refused_before_it_is_translated(make_system, monkeypatch):
    system = make_system()
    monkeypatch.setattr(inputs, "MAX_SENTENCES", 5)
    monkeypatch.setattr(system.pipe.model, "generate", None)
    with pytest.raises(
        ValueError, match="has 6 sentences, blank lines included; this demo takes 5.*training.translate"
    ):
        translate(system, TEXT + "One more.")


# models


def test_models_come_from_the_environment_or_lie_beside_the_demo(monkeypatch, tmp_path):
    several = configured_models({"DOCMT_MODELS": " outputs/a/, you/b@v1 ,\nother/b@v1"})
    assert several == {"a": "outputs/a/", "you/b@v1": "you/b@v1", "other/b@v1": "other/b@v1"}
    (own,) = configured_models({}).items()
    assert own == ("docmt-tiny-en-de", str(SPACE.parent / "docmt-tiny-en-de"))
    monkeypatch.setattr(systems, "FOLDER", tmp_path / "space")
    with pytest.raises(ValueError, match="no model. Set the variable `DOCMT_MODELS`"):
        configured_models({"DOCMT_MODELS": ","})


def test_a_model_offers_the_decodings_that_it_has_its_own_first(make_system):
    assert list(make_system("sentence-level").decodings()) == ["sentence"]
    assert list(make_system("concat-adj").decodings()) == ["counted", "sequential", "free", "sentence"]
    assert next(iter(make_system("window-attn", window_size=9).decodings())) == "sequential"
    behind = make_system("sentence-level", sequence_format="source_context", context_sentences=3)
    assert behind.decodings() == {"sentence": "Each sentence behind 3 source sentences (sentence)"}
    with pytest.raises(ValueError, match="sentence-level does not decode 'counted': choose one of 'sentence'"):
        translate(make_system("sentence-level"))


# translating


@pytest.mark.parametrize("decoding", ["counted", "sequential", "free"])
def test_each_sentence_stands_beside_its_translation_without_context(make_system, decoding):
    """Fails if rows of the two translations are shifted, or if both are made in the same way."""
    system = make_system()
    done = translate(system, decoding=decoding)
    assert [row.source for row in done.rows] == SOURCES
    options = {"num_beams": 1, "segmentation": "sentences"}
    for how, side in ((decoding, "translation"), ("sentence", "alone")):
        expected = [s["translation"].strip() for s in system.pipe(TEXT, decoding=how, **options)["sentences"]]
        assert [getattr(row, side) for row in done.rows] == expected
    assert done.has_comparison and done.changed == sum(row.alone != row.translation for row in done.rows) > 0
    assert [row.was_read for row in done.rows] == [True, False, True, True, False]
    assert [row.status for row in done.rows[1::3]] == ["empty", "copied"]
    expected_recipe = {"system": "concat-adj", "decoding": decoding, "num_beams": 1, "segmentation": "sentences"}
    assert expected_recipe.items() <= done.recipe.items()


def test_where_there_is_no_context_nothing_is_compared(make_system):
    assert not translate(make_system("sentence-level"), decoding="sentence").has_comparison
    assert not translate(make_system("concat-document"), decoding="sentence").has_comparison
    # no sentence for the model
    assert not translate(make_system(), "42\n").has_comparison
    behind = make_system("sentence-level", sequence_format="source_context", context_sentences=2)
    done = translate(behind, decoding="sentence")
    alone = behind.pipe(TEXT, segmentation="sentences", num_beams=1, source_context_sentences=0)
    assert [row.alone for row in done.rows] == [sentence["translation"].strip() for sentence in alone["sentences"]]
    assert done.changed


def test_progress_counts_the_sentences_of_both_translations(make_system):
    seen: list[tuple[float, str]] = []
    translate(make_system(), report=lambda *report: seen.append(report))
    # three sentences have letters
    assert [share for share, _ in seen] == pytest.approx([0, 1 / 6, 1 / 3, 1 / 2, 1 / 2, 2 / 3, 5 / 6, 1])
    assert [words for _, words in seen[2:6]] == [
        *("2 of 3 sentences in context", "3 of 3 sentences in context"),
        *("0 of 3 sentences by themselves", "1 of 3 sentences by themselves"),
    ]


def test_line_endings_and_blank_lines_are_in_the_translation(make_system):
    done = translate(make_system())
    assert re.sub("[^\r\n]", "", done.text) == re.sub("[^\r\n]", "", TEXT)
    assert done.text.split("\r\n")[3] == "42" and done.text.split("\r\n")[2].startswith("  ")


def test_every_status_has_words():
    assert set(STATUS_WORDS) == set(STATUS_PRIORITY)
    done = translation_of(*(Row(status, "x", status) for status in STATUS_PRIORITY))
    page = sentence_table(done)
    for status, (words, level) in STATUS_WORDS.items():
        assert status == "empty" or f'docmt-{level}">{words}<' in page
    assert done.doubtful == 4 and "4 need a look" in page


# comparing


def test_the_words_that_differ_are_marked_and_nothing_is_lost():
    first, second = differing_words("Sie war alt, sehr alt.", "Es war  alt.")
    assert "".join(text for text, _ in first) == "Sie war alt, sehr alt."
    assert "".join(text for text, _ in second) == "Es war  alt."
    assert [text for text, differs in second if differs] == ["Es"]
    assert [text for text, differs in first if differs] == ["Sie", "alt, sehr"]
    # no blank at the edge of a mark
    assert [text for text, differs in differing_words("Es war gut.", "Es war.")[0] if differs] == ["gut"]
    assert differing_words("桥很旧", "门很旧") == ([("桥", True), ("很旧", False)], [("门", True), ("很旧", False)])
    assert differing_words("Same.", "Same.") == ([("Same.", False)], [("Same.", False)])
    assert differing_words("", "New.") == ([], [("New.", True)])
    assert not any(differs for side in differing_words("A  B", "A B") for _, differs in side)
    assert differing_words("A B", "A, B")[1] == [("A", False), (",", True), (" B", False)]


def test_the_table_has_a_row_a_sentence_and_shows_text_as_text():
    rows = [
        Row("One & <b>two</b>", "Eins {{value}} ${1+1}", "ok", alone="Zwei"),
        Row("", "", "empty", alone="", was_read=False),
        Row("Three", "Drei", "repetition", alone="Drei"),
    ]
    page = sentence_table(translation_of(*rows))
    assert re.findall(r'<tr data-sentence="(\d)"', page) == ["0", "2"]
    assert re.findall(r'aria-label="Sentence (\d)', page) == ["1", "2"]
    assert page.count("blank line") == 1 + page.count("blank lines")
    assert "One &amp; &lt;b&gt;two&lt;/b&gt;" in page and "<b>" not in page and "{{" not in page and "${" not in page
    assert '<mark class="docmt-without">Zwei</mark>' in page and page.count("the same") == 1
    assert "1 differs without context" in page and "1 needs a look" in page
    assert "Without context" not in sentence_table(translation_of(Row("One", "Eins", "ok")))
    assert escape("a{b}$c<") == "a&#123;b}&#36;c&lt;" and message("") == ""
    assert message("Use `a<b>`.") == '<p class="docmt-message" role="alert">Use <code>a&lt;b&gt;</code>.</p>'


# downloads


def test_downloads_hold_text_table_and_json(make_system):
    done = translate(make_system())
    files = download_files(done)
    assert list(files) == ["translation.target.txt", "translation.target.tsv", "translation.target.json"]
    text, table, data = files.values()
    assert text == done.text
    read = list(csv.DictReader(io.StringIO(table), delimiter="\t"))
    content = json.loads(data)
    assert read == content["sentences"] and [row["source"] for row in read] == SOURCES
    assert list(read[0]) == ["source", "translation", "status", "without_context"]
    assert [row["without_context"] for row in read] == [row.alone for row in done.rows]
    assert content["translation_text"] == done.text and content["decoding"] == "counted"
    plain = translate(make_system("sentence-level"), decoding="sentence")
    assert "without_context" not in download_files(plain)["translation.target.tsv"]
    quoted = translation_of(Row('A\t"tab"', "Ein\tTab", "ok"))
    assert list(csv.DictReader(io.StringIO(download_files(quoted)["translation.de.tsv"]), delimiter="\t")) == [
        {"source": 'A\t"tab"', "translation": "Ein\tTab", "status": "ok"}
    ]
    assert 'download="translation.de.txt" href="data:text/plain' in download_links(quoted)


# attention


@pytest.fixture
def pairs(toy_documents):
    [record] = [record for record in toy_documents if record["id"] == "lighthouse"]
    sides = list(zip(record["src"], record["tgt"], strict=True))[:4]
    # a blank line, and a sentence without a translation
    return [*sides[:2], ("", ""), sides[2], (sides[0][0], ""), sides[3]]


@pytest.mark.parametrize("name", SYSTEMS)
def test_attention_between_sentences_is_that_of_the_plot(make_model, tokenizer, pairs, name):
    """Fails if heads that see one sentence count, if `<bod>` is left out, or if context is taken for the sentence."""
    decoding, changes = SYSTEMS[name]
    model = make_model(BASES.get(name, name), dtype=torch.float64, **changes)
    ids = [encode_sentences(tokenizer, side, target=bool(k)) for k, side in enumerate(zip(*pairs, strict=True))]
    with eager_attention(model):
        expected = sentence_attention(model, *ids)
    assert expected["rows"] == [1, 2, 4, 6]
    for place, side in (("cross", "cross_by_sentence"), ("encoder", "encoder_by_sentence")):
        for row, line in zip(expected["rows"], expected[place]["mean"], strict=True):
            found = getattr(read_attention(model, tokenizer, pairs, row - 1, decoding=decoding), side)
            by_column = {START if column == 0 else column - 1: 0.0 for column in expected["columns"]}
            assert set(found) <= set(by_column)
            torch.testing.assert_close(list((by_column | found).values()), line, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["concat-adj", "p-transformer", "global-local"])
def test_words_are_those_of_the_texts_and_share_all_attention(make_model, tokenizer, pairs, name):
    model = make_model(name)
    found = read_attention(model, tokenizer, pairs, 3, decoding=SYSTEMS[name][0])
    assert [word for word in found.target_words if word] == pairs[3][1].split()
    for index in (0, 1, 3, 5):
        words = [
            w for w, owner in zip(found.source_words, found.source_sentences, strict=True) if owner == index and w
        ]
        assert words == (pairs[index][0].split() if index in found.source_sentences else [])
    assert found.cross.shape == (len(found.target_words), len(found.source_words))
    assert found.target_words[-1] == found.source_words[-1] == ""
    assert (found.cross.sum(dim=1) - 1).abs().max() <= 1e-6 and (found.cross >= 0).all()
    assert set(found.source_sentences) == set(found.cross_by_sentence)


def test_a_text_without_blanks_is_shown_by_token(make_model, tokenizer):
    pairs = [("TheLighthouseIsOldAndItWasBuiltBySailors", "Der Leuchtturm")]
    found = read_attention(make_model("sentence-level"), tokenizer, pairs, 0, decoding="sentence")
    assert len(found.source_words) > 6 and "".join(found.source_words) == pairs[0][0]
    assert found.target_words == ["Der", "Leuchtturm", ""]


def test_what_a_sentence_sees_is_what_it_was_translated_with(make_model, tokenizer, pairs):
    """Fails if the sequences are those of training whatever the decoding."""
    model = make_model("concat-adj", context_sentences=1)

    def seen(index, decoding):
        return list(read_attention(model, tokenizer, pairs, index, decoding=decoding).cross_by_sentence)

    assert [seen(index, "sentence") for index in (0, 3)] == [[0], [3]]
    assert [seen(index, "sequential") for index in (0, 3)] == [[START, 0], [1, 3]]
    # blocks of two; the sentence without a translation was in none
    assert [seen(index, "counted") for index in (0, 1, 3, 5)] == [[0, 1], [0, 1], [3, 5], [3, 5]]


def test_the_model_is_left_as_it_was(make_system):
    system = make_system()
    usual = system.config._attn_implementation
    before = translate(system)
    system.attention(before, 2)
    assert system.config._attn_implementation == usual != "eager"
    assert translate(system).rows == before.rows


def test_lines_that_the_model_did_not_translate_are_answered(make_system, monkeypatch):
    system = make_system()
    done = translate(system)
    for index in (1, 4):
        with pytest.raises(ValueError, match="not sent to the model"):
            system.attention(done, index)
    rows = [Row("One.", "", "missing"), Row("Two.", "Zwei.", "ok")]
    with pytest.raises(ValueError, match="has no translation"):
        system.attention(Translation("", rows, done.recipe), 0)
    monkeypatch.setattr("hub_cards.space.docmt_space.attention.MAX_WEIGHTS", 100)
    with pytest.raises(ValueError, match="source tokens, too many to show"):
        system.attention(done, 0)


def test_the_view_of_a_sentence_has_bars_and_a_heat_map(make_system):
    system = make_system("concat-document")
    done = translate(system)
    found = system.attention(done, 2)
    page = attention_view(done, found)
    assert "What sentence 2 attended to" in page
    bars = [int(share) for share in re.findall(r"<span>(\d+) %</span>", page)]
    assert len(bars) == 6 and abs(sum(bars[::2]) - 100) <= 2 and abs(sum(bars[1::2]) - 100) <= 2
    assert re.findall(r'colspan="(\d+)"[^>]*>(Sentence \d)<', page) == [
        (str(len(SOURCES[index].split()) + 1), f"Sentence {number}") for number, index in ((1, 0), (2, 2), (3, 3))
    ]
    rows = re.findall(r"<tr><th scope=\"row\" dir=\"auto\">(.*?)</th>(.*?)</tr>", page)
    assert [row[0] for row in rows] == [escape(word or "(end)") for word in found.target_words]
    titles = re.findall(r'title="([^"]*) → ([^"]*): (\d+) %"', rows[0][1])
    assert [int(percent) for _, _, percent in titles] == [round(100 * float(w)) for w in found.cross[0]]
    assert [name for _, name, _ in titles] == [escape(word or "(end)") for word in found.source_words]


def test_a_long_map_says_what_it_leaves_out(make_system):
    system = make_system("concat-document")
    long = " ".join(["The sea is near"] * (MAX_WORDS // 4 + 3)) + "."
    rows = [Row("Go.", "Geh.", "ok"), Row(long, long, "ok"), Row("Come.", "Komm.", "ok")]
    done = Translation("", rows, {"decoding": "counted"})
    found = system.attention(done, 1)
    assert len(chosen_words(found)) == MAX_WORDS
    # the words of the sentence come first
    assert {found.source_sentences[word] for word in chosen_words(found)} == {1}
    page = attention_view(done, found)
    words = len(found.target_words)
    assert f"The first {MAX_WORDS} of {words} words" in page and "(all others)" in page
    others = [int(percent) for percent in re.findall(r"→ \(all others\): (\d+) %", page)]
    rest = 1 - found.cross[:MAX_WORDS, chosen_words(found)].sum(dim=1)
    assert others == [round(100 * weight) for weight in rest.tolist()] and any(others)
    short = system.attention(done, 0)
    # its own words, and then those of a neighbour
    assert len(chosen_words(short)) == MAX_WORDS and {0} < {short.source_sentences[w] for w in chosen_words(short)}


# what makes it a Space


def test_the_card_names_the_app_and_the_version_that_is_required():
    _, header, text = (SPACE / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    card = yaml.safe_load(header)
    assert card["sdk"] == "gradio" and (SPACE / card["app_file"]).is_file() and len(card["short_description"]) <= 60
    pins = dict(line.split("==") for line in (SPACE / "requirements.txt").read_text().split())
    assert pins["gradio"] == card["sdk_version"]
    assert f"{inputs.MAX_CHARACTERS:,}" in text and f"{inputs.MAX_SENTENCES} sentences" in text
    # nothing of the project is on a Space
    for path in SPACE.rglob("*.py"):
        assert not re.search(r"^\s*(from|import) (modeling_docmt|training|hub_cards)", path.read_text(), re.MULTILINE)
