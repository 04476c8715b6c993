"""What all kinds of attention share: the projections to heads and back."""

import torch
from torch import nn

from .configuration_docmt import DocMTConfig


class AttentionHeads(nn.Module):
    """
    Projections of multi-head attention; a kind of attention adds `forward`. Parameter names are Marian's.

    Args:
        config (`DocMTConfig`): The model.
        num_heads (`int`): H.
        layer_idx (`int`): Index of the layer in its stack.
        place (`str`): `"encoder"`, `"decoder"` (causal) or `"cross"`.
        num_branches (`int`, *optional*, defaults to 1): Results of `d_model` columns that the output projection joins.
    """

    # masks that the class reads, keys of `masking_docmt.MASK_BUILDERS`
    mask_names: tuple[str, ...] = ()

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str, num_branches: int = 1):
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
        self.out_proj = nn.Linear(num_branches * config.d_model, config.d_model)

    def project_source(self, encoder_hidden_states: torch.Tensor) -> torch.Tensor:
        """Keys and values of source states `(B, S, d_model)`, stacked: `(2, B, H, S, D)`."""
        return torch.stack(self._project(encoder_hidden_states))

    def _project(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._split_heads(self.k_proj(states)), self._split_heads(self.v_proj(states))

    def _split_heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, H, L, D)

    def _rows(self, states: torch.Tensor) -> torch.Tensor:
        """States `(B, L, d_model)` as the heads of one flat row, `(B * L, H, D)`."""
        return states.flatten(0, 1).unflatten(-1, (-1, self.head_dim))
