"""Attention to the own sentence and those before it, whose states get no gradient: Transformer-XL by sentences."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from .attention_bounded import attend_rows
from .attention_decoding import add_distances, attend_stretches, heads_in_search, join_heads
from .attention_heads import AttentionHeads
from .attention_interval import RelativeTerm
from .cache_docmt import SearchCache
from .configuration_docmt import DocMTConfig
from .interval_plan_docmt import IntervalPlan
from .positions_docmt import sinusoids


@dataclass
class RecurrentPlan:
    """
    Who sees whom where each sentence has keys of its own: those of its memory, then those of the sentence.

    Args:
        plan (`IntervalPlan`): Queries of the flat row against K keys in this order.
        index (`torch.LongTensor` of shape `(K,)`): Row of each key.
        is_memory (`torch.BoolTensor` of shape `(K,)`): Whether the key is one of a memory.
    """

    plan: IntervalPlan
    index: torch.LongTensor
    is_memory: torch.BoolTensor


@dataclass
class RecurrentTerms:
    """
    What all layers share.

    Args:
        content_bias, distance_bias (`torch.Tensor` of shape `(H, D)`): u and v.
        distances (`torch.Tensor` of shape `(R, d_model)`, *optional*): Sinusoids of the distances 0, 1, ..., dropped
            out in training; `None` in decoding.
    """

    content_bias: torch.Tensor
    distance_bias: torch.Tensor
    distances: torch.Tensor | None = None


class RecurrentAttention(AttentionHeads):
    """
    Causal self-attention to the own sentence and to the `memory_sentences` before it.

    `logit = ((q + u) . k + (q + v) . W_r P(distance)) / sqrt(head_dim)`. No gradient flows into the states of the
    memory, but the projections of its keys and values, and a norm before them, learn from it: they are made from the
    states for the own sentence, and once more from the same states held fixed. So all sentences of a document are one
    parallel pass, with the loss and the gradients of going from sentence to sentence.

    Source: Dai et al. (2019), on relative positions; Zheng et al. (2020), on the decoder.

    Cost: O(T s) time for sentences of s tokens; O(T) memory.

    Args: as in [`AttentionHeads`].
    """

    mask_names = ("recurrent",)

    def __init__(self, config: DocMTConfig, num_heads: int, layer_idx: int, place: str):
        super().__init__(config, num_heads, layer_idx, place)
        self.distance_proj = nn.Linear(config.d_model, config.d_model, bias=False)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_masks: dict[str, Any],
        encoder_hidden_states: torch.Tensor | None = None,
        cache: SearchCache | None = None,
        memory_states: torch.Tensor | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states (`torch.Tensor` of shape `(B, T, d_model)`): States, or those of a packed row.
            attention_masks (`dict`):
                A `RecurrentPlan` under `"recurrent"` (in document decoding, masks), and `RecurrentTerms` under
                `"recurrent_terms"`.
            encoder_hidden_states: Not used: it is self-attention.
            cache (`SearchCache`, *optional*): Keys and values of document decoding.
            memory_states (`torch.Tensor` of shape `(B, T, d_model)`, *optional*):
                The values of `hidden_states`, as a memory has them: made from states that are held fixed. Where
                missing, no gradient leaves the memory but to the projections.

        Returns:
            `tuple`: states of the shape of `hidden_states`, and on eager weights `(B, H, T, T)`.
        """
        terms: RecurrentTerms = attention_masks["recurrent_terms"]
        if isinstance(cache, SearchCache):
            return self.out_proj(self._attend_in_search(hidden_states, attention_masks, terms, cache)), None
        plan: RecurrentPlan = attention_masks["recurrent"]
        query = self.split_rows(self.project_queries(hidden_states, attention_masks))
        states = hidden_states.flatten(0, 1)
        memory = states.detach() if memory_states is None else memory_states.flatten(0, 1)
        key, value = (project_memory(projection, states, memory, plan) for projection in (self.k_proj, self.v_proj))
        assert terms.distances is not None
        table = self.distance_proj(terms.distances).unflatten(-1, (-1, self.head_dim))  # (R, H, D)
        output, weights = attend_rows(
            self,
            query + terms.content_bias.to(query.dtype),
            key.unflatten(-1, (-1, self.head_dim)),
            value.unflatten(-1, (-1, self.head_dim)),
            plan.plan,
            batch_size=1,
            relative=RelativeTerm(table, zero_row=0, query=query + terms.distance_bias.to(query.dtype)),
        )
        if weights is not None:
            weights = self._by_token(weights[0], plan, len(hidden_states))
        return self.out_proj(output.flatten(1).view_as(hidden_states)), weights

    def _by_token(self, weights: torch.Tensor, plan: RecurrentPlan, batch_size: int) -> torch.Tensor:
        """Weights `(H, rows, K)` of the keys of a plan as those of tokens, `(B, H, T, T)`."""
        rows = weights.shape[1]
        by_row = weights.new_zeros(*weights.shape[:2], rows).index_add(2, plan.index, weights)
        blocks = by_row.unflatten(2, (batch_size, -1)).unflatten(1, (batch_size, -1))  # (H, B, T, B, T)
        return blocks.diagonal(dim1=1, dim2=3).permute(3, 0, 1, 2)

    def _attend_in_search(
        self,
        hidden_states: torch.Tensor,
        attention_masks: dict[str, Any],
        terms: RecurrentTerms,
        cache: SearchCache,
    ) -> torch.Tensor:
        query, stretches = heads_in_search(self, hidden_states, attention_masks, cache)
        # (n, H, G, T, D) and (H, 1, 1, D)
        u, v = (bias[:, None, None].to(query.dtype) for bias in (terms.content_bias, terms.distance_bias))
        distances = attention_masks["distances"]
        table = cache.distance_table(self.layer_idx, partial(self._distance_table, query))  # (H, D, R)
        n, H, G, T, D = query.shape
        rows = ((query + v) * self.scaling).transpose(0, 1).reshape(H, n * G * T, D) @ table
        by_distance = rows.unflatten(1, (n, G, T)).transpose(0, 1)
        masks = add_distances(attention_masks["recurrent"], by_distance, 0, distances)
        return join_heads(attend_stretches(query + u, stretches, masks, self.scaling))

    def _distance_table(self, like: torch.Tensor, count: int) -> torch.Tensor:
        """Projected sinusoids of the distances 0, 1, ..., `(H, D, count)`, of the dtype and device of `like`."""
        positions = sinusoids(torch.arange(count, device=like.device), self.config.d_model, like.dtype)
        return self.distance_proj(positions).unflatten(-1, (-1, self.head_dim)).permute(1, 2, 0).contiguous()


