"""Attention over all words of a document with relative positions of sentences, and the gate that mixes it in."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .attention_bounded import attend_rows
from .attention_heads import AttentionHeads
from .configuration_docmt import DocMTConfig


@dataclass
class SentenceNumbers:
    """
    Which sentence each token of a flat row belongs to.

    Args:
        ids (`torch.LongTensor` of shape `(rows,)`): Number of the sentence in its document, from 0.
        count (`int`): Largest number of sentences in a document, N.
        is_single (`torch.BoolTensor` of shape `(rows,)`): Whether the document has one sentence.
    """

    ids: torch.LongTensor
    count: int
    is_single: torch.BoolTensor


class SegmentAttention(AttentionHeads):
    """
    Self-attention over all words of a document, with relative positions of sentences in keys and values.

    For a query in sentence k and a key in sentence m, `logit = q . (key + gamma^K_{k-m}) / sqrt(head_dim)`, and the
    output is the mean of `value + gamma^V_{k-m}`. The heads share both tables.

    Since N sentences are few, a key is widened by a one-hot vector of its sentence and a query by its products with
    gamma^K, one a sentence; a value widened likewise gives the share of each sentence, which gamma^V multiplies. So it
    is plain attention with heads of `head_dim + N` columns.

    Source: Zheng et al. (2020), on segment-level relative attention.

    Cost: O(L^2) time a document; O(L) memory.

    Args: as in [`AttentionHeads`].
    """

    mask_names = ("document",)

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str):
        super().__init__(config, num_heads, layer_idx, place)
        distances = 2 * config.max_segment_distance + 1
        self.segment_keys = nn.Parameter(torch.empty(distances, self.head_dim))
        self.segment_values = nn.Parameter(torch.empty(distances, self.head_dim))

    def forward(
        self, hidden_states: torch.Tensor, attention_masks: dict[str, Any], **kwargs
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states (`torch.Tensor` of shape `(B, S, d_model)`): States, or those of a packed row.
            attention_masks (`dict`): Masks by name, and `SentenceNumbers` under `"sentence_numbers"`.

        Returns:
            `tuple`: states of the shape of `hidden_states`, and on eager weights `(B, H, S, S)`.
        """
        numbers: SentenceNumbers = attention_masks["sentence_numbers"]
        query, key, value = self.rows(hidden_states, attention_masks)  # (rows, H, D)
        rows, heads, dim = query.shape
        sentences = torch.arange(numbers.count, device=query.device)
        most = self.config.max_segment_distance
        columns = (numbers.ids[:, None] - sentences).clamp(-most, most) + most  # (rows, N)
        columns = columns[:, None].expand(-1, heads, -1)
        products = (query @ self.segment_keys.to(query.dtype).T).gather(2, columns)
        one_hot = (numbers.ids[:, None] == sentences).to(key.dtype)[:, None].expand(-1, heads, -1)
        output, weights = attend_rows(
            self,
            torch.cat((query, products), dim=-1),
            torch.cat((key, one_hot), dim=-1),
            torch.cat((value, one_hot.to(value.dtype)), dim=-1),
            attention_masks["document"],
            len(hidden_states),
        )
        output, shares = output.split((dim, numbers.count), dim=-1)
        by_distance = shares.new_zeros(rows, heads, 2 * most + 1).scatter_add(2, columns, shares)
        output = output + by_distance @ self.segment_values.to(shares.dtype)
        return self.out_proj(output.flatten(1).view_as(hidden_states)), weights


class GateProjection(nn.Linear):
    """
    Logits of a gate between local and global states.

    A class of its own, since its biases start by `config.global_gate_bias`, the logit of the global share at first.
    """

    # -1 where the gate is the share of the local states
    global_sign = 1


class GatedFusion(nn.Module):
    """
    `(1 - g) * local + g * global` with `g = sigmoid(W_g [local ; global] + b_g)`, element by element.

    Source: Zheng et al. (2020), on context gating.
    """

    def __init__(self, d_model: int):
        super().__init__()
        self.gate = GateProjection(2 * d_model, d_model)

    def forward(self, local_states: torch.Tensor, global_states: torch.Tensor) -> torch.Tensor:
        """Two tensors of one shape `(..., d_model)` to a third."""
        share = torch.sigmoid(self.gate(torch.cat((local_states, global_states), dim=-1)))
        # under autocast products are less precise than the residual stream
        dtype = local_states.dtype
        return torch.lerp(local_states, global_states.to(dtype), share.to(dtype))
