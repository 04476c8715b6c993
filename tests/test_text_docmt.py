"""Segmentation and layout: what is cut out for the model comes back, and everything else stays where it was."""

import random

import pytest

from modeling_docmt import splitter_docmt
from modeling_docmt.splitter_docmt import split_sentences
from modeling_docmt.text_docmt import (
    is_grapheme_border,
    segment_sentences,
    segment_text,
    single_line,
    split_lines,
    split_long_sentence,
)


LINE_ENDINGS = ["\n", "\r\n", "\r", "\v", "\f", "\x85", "\u2028", "\u2029"]
BLANKS = [" ", "\t", "\u00a0", "\u3000", "\ufeff", "\u200b", "\x1c", "  "]
ENDED = "Go. Stop! Why? |e.g. this|Dr. No|3.14|…|...|“Yes.” |。|你好。再见！|«Oui ! »|(No.)|# H|> q|- 1".split("|")
WORDS = "a|Z|ß|é|e\u0301|👨‍👩‍👧‍👦|👍🏽|🇩🇪|مرحبا؟ نعم.|שלום|\ud800|\udc00|<sep>|\x00|1|-".split("|")
PIECES = [*LINE_ENDINGS, *BLANKS, *ENDED, *WORDS]


def random_texts(count: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return ["".join(generator.choices(PIECES, k=generator.randrange(25))) for _ in range(count)]


def sentences_of(text: str, language: str = "en", splitter: str = "builtin") -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, splitter, language)]


@pytest.mark.parametrize("segmentation", ["lines", "sentences"])
def test_identity_translation_gives_back_every_character(segmentation):
    for text in random_texts(2000):
        document = segment_text(text, segmentation, "builtin")
        assert document.restore(document.segments) == text, repr(text)


@pytest.mark.parametrize("segmentation", ["lines", "sentences", "paragraphs"])
def test_segments_are_single_lines_without_blanks_around_them(segmentation):
    for text in random_texts(1000, seed=1):
        for segment in segment_text(text, segmentation, "builtin").segments:
            assert segment == segment.strip().strip("\ufeff").strip()
            assert not set(segment) & set("".join(LINE_ENDINGS))


def test_paragraphs_lose_no_visible_character():
    for text in random_texts(1000, seed=2):
        document = segment_text(text, "paragraphs", "builtin")
        assert "".join(document.restore(document.segments).split()) == "".join(text.split()), repr(text)


def test_gaps_are_blank():
    for text in random_texts(1000, seed=3):
        for segmentation in ("lines", "sentences", "paragraphs"):
            assert not "".join(segment_text(text, segmentation, "builtin").gaps).replace("\ufeff", "").strip()


@pytest.mark.parametrize("ending", LINE_ENDINGS)
def test_each_line_ending_separates_lines_and_is_kept(ending):
    document = segment_text(f"One.{ending}{ending}  Two. {ending}")
    assert document.segments == ("One.", "", "Two.")
    assert document.restore(["Eins.", "", "Zwei."]) == f"Eins.{ending}{ending}  Zwei. {ending}"


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("", ()),
        ("\n", ("",)),
        ("a", ("a",)),
        ("a\n", ("a",)),
        ("a\n\n", ("a", "")),
        ("  \n\t", ("", "")),
        ("\r\n\n", ("", "")),
    ],
)
def test_a_line_ending_belongs_to_the_line_that_it_closes(text, segments):
    assert segment_text(text).segments == segments


def test_mixed_line_endings_stay_where_they_are():
    document = segment_text("a\r\nb\nc\rd\u2028e")
    assert document.restore("ABCDE") == "A\r\nB\nC\rD\u2028E"


def test_byte_order_mark_is_no_text():
    document = segment_text("\ufeffHello")
    assert document.segments == ("Hello",)
    assert document.restore(["Hallo"]) == "\ufeffHallo"


def test_lines_hold_many_sentences():
    text = "  First one. Second one.  \n\nThird one?  Yes.\r\n"
    document = segment_text(text, "sentences", "builtin")
    assert document.segments == ("First one.", "Second one.", "", "Third one?", "Yes.")
    assert document.restore("ABCDE"[:2] + " " + "DE") == "  A B  \n \nD  E\r\n"


