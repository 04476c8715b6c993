"""
Train a model on a synthetic task and see how much it has learned: a plain loop, the same for every system.

One thread in float32 gives the same weights every time. What a system reads is made by the functions that real
documents go through, from words that are ids already.
"""

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.configuration_docmt import required_token
from modeling_docmt.formatting_docmt import sentences_to_neutral
from modeling_docmt.loss_docmt import context_weights, translation_loss

from .data import TokenBudgetBatchSampler, TranslationCollator, build_sequences
from .synthetic_documents import SyntheticDocument, WordVocabulary


@dataclass(frozen=True, kw_only=True)
class LearningPlan:
    """
    How a model is trained and examined, the same for all systems of an experiment.

    Args:
        updates (`int`): Steps of AdamW.
        batch_tokens (`int`): Tokens of the longer side in a batch, padding included.
        learning_rate (`float`): Peak; the rate rises over `warmup_updates` and then falls as `1 / sqrt(updates)`.
        warmup_updates (`int`): Updates up to the peak.
        max_grad_norm (`float`): Larger gradients are scaled down to this norm.
        label_smoothing (`float`): Of the loss.
        evaluate_every (`int`): Updates between two points of the learning curve.
        training_documents (`int`): Size of the corpus; it is read again where the updates need more.
        evaluation_documents (`int`): New documents, read with the right translation in front of each word.
        decoded_documents (`int`): The first of these are translated by `generate()` in the end.
    """

    updates: int = 1000
    batch_tokens: int = 1024
    learning_rate: float = 1e-3
    warmup_updates: int = 200
    max_grad_norm: float = 1.0
    label_smoothing: float = 0.0
    evaluate_every: int = 100
    training_documents: int = 10000
    evaluation_documents: int = 64
    decoded_documents: int = 8

    def __post_init__(self):
        for name, value in vars(self).items():
            if value <= 0 and name not in ("label_smoothing", "decoded_documents", "warmup_updates"):
                raise ValueError(f"`{name}` must be positive, got {value}.")

    def rate(self, update: int) -> float:
        """Learning rate of an update, from 1."""
        warmup = max(self.warmup_updates, 1)
        return self.learning_rate * min(update / warmup, (warmup / update) ** 0.5)
