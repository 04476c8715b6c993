"""Sentences of our own on a card, translated behind the sentence before and alone: what does the context do?"""

import re
from collections.abc import Callable, Sequence

from .card_results import Json
from .scores import table


# by whether the answer is in the translation with context, and in the one without
EFFECTS = {
    (True, False): "helps",
    (True, True): "is not needed",
    (False, False): "does not help",
    (False, True): "harms",
}


def context_example_table(
    examples: Sequence[Json], translate: Callable[..., list[list[str]]], reads_context: bool = True
) -> list[str]:
    """
    Lay out sentences whose translation hangs on the sentence before, those first whose context helps.

    Args:
        examples (`Sequence[dict]`):
            `context`, the sentence before; `source`; `answer`, the word that its translation must have because of it.
        translate (`Callable`):
            From documents to the translations of their sentences.
        reads_context (`bool`, *optional*, defaults to `True`):
            Whether the model sees more than a sentence; there is no table of one that does not.

    Raises:
        `ValueError`: for an example that lacks one of the three.
    """
    for example in examples:
        missing = [name for name in ("context", "source", "answer") if not example.get(name)]
        if missing:
            raise ValueError(
                f"`context_examples` must have context, source and answer; {missing[0]!r} is missing in {example}."
            )
    if not examples or not reads_context:
        return []
    together = translate([[example["context"], example["source"]] for example in examples])
    alone = translate([[example["source"]] for example in examples])
    rows = []
    for example, (context, with_it), (without_it,) in zip(examples, together, alone, strict=True):
        effect = EFFECTS[has_word(with_it, example["answer"]), has_word(without_it, example["answer"])]
        rows.append((effect, [example["context"], context, example["source"], with_it, without_it, example["answer"]]))
    order = list(EFFECTS.values())
    rows.sort(key=lambda row: order.index(row[0]))
    header = ["first", "its translation", "then", "translated behind it", "translated alone", "right", "the context"]
    cells = [[*(cell.replace("|", "\\|") for cell in sentences), effect] for effect, sentences in rows]
    return table(header, cells, texts=len(header))


def has_word(text: str, word: str) -> bool:
    """Whether a word is in a text, in small letters or with a capital."""
    return re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) is not None
