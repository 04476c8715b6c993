import itertools
import random

import numpy as np
import pytest
import torch

from modeling_docmt import DocMTConfig
from modeling_docmt.alignment_docmt import SourceSentences
from modeling_docmt.formatting_docmt import (
    Window,
    context_window,
    document_parts,
    even_pieces,
    format_sequence,
    format_window,
    limit_sentences,
    neutral_to_sentences,
    resolution_counts,
    sentences_to_neutral,
    source_context_window,
    training_windows,
)
from modeling_docmt.sentences_docmt import source_sentence_ids


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


@pytest.mark.parametrize("is_indexed", [False, True])
def test_no_part_has_more_sentences_than_allowed_and_none_is_lost(is_indexed):
    # fails if the limit is that of the vocabulary alone
    config = DocMTConfig(sequence_format="document", indexed_separators=is_indexed, max_part_sentences=4)
    parts = limit_sentences([range(0, 3), range(3, 13)], config)
    assert [len(part) for part in parts] == [3, 3, 3, 4]
    assert [sentence for part in parts for sentence in part] == list(range(13))


def test_training_windows_of_each_format():
    lengths = [4, 4, 4]
    assert training_windows(lengths, lengths, CONFIG) == [Window(i, i + 1, i) for i in range(3)]
    adjacent = DocMTConfig.from_system("concat-adj", context_sentences=1)
    assert training_windows(lengths, lengths, adjacent) == [Window(0, 1, 0, True), Window(0, 2, 1), Window(1, 3, 2)]
    whole = DocMTConfig.from_system("concat-document")
    assert training_windows(lengths, lengths, whole) == [Window(0, 3, 0)]
    parts = DocMTConfig.from_system("concat-document", max_part_tokens=10)
    assert training_windows(lengths, lengths, parts) == [Window(0, 1, 0), Window(1, 3, 1)]


def test_multi_resolution_windows_of_eight_sentences_are_fifteen_with_each_sentence_four_times():
    """INV-A3; fails if N or a power of two is left out, or comes twice."""
    config = DocMTConfig.from_system("mr-doc2doc")
    windows = training_windows([3] * 8, [3] * 8, config)
    assert len(windows) == 15
    sentences = list(itertools.chain(*(range(window.first, window.last) for window in windows)))
    assert [sentences.count(index) for index in range(8)] == [4] * 8
    assert [window.last - window.first for window in windows] == [8, 4, 4, 2, 2, 2, 2, *[1] * 8]


@pytest.mark.parametrize(
    ("resolutions", "counts"),
    [
        ("document", {0: [], 1: [1], 2: [1], 7: [1]}),
        ("document+sentence", {0: [], 1: [1], 2: [1, 2], 7: [1, 7]}),
        ("multi", {0: [], 1: [1], 2: [1, 2], 3: [1, 2, 3], 4: [1, 2, 4], 7: [1, 2, 4, 7], 9: [1, 2, 4, 8, 9]}),
    ],
)
def test_resolutions_are_the_powers_of_two_and_the_sentences(resolutions, counts):
    assert {count: resolution_counts(count, resolutions) for count in counts} == counts


def test_an_unknown_resolution_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="'multi', 'document\\+sentence', got 'double'"):
        resolution_counts(3, "double")


def test_pieces_differ_by_one_sentence_at_most_and_longer_ones_come_first():
    # fails if the surplus goes to the last pieces
    assert even_pieces(7, 4) == [range(0, 2), range(2, 4), range(4, 6), range(6, 7)]
    for count, pieces in itertools.combinations_with_replacement(range(1, 20), 2):
        sizes = [len(piece) for piece in even_pieces(pieces, count)]
        assert list(itertools.chain(*even_pieces(pieces, count))) == list(range(pieces)) and len(sizes) == count
        assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


