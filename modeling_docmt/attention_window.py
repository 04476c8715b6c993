"""Window attention: a query sees the keys around itself, or around the source position it is aligned with."""

from typing import Any

import torch
from torch import nn

from .attention_bounded import BoundedAttention
from .attention_interval import RelativeTerm
from .configuration_docmt import DocMTConfig


class WindowAttention(BoundedAttention):
    """
    Softmax attention over the keys at most w positions away from b_i, for self- and cross-attention.

    `logit_ij = q_i . (k_j + r_{i-j}) / sqrt(head_dim)` for |j - b_i| <= w. In self-attention b_i = i, and r is learned
    with `position_encoding="relative"`; in cross-attention b_i is the aligned source position, and r_{b_i-j} is there
    with `relative_cross=True` alone.

    Source: Herold and Ney (2023), on the window attention; r on the side of the keys alone, as in Shaw et al. (2018).

    Cost: O(T w) time, O(T) memory.

    Args: as in [`AttentionHeads`].
    """

    rule = "window"

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str):
        super().__init__(config, num_heads, layer_idx, place)
        # row of distance 0 is the first in the decoder, where keys are never behind the query
        self.zero_row = 0 if place == "decoder" else config.window
        self.relative_keys: nn.Parameter | None = None
        if config.position_encoding == "relative" and (place != "cross" or config.relative_cross):
            sizes = {"separate": (num_heads, self.head_dim), "shared": (self.head_dim,), "scalar": (num_heads, 1)}
            rows = self.zero_row + config.window + 1
            self.relative_keys = nn.Parameter(torch.empty(rows, *sizes[config.relative_heads]))

    def relative_term(self, query: torch.Tensor, attention_masks: dict[str, Any]) -> RelativeTerm | None:
        """r for the queries of a flat row, `(rows, H, D)`."""
        if self.relative_keys is None:
            return super().relative_term(query, attention_masks)
        if self.config.relative_heads == "scalar":
            # a bias meets no query and is not scaled: it is the first component of a vector that meets a constant one
            constant = torch.zeros_like(query)
            constant[..., 0] = 1 / self.scaling
            table = nn.functional.pad(self.relative_keys, (0, self.head_dim - 1))
            return RelativeTerm(table, self.zero_row, query=constant)
        return RelativeTerm(self.relative_keys, self.zero_row)

    def distance_logits(self, query: torch.Tensor, attention_masks: dict[str, Any]) -> tuple[torch.Tensor, int] | None:
        """What each distance adds to logits of queries `(n, H, G, T, D)`, `(n, H, G, T, R)`; column of distance 0."""
        if self.relative_keys is None:
            return super().distance_logits(query, attention_masks)
        return self._own_logits(query, self.relative_keys), self.zero_row

    def _own_logits(self, query: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        if self.config.relative_heads == "scalar":
            return table[..., 0].T[None, :, None, None].expand(*query.shape[:-1], -1)
        query = query * self.scaling
        if self.config.relative_heads == "shared":
            return query @ table.T
        # one product a head: broadcasting would copy the table for every sequence
        n, H, G, T, D = query.shape
        rows = query.transpose(0, 1).reshape(H, n * G * T, D) @ table.permute(1, 2, 0)
        return rows.unflatten(1, (n, G, T)).transpose(0, 1)
