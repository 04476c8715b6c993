"""
Interval attention: softmax attention in which query t sees the keys lo[t]..hi[t] alone.

The one sparse primitive of the package. Windows, sentences, alignments and packed documents differ in their bounds
only; `IntervalPlan` turns bounds into blocks, and the functions here compute the blocks. Time and scores grow with the
pairs that see each other, not with I x J; for training, memory beyond the results is that of one chunk of blocks.
"""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from .interval_kernels_docmt import IntervalAttentionFunction, IntervalTask, stable_softmax, table_rows
from .interval_plan_docmt import IntervalPlan


@dataclass
class RelativeTerm:
    """
    Logits of distances: `scaling * query_i . table[position_i - j + zero_row]` is added to the logit of (i, j).

    Args:
        table (`torch.Tensor` of shape `(R, D)`, shared by the heads, or `(R, H, D)`): One row a distance.
        zero_row (`int`): Row of distance 0. Rows above it are for keys before the query.
        query (`torch.Tensor` of shape `(I, H, D)`, *optional*): The query that meets the table; by default the same
            that meets the keys.
        clamp (`bool`, *optional*, defaults to `False`): Whether distances beyond the table take its first or last row;
            without, a plan that reaches beyond is an error.
    """

    table: torch.Tensor
    zero_row: int
    query: torch.Tensor | None = None
    clamp: bool = False


@torch.compiler.disable  # chunks of a plan differ from batch to batch
def interval_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: IntervalPlan,
    scaling: float,
    *,
    relative: RelativeTerm | None = None,
    dropout: float = 0.0,
) -> torch.Tensor:
    """
    Attend within the intervals of `plan`.

    Equal to softmax attention with the dense mask `plan.visible()`, in outputs and in gradients of any order. A query
    that sees nothing has output 0 and gradient 0. Under autocast it computes in the dtype of autocast, as products of
    matrices do; softmax and sums of gradients are in float32 at least.

    Args:
        query (`torch.Tensor` of shape `(I, H, D)`): Queries, documents one after another in one row.
        key (`torch.Tensor` of shape `(J, H, D)`): Keys.
        value (`torch.Tensor` of shape `(J, H, D_v)`): Values; D_v may differ from D.
        plan (`IntervalPlan`): Who sees whom, on the device of the tensors.
        scaling (`float`): Factor of the logits, relative term included.
        relative (`RelativeTerm`, *optional*): Term that depends on the distance of query and key.
        dropout (`float`, *optional*, defaults to 0.0): Probability that a weight is dropped; 0 outside training.

    Returns:
        `torch.Tensor` of shape `(I, H, D_v)`.

    Raises:
        `ValueError`: if shapes, dtypes or devices do not fit each other or the plan, or the plan reaches beyond the
            table of a relative term that does not clamp.
    """
    query, key, value, relative = _autocast(query, key, value, relative)
    _check(query, key, value, plan, relative)
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be in [0, 1), got {dropout}.")
    if relative is None:
        table, relative_query, zero_row = None, None, 0
    else:
        table, relative_query, zero_row = relative.table, relative.query, relative.zero_row
    task = IntervalTask(plan, scaling, zero_row, dropout)
    return IntervalAttentionFunction.apply(query, key, value, table, relative_query, task)


@torch.compiler.disable
def interval_attention_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    plan: IntervalPlan,
    scaling: float,
    relative: RelativeTerm | None = None,
) -> torch.Tensor:
    """
    The weights of `interval_attention` as a dense tensor, for `output_attentions` and analysis.

    Time and memory are O(I J H): not for long documents.

    Returns:
        `torch.Tensor` of shape `(H, I, J)`; a query that sees nothing has zeros.
    """
    query, key, _, relative = _autocast(query, key, key, relative)
    _check(query, key, key, plan, relative)
    logits = torch.einsum("ihd,jhd->hij", query, key)
    if relative is not None:
        # (H, I, r), one column a distance
        by_distance = _distance_logits(query, plan, relative)
        keys = torch.arange(plan.num_keys, device=query.device)
        index = plan.relative_max - (plan.query_positions[:, None] - keys)
        index = index.clamp(0, by_distance.shape[2] - 1).expand(by_distance.shape[0], -1, -1)
        logits = logits + by_distance.gather(2, index)
    visible = plan.visible()
    weights = stable_softmax((logits * scaling).masked_fill(~visible, torch.finfo(logits.dtype).min))
    return weights.masked_fill(~visible, 0.0)