def project_memory(
    projection: nn.Module, states: torch.Tensor, memory: torch.Tensor, plan: RecurrentPlan
) -> torch.Tensor:
    """
    Keys `(K, d_out)` of a plan: rows of `states` projected, and where a key is one of a memory, those of `memory`.

    Args:
        projection (`nn.Module`): A linear layer, or what an adapter or a quantised model has in its place.
        states, memory (`torch.Tensor` of shape `(rows, d_in)`): The same values, as gradients see them.
        plan (`RecurrentPlan`): The keys.
    """
    if not torch.is_grad_enabled():
        return projection(states).index_select(0, plan.index)
    if type(projection) is nn.Linear:
        return MemoryProjection.apply(states, memory, projection.weight, projection.bias, plan)
    # LoRA and the like compute more than their weight says
    both = torch.cat((projection(states), projection(memory)))
    return both.index_select(0, plan.index + len(states) * plan.is_memory)


class MemoryProjection(torch.autograd.Function):
    """
    A linear projection of rows, gathered for keys of which those in a memory are made from other states.

    Equal to projecting `states` for the own sentences and `memory`, whose values are the same, for the memories, at
    half the products. Arguments: states and memory `(rows, d_in)`, weight, bias or None, `RecurrentPlan`.
    """

    @staticmethod
    def forward(ctx, states, memory, weight, bias, plan: RecurrentPlan):
        ctx.save_for_backward(states, weight)
        ctx.plan, ctx.has_bias = plan, bias is not None
        return nn.functional.linear(states, weight, bias).index_select(0, plan.index)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_keys):
        states, weight = ctx.saved_tensors
        index, is_memory = ctx.plan.index, ctx.plan.is_memory
        grad_keys = grad_keys.to(weight.dtype)
        of_live = grad_keys.new_zeros(len(states), weight.shape[0])
        of_memory = torch.zeros_like(of_live)
        of_live.index_add_(0, index[~is_memory], grad_keys[~is_memory])
        of_memory.index_add_(0, index[is_memory], grad_keys[is_memory])
        of_all = of_live + of_memory
        of_bias = of_all.sum(0) if ctx.has_bias else None
        of_memory_states = (of_memory @ weight).to(states.dtype) if ctx.needs_input_grad[1] else None
        of_weight = of_all.T @ states.to(weight.dtype)
        return (of_live @ weight).to(states.dtype), of_memory_states, of_weight, of_bias, None
