"""Paired bootstrap over documents: the fast scores are those of the measures, the verdicts those known beforehand."""

import json
import random

import numpy as np
import pytest

from training.bootstrap import bootstrap_intervals, compare_draws, draw_documents, holm, paired_bootstrap
from training.metrics import (
    DISCOURSE_MEASURES,
    MEASURES,
    MeasureInputs,
    document_statistics,
    measure_documents,
    score_documents,
    scores_from_sums,
)
from training.metrics.lexical import consistency_statistics, learn_lexicon


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


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_full_set_scores_as_sacrebleu(measure, share):
    hypotheses = corrupt(REFERENCES, share, seed=4)
    statistics = document_statistics(hypotheses, REFERENCES, measure)
    score = scores_from_sums(statistics.sum(axis=0, keepdims=True), measure)[0]
    expected = score_documents(hypotheses, REFERENCES, measures=(measure,))[measure]["score"]
    assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("measure", MEASURES)
def test_each_draw_scores_as_sacrebleu_on_its_documents(measure):
    draws = draw_documents(len(REFERENCES), resamples=5, seed=7)
    fast = scores_from_sums(draws @ document_statistics(BAD, REFERENCES, measure), measure)
    for draw, score in zip(draws, fast, strict=True):
        chosen = np.repeat(np.arange(len(draw)), draw)
        hypotheses, references = [BAD[i] for i in chosen], [REFERENCES[i] for i in chosen]
        expected = score_documents(hypotheses, references, measures=(measure,))[measure]["score"]
        assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("measure", MEASURES)
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


@pytest.mark.parametrize("measure", MEASURES)
def test_a_document_without_sentences_counts_nothing(measure):
    with_empty = document_statistics([*GOOD, []], [*REFERENCES, []], measure)
    assert with_empty[-1].sum() == 0
    assert np.array_equal(with_empty[:-1], document_statistics(GOOD, REFERENCES, measure))


def test_clear_difference_is_found():
    """Fails if the lower TER, which is the better one, counts as a loss."""
    result = paired_bootstrap(GOOD, BAD, REFERENCES)
    for measure in MEASURES:
        found = result["measures"][measure]
        assert found["difference"] == pytest.approx(found["score"] - found["baseline_score"], abs=1e-3)
        low, high = sorted(abs(bound) for bound in found["interval"])
        assert 0 < low < abs(found["difference"]) < high
        assert (found["difference"] < 0) == (measure == "TER")
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


def test_unknown_measure_names_the_known_ones():
    with pytest.raises(ValueError, match="'chrF', 'TER', 'pronoun-F1', .*, got 'BLEU'"):
        paired_bootstrap(GOOD, BAD, REFERENCES, measures=("BLEU",))


def test_no_resamples_are_refused():
    with pytest.raises(ValueError, match="`resamples` must be 1 or more, got 0"):
        draw_documents(5, resamples=0)


TRANSLATIONS = {
    **{"it": "es er sie", "its": "ihr", "you": "du Sie", "they": "sie", "the": "der", "merman": "Wassermann"},
    **{"king": "König", "sleeps": "schläft", "castle": "Burg Schloss", "village": "Dorf Dörfer", "gold": "Gold"},
}


def make_labelled_set(
    number: int, seed: int
) -> tuple[list[list[str]], list[list[str]], list[list[str]], MeasureInputs]:
    """Sources, references, hypotheses and all that discourse measures need, with many pronouns, terms and labels."""
    generator = random.Random(seed)

    def translate(sentence: str, loss: float) -> str:
        words = (generator.choice(TRANSLATIONS[word].split()) for word in sentence.split())
        return " ".join(word for word in words if generator.random() >= loss)

    sources = [
        [" ".join(generator.choices(list(TRANSLATIONS), k=generator.randint(1, 8))) for _ in range(size)]
        for size in generator.choices(range(1, 7), k=number)
    ]
    references, hypotheses = (
        [[translate(sentence, loss) for sentence in document] for document in sources] for loss in (0.0, 0.3)
    )
    labels = []
    for index, reference in enumerate(references):
        tokens = " ".join(reference).split()
        labels.append(
            {
                "phenomenon": ("tense", "conjunction", "pronoun")[index % 3],
                "tgt_tok": " ".join(tokens),
                "labels": [{"pos": pos, "candidates": [tokens[pos]]} for pos in range(0, len(tokens), 2)],
            }
        )
    inputs = MeasureInputs(sources=sources, source_lang="en", tagger="none", labels=labels)
    return sources, references, hypotheses, inputs


