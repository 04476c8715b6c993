"""Who may see whom: sentence ids read from token ids, and the attention masks of a batch."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from transformers.cache_utils import EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask

from .configuration_docmt import DocMTConfig


def is_separator(ids: torch.LongTensor, config: DocMTConfig) -> torch.BoolTensor:
    """True at `<sep>` and at the indexed separators; same shape as `ids`."""
    first, count = config.first_separator_token_id, config.num_indexed_separators
    found = torch.zeros_like(ids, dtype=torch.bool) if config.sep_token_id is None else ids == config.sep_token_id
    return found if first is None else found | ((ids >= first) & (ids < first + count))


def source_sentence_ids(ids: torch.LongTensor, config: DocMTConfig) -> torch.LongTensor:
    """
    Index of each token's sentence, from 0: separators strictly before it, so a separator belongs to what it closes.

    Args:
        ids (`torch.LongTensor` of shape `(B, S)`): Source ids, or labels, where entry i is what query i predicts.
        config (`DocMTConfig`): Names the separators.
    """
    separators = is_separator(ids, config).long()
    return separators.cumsum(dim=-1) - separators


def target_sentence_ids(
    decoder_input_ids: torch.LongTensor, config: DocMTConfig, past_separators: torch.LongTensor | None = None
) -> torch.LongTensor:
    """
    Index of the sentence that each decoder query predicts: separators up to and including its input token.

    Args:
        decoder_input_ids (`torch.LongTensor` of shape `(B, T)`): Decoder input.
        config (`DocMTConfig`): Names the separators.
        past_separators (`torch.LongTensor` of shape `(B,)`, *optional*): Separators in the cached past.
    """
    sentence_ids = is_separator(decoder_input_ids, config).long().cumsum(dim=-1)
    return sentence_ids if past_separators is None else sentence_ids + past_separators[:, None]


def _dense_mask(
    place: str,
    *,
    config: DocMTConfig,
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor | None,
    encoder_hidden_states: torch.Tensor | None = None,
    cache: EncoderDecoderCache | None = None,
):
    if place == "decoder":
        own = None if cache is None else cache.self_attention_cache
        return create_causal_mask(config=config, inputs_embeds=hidden_states, attention_mask=attention_mask, cache=own)
    return create_bidirectional_mask(
        config=config,
        inputs_embeds=hidden_states,
        attention_mask=attention_mask,
        encoder_hidden_states=encoder_hidden_states,
    )


# one entry a visibility rule; an attention class names those it reads in `mask_names`
MASK_BUILDERS: dict[str, Callable] = {"dense": _dense_mask}


def build_attention_masks(names: Iterable[str], place: str, **tensors) -> dict[str, Any]:
    """
    Build the masks of a batch once, for all layers that share them.

    Args:
        names (`Iterable[str]`): Masks wanted, keys of `MASK_BUILDERS`.
        place (`str`): `"encoder"`, `"decoder"` (causal) or `"cross"`.
        tensors: What the rules read: `config`, `hidden_states` of the queries, `attention_mask` of the keys,
            `encoder_hidden_states` (cross), `cache` (decoder).

    Returns:
        `dict`: masks by name, in the format of the attention backend in use; `None` where everything is visible.
    """
    return {name: MASK_BUILDERS[name](place, **tensors) for name in sorted(set(names))}
