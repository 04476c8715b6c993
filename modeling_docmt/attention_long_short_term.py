"""Long-short term masking attention (LST): the own sentence alone, beside all sentences."""

from typing import Any

import torch

from .attention_bounded import attend_rows
from .attention_decoding import attend_stretches, heads_in_search, join_heads
from .attention_dense import attend_dense
from .attention_heads import AttentionHeads
from .cache_docmt import SearchCache
from .configuration_docmt import DocMTConfig


class LongShortTermAttention(AttentionHeads):
    """
    Self-attention with two views of one document, which share queries, keys and values.

    `[C_sent ; C_full] W_c` with `lst_mode="shared"`, where C_sent sees the query's own sentence and C_full all; with
    `"heads"`, the first half of the heads is restricted and the rest is not.

    Source: Zhang et al. (2020), as in Herold and Ney (2023), section 3.2; that the views share their projections
    follows from the paper's parameter counts.

    Cost: O(T K) time for the full view; the restricted one, the sum of the squares of the sentence lengths.

    Args: as in [`AttentionHeads`].
    """

    mask_names = ("dense", "sentence")

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str):
        is_shared = config.lst_mode == "shared"
        super().__init__(config, num_heads, layer_idx, place, num_branches=2 if is_shared else 1)
        # heads of each view
        self.restricted = slice(None) if is_shared else slice(0, num_heads // 2)
        self.full = slice(None) if is_shared else slice(num_heads // 2, None)
        self.register_load_state_dict_pre_hook(_widen_dense_output)

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
            hidden_states (`torch.Tensor` of shape `(B, T, d_model)`): States.
            attention_masks (`dict`): Masks by name, see `build_attention_masks`.
            encoder_hidden_states: Not used: LST is for self-attention.
            cache (`SearchCache`, *optional*): Keys and values of document decoding.

        Returns:
            `tuple`: states `(B, T, d_model)`, and on eager the weights of the restricted heads and then the full ones,
            `(B, heads, T, T)`.
        """
        if isinstance(cache, SearchCache):
            return self.out_proj(self._attend_in_search(hidden_states, attention_masks, cache)), None
        batch_size, length, _ = hidden_states.shape
        rows = self.rows(hidden_states, attention_masks)
        query, key, value = (states[:, self.restricted] for states in rows)
        near, near_weights = attend_rows(self, query, key, value, attention_masks["sentence"], batch_size)
        query, key, value = (
            states[:, self.full].unflatten(0, (batch_size, length)).transpose(1, 2) for states in rows
        )
        far, far_weights = attend_dense(self, query, key, value, attention_masks["dense"], **kwargs)
        views = (near.flatten(1).unflatten(0, (batch_size, length)), far.flatten(2))
        weights = None
        if near_weights is not None and far_weights is not None:
            weights = torch.cat((near_weights, far_weights), dim=1)
        return self.out_proj(torch.cat(views, dim=-1)), weights

    def _attend_in_search(
        self, hidden_states: torch.Tensor, attention_masks: dict[str, Any], cache: SearchCache
    ) -> torch.Tensor:
        query, stretches = heads_in_search(self, hidden_states, attention_masks, cache)
        views = []
        for heads, name in ((self.restricted, "sentence"), (self.full, "dense")):
            seen = [(key[:, heads], value[:, heads]) for key, value in stretches]
            views.append(join_heads(attend_stretches(query[:, heads], seen, attention_masks[name], self.scaling)))
        return torch.cat(views, dim=-1)


def _widen_dense_output(attention: LongShortTermAttention, state_dict: dict[str, Any], prefix: str, *args) -> None:
    """
    Take weights of dense attention as `[0, W_o]`, that is, as a model that does not look at the restricted view yet.

    The dense model and this one then give the same result, and training adds the other view.
    """
    name = f"{prefix}out_proj.weight"
    wanted = attention.out_proj.weight.shape
    weight = state_dict.get(name)
    if weight is not None and weight.shape != wanted and weight.shape == (wanted[0], wanted[1] // 2):
        state_dict[name] = torch.cat((torch.zeros_like(weight), weight), dim=1)
