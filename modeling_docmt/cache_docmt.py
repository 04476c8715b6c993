"""
The cache of document decoding: keys and values of the source, of the committed prefix, and of what is being searched.

No keys move when beams change places. Beams share the source and the committed prefix of their sequence; of the
current stretch, a table says which beam computed each token of a beam's history, and a mask hides the others.
"""

from collections.abc import Sequence
from typing import Any

import torch

from .attention_decoding import Stretch


# columns by which a stretch grows
GROWTH = 32


class DocumentCache:
    """
    Keys and values of n sequences in a search with G beams each.

    All tensors hold keys and values of all layers, `(2, layers, ...)`, so that one operation moves them all:

    - source: `(2, layers, n, H, S, D)`, tokens on the left;
    - committed: `(2, layers, n, H, P, D)`, tokens on the left: target tokens that will not change;
    - current: `(2, layers, n, H, C * G, D)`: each step adds a column of G keys, one a beam; a sequence that began
      later leaves the columns in front of its `starts` unused.

    `ancestors`, of shape `(n, G, C)`, has the beam that computed each column of the history of a beam; -1 for none.

    Lengths and starts, of shape `(n,)`, steer the search and stay on the CPU; so do the indices that methods take.

    Args:
        num_beams (`int`): G.
    """

    def __init__(self, num_beams: int):
        self.num_beams = num_beams
        self.source: torch.Tensor | None = None
        self.source_lengths = torch.zeros(0, dtype=torch.long)
        self.committed: torch.Tensor | None = None
        self.committed_lengths = torch.zeros(0, dtype=torch.long)
        self.current: torch.Tensor | None = None
        self.ancestors: torch.Tensor | None = None
        self.starts = torch.zeros(0, dtype=torch.long)
        self.width = 0

    @property
    def device(self) -> torch.device:
        """Where the states are."""
        return torch.device("cpu") if self.source is None else self.source.device

    @property
    def num_sequences(self) -> int:
        """Sequences in the cache, n."""
        return len(self.starts)

    def keep(self, sequences: torch.LongTensor) -> None:
        """Keep the named sequences only, in the given order, and the columns that they use."""
        self.source_lengths = self.source_lengths[sequences]
        self.committed_lengths = self.committed_lengths[sequences]
        self.starts = self.starts[sequences]
        if self.source is None or self.committed is None or self.current is None or self.ancestors is None:
            return
        rows = sequences.to(self.source.device)
        source_width, committed_width = _longest(self.source_lengths), _longest(self.committed_lengths)
        self.source = self.source[..., :source_width, :].index_select(2, rows)
        self.committed = self.committed[..., :committed_width, :].index_select(2, rows)
        first = min(self.starts.tolist(), default=self.width)
        columns = slice(first * self.num_beams, self.width * self.num_beams)
        self.current = self.current[..., columns, :].index_select(2, rows)
        self.ancestors = self.ancestors[rows, :, first : self.width]
        self.starts = self.starts - first
        self.width -= first

    def admit(self, source: torch.Tensor, source_lengths: torch.LongTensor) -> None:
        """Add sequences with nothing committed: source states `(2, layers, m, H, S, D)` and lengths `(m,)`."""
        m, H, D = source.shape[2], source.shape[3], source.shape[5]
        nothing = source.new_zeros(*source.shape[:2], m, H, 0, D)
        ancestors = torch.full((m, self.num_beams, self.width), -1, device=source.device)
        self.source = _stack(self.source, source)
        self.committed = _stack(self.committed, nothing)
        self.current = _stack(self.current, nothing)
        self.ancestors = ancestors if self.ancestors is None else torch.cat((self.ancestors, ancestors))
        self.source_lengths = torch.cat((self.source_lengths, source_lengths))
        self.committed_lengths = torch.cat((self.committed_lengths, torch.zeros(m, dtype=torch.long)))
        self.starts = torch.cat((self.starts, torch.full((m,), self.width)))

    def restart(self, sequences: torch.LongTensor) -> None:
        """Forget the current stretch of the named sequences; their next token comes right behind what is committed."""
        self.starts[sequences] = self.width
        self.ancestors[sequences.to(self.device)] = -1  # type: ignore[index]

    def commit_current(self, sequence: int, length: int) -> None:
        """Commit the first `length` columns of the current stretch of a sequence that has one beam."""
        start, offset = int(self.starts[sequence]), int(self.committed_lengths[sequence])
        self._reserve_committed(offset + length)
        columns = self.current[:, :, sequence, :, start : start + length]  # type: ignore[index]
        self.committed[:, :, sequence, :, offset : offset + length] = columns  # type: ignore[index]
        self.committed_lengths[sequence] += length

    def reorder(self, beams: torch.LongTensor) -> None:
        """Give beam g of sequence i the history of its beam `beams[i, g]`; `beams`, `(n, G)`, is on the device."""
        if self.ancestors is not None and self.num_beams > 1:
            self.ancestors = self.ancestors.gather(1, beams[..., None].expand_as(self.ancestors))

    def step(self) -> "StepCache":
        """The view of a decoding step, which adds one column to all beams of all sequences."""
        if self.current is None or self.ancestors is None:
            raise ValueError("A decoding step needs sequences in the cache: call `admit` first.")
        if self.width * self.num_beams == self.current.shape[-2]:
            self.current = torch.nn.functional.pad(self.current, (0, 0, 0, GROWTH * self.num_beams))
        own = torch.arange(self.num_beams, device=self.device).expand(len(self.ancestors), -1)
        self.ancestors = torch.cat((self.ancestors, own[..., None]), dim=-1)
        view = StepCache(self, self.width)
        self.width += 1
        return view

    def commit(self, sequences: torch.LongTensor, lengths: torch.LongTensor, width: int) -> "CommitCache":
        """
        The view of a parallel pass over tokens that are to be committed.

        Args:
            sequences (`torch.LongTensor` of shape `(m,)`): Sequences that go on.
            lengths (`torch.LongTensor` of shape `(m,)`): Tokens of each, padded on the right to `width`.
            width (`int`): Columns of the pass.
        """
        self._reserve_committed(_longest(self.committed_lengths[sequences]) + width)
        view = CommitCache(self, sequences, width)
        self.committed_lengths[sequences] += lengths
        return view

    def _reserve_committed(self, width: int) -> None:
        missing = width - self.committed.shape[-2]  # type: ignore[union-attr]
        if missing > 0:
            self.committed = torch.nn.functional.pad(self.committed, (0, 0, 0, missing + GROWTH))


