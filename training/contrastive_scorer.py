"""
Scores of candidates: the sum of the log-probabilities of their target tokens, teacher-forced.

The source of an item is encoded once, and its candidates go through the decoder together. What they have in common at
their beginning, target context included, is looked up in the vocabulary once. Batches hold items of similar length,
up to a number of tokens; they change no score.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from tqdm import tqdm
from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from modeling_docmt import DocMTForConditionalGeneration
from modeling_docmt.configuration_docmt import ALIGNMENTS

from .contrastive_sequences import ItemSequences, common_prefix
from .data import TranslationCollator


# numbers in the largest tensor of logits
MOST_LOGITS = 2**26
# alignments by which a token depends on how long the target is, what follows it included
LENGTH_ALIGNMENTS = ("linear", "sent-linear")


@dataclass(frozen=True)
class ScorerSettings:
    """
    How to load and run a scorer, for other processes too.

    Args:
        model (`str`): Model folder.
        alignment (`str`, *optional*): Of windows in cross-attention; by default that of decoding.
        normalize_length (`bool`, *optional*, defaults to `False`): Divide scores by the number of tokens that count.
        device (`str`, *optional*): Where to run; a GPU where there is one by default.
        dtype (`str`, *optional*, defaults to `"float32"`): Type of the weights.
        threads (`int`, *optional*): Threads of each process on the CPU.
    """

    model: str
    alignment: str | None = None
    normalize_length: bool = False
    device: str | None = None
    dtype: str = "float32"
    threads: int | None = None

    def load(self) -> "ContrastiveScorer":
        """Load the model."""
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        is_docmt = AutoConfig.from_pretrained(self.model).model_type == "docmt"
        model_class = DocMTForConditionalGeneration if is_docmt else AutoModelForSeq2SeqLM
        model = model_class.from_pretrained(self.model, dtype=self.dtype)
        return ContrastiveScorer(
            model.requires_grad_(False).to(device).eval(),
            alignment=self.alignment,
            normalize_length=self.normalize_length,
        )


def window_alignment(config: PreTrainedConfig, alignment: str | None = None) -> str | None:
    """
    The alignment of the windows of cross-attention: the one asked for, else that of decoding; `None` without windows.

    Raises:
        `ValueError`: if one is asked for that does not exist, or where there are no windows.
    """
    has_windows = config.model_type == "docmt" and config.cross_attention == "window"
    if alignment is None:
        return config.alignment if has_windows else None
    if alignment not in ALIGNMENTS:
        raise ValueError(f"`alignment` must be one of {', '.join(map(repr, ALIGNMENTS))}, got {alignment!r}.")
    if not has_windows:
        raise ValueError(
            f"`alignment` is for windows in cross-attention, which this model does not have, got {alignment!r}. Leave "
            "it out."
        )
    return alignment


class ContrastiveScorer:
    """
    Scores the candidates of items with one model.

    Args:
        model (`PreTrainedModel`):
            A DocMT model, or any other sequence-to-sequence model with a causal decoder, in evaluation mode.
        alignment (`str`, *optional*):
            Source position at the centre of the windows of cross-attention; by default that of decoding,
            `model.config.alignment`. The length of a candidate is known, so `"linear"` and `"sent-linear"` are
            possible, too.
        normalize_length (`bool`, *optional*, defaults to `False`):
            Divide scores by the number of tokens that count.

    Raises:
        `ValueError`: for an alignment where there are no windows.
    """

    def __init__(self, model: PreTrainedModel, *, alignment: str | None = None, normalize_length: bool = False):
        self.model = model
        self.normalize_length = normalize_length
        self.is_docmt = isinstance(model, DocMTForConditionalGeneration)
        self.alignment = window_alignment(model.config, alignment)
        self._collator = TranslationCollator(
            pad_token_id=model.config.pad_token_id,
            # a placeholder: the model itself shifts its labels
            decoder_start_token_id=model.config.pad_token_id,
            masks_decoder=self.is_docmt and model.config.has_intervals,
        )

    @torch.inference_mode()
    def score(self, items: Sequence[ItemSequences]) -> list[list[float]]:
        """
        Score the candidates of items in one batch.

        Args:
            items (`Sequence[ItemSequences]`): What the model reads and predicts.

        Returns:
            `list[list[float]]`: for each item the score of each candidate; the higher, the better.
        """
        rows = [{"input_ids": item.source, "labels": labels} for item in items for labels in item.targets]
        batch = {name: tensor.to(self.model.device) for name, tensor in self._collator(rows).items()}
        labels = batch.pop("labels")
        # some models start the decoder by a rule of their own
        batch["decoder_input_ids"] = self.model.prepare_decoder_input_ids_from_labels(labels)
        counts = torch.tensor([len(item.targets) for item in items], device=self.model.device)
        batch["encoder_outputs"] = self._encode(batch["input_ids"], batch["attention_mask"], counts)
        if self.alignment is not None:
            batch["alignment"] = self.alignment
        places = [
            (row, place)
            for row, span in enumerate(span for item in items for span in self._looked_up(item))
            for place in span
        ]
        index = torch.tensor(places, device=self.model.device).T  # (2, tokens that are looked up)
        found = self._log_probabilities(batch, index[0], index[1], labels[index[0], index[1]])
        table = torch.zeros(labels.shape, dtype=torch.double)  # (B, T)
        table[index[0].cpu(), index[1].cpu()] = found.cpu().double()
        rows_of_item = table.split(counts.tolist())
        return [self._sums(item, values) for item, values in zip(items, rows_of_item, strict=True)]

    def _encode(self, ids: torch.LongTensor, mask: torch.Tensor, counts: torch.LongTensor) -> BaseModelOutput:
        """States of each source, once for each of its targets."""
        first = counts.cumsum(0) - counts
        states = self.model.get_encoder()(input_ids=ids[first], attention_mask=mask[first]).last_hidden_state
        return BaseModelOutput(states.repeat_interleave(counts, dim=0))

    def _shared(self, item: ItemSequences) -> int:
        """Tokens at the beginning of all targets, which have the same probability in each."""
        return 0 if self.alignment in LENGTH_ALIGNMENTS else common_prefix(item.targets)

    def _looked_up(self, item: ItemSequences) -> list[range]:
        """Positions of each target: of the first all that count in some of them, of the others what is not shared."""
        shared = self._shared(item)
        first, *others = item.scored
        start = min([first.start, *(span.start for span in others if span.start < shared)])
        return [range(start, first.stop), *(range(max(span.start, shared), span.stop) for span in others)]

    def _sums(self, item: ItemSequences, values: torch.Tensor) -> list[float]:
        """Scores of the candidates, of log-probabilities `(targets, T)`; what is shared stands in the first row."""
        values[1:, : self._shared(item)] = values[0, : self._shared(item)]
        sums = [float(row[span.start : span.stop].sum()) for row, span in zip(values, item.scored, strict=True)]
        if self.normalize_length:
            sums = [total / len(span) for total, span in zip(sums, item.scored, strict=True)]
        return [sums[target] for target in item.candidates]

    def _log_probabilities(
        self, batch: dict[str, Any], rows: torch.Tensor, places: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """Log-probability of each label, which the model predicts at `places` of `rows`; all `(n,)`."""
        if not self.is_docmt:
            return _label_scores(self.model(**batch, use_cache=False).logits[rows, places], labels)
        states = self.model.model(**batch, use_cache=False).last_hidden_state[rows, places]
        size = max(1, MOST_LOGITS // self.model.config.vocab_size)
        return torch.cat(
            [
                _label_scores(self._logits(states[start : start + size]), labels[start : start + size])
                for start in range(0, len(states), size)
            ]
        )

    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        logits = self.model.lm_head(states)
        return logits + self.model.final_logits_bias if self.model.config.use_final_logits_bias else logits


def _label_scores(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return -nn.functional.cross_entropy(logits.to(dtype), labels, reduction="none")


def item_batches(items: Sequence[ItemSequences], max_tokens: int) -> list[list[int]]:
    """
    Batches of items of similar length, the longest first, so that memory fails at once or not at all.

    Args:
        items (`Sequence[ItemSequences]`): The items.
        max_tokens (`int`): Most tokens of a batch, both sides and padding included; a larger item stands alone.

    Returns:
        `list[list[int]]`: indices of the items of each batch, each item once.
    """
    if max_tokens < 1:
        raise ValueError(f"`max_tokens` must be 1 or more, got {max_tokens}.")
    lengths = [(max(map(len, item.targets)), len(item.source), len(item.targets)) for item in items]
    batches: list[list[int]] = []
    target = source = rows = 0
    for index in sorted(range(len(items)), key=lambda index: lengths[index], reverse=True):
        target, source, rows = max(target, lengths[index][0]), max(source, lengths[index][1]), rows + lengths[index][2]
        if not batches or rows * target + (len(batches[-1]) + 1) * source > max_tokens:
            batches.append([])
            target, source, rows = lengths[index]
        batches[-1].append(index)
    return batches


def score_items(
    items: Sequence[ItemSequences],
    score: Callable[[Sequence[list[ItemSequences]]], Iterator[list[list[float]]]],
    *,
    max_tokens: int = 4096,
    name: str = "",
) -> list[list[float]]:
    """
    Score items in batches, with a progress bar on stderr.

    Args:
        items (`Sequence[ItemSequences]`): The items.
        score (`Callable`): `score_here` of a scorer, or `WorkerPool.score`.
        max_tokens (`int`, *optional*, defaults to 4096): Most tokens of a batch, see `item_batches`.
        name (`str`, *optional*): What the progress bar says.

    Returns:
        `list[list[float]]`: for each item, in the order given, the score of each candidate.
    """
    batches = item_batches(items, max_tokens)
    found: list[list[float]] = [[] for _ in items]
    with tqdm(total=len(items), desc=name, unit="item") as progress:
        for batch, scores in zip(batches, score([[items[i] for i in batch] for batch in batches]), strict=True):
            for index, values in zip(batch, scores, strict=True):
                found[index] = values
            progress.update(len(batch))
    return found


def score_here(scorer: ContrastiveScorer) -> Callable[[Sequence[list[ItemSequences]]], Iterator[list[list[float]]]]:
    """Score batch after batch in this process."""
    return lambda batches: map(scorer.score, batches)


class WorkerPool:
    """
    Processes that each hold the model; to be used in a `with` statement. Scores do not depend on their number.

    Args:
        settings (`ScorerSettings`): The model and how it scores.
        num_processes (`int`): How many.
    """

    def __init__(self, settings: ScorerSettings, num_processes: int):
        self._pool = ProcessPoolExecutor(
            num_processes,
            # a forked process hangs where the parent has used threads of torch
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(settings,),
        )

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def score(self, batches: Sequence[list[ItemSequences]]) -> Iterator[list[list[float]]]:
        """Scores of each batch, in their order."""
        return self._pool.map(_score_in_worker, batches)


_worker_scorer: ContrastiveScorer


def _start_worker(settings: ScorerSettings) -> None:
    global _worker_scorer
    _worker_scorer = settings.load()


def _score_in_worker(batch: list[ItemSequences]) -> list[list[float]]:
    return _worker_scorer.score(batch)
