"""A translated document: its sentences with and without context, what their status means, and what differs."""

import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher


# status: words for it, and how much of a look the sentence needs
STATUS_WORDS: dict[str, tuple[str, str]] = {
    "ok": ("translated", "good"),
    "empty": ("blank line", "quiet"),
    "copied": ("copied: no words in it", "quiet"),
    "source_split": ("very long: translated in pieces", "note"),
    "hit_length_limit": ("cut off: came to no end", "bad"),
    "repetition": ("repeats itself", "bad"),
    "missing": ("not translated", "bad"),
    "joined": ("holds more than one sentence", "bad"),
}
# a word, a mark, or blanks; scripts without blanks character by character
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\s+|.")


@dataclass(frozen=True)
class Row:
    """
    A sentence.

    Attributes:
        source, translation, status (`str`): As the pipeline returns them.
        alone (`str`, *optional*): Its translation without the other sentences, where there is such a comparison.
        was_read (`bool`): Whether the model saw it.
    """

    source: str
    translation: str
    status: str
    alone: str | None = None
    was_read: bool = True


@dataclass(frozen=True)
class Translation:
    """
    A translated document.

    Attributes:
        text (`str`): The translation, in the layout of the document.
        rows (`list[Row]`): One for each source sentence, blank lines included.
        recipe (`dict`): How it was made: model, system, languages, decoding, number of beams, segmentation.
        seconds (`float`): How long it took.
    """

    text: str
    rows: list[Row]
    recipe: dict[str, str | int | None] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def has_comparison(self) -> bool:
        """Whether there is a translation without context beside it."""
        return any(row.alone is not None for row in self.rows)

    @property
    def changed(self) -> int:
        """How many sentences come out otherwise without context."""
        return sum(row.alone is not None and row.alone.strip() != row.translation.strip() for row in self.rows)

    @property
    def doubtful(self) -> int:
        """How many sentences need a look."""
        return sum(STATUS_WORDS[row.status][1] == "bad" for row in self.rows)


def differing_words(first: str, second: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """
    Mark the words that two texts do not share, in order.

    Args:
        first, second (`str`): The texts.

    Returns:
        `tuple`: for each text, stretches and whether they differ; joined, the stretches are the text.
    """
    words = [_WORD.findall(text) for text in (first, second)]
    matcher = SequenceMatcher(a=words[0], b=words[1], autojunk=False)
    marked: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = ([], [])
    for kind, *bounds in matcher.get_opcodes():
        for side, start, end in ((0, *bounds[:2]), (1, *bounds[2:])):
            stretch = "".join(words[side][start:end])
            if kind == "equal":
                marked[side].append((stretch, False))
                continue
            # blanks differ unseen
            start, end = len(stretch) - len(stretch.lstrip()), len(stretch.rstrip())
            parts = ((stretch[:start], False), (stretch[start:end], True), (stretch[max(start, end) :], False))
            marked[side].extend(part for part in parts if part[0])
    return marked
