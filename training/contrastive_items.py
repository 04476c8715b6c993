"""
One item of a contrastive test suite: a source in its context, and translations of which one is right.

All suites are read into this form, see `contrastive_readers`; all systems are scored from it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


# of labels that some items of a suite lack
UNKNOWN = "unknown"


@dataclass(frozen=True)
class ContrastiveItem:
    """
    A source in its context, and candidate translations.

    Args:
        id (`str`): Name, unique in its suite.
        source (`tuple[str, ...]`): N sentences in the order of the document, of which one is in question.
        candidates (`tuple[tuple[str, ...], ...]`):
            For each candidate the translations of the N sentences; "" for those of the context that are missing.
        current (`int`): The sentence in question, from 0; those before it are left context, those behind it right.
        correct (`int`): The candidate that is right, from 0.
        labels (`dict[str, str]`): Groups that the item belongs to, such as `{"antecedent_distance": "1"}`.
    """

    id: str
    source: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]
    current: int
    correct: int = 0
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.current < len(self.source):
            raise ValueError(f"`current` must be one of {len(self.source)} source sentences, got {self.current}.")
        if len(self.candidates) < 2:
            raise ValueError(f"`candidates` must be 2 or more, got {len(self.candidates)}: nothing to compare with.")
        if not 0 <= self.correct < len(self.candidates):
            raise ValueError(f"`correct` must be one of {len(self.candidates)} candidates, got {self.correct}.")
        for number, candidate in enumerate(self.candidates):
            if len(candidate) != len(self.source):
                raise ValueError(
                    f"`candidates[{number}]` has {len(candidate)} sentences and the source {len(self.source)}, but "
                    'sentence i must translate sentence i. Write "" for a context sentence that is missing.'
                )
            if not candidate[self.current].strip():
                raise ValueError(f"`candidates[{number}]` has no text for the sentence in question.")
        if not self.source[self.current].strip():
            raise ValueError("`source` has no text in the sentence in question.")

    @property
    def reference(self) -> tuple[str, ...]:
        """The candidate that is right."""
        return self.candidates[self.correct]


def aligned_item(
    *,
    id: str,
    source: str,
    candidates: Sequence[str],
    source_left: Sequence[str] = (),
    target_left: Sequence[str] = (),
    source_right: Sequence[str] = (),
    target_right: Sequence[str] = (),
    labels: dict[str, str] | None = None,
) -> ContrastiveItem:
    """
    Make an item of a sentence, its candidates (the right one first) and the context that these share.

    Where one side has less context than the other, the rest is missing there.

    Args:
        id, labels: As in [`ContrastiveItem`].
        source (`str`), candidates (`Sequence[str]`): The sentence in question and its translations.
        source_left, target_left, source_right, target_right (`Sequence[str]`):
            Context in the order of the document; the target's is that of the reference.
    """
    left = max(len(source_left), len(target_left))
    right = max(len(source_right), len(target_right))

    def whole(before: Sequence[str], sentence: str, behind: Sequence[str]) -> tuple[str, ...]:
        missing_left, missing_right = [""] * (left - len(before)), [""] * (right - len(behind))
        return (*missing_left, *before, sentence, *behind, *missing_right)

    return ContrastiveItem(
        id=id,
        source=whole(source_left, source, source_right),
        candidates=tuple(whole(target_left, candidate, target_right) for candidate in candidates),
        current=left,
        labels=labels or {},
    )


@dataclass(frozen=True)
class HeldContext:
    """
    Context sentences that a suite holds at most: of the source, of the reference, and of both in one item.

    Args:
        source_left, target_left, both_left, source_right, target_right, both_right (`int`): Sentences.
    """

    source_left: int
    target_left: int
    both_left: int
    source_right: int
    target_right: int
    both_right: int


def held_context(items: Iterable[ContrastiveItem]) -> HeldContext:
    """Count the context that a suite holds."""
    most = [0] * 6
    for item in items:
        sides = (item.source, item.reference)
        left = [_reach(side[: item.current][::-1]) for side in sides]
        right = [_reach(side[item.current + 1 :]) for side in sides]
        found = [*left, min(left), *right, min(right)]
        most = [max(pair) for pair in zip(most, found, strict=True)]
    return HeldContext(*most)


def _reach(sentences: Sequence[str]) -> int:
    """How far the last sentence that is not missing is away, in sentences, of those nearest first."""
    return max((distance for distance, text in enumerate(sentences, start=1) if text.strip()), default=0)


def label_values(items: Sequence[ContrastiveItem], name: str) -> list[str]:
    """The value of a label in each item, `UNKNOWN` where it has none."""
    return [item.labels.get(name, UNKNOWN) for item in items]


def check_ids(items: Sequence[ContrastiveItem], where: str) -> list[ContrastiveItem]:
    """
    Return the items, all of them.

    Raises:
        `ValueError`: if there is none, or an id is there twice, so that nothing counts twice.
    """
    if not items:
        raise ValueError(f"{where}: there is no item in it.")
    counts = Counter(item.id for item in items)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise ValueError(
            f"{where}: item {repeated[0]!r} is there {counts[repeated[0]]} times ({len(repeated)} ids are not unique):"
            " keep one of each."
        )
    return list(items)


def distance_label(distance: int) -> str:
    """Distance of an antecedent in sentences, as it is reported: 0, 1, 2, 3, >3."""
    return str(distance) if distance <= 3 else ">3"
