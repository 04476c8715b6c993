"""The training loss: label-smoothed cross-entropy a token, context sentences weighted by their place."""

import torch
from torch import nn

from .configuration_docmt import DocMTConfig
from .sentences_docmt import source_sentence_ids


def translation_loss(
    logits: torch.Tensor,
    labels: torch.LongTensor,
    config: DocMTConfig,
    *,
    label_smoothing: float = 0.0,
    num_items_in_batch: int | torch.Tensor | None = None,
    token_weights: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Label-smoothed cross-entropy, summed over target tokens and divided by their count.

    A token costs `(1 - eps) (-log p(e_i)) + eps / V sum_v (-log p(v))`. With `config.context_loss_weight` below 1, the
    tokens of all sentences but the last of a row count by that weight; `token_weights` multiply the costs too.

    Args:
        logits (`torch.Tensor` of shape `(B, T, V)`, or `(n, V)` for those of the n labels alone, in their order):
            Scores of the next token.
        labels (`torch.LongTensor` of shape `(B, T)`): Target ids, -100 at padding.
        config (`DocMTConfig`): Context weight and separators.
        label_smoothing (`float`, *optional*, defaults to 0): eps.
        num_items_in_batch (`int` or `torch.Tensor`, *optional*):
            Target tokens of all accumulated batches, in place of those of this one.
        token_weights (`torch.Tensor` of shape `(B, T)`, *optional*):
            Weights of the tokens. The count by which the sum is divided is of tokens, whatever their weights.

    Returns:
        `torch.Tensor`: the loss, a scalar.

    Raises:
        `ValueError`: if there are logits of other places than the labels.
    """
    weights = token_weights
    if config.sequence_format == "context_window" and config.context_loss_weight != 1.0:
        by_place = context_weights(labels, config, config.context_loss_weight)
        weights = by_place if weights is None else weights * by_place
    if logits.dim() == 2:
        is_label = labels.ne(-100)
        labels, weights = labels[is_label], None if weights is None else weights[is_label]
    if logits.shape[:-1] != labels.shape:
        raise ValueError(
            f"`logits` must have one row a place of `labels`, {tuple(labels.shape)}, or one a label that is not -100, "
            f"got {tuple(logits.shape)}. See `logits_at` of the model."
        )
    losses = nn.functional.cross_entropy(
        logits.flatten(0, -2).float(),
        labels.flatten(),
        ignore_index=-100,
        label_smoothing=label_smoothing,
        reduction="sum" if weights is None else "none",
    )
    if weights is not None:
        losses = (losses * weights.flatten()).sum()
    if num_items_in_batch is None:
        num_items_in_batch = labels.ne(-100).sum()
    elif isinstance(num_items_in_batch, torch.Tensor):
        num_items_in_batch = num_items_in_batch.to(losses.device)
    return losses / num_items_in_batch


def context_weights(labels: torch.LongTensor, config: DocMTConfig, weight: float) -> torch.Tensor:
    """Weight of each label, `(B, T)`: `weight` in context sentences, 1 in the last sentence of the row."""
    sentence_ids = source_sentence_ids(labels, config)
    last = sentence_ids.masked_fill(labels.eq(-100), -1).amax(dim=-1, keepdim=True)
    return torch.where(sentence_ids == last, 1.0, weight)
