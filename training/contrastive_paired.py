"""
Which of two systems is better on the items of a contrastive suite?

Result files keep which items a system gets right, a bit an item, so that any two of them can be compared later. Draws
are of items, with replacement: the numbers of items that only the one, only the other, or both or none get right are
multinomial, so a draw costs three numbers. Items of one film are drawn as if they had nothing to do with each other,
since most suites do not say which belong together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .bootstrap import RESAMPLES, SEED, compare_draws


def pack_decisions(decisions: Sequence[bool]) -> str:
    """Write decisions, in the order of the items, as hexadecimal digits of eight items each two."""
    return np.packbits(np.asarray(decisions, dtype=bool)).tobytes().hex()


def unpack_decisions(text: str, items: int) -> np.ndarray:
    """
    Read what `pack_decisions` wrote.

    Args:
        text (`str`): The digits.
        items (`int`): Number of items.

    Returns:
        `np.ndarray` of shape `(items,)`, bool.

    Raises:
        `ValueError`: where the digits are not those of so many items.
    """
    packed = np.frombuffer(bytes.fromhex(text), dtype=np.uint8)
    if len(packed) != -(-items // 8):
        raise ValueError(f"`decisions` has {8 * len(packed)} bits, which are not those of {items} items.")
    return np.unpackbits(packed, count=items).astype(bool)


def compare_suites(
    entry: Mapping[str, Any], other: Mapping[str, Any], resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, Any]:
    """
    Set a system against another one on the items of a suite.

    Args:
        entry, other (`dict`): Entries of the suite in the result files of the systems, `decisions` included.
        resamples, seed (`int`, *optional*, default to 1000 and 12345): Of the draws.

    Returns:
        `dict`: `difference` of the accuracies in percent, its `interval`, and `p_value`, as `compare_draws` has them;
        `only_this` and `only_other`, items that one of them alone gets right.

    Raises:
        `ValueError`: for entries of different suites, or without decisions.
    """
    for result in (entry, other):
        if "decisions" not in result:
            raise ValueError(f"{result['suite']}: the entry has no `decisions`. Score the suite again.")
    if entry["sha256"] != other["sha256"] or entry["items"] != other["items"]:
        raise ValueError(
            f"{entry['suite']} and {other['suite']} are not the same items, so accuracies on them cannot be compared. "
            "Score both systems on one file."
        )
    items = entry["items"]
    mine, theirs = (unpack_decisions(result["decisions"], items) for result in (entry, other))
    only_this, only_other = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    shares = np.array([only_this, only_other, items - only_this - only_other]) / items
    draws = np.random.default_rng(seed).multinomial(items, shares, size=resamples)
    differences = 100 * (draws[:, 0] - draws[:, 1]) / items
    found = compare_draws(100 * (only_this - only_other) / items, differences)
    return {**found, "only_this": only_this, "only_other": only_other, "resamples": resamples, "seed": seed}
