"""Two systems compared on the same items."""

import numpy as np
import pytest

from training.bootstrap import draw_documents
from training.contrastive_paired import compare_suites, pack_decisions, unpack_decisions


def entry(decisions, **changes):
    right = [bool(decision) for decision in decisions]
    known = {"suite": "suite.jsonl", "sha256": {"a": "1"}, "items": len(right), "decisions": pack_decisions(right)}
    return known | changes


@pytest.mark.parametrize("items", [1, 7, 8, 9, 1000])
def test_decisions_come_back_as_they_were(items):
    decisions = np.random.default_rng(items).random(items) < 0.5
    assert (unpack_decisions(pack_decisions(decisions), items) == decisions).all()


def test_digits_of_another_number_of_items_are_refused():
    with pytest.raises(ValueError, match="16 bits, which are not those of 17 items"):
        unpack_decisions(pack_decisions([True] * 16), 17)


def test_intervals_are_those_of_draws_of_items():
    random = np.random.default_rng(0)
    mine, theirs = random.random(400) < 0.6, random.random(400) < 0.45
    draws = draw_documents(400, 20000, seed=1)
    found = compare_suites(entry(mine), entry(theirs), resamples=20000)
    difference = 100 * (mine.mean() - theirs.mean())
    assert found["difference"] == pytest.approx(difference, abs=1e-4)
    expected = np.percentile(100 * (draws @ (mine.astype(int) - theirs)) / 400, [2.5, 97.5])
    assert found["interval"] == pytest.approx(expected, abs=0.4)
    assert found["interval"][0] > 0 and found["p_value"] < 0.01


def test_a_system_against_itself_differs_in_nothing_and_swapping_turns_the_sign():
    random = np.random.default_rng(3)
    mine, theirs = random.random(50) < 0.5, random.random(50) < 0.5
    same = compare_suites(entry(mine), entry(mine))
    assert same["difference"] == 0 and same["interval"] == [0, 0] and same["p_value"] > 0.4
    there, back = compare_suites(entry(mine), entry(theirs)), compare_suites(entry(theirs), entry(mine))
    assert there["difference"] == -back["difference"]
    assert (there["only_this"], there["only_other"]) == (back["only_other"], back["only_this"])


def test_entries_of_other_items_or_without_decisions_are_refused():
    with pytest.raises(ValueError, match="are not the same items"):
        compare_suites(entry([1, 0]), entry([1, 0], sha256={"a": "2"}))
    bare = entry([1, 0])
    del bare["decisions"]
    with pytest.raises(ValueError, match="has no `decisions`. Score the suite again"):
        compare_suites(entry([1, 0]), bare)
