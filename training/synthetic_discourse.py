"""Documents whose words can be translated only with what was said before, at distances that are known."""

import random
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from .synthetic_documents import Mark, SyntheticDocument


GENDERS = ("masculine", "feminine", "neuter")
PRONOUNS = dict(zip(GENDERS, ("er", "sie", "es"), strict=True))
RELATIVES = dict(zip(GENDERS, ("der", "die", "das"), strict=True))
# what the first sentence of a document says, and how the reader is called from then on
GREETINGS = {"hi": ("hallo", "du"), "sir": ("herr", "Sie")}
# what stands beside the first mention of a term, and the sense that it settles
FIELDS = {"law": ("recht", "a"), "music": ("musik", "b")}


@dataclass
class _Slot:
    """A source word with its translation; with a phenomenon where that needs an answer."""

    source: str
    target: str
    phenomenon: str | None = None
    distance: int = 0


@dataclass
class _Draft:
    """A document in the making."""

    sentences: list[list[_Slot]]
    # where a further noun would change what a pronoun refers to
    closed: set[int] = field(default_factory=set)
    # where two terms would share what settles the sense
    with_field: set[int] = field(default_factory=set)
    with_term: set[int] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class DiscourseTask:
    """
    Documents with four questions, three of which the current sentence does not answer.

    - `"pronoun"`: "it" is "er", "sie" or "es" by the gender of the last noun, which stands in an earlier sentence. The
      noun itself shows its gender on neither side: it has to be learned.
    - `"formality"`: "you" is "du" or "Sie" by the greeting in the first sentence.
    - `"term"`: a term has two translations. Beside its first mention the source names a field, which settles the one
      that is kept; beside the second mention nothing does.
    - `"control"`: "which" is "der", "die" or "das" by the gender of the noun in the same sentence. It needs what a
      pronoun needs, but no context.

    A noun has one pronoun at most, a document one "you", a term two mentions, so that nothing in between repeats the
    answer. All other words have one translation, and words keep their order.

    Args:
        sentences (`int`, *optional*, defaults to 12): Sentences of a document.
        distances (`tuple[int, ...]`, *optional*, defaults to (1, 2, 3, 5, 8, 10)):
            Sentences from an answer to its question. Those of a document are drawn with equal chances; a pronoun
            beside the first one of a document gets what there is room for.
        min_words (`int`, *optional*, defaults to 3): Sentences with fewer words are filled up.
        fillers (`int`, *optional*, defaults to 24): Further words of the language.
        nouns (`int`, *optional*, defaults to 24): Nouns, of three genders in equal parts.
        terms (`int`, *optional*, defaults to 6): Terms of two translations.
        terms_per_document (`int`, *optional*, defaults to 2): Those that a document has.
        seed (`int`, *optional*, defaults to 0): Decides on genders and on the documents.
    """

    sentences: int = 12
    distances: tuple[int, ...] = (1, 2, 3, 5, 8, 10)
    min_words: int = 3
    fillers: int = 24
    nouns: int = 24
    terms: int = 6
    terms_per_document: int = 2
    seed: int = 0

    name: ClassVar[str] = "discourse"
    without_context: ClassVar[dict[str, float]] = {"pronoun": 1 / 3, "formality": 1 / 2, "term": 1 / 2, "control": 1.0}

    def __post_init__(self):
        # YAML has lists, and a task is hashed
        object.__setattr__(self, "distances", tuple(self.distances))
        if not self.distances or min(self.distances) < 1 or max(self.distances) >= self.sentences:
            raise ValueError(
                "`distances` must lie between 1 and `sentences` - 1, got "
                f"distances={self.distances} and sentences={self.sentences}."
            )
        if self.nouns < len(GENDERS) or self.nouns % len(GENDERS):
            raise ValueError(f"`nouns` must be a multiple of {len(GENDERS)}, got {self.nouns}.")
        if not 0 <= self.terms_per_document <= self.terms:
            raise ValueError(
                "`terms_per_document` must be at most `terms`, got "
                f"terms_per_document={self.terms_per_document} and terms={self.terms}."
            )
        if self.fillers < 1:
            raise ValueError(f"`fillers` must be positive, got {self.fillers}.")

    @cached_property
    def genders(self) -> dict[str, str]:
        """The gender of each source noun."""
        genders = [GENDERS[number % len(GENDERS)] for number in range(self.nouns)]
        random.Random(f"discourse/{self.seed}/genders").shuffle(genders)
        return {f"noun{number}": gender for number, gender in enumerate(genders)}

    def words(self) -> list[str]:
        """All words, of both sides."""
        numbered = [f"word{number}" for number in range(self.fillers)] + list(self.genders)
        terms = [f"term{number}" for number in range(self.terms)]
        source = [*numbered, *terms, "it", "which", "you", *GREETINGS, *FIELDS]
        target = [word.capitalize() for word in numbered]
        target += [f"{term.capitalize()}{sense}" for term in terms for _, sense in FIELDS.values()]
        target += [*PRONOUNS.values(), *RELATIVES.values()]
        target += [word for pair in GREETINGS.values() for word in pair] + [word for word, _ in FIELDS.values()]
        return source + target

    def document(self, split: str, index: int) -> SyntheticDocument:
        """Document `index` of a split."""
        rng = random.Random(f"discourse/{self.seed}/{split}/{index}")
        draft = _Draft([[] for _ in range(self.sentences)])
        self._add_formality(draft, rng)
        self._add_pronouns(draft, rng, range(self.sentences))
        self._add_controls(draft, rng)
        for number in rng.sample(range(self.terms), self.terms_per_document):
            self._add_term(draft, rng, f"term{number}")
        return self._finish(draft, rng)

    def _add_formality(self, draft: _Draft, rng: random.Random) -> None:
        greeting, (translation, pronoun) = rng.choice(list(GREETINGS.items()))
        distance = rng.choice(self.distances)
        draft.sentences[0].append(_Slot(greeting, translation))
        draft.sentences[distance].append(_Slot("you", pronoun, "formality", distance))

    def _add_pronouns(self, draft: _Draft, rng: random.Random, place: range) -> None:
        """A noun and its pronoun within `place`, then others in what is left on both sides."""
        fitting = [distance for distance in self.distances if distance < len(place)]
        if not fitting:
            return
        distance = rng.choice(fitting)
        first = place.start + rng.randrange(len(place) - distance)
        noun, gender = rng.choice(list(self.genders.items()))
        draft.sentences[first].append(_Slot(noun, noun.capitalize()))
        draft.sentences[first + distance].append(_Slot("it", PRONOUNS[gender], "pronoun", distance))
        draft.closed.update(range(first, first + distance + 1))
        self._add_pronouns(draft, rng, range(place.start, first))
        self._add_pronouns(draft, rng, range(first + distance + 1, place.stop))

    def _add_controls(self, draft: _Draft, rng: random.Random) -> None:
        for index, sentence in enumerate(draft.sentences):
            if index not in draft.closed:
                noun, gender = rng.choice(list(self.genders.items()))
                sentence.append(_Slot(noun, noun.capitalize()))
                sentence.append(_Slot("which", RELATIVES[gender], "control", 0))

    def _add_term(self, draft: _Draft, rng: random.Random, term: str) -> None:
        """Two mentions, the first beside a field; none where other terms leave no room at the distance drawn."""
        distance = rng.choice(self.distances)
        starts = [
            start
            for start in range(self.sentences - distance)
            if start not in draft.with_term and start + distance not in draft.with_field
        ]
        if not starts:
            return
        first = rng.choice(starts)
        name, (translation, sense) = rng.choice(list(FIELDS.items()))
        word = f"{term.capitalize()}{sense}"
        draft.sentences[first] += [_Slot(name, translation), _Slot(term, word)]
        draft.sentences[first + distance].append(_Slot(term, word, "term", distance))
        draft.with_field.add(first)
        draft.with_term.update((first, first + distance))

    def _finish(self, draft: _Draft, rng: random.Random) -> SyntheticDocument:
        marks = []
        for index, sentence in enumerate(draft.sentences):
            while len(sentence) < self.min_words:
                number = rng.randrange(self.fillers)
                sentence.append(_Slot(f"word{number}", f"Word{number}"))
            rng.shuffle(sentence)
            marks += [
                Mark(slot.phenomenon, slot.distance, index, place)
                for place, slot in enumerate(sentence)
                if slot.phenomenon is not None
            ]
        source = [[slot.source for slot in sentence] for sentence in draft.sentences]
        return SyntheticDocument(source, [[slot.target for slot in sentence] for sentence in draft.sentences], marks)
