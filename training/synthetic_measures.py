"""Further examinations of a model that has learned a synthetic task: probes of its encoder, and sentences alone."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from datasets import Dataset

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration

from .data import build_sequences
from .learning_scores import Examination
from .probe_maps import COMBINATIONS
from .probe_sequences import probe_sequences
from .synthetic_documents import SyntheticDocument, SyntheticTask, WordVocabulary, documents_of_words


@dataclass(frozen=True, kw_only=True)
class ProbePlan:
    """
    How probes of encoder states are trained and scored, the same for all systems of an experiment.

    Args:
        words (`int`): Target words of the documents that probes learn from, the first of those of the model.
        test_words (`int`): Those of the new documents that they are scored on, and of others that they are picked by.
        updates (`int`): Steps of Adam.
        batch_tokens (`int`): Source tokens of a batch, padding included.
        learning_rate (`float`): Of Adam.
        max_distance (`int`): Largest distance of a pair in tokens.
        combination (`str`): How the states of a pair are joined, a key of `COMBINATIONS`, see `probe_maps`.
    """

    words: int = 20000
    test_words: int = 5000
    updates: int = 600
    batch_tokens: int = 1024
    learning_rate: float = 1e-2
    max_distance: int = 20
    combination: str = "difference"

    def __post_init__(self):
        if self.combination not in COMBINATIONS:
            choices = ", ".join(map(repr, COMBINATIONS))
            raise ValueError(f"`combination` of `probe` must be one of {choices}, got {self.combination!r}.")
        for name, value in vars(self).items():
            if name != "combination" and value <= 0:
                raise ValueError(f"`{name}` of `probe` must be positive, got {value}.")


def probe_encoder(
    model: DocMTForConditionalGeneration,
    task: SyntheticTask,
    vocabulary: WordVocabulary,
    plan: ProbePlan,
    *,
    seed: int,
    label: str = "",
) -> dict[str, Any]:
    """
    What the states of each encoder layer know of positions.

    Args:
        model (`DocMTForConditionalGeneration`): The trained model, which stays as it is.
        task (`SyntheticTask`): What it has learned.
        vocabulary (`WordVocabulary`): Ids of the words.
        plan (`ProbePlan`): Documents and updates.
        seed (`int`): Of pairs, order and weights.
        label (`str`, *optional*): For the progress bars.

    Returns:
        `dict`: as of `probe_sequences`, with `seconds`.

    Source: Li et al. (P-Transformer), on probing tasks.
    """
    start = time.perf_counter()
    parts = {
        "train": ("train", plan.words),
        "validation": ("validation", plan.test_words),
        "test": ("evaluation", plan.test_words),
    }
    sequences = {
        name: _sequences(documents_of_words(task, split, words), vocabulary, model.config)
        for name, (split, words) in parts.items()
    }
    was_training = model.training
    model.eval()
    found = probe_sequences(
        model,
        sequences,
        max_distance=plan.max_distance,
        combination=plan.combination,
        epochs=plan.updates,  # each has an update at least
        max_updates=plan.updates,
        learning_rate=plan.learning_rate,
        batch_tokens=plan.batch_tokens,
        seed=seed,
        name=label,
    )
    model.train(was_training)
    return {**found, "seconds": round(time.perf_counter() - start, 1)}


def _sequences(documents: Sequence[SyntheticDocument], vocabulary: WordVocabulary, config: DocMTConfig) -> Dataset:
    """Sources as the system reads them, whole parts whatever else it was trained on."""
    rows = [
        source
        for document in documents
        for source, _ in build_sequences(
            vocabulary.encode(document.source), vocabulary.encode(document.target), config, resolutions="document"
        )
    ]
    return Dataset.from_dict({"input_ids": rows, "source_length": [len(row) for row in rows]})


def sentences_alone(documents: Sequence[SyntheticDocument]) -> list[SyntheticDocument]:
    """Each sentence as a document of its own, but for those with a word that needs another sentence."""
    alone = []
    for document in documents:
        open_sentences = {mark.sentence for mark in document.marks if mark.distance > 0}
        for index, pair in enumerate(zip(document.source, document.target, strict=True)):
            if index not in open_sentences:
                source, target = pair
                marks = [replace(mark, sentence=0) for mark in document.marks if mark.sentence == index]
                alone.append(SyntheticDocument([source], [target], marks))
    return alone


def translate_sentences_alone(
    model: DocMTForConditionalGeneration,
    documents: Sequence[SyntheticDocument],
    vocabulary: WordVocabulary,
    *,
    batch_tokens: int,
) -> dict[str, Any]:
    """
    How well a model of documents translates a sentence that comes alone, where that sentence says all it needs.

    Args:
        model (`DocMTForConditionalGeneration`): The trained model.
        documents (`Sequence[SyntheticDocument]`): Documents whose sentences are taken.
        vocabulary (`WordVocabulary`): Ids of the words.
        batch_tokens (`int`): Tokens of a batch, padding included.

    Returns:
        `dict`: `count` of sentences, `left_out`, those with a word that needs another sentence, and `read` and
        `translated` as of whole documents.

    Source: Zheng et al. (2020), Table 2.
    """
    alone = sentences_alone(documents)
    if not alone:
        raise ValueError("`single_sentences`: no sentence of the evaluation documents says all that it needs.")
    examination = Examination(alone, vocabulary, model.config, batch_tokens=batch_tokens)
    return {
        "count": len(alone),
        "left_out": sum(len(document.source) for document in documents) - len(alone),
        "read": examination.read(model).in_detail(),
        "translated": examination.translate(model, len(alone)),
    }
