"""What is cleaned in a document and what is left out of a corpus, with a count of each."""

import hashlib
import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from training.documents import PER_SENTENCE_KEYS, Record


# everything that some tool takes for the end of a line, and tabs; no-break and ideographic spaces are text
LINE_BREAKS = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
BLANKS = re.compile(" {2,}")
# no word joiners or zero-width spaces: emoji, Persian, Thai and Khmer need them
INVISIBLE = re.compile("[\u00ad\ufeff]")


@dataclass
class CorpusFilter:
    """
    Decide about one document after another, and count.

    A pair with an empty side is always faulty in a parallel corpus, the other limits are off by default. In documents
    without translation no sentence is dropped, so that line i of the translation belongs to line i of the file.

    Args:
        max_sentence_words (`int`, *optional*):
            Longest sentence on either side, in words between blanks.
        max_sentence_characters (`int`, *optional*):
            The same in characters, for languages without blanks.
        max_length_ratio (`float`, *optional*):
            Largest ratio of the longer to the shorter side of a pair, in characters, 1 or more.
        drop_identical_pairs (`bool`, *optional*, defaults to `False`):
            Whether a pair with the same text on both sides is faulty.
        faulty_pairs (`str`, *optional*, defaults to `"drop_pair"`):
            `"drop_pair"` leaves a gap in the document, `"drop_document"` leaves out the document.
        min_sentences, max_sentences (`int`, *optional*):
            Sentences of a document that is kept, counted after faulty pairs are dropped.
        drop_duplicates (`bool`, *optional*, defaults to `False`):
            Whether the second document with the same sentences on both sides is left out.
        exclude_ids (`tuple[str, ...]`, *optional*):
            Documents to leave out, such as `"canary"`.
        normalize_text (`bool`, *optional*, defaults to `False`):
            Whether to clean more than what a line break could come of, see `clean_sentence`.
        parallel (`bool`, *optional*, defaults to `True`):
            Whether documents must have a translation.

    Raises:
        `ValueError`: for a limit that nothing can pass.
    """

    max_sentence_words: int | None = None
    max_sentence_characters: int | None = None
    max_length_ratio: float | None = None
    drop_identical_pairs: bool = False
    faulty_pairs: Literal["drop_pair", "drop_document"] = "drop_pair"
    min_sentences: int = 1
    max_sentences: int | None = None
    drop_duplicates: bool = False
    exclude_ids: tuple[str, ...] = ()
    normalize_text: bool = False
    parallel: bool = True

    counts: Counter[str] = field(default_factory=Counter)
    dropped_documents: Counter[str] = field(default_factory=Counter)
    dropped_pairs: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for name in ("max_sentence_words", "max_sentence_characters", "max_sentences"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be 1 or more, got {value}. Leave it out for no limit.")
        if self.max_length_ratio is not None and self.max_length_ratio < 1:
            raise ValueError(f"`max_length_ratio` must be 1 or more (longer by shorter), got {self.max_length_ratio}.")
        if self.min_sentences < 0 or (self.max_sentences is not None and self.max_sentences < self.min_sentences):
            raise ValueError(
                "`min_sentences` must be 0 or more and at most `max_sentences`, got "
                f"min_sentences={self.min_sentences} and max_sentences={self.max_sentences}."
            )
        self._ids: set[str] = set()
        self._contents: set[bytes] = set()

    def apply(self, record: Record) -> Record | None:
        """Return the cleaned document with an id of its own, or `None` if it is left out."""
        self.counts["documents_in"] += 1
        self.counts["sentences_in"] += len(record["src"])
        record, reason = self._checked(_cleaned(record, self.normalize_text))
        if reason is not None:
            self.dropped_documents[reason] += 1
            return None
        record["id"] = self._unique_id(record["id"])
        self.counts["documents_out"] += 1
        self.counts["sentences_out"] += len(record["src"])
        for side, name in (("src", "source_words"), ("tgt", "target_words")):
            self.counts[name] += sum(len(sentence.split()) for sentence in record.get(side, ()))
        return record

    def _checked(self, record: Record) -> tuple[Record, str | None]:
        """Return the document without faulty pairs, and the reason to leave it out, if there is one."""
        if record["id"] in self.exclude_ids:
            return record, "excluded_id"
        if self.parallel and "tgt" not in record:
            return record, "no_translation"
        if self.parallel:
            faults = [self._fault(*pair) for pair in zip(record["src"], record["tgt"], strict=True)]
            self.dropped_pairs.update(fault for fault in faults if fault is not None)
            kept = [position for position, fault in enumerate(faults) if fault is None]
            if len(kept) < len(faults):
                if self.faulty_pairs == "drop_document":
                    return record, "faulty_pairs"
                record = select_sentences(record, kept)
        if len(record["src"]) < self.min_sentences:
            return record, "too_few_sentences"
        if self.max_sentences is not None and len(record["src"]) > self.max_sentences:
            return record, "too_many_sentences"
        if self.drop_duplicates and self._is_known(record):
            return record, "duplicate"
        return record, None

    def _fault(self, source: str, target: str) -> str | None:
        if not source or not target:
            return "empty_side"
        longest_words = max(len(source.split()), len(target.split()))
        shorter, longer = sorted((len(source), len(target)))
        if self.max_sentence_words is not None and longest_words > self.max_sentence_words:
            return "too_many_words"
        if self.max_sentence_characters is not None and longer > self.max_sentence_characters:
            return "too_many_characters"
        if self.max_length_ratio is not None and longer > self.max_length_ratio * shorter:
            return "length_ratio"
        if self.drop_identical_pairs and source == target:
            return "identical_sides"
        return None

    def _is_known(self, record: Record) -> bool:
        # 16 bytes a document, where the sentences themselves would not fit into memory
        content = json.dumps([record["src"], record.get("tgt")]).encode()
        digest = hashlib.blake2b(content, digest_size=16).digest()
        if digest in self._contents:
            return True
        self._contents.add(digest)
        return False

    def _unique_id(self, name: str) -> str:
        unique, count = name, 1
        while unique in self._ids:
            count += 1
            unique = f"{name}#{count}"
        self.counts["ids_made_unique"] += unique != name
        self._ids.add(unique)
        return unique

    def report(self) -> dict[str, Any]:
        """Return the counts, and what was dropped for which reason with its share, as for a JSON file."""
        names = ("documents_in", "documents_out", "sentences_in", "sentences_out", "source_words", "target_words")
        return {
            "counts": {name: self.counts[name] for name in (*names, "ids_made_unique")},
            "dropped_documents": _shares(self.dropped_documents, self.counts["documents_in"]),
            "faulty_pairs": _shares(self.dropped_pairs, self.counts["sentences_in"]),
        }


def _shares(reasons: Counter[str], total: int) -> dict[str, dict[str, float]]:
    counts = sorted((reason, count) for reason, count in reasons.items() if count)
    return {reason: {"count": count, "share": round(count / total, 6)} for reason, count in counts}


def clean_sentence(sentence: str, normalize: bool = False) -> str:
    """
    Replace tabs and everything that may end a line (U+2028, form feed, ...) by one blank, and trim the ends.

    With `normalize`, also compose characters (NFC), drop soft hyphens and byte order marks, and leave one blank of
    several in a row.
    """
    if normalize:
        sentence = INVISIBLE.sub("", unicodedata.normalize("NFC", sentence))
        return BLANKS.sub(" ", LINE_BREAKS.sub(" ", sentence)).strip()
    parts = (part.strip(" ") for part in LINE_BREAKS.split(sentence))
    return " ".join(part for part in parts if part).strip()


def _cleaned(record: Record, normalize: bool) -> Record:
    cleaned = {**record, "src": [clean_sentence(sentence, normalize) for sentence in record["src"]]}
    if "tgt" in record:
        cleaned["tgt"] = [clean_sentence(sentence, normalize) for sentence in record["tgt"]]
    if "alt" in record:
        cleaned["alt"] = {
            name: [clean_sentence(sentence, normalize) for sentence in sentences]
            for name, sentences in record["alt"].items()
        }
    return cleaned


def select_sentences(record: Record, positions: list[int]) -> Record:
    """
    Keep the sentences of a document at `positions`, with their entries in `para`, `score` and `alt`.
    """
    selected = dict(record)
    for key in ("src", "tgt", *PER_SENTENCE_KEYS):
        value = record.get(key)
        if isinstance(value, list):
            selected[key] = [value[position] for position in positions]
        elif isinstance(value, dict):
            selected[key] = {name: [entries[p] for p in positions] for name, entries in value.items()}
    return selected
