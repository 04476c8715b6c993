"""
What one model sequence holds: from the sentences of a document to the token ids that a system sees, and back.

The neutral form of a document is `F_1 <sep> F_2 <sep> ... F_N <eos>`: what the tokenizer returns and what
`generate()` takes and gives. The functions here turn it into windows and parts of each system and are shared by the
training data and by decoding, so that the two cannot differ.
"""

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .configuration_docmt import TRAINING_RESOLUTIONS, DocMTConfig, required_token


@dataclass(frozen=True)
class Window:
    """
    Consecutive sentences that go through the model as one sequence.

    Attributes:
        first (`int`): First sentence of the sequence, from 0.
        last (`int`): One behind the last sentence.
        current (`int`): First sentence that is translated; those before it are context.
        bod (`bool`): Whether the pseudo-sentence `<bod>` stands in front (Herold and Ney 2023, on concatenation).
    """

    first: int
    last: int
    current: int
    bod: bool = False


def neutral_to_sentences(ids: Iterable[int], config: DocMTConfig) -> list[list[int]]:
    """
    Cut the neutral form of a document into its sentences, without special tokens.

    Padding, the decoder start token in first place and `<sos>` are dropped, and what follows `<eos>` is not read.

    Args:
        ids (`Iterable[int]`): Token ids of one document; -100 counts as padding.
        config (`DocMTConfig`): Names the special tokens.

    Returns:
        `list[list[int]]`: N sentences, empty ones included. A document of nothing but padding has none, `<eos>` alone
        is one empty sentence.
    """
    ignored = {config.pad_token_id, config.bos_token_id, config.bod_token_id, config.sos_token_id}
    return cut_sentences(
        ids,
        separators=set(config.separator_ids()),
        end=config.eos_token_id,
        start=config.decoder_start_token_id,
        ignored=ignored,
    )


def cut_sentences(
    ids: Iterable[int], *, separators: set[int], end: int | None, ignored: set[int | None], start: int | None = None
) -> list[list[int]]:
    """
    Cut token ids at separators, up to the end token.

    Args:
        ids (`Iterable[int]`): Token ids of one document.
        separators (`set[int]`): Tokens that stand between two sentences.
        end (`int`, *optional*): Token behind which nothing is read.
        ignored (`set[int]`): Tokens that are left out, and alone make no sentence; -100 always is.
        start (`int`, *optional*): Token that is left out in first place.

    Returns:
        `list[list[int]]`: sentences, empty ones included; none if there is no token but ignored ones.
    """
    sentences: list[list[int]] = []
    sentence: list[int] = []
    started = False
    for position, token in enumerate(ids):
        if position == 0 and token == start:
            continue
        if token == end:
            return [*sentences, sentence]
        if token in ignored or token == -100:
            continue
        started = True
        if token in separators:
            sentences.append(sentence)
            sentence = []
        else:
            sentence.append(token)
    return [*sentences, sentence] if started else []


def sentences_to_neutral(sentences: Sequence[Sequence[int]], config: DocMTConfig) -> list[int]:
    """Join N sentences of token ids to the neutral form; no sentence gives an empty list."""
    if not sentences:
        return []
    ids = list(sentences[0])
    for sentence in sentences[1:]:
        ids += [required_token(config, "sep_token_id"), *sentence]
    return [*ids, required_token(config, "eos_token_id")]


def separator_after(index: int, config: DocMTConfig) -> int:
    """
    Id of the separator behind sentence `index` (from 0) of a sequence.

    Raises:
        `ValueError`: if the sequence has more sentences than the vocabulary has indexed separators.
    """
    if not config.indexed_separators:
        return required_token(config, "sep_token_id")
    if index >= config.num_indexed_separators:
        raise ValueError(
            f"A sequence may hold at most {config.num_indexed_separators + 1} sentences with "
            f"`num_indexed_separators={config.num_indexed_separators}`: split the document into parts."
        )
    return required_token(config, "first_separator_token_id") + index


def format_sequence(
    sentences: Sequence[Sequence[int]], config: DocMTConfig, *, bod: bool = False, source: bool = True
) -> list[int]:
    """
    Join sentences to the sequence that the model reads (source) or predicts (target).

    Args:
        sentences (`Sequence[Sequence[int]]`): Token ids of the sentences of one window, without specials.
        config (`DocMTConfig`): Decides on separators and `<sos>`.
        bod (`bool`, *optional*, defaults to `False`): Put `<bod>` and a separator in front.
        source (`bool`, *optional*, defaults to `True`): Whether a leading `<sos>` is wanted where the format has one.

    Returns:
        `list[int]`: ids that end in `<eos>`.

    Source: Herold and Ney (2023), on concatenation; Li et al. (P-Transformer), on index-aware separators.
    """
    pieces = [[required_token(config, "bod_token_id")], *sentences] if bod else sentences
    ids = [required_token(config, "sos_token_id")] if source and config.use_sos else []
    for index, piece in enumerate(pieces):
        if index:
            ids.append(separator_after(index - 1, config))
        ids += piece
    return [*ids, required_token(config, "eos_token_id")]