@pytest.mark.parametrize("measure", DISCOURSE_MEASURES)
def test_discourse_measures_of_a_draw_are_those_of_its_documents(measure):
    """Fails if the counts of documents are averaged instead of summed, or one document's go to its neighbour."""
    sources, references, hypotheses, inputs = make_labelled_set(30, seed=1)
    statistics = document_statistics(hypotheses, references, measure, "de", inputs)
    lexicon = learn_lexicon(sources, references)
    draws = draw_documents(len(references), resamples=5, seed=7)
    for draw, score in zip(draws, scores_from_sums(draws @ statistics, measure), strict=True):
        chosen = np.repeat(np.arange(len(draw)), draw)
        drawn = MeasureInputs(
            sources=[sources[i] for i in chosen],
            source_lang="en",
            tagger="none",
            labels=[inputs.labels[i] for i in chosen],
        )
        texts = [hypotheses[i] for i in chosen], [references[i] for i in chosen]
        if measure == "lexical-consistency":
            # the table belongs to the test set, and is not learned anew for a draw
            sums = consistency_statistics(drawn.sources, *texts, lexicon).sum(axis=0, keepdims=True)
            expected = scores_from_sums(sums, measure)[0]
        else:
            expected = score_documents(*texts, "de", measures=(measure,), inputs=drawn)[measure]["score"]
        assert 0 < score < 100
        assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("measure", (*MEASURES, *DISCOURSE_MEASURES))
def test_every_measure_has_interval_and_comparison(measure):
    _, references, hypotheses, inputs = make_labelled_set(30, seed=2)
    result = bootstrap_intervals(hypotheses, references, "de", measures=(measure,), inputs=inputs)
    found = result["measures"][measure]
    low, high = found["interval"]
    assert low <= found["score"] <= high
    compared = paired_bootstrap(references, hypotheses, references, "de", measures=(measure,), inputs=inputs)
    found = compared["measures"][measure]
    assert (found["wins"], found["losses"]) == (1000, 0)
    assert json.loads(json.dumps(compared)) == compared


def test_known_counts_give_the_same_result():
    _, references, hypotheses, inputs = make_labelled_set(10, seed=3)
    measures = (*MEASURES, *DISCOURSE_MEASURES)
    measured = measure_documents(hypotheses, references, "de", measures=measures, inputs=inputs)
    counts = {measure: found.statistics for measure, found in measured.items()}
    setting = {"measures": measures, "inputs": inputs, "resamples": 20}
    result = bootstrap_intervals(hypotheses, references, "de", **setting)
    assert bootstrap_intervals(hypotheses, references, "de", **setting, statistics=counts) == result
    for measure, found in result["measures"].items():
        assert found["score"] == pytest.approx(measured[measure].entry["score"], abs=1e-4)


def test_draws_with_nothing_to_count_are_left_out_and_counted():
    """Fails if an undefined F1 counts as 0: one of three documents has pronouns, and 8 of 27 draws have it not."""
    sources, references = [["It is."], ["No."], ["No."]], [["Es ist."], ["Nein."], ["Nein."]]
    inputs = MeasureInputs(sources=sources, source_lang="en", tagger="none")
    setting = {"measures": ("pronoun-F1",), "inputs": inputs}
    found = bootstrap_intervals(references, references, "de", **setting)["measures"]["pronoun-F1"]
    assert found["score"] == 100
    assert found["interval"] == [100, 100]
    assert found["undefined_draws"] == pytest.approx(1000 * 8 / 27, abs=60)
    other = [["Er ist."], ["Nein."], ["Nein."]]
    compared = paired_bootstrap(references, other, references, "de", **setting)["measures"]["pronoun-F1"]
    assert compared["undefined_draws"] == found["undefined_draws"]
    assert compared["wins"] == 1000 - found["undefined_draws"]


def test_no_pronoun_at_all_has_no_score_and_no_difference():
    texts = [["Nein."], ["Nein."]]
    inputs = MeasureInputs(sources=[["No."], ["No."]], source_lang="en", tagger="none")
    compared = paired_bootstrap(texts, texts, texts, "de", measures=("pronoun-F1",), inputs=inputs, resamples=10)
    found = compared["measures"]["pronoun-F1"]
    assert [found[key] for key in ("score", "difference", "interval", "p_value")] == [None] * 4
    assert found["undefined_draws"] == 10
    assert json.loads(json.dumps(compared)) == compared


def test_a_difference_over_defined_draws_is_summed_up():
    found = compare_draws(1.0, np.array([1.0, np.nan, 2.0, -1.0, 0.0]))
    assert (found["wins"], found["ties"], found["losses"], found["undefined_draws"]) == (2, 1, 1, 1)
    assert found["difference"] == 1


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([0.01, 0.02, 0.03, 0.04, 0.05], [0.05, 0.08, 0.09, 0.09, 0.09]),  # as `p.adjust` of R has them
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # in the order given; none falls below a smaller one
        ([0.6, 0.9], [1.0, 1.0]),
        ([0.03], [0.03]),
        ([], []),
    ],
)
def test_holm_corrects_for_the_number_of_comparisons(p_values, corrected):
    assert holm(p_values) == pytest.approx(corrected)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_holm_takes_p_values_alone(wrong):
    with pytest.raises(ValueError, match="`p_values` must be from 0 to 1, got"):
        holm([0.5, wrong])
