"""Caches of decoding: what follows the beams of a search, and what they share."""

import torch
from transformers.cache_utils import DynamicCache, EncoderDecoderCache


class BeamCache(EncoderDecoderCache):
    """
    Keys and values of a beam search in which the beams of a sequence share its source.

    Beams only ever replace beams of the same sequence, so the keys and values of cross-attention stay where they are:
    reordering them would copy the whole encoded source in every step and change nothing.
    """

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Move the self-attention states of row `beam_idx[i]` to row i."""
        self.self_attention_cache.reorder_cache(beam_idx)


def empty_beam_cache() -> BeamCache:
    """A cache for a search that starts from its prompt."""
    return BeamCache(DynamicCache(), DynamicCache())
