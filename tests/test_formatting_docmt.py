import itertools
import random

import pytest

from modeling_docmt import DocMTConfig
from modeling_docmt.formatting_docmt import (
    Window,
    context_window,
    document_parts,
    format_sequence,
    limit_sentences,
    neutral_to_sentences,
    sentences_to_neutral,
    training_windows,
)


PAD, BOS, EOS, SEP, BOD, SOS, SEP1 = 1, 2, 3, 4, 5, 6, 10
CONFIG = DocMTConfig()


def test_neutral_form_and_sentences_are_inverse():
    """INV-A1, with empty sentences and for every count."""
    rng = random.Random(0)
    for _ in range(200):
        sentences = [[rng.randint(300, 400) for _ in range(rng.randint(0, 3))] for _ in range(rng.randint(0, 5))]
        assert neutral_to_sentences(sentences_to_neutral(sentences, CONFIG), CONFIG) == sentences


def test_neutral_form_is_read_behind_start_token_and_before_padding():
    assert neutral_to_sentences([BOS, 300, SEP, 301, EOS, PAD, PAD], CONFIG) == [[300], [301]]
    assert neutral_to_sentences([PAD, PAD], CONFIG) == []
    assert neutral_to_sentences([EOS], CONFIG) == [[]]
    assert neutral_to_sentences([300, SEP1, 301, SEP1 + 1, -100], CONFIG) == [[300], [301], []]


def test_marian_start_token_that_is_the_pad_token_is_dropped():
    config = DocMTConfig(pad_token_id=400, decoder_start_token_id=400, vocab_size=401)
    assert neutral_to_sentences([400, 300, EOS, 400], config) == [[300]]


def test_format_with_sos_and_indexed_separators():
    config = DocMTConfig(use_sos=True, indexed_separators=True, sequence_format="document")
    assert format_sequence([[300], [301, 302], [303]], config) == [SOS, 300, SEP1, 301, 302, SEP1 + 1, 303, EOS]
    assert format_sequence([[300], [301]], config, source=False) == [300, SEP1, 301, EOS]


def test_format_with_begin_of_document_puts_a_pseudo_sentence_in_front():
    assert format_sequence([[300]], CONFIG, bod=True) == [BOD, SEP, 300, EOS]


def test_more_sentences_than_indexed_separators_is_an_error_that_names_the_limit():
    config = DocMTConfig(indexed_separators=True, num_indexed_separators=2)
    with pytest.raises(ValueError, match="at most 3 sentences"):
        format_sequence([[300]] * 4, config)


def test_context_windows_start_with_begin_of_document_while_context_is_missing():
    """A2: k = 2 and n = 1 gives <bod> <sep> F_1 <eos>; from n = 3 there is no <bod>."""
    windows = [context_window(i, 2) for i in range(4)]
    assert windows == [Window(0, 1, 0, True), Window(0, 2, 1, True), Window(0, 3, 2), Window(1, 4, 3)]
    assert context_window(0, 0) == Window(0, 1, 0)


@pytest.mark.parametrize("splitting", ["balanced", "greedy"])
def test_parts_cover_the_document_in_order_within_the_limit(splitting):
    """INV-A2."""
    rng = random.Random(1)
    for _ in range(100):
        costs = [rng.randint(1, 40) for _ in range(rng.randint(0, 30))]
        parts = document_parts(costs, 35, splitting)
        assert list(itertools.chain(*parts)) == list(range(len(costs)))
        assert all(len(part) == 1 or sum(costs[i] for i in part) <= 35 for part in parts)


def test_balanced_parts_are_the_fewest_and_the_most_even():
    """Against all cuts of short documents: fewest parts, then least sum of squares, then the earliest cuts."""
    rng = random.Random(2)
    for _ in range(60):
        costs = [rng.randint(1, 9) for _ in range(rng.randint(1, 8))]
        best = None
        for cuts in itertools.chain(*(itertools.combinations(range(1, len(costs)), n) for n in range(len(costs)))):
            bounds = [0, *cuts, len(costs)]
            sums = [sum(costs[a:b]) for a, b in itertools.pairwise(bounds)]
            if max(sums) <= 12:
                best = min(best or (99,), (len(sums), sum(s * s for s in sums), bounds))
        assert [part.start for part in document_parts(costs, 12)] == best[2][:-1]


def test_equal_costs_give_parts_that_differ_by_one_sentence_at_most():
    sizes = [len(part) for part in document_parts([10] * 15, 100)]
    assert sum(sizes) == 15 and len(sizes) == 2 and max(sizes) - min(sizes) <= 1


def test_a_sentence_over_the_limit_is_a_part_of_its_own():
    assert document_parts([3, 50, 3, 3], 10) == [range(0, 1), range(1, 2), range(2, 4)]


def test_no_limit_keeps_the_document_whole_and_an_empty_one_has_no_part():
    assert document_parts([5] * 100, None) == [range(100)]
    assert document_parts([], 10) == []


def test_indexed_separators_limit_the_sentences_of_a_part():
    config = DocMTConfig(indexed_separators=True, num_indexed_separators=3, sequence_format="document")
    parts = limit_sentences([range(0, 2), range(2, 12)], config)
    assert [len(part) for part in parts] == [2, 3, 3, 4]
    assert list(itertools.chain(*parts)) == list(range(12))


def test_training_windows_of_each_format():
    lengths = [4, 4, 4]
    assert training_windows(lengths, lengths, CONFIG) == [Window(i, i + 1, i) for i in range(3)]
    adjacent = DocMTConfig.from_system("concat-adj", context_sentences=1)
    assert training_windows(lengths, lengths, adjacent) == [Window(0, 1, 0, True), Window(0, 2, 1), Window(1, 3, 2)]
    whole = DocMTConfig.from_system("concat-document")
    assert training_windows(lengths, lengths, whole) == [Window(0, 3, 0)]
    parts = DocMTConfig.from_system("concat-document", max_part_tokens=10)
    assert training_windows(lengths, lengths, parts) == [Window(0, 1, 0), Window(1, 3, 1)]
