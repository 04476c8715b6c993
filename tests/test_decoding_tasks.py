"""From generated sentences to exactly as many translations as are wanted."""

import pytest

from modeling_docmt import DocMTConfig
from modeling_docmt.decoding_requests_docmt import DecodingRequest, GeneratedSentence
from modeling_docmt.decoding_tasks_docmt import fit_sentences
from modeling_docmt.logits_docmt import SentenceRule


EOS, SEP, SEP1 = 3, 4, 10


def fitted(closers: list, count: int, prefix: list | None = None, **changes) -> list:
    config = DocMTConfig(num_indexed_separators=5, **changes)
    request = DecodingRequest([], prefix or [], [SentenceRule((EOS,), 1, 50)], max_new_tokens=50, is_free=True)
    sentences = [GeneratedSentence([100 + index], token, -1.0) for index, token in enumerate(closers)]
    return [(unit.ids, unit.flag) for unit in fit_sentences(sentences, request, count, config)]


@pytest.mark.parametrize(
    ("closers", "count", "expected"),
    [
        ([SEP, EOS], 2, [([100], None), ([101], None)]),
        ([EOS], 2, [([100], None), ([], "missing")]),
        ([SEP, SEP, EOS], 2, [([100], None), ([101, 102], "joined")]),
    ],
)
def test_sentences_come_in_order_where_separators_are_alike(closers, count, expected):
    assert fitted(closers, count) == expected


@pytest.mark.parametrize(
    ("closers", "count", "expected"),
    [
        ([SEP1, EOS], 2, [([100], None), ([101], None)]),
        # the second sentence is left out
        ([SEP1 + 1, EOS], 3, [([100], None), ([], "missing"), ([101], "joined")]),
        # the second and the third have changed places
        ([SEP1 + 1, SEP1, EOS], 3, [([100], None), ([102], "joined"), ([101], "joined")]),
        # two pieces claim the same place, and one has no place
        ([SEP1, SEP1, EOS], 2, [([100], None), ([101, 102], "joined")]),
        ([SEP1 + 3, EOS], 2, [([100], None), ([101], "joined")]),
    ],
)
def test_an_indexed_separator_says_which_sentence_follows(closers, count, expected):
    # fails if sentences are counted
    assert fitted(closers, count, indexed_separators=True) == expected


def test_places_count_from_the_translations_that_were_given():
    # fails if the first separator behind a prefix is taken for the first of the document
    prefix = [90, SEP1, 91, SEP1 + 1]
    assert fitted([SEP1 + 2, EOS], 2, prefix, indexed_separators=True) == [([100], None), ([101], None)]
