"""Dense attention: every query sees all keys of its document, as in the Transformer of Vaswani et al. (2017)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .attention_decoding import attend_stretches
from .cache_docmt import SearchCache
from .configuration_docmt import DocMTConfig


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


class DenseAttention(nn.Module):
    """
    Multi-head softmax attention over all visible keys, for self- and cross-attention.

    `softmax(Q K^T / sqrt(head_dim) + M) V` per head, on any backend of Transformers (eager, SDPA, flex attention).

    Source: Vaswani et al. (2017), section 3.2. Parameter names are Marian's.

    Cost: O(T K) time; memory O(T K) on eager, O(T + K) on SDPA.

    Args:
        config (`DocMTConfig`): The model.
        num_heads (`int`): H.
        layer_idx (`int`): Index of the layer in its stack.
        place (`str`): `"encoder"`, `"decoder"` (causal) or `"cross"`.
    """

    # masks that the class reads, keys of `masking_docmt.MASK_BUILDERS`
    mask_names = ("dense",)

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.place = place
        self.is_causal = place == "decoder"  # SDPA reads it where there is no mask
        self.head_dim = config.d_model // num_heads
        self.scaling = self.head_dim**-0.5
        self.dropout = config.attention_dropout
        self.q_proj = nn.Linear(config.d_model, config.d_model)
        self.k_proj = nn.Linear(config.d_model, config.d_model)
        self.v_proj = nn.Linear(config.d_model, config.d_model)
        self.out_proj = nn.Linear(config.d_model, config.d_model)

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
            return self._attend_in_search(hidden_states, attention_masks, cache), None
        query = self._split_heads(self.q_proj(hidden_states))
        key, value = self._keys_and_values(hidden_states, encoder_hidden_states, cache)
        attend: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        attn_output, attn_weights = attend(
            self,
            query,
            key,
            value,
            attention_masks["dense"],
            scaling=self.scaling,
            dropout=self.dropout if self.training else 0.0,
            **kwargs,
        )
        return self.out_proj(attn_output.flatten(2)), attn_weights

    def project_source(self, encoder_hidden_states: torch.Tensor) -> torch.Tensor:
        """Keys and values of source states `(B, S, d_model)`, stacked: `(2, B, H, S, D)`."""
        return torch.stack(self._project(encoder_hidden_states))

    def _attend_in_search(
        self, hidden_states: torch.Tensor, attention_masks: dict[str, Any], cache: SearchCache
    ) -> torch.Tensor:
        def split(states: torch.Tensor) -> torch.Tensor:
            # rows are sequences times beams: (n, H, G, T, D)
            return states.view(cache.num_sequences, cache.num_beams, states.shape[1], -1, self.head_dim).permute(
                0, 3, 1, 2, 4
            )

        query = split(self.q_proj(hidden_states))
        if self.place == "cross":
            stretches = cache.source(self.layer_idx)
        else:
            key, value = (split(self.k_proj(hidden_states)), split(self.v_proj(hidden_states)))
            stretches = cache.update(self.layer_idx, key, value)
        output = attend_stretches(query, stretches, attention_masks["dense"], self.scaling)
        return self.out_proj(output.permute(0, 2, 3, 1, 4).reshape(hidden_states.shape))

    def _split_heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H, L, D)

    def _keys_and_values(self, hidden_states, encoder_hidden_states, cache) -> tuple[torch.Tensor, torch.Tensor]:
        if self.place != "cross":
            key, value = self._project(hidden_states)
            return (key, value) if cache is None else cache.self_attention_cache.update(key, value, self.layer_idx)
        if cache is None:
            return self._project(encoder_hidden_states)
        if cache.is_updated.get(self.layer_idx):
            layer = cache.cross_attention_cache.layers[self.layer_idx]
            return layer.keys, layer.values
        key, value = self._project(encoder_hidden_states)
        cache.is_updated[self.layer_idx] = True
        return cache.cross_attention_cache.update(key, value, self.layer_idx)

    def _project(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._split_heads(self.k_proj(states)), self._split_heads(self.v_proj(states))
