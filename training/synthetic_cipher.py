"""A cipher over long documents: a word has one translation, neighbours change places, and words come back often."""

import random
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from .synthetic_documents import SyntheticDocument


@dataclass(frozen=True, kw_only=True)
class CipherTask:
    """
    Documents in a language of few words, and their translation by a rule.

    Each source word translates to one target word, by a permutation that the seed draws, and some words are movers:
    before a word that is none, a mover changes places with it. Nothing of a sentence follows from the others. As words
    come back many times in a document, the only way to a translation is to look at the right place of the source.

    Args:
        vocabulary (`int`, *optional*, defaults to 32): Words of each language.
        document_words (`int`, *optional*): Words that a document chooses from; by default all.
        sentences (`int`, *optional*, defaults to 4): Sentences of a document.
        min_words, max_words (`int`, *optional*, defaults to 4 and 8): Bounds of the length of a sentence.
        movers (`float`, *optional*, defaults to 0.3): Share of the source words that are movers.
        seed (`int`, *optional*, defaults to 0): Decides on the language and on the documents.
    """

    vocabulary: int = 32
    document_words: int | None = None
    sentences: int = 4
    min_words: int = 4
    max_words: int = 8
    movers: float = 0.3
    seed: int = 0

    name: ClassVar[str] = "cipher"
    without_context: ClassVar[dict[str, float]] = {}

    def __post_init__(self):
        if self.vocabulary < 2 or self.sentences < 1:
            raise ValueError(
                "`vocabulary` must be at least 2 and `sentences` at least 1, got "
                f"{self.vocabulary} and {self.sentences}."
            )
        if self.document_words is not None and not 1 <= self.document_words <= self.vocabulary:
            raise ValueError(
                "`document_words` must be at least 1 and at most `vocabulary`, got "
                f"document_words={self.document_words} and vocabulary={self.vocabulary}."
            )
        if not 1 <= self.min_words <= self.max_words:
            raise ValueError(
                "`min_words` must be at least 1 and at most `max_words`, got "
                f"min_words={self.min_words} and max_words={self.max_words}."
            )
        if not 0 <= self.movers <= 1:
            raise ValueError(f"`movers` is a share between 0 and 1, got {self.movers}.")

    @cached_property
    def lexicon(self) -> dict[str, str]:
        """The target word of each source word."""
        order = list(range(self.vocabulary))
        random.Random(f"cipher/{self.seed}/lexicon").shuffle(order)
        return {f"s{word}": f"t{translation}" for word, translation in enumerate(order)}

    @cached_property
    def moving(self) -> frozenset[str]:
        """The source words that are movers."""
        count = round(self.movers * self.vocabulary)
        return frozenset(random.Random(f"cipher/{self.seed}/movers").sample(list(self.lexicon), count))

    def words(self) -> list[str]:
        """All words, of both sides."""
        return [*self.lexicon, *sorted(self.lexicon.values(), key=lambda word: int(word[1:]))]

    def translate(self, sentence: list[str]) -> list[str]:
        """The right translation of a source sentence."""
        order = list(sentence)
        place = 0
        while place < len(order) - 1:
            if order[place] in self.moving and order[place + 1] not in self.moving:
                order[place], order[place + 1] = order[place + 1], order[place]
                place += 1  # the mover has moved
            place += 1
        return [self.lexicon[word] for word in order]

    def document(self, split: str, index: int) -> SyntheticDocument:
        """Document `index` of a split."""
        rng = random.Random(f"cipher/{self.seed}/{split}/{index}")
        words = rng.sample(list(self.lexicon), self.document_words or self.vocabulary)
        source = [rng.choices(words, k=rng.randint(self.min_words, self.max_words)) for _ in range(self.sentences)]
        return SyntheticDocument(source, [self.translate(sentence) for sentence in source])