class SearchCache:
    """
    What a decoder pass sees of a [`DocumentCache`]. The decoder takes it as `cache`; attention asks it for stretches.

    Attributes:
        num_sequences (`int`): n of the pass.
        num_beams (`int`): G of the pass.
    """

    num_sequences: int
    num_beams: int

    def update(self, layer_idx: int, key: torch.Tensor, value: torch.Tensor) -> list[Stretch]:
        """Store new keys and values `(n, H, G, T, D)`; all stretches of the target that the queries may see."""
        raise NotImplementedError

    def source(self, layer_idx: int) -> list[Stretch]:
        """Stretches of the source."""
        raise NotImplementedError

    def masks(self, place: str) -> dict[str, Any]:
        """Masks of the stretches by name, for `place` `"decoder"` or `"cross"`; shared by all layers."""
        raise NotImplementedError


class StepCache(SearchCache):
    """One new token in each beam of each sequence."""

    def __init__(self, cache: DocumentCache, column: int):
        self.cache = cache
        self.num_sequences, self.num_beams = cache.num_sequences, cache.num_beams
        self.new = slice(column * self.num_beams, (column + 1) * self.num_beams)
        self.committed_width = _longest(cache.committed_lengths)

    def update(self, layer_idx: int, key: torch.Tensor, value: torch.Tensor) -> list[Stretch]:
        current, committed = self.cache.current, self.cache.committed
        current[0, layer_idx, :, :, self.new] = key[..., 0, :]  # type: ignore[index]
        current[1, layer_idx, :, :, self.new] = value[..., 0, :]  # type: ignore[index]
        stretches = [tuple(current[:, layer_idx, :, :, : self.new.stop])]  # type: ignore[index]
        if self.committed_width:
            stretches.insert(0, tuple(committed[:, layer_idx, :, :, : self.committed_width]))  # type: ignore[index]
        return stretches

    def source(self, layer_idx: int) -> list[Stretch]:
        return [tuple(self.cache.source[:, layer_idx])]  # type: ignore[index]

    def masks(self, place: str) -> dict[str, Any]:
        cache = self.cache
        if place == "cross":
            return {"dense": [_mask_behind(cache.source_lengths, cache.source, cache.source.shape[-2])]}  # type: ignore[union-attr]
        beams = torch.arange(self.num_beams, device=cache.device)
        masks = [_mask((cache.ancestors[..., None] != beams).flatten(2), cache.current)]  # type: ignore[index]
        if self.committed_width:
            masks.insert(0, _mask_behind(cache.committed_lengths, cache.committed, self.committed_width))
        return {"dense": masks}


