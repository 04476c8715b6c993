"""What all kinds of attention share: the projections to heads and back."""

from typing import Any

import torch
from torch import nn

from .configuration_docmt import DocMTConfig


class HeadProjections(nn.Module):
    """
    Projections of multi-head attention. Parameter names are Marian's.

    Position-aware queries and keys, but not values, are made of states plus sinusoids of their positions: `Q = (H + P)
    W_q`, `K = (H + P) W_k`, `V = H W_v`.

    Source: Vaswani et al. (2017), section 3.2; Li et al. (P-Transformer), on position-aware attention.

    Args:
        config (`DocMTConfig`): The model.
        num_heads (`int`): H.
        layer_idx (`int`): Index of the layer in its stack, or a further one for a second set of keys, see `key_sets`.
        place (`str`): `"encoder"`, `"decoder"` (causal) or `"cross"`.
        num_branches (`int`, *optional*, defaults to 1): Results of `d_model` columns that the output projection joins.
    """

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str, num_branches: int = 1):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.place = place
        self.is_causal = place == "decoder"  # SDPA reads it where there is no mask
        self.is_position_aware = getattr(config, f"position_aware_{place}")
        self.head_dim = config.d_model // num_heads
        self.scaling = self.head_dim**-0.5
        self.dropout = config.attention_dropout
        has_bias = place == "encoder" or config.decoder_attention_bias
        self.q_proj = nn.Linear(config.d_model, config.d_model, bias=has_bias)
        self.k_proj = nn.Linear(config.d_model, config.d_model, bias=has_bias)
        self.v_proj = nn.Linear(config.d_model, config.d_model, bias=has_bias)
        self.out_proj = nn.Linear(num_branches * config.d_model, config.d_model, bias=has_bias)

    def project_queries(self, states: torch.Tensor, attention_masks: dict[str, Any]) -> torch.Tensor:
        """Queries `(B, T, d_model)` of states of the same shape."""
        if self.is_position_aware:
            states = states + attention_masks["positions"].query
        return self.q_proj(states)

    def project_keys(self, states: torch.Tensor, positions: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values `(B, K, d_model)` of states of the same shape; `positions` are their sinusoids."""
        if not self.is_position_aware:
            return self.k_proj(states), self.v_proj(states)
        if positions is None:
            raise ValueError("Position-aware attention needs the positions of its keys, got None.")
        return self.k_proj(states + positions), self.v_proj(states)

    def project_source(self, encoder_hidden_states: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """Keys and values of source states `(B, S, d_model)`, stacked: `(2, B, H, S, D)`."""
        return torch.stack([self.split_heads(part) for part in self.project_keys(encoder_hidden_states, positions)])

    def split_heads(self, states: torch.Tensor) -> torch.Tensor:
        """States `(B, L, d_model)` as heads `(B, H, L, D)`."""
        return states.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def split_rows(self, states: torch.Tensor) -> torch.Tensor:
        """States `(B, L, d_model)` as the heads of one flat row, `(B * L, H, D)`."""
        return states.flatten(0, 1).unflatten(-1, (-1, self.head_dim))

    def rows(
        self,
        hidden_states: torch.Tensor,
        attention_masks: dict[str, Any],
        encoder_hidden_states: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values as flat rows; the keys are of the source states in cross-attention."""
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        key, value = self.project_keys(source, key_positions(attention_masks))
        query = self.project_queries(hidden_states, attention_masks)
        return self.split_rows(query), self.split_rows(key), self.split_rows(value)


class AttentionHeads(HeadProjections):
    """Base of all kinds of attention; a kind adds `forward`. Arguments as in [`HeadProjections`]."""

    # masks that the class reads, keys of `masking_docmt.MASK_BUILDERS`
    mask_names: tuple[str, ...] = ()

    @property
    def key_sets(self) -> list[HeadProjections]:
        """Projections whose keys and values are cached, each under its own `layer_idx`."""
        return [self]


def key_positions(attention_masks: dict[str, Any]) -> torch.Tensor | None:
    """Sinusoids of the keys that a pass computes, `None` where no attention is position-aware."""
    positions = attention_masks.get("positions")
    return None if positions is None else positions.key
