"""Paired bootstrap over documents: the fast scores are sacreBLEU's, and the verdicts are those known beforehand."""

import json
import random

import numpy as np
import pytest

from training.bootstrap import (
    BOOTSTRAP_MEASURES,
    bootstrap_intervals,
    document_statistics,
    draw_documents,
    paired_bootstrap,
    scores_from_sums,
)
from training.metrics import score_documents


WORDS = "the a cat dog house river bridge old green quickly walks sees under over and never".split()


def make_documents(number: int, seed: int) -> list[list[str]]:
    """Documents of 1 to 6 sentences of 0 to 12 words."""
    generator = random.Random(seed)
    return [
        [
            " ".join(generator.choices(WORDS, k=generator.randrange(0 if index else 4, 13)))
            for index in range(generator.randint(1, 6))
        ]
        for _ in range(number)
    ]


def corrupt(documents: list[list[str]], share: float, seed: int) -> list[list[str]]:
    """Replace a share of the words by others."""
    generator = random.Random(seed)

    def word_or_other(word: str) -> str:
        return generator.choice(WORDS) if generator.random() < share else word

    return [[" ".join(word_or_other(word) for word in sentence.split()) for sentence in d] for d in documents]


REFERENCES = make_documents(30, seed=1)
GOOD, BAD = corrupt(REFERENCES, 0.1, seed=2), corrupt(REFERENCES, 0.5, seed=3)


