"""Dense attention: every query sees all keys of its document, as in the Transformer of Vaswani et al. (2017)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .attention_decoding import attend_stretches, heads_in_search, join_heads
from .attention_heads import AttentionHeads, HeadProjections, key_positions
from .cache_docmt import SearchCache


def eager_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Plain softmax attention, `(B, H, T, D)` and `(B, H, K, D)` to `(B, T, H, D)` and the weights `(B, H, T, K)`."""
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling  # (B, H, T, K)
    if attention_mask is not None:
        scores = scores + attention_mask
    attn_weights = nn.functional.softmax(scores, dim=-1)
    attn_weights = nn.functional.dropout(attn_weights, p=dropout, training=module.training)
    return torch.matmul(attn_weights, value).transpose(1, 2).contiguous(), attn_weights


class DenseAttention(AttentionHeads):
    """
    Multi-head softmax attention over all visible keys, for self- and cross-attention.

    `softmax(Q K^T / sqrt(head_dim) + M) V` per head, on any backend of Transformers (eager, SDPA, flex attention).

    Source: Vaswani et al. (2017), section 3.2.

    Cost: O(T K) time; memory O(T K) on eager, O(T + K) on SDPA.

    Args: as in [`AttentionHeads`].
    """

    mask_names = ("dense",)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_masks: dict[str, Any],
        encoder_hidden_states: torch.Tensor | None = None,
        cache: EncoderDecoderCache | SearchCache | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states (`torch.Tensor` of shape `(B, T, d_model)`): States of the queries.
            attention_masks (`dict`): Masks by name, see `build_attention_masks`.
            encoder_hidden_states (`torch.Tensor` of shape `(B, S, d_model)`, *optional*):
                States of the keys in cross-attention.
            cache (`EncoderDecoderCache` or `SearchCache`, *optional*):
                Keys and values of earlier steps, extended in place.

        Returns:
            `tuple`: states of shape `(B, T, d_model)`, and weights `(B, H, T, K)` where the backend returns them.
        """
        if isinstance(cache, SearchCache):
            query, stretches = heads_in_search(self, hidden_states, attention_masks, cache)
            output = attend_stretches(query, stretches, attention_masks["dense"], self.scaling)
            return self.out_proj(join_heads(output)), None
        query = self.split_heads(self.project_queries(hidden_states, attention_masks))
        positions = key_positions(attention_masks)
        key, value = self._keys_and_values(hidden_states, positions, encoder_hidden_states, cache)
        attn_output, attn_weights = attend_dense(self, query, key, value, attention_masks["dense"], **kwargs)
        return self.out_proj(attn_output.flatten(2)), attn_weights

    def _keys_and_values(
        self, hidden_states, positions, encoder_hidden_states, cache
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.place != "cross":
            key, value = self._project(hidden_states, positions)
            return (key, value) if cache is None else cache.self_attention_cache.update(key, value, self.layer_idx)
        if cache is None:
            return self._project(encoder_hidden_states, positions)
        if cache.is_updated.get(self.layer_idx):
            layer = cache.cross_attention_cache.layers[self.layer_idx]
            return layer.keys, layer.values
        key, value = self._project(encoder_hidden_states, positions)
        cache.is_updated[self.layer_idx] = True
        return cache.cross_attention_cache.update(key, value, self.layer_idx)

    def _project(self, states: torch.Tensor, positions: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        key, value = self.project_keys(states, positions)
        return self.split_heads(key), self.split_heads(value)


def attend_dense(
    attention: HeadProjections, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **kwargs
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    Dense attention on the backend of the model.

    Args:
        attention (`HeadProjections`): Whose heads they are.
        query (`torch.Tensor` of shape `(B, H, T, D)`), key, value (`torch.Tensor` of shape `(B, H, K, D)`): Heads.
        mask: In the format of the backend.

    Returns:
        `tuple`: states `(B, T, H, D)`, and weights `(B, H, T, K)` where the backend returns them.
    """
    attend: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
        attention.config._attn_implementation, eager_attention_forward
    )
    dropout = attention.dropout if attention.training else 0.0
    return attend(attention, query, key, value, mask, scaling=attention.scaling, dropout=dropout, **kwargs)
