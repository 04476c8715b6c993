"""Plain references that the attention of DocMT is tested against; no model imports them, so no checkpoint has them."""

import torch


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