@pytest.mark.parametrize("measure", BOOTSTRAP_MEASURES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_full_set_scores_as_sacrebleu(measure, share):
    hypotheses = corrupt(REFERENCES, share, seed=4)
    statistics = document_statistics(hypotheses, REFERENCES, measure)
    score = scores_from_sums(statistics.sum(axis=0, keepdims=True), measure)[0]
    expected = score_documents(hypotheses, REFERENCES, measures=(measure,))[measure]["score"]
    assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("measure", BOOTSTRAP_MEASURES)
def test_each_draw_scores_as_sacrebleu_on_its_documents(measure):
    draws = draw_documents(len(REFERENCES), resamples=5, seed=7)
    fast = scores_from_sums(draws @ document_statistics(BAD, REFERENCES, measure), measure)
    for draw, score in zip(draws, fast, strict=True):
        chosen = np.repeat(np.arange(len(draw)), draw)
        hypotheses, references = [BAD[i] for i in chosen], [REFERENCES[i] for i in chosen]
        expected = score_documents(hypotheses, references, measures=(measure,))[measure]["score"]
        assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("measure", BOOTSTRAP_MEASURES)
@pytest.mark.parametrize(
    "pair",
    [
        ("", ""),
        ("", "a cat"),
        ("a cat", ""),
        ("a cat", "a cat"),
        ("dog", "cat over there"),
        ("a cat sees over the bridge", "a dog sees under one bridge"),
        ("a b c d e f", "a x c y e z"),
        ("short", "a much longer reference with many words"),
    ],
)
def test_degenerate_documents_score_as_sacrebleu(measure, pair):
    hypothesis, reference = [[pair[0]]], [[pair[1]]]
    score = scores_from_sums(document_statistics(hypothesis, reference, measure), measure)[0]
    expected = score_documents(hypothesis, reference, measures=(measure,))[measure]["score"]
    assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("measure", BOOTSTRAP_MEASURES)
def test_a_document_without_sentences_counts_nothing(measure):
    with_empty = document_statistics([*GOOD, []], [*REFERENCES, []], measure)
    assert with_empty[-1].sum() == 0
    assert np.array_equal(with_empty[:-1], document_statistics(GOOD, REFERENCES, measure))


def test_clear_difference_is_found():
    result = paired_bootstrap(GOOD, BAD, REFERENCES)
    for measure in BOOTSTRAP_MEASURES:
        found = result["measures"][measure]
        assert found["difference"] == pytest.approx(found["score"] - found["baseline_score"], abs=1e-3)
        assert 0 < found["interval"][0] < found["difference"] < found["interval"][1]
        assert found["p_value"] == pytest.approx(1 / 1001, abs=1e-6)
        assert (found["wins"], found["ties"], found["losses"]) == (1000, 0, 0)


def test_exchanged_systems_change_the_sign_only():
    forward = paired_bootstrap(GOOD, BAD, REFERENCES)["measures"]["s-BLEU"]
    backward = paired_bootstrap(BAD, GOOD, REFERENCES)["measures"]["s-BLEU"]
    assert backward["difference"] == -forward["difference"]
    assert backward["interval"] == pytest.approx([-forward["interval"][1], -forward["interval"][0]], abs=1e-3)
    assert backward["losses"] == forward["wins"]


def test_equal_systems_tie_in_every_draw():
    result = paired_bootstrap(GOOD, GOOD, REFERENCES)
    for found in result["measures"].values():
        assert found["difference"] == 0
        assert found["interval"] == [0, 0]
        assert found["p_value"] == 1
        assert (found["wins"], found["ties"], found["losses"]) == (0, 1000, 0)


def test_chance_is_not_called_a_difference():
    """Two systems of equal quality: over many pairs, p is below 0.05 about as often as it should be."""
    found = 0
    for seed in range(40):
        one, other = corrupt(REFERENCES, 0.3, seed=100 + seed), corrupt(REFERENCES, 0.3, seed=200 + seed)
        result = paired_bootstrap(one, other, REFERENCES, measures=("s-BLEU",), resamples=200)
        found += result["measures"]["s-BLEU"]["p_value"] < 0.05
    assert found <= 8


def test_same_seed_same_result_and_it_is_json():
    first = paired_bootstrap(GOOD, BAD, REFERENCES, resamples=50, seed=3)
    assert first == paired_bootstrap(GOOD, BAD, REFERENCES, resamples=50, seed=3)
    assert first != paired_bootstrap(GOOD, BAD, REFERENCES, resamples=50, seed=4)
    assert json.loads(json.dumps(first)) == first
    assert {"unit", "documents", "resamples", "seed", "confidence"} < set(first)


def test_draws_hold_as_many_documents_as_there_are():
    draws = draw_documents(7, resamples=100)
    assert draws.shape == (100, 7)
    assert (draws.sum(axis=1) == 7).all()
    assert draws.mean(axis=0) == pytest.approx(np.ones(7), abs=0.35)


def test_interval_of_one_system_holds_its_score():
    result = bootstrap_intervals(BAD, REFERENCES)
    for found in result["measures"].values():
        low, high = found["interval"]
        assert low < found["score"] < high


def test_more_documents_make_the_interval_narrower():
    references = make_documents(300, seed=5)
    hypotheses = corrupt(references, 0.3, seed=6)
    few = bootstrap_intervals(hypotheses[:20], references[:20])["measures"]["s-BLEU"]["interval"]
    many = bootstrap_intervals(hypotheses, references)["measures"]["s-BLEU"]["interval"]
    assert many[1] - many[0] < few[1] - few[0]


def test_one_document_is_refused():
    with pytest.raises(ValueError, match="at least 2 documents, got 1"):
        paired_bootstrap([["a cat"]], [["a dog"]], [["a cat"]])


def test_wrong_counts_are_refused_on_either_side():
    with pytest.raises(ValueError, match="document 0 has 1 hypothesis sentences and 2"):
        paired_bootstrap([["a", "b"], ["c"]], [["a"], ["c"]], [["a", "b"], ["c"]])


def test_ter_has_no_bootstrap():
    with pytest.raises(ValueError, match="'s-BLEU', 'd-BLEU', 'chrF', got 'TER'"):
        paired_bootstrap(GOOD, BAD, REFERENCES, measures=("TER",))


def test_no_resamples_are_refused():
    with pytest.raises(ValueError, match="`resamples` must be 1 or more, got 0"):
        draw_documents(5, resamples=0)