class CommitCache(SearchCache):
    """Several new tokens, padded on the right, of some of the sequences; each sees what is committed, and itself."""

    num_beams = 1

    def __init__(self, cache: DocumentCache, sequences: torch.LongTensor, width: int):
        self.cache, self.sequences, self.width = cache, sequences, width
        self.num_sequences = len(sequences)
        self.lengths = cache.committed_lengths[sequences].clone()
        self.committed_width = _longest(self.lengths)
        self.columns = (self.lengths[:, None] + torch.arange(width)).to(cache.device)
        self.rows = sequences.to(cache.device)

    def update(self, layer_idx: int, key: torch.Tensor, value: torch.Tensor) -> list[Stretch]:
        stretches: list[Stretch] = [(key[:, :, 0], value[:, :, 0])]
        if self.committed_width:
            committed = self.cache.committed[:, layer_idx, ..., : self.committed_width, :]  # type: ignore[index]
            stretches.insert(0, tuple(committed.index_select(1, self.rows)))
        for side, states in enumerate((key, value)):
            # advanced indices stand in front: (m, T, H, D)
            new = states[:, :, 0].transpose(1, 2)
            self.cache.committed[side, layer_idx][self.rows[:, None], :, self.columns] = new  # type: ignore[index]
        return stretches

    def source(self, layer_idx: int) -> list[Stretch]:
        return [tuple(self.cache.source[:, layer_idx].index_select(1, self.rows))]  # type: ignore[index]

    def masks(self, place: str) -> dict[str, Any]:
        source = self.cache.source
        if place == "cross":
            lengths = self.cache.source_lengths[self.sequences]
            return {"dense": [_mask_behind(lengths, source, source.shape[-2])]}  # type: ignore[union-attr]
        masks = [source.new_full((self.width, self.width), -torch.inf).triu(1)]  # type: ignore[union-attr]
        if self.committed_width:
            masks.insert(0, _mask_behind(self.lengths, source, self.committed_width))  # type: ignore[arg-type]
        return {"dense": masks}


def _longest(lengths: torch.LongTensor) -> int:
    return int(lengths.max()) if len(lengths) else 0


def _stack(old: torch.Tensor | None, new: torch.Tensor) -> torch.Tensor:
    """Join along the sequences; the shorter one is padded on the right of its columns."""
    if old is None:
        return new
    width = max(old.shape[-2], new.shape[-2])
    parts: Sequence[torch.Tensor] = [
        torch.nn.functional.pad(states, (0, 0, 0, width - states.shape[-2])) for states in (old, new)
    ]
    return torch.cat(tuple(parts), dim=2)


def _mask_behind(lengths: torch.LongTensor, states: torch.Tensor | None, width: int) -> torch.Tensor | None:
    """Hides the columns behind each length from all beams."""
    return _mask((torch.arange(width) >= lengths[:, None])[:, None], states)


def _mask(hidden: torch.Tensor, states: torch.Tensor | None) -> torch.Tensor | None:
    """Minus infinity where `hidden`, `(n, G or 1, K)`, is true: `(n, 1, G or 1, 1, K)`; `None` where it never is."""
    if states is None or not hidden.any():
        return None
    mask = torch.zeros(hidden.shape, dtype=states.dtype, device=hidden.device).masked_fill(hidden, -torch.inf)
    return mask[:, None, :, None].to(states.device)