def context_window(index: int, context_sentences: int) -> Window:
    """The window of sentence `index` with up to `context_sentences` before it; `<bod>` stands in for sentence -1."""
    first = index - context_sentences
    return Window(first=max(first, 0), last=index + 1, current=index, bod=first < 0)


def source_context_window(index: int, context_sentences: int) -> Window:
    """
    The window of sentence `index` with up to `context_sentences` before it on the source side alone, without `<bod>`.

    Source: Li et al. (P-Transformer), on Doc2Sent; at the start of a document, separators still count from 1.
    """
    return Window(first=max(0, index - context_sentences), last=index + 1, current=index)


def document_parts(costs: Sequence[float], limit: float | None, splitting: str = "balanced") -> list[range]:
    """
    Cut a document at sentence boundaries into parts that cost at most `limit` each.

    Every sentence belongs to exactly one part, in document order. A sentence that costs more than `limit` by itself is
    a part of its own.

    Args:
        costs (`Sequence[float]`): Cost of each sentence in tokens, its separator included.
        limit (`float`, *optional*): Bound of a part; `None` keeps the document whole.
        splitting (`str`, *optional*, defaults to `"balanced"`):
            `"balanced"` takes the fewest parts and, among those, the least sum of squared costs (ties: the earliest
            cuts). `"greedy"` appends while the part stays strictly below `limit`.

    Returns:
        `list[range]`: sentence indices of each part; none for an empty document.

    Source: Herold and Ney (2023), on splitting, for balanced parts; Bao et al. (2021), on data, for greedy ones.
    """
    if not costs:
        return []
    if limit is None or (splitting == "balanced" and sum(costs) <= limit):
        return [range(len(costs))]
    if splitting == "greedy":
        return _greedy_parts(costs, limit)
    parts: list[range] = []
    start = 0
    for index, cost in enumerate([*costs, math.inf]):
        if cost <= limit:
            continue
        # a sentence over the limit stands alone, whatever stands on its two sides is balanced by itself
        parts += _balanced_parts(costs[start:index], limit, start)
        if index < len(costs):
            parts.append(range(index, index + 1))
        start = index + 1
    return parts


def _greedy_parts(costs: Sequence[float], limit: float) -> list[range]:
    cuts, total = [0], 0.0
    for index, cost in enumerate(costs):
        if index > cuts[-1] and total + cost >= limit:
            cuts.append(index)
            total = 0.0
        total += cost
    return [range(a, b) for a, b in zip(cuts, [*cuts[1:], len(costs)], strict=True)]


def _balanced_parts(costs: Sequence[float], limit: float, offset: int) -> list[range]:
    """Fewest parts within the limit, then least sum of squares, by dynamic programming over the cut positions."""
    if not costs:
        return []
    n = len(costs)
    cumulative = [0.0]
    for cost in costs:
        cumulative.append(cumulative[-1] + cost)
    # best[i]: cheapest way to cut costs[i:], as (parts, sum of squares); built from the right so that among equals the
    # earliest first cut wins
    best: list[tuple[int, float]] = [(0, 0.0)] * (n + 1)
    cut = [n] * n
    for i in range(n - 1, -1, -1):
        best[i] = (n + 1, math.inf)
        longest = bisect.bisect_right(cumulative, cumulative[i] + limit, i + 1) - 1
        for j in range(i + 1, max(longest, i + 1) + 1):
            candidate = (best[j][0] + 1, best[j][1] + (cumulative[j] - cumulative[i]) ** 2)
            if candidate < best[i]:
                best[i], cut[i] = candidate, j
    parts, i = [], 0
    while i < n:
        parts.append(range(offset + i, offset + cut[i]))
        i = cut[i]
    return parts