def test_wrapped_lines_of_a_paragraph_are_joined():
    text = "A sentence that\nis wrapped. Another\n  one.\n\nA new\nparagraph.\n"
    document = segment_text(text, "paragraphs", "builtin")
    assert document.segments == ("A sentence that is wrapped.", "Another", "one.", "", "A new paragraph.")
    assert document.restore(document.segments) == "A sentence that is wrapped. Another\n  one.\n\nA new paragraph.\n"


def test_list_items_and_headings_are_paragraphs_of_their_own():
    text = "# A title\nSome text\ngoes on\n- first item\n  hangs\n- second item\n> quoted\n"
    assert segment_text(text, "paragraphs", "builtin").segments == (
        "# A title",
        "Some text goes on",
        "- first item hangs",
        "- second item",
        "> quoted",
    )


def test_list_of_sentences_keeps_its_blanks_and_its_number():
    document = segment_sentences(["  One.", "", "Two\nlines. "])
    assert document.segments == ("One.", "", "Two lines.")
    assert document.restore(["Eins.", "", "Zwei."]) == "  Eins.\n\nZwei. "
    assert segment_sentences([]).restore([]) == ""


def test_wrong_number_of_translations_is_refused():
    with pytest.raises(ValueError, match="each of the 2 segments, got 1"):
        segment_text("a\nb").restore(["a"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"segmentation": "words"}, "'lines', 'sentences', 'paragraphs', got 'words'"),
        ({"splitter": "punkt"}, "'auto', 'builtin', 'pysbd', got 'punkt'"),
    ],
)
def test_unknown_options_are_refused_with_the_choices(options, message):
    with pytest.raises(ValueError, match=message):
        segment_text("text", **options)


# each sentence ends where the bar stands
ENGLISH = [
    "He came.|She left.",
    "Is it?|Yes!|No?!|What...|Then nothing.",
    "Dr. Smith met Mr. J. R. Jones at 5 p.m. in the U.S. embassy.|He was late.",
    "It ended at 5 p.m.|The guests left.",
    "Pi is 3.14 and e is 2.72.|Both are numbers.",
    "Use tools, e.g. Emacs, i.e. editors.|They help.",
    "See Fig. 3 and No. 5.|He said no.|Then he left.",
    "1. Open the file.|2. Save it.",
    "“Come in.”|She came in.",
    "“Really?” she asked.|“Yes.”|(He nodded.)|Then they went.",
    "He waited ... and waited.",
    "Well…|That was it.",
    "It is done.[3]|The next step follows.",
    "Apples, pears, etc. are fruit.|We sell pears, apples, etc.|They are good.",
    "It was I.|He knew.",
    "Version 2.0 is out.|See example.org for it.",
    "In 1999.|The year was long.",
    "no capitals. nothing to split on",
]
GERMAN = [
    "Er kam am 3. Mai.|Sie ging.",
    "Das ist z. B. Hans, d. h. mein Bruder, bzw. Herr Dr. Müller.|Er lacht.",
    "„Hallo.“|Er ging.",
    "»Nein!«|»Doch!«",
    "Das gilt usw.|Die Liste ist lang.",
    "Das ist so.|Dann ging er.",
]
OTHERS = [
    ("fr", "« Bonjour ! »|Il est parti.|M. Dupont rit."),
    ("zh", "你好。|再见！|他说：“走吧。”|她笑了。"),
    ("ja", "「行くよ。」と彼は言った。|彼女は笑った。"),
    ("ar", "هل أنت هنا؟|نعم."),
    ("hi", "यह घर है।|वह बड़ा है।"),
    ("ru", "Это т.е. дом.|Он большой."),
]


@pytest.mark.parametrize(
    ("language", "marked"),
    [*(("en", text) for text in ENGLISH), *(("de", text) for text in GERMAN), *OTHERS],
)
def test_builtin_splitter_ends_sentences_at_the_bars(language, marked):
    # the marks of CJK have no blank behind them
    text = marked.replace("|", "" if language in ("zh", "ja") else " ")
    assert sentences_of(text, language) == marked.split("|")


