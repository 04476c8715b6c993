"""The encoded source of a search: whole, or for windows piece by piece, as far as the coming queries look."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from .alignment_docmt import SourceSentences
from .configuration_docmt import DocMTConfig


# source tokens that are encoded together where windows allow pieces
PIECE_TOKENS = 1024


class SourceReader:
    """
    One source sequence, and the states of a piece of it.

    With windows in the encoder, the state of a token depends on the `window_size * encoder_layers` tokens on each
    side alone, so that a piece with as many tokens around it gives the very states of the whole.

    Args:
        ids (`Sequence[int]`): Formatted source ids.
        config (`DocMTConfig`): The model.
    """

    def __init__(self, ids: Sequence[int], config: DocMTConfig):
        self.ids, self.config = torch.tensor(ids), config
        self.sentences = SourceSentences.from_ids(self.ids[None], np.array([len(ids)]), config)
        kinds = (config.encoder_self_attention, config.cross_attention)
        self.has_pieces = kinds == ("window", "window")
        # tokens on each side on which the state of a token depends
        self.margin = config.window * config.encoder_layers if self.has_pieces else 0
        self.first = 0
        self.states: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def has(self, first: int, last: int) -> bool:
        """Whether the states of tokens `first` to `last`, one behind, are there."""
        return self.states is not None and self.first <= first and last <= self.first + self.states.shape[-2]

    def part(self, first: int, last: int) -> torch.Tensor:
        """States of tokens `first` to `last`, one behind, `(2, layers, H, tokens, D)`; they must be there."""
        if self.states is None or not self.has(first, last):
            raise ValueError(f"Source tokens {first} to {last} are not encoded: call `read_sources` first.")
        return self.states[..., first - self.first : last - self.first, :]

    def sentence_ids(self, first: int, last: int) -> torch.LongTensor:
        """Sentence of each of the tokens `first` to `last`, one behind."""
        starts = self.sentences.starts[0, : self.sentences.counts[0]].copy()
        starts[0] = 0  # a leading special belongs to the first sentence
        return torch.from_numpy(np.searchsorted(starts, np.arange(first, last), side="right") - 1)


def read_sources(model: Any, readers: Sequence[SourceReader], ranges: Sequence[tuple[int, int]]) -> None:
    """
    Encode what is missing, in one batch.

    Args:
        model (`DocMTForConditionalGeneration`): The model.
        readers (`Sequence[SourceReader]`): Sources; they receive their states, `(2, layers, H, tokens, D)`.
        ranges (`Sequence[tuple[int, int]]`): Tokens that are needed of each, the first and one behind the last.
    """
    missing = []
    for reader, (first, last) in zip(readers, ranges, strict=True):
        if not reader.has(first, last):
            if reader.has_pieces:
                last = min(len(reader), max(last, first + PIECE_TOKENS))
            start, end = max(0, first - reader.margin), min(len(reader), last + reader.margin)
            missing.append((reader, first, last, start, end))
    if not missing:
        return
    device, padding = model.device, model.config.pad_token_id or 0
    ids = pad_sequence([r.ids[a:b] for r, _, _, a, b in missing], batch_first=True, padding_value=padding)
    starts = torch.tensor([start for *_, start, _ in missing])
    lengths = torch.tensor([end - start for *_, start, end in missing])
    columns = torch.arange(ids.shape[1])
    mask = (columns < lengths[:, None]).long()
    positions = starts[:, None] + columns
    encoded = model.get_encoder()(
        input_ids=ids.to(device), attention_mask=mask.to(device), position_ids=positions.to(device)
    )
    # (2, layers, B, H, S, D)
    states = model.get_decoder().project_source(encoded.last_hidden_state, positions.to(device))
    for row, (reader, first, last, start, _) in enumerate(missing):
        # a copy: the rest of the batch need not stay
        reader.first, reader.states = first, states[:, :, row, :, first - start : last - start].clone()
