"""From documents to batches: model sequences of a system, padded to what a token budget allows."""

import itertools
import random
from collections.abc import Iterator, Sequence

import torch
from datasets import Dataset
from torch.utils.data import Sampler
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from modeling_docmt.configuration_docmt import DocMTConfig
from modeling_docmt.documents_docmt import encode_sentences
from modeling_docmt.formatting_docmt import format_window, training_windows


logger = logging.get_logger(__name__)


def build_sequences(
    source: Sequence[Sequence[int]],
    target: Sequence[Sequence[int]],
    config: DocMTConfig,
    *,
    resolutions: str | None = None,
) -> list[tuple[list[int], list[int]]]:
    """
    The training sequences of one document: formatted source ids and labels.

    A pair of sentences with an empty side is left out of the document.

    Args:
        source, target (`Sequence[Sequence[int]]`): Token ids of N sentences each, without specials.
        config (`DocMTConfig`): Decides on formats and parts.
        resolutions (`str`, *optional*): In place of `config.training_resolutions`, see `training_windows`.
    """
    pairs = [(s, t) for s, t in zip(source, target, strict=True) if s and t]
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    lengths = [len(s) for s in sources], [len(t) for t in targets]
    windows = training_windows(*lengths, config, resolutions=resolutions)
    return [format_window(sources, targets, window, config) for window in windows]


def encode_corpus(
    documents: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    config: DocMTConfig,
    *,
    max_source_length: int | None = None,
    max_target_length: int | None = None,
    resolutions: str | None = None,
    num_proc: int | None = None,
) -> Dataset:
    """
    Turn documents into model sequences.

    Args:
        documents (`Dataset`): Document records.
        tokenizer (`PreTrainedTokenizerBase`): Tokenizer of both sides.
        config (`DocMTConfig`): The system.
        max_source_length, max_target_length (`int`, *optional*):
            Longer sequences, in tokens, are left out, counted and reported.
        resolutions (`str`, *optional*): In place of `config.training_resolutions`, see `training_windows`.
        num_proc (`int`, *optional*): Processes.

    Returns:
        `Dataset`: columns `input_ids`, `labels`, `source_length` and `target_length` in tokens, `length`, the larger
        of the two, `ratio`, source tokens per target token, and `sentences`, of the source.
    """
    options = {"tokenizer": tokenizer, "config": config, "resolutions": resolutions}
    sequences = documents.map(
        _encode_batch,
        batched=True,
        batch_size=100,
        remove_columns=documents.column_names,
        fn_kwargs=options,
        num_proc=num_proc,
        load_from_cache_file=False,
        desc="Encoding documents",
    )
    limits = (max_source_length, max_target_length)
    kept = [
        i
        for i, (source, target) in enumerate(zip(sequences["source_length"], sequences["target_length"], strict=True))
        if all(limit is None or length <= limit for length, limit in zip((source, target), limits, strict=True))
    ]
    dropped = len(sequences) - len(kept)
    if dropped:
        logger.warning(
            f"Left out {dropped} of {len(sequences)} sequences ({100 * dropped / len(sequences):.1f} %): longer than "
            f"`max_source_length={max_source_length}` or `max_target_length={max_target_length}`."
        )
        sequences = sequences.select(kept)
    return sequences


def _encode_batch(
    batch: dict[str, list], tokenizer: PreTrainedTokenizerBase, config: DocMTConfig, resolutions: str | None
) -> dict[str, list]:
    names = ("input_ids", "labels", "source_length", "target_length", "length", "ratio", "sentences")
    columns: dict[str, list] = {name: [] for name in names}
    separators = frozenset(config.separator_ids())
    sides = []
    for name, is_target in (("src", False), ("tgt", True)):
        encoded = iter(encode_sentences(tokenizer, [s for doc in batch[name] for s in doc], target=is_target))
        sides.append([[next(encoded) for _ in document] for document in batch[name]])
    for source, target in zip(*sides, strict=True):
        for input_ids, labels in build_sequences(source, target, config, resolutions=resolutions):
            columns["input_ids"].append(input_ids)
            columns["labels"].append(labels)
            columns["source_length"].append(len(input_ids))
            columns["target_length"].append(len(labels))
            columns["length"].append(max(len(input_ids), len(labels)))
            length = len(input_ids)
            if config.sequence_format == "source_context":
                # its context has no tokens on the target side
                length = len(list(itertools.takewhile(lambda token: token not in separators, reversed(input_ids))))
            columns["ratio"].append(length / len(labels))
            columns["sentences"].append(1 + sum(token in separators for token in input_ids))
    return columns


