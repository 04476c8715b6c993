"""From how far back a word can be decided: the receptive field of a system, in sentences, as its model has it."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import torch

from modeling_docmt import DocMTForConditionalGeneration

from .learning_scores import Examination
from .synthetic_documents import Mark, SyntheticDocument, WordVocabulary
from .synthetic_experiment import Run


def sentences_in_reach(run: Run) -> int:
    """
    Sentences before the current one that a prediction can depend on.

    Found by experiment, so that it holds of any mixture of attention, formats and parts: the words of one sentence
    before the last of a document are exchanged for others, on both sides, and where no prediction of the last
    sentence changes at all, that sentence and all before it are out of reach.

    Args:
        run (`Run`): The system, with the task that says how long documents and their sentences are.

    Returns:
        `int`: 0 of a sentence-level system, all sentences but one where nothing is out of reach.

    Source: Herold and Ney (2023), on the receptive fields of windows over several layers.
    """
    vocabulary = WordVocabulary(run.task.words())
    document = run.task.document("evaluation", 0)
    last = len(document.source) - 1
    config = run.config(vocabulary)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        # what is far has passed through many layers, and would be lost in the rounding of float32
        model = DocMTForConditionalGeneration(config).double()

    def predictions(asked: SyntheticDocument) -> torch.Tensor:
        return Examination([asked], vocabulary, config).logits_at_marks(model)

    words = range(len(document.target[last]))
    document = dataclasses.replace(document, marks=[Mark("last", 0, last, word) for word in words])
    unchanged = predictions(document)
    for sentence in range(last):
        if not torch.equal(predictions(_exchanged(document, sentence)), unchanged):
            return last - sentence
    return 0


def reaches(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """Receptive field of each setting and system: rows of `setting`, `system` and `sentences`."""
    first: dict[tuple[str, str], Run] = {}
    for run in runs:
        first.setdefault((run.setting, run.system), run)
    return [
        {"setting": setting, "system": system, "sentences": sentences_in_reach(run)}
        for (setting, system), run in first.items()
    ]


def _exchanged(document: SyntheticDocument, sentence: int) -> SyntheticDocument:
    """The document with other words in one of its sentences, each taken for another of the same side."""
    return SyntheticDocument(
        _with_other_words(document.source, sentence), _with_other_words(document.target, sentence), document.marks
    )


def _with_other_words(sentences: list[list[str]], number: int) -> list[list[str]]:
    known = list(dict.fromkeys(word for sentence in sentences for word in sentence))
    other = dict(zip(known, known[1:] + known[:1], strict=True))
    return [
        [other[word] for word in sentence] if index == number else sentence for index, sentence in enumerate(sentences)
    ]
