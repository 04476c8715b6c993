"""Window attention: a query sees the keys around itself, or around the source position it is aligned with."""

from typing import Any

import torch
from torch import nn

from .attention_decoding import attend_stretches, heads_in_search, join_heads
from .attention_heads import AttentionHeads
from .attention_interval import (
    RelativeTerm,
    flex_interval_attention,
    interval_attention,
    interval_attention_weights,
)
from .cache_docmt import SearchCache
from .configuration_docmt import DocMTConfig
from .interval_plan_docmt import IntervalPlan


class WindowAttention(AttentionHeads):
    """
    Softmax attention over the keys at most w positions away from b_i, for self- and cross-attention.

    `logit_ij = q_i . (k_j + r_{i-j}) / sqrt(head_dim)` for |j - b_i| <= w. In self-attention b_i = i, and r is learned
    with `position_encoding="relative"`; in cross-attention b_i is the aligned source position, and r_{b_i-j} is there
    with `relative_cross=True` alone.

    Source: Herold and Ney (2023), on the window attention; r on the side of the keys alone, as in Shaw et al. (2018).

    Cost: O(T w) time, O(T) memory.

    Args: as in [`AttentionHeads`].
    """

    mask_names = ("window",)

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str):
        super().__init__(config, num_heads, layer_idx, place)
        # row of distance 0 is the first in the decoder, where keys are never behind the query
        self.zero_row = 0 if place == "decoder" else config.window
        self.relative_keys: nn.Parameter | None = None
        if config.position_encoding == "relative" and (place != "cross" or config.relative_cross):
            sizes = {"separate": (num_heads, self.head_dim), "shared": (self.head_dim,), "scalar": (num_heads, 1)}
            rows = self.zero_row + config.window + 1
            self.relative_keys = nn.Parameter(torch.empty(rows, *sizes[config.relative_heads]))

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_masks: dict[str, Any],
        encoder_hidden_states: torch.Tensor | None = None,
        cache: SearchCache | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states (`torch.Tensor` of shape `(B, T, d_model)`): States of the queries, or those of a packed row.
            attention_masks (`dict`): Masks by name, see `build_attention_masks`.
            encoder_hidden_states (`torch.Tensor` of shape `(B, S, d_model)`, *optional*):
                States of the keys in cross-attention, in the layout of the queries.
            cache (`SearchCache`, *optional*): Keys and values of document decoding.

        Returns:
            `tuple`: states of the shape of `hidden_states`, and on eager weights `(B, H, T, K)`.
        """
        if isinstance(cache, SearchCache):
            return self.out_proj(self._attend_in_search(hidden_states, attention_masks, cache)), None
        source = hidden_states if self.place != "cross" else encoder_hidden_states
        query = self._rows(self.q_proj(hidden_states))
        key, value = self._rows(self.k_proj(source)), self._rows(self.v_proj(source))
        plan, relative = attention_masks["window"], self.relative_term(query)
        output, weights = attend_rows(self, query, key, value, plan, len(hidden_states), relative)
        return self.out_proj(output.flatten(1).view_as(hidden_states)), weights

    def _attend_in_search(
        self, hidden_states: torch.Tensor, attention_masks: dict[str, Any], cache: SearchCache
    ) -> torch.Tensor:
        query, stretches = heads_in_search(self, hidden_states, cache)
        masks = attention_masks["window"]
        if self.relative_keys is not None:
            by_distance = self._distance_logits(query, self.relative_keys)  # (n, H, G, T, R)
            rows = [
                (distances + self.zero_row).clamp(0, by_distance.shape[-1] - 1)[:, None]
                for distances in attention_masks["distances"]
            ]
            terms = [by_distance.gather(-1, row.expand(*by_distance.shape[:-1], -1)) for row in rows]
            masks = [term if mask is None else term + mask for term, mask in zip(terms, masks, strict=True)]
        return join_heads(attend_stretches(query, stretches, masks, self.scaling))

    def _distance_logits(self, query: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """What each distance adds to the logits of queries `(n, H, G, T, D)`: `(n, H, G, T, R)`."""
        if self.config.relative_heads == "scalar":
            return table[..., 0].T[None, :, None, None].expand(*query.shape[:-1], -1)
        query = query * self.scaling
        if self.config.relative_heads == "shared":
            return query @ table.T
        # one product a head: broadcasting would copy the table for every sequence
        n, H, G, T, D = query.shape
        rows = query.transpose(0, 1).reshape(H, n * G * T, D) @ table.permute(1, 2, 0)
        return rows.unflatten(1, (n, G, T)).transpose(0, 1)

    def relative_term(self, query: torch.Tensor) -> RelativeTerm | None:
        """r for the queries of a flat row, `(rows, H, D)`."""
        if self.relative_keys is None:
            return None
        if self.config.relative_heads == "scalar":
            # a bias meets no query and is not scaled: it is the first component of a vector that meets a constant one
            constant = torch.zeros_like(query)
            constant[..., 0] = 1 / self.scaling
            table = nn.functional.pad(self.relative_keys, (0, self.head_dim - 1))
            return RelativeTerm(table, self.zero_row, query=constant)
        return RelativeTerm(self.relative_keys, self.zero_row)


def attend_rows(
    attention: AttentionHeads,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: IntervalPlan,
    batch_size: int,
    relative: RelativeTerm | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    Interval attention of a flat row on the backend of the model.

    Args:
        attention (`AttentionHeads`): Whose heads they are.
        query, key, value (`torch.Tensor` of shape `(rows, H, D)`): Flat rows.
        plan (`IntervalPlan`): Who sees whom.
        batch_size (`int`): Sequences of equal width in the row; 1 for a packed row.
        relative (`RelativeTerm`, *optional*): Term of the distances.

    Returns:
        `tuple`: states `(rows, H, D)`, and on eager the weights `(B, H, T, K)`.
    """
    dropout = attention.dropout if attention.training else 0.0
    backend = attention.config._attn_implementation
    if backend == "flex_attention" and query.is_cuda and dropout == 0:
        return flex_interval_attention(query, key, value, plan, attention.scaling, relative=relative), None
    if backend != "eager":
        return (
            interval_attention(query, key, value, plan, attention.scaling, relative=relative, dropout=dropout),
            None,
        )
    weights = interval_attention_weights(query, key, plan, attention.scaling, relative)  # (H, rows, keys)
    dropped = nn.functional.dropout(weights, dropout)
    output = torch.einsum("hij,jhd->ihd", dropped.to(value.dtype), value)
    # sequences do not see each other: the blocks of the diagonal are all there is
    blocks = weights.unflatten(2, (batch_size, -1)).unflatten(1, (batch_size, -1))  # (H, B, T, B, K)
    return output, blocks.diagonal(dim1=1, dim2=3).permute(3, 0, 1, 2)
