"""
Blocks of interval attention: how queries are cut into blocks so that each reads one short slice of keys.

Dimensions: `I` queries · `J` keys · `n` blocks in a chunk · `b` queries in a block · `c` keys in a block · `H` heads ·
`D` head dimension.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch


# Costs of the model that cuts blocks, in query-key pairs of one head (float32 on one core): a block of its own, and a
# key that is copied in and whose gradient is added out
BLOCK_COST = 500
KEY_COST = 8
# Query-key pairs of a chunk. On a CPU scores and copies of a chunk should stay in the cache; a GPU wants few launches.
CPU_CHUNK_PAIRS = 24_000
GPU_CHUNK_PAIRS = 2**21
# below this size, blocks that do not follow one another are copied together instead of one by one
SMALL_BLOCK_PAIRS = 1024
# neighbours of one sentence or of several short ones are joined up to this many queries
MERGED_BLOCK = 64
# a run of dead queries of this length is left out; shorter ones are masked, and do not end a block
DEAD_RUN = 16


@dataclass
class Chunk:
    """
    Blocks of equal size that are computed together.

    Either strided, where block m starts at query `first_query + m * b` and at key `first_key + m * key_step`, and both
    are views of their tensors, or indexed, where `query_index` and `key_index` name the rows.
    """

    num_blocks: int
    block_size: int
    key_width: int
    first_query: int = 0
    first_key: int = 0
    key_step: int = 1
    query_index: torch.Tensor | None = None  # (n, b), int64; the rows behind a short block repeat its last query
    key_index: torch.Tensor | None = None  # (n, c), int64
    real_rows: torch.Tensor | None = None  # (m,), int64: rows of `query_index.flatten()` that count; None for all
    bias: torch.Tensor | None = None  # (n or 1, 1, b, c), float32: 0 at visible keys, -inf elsewhere; None is all 0
    dead: torch.Tensor | None = None  # (n, 1, b, 1): True at queries without keys, whose bias is 0; None is no such
    # relative positions: largest (query position - key) at a visible key, how many there are down to the smallest, and
    # the column of that largest one in row 0 where row m + 1 is row m shifted by one; None where rows do not shift so
    relative_max: int = 0
    relative_count: int = 1
    skew: int | None = None

    def queries(self, states: torch.Tensor) -> torch.Tensor:
        """Rows `(I, H, D)` as blocks `(n, b, H, D)`; a view where the chunk is strided."""
        if self.query_index is not None:
            return states.index_select(0, self.query_index.flatten()).unflatten(0, self.query_index.shape)
        rows = states.narrow(0, self.first_query, self.num_blocks * self.block_size)
        return rows.unflatten(0, (self.num_blocks, self.block_size))

    def keys(self, states: torch.Tensor) -> torch.Tensor:
        """Rows `(J, H, D)` as blocks `(n, c, H, D)`; an overlapping view, not to be written, where strided."""
        if self.key_index is not None:
            return states.index_select(0, self.key_index.flatten()).unflatten(0, self.key_index.shape)
        return self._strided(states, self.first_key, self.key_width)

    def put_queries(self, destination: torch.Tensor, blocks: torch.Tensor) -> None:
        """Write blocks `(n, b, H, D)` to their rows of `(I, H, D)`."""
        if self.query_index is None:
            self.queries(destination).copy_(blocks)
        else:
            destination.index_copy_(0, *self.real_queries(blocks.to(destination.dtype)))

    def real_queries(self, blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows and values `(m, H, D)` of blocks `(n, b, H, D)` of an indexed chunk, repeated queries left out."""
        assert self.query_index is not None
        rows, values = self.query_index.flatten(), blocks.flatten(0, 1)
        return (rows, values) if self.real_rows is None else (rows[self.real_rows], values[self.real_rows])

    def as_indexed(self, device: torch.device) -> "Chunk":
        """The same blocks with the rows named, so that no views overlap."""
        return replace(self, query_index=self.query_rows(device), key_index=self.key_rows(device))

    def add_keys(self, destination: torch.Tensor, blocks: torch.Tensor) -> None:
        """Add blocks `(n, c, H, D)` to their rows of `(J, H, D)`."""
        if self.key_index is not None:
            destination.index_add_(0, self.key_index.flatten(), blocks.flatten(0, 1).to(destination.dtype))
            return
        # pieces as wide as the step do not overlap each other, so each is one deterministic addition
        step = self.key_step if self.num_blocks > 1 else self.key_width
        for start in range(0, self.key_width, step):
            width = min(step, self.key_width - start)
            self._strided(destination, self.first_key + start, width).add_(blocks[:, start : start + width])

    def _strided(self, states: torch.Tensor, first: int, width: int) -> torch.Tensor:
        row, head, column = states.stride()
        size = (self.num_blocks, width, *states.shape[1:])
        offset = states.storage_offset() + first * row
        return states.as_strided(size, (self.key_step * row, row, head, column), offset)

    def query_rows(self, device: torch.device) -> torch.Tensor:
        """Rows of the queries, `(n, b)`."""
        if self.query_index is not None:
            return self.query_index
        count = self.num_blocks * self.block_size
        return (self.first_query + torch.arange(count, device=device)).view(self.num_blocks, self.block_size)

    def key_rows(self, device: torch.device) -> torch.Tensor:
        """Rows of the keys, `(n, c)`."""
        if self.key_index is not None:
            return self.key_index
        starts = self.first_key + self.key_step * torch.arange(self.num_blocks, device=device)
        return starts[:, None] + torch.arange(self.key_width, device=device)

    def to(self, device: torch.device) -> "Chunk":
        """The same chunk with its tensors on `device`."""
        moved: dict[str, Any] = {}
        for name in ("query_index", "key_index", "real_rows", "bias", "dead"):
            tensor = getattr(self, name)
            moved[name] = None if tensor is None else tensor.to(device)
        return replace(self, **moved)


