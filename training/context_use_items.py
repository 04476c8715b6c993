"""Sentences of a test set with the right context, with that of other documents, and without any."""

from collections.abc import Sequence

import numpy as np

from .bootstrap import SEED
from .contrastive_items import ContrastiveItem, HeldContext, aligned_item
from .contrastive_sequences import ContextSizes, PlainFormat, SystemFormat, resolve_context
from .documents import Record


CONTEXTS = ("right", "shuffled", "none")

Pair = tuple[str, str]


def text_pairs(records: Sequence[Record]) -> list[list[Pair]]:
    """Sentences of each document that have text on both sides; the others can be neither scored nor context."""
    return [
        [pair for pair in zip(record["src"], record["tgt"], strict=True) if all(text.strip() for text in pair)]
        for record in records
    ]


def check_documents(documents: Sequence[Sequence[Pair]], where: str) -> None:
    """
    Require that there is context, right and wrong.

    Raises:
        `ValueError`: naming the test set.
    """
    with_text = sum(map(bool, documents))
    if with_text < 2:
        raise ValueError(
            f"{where}: shuffled context is drawn from other documents, and {with_text} of {len(documents)} documents "
            "have text on both sides. Give a test set of several documents, or leave the use of context out."
        )
    if max(map(len, documents)) < 2:
        raise ValueError(
            f"{where}: no sentence has context, since each document is one sentence. Give documents of several "
            "sentences, or leave the use of context out."
        )


def context_sizes(
    form: SystemFormat | PlainFormat, documents: Sequence[Sequence[Pair]], context_sentences: int | None = None
) -> ContextSizes:
    """
    How much context a system gets: the number given, or that which it takes of a contrastive suite.

    Raises:
        `ValueError`: for a number that the system has no room for.
    """
    if context_sentences is not None and form.own_context is not None and context_sentences > form.own_context:
        raise ValueError(
            f"`context_sentences` must be at most {form.own_context} for this model, got {context_sentences}. Leave "
            "it out to take as many as the system has room for."
        )
    longest = max(map(len, documents)) - 1
    target = context_sentences if form.has_target_context else 0
    return resolve_context(
        form, HeldContext(longest, longest, longest, 0, 0, 0), source=context_sentences, target=target
    )


def context_items(
    documents: Sequence[Sequence[Pair]], context_sentences: int, seed: int = SEED
) -> dict[str, list[ContrastiveItem]]:
    """
    Each sentence but the first of a document, in three contexts.

    Args:
        documents (`Sequence[Sequence[tuple[str, str]]]`): Pairs of source and reference sentences.
        context_sentences (`int`): Most sentences of context; near the beginning of a document there are fewer.
        seed (`int`, *optional*, defaults to 12345): Of the shuffled context. Same documents, number and seed: same
            context, whatever the system.

    Returns:
        `dict[str, list[ContrastiveItem]]`: for each of `CONTEXTS` the same sentences in the same order. `"shuffled"`
        context has as many pairs as the right one, each drawn with replacement from the pairs of all other documents.
    """
    random = np.random.default_rng(seed)
    pairs = [pair for document in documents for pair in document]
    found: dict[str, list[ContrastiveItem]] = {name: [] for name in CONTEXTS}
    first = 0  # place of the document among all pairs
    for number, document in enumerate(documents):
        for index in range(1, len(document)):
            right = list(document[max(0, index - context_sentences) : index])
            drawn = random.integers(len(pairs) - len(document), size=len(right))
            # the place of a pair behind the document, which is skipped
            shuffled = [pairs[place if place < first else place + len(document)] for place in drawn]
            for name, context in zip(CONTEXTS, (right, shuffled, []), strict=True):
                found[name].append(_item(f"{number}-{index}", document[index], context))
        first += len(document)
    return found


def _item(name: str, pair: Pair, context: Sequence[Pair]) -> ContrastiveItem:
    source, reference = pair
    return aligned_item(
        id=name,
        source=source,
        # an item is a choice of two; equal ones are one sequence, which is scored once
        candidates=[reference, reference],
        source_left=[source for source, _ in context],
        target_left=[target for _, target in context],
    )
