"""
The cache of document decoding: keys and values of the source, of the committed prefix, and of what is being searched.

No keys move when beams change places. Beams share the source and the committed prefix of their sequence; of the
current stretch, a table says which beam computed each token of a beam's history, and a mask hides the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .attention_decoding import Stretch
from .configuration_docmt import DocMTConfig
from .masking_search_docmt import SearchQueries, StretchKeys, build_search_masks


# columns by which a stretch grows
GROWTH = 32
# distances by which a table of them grows
TABLE_GROWTH = 128
# columns out of reach of the window at which they are forgotten, all at once
SURPLUS = 128


@dataclass
class Track:
    """
    One stretch of all sequences: keys and values of all layers, and what masks know of the keys.

    Args:
        states (`torch.Tensor` of shape `(2, layers, n, H, K, D)`): Keys and values; a layer with a gate has two.
        sentences (`torch.LongTensor` of shape `(n, K)`): Index of the sentence of each key in its document.
        lengths (`torch.LongTensor` of shape `(n,)`): Keys in use, which stand on the left.
        offsets (`torch.LongTensor` of shape `(n,)`): Position of the first key in its document.
    """

    states: torch.Tensor
    sentences: torch.LongTensor
    lengths: torch.LongTensor
    offsets: torch.LongTensor

    @property
    def width(self) -> int:
        """Columns up to the longest sequence."""
        return int(self.lengths.max()) if len(self.lengths) else 0

    def select(self, sequences: torch.LongTensor) -> "Track":
        """Some of the sequences, as wide as they need."""
        lengths, rows = self.lengths[sequences], sequences.to(self.states.device)
        width = int(lengths.max()) if len(lengths) else 0
        return Track(
            self.states[..., :width, :].index_select(2, rows),
            self.sentences[rows, :width],
            lengths,
            self.offsets[sequences],
        )

    def append(self, count: int) -> "Track":
        """Further sequences without keys."""
        none = torch.zeros(count, dtype=torch.long)
        return Track(
            torch.nn.functional.pad(self.states, (0, 0, 0, 0, 0, 0, 0, count)),
            torch.nn.functional.pad(self.sentences, (0, 0, 0, count)),
            torch.cat((self.lengths, none)),
            torch.cat((self.offsets, none)),
        )

    def widen(self, width: int) -> "Track":
        """Room for `width` columns."""
        missing = width - self.states.shape[-2]
        if missing <= 0:
            return self
        states = torch.nn.functional.pad(self.states, (0, 0, 0, missing))
        return Track(states, torch.nn.functional.pad(self.sentences, (0, missing)), self.lengths, self.offsets)

    def keys(self, width: int) -> StretchKeys:
        """What masks know of the first `width` columns."""
        columns = torch.arange(width)
        hidden = (columns >= self.lengths[:, None])[:, None, None]  # (n, 1, 1, K)
        device = self.states.device
        return StretchKeys(
            hidden=hidden.to(device) if hidden.any() else None,
            positions=(self.offsets[:, None] + columns).to(device),
            sentences=self.sentences[:, :width],
        )


class DocumentCache:
    """
    Keys and values of n sequences in a search with G beams each.

    - source and committed: a `Track` each, shared by the beams; committed are target tokens that will not change;
    - current: `(2, layers, n, H, C * G, D)`. Each step adds a column of G keys, one a beam; a sequence that began
      later leaves the columns in front of its `starts` unused. `ancestors`, of shape `(n, G, C)`, has the beam that
      computed each column of the history of a beam; -1 for none.

    Lengths, offsets and starts steer the search and stay on the CPU; so do the indices that methods take.

    Args:
        config (`DocMTConfig`): The model.
        num_beams (`int`): G.
        dtype, device: Of the states.
    """

    def __init__(self, config: DocMTConfig, num_beams: int, dtype: torch.dtype, device: torch.device):
        self.config, self.num_beams, self.device = config, num_beams, device
        heads = config.decoder_attention_heads
        nothing = torch.zeros(0, dtype=torch.long)

        def no_states(place: str) -> torch.Tensor:
            shape = (2, config.num_key_sets(place), 0, heads, 0, config.d_model // heads)
            return torch.zeros(shape, dtype=dtype, device=device)

        def empty(place: str) -> Track:
            sentences = torch.zeros(0, 0, dtype=torch.long, device=device)
            return Track(no_states(place), sentences, nothing, nothing)

        self.source, self.committed = empty("cross"), empty("decoder")
        self.current = no_states("decoder")
        self.current_sentences = torch.zeros(0, 0, dtype=torch.long, device=device)
        self.ancestors = torch.zeros(0, num_beams, 0, dtype=torch.long, device=device)
        self.starts = nothing
        self.width = 0
        self.num_forgotten = 0  # columns of the current stretch that no window reaches any more
        self.distance_tables: dict[int, torch.Tensor] = {}  # by layer, see `SearchCache.distance_table`
        # windows over the target forget what no later token sees
        is_windowed = config.decoder_self_attention == "window"
        self.committed_limit = config.window_size if is_windowed else None

    @property
    def num_sequences(self) -> int:
        """Sequences in the cache, n."""
        return len(self.starts)

    @property
    def longest_distance(self) -> int:
        """Largest distance of two tokens in the cache."""
        return self.committed.width + self.width

    @property
    def committed_ends(self) -> torch.LongTensor:
        """Target tokens that are committed, forgotten ones included, `(n,)`."""
        return self.committed.offsets + self.committed.lengths

    def keep(self, sequences: torch.LongTensor) -> None:
        """Keep the named sequences only, in the given order."""
        rows = sequences.to(self.device)
        self.source, self.committed = self.source.select(sequences), self.committed.select(sequences)
        self.starts = self.starts[sequences]
        self.current = self.current.index_select(2, rows)
        self.current_sentences = self.current_sentences[rows]
        self.ancestors = self.ancestors[rows]

    def drop_columns(self, count: int) -> None:
        """Forget the first columns of the current stretch."""
        self._cut_current(max(count - self.num_forgotten, 0))
        self.num_forgotten = max(self.num_forgotten - count, 0)
        self.starts = self.starts - count
        self.width -= count

    def _cut_current(self, count: int) -> None:
        columns = slice(count * self.num_beams, (self.width - self.num_forgotten) * self.num_beams)
        self.current = self.current[..., columns, :].contiguous()
        self.current_sentences = self.current_sentences[:, columns]
        self.ancestors = self.ancestors[..., count:]

    def admit(self, count: int) -> None:
        """Add sequences with nothing committed and no source yet."""
        self.source, self.committed = self.source.append(count), self.committed.append(count)
        self.current = torch.nn.functional.pad(self.current, (0, 0, 0, 0, 0, 0, 0, count))
        self.current_sentences = torch.nn.functional.pad(self.current_sentences, (0, 0, 0, count))
        self.ancestors = torch.nn.functional.pad(self.ancestors, (0, 0, 0, 0, 0, count), value=-1)
        self.starts = torch.cat((self.starts, torch.full((count,), self.width)))

    def set_source(self, sequence: int, states: torch.Tensor, sentences: torch.LongTensor, offset: int) -> None:
        """Show a sequence the states `(2, layers, H, K, D)` of its source tokens from `offset` on."""
        width = len(sentences)
        self.source = self.source.widen(width)
        self.source.states[:, :, sequence, :, :width] = states
        self.source.sentences[sequence, :width] = sentences.to(self.device)
        self.source.lengths[sequence], self.source.offsets[sequence] = width, offset

    def restart(self, sequences: torch.LongTensor) -> None:
        """Forget the current stretch of the named sequences; their next token comes right behind what is committed."""
        self.starts[sequences] = self.width
        self.ancestors[sequences.to(self.device)] = -1

    def can_commit_current(self, sequence: int, length: int) -> bool:
        """Whether the first `length` columns of the current stretch are still there, as far as a window reaches."""
        first = int(self.starts[sequence])
        if self.committed_limit is not None:
            first += max(0, length - self.committed_limit)
        return self.num_beams == 1 and first >= self.num_forgotten

    def commit_current(self, sequence: int, length: int) -> None:
        """Commit the first `length` columns of the current stretch of a sequence that has one beam."""
        start = int(self.starts[sequence]) - self.num_forgotten
        if start < 0:
            # of a sentence longer than the window, its end alone is left, and nothing before it matters
            self.committed.offsets[sequence] = self.committed_ends[sequence] - start
            self.committed.lengths[sequence] = 0
            length += start
            start = 0
        first = int(self.committed.lengths[sequence])
        last = first + length
        self._reserve_committed(last)
        columns = slice(start, start + length)
        self.committed.states[:, :, sequence, :, first:last] = self.current[:, :, sequence, :, columns]
        self.committed.sentences[sequence, first:last] = self.current_sentences[sequence, columns]
        self.committed.lengths[sequence] += length

    def forget(self) -> None:
        """Drop committed keys that no window reaches any more."""
        if self.committed_limit is None:
            return
        surplus = (self.committed.lengths - self.committed_limit).clamp(min=0)
        if not surplus.any():
            return
        track = self.committed
        lengths = track.lengths - surplus
        width = int(lengths.max())
        # kept columns move to the left
        columns = (surplus[:, None] + torch.arange(width)).clamp(max=track.states.shape[-2] - 1).to(self.device)
        rows = torch.arange(len(columns), device=self.device)[:, None]
        # advanced indices stand in front: (n, K, 2, layers, H, D)
        states = track.states[:, :, rows, :, columns].permute(2, 3, 0, 4, 1, 5).contiguous()
        self.committed = Track(states, track.sentences[rows, columns], lengths, track.offsets + surplus)

    def reorder(self, beams: torch.LongTensor) -> None:
        """Give beam g of sequence i the history of its beam `beams[i, g]`; `beams`, `(n, G)`, is on the device."""
        if self.num_beams > 1:
            self.ancestors = self.ancestors.gather(1, beams[..., None].expand_as(self.ancestors))

    def step(self, queries: SearchQueries) -> "StepCache":
        """The view of a decoding step, which adds one column to all beams; queries of one token each."""
        if self.committed_limit is not None and self._num_columns > self.committed_limit + SURPLUS:
            surplus = self._num_columns - self.committed_limit
            self._cut_current(surplus)
            self.num_forgotten += surplus
        column = slice(self._num_columns * self.num_beams, (self._num_columns + 1) * self.num_beams)
        if column.stop > self.current.shape[-2]:
            room = GROWTH * self.num_beams
            self.current = torch.nn.functional.pad(self.current, (0, 0, 0, room))
            self.current_sentences = torch.nn.functional.pad(self.current_sentences, (0, room))
        own = torch.arange(self.num_beams, device=self.device).expand(self.num_sequences, -1)
        self.ancestors = torch.cat((self.ancestors, own[..., None]), dim=-1)
        self.current_sentences[:, column] = queries.sentences[..., 0]
        self.width += 1
        return StepCache(self, queries, column)

    @property
    def _num_columns(self) -> int:
        return self.width - self.num_forgotten

    def commit(self, sequences: torch.LongTensor, lengths: torch.LongTensor, queries: SearchQueries) -> "CommitCache":
        """
        The view of a parallel pass over tokens that are to be committed.

        Args:
            sequences (`torch.LongTensor` of shape `(m,)`): Sequences that go on.
            lengths (`torch.LongTensor` of shape `(m,)`): Tokens of each, padded on the right.
            queries (`SearchQueries`): Where the tokens stand; one beam, all columns.
        """
        width = queries.sentences.shape[-1]
        self._reserve_committed(int(self.committed.lengths[sequences].max()) + width)
        view = CommitCache(self, sequences, queries)
        self.committed.lengths[sequences] += lengths
        return view

    def _reserve_committed(self, width: int) -> None:
        if width > self.committed.states.shape[-2]:
            self.committed = self.committed.widen(width + GROWTH)


class SearchCache(ABC):
    """
    What a decoder pass sees of a [`DocumentCache`]. The decoder takes it as `cache`; attention asks it for stretches.

    Attributes:
        num_sequences (`int`): n of the pass.
        num_beams (`int`): G of the pass.
    """

    num_sequences: int
    num_beams: int
    cache: "DocumentCache"

    def distance_table(self, layer_idx: int, build: Callable[[int], torch.Tensor]) -> torch.Tensor:
        """What a layer derives from the distances 0, 1, ... of the search, `(..., count)`, made by `build(count)`."""
        count = self.cache.longest_distance + 1
        found = self.cache.distance_tables.get(layer_idx)
        if found is None or found.shape[-1] < count:
            found = self.cache.distance_tables[layer_idx] = build(count + TABLE_GROWTH)
        return found

    @abstractmethod
    def update(self, layer_idx: int, key: torch.Tensor, value: torch.Tensor) -> list[Stretch]:
        """Store new keys and values `(n, H, G, T, D)`; all stretches of the target that the queries may see."""

    @abstractmethod
    def source(self, layer_idx: int) -> list[Stretch]:
        """Stretches of the source."""

    @abstractmethod
    def masks(self, place: str, names: Iterable[str]) -> dict[str, Any]:
        """Masks by name, one entry a stretch, for `place` `"decoder"` or `"cross"`; shared by all layers."""


class StepCache(SearchCache):
    """One new token in each beam of each sequence."""

    def __init__(self, cache: DocumentCache, queries: SearchQueries, column: slice):
        self.cache, self.queries, self.column = cache, queries, column
        self.num_sequences, self.num_beams = cache.num_sequences, cache.num_beams
        self.committed_width, self.source_width = cache.committed.width, cache.source.width

    def update(self, layer_idx: int, key: torch.Tensor, value: torch.Tensor) -> list[Stretch]:
        current, committed = self.cache.current, self.cache.committed.states
        current[0, layer_idx, :, :, self.column] = key[..., 0, :]
        current[1, layer_idx, :, :, self.column] = value[..., 0, :]
        stretches: list[Stretch] = [_stretch(current[:, layer_idx, :, :, : self.column.stop])]
        if self.committed_width:
            stretches.insert(0, _stretch(committed[:, layer_idx, :, :, : self.committed_width]))
        return stretches

    def source(self, layer_idx: int) -> list[Stretch]:
        return [_stretch(self.cache.source.states[:, layer_idx, ..., : self.source_width, :])]

    def masks(self, place: str, names: Iterable[str]) -> dict[str, Any]:
        cache = self.cache
        if place == "cross":
            stretches = [cache.source.keys(self.source_width)]
        else:
            beams = torch.arange(self.num_beams, device=cache.device)
            hidden = (cache.ancestors[..., None] != beams).flatten(2)  # (n, G, C * G)
            columns = torch.arange(cache.num_forgotten, cache.width).repeat_interleave(self.num_beams)
            positions = (cache.committed_ends - cache.starts)[:, None] + columns
            current = StretchKeys(
                hidden=hidden[:, :, None] if hidden.any() else None,
                positions=positions.to(cache.device),
                sentences=cache.current_sentences[:, : self.column.stop],
            )
            stretches = [current]
            if self.committed_width:
                stretches.insert(0, cache.committed.keys(self.committed_width))
        return build_search_masks(names, place, cache.config, self.queries, stretches, cache.current.dtype)


class CommitCache(SearchCache):
    """Several new tokens, padded on the right, of some of the sequences; each sees what is committed, and itself."""

    num_beams = 1

    def __init__(self, cache: DocumentCache, sequences: torch.LongTensor, queries: SearchQueries):
        self.cache, self.queries = cache, queries
        self.num_sequences = len(sequences)
        self.rows = sequences.to(cache.device)
        self.earlier = cache.committed.select(sequences)
        width = queries.sentences.shape[-1]
        self.columns = (self.earlier.lengths[:, None] + torch.arange(width)).to(cache.device)
        cache.committed.sentences[self.rows[:, None], self.columns] = queries.sentences[:, 0]

    def update(self, layer_idx: int, key: torch.Tensor, value: torch.Tensor) -> list[Stretch]:
        # under autocast they come in another precision than that of the cache
        key, value = (states.to(self.cache.committed.states.dtype) for states in (key, value))
        stretches: list[Stretch] = [(key[:, :, 0], value[:, :, 0])]
        if self.earlier.width:
            stretches.insert(0, _stretch(self.earlier.states[:, layer_idx]))
        for side, states in enumerate((key, value)):
            # advanced indices stand in front: (m, T, H, D)
            new = states[:, :, 0].transpose(1, 2)
            self.cache.committed.states[side, layer_idx][self.rows[:, None], :, self.columns] = new
        return stretches

    def source(self, layer_idx: int) -> list[Stretch]:
        return [_stretch(self.cache.source.states[:, layer_idx].index_select(1, self.rows))]

    def masks(self, place: str, names: Iterable[str]) -> dict[str, Any]:
        cache, queries = self.cache, self.queries
        if place == "cross":
            source = cache.source
            keys = source.keys(source.states.shape[-2])
            hidden = None if keys.hidden is None else keys.hidden[self.rows]
            stretches = [StretchKeys(hidden, keys.positions[self.rows], keys.sentences[self.rows])]
        else:
            width = queries.sentences.shape[-1]
            later = torch.ones(width, width, dtype=torch.bool, device=cache.device).triu(1)
            stretches = [StretchKeys(later[None, None], queries.positions[:, 0], queries.sentences[:, 0])]
            if self.earlier.width:
                stretches.insert(0, self.earlier.keys(self.earlier.width))
        return build_search_masks(names, place, cache.config, queries, stretches, cache.current.dtype)


def _stretch(states: torch.Tensor) -> Stretch:
    key, value = states
    return key, value
