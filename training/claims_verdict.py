"""
Does a claim hold? Each comparison holds, fails, or is not clear; the verdict follows from all of them.

What is clear depends on what is known of a number. Scores on documents and accuracies on items have intervals: the
paired one of the difference where a result file has it, else both intervals, which must not overlap. Runs of several
seeds have a range each: the ranges must not overlap, and the means must differ by the margin that the claim names. A
single run has the margin alone, and the verdict is marked with "one seed" whatever it was judged by, since training
again may move it by more. Of two systems that are compared in all measures, a difference is clear only if its p-value
is after the correction for their number, but for the measure that was named beforehand.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .claims import Claim, Comparison, Term
from .claims_corrected import ACCURACY, LEVEL, Correction
from .claims_values import Interval, Missing, Observation, ResultFiles, Value
from .contrastive_paired import compare_suites


State = Literal["holds", "fails", "unclear"]

HELD = "held"
NOT_HELD = "did not hold"
UNCLEAR = "cannot be told at this size"
NOT_RUN = "not run yet"
VERDICTS = (HELD, NOT_HELD, UNCLEAR, NOT_RUN)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """
    A comparison and what came of it.

    Args:
        comparison (`Comparison`): What was asked.
        state (`str`): Whether it `holds`, `fails`, or is `unclear`.
        difference (`float`): Left side less right side.
        ends (`tuple[float, float]`): How far the difference may lie lower and higher.
        basis (`str`): What that was judged by.
    """

    comparison: Comparison
    state: State
    difference: float
    ends: Interval
    basis: str


@dataclasses.dataclass(frozen=True)
class Judged:
    """
    A claim, the numbers, the outcomes, and the verdict.

    Args:
        claim (`Claim`): The claim.
        values (`Mapping[str, Value | Missing]`): Its numbers, those that are not there included.
        outcomes (`tuple[Outcome, ...]`): Of the comparisons, as far as their numbers are there.
        verdict (`str`): One of `VERDICTS`.
    """

    claim: Claim
    values: Mapping[str, Value | Missing]
    outcomes: tuple[Outcome, ...]
    verdict: str

    @property
    def found(self) -> dict[str, Value]:
        """The numbers that are there."""
        return {name: value for name, value in self.values.items() if isinstance(value, Value)}

    @property
    def missing(self) -> dict[str, Missing]:
        """Those that are not."""
        return {name: value for name, value in self.values.items() if isinstance(value, Missing)}

    @property
    def has_one_seed(self) -> bool:
        """Whether another seed may turn the verdict, and none was tried."""
        decided = self.verdict in (HELD, NOT_HELD)
        return decided and any(value.depends_on_seed and len(value.seeds) == 1 for value in self.found.values())

    @property
    def text(self) -> str:
        """`held (one seed)`."""
        return f"{self.verdict} (one seed)" if self.has_one_seed else self.verdict


def judge(claim: Claim, files: ResultFiles, correction: Correction | None = None) -> Judged:
    """
    Judge a claim.

    Args:
        claim (`Claim`): The claim.
        files (`ResultFiles`): Where its numbers are.
        correction (`Correction`, *optional*): Two systems that are compared in all measures.

    Raises:
        `ValueError`: that names the claim, for values that cannot be compared.
    """
    where = f"claim {claim.id!r}"
    values = {name: files.find(one, f"{where}, value {name!r}") for name, one in claim.values.items()}
    found = {name: value for name, value in values.items() if isinstance(value, Value)}
    outcomes = tuple(
        compare(one, found[one.left], None if one.right.name is None else found[one.right.name], where, correction)
        for one in claim.holds_when
        if all(name in found for name in one.names)
    )
    states = [outcome.state for outcome in outcomes]
    verdict = HELD
    if not values or len(found) < len(values):
        verdict = NOT_RUN
    elif "fails" in states:
        verdict = NOT_HELD
    elif "unclear" in states:
        verdict = UNCLEAR
    return Judged(claim, values, outcomes, verdict)


def judge_all(claims: Sequence[Claim], files: ResultFiles, correction: Correction | None = None) -> list[Judged]:
    """Judge claims, in their order."""
    return [judge(claim, files, correction) for claim in claims]


def compare(
    comparison: Comparison,
    left: Value,
    right: Value | None,
    where: str = "",
    correction: Correction | None = None,
) -> Outcome:
    """
    Hold two numbers against each other.

    Args:
        comparison (`Comparison`): How.
        left, right (`Value`): The numbers; no right one where it is a constant.
        where (`str`, *optional*): The claim, for errors.
        correction (`Correction`, *optional*): Two systems that are compared in all measures.

    Raises:
        `ValueError`: for scores of different data.
    """
    term = comparison.right
    difference = left.estimate - (term.offset if right is None else term.factor * right.estimate + term.offset)
    ends, basis = _paired(left, right, term) or _apart(left, right, term)
    if right is not None:
        _check_same_data(left, right, f"{where}: {comparison.text!r}")
    tried = [value for value in (left, right) if value is not None and value.depends_on_seed]
    single = any(len(value.seeds) == 1 for value in tried)
    has_interval = any(one.interval for value in (left, right) if value for one in value.observations)
    if comparison.sign == "=":
        basis = "exactly"
    elif not has_interval:
        basis = "one seed" if single else "ranges over seeds" if tried else "one measurement"
    # the same question with the larger side on the left
    flipped = comparison.sign in ("<", "<=")
    low, high = (-ends[1], -ends[0]) if flipped else ends
    ahead, margin = (-difference if flipped else difference), comparison.margin or 0.0
    state: State = "unclear"
    if comparison.sign == "=":
        state = "holds" if ends == (0.0, 0.0) else "fails"
    elif comparison.sign in (">", "<"):
        state = "holds" if low > 0 and ahead >= margin else "fails" if high < 0 and ahead <= -margin else "unclear"
    else:
        # nothing is known of how far one number may lie off: twice the margin is too far, whatever it is
        too_far = high < -margin if has_interval or not single else high < -2 * margin
        state = "holds" if low >= -margin else "fails" if too_far else "unclear"
    p_value = _corrected(left, right, correction)
    if comparison.sign in (">", "<") and p_value is not None:
        basis += f", p {p_value:.3f} after correction"
        state = "unclear" if p_value >= LEVEL else state
    return Outcome(comparison, state, difference, ends, basis)


def _corrected(left: Value, right: Value | None, correction: Correction | None) -> float | None:
    """The corrected p-value of a difference, if it is one of the two systems that are compared in all measures."""
    if correction is None or right is None:
        return None
    if {left.selector.files, right.selector.files} != {(file,) for file in correction.files}:
        return None
    fields = left.selector.fields
    key = (fields.get("measure", ACCURACY), fields.get("test_set", fields.get("suite", "")))
    return correction.corrected.get(key)


def _apart(left: Value, right: Value | None, term: Term) -> tuple[Interval, str]:
    """The ends of a difference of numbers that are known each by itself."""
    others = (0.0, 0.0) if right is None else right.ends
    low, high = (term.factor * end + term.offset for end in others)
    return (left.ends[0] - high, left.ends[1] - low), "interval" if right is None else "intervals of both"


def _paired(left: Value, right: Value | None, term: Term) -> tuple[Interval, str] | None:
    """The ends of a difference that was measured on the same documents or items, where result files have it."""
    if right is None or (term.factor, term.offset) != (1.0, 0.0) or left.selector.kind != right.selector.kind:
        return None
    if len(left.observations) != len(right.observations):
        return None
    found: list[Interval] = []
    for ours, theirs in zip(left.observations, right.observations, strict=True):
        pair = None
        if left.selector.kind == "evaluation" and left.selector.fields == right.selector.fields:
            pair = _of_baseline(ours, theirs, left.selector.fields["measure"])
        elif left.selector.kind == "contrastive" and "decisions" in ours.entry and "decisions" in theirs.entry:
            interval = compare_suites(ours.entry, theirs.entry)["interval"]
            pair = (interval[0], interval[1])
        if pair is None:
            return None
        found.append(pair)
    basis = "paired bootstrap over documents" if left.selector.kind == "evaluation" else "paired draws of items"
    return (min(low for low, _ in found), max(high for _, high in found)), basis


def _of_baseline(ours: Observation, theirs: Observation, measure: str) -> Interval | None:
    """The interval of a difference from the file of either system, if its baseline is the other one, by its score."""
    for entry, other, sign in ((ours.entry, theirs, 1), (theirs.entry, ours, -1)):
        for name in other.names:
            baseline: Mapping[str, Any] = entry.get("baselines", {}).get(name, {})
            score = baseline.get("scores", {}).get(measure, {}).get("score")
            interval = baseline.get("bootstrap", {}).get("measures", {}).get(measure, {}).get("interval")
            if interval is not None and score == other.estimate and entry["sha256"] == other.entry["sha256"]:
                low, high = sorted(sign * end for end in interval)
                return low, high
    return None


def _check_same_data(left: Value, right: Value, where: str) -> None:
    """Scores are of the same documents, and accuracies of the same items."""
    if left.selector.kind != right.selector.kind or left.selector.kind not in ("evaluation", "context_use"):
        return
    hashes = {
        str(one.entry["sha256"]) for value in (left, right) for one in value.observations if "sha256" in one.entry
    }
    if len(hashes) > 1:
        raise ValueError(f"{where} compares scores on different test sets. Name the same one.")
