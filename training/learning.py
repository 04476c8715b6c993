"""
Train a model on a synthetic task: a plain loop, the same for every system.

One thread in float32 gives the same weights every time. What a system reads is made by the functions that real
documents go through, of words that are ids already.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.configuration_docmt import required_token
from modeling_docmt.loss_docmt import translation_loss

from .data import TokenBudgetBatchSampler, TranslationCollator, build_sequences
from .learning_scores import Examination
from .starting_weights import load_starting_weights
from .synthetic_documents import SyntheticDocument, WordVocabulary


@dataclass(frozen=True)
class LoadedStart:
    """
    Weights that a model starts from.

    Args:
        folder (`str` or `Path`): Where another model was saved.
        parts (`str`, *optional*, defaults to `"all"`): What is loaded, a key of `INIT_PARTS`.
        lr_scale (`float`, *optional*, defaults to 1.0): Learning rate of what is loaded, by that of what is fresh.
    """

    folder: str | Path
    parts: str = "all"
    lr_scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class LearningPlan:
    """
    How a model is trained and examined, the same for all systems of an experiment.

    Args:
        updates (`int`): Steps of AdamW.
        batch_tokens (`int`): Tokens of the longer side in a batch, padding included.
        learning_rate (`float`): Peak; the rate rises over `warmup_updates` and then falls to 0, both in a line.
        warmup_updates (`int`): Updates up to the peak.
        max_grad_norm (`float`): Larger gradients are scaled down to this norm.
        label_smoothing (`float`): Of the loss.
        evaluate_every (`int`): Updates between two points of the learning curve.
        training_words (`int`): Target words of the corpus, which is read again where the updates need more.
        evaluation_documents (`int`): New documents, read with the right translation in front of each word.
        decoded_documents (`int`): The first of these are translated by `generate()` in the end.
    """

    updates: int = 1000
    batch_tokens: int = 1024
    learning_rate: float = 4e-3
    warmup_updates: int = 100
    max_grad_norm: float = 1.0
    label_smoothing: float = 0.0
    evaluate_every: int = 100
    training_words: int = 500000
    evaluation_documents: int = 64
    decoded_documents: int = 8

    def __post_init__(self):
        for name, value in vars(self).items():
            least = 0 if name == "label_smoothing" else 1e-12 if name in ("learning_rate", "max_grad_norm") else 1
            if value < least:
                raise ValueError(f"`{name}` must be {'0 or more' if least == 0 else 'positive'}, got {value}.")
        if self.warmup_updates > self.updates:
            raise ValueError(f"`warmup_updates` are some of `updates`, got {self.warmup_updates} and {self.updates}.")
        if self.decoded_documents > self.evaluation_documents:
            raise ValueError(
                "`decoded_documents` are the first of `evaluation_documents`, got "
                f"{self.decoded_documents} of {self.evaluation_documents}."
            )

    def rate(self, update: int) -> float:
        """Learning rate of an update, from 1."""
        rising = update / self.warmup_updates
        falling = (self.updates + 1 - update) / max(self.updates + 1 - self.warmup_updates, 1)
        return self.learning_rate * min(rising, falling)


def learn(
    config: DocMTConfig,
    plan: LearningPlan,
    vocabulary: WordVocabulary,
    training: Sequence[SyntheticDocument],
    evaluation: Sequence[SyntheticDocument],
    *,
    seed: int,
    label: str = "",
    start: LoadedStart | None = None,
    generation: Mapping[str, Any] | None = None,
    further: Callable[[DocMTForConditionalGeneration], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """
    Train a model and examine it.

    Args:
        config (`DocMTConfig`): The model. `train_ratio` is set to that of the training sequences.
        plan (`LearningPlan`): Updates, batches and the like.
        vocabulary (`WordVocabulary`): Ids of the words.
        training, evaluation (`Sequence[SyntheticDocument]`): What it learns from, and is asked.
        seed (`int`): Decides on the first weights and on the order of the batches.
        label (`str`, *optional*): For the progress bar.
        start (`LoadedStart`, *optional*): Weights in place of fresh ones, as far as they fit.
        generation (`Mapping[str, Any]`, *optional*): Options of `generate()` in the end.
        further (`Callable`, *optional*): Further examinations of the trained model, whose results are added.

    Returns:
        `dict`: `parameters`, `updates`, `target_tokens` (seen in training), `seconds` and `cpu_seconds` (without
        examinations), `decoding_seconds`, `curve` (a point every `evaluate_every` updates) and `final`; with `start`,
        what was loaded under its name.
    """
    rows = [
        {"input_ids": source, "labels": target}
        for document in training
        for source, target in build_sequences(
            vocabulary.encode(document.source), vocabulary.encode(document.target), config
        )
    ]
    config.train_ratio = sum(len(row["input_ids"]) / len(row["labels"]) for row in rows) / len(rows)
    examination = Examination(evaluation, vocabulary, config, batch_tokens=4 * plan.batch_tokens)
    torch.manual_seed(seed)
    model = DocMTForConditionalGeneration(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    loaded = {} if start is None else {"start": _load(model, optimizer, start)}
    scales = [group["lr"] / plan.learning_rate for group in optimizer.param_groups]

    curve: list[dict[str, Any]] = []
    seconds, cpu_seconds, target_tokens, losses = 0.0, 0.0, 0, []
    batches = _batches(rows, config, plan, seed)
    for update in tqdm(range(1, plan.updates + 1), desc=label, disable=None):
        clocks = time.perf_counter(), time.process_time()
        for group, scale in zip(optimizer.param_groups, scales, strict=True):
            group["lr"] = scale * plan.rate(update)
        batch = next(batches)
        losses.append(_train(model, optimizer, batch, plan))
        target_tokens += int(batch["labels"].ne(-100).sum())
        seconds += time.perf_counter() - clocks[0]
        cpu_seconds += time.process_time() - clocks[1]
        if update % plan.evaluate_every == 0 or update == plan.updates:
            scores = examination.read(model)
            curve.append({"updates": update, "loss": round(sum(losses) / len(losses), 4), **scores.summary()})
            losses = []
    start_of_decoding = time.perf_counter()
    translated = examination.translate(model, plan.decoded_documents, **(generation or {}))
    final = {"read": scores.in_detail(), "translated": translated}
    decoding_seconds = time.perf_counter() - start_of_decoding
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "updates": plan.updates,
        "target_tokens": target_tokens,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "decoding_seconds": round(decoding_seconds, 1),
        "curve": curve,
        "final": final,
        **loaded,
        **({} if further is None else further(model)),
    }


def _load(
    model: DocMTForConditionalGeneration, optimizer: torch.optim.Optimizer, start: LoadedStart
) -> dict[str, Any]:
    """Load weights and slow them down; says what was loaded."""
    result = load_starting_weights(model, start.folder, start.parts)
    if start.lr_scale != 1.0:
        # the Trainer takes seconds to import, and most runs start from nothing
        from .trainer import scaled_groups

        loaded = {id(parameter) for name, parameter in model.named_parameters() if name in result.loaded}
        optimizer.param_groups = scaled_groups(optimizer.param_groups, loaded, start.lr_scale)
    return result.summary(model)


def _train(
    model: DocMTForConditionalGeneration,
    optimizer: torch.optim.Optimizer,
    batch: dict[str, torch.Tensor],
    plan: LearningPlan,
) -> float:
    """One update; returns the loss before it."""
    model.train()
    # not through `labels`, which would choose the loss of the model
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    loss = translation_loss(
        model(**inputs, use_cache=False).logits, batch["labels"], model.config, label_smoothing=plan.label_smoothing
    )
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), plan.max_grad_norm)
    optimizer.step()
    return loss.item()


def _batches(
    rows: list[dict[str, list[int]]], config: DocMTConfig, plan: LearningPlan, seed: int
) -> Iterator[dict[str, torch.Tensor]]:
    """Batches without end, in an order of their own in each pass over the rows."""
    collator = TranslationCollator(
        required_token(config, "pad_token_id"),
        required_token(config, "decoder_start_token_id"),
        masks_decoder=config.has_intervals,
    )
    lengths = [max(len(row["input_ids"]), len(row["labels"])) for row in rows]
    sampler = TokenBudgetBatchSampler(lengths, max_tokens=plan.batch_tokens, seed=seed)
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        for indices in sampler:
            yield collator([rows[index] for index in indices])