class TranslationCollator:
    """
    Pads sequences on the right and shifts the labels to the decoder input.

    The decoder input is made here, since the Trainer takes the labels out of the batch when it smooths them.

    Args:
        pad_token_id (`int`): Fills `input_ids` and `decoder_input_ids`; labels are filled with -100.
        decoder_start_token_id (`int`): First decoder input.
        pad_to_multiple_of (`int`, *optional*): Rounds lengths up, for tensor cores and compiled kernels.
        masks_decoder (`bool`, *optional*, defaults to `False`):
            Whether to say where the padding of the decoder input begins; dense attention does without.
    """

    def __init__(
        self,
        pad_token_id: int,
        decoder_start_token_id: int,
        pad_to_multiple_of: int | None = None,
        masks_decoder: bool = False,
    ):
        self.pad_token_id = pad_token_id
        self.masks_decoder = masks_decoder
        self.decoder_start_token_id = decoder_start_token_id
        self.pad_to_multiple_of = pad_to_multiple_of or 1

    def __call__(self, examples: list[dict]) -> dict[str, torch.Tensor]:
        """Rows with `input_ids` and `labels` to a batch of tensors `(B, S)` and `(B, T)`."""
        sources = [list(example["input_ids"]) for example in examples]
        targets = [list(example["labels"]) for example in examples]
        shifted = [[self.decoder_start_token_id, *target[:-1]] for target in targets]
        batch = {
            "input_ids": self._pad(sources, self.pad_token_id),
            "attention_mask": self._pad([[1] * len(source) for source in sources], 0),
            "decoder_input_ids": self._pad(shifted, self.pad_token_id),
            "labels": self._pad(targets, -100),
        }
        if self.masks_decoder:
            batch["decoder_attention_mask"] = self._pad([[1] * len(target) for target in targets], 0)
        return batch

    def _pad(self, rows: list[list[int]], value: int) -> torch.LongTensor:
        longest = max(map(len, rows))
        longest += -longest % self.pad_to_multiple_of
        return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


class TokenBudgetBatchSampler(Sampler[list[int]]):
    """
    Batches of similar length in which rows times the longest row stay within a budget of tokens.

    The order depends on seed and epoch alone, so a resumed run sees the batches that the interrupted one would have
    seen. A sequence over the budget is a batch of its own.

    Args:
        lengths (`Sequence[int]`): Tokens of each sequence, the longer side.
        max_tokens (`int`): Budget of a batch, padding included.
        seed (`int`, *optional*, defaults to 0): With the epoch, decides the order.
        multiple_of (`int`, *optional*, defaults to 1):
            Number of processes; the first batches are repeated so that each process gets as many.
    """

    def __init__(self, lengths: Sequence[int], max_tokens: int, seed: int = 0, multiple_of: int = 1):
        if max_tokens < 1:
            raise ValueError(f"`max_tokens` must be positive, got {max_tokens}.")
        if not lengths:
            raise ValueError("There is no training sequence: check `train_file` and the length limits.")
        self.lengths = list(lengths)
        self.max_tokens = max_tokens
        self.seed = seed
        self.multiple_of = multiple_of
        self.epoch = 0
        self.batch_size, self.drop_last = None, False  # accelerate reads both
        self._batches: tuple[int, list[list[int]]] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch; Trainer and accelerate call it."""
        self.epoch = epoch

    def batches(self) -> list[list[int]]:
        """Row indices of each batch of the current epoch."""
        if self._batches is None or self._batches[0] != self.epoch:
            self._batches = (self.epoch, self._draw())
        return self._batches[1]

    def _draw(self) -> list[list[int]]:
        rng = random.Random(1_000_003 * self.seed + self.epoch)
        order = list(range(len(self.lengths)))
        rng.shuffle(order)
        # Stable, so rows of one length stay shuffled. By exact lengths, all epochs are cut at the same places: Trainer
        # takes the number of batches from the first one, for accumulation and to find its place after a stop.
        order.sort(key=lambda row: self.lengths[row])
        batches: list[list[int]] = []
        batch: list[int] = []
        longest = 0
        for row in order:
            longest = max(longest, self.lengths[row])
            if batch and longest * (len(batch) + 1) > self.max_tokens:
                batches.append(batch)
                batch, longest = [], self.lengths[row]
            batch.append(row)
        batches.append(batch)
        rng.shuffle(batches)
        missing = -len(batches) % self.multiple_of
        return batches + [batches[i % len(batches)] for i in range(missing)]

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches())

    def __len__(self) -> int:
        return len(self.batches())
