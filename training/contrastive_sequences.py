"""
From the items of a contrastive suite to what a model reads and predicts, in the document format of its system.

DocMT models get context as they were trained with it (`format_window`): whole-document systems as many sentences as
wanted, `concat-adj` at most its own k, `sentence-level` none. Other sequence-to-sequence models get one sentence, or
sentences joined by a text of the user's choice. Context on the target side is that of the candidate, which is the
reference's.

A pair of context sentences that is missing on both sides is left out, as training leaves it out; of one that is
missing on one side a DocMT model gets an empty sentence there, so that sentence i goes on translating sentence i.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from modeling_docmt.configuration_docmt import DocMTConfig
from modeling_docmt.documents_docmt import encode_sentences
from modeling_docmt.formatting_docmt import Window, context_window, format_window, source_context_window

from .contrastive_items import ContrastiveItem, HeldContext


PRESETS = ("standard", "S0")
SCORE_SPANS = ("all", "current", "current+right")
# context sentences that are taken without being asked for
STANDARD_CONTEXT = 4
S0_CONTEXT = 2


@dataclass(frozen=True)
class ContextSizes:
    """
    Context sentences of a sequence.

    Args:
        source, target (`int`): Before the sentence in question, on each side.
        right (`int`, *optional*, defaults to 0): Behind it, on both sides.
    """

    source: int
    target: int
    right: int = 0


@dataclass(frozen=True)
class ItemSequences:
    """
    What a model reads of an item, and predicts.

    Candidates of the same token ids are there once: they are scored once, and tie.

    Args:
        source (`list[int]`): Source ids, with all special tokens.
        targets (`list[list[int]]`): Distinct labels.
        scored (`list[range]`): Positions of each whose probabilities count.
        candidates (`list[int]`): For each candidate, its labels.
        missing_source, missing_target (`bool`): Whether the item has less context than was asked for.
        sentences (`int`): Sentences of the source sequence.
    """

    source: list[int]
    targets: list[list[int]]
    scored: list[range]
    candidates: list[int]
    missing_source: bool
    missing_target: bool
    sentences: int


@dataclass(frozen=True)
class _Pieces:
    """Token ids of the sentences of an item that go into a sequence, and which of them is in question."""

    source: list[list[int]]
    candidates: list[list[list[int]]]
    current: int
    missing_source: bool
    missing_target: bool


class SentenceCache:
    """
    Encodes each sentence once.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): Any tokenizer.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.tokenizer = tokenizer
        self._ids: tuple[dict[str, list[int]], dict[str, list[int]]] = ({"": []}, {"": []})

    def fill(self, items: Iterable[ContrastiveItem]) -> None:
        """Encode all sentences of items, many at a time."""
        items = list(items)
        texts = (
            {text for item in items for text in item.source},
            {text for item in items for candidate in item.candidates for text in candidate},
        )
        for known, wanted, target in zip(self._ids, texts, (False, True), strict=True):
            new = sorted(wanted - known.keys())
            known.update(zip(new, encode_sentences(self.tokenizer, new, target=target), strict=True))

    def source(self, text: str) -> list[int]:
        """Ids of a source sentence, without special tokens."""
        return self._ids[0][text]

    def target(self, text: str) -> list[int]:
        """Ids of a target sentence, without special tokens."""
        return self._ids[1][text]


class SystemFormat:
    """
    Sequences of a DocMT system.

    Args:
        config (`DocMTConfig`): The model.
    """

    def __init__(self, config: DocMTConfig):
        self.config = config

    @property
    def own_context(self) -> int | None:
        """Left sentences that the format has room for; `None`: any number."""
        if self.config.sequence_format == "document":
            return None
        return self.config.context_sentences

    @property
    def has_target_context(self) -> bool:
        """Whether there is context on the target side at all."""
        return self.config.sequence_format in ("document", "context_window")

    def sequence(self, pieces: _Pieces, candidate: list[list[int]], span: str) -> tuple[list[int], list[int], range]:
        """Source ids, labels, and the positions of the labels that count."""
        window = self._window(pieces)
        source, labels = format_window(pieces.source, candidate, window, self.config)
        behind = window.first if self.config.sequence_format != "source_context" else window.current
        index = pieces.current - behind + window.bod
        separators = frozenset(self.config.separator_ids())
        # one behind the last token of each sentence, what closes it included
        ends = [place + 1 for place, token in enumerate(labels) if token in separators] + [len(labels)]
        return source, labels, _scored([0, *ends], index, span)

    def _window(self, pieces: _Pieces) -> Window:
        current, size = pieces.current, self.config.context_sentences
        if self.config.sequence_format == "context_window":
            return context_window(current, size)
        if self.config.sequence_format == "source_context":
            return source_context_window(current, size)
        if self.config.sequence_format == "sentence":
            return Window(first=current, last=current + 1, current=current)
        return Window(first=0, last=len(pieces.source), current=current)

    def is_over_limit(self, sequences: ItemSequences) -> bool:
        """Whether a sequence is longer than those that the model was trained with."""
        if self.config.sequence_format != "document":
            return False
        tokens, sentences = self.config.max_part_tokens, self.config.max_part_sentences
        longest = max(map(len, (sequences.source, *sequences.targets)))
        return (tokens is not None and longest > tokens) or (sentences is not None and sequences.sentences > sentences)


