"""
Documents on their way through decoding: cut into units, and put together again.

A document is translated in units: its sentences, without the empty ones, and with a sentence that is longer than a
part cut into pieces. Every unit gets exactly one translation, so N sentences in are N sentences out.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .configuration_docmt import DocMTConfig
from .formatting_docmt import document_parts, limit_sentences


# a sentence with an n-gram of up to this size, this many times or more in a row, has the status `repetition`
REPEATED_NGRAM, REPEATED_TIMES = 4, 4


@dataclass(frozen=True)
class UnitTranslation:
    """
    The translation of a unit.

    Attributes:
        ids (`list[int]`): Tokens, without the closing one.
        log_prob (`float`): Sum over what was generated for the unit.
        num_generated (`int`): Tokens in that sum, closing ones included; 0 for a translation that was given.
        flag (`str`, *optional*): `"missing"`, `"joined"` or `"hit_length_limit"`.
    """

    ids: list[int]
    log_prob: float = 0.0
    num_generated: int = 0
    flag: str | None = None


@dataclass
class DocumentJob:
    """
    A document on its way through decoding.

    Attributes:
        sentences (`list[list[int]]`): Source ids of the N sentences.
        target_prefix (`list[list[int]]`): Given translations of the first sentences.
        units (`list[list[int]]`): Source ids of the units.
        owners (`list[int]`): Sentence of each unit.
        translations (`list[list[UnitTranslation]]`): Of each unit, best first; empty while it is not translated.
    """

    sentences: list[list[int]]
    target_prefix: list[list[int]]
    units: list[list[int]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    translations: list[list[UnitTranslation]] = field(default_factory=list)

    @classmethod
    def from_sentences(
        cls, sentences: list[list[int]], target_prefix: list[list[int]], config: DocMTConfig, num_hypotheses: int
    ) -> "DocumentJob":
        """Cut the sentences into units, and take over the translations that are given."""
        job = cls(sentences, target_prefix)
        for owner, sentence in enumerate(sentences):
            pieces = split_sentence(sentence, config)
            job.units += pieces
            job.owners += [owner] * len(pieces)
            for index in range(len(pieces)):
                given: list[UnitTranslation] = []
                if owner < len(target_prefix):
                    # all of it with the first piece: where it would be cut is not known
                    given = [UnitTranslation(target_prefix[owner] if index == 0 else [])] * num_hypotheses
                job.translations.append(given)
        return job

    @property
    def num_given(self) -> int:
        """Number of units whose translation was given."""
        return sum(owner < len(self.target_prefix) for owner in self.owners)

    def best(self, unit: int) -> list[int]:
        """Ids of the best translation of a unit."""
        return self.translations[unit][0].ids


def split_sentence(sentence: list[int], config: DocMTConfig) -> list[list[int]]:
    """The sentence as pieces of nearly equal length that fit a part each; an empty sentence has none."""
    longest = len(sentence)
    if config.max_part_tokens is not None:
        longest = max(1, math.floor((config.max_part_tokens - 1) * config.train_ratio))
    count = math.ceil(len(sentence) / longest) if sentence else 0
    bounds = [len(sentence) * index // count for index in range(count + 1)] if count else []
    return [sentence[start:end] for start, end in zip(bounds, bounds[1:], strict=False)]


def estimated_cost(length: int, config: DocMTConfig) -> float:
    """Tokens that the translation of a unit of `length` tokens takes in a part, its separator included."""
    return length / config.train_ratio + 1


def decoding_parts(job: DocumentJob, config: DocMTConfig) -> list[range]:
    """Units that share a source; a system of another format than whole parts slides over the whole document."""
    if config.sequence_format != "document":
        return [range(len(job.units))] if job.units else []
    costs = [estimated_cost(len(unit), config) for unit in job.units]
    return limit_sentences(document_parts(costs, config.max_part_tokens, config.part_splitting), config)


@dataclass(frozen=True)
class SentenceTranslation:
    """One sentence of a finished document: ids, sum of log-probabilities of what was generated, its length, status."""

    ids: list[int]
    log_prob: float
    num_generated: int
    status: str

    def score(self, length_penalty: float) -> float:
        """Log-probability divided by a power of the length; 0 where nothing was generated."""
        return self.log_prob / self.num_generated**length_penalty if self.num_generated else 0.0


def assemble(job: DocumentJob, rank: int, first: int = 0, last: int | None = None) -> list[SentenceTranslation]:
    """
    Sentences `first` to `last` (one behind) of a document, all of them by default; their units must be translated.

    Args:
        job (`DocumentJob`): The document.
        rank (`int`): Which hypothesis of each unit, 0 for the best.
        first (`int`, *optional*, defaults to 0), last (`int`, *optional*): Bounds; `None` for the end.
    """
    last = len(job.sentences) if last is None else last
    pieces: list[list[UnitTranslation]] = [[] for _ in range(first, last)]
    for unit in range(bisect_left(job.owners, first), bisect_left(job.owners, last)):
        pieces[job.owners[unit] - first].append(job.translations[unit][rank])
    sentences = [_assemble_sentence(translations) for translations in pieces]
    for index, given in enumerate(job.target_prefix[first:last]):
        if given and not job.sentences[first + index]:
            # a translation that was given for nothing is kept
            sentences[index] = replace(sentences[index], ids=list(given), status="ok")
    return sentences


def _assemble_sentence(pieces: Sequence[UnitTranslation]) -> SentenceTranslation:
    ids = [token for piece in pieces for token in piece.ids]
    flags = {piece.flag for piece in pieces}
    if not pieces:
        status = "empty"
    elif "missing" in flags or "joined" in flags:
        status = "missing" if "missing" in flags else "joined"
    elif len(pieces) > 1:
        status = "source_split"
    elif "hit_length_limit" in flags:
        status = "hit_length_limit"
    elif has_repetition(ids):
        status = "repetition"
    else:
        status = "ok"
    log_prob = sum(piece.log_prob for piece in pieces)
    return SentenceTranslation(ids, log_prob, sum(piece.num_generated for piece in pieces), status)


def has_repetition(ids: Sequence[int], ngram: int = REPEATED_NGRAM, times: int = REPEATED_TIMES) -> bool:
    """Whether an n-gram of 1 to `ngram` tokens stands `times` or more in a row."""
    for size in range(1, ngram + 1):
        equal = 0
        for index in range(size, len(ids)):
            equal = equal + 1 if ids[index] == ids[index - size] else 0
            # the first occurrence has nothing to be equal to
            if equal >= size * (times - 1):
                return True
    return False
