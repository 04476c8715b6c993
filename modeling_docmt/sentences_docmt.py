"""Sentence structure, read from token ids: separators, and the sentence of each token."""

import torch

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


def places_in_sentences(sentence_ids: torch.LongTensor) -> torch.LongTensor:
    """Position of each token in its sentence, from 0, of the numbers of the sentences `(B, L)`."""
    positions = torch.arange(sentence_ids.shape[1], device=sentence_ids.device).expand_as(sentence_ids)
    is_first = torch.ones_like(sentence_ids, dtype=torch.bool)
    is_first[:, 1:] = sentence_ids[:, 1:] != sentence_ids[:, :-1]
    return positions - positions.masked_fill(~is_first, 0).cummax(dim=1).values