class PlainFormat:
    """
    Sequences of any other model: what its tokenizer makes of a sentence, or of sentences with a text between them.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        separator (`str`, *optional*):
            What stands between two sentences, which may be a special token; `None`: the model takes one sentence.
        max_positions (`int`, *optional*): Longest sequence that the model takes, in tokens.
    """

    has_target_context = True

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, separator: str | None = None, max_positions: int | None = None
    ):
        self.own_context = 0 if separator is None else None
        self.max_positions = max_positions
        self._around = [_special_tokens(tokenizer, side) for side in ("text", "text_target")]
        self._between = [
            list(tokenizer(**{side: separator or ""}, add_special_tokens=False)["input_ids"])
            for side in ("text", "text_target")
        ]

    def sequence(self, pieces: _Pieces, candidate: list[list[int]], span: str) -> tuple[list[int], list[int], range]:
        """Source ids, labels, and the positions of the labels that count."""
        (source, _), (labels, ends) = self._join(pieces.source, 0), self._join(candidate, 1)
        if self.max_positions is not None and max(len(source), len(labels)) > self.max_positions:
            raise ValueError(
                f"a sequence of {max(len(source), len(labels))} tokens is longer than the {self.max_positions} "
                "positions of the model: take less context."
            )
        return source, labels, _scored(ends, pieces.current, span)

    def _join(self, sentences: Sequence[list[int]], side: int) -> tuple[list[int], list[int]]:
        """The whole sequence; and where each sentence ends, what closes it included, 0 in front."""
        before, behind = self._around[side]
        ids, ends = list(before), [0]
        last = max(index for index, sentence in enumerate(sentences) if sentence)
        for index, sentence in enumerate(sentences):
            ids += sentence
            if sentence:
                ids += behind if index == last else self._between[side]
            ends.append(len(ids))
        return ids, ends

    def is_over_limit(self, sequences: ItemSequences) -> bool:
        """Never: such sequences are refused."""
        return False


def _special_tokens(tokenizer: PreTrainedTokenizerBase, side: str) -> tuple[list[int], list[int]]:
    """What a tokenizer puts in front of a sentence and behind it."""
    whole = list(tokenizer(**{side: "a"})["input_ids"])
    bare = list(tokenizer(**{side: "a"}, add_special_tokens=False)["input_ids"])
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return whole[:start], whole[start + len(bare) :]
    raise ValueError(f"The tokenizer does not put special tokens around a sentence: {bare} becomes {whole}.")


def _scored(ends: Sequence[int], index: int, span: str) -> range:
    """Positions that count, of sentences that end at `ends[1:]`."""
    if span == "all":
        return range(ends[-1])
    return range(ends[index], ends[index + 1] if span == "current" else ends[-1])


def resolve_context(
    form: SystemFormat | PlainFormat,
    held: HeldContext,
    *,
    preset: str = "standard",
    source: int | None = None,
    target: int | None = None,
    right: int | None = None,
) -> ContextSizes:
    """
    How much context a system gets of a suite.

    Unless numbers are given, a preset takes no more than the suite holds on both sides. `"standard"`: context on the
    left alone, 4 sentences at most. `"S0"`: 2 on each side, for systems that read whole documents; Herold and Ney
    (2023) take 4 context sentences of both directions, and do not say how they divide them. Systems with a number of
    context sentences of their own take these.

    Args:
        form (`SystemFormat` or `PlainFormat`): The system.
        held (`HeldContext`): What the suite has.
        preset (`str`, *optional*, defaults to `"standard"`): `"standard"` or `"S0"`.
        source, target, right (`int`, *optional*): In place of the preset, see [`ContextSizes`].

    Raises:
        `ValueError`: for a number that the system has no room for.
    """
    if preset not in PRESETS:
        raise ValueError(f"`preset` must be one of {', '.join(map(repr, PRESETS))}, got {preset!r}.")
    own = form.own_context
    wanted = S0_CONTEXT if preset == "S0" and own is None else STANDARD_CONTEXT
    room = wanted if own is None else own
    left = min(room, held.both_left)
    sizes = ContextSizes(
        # a source without a target beside it needs none in the data either
        source=(left if form.has_target_context else min(room, held.source_left)) if source is None else source,
        target=(left if form.has_target_context else 0) if target is None else target,
        right=(min(wanted, held.both_right) if preset == "S0" and own is None else 0) if right is None else right,
    )
    check_context(form, sizes)
    return sizes


