"""Attention within intervals: one class for all rules by which a query sees a run of neighbouring keys."""

from typing import Any

import torch
from torch import nn

from .attention_decoding import add_distances, attend_stretches, heads_in_search, join_heads
from .attention_heads import AttentionHeads, HeadProjections
from .attention_interval import (
    RelativeTerm,
    flex_interval_attention,
    interval_attention,
    interval_attention_weights,
)
from .cache_docmt import SearchCache
from .configuration_docmt import DocMTConfig
from .interval_plan_docmt import IntervalPlan


class BoundedAttention(AttentionHeads):
    """
    Softmax attention over the keys that a rule of intervals shows, for self- and cross-attention.

    With `config.relative_distances`, self-attention adds `q_i . r_{i-j} / sqrt(head_dim)` to the logits, where r is
    the one table of the model; it comes with the masks, under `"relative_table"`.

    Source: Li et al. (P-Transformer), on relative positions, for the shared table.

    Cost: the pairs that see each other, in time; O(T) memory.

    Args: as in [`AttentionHeads`].
    """

    # a subclass names its rule, one of `masking_docmt.INTERVAL_RULES`
    rule = "document"

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str):
        super().__init__(config, num_heads, layer_idx, place)
        self.mask_names = (self.rule,)
        self.has_shared_table = config.relative_distances is not None and place != "cross"

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
        query, key, value = self.rows(hidden_states, attention_masks, encoder_hidden_states)
        plan, relative = attention_masks[self.rule], self.relative_term(query, attention_masks)
        output, weights = attend_rows(self, query, key, value, plan, len(hidden_states), relative)
        return self.out_proj(output.flatten(1).view_as(hidden_states)), weights

    def relative_term(self, query: torch.Tensor, attention_masks: dict[str, Any]) -> RelativeTerm | None:
        """r for the queries of a flat row, `(rows, H, D)`."""
        if not self.has_shared_table:
            return None
        return RelativeTerm(attention_masks["relative_table"], self.config.largest_distance, clamp=True)

    def distance_logits(self, query: torch.Tensor, attention_masks: dict[str, Any]) -> tuple[torch.Tensor, int] | None:
        """What each distance adds to logits of queries `(n, H, G, T, D)`, `(n, H, G, T, R)`; column of distance 0."""
        if not self.has_shared_table:
            return None
        # in decoding no key is behind its query
        table = attention_masks["relative_table"][self.config.largest_distance :]
        return (query * self.scaling) @ table.T, 0

    def _attend_in_search(
        self, hidden_states: torch.Tensor, attention_masks: dict[str, Any], cache: SearchCache
    ) -> torch.Tensor:
        query, stretches = heads_in_search(self, hidden_states, attention_masks, cache)
        masks, by_distance = attention_masks[self.rule], self.distance_logits(query, attention_masks)
        if by_distance is not None:
            masks = add_distances(masks, *by_distance, attention_masks["distances"])
        return join_heads(attend_stretches(query, stretches, masks, self.scaling))


class DocumentAttention(BoundedAttention):
    """Attention to all tokens of the document as an interval: dense attention with relative positions, or packed."""

    rule = "document"


def attend_rows(
    attention: HeadProjections,
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
        attention (`HeadProjections`): Whose heads they are.
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
