"""
Documents of made-up words with one right translation: what the tasks of `training.synthetic` have in common.

A task makes documents of words. They become records, which all other commands read, or token ids, without a tokenizer.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol


# ids below are the special tokens of `DocMTConfig`; the indexed separators follow them, then the words
FIRST_SEPARATOR = 10


@dataclass(frozen=True)
class Mark:
    """
    A target word whose translation is a question of its own.

    Attributes:
        phenomenon (`str`): What the question is about.
        distance (`int`): Sentences from the word back to the one that answers it.
        sentence (`int`): Sentence of the word in its document, from 0.
        word (`int`): Place of the word in its target sentence, from 0.
    """

    phenomenon: str
    distance: int
    sentence: int
    word: int


@dataclass(frozen=True)
class SyntheticDocument:
    """Words of N source sentences and of their N translations, and the words that are asked for."""

    source: list[list[str]]
    target: list[list[str]]
    marks: list[Mark] = field(default_factory=list)


class SyntheticTask(Protocol):
    """
    A source of documents.

    Attributes:
        name (`str`): Of the task.
        without_context (`dict[str, float]`):
            For each phenomenon of its marks, the best accuracy of one who knows nothing but the current sentence.
    """

    name: ClassVar[str]
    without_context: ClassVar[dict[str, float]]

    def __hash__(self) -> int: ...

    def words(self) -> list[str]:
        """All words, of both sides."""

    def document(self, split: str, index: int) -> SyntheticDocument:
        """Document `index` of a split; it depends on the options of the task and on nothing else."""


def make_documents(task: SyntheticTask, split: str, count: int) -> Iterator[SyntheticDocument]:
    """The first documents of a split, such as `"train"`; a longer corpus begins with a shorter one."""
    return (task.document(split, index) for index in range(count))


# systems learn from the same documents, one after the other
@functools.lru_cache(maxsize=4)
def documents_of_words(task: SyntheticTask, split: str, words: int) -> tuple[SyntheticDocument, ...]:
    """The first documents of a split that have so many target words together."""
    documents = []
    for index in itertools.count():
        documents.append(task.document(split, index))
        words -= sum(map(len, documents[-1].target))
        if words <= 0:
            return tuple(documents)
    raise AssertionError("a count has no end")


def as_record(document: SyntheticDocument, name: str) -> dict[str, Any]:
    """
    A document as the record that all commands read, with its marks under `"marks"`.

    Args:
        document (`SyntheticDocument`): Words.
        name (`str`): Its `"id"`.
    """
    record: dict[str, Any] = {"id": name, "src_lang": "xx", "tgt_lang": "yy"}
    record |= {"src": [" ".join(s) for s in document.source], "tgt": [" ".join(s) for s in document.target]}
    if document.marks:
        record["marks"] = [vars(mark) for mark in document.marks]
    return record


class WordVocabulary:
    """
    Token ids of the words of a task, behind special tokens and indexed separators.

    Args:
        words (`Sequence[str]`): All words.
        indexed_separators (`int`, *optional*, defaults to 63): How many of them.
    """

    def __init__(self, words: Sequence[str], indexed_separators: int = 63):
        if len(set(words)) < len(words):
            raise ValueError(f"`words` must differ from each other, got {len(words)} with repetitions.")
        self.indexed_separators = indexed_separators
        self.first_word = FIRST_SEPARATOR + indexed_separators
        self._ids = {word: self.first_word + index for index, word in enumerate(words)}

    def __len__(self) -> int:
        """Tokens of all kinds."""
        return self.first_word + len(self._ids)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """Ids of the words of each sentence."""
        return [[self._ids[word] for word in sentence] for sentence in sentences]

    def config_fields(self) -> dict[str, int]:
        """What a `DocMTConfig` needs to know of this vocabulary."""
        return {
            "vocab_size": len(self),
            "first_separator_token_id": FIRST_SEPARATOR,
            "num_indexed_separators": self.indexed_separators,
        }