@pytest.mark.parametrize("splitting", ["balanced", "greedy"])
@pytest.mark.parametrize("resolutions", ["multi", "document+sentence"])
def test_windows_of_all_resolutions_stay_within_the_limits_and_cover_the_document(resolutions, splitting):
    """INV-A2; fails if the pieces of a resolution are not split, or are split by costs of other sentences."""
    rng = random.Random(3)
    config = DocMTConfig.from_system(
        "mr-doc2doc",
        training_resolutions=resolutions,
        part_splitting=splitting,
        max_part_tokens=30,
        num_indexed_separators=4,
    )
    for _ in range(60):
        lengths = [[rng.randint(1, 20) for _ in range(rng.randint(1, 25))]] * 2
        windows = training_windows(*lengths, config)
        cost = 1 if splitting == "balanced" else 2
        for window in windows:
            part = lengths[0][window.first : window.last]
            assert len(part) == 1 or (sum(part) + cost * len(part) <= 30 and len(part) <= 5)
        covered = list(itertools.chain(*(range(window.first, window.last) for window in windows)))
        counts = {covered.count(index) for index in range(len(lengths[0]))}
        if resolutions == "multi":
            assert counts == {len(resolution_counts(len(lengths[0]), "multi"))}
        else:
            # a part of one sentence is that sentence
            assert len(set(windows)) == len(windows) and counts <= {1, 2}
        alone = {window.first for window in windows if window.last == window.first + 1}
        assert alone == set(range(len(lengths[0])))


def test_parts_and_sentences_are_a_union():
    # fails if a part of one sentence comes a second time as a sentence
    config = DocMTConfig.from_system("p-transformer", training_resolutions="document+sentence", max_part_tokens=20)
    assert training_windows([30, 3, 3], [3, 3, 3], config) == [
        Window(0, 1, 0),
        Window(1, 3, 1),
        Window(1, 2, 1),
        Window(2, 3, 2),
    ]
    assert training_windows([3], [3], config) == [Window(0, 1, 0)]
    assert training_windows([30, 3, 3], [3, 3, 3], config, resolutions="document") == [
        Window(0, 1, 0),
        Window(1, 3, 1),
    ]


def test_source_context_has_the_current_sentence_alone_as_target():
    """A3; fails if the target has the context, too, or if `<bod>` stands in for what is missing."""
    config = DocMTConfig(sequence_format="source_context", context_sentences=2, use_sos=True, indexed_separators=True)
    source, target = [[300], [301], [302], [303]], [[400], [401], [402], [403]]
    windows = training_windows([1] * 4, [1] * 4, config)
    assert windows == [Window(0, 1, 0), Window(0, 2, 1), Window(0, 3, 2), Window(1, 4, 3)]
    assert windows == [source_context_window(index, 2) for index in range(4)]
    assert [format_window(source, target, window, config) for window in windows] == [
        ([SOS, 300, EOS], [400, EOS]),
        ([SOS, 300, SEP1, 301, EOS], [401, EOS]),
        ([SOS, 300, SEP1, 301, SEP1 + 1, 302, EOS], [402, EOS]),
        ([SOS, 301, SEP1, 302, SEP1 + 1, 303, EOS], [403, EOS]),
    ]


@pytest.mark.parametrize(
    "config",
    [
        DocMTConfig(sequence_format="source_context", context_sentences=3),
        DocMTConfig(sequence_format="source_context", context_sentences=3, use_sos=True, indexed_separators=True),
        DocMTConfig.from_system("concat-adj"),
        *(
            DocMTConfig.from_system(system, training_resolutions=resolutions, max_part_tokens=40)
            for system in ("concat-document", "mr-doc2doc")
            for resolutions in ("document", "multi", "document+sentence")
        ),
    ],
    ids=lambda config: f"{config.system}-{config.sequence_format}-{config.training_resolutions}",
)
def test_sentence_lengths_sum_to_the_sequence_and_ids_never_fall(config):
    """INV-A4: o + sum J_n = J, sentence ids 1..N in order; fails if `<sos>` or a separator counts as no token."""
    rng = random.Random(4)
    source, target = ([[300] * rng.randint(1, 9) for _ in range(11)] for _ in range(2))
    windows = training_windows([len(s) for s in source], [len(t) for t in target], config)
    for window in windows:
        ids, labels = format_window(source, target, window, config)
        pieces = source[window.first : window.last]
        expected = [2] * window.bod + [len(piece) + 1 for piece in pieces]
        sentence_ids = source_sentence_ids(torch.tensor([ids]), config)[0].tolist()
        of_each = [[number] * length for number, length in enumerate(expected)]
        assert sentence_ids == [0] * config.use_sos + list(itertools.chain(*of_each))
        sentences = SourceSentences.from_ids(torch.tensor([ids]), np.array([len(ids)]), config)
        assert sentences.counts[0] == len(expected)
        assert (sentences.ends - sentences.starts)[0].tolist() == expected
        assert int(config.use_sos) + sum(expected) == len(ids)
        targets = target[window.current if config.sequence_format == "source_context" else window.first : window.last]
        assert 2 * window.bod + sum(len(piece) + 1 for piece in targets) == len(labels)
