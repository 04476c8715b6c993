"""Encoder states of every layer as the input of probes: batches of model sequences through a frozen encoder."""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration

from .data import TokenBudgetBatchSampler
from .probe_pairs import sample_partners


@dataclass(frozen=True)
class ProbeBatch:
    """
    States of some tokens, and pairs of these.

    Args:
        states (`torch.Tensor` of shape `(layers, items, d_model)`): Of the embeddings, then of each encoder layer.
        positions (`torch.LongTensor` of shape `(items,)`): Places in the formatted sequence, from 1.
        first, second (`torch.LongTensor` of shape `(pairs,)`): Items i and j of each pair.
    """

    states: torch.Tensor
    positions: torch.LongTensor
    first: torch.LongTensor
    second: torch.LongTensor

    @property
    def distances(self) -> torch.LongTensor:
        """Signed distance i - j of each pair."""
        return self.positions[self.first] - self.positions[self.second]


def item_columns(length: int, config: DocMTConfig) -> range:
    """Columns of a formatted source that are probed: all but `<sos>` in front and `<eos>` at the end."""
    return range(int(config.use_sos), length - 1)


@torch.no_grad()
def encoder_states(
    model: DocMTForConditionalGeneration, input_ids: torch.LongTensor, attention_mask: torch.LongTensor
) -> tuple[torch.Tensor, ...]:
    """
    Hidden states of the encoder.

    Args:
        model (`DocMTForConditionalGeneration`): In evaluation mode.
        input_ids, attention_mask (`torch.LongTensor` of shape `(B, S)`): Formatted sources, padded on the right.

    Returns:
        `tuple[torch.Tensor, ...]`: `encoder_layers + 1` tensors of shape `(B, S, d_model)`. The first holds the scaled
        embeddings, with the sinusoids where a system has them; rows of padding mean nothing.
    """
    encoder = model.get_encoder()
    return encoder(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True).hidden_states


class StateSource:
    """
    States and pairs of a corpus, computed anew in each pass, so that memory holds one batch.

    Args:
        model (`DocMTForConditionalGeneration`): In evaluation mode.
        sequences (`Dataset`): Model sequences, as `encode_corpus` makes them.
        max_distance (`int`): Largest distance of a pair, K.
        batch_tokens (`int`): Bound of a batch in tokens, padding included.
        seed (`int`, *optional*, defaults to 0): Seed of pairs and order.
        label (`str`, *optional*): For the progress bar.
    """

    def __init__(
        self,
        model: DocMTForConditionalGeneration,
        sequences: Dataset,
        *,
        max_distance: int,
        batch_tokens: int,
        seed: int = 0,
        label: str = "",
    ):
        self.model, self.max_distance, self.seed, self.label = model, max_distance, seed, label
        self.sequences = sequences.select_columns(["input_ids"])
        self.lengths: list[int] = list(sequences["source_length"])
        self.sampler = TokenBudgetBatchSampler(self.lengths, batch_tokens, seed)

    def summary(self) -> dict[str, int]:
        """Numbers of sequences, of probed tokens and of pairs, and tokens of the longest sequence."""
        counts = [len(item_columns(length, self.model.config)) for length in self.lengths]
        return {
            "sequences": len(self.lengths),
            "longest": max(self.lengths),
            "items": sum(counts),
            "pairs": sum(count for count in counts if count > 1),
        }

    def batches(self, epoch: int | None = None) -> Iterator[ProbeBatch]:
        """
        Run the encoder over all sequences.

        Args:
            epoch (`int`, *optional*):
                Each epoch, from 0, has pairs and an order of its own; without one, they are always the same.
        """
        self.sampler.set_epoch(epoch or 0)
        name = self.label if epoch is None else f"{self.label} {epoch + 1}"
        for rows in tqdm(self.sampler, desc=name, unit="batch", file=sys.stderr, disable=None):
            yield self._batch(rows, 0 if epoch is None else epoch + 1)

    def _batch(self, rows: list[int], draw: int) -> ProbeBatch:
        device, config = self.model.device, self.model.config
        sources = [torch.tensor(ids) for ids in self.sequences[rows]["input_ids"]]
        ids = pad_sequence(sources, batch_first=True, padding_value=config.pad_token_id or 0)
        mask = pad_sequence([torch.ones_like(source) for source in sources], batch_first=True)
        hidden_states = encoder_states(self.model, ids.to(device), mask.to(device))

        columns = [item_columns(len(source), config) for source in sources]
        starts = itertools.accumulate([0, *map(len, columns[:-1])])
        first, second = [], []
        for row, places, start in zip(rows, columns, starts, strict=True):
            # a sequence has its draw whatever else is in the batch
            rng = np.random.default_rng([self.seed, draw, row])
            partners = sample_partners(len(places), self.max_distance, rng)
            first.append(start + np.arange(len(partners)))
            second.append(start + partners)
        flat = np.concatenate([row * ids.shape[1] + np.array(places) for row, places in enumerate(columns)])
        index = torch.from_numpy(flat).to(device)
        positions = torch.from_numpy(np.concatenate([np.array(places) for places in columns]) + 1)
        return ProbeBatch(
            states=torch.stack([states.flatten(0, 1)[index] for states in hidden_states]),
            positions=positions.to(device),
            first=torch.from_numpy(np.concatenate(first)).to(device),
            second=torch.from_numpy(np.concatenate(second)).to(device),
        )
