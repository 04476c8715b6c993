"""Attention of decoding steps: few queries, over keys that lie in several stretches and are shared by beams."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .attention_heads import HeadProjections, key_positions


if TYPE_CHECKING:
    from .cache_docmt import SearchCache

# keys and values of a run of positions, (n, H, K, D) each: those of all beams of a sequence
Stretch = tuple[torch.Tensor, torch.Tensor]


def attend_stretches(
    query: torch.Tensor, stretches: Sequence[Stretch], masks: Sequence[torch.Tensor | None], scaling: float
) -> torch.Tensor:
    """
    Softmax attention over the keys of all stretches together; nothing is copied to bring them side by side.

    Args:
        query (`torch.Tensor` of shape `(n, H, G, T, D)`): n sequences of G beams, T new tokens each.
        stretches (`Sequence[Stretch]`): Keys and values, of shape `(n, H, K, D)`.
        masks (`Sequence[torch.Tensor | None]`):
            For each stretch, what is added to the logits, broadcast to `(n, H, G, T, K)`: minus infinity where a key
            is hidden. `None`: nothing. A query must see one key at least.
        scaling (`float`): Factor of the logits.

    Returns:
        `torch.Tensor` of shape `(n, H, G, T, D)`.

    Cost: O(T K) a beam; keys are read once for all beams of a sequence, as rows of one product.
    """
    n, H, G, T, _ = query.shape
    query = (query * scaling).reshape(n, H, G * T, -1)
    parts = []
    for (key, _), mask in zip(stretches, masks, strict=True):
        part = torch.matmul(query, key.transpose(-1, -2)).unflatten(2, (G, T))  # (n, H, G, T, K)
        parts.append(part if mask is None else part + mask)
    weights = torch.softmax(parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1), dim=-1).flatten(2, 3)
    output = query.new_zeros(())
    start = 0
    for _, value in stretches:
        end = start + value.shape[2]
        product = torch.matmul(weights[..., start:end], value)
        output = product if start == 0 else output + product
        start = end
    return output.unflatten(2, (G, T))


def add_distances(
    masks: Sequence[torch.Tensor | None],
    by_distance: torch.Tensor,
    zero_column: int,
    distances: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """
    Masks with the logits of relative positions added.

    Args:
        masks (`Sequence[torch.Tensor | None]`): For each stretch, as in `attend_stretches`.
        by_distance (`torch.Tensor` of shape `(n, H, G, T, R)`): What each distance adds to the logits of a query.
        zero_column (`int`): Column of distance 0; distances beyond the columns take the first or the last one.
        distances (`Sequence[torch.LongTensor]`): For each stretch, those of query and key, `(n, G or 1, T, K)`.
    """
    added = []
    for mask, distance in zip(masks, distances, strict=True):
        columns = (distance + zero_column).clamp(0, by_distance.shape[-1] - 1)[:, None]
        term = by_distance.gather(-1, columns.expand(*by_distance.shape[:-1], -1))
        added.append(term if mask is None else term + mask)
    return added


def heads_in_search(
    attention: HeadProjections, hidden_states: torch.Tensor, attention_masks: dict[str, Any], cache: "SearchCache"
) -> tuple[torch.Tensor, list[Stretch]]:
    """
    Queries of a decoding pass, and the stretches that they meet; new keys and values go to the cache.

    Args:
        attention (`HeadProjections`): Whose projections.
        hidden_states (`torch.Tensor` of shape `(n * G, T, d_model)`): States of the new tokens.
        attention_masks (`dict`): Masks by name, and positions.
        cache (`SearchCache`): The cache of the pass.

    Returns:
        `tuple`: queries `(n, H, G, T, D)`, and keys and values.
    """

    def split(states: torch.Tensor) -> torch.Tensor:
        rows = states.view(cache.num_sequences, cache.num_beams, states.shape[1], -1, attention.head_dim)
        return rows.permute(0, 3, 1, 2, 4)

    query = split(attention.project_queries(hidden_states, attention_masks))
    if attention.place == "cross":
        return query, cache.source(attention.layer_idx)
    key, value = attention.project_keys(hidden_states, key_positions(attention_masks))
    return query, cache.update(attention.layer_idx, split(key), split(value))


def join_heads(states: torch.Tensor) -> torch.Tensor:
    """Heads `(n, H, G, T, D)` to states `(n * G, T, H * D)`."""
    return states.permute(0, 2, 3, 1, 4).flatten(3).flatten(0, 1)