def block_size_for(interval: float) -> int:
    """
    Queries in a block for intervals of so many keys: small ones waste few pairs, large ones copy keys less often.

    Measured on windows: 32 up to 64 keys, 64 up to 129, then the power of two that covers one side of the window.
    """
    if interval <= 64:
        return 32
    return min(256, max(64, 2 ** math.ceil(math.log2((interval - 1) / 2))))


class BlockBuilder:
    """Segments between hard borders, blocks of them, chunks of those."""

    def __init__(
        self,
        lo,
        hi,
        positions,
        num_keys: int,
        device: torch.device,
        block_size: int | None,
    ):
        self.lo, self.hi, self.positions, self.num_keys = lo, hi, positions, num_keys
        self.device, self.block_size = device, block_size
        self.live = lo <= hi
        self.on_gpu = device.type != "cpu"
        self.chunk_pairs = GPU_CHUNK_PAIRS if self.on_gpu else CPU_CHUNK_PAIRS
        # bounds for minima and maxima: dead queries must not count
        self.low = np.where(self.live, lo, num_keys)
        self.high = np.where(self.live, hi + 1, 0)
        self.shared_bias: dict[tuple, torch.Tensor] = {}

    def chunks(self) -> tuple[list[Chunk], bool]:
        """All chunks, and whether they hold all queries."""
        if not self.live.any():
            return [], len(self.lo) == 0
        starts, sizes = self._split(*self._blocks(*self._segments()))
        starts, sizes = self._merge(starts, sizes)
        first, end = self._spans(starts, sizes)
        kept = first < end
        starts, sizes, first, end = starts[kept], sizes[kept], first[kept], end[kept]
        return self._group(starts, sizes, first, end), int(sizes.sum()) == len(self.lo)

    def _group(self, starts: np.ndarray, sizes: np.ndarray, first: np.ndarray, end: np.ndarray) -> list[Chunk]:
        """Strided chunks where the keys of blocks advance evenly, and indexed ones of the blocks that remain."""
        chunks: list[Chunk] = []
        alone: list[int] = []
        runs = self._runs(starts, sizes, end - first)
        while runs:
            begin, stop = runs.pop()
            block, count, size = slice(begin, stop), stop - begin, int(sizes[begin])
            widths = end[block] - first[block]
            # launches are what a GPU waits for, copies what a CPU waits for
            copied = size * int(widths.max()) < SMALL_BLOCK_PAIRS or (self.on_gpu and count < 4)
            step, begin_key, width = _even_steps(first[block], end[block])
            fits = step > 0 and width * count <= 1.15 * int(widths.sum()) + count
            inside = begin_key >= 0 and begin_key + step * (count - 1) + width <= self.num_keys
            if fits and inside and (count > 1 or not copied):
                chunks.append(self._strided_chunk(starts[block], size, begin_key, width, step))
            elif count == 1 or (copied and not fits):
                alone += range(begin, stop)
            else:
                # the first and the last block of a row have fewer keys than the others: they go alone
                cut = (begin + stop) // 2 if not fits else begin + 1 if begin_key < 0 else stop - 1
                runs += [(begin, cut), (cut, stop)]
        if alone:
            alone.sort()
            chunks += self._indexed(starts[alone], sizes[alone], first[alone], end[alone])
        return chunks

    def _segments(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and length of segments: they end where neighbours have no key in common, and at long dead runs."""
        live_rows = np.flatnonzero(self.live)
        low, high = self.lo[live_rows], self.hi[live_rows]
        apart = (high[:-1] < low[1:]) | (high[1:] < low[:-1]) | (np.diff(live_rows) > DEAD_RUN)
        cuts = np.flatnonzero(apart)
        starts = live_rows[np.concatenate([[0], cuts + 1])]
        ends = live_rows[np.concatenate([cuts, [len(live_rows) - 1]])] + 1
        return starts, ends - starts

    def _blocks(self, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cut segments into equal blocks with a rest: starts and sizes."""
        widths = np.where(self.live, self.hi - self.lo + 1, 0)
        sums = np.concatenate([[0], np.cumsum(widths)])
        counts = np.concatenate([[0], np.cumsum(self.live)])
        ends = starts + lengths
        mean = (sums[ends] - sums[starts]) / np.maximum(counts[ends] - counts[starts], 1)
        if self.block_size is not None:
            limits = np.full(len(starts), self.block_size)
        else:
            values, owner = np.unique(mean, return_inverse=True)
            limits = np.array([block_size_for(value) for value in values.tolist()])[owner]
        parts = -(-lengths // limits)
        owner = np.repeat(np.arange(len(starts)), parts)
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)
        begin = starts[owner] + rank * limits[owner]
        return begin, np.minimum(limits[owner], ends[owner] - begin)

    def _spans(self, starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First key, and the one behind the last, of each block."""
        edges = np.stack([starts, starts + sizes], axis=1).flatten()
        low = np.minimum.reduceat(np.append(self.low, self.num_keys), edges)[::2]
        high = np.maximum.reduceat(np.append(self.high, 0), edges)[::2]
        return low, high

    def _split(self, starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split blocks at their best place as long as that is clearly cheaper: at jumps."""
        done: list[tuple[np.ndarray, np.ndarray]] = []
        while len(starts):
            first, end = self._spans(starts, sizes)
            whole = _cost(sizes, end - first)
            # a block of neighbours reads about its own size more than one query: leave those alone
            wide = (sizes > 1) & (whole > 2 * BLOCK_COST)
            done.append((starts[~wide], sizes[~wide]))
            starts, sizes, whole = starts[wide], sizes[wide], whole[wide]
            if not len(starts):
                break
            best, cut = self._best_cut(starts, sizes)
            gain = best < 0.85 * whole
            done.append((starts[~gain], sizes[~gain]))
            starts, sizes, cut = starts[gain], sizes[gain], cut[gain]
            starts, sizes = (
                np.concatenate([starts, starts + cut]),
                np.concatenate([cut, sizes - cut]),
            )
        starts, sizes = (np.concatenate(parts) for parts in zip(*done, strict=True))
        order = np.argsort(starts)
        return starts[order], sizes[order]

    def _best_cut(self, starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cost of the two halves at the best cut, and the size of the first half."""
        columns = np.arange(sizes.max())
        rows = np.minimum(starts[:, None] + columns, len(self.lo) - 1)
        inside = columns < sizes[:, None]
        low = np.where(inside, self.low[rows], self.num_keys)
        high = np.where(inside, self.high[rows], 0)
        left = np.maximum.accumulate(high, axis=1) - np.minimum.accumulate(low, axis=1)
        right = (np.maximum.accumulate(high[:, ::-1], axis=1) - np.minimum.accumulate(low[:, ::-1], axis=1))[:, ::-1]
        cost = _cost(columns[1:], left[:, :-1]) + _cost(sizes[:, None] - columns[1:], right[:, 1:])
        cost = np.where(inside[:, 1:], cost, np.inf)
        cut = cost.argmin(axis=1)
        return cost[np.arange(len(cut)), cut], cut + 1

    def _merge(self, starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Join neighbours that are cheaper as one block: short documents and sentences."""
        largest = self.block_size or MERGED_BLOCK
        for round_ in range(2 * max(1, int(math.log2(largest)))):
            if len(starts) < 2:
                break
            first, end = self._spans(starts, sizes)
            cost = _cost(sizes, end - first)
            left = np.arange(round_ % 2, len(starts) - 1, 2)
            right = left + 1
            joined = sizes[left] + sizes[right]
            together = _cost(
                joined,
                np.maximum(end[left], end[right]) - np.minimum(first[left], first[right]),
            )
            touching = starts[left] + sizes[left] == starts[right]
            fits = touching & (joined <= largest) & (together < 0.95 * (cost[left] + cost[right]))
            if not fits.any():
                if round_ % 2:
                    break
                continue
            sizes = sizes.copy()
            sizes[left[fits]] = joined[fits]
            keep = np.ones(len(starts), dtype=bool)
            keep[right[fits]] = False
            starts, sizes = starts[keep], sizes[keep]
        return starts, sizes

    def _runs(self, starts: np.ndarray, sizes: np.ndarray, widths: np.ndarray) -> list[tuple[int, int]]:
        """Ranges of blocks of equal size that touch, each no larger than a chunk."""
        touching = (starts[:-1] + sizes[:-1] == starts[1:]) & (sizes[:-1] == sizes[1:])
        borders = np.concatenate([[0], np.flatnonzero(~touching) + 1, [len(starts)]])
        runs = []
        for begin, stop in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            pairs = (int(sizes[begin]) + KEY_COST) * int(widths[(begin + stop) // 2])
            length = max(1, self.chunk_pairs // pairs)
            runs += [(at, min(at + length, stop)) for at in range(begin, stop, length)]
        return runs

    def _strided_chunk(self, starts, size, first_key: int, width: int, step: int) -> Chunk:
        rows = starts[:, None] + np.arange(size)
        keys = first_key + step * np.arange(len(starts))[:, None] + np.arange(width)
        bias, dead = self._masks(rows, keys, self.live[rows])
        largest, count, skew = self._distances(rows, keys)
        return Chunk(
            num_blocks=len(starts),
            block_size=size,
            key_width=width,
            first_query=int(starts[0]),
            first_key=first_key,
            key_step=step,
            bias=bias,
            dead=dead,
            relative_max=largest,
            relative_count=count,
            skew=skew,
        )

    def _indexed(self, starts, sizes, first, end) -> list[Chunk]:
        """Blocks of about the same size and number of keys, copied together."""
        widths = end - first
        # four widths an octave and powers of two for queries bound what is padded
        octave = np.maximum(np.floor(np.log2(widths)) - 2, 0)
        key_class = np.ceil(widths / 2**octave) * 2**octave
        query_class = np.ceil(np.log2(sizes))
        chunks = []
        classes, owner = np.unique(np.stack([query_class, key_class], axis=1), axis=0, return_inverse=True)
        for kind in range(len(classes)):
            members = np.flatnonzero(owner.ravel() == kind)
            size, width = int(sizes[members].max()), int(widths[members].max())
            length = max(1, self.chunk_pairs // ((size + KEY_COST) * width))
            for at in range(0, len(members), length):
                part = members[at : at + length]
                chunks.append(self._indexed_chunk(starts[part], sizes[part], first[part], size, width))
        return chunks

    def _indexed_chunk(self, starts, sizes, first, size: int, width: int) -> Chunk:
        inside = np.arange(size) < sizes[:, None]
        rows = starts[:, None] + np.minimum(np.arange(size), sizes[:, None] - 1)
        keys = first[:, None] + np.arange(width)
        real = None if inside.all() else self._tensor(np.flatnonzero(inside.ravel()))
        bias, dead = self._masks(rows, keys, self.live[rows] & inside)
        largest, count, skew = self._distances(rows, keys)
        return Chunk(
            num_blocks=len(starts),
            block_size=size,
            key_width=width,
            query_index=self._tensor(rows),
            key_index=self._tensor(np.minimum(keys, self.num_keys - 1)),
            real_rows=real,
            bias=bias,
            dead=dead,
            relative_max=largest,
            relative_count=count,
            skew=skew,
        )

    def _masks(
        self, rows: np.ndarray, keys: np.ndarray, live: np.ndarray
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """`Chunk.bias` and `Chunk.dead`."""
        visible = (keys[:, None, :] >= self.lo[rows][:, :, None]) & (keys[:, None, :] <= self.hi[rows][:, :, None])
        dead = None
        if not live.all():
            # a row of -inf is NaN behind softmax: a dead query may look anywhere, and its output is set to zero
            visible |= ~live[:, :, None]
            dead = self._tensor(~live)[:, None, :, None]
        if visible.all():
            return None, dead
        if len(visible) > 1 and (visible == visible[:1]).all():
            visible = visible[:1]
        # blocks inside of a window look alike: all their chunks share one tensor
        name = (visible.shape, visible.tobytes())
        if name not in self.shared_bias:
            self.shared_bias[name] = self._tensor(np.where(visible, np.float32(0), np.float32(-np.inf)))[:, None]
        return self.shared_bias[name], dead

    def _distances(self, rows: np.ndarray, keys: np.ndarray) -> tuple[int, int, int | None]:
        """`Chunk.relative_max`, `Chunk.relative_count` and `Chunk.skew`."""
        positions = self.positions[rows]
        live = self.live[rows]
        largest = int((positions - self.lo[rows])[live].max())
        smallest = int((positions - self.hi[rows])[live].min())
        shift = positions - keys[:, :1] - np.arange(rows.shape[1])
        even = bool((shift == shift[0, 0]).all())
        skew = int(shift[0, 0]) - largest if even else None
        return largest, largest - smallest + 1, skew

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def _even_steps(first: np.ndarray, end: np.ndarray) -> tuple[int, int, int]:
    """Step, first key and width of blocks that advance evenly and hold the keys `first..end - 1` of each block."""
    count = len(first)
    if count == 1:
        return int(end[0] - first[0]), int(first[0]), int(end[0] - first[0])
    step = int(np.sort(first[1:] - first[:-1])[(count - 1) // 2])
    shift = step * np.arange(count)
    begin = int((first - shift).min())
    return step, begin, int((end - shift).max()) - begin


def _cost(sizes: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Cost of blocks in pairs; nothing where a block has no keys, for it is left out."""
    widths = np.maximum(widths, 0)
    return np.where(widths > 0, BLOCK_COST + sizes * widths + KEY_COST * widths, 0)
