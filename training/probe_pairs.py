"""
What probes are asked about positions: pairs of them, and the classes of the answers.

Source: Li et al. (P-Transformer), on probing tasks.
"""

import numpy as np
import torch


def sample_partners(count: int, max_distance: int, rng: np.random.Generator) -> np.ndarray:
    """
    Draw a partner j for each of `count` positions i, uniformly from those with `1 <= |i - j| <= max_distance`.

    Args:
        count (`int`): Positions of a sequence, numbered from 0.
        max_distance (`int`): Largest distance of a pair, K.
        rng (`np.random.Generator`): Source of the draw.

    Returns:
        `np.ndarray` of shape `(count,)`: partners; of shape `(0,)` for a sequence of one position, which has no pair.
    """
    if count < 2:
        return np.zeros(0, dtype=np.int64)
    positions = np.arange(count)
    firsts = np.maximum(positions - max_distance, 0)
    lasts = np.minimum(positions + max_distance, count - 1)
    partners = firsts + rng.integers(0, lasts - firsts)
    # there is one choice less than there are positions from first to last: i itself is stepped over
    return partners + (partners >= positions)


def relative_class(distances: torch.LongTensor, max_distance: int) -> torch.LongTensor:
    """Class, from 0 to 2 K - 1, of signed distances i - j: those from -K to -1 come first, then those from 1 to K."""
    return distances + max_distance - (distances > 0).long()


def signed_distances(max_distance: int) -> list[int]:
    """The signed distance of each class of `relative_class`."""
    return [*range(-max_distance, 0), *range(1, max_distance + 1)]


def order_class(distances: torch.LongTensor) -> torch.LongTensor:
    """Class of signed distances i - j: 0 where i stands behind j, 1 where i stands before j."""
    return (distances < 0).long()