def limit_sentences(parts: Sequence[range], config: DocMTConfig) -> list[range]:
    """
    Split parts with more sentences than `max_part_sentences`, or than the indexed separators can number.

    The pieces are of nearly equal count.
    """
    limits = [] if config.max_part_sentences is None else [config.max_part_sentences]
    if config.indexed_separators:
        limits.append(config.num_indexed_separators + 1)
    if not limits:
        return list(parts)
    most = min(limits)
    limited = []
    for part in parts:
        pieces = math.ceil(len(part) / most)
        bounds = [part.start + len(part) * piece // pieces for piece in range(pieces + 1)]
        limited += [range(a, b) for a, b in zip(bounds, bounds[1:], strict=False)]
    return limited


def even_pieces(count: int, pieces: int) -> list[range]:
    """Cut `count` sentences into `pieces` contiguous runs whose sizes differ by at most 1, longer ones first."""
    size, longer = divmod(count, pieces)
    bounds = [piece * size + min(piece, longer) for piece in range(pieces + 1)]
    return [range(a, b) for a, b in itertools.pairwise(bounds)]


def resolution_counts(count: int, resolutions: str) -> list[int]:
    """
    Into how many pieces a document of `count` sentences is cut, once for each resolution.

    Args:
        count (`int`): Sentences of the document, N.
        resolutions (`str`): One of `TRAINING_RESOLUTIONS`. `"document"`: 1. `"document+sentence"`: 1 and N. `"multi"`:
            1, 2, 4, ... up to N, and N.

    Returns:
        `list[int]`: ascending, each number once; none for an empty document.

    Source: Sun et al. (2022), on multi-resolution training; that N is among them where it is no power of two is ours.
    """
    if count == 0:
        return []
    if resolutions == "document":
        return [1]
    if resolutions == "document+sentence":
        return sorted({1, count})
    if resolutions != "multi":
        choices = ", ".join(map(repr, TRAINING_RESOLUTIONS))
        raise ValueError(f"`resolutions` must be one of {choices}, got {resolutions!r}.")
    return sorted({2**power for power in range(count.bit_length())} | {count})


def training_windows(
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    config: DocMTConfig,
    *,
    resolutions: str | None = None,
) -> list[Window]:
    """
    The sequences that a training document gives: one a sentence, one a context window, or one a part.

    Of whole documents, each resolution holds every sentence once. Those of `"document+sentence"` are a union: a part
    of one sentence is there once.

    Args:
        source_lengths, target_lengths (`Sequence[int]`): Tokens of each sentence, without separators.
        config (`DocMTConfig`): Decides on the format, the limit and the way to split.
        resolutions (`str`, *optional*):
            In place of `config.training_resolutions`; `"document"` gives the parts alone, as decoding has them.

    Returns:
        `list[Window]`: in document order, one resolution after the other.
    """
    count = len(source_lengths)
    if config.sequence_format == "sentence":
        return [Window(first=i, last=i + 1, current=i) for i in range(count)]
    if config.sequence_format == "context_window":
        return [context_window(i, config.context_sentences) for i in range(count)]
    if config.sequence_format == "source_context":
        return [source_context_window(i, config.context_sentences) for i in range(count)]
    if config.part_splitting == "balanced":
        costs = [length + 1 for length in target_lengths]
    else:
        costs = [max(pair) + 2 for pair in zip(source_lengths, target_lengths, strict=True)]
    if resolutions is None:
        resolutions = config.training_resolutions
    parts = [
        part
        for pieces in resolution_counts(count, resolutions)
        for piece in even_pieces(count, pieces)
        for part in _piece_parts(piece, costs, config)
    ]
    if resolutions == "document+sentence":
        parts = list(dict.fromkeys(parts))
    return [Window(first=part.start, last=part.stop, current=part.start) for part in parts]


def _piece_parts(piece: range, costs: Sequence[float], config: DocMTConfig) -> list[range]:
    """A run of sentences, cut into parts where it is over the limits."""
    parts = document_parts(costs[piece.start : piece.stop], config.max_part_tokens, config.part_splitting)
    return limit_sentences([piece[part.start : part.stop] for part in parts], config)


def format_window(
    source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], window: Window, config: DocMTConfig
) -> tuple[list[int], list[int]]:
    """
    The two sequences of a training window.

    Args:
        source, target (`Sequence[Sequence[int]]`): Token ids of the N sentences of the document, without specials.
        window (`Window`): Of `training_windows`.
        config (`DocMTConfig`): Decides on the format.

    Returns:
        `tuple[list[int], list[int]]`: source ids, and labels; both end in `<eos>`.
    """
    first = window.current if config.sequence_format == "source_context" else window.first
    return (
        format_sequence(source[window.first : window.last], config, bod=window.bod),
        format_sequence(target[first : window.last], config, bod=window.bod, source=False),
    )