def flex_interval_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: IntervalPlan,
    scaling: float,
    *,
    relative: RelativeTerm | None = None,
    block_mask: Any = None,
) -> torch.Tensor:
    """
    `interval_attention` by flex attention, a compiled and fused kernel on CUDA.

    On a CPU it runs uncompiled, builds all I x J logits and has no backward: there it is for tests. (The compiled
    kernel of PyTorch 2.13 for CPUs gives wrong rows where there are fewer queries than in a block of the mask.)

    Args:
        query, key, value, plan, scaling, relative: As in `interval_attention`.
        block_mask (`BlockMask`, *optional*): `plan.block_mask()`, built here if missing; build it once a batch.

    Returns:
        `torch.Tensor` of shape `(I, H, D_v)`.
    """
    query, key, value, relative = _autocast(query, key, value, relative)
    _check(query, key, value, plan, relative)
    score_mod = None
    if relative is not None:
        by_distance = (_distance_logits(query, plan, relative) * scaling).contiguous()
        positions, largest, last = plan.query_positions, plan.relative_max, by_distance.shape[2] - 1

        def score_mod(score, batch, head, query_row, key_row):
            column = largest - (positions[query_row] - key_row)
            return score + by_distance[head, query_row, column.clamp(0, last)]

    attend = _flex_kernel(query.device.type)
    batched = [states.transpose(0, 1)[None] for states in (query, key, value)]  # (1, H, I, D)
    block_mask = plan.block_mask() if block_mask is None else block_mask
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        output = attend(*batched, score_mod=score_mod, block_mask=block_mask, scale=scaling)
    return output[0].transpose(0, 1).masked_fill(plan.dead[:, None, None], 0.0)


@functools.cache
def _flex_kernel(device: str) -> Callable:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention if device == "cpu" else torch.compile(flex_attention)


def _distance_logits(query: torch.Tensor, plan: IntervalPlan, relative: RelativeTerm) -> torch.Tensor:
    """Unscaled logits of all distances of the plan, from the largest down, `(H, I, r)`."""
    count = plan.relative_max - plan.relative_min + 1
    rows = table_rows(plan.relative_max, count, relative.zero_row, relative.table)
    table = relative.table.index_select(0, rows)
    query = query if relative.query is None else relative.query
    return torch.einsum("ihd,rhd->hir" if table.dim() == 3 else "ihd,rd->hir", query, table)


def _autocast(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, relative: RelativeTerm | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, RelativeTerm | None]:
    """What autocast does to the operands of a matrix product."""
    device = query.device.type
    if not torch.is_autocast_enabled(device):
        return query, key, value, relative
    dtype = torch.get_autocast_dtype(device)

    def cast(states: torch.Tensor) -> torch.Tensor:
        return states if states.dtype == torch.float64 else states.to(dtype)

    if relative is not None:
        own = None if relative.query is None else cast(relative.query)
        relative = replace(relative, table=cast(relative.table), query=own)
    return cast(query), cast(key), cast(value), relative


def _check(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, plan: IntervalPlan, relative: RelativeTerm | None
) -> None:
    num_queries, heads, dim = query.shape
    num_keys = key.shape[0]
    if key.shape[1:] != (heads, dim) or value.shape[:2] != (num_keys, heads):
        raise ValueError(
            "`query`, `key` and `value` must be (I, H, D), (J, H, D) and (J, H, D_v), "
            f"got {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}."
        )
    if (num_queries, num_keys) != (plan.num_queries, plan.num_keys):
        raise ValueError(
            f"`plan` is for {plan.num_queries} queries and {plan.num_keys} keys, got {num_queries} and {num_keys}."
        )
    tensors = [query, key, value]
    if relative is not None:
        _check_relative(query, plan, relative)
        tensors += [relative.table] if relative.query is None else [relative.table, relative.query]
    if len({states.dtype for states in tensors}) > 1:
        raise ValueError(f"all tensors must have one dtype, got {[states.dtype for states in tensors]}.")
    if any(states.device != plan.device for states in tensors):
        devices = [str(states.device) for states in tensors]
        raise ValueError(f"all tensors must be on the device of `plan`, {plan.device}, got {devices}. See `plan.to`.")


def _check_relative(query: torch.Tensor, plan: IntervalPlan, relative: RelativeTerm) -> None:
    _, heads, dim = query.shape
    shape = tuple(relative.table.shape)
    if shape[1:] not in ((dim,), (heads, dim)):
        raise ValueError(f"`relative.table` must be (R, {dim}) or (R, {heads}, {dim}), got {shape}.")
    if relative.query is not None and relative.query.shape != query.shape:
        raise ValueError(f"`relative.query` must have the shape of `query`, got {tuple(relative.query.shape)}.")
    first, last = plan.relative_min + relative.zero_row, plan.relative_max + relative.zero_row
    if not relative.clamp and (first < 0 or last >= shape[0]):
        raise ValueError(
            f"the plan needs rows {first}..{last} of `relative.table`, which has {shape[0]}. "
            "Give it more rows, or set `clamp=True`."
        )
