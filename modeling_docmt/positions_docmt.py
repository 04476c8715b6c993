"""Position information: sinusoids, computed for any position, so that no table bounds the length of a document."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class PositionVectors:
    """
    Sinusoids for position-aware attention, broadcast to the states that they are added to.

    Args:
        query (`torch.Tensor` of shape `(B or 1, T, d_model)`): Those of the queries.
        key (`torch.Tensor` of shape `(B or 1, K, d_model)`, *optional*): Those of keys that the pass computes.
    """

    query: torch.Tensor
    key: torch.Tensor | None


class RelativeTable(nn.Module):
    """
    Learned vectors of the distances -R..R of query and key, one row each; row R is distance 0.

    Args:
        largest (`int`): R.
        head_dim (`int`): Size of a vector.

    Source: Li et al. (P-Transformer), on relative positions: one table for all heads and layers.
    """

    def __init__(self, largest: int, head_dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * largest + 1, head_dim))


def sinusoids(position_ids: torch.LongTensor, d_model: int, dtype: torch.dtype) -> torch.Tensor:
    """
    Sinusoidal position vectors, `[sin(p w_t)]_t ++ [cos(p w_t)]_t` with `w_t = 10000^(-2t / d_model)`.

    Args:
        position_ids (`torch.LongTensor` of shape `(..., L)`): Positions from 0.
        d_model (`int`): Size, even.
        dtype (`torch.dtype`): Type of the result.

    Returns:
        `torch.Tensor` of shape `(..., L, d_model)`.

    Source: Vaswani et al. (2017), section 3.5, in the halves layout of Marian.
    """
    # in float32 the angle of position 10,000 would be off by 1e-3; MPS has no float64
    precise = torch.float32 if position_ids.device.type == "mps" else torch.float64
    exponents = torch.arange(0, d_model, 2, device=position_ids.device, dtype=precise) / d_model
    angles = position_ids[..., None].to(precise) * torch.pow(10000.0, -exponents)
    return torch.cat((angles.sin(), angles.cos()), dim=-1).to(dtype)