def check_context(form: SystemFormat | PlainFormat, sizes: ContextSizes) -> None:
    """Raise `ValueError` where a system has no room for so much context."""
    limits = {
        "source_context_sentences": (sizes.source, form.own_context),
        "target_context_sentences": (sizes.target, form.own_context if form.has_target_context else 0),
        "right_context_sentences": (sizes.right, None if form.own_context is None else 0),
    }
    for name, (value, limit) in limits.items():
        if value < 0:
            raise ValueError(f"`{name}` must be 0 or more, got {value}.")
        if limit is not None and value > limit:
            reason = "its sequences hold no more"
            if isinstance(form, PlainFormat):
                reason = "to give a model of another kind context, name what separates sentences with `--separator`"
            raise ValueError(f"`{name}` must be at most {limit} for this model, got {value}: {reason}.")


def build_sequences(
    items: Sequence[ContrastiveItem],
    form: SystemFormat | PlainFormat,
    cache: SentenceCache,
    sizes: ContextSizes,
    span: str = "all",
) -> list[ItemSequences]:
    """
    The sequences of each item, in their order.

    Args:
        items (`Sequence[ContrastiveItem]`): A suite.
        form (`SystemFormat` or `PlainFormat`): The format of the system.
        cache (`SentenceCache`): Encodes sentences.
        sizes (`ContextSizes`): How much context.
        span (`str`, *optional*, defaults to `"all"`):
            Which target tokens count: `"all"`; `"current"`, those of the sentence in question and what closes it;
            `"current+right"`, from that sentence on.
    """
    if span not in SCORE_SPANS:
        raise ValueError(f"`span` must be one of {', '.join(map(repr, SCORE_SPANS))}, got {span!r}.")
    check_context(form, sizes)
    cache.fill(items)
    found = []
    for item in items:
        try:
            found.append(_item_sequences(_select(item, cache, sizes), form, span))
        except ValueError as error:
            raise ValueError(f"item {item.id!r}: {error}") from error
    return found


def _select(item: ContrastiveItem, cache: SentenceCache, sizes: ContextSizes) -> _Pieces:
    """The sentences of an item within the sizes; pairs that are missing on both sides are left out."""
    kept: list[tuple[int, list[int], list[list[int]]]] = []
    for index, text in enumerate(item.source):
        distance = item.current - index
        source = cache.source(text) if -sizes.right <= distance <= sizes.source else []
        targets: list[list[int]] = [[] for _ in item.candidates]
        if -sizes.right <= distance <= sizes.target:
            targets = [cache.target(candidate[index]) for candidate in item.candidates]
        if index == item.current or source or any(targets):
            kept.append((index, source, targets))
    context = [(source, targets) for index, source, targets in kept if index != item.current]
    return _Pieces(
        source=[source for _, source, _ in kept],
        candidates=[[targets[number] for _, _, targets in kept] for number in range(len(item.candidates))],
        current=[index for index, _, _ in kept].index(item.current),
        missing_source=sum(bool(source) for source, _ in context) < sizes.source + sizes.right,
        missing_target=sum(any(targets) for _, targets in context) < sizes.target + sizes.right,
    )


def _item_sequences(pieces: _Pieces, form: SystemFormat | PlainFormat, span: str) -> ItemSequences:
    numbers: dict[tuple[int, ...], int] = {}
    source: list[int] = []
    targets: list[list[int]] = []
    scored: list[range] = []
    candidates: list[int] = []
    for candidate in pieces.candidates:
        source, labels, positions = form.sequence(pieces, candidate, span)
        key = tuple(labels)
        if key not in numbers:
            numbers[key] = len(targets)
            targets.append(labels)
            scored.append(positions)
        candidates.append(numbers[key])
    return ItemSequences(
        source=source,
        targets=targets,
        scored=scored,
        candidates=candidates,
        missing_source=pieces.missing_source,
        missing_target=pieces.missing_target,
        sentences=len(pieces.source),
    )


def common_prefix(targets: Sequence[Sequence[int]]) -> int:
    """Tokens with which all of them begin."""
    return len(os.path.commonprefix([list(target) for target in targets]))
