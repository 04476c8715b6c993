"""Attention to the own sentence, or to the source sentence of the same number; gated with the whole sequence."""

from typing import Any

import torch

from .attention_bounded import BoundedAttention, attend_rows
from .attention_decoding import attend_stretches, heads_in_search, join_heads
from .attention_heads import AttentionHeads, HeadProjections
from .attention_segment import GateProjection
from .cache_docmt import SearchCache
from .configuration_docmt import DocMTConfig


class SentenceAttention(BoundedAttention):
    """
    Softmax attention over the keys of one sentence: that of the query, or the source sentence of the same number.

    Source: Bao et al. (2021), on group attention; Zheng et al. (2020), on the local encoder.

    Cost: the sum of the squares of the sentence lengths in time; O(T) memory.

    Args: as in [`AttentionHeads`].
    """

    rule = "sentence"


class LocalGateProjection(GateProjection):
    """Logits of the gate of `GatedSentenceAttention`."""

    global_sign = -1


class GatedSentenceAttention(AttentionHeads):
    """
    Sentence attention, mixed by a gate with a second attention to the whole sequence that has its own projections.

    `g * local + (1 - g) * global` with `g = sigmoid(W_g [local ; global] + b_g)`, element by element.

    Source: Bao et al. (2021), on combined attention.

    Cost: O(T K) time for the global part; O(T) memory.

    Args: as in [`AttentionHeads`].
    """

    mask_names = ("sentence", "document")

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str):
        super().__init__(config, num_heads, layer_idx, place)
        stack_layers = config.encoder_layers if place == "encoder" else config.decoder_layers
        # keys and values of the global part are cached behind those of all layers
        index = layer_idx + min(config.global_layers, stack_layers)
        self.global_heads = HeadProjections(config, num_heads, index, place)
        self.gate = LocalGateProjection(2 * config.d_model, config.d_model)

    @property
    def key_sets(self) -> list[HeadProjections]:
        return [self, self.global_heads]

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
            `tuple`: states of the shape of `hidden_states`, and on eager the weights of the local heads and then the
            global ones, `(B, 2 H, T, K)`.
        """
        results, weights = [], []
        for heads, rule in ((self, "sentence"), (self.global_heads, "document")):
            if isinstance(cache, SearchCache):
                query, stretches = heads_in_search(heads, hidden_states, attention_masks, cache)
                output = join_heads(attend_stretches(query, stretches, attention_masks[rule], heads.scaling))
            else:
                rows = heads.rows(hidden_states, attention_masks, encoder_hidden_states)
                output, view = attend_rows(heads, *rows, attention_masks[rule], len(hidden_states))
                output = output.flatten(1).view_as(hidden_states)
                weights += [] if view is None else [view]
            results.append(heads.out_proj(output))
        near, far = results
        share = torch.sigmoid(self.gate(torch.cat((near, far), dim=-1)))
        return torch.lerp(far, near, share), torch.cat(weights, dim=1) if weights else None