def test_sentences_cover_the_text_in_order():
    for text in random_texts(1000, seed=4):
        position = 0
        for start, end in split_sentences(text, "builtin"):
            assert position <= start < end
            assert not text[position:start].strip()
            assert text[start:end] == text[start:end].strip()
            position = end
        assert not text[position:].strip()


def test_auto_takes_pysbd_where_it_is_installed(monkeypatch):
    class HalfSegmenter:
        """Stands for pysbd: splits at each semicolon."""

        def __init__(self, language, clean):
            assert language == "en" and not clean

        def segment(self, text):
            return [piece + ";" if index == 0 else piece for index, piece in enumerate(text.split(";"))]

    monkeypatch.setattr(splitter_docmt, "Segmenter", HalfSegmenter)
    monkeypatch.setattr(splitter_docmt, "LANGUAGE_CODES", {"en": None})
    assert sentences_of("One. Two; three.", splitter="auto") == ["One. Two;", "three."]
    assert sentences_of("One. Two; three.", splitter="builtin") == ["One.", "Two; three."]
    assert sentences_of("One. Two; three.", "xx", splitter="auto") == ["One.", "Two; three."]
    with pytest.raises(ValueError, match="knows the languages en, got 'xx'"):
        sentences_of("One.", "xx", splitter="pysbd")


def test_splitter_that_changes_the_text_is_not_trusted(monkeypatch):
    class Rewriter:
        def __init__(self, **kwargs):
            pass

        def segment(self, text):
            return [text.upper()]

    monkeypatch.setattr(splitter_docmt, "Segmenter", Rewriter)
    monkeypatch.setattr(splitter_docmt, "LANGUAGE_CODES", {"en": None})
    assert sentences_of("One. Two.", splitter="pysbd") == ["One.", "Two."]


def test_missing_pysbd_is_named(monkeypatch):
    monkeypatch.setattr(splitter_docmt, "Segmenter", None)
    with pytest.raises(ValueError, match="pip install pysbd"):
        segment_text("One.", "sentences", "pysbd")


def test_long_sentence_is_cut_at_white_space_into_similar_pieces():
    sentence = " ".join(f"word{index}" for index in range(100))
    pieces, joiners = split_long_sentence(sentence, 12, lambda text: len(text.split()))
    assert " ".join(pieces) == sentence
    assert joiners == [" "] * (len(pieces) - 1)
    assert all(8 <= len(piece.split()) <= 12 for piece in pieces)


def test_long_sentence_without_blanks_is_cut_between_graphemes():
    family = "👨‍👩‍👧‍👦"
    pieces, joiners = split_long_sentence(family * 10 + "🇩🇪" * 10, 16, len)
    assert "".join(pieces) == family * 10 + "🇩🇪" * 10
    assert set(joiners) == {""}
    assert all(len(piece) <= 16 and piece[0] in "👨🇩" for piece in pieces)


def test_grapheme_larger_than_the_limit_stays_whole():
    zalgo = "a" + "\u0301" * 20
    assert split_long_sentence(zalgo + " b", 5, len) == ([zalgo, "b"], [" "])


@pytest.mark.parametrize(
    ("text", "borders"),
    [
        ("ab", [1]),
        ("e\u0301x", [2]),
        ("👍🏽👍", [2]),
        ("🇩🇪🇫🇷", [2]),
        ("각각", [1]),
        ("ᄀ\u1161\u11a8", []),
        ("क्षम", [3]),
    ],
)
def test_grapheme_borders(text, borders):
    assert [index for index in range(1, len(text)) if is_grapheme_border(text, index)] == borders


def test_single_line_holds_no_line_break():
    for text in random_texts(500, seed=5):
        assert len(single_line(text).splitlines()) <= 1
    assert single_line("a  b \n\n c") == "a  b c"


def test_an_empty_translation_does_not_merge_the_line_endings_around_it():
    document = segment_text("a\rb\nc")
    assert document.restore(["A", "", "C"]) == "A\r \nC"
    assert len(split_lines(document.restore(["A", "", "C"]))) == 3
