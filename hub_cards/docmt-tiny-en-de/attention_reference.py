"""Plain references that the attention of DocMT is tested against; no model imports them, so no checkpoint has them."""

import torch

from .attention_interval import RelativeTerm
from .interval_plan_docmt import IntervalPlan


def reference_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, visible: torch.BoolTensor, scaling: float
) -> torch.Tensor:
    """
    Softmax attention written down query by query.

    Args:
        query (`torch.Tensor` of shape `(B, H, T, D)`), key, value (`torch.Tensor` of shape `(B, H, K, D)`): Heads.
        visible (`torch.BoolTensor` of shape `(B, T, K)`): True where the query may see the key.
        scaling (`float`): Factor of the logits.

    Returns:
        `torch.Tensor` of shape `(B, T, H, D)`; zeros for a query that sees nothing.
    """
    B, H, T, D = query.shape
    output = torch.zeros(B, T, H, D, dtype=query.dtype)
    for b in range(B):
        for t in range(T):
            keys = visible[b, t].nonzero().flatten()
            if len(keys) == 0:
                continue
            logits = torch.einsum("hd,hkd->hk", query[b, :, t], key[b][:, keys]) * scaling
            output[b, t] = torch.einsum("hk,hkd->hd", logits.softmax(dim=-1), value[b][:, keys])
    return output


def dense_interval_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: IntervalPlan,
    scaling: float,
    *,
    relative: RelativeTerm | None = None,
) -> torch.Tensor:
    """
    `interval_attention` with a dense I x J mask; the same arguments, the bounds alone are read from the plan.

    With a relative term it holds a row of the table for each pair, O(I J D) memory: for tests.
    """
    keys = torch.arange(key.shape[0], device=query.device)
    visible = (plan.lo[:, None] <= keys) & (keys <= plan.hi[:, None])  # (I, J)
    logits = torch.einsum("ihd,jhd->hij", query, key)
    if relative is not None:
        logits = logits + _relative_logits(query, relative, plan.query_positions[:, None] - keys)
    # with a finite filler a query that sees nothing has finite gradients
    weights = (logits * scaling).masked_fill(~visible, -1e9).softmax(dim=-1) * visible
    return torch.einsum("hij,jhd->ihd", weights, value)


def gather_interval_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    plan: IntervalPlan,
    scaling: float,
    *,
    relative: RelativeTerm | None = None,
) -> torch.Tensor:
    """
    `interval_attention` as window attention is usually written: each query gets copies of the keys that it may see.

    Memory is O(I W D) with W the longest interval. A relative term is added to the copied keys where both meet the
    same query.
    """
    longest = max(1, int((plan.hi - plan.lo).max()) + 1)
    keys = plan.lo[:, None] + torch.arange(longest, device=query.device)  # (I, W)
    visible = keys <= plan.hi[:, None]
    index = keys.clamp(0, key.shape[0] - 1)
    key_copies, value_copies = key[index], value[index]  # (I, W, H, D)
    if relative is not None and relative.query is None:
        rows = _rows_of(relative, plan.query_positions[:, None] - keys)
        key_copies = key_copies + rows if rows.dim() == 4 else key_copies + rows[:, :, None]
    logits = torch.einsum("ihd,iwhd->ihw", query, key_copies)
    if relative is not None and relative.query is not None:
        logits = logits + _relative_logits(query, relative, plan.query_positions[:, None] - keys).transpose(0, 1)
    weights = (logits * scaling).masked_fill(~visible[:, None], -1e9).softmax(dim=-1) * visible[:, None]
    return torch.einsum("ihw,iwhd->ihd", weights, value_copies)


def _rows_of(relative: RelativeTerm, distances: torch.Tensor) -> torch.Tensor:
    """Row of the table for each (query position - key); any row where the pair is masked."""
    return relative.table[(distances + relative.zero_row).clamp(0, relative.table.shape[0] - 1)]


def _relative_logits(query: torch.Tensor, relative: RelativeTerm, distances: torch.Tensor) -> torch.Tensor:
    """Unscaled relative logits, `(H, I, K)` for distances `(I, K)`."""
    query = query if relative.query is None else relative.query
    rows = _rows_of(relative, distances)  # (I, K, D) or (I, K, H, D)
    return torch.einsum("ihd,ikhd->hik" if rows.dim() == 4 else "ihd,ikd->hik", query, rows)
