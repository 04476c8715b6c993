"""
Plan of interval attention: who sees whom in a batch, and in which blocks that is computed.

Query t sees the keys lo[t]..hi[t] and nothing else. Windows, causal windows, sentences, alignments with jumps, padding
and documents packed into one row are all such bounds. Neighbouring queries see nearly the same keys, so a block of
them reads one slice of keys, and a small mask takes out the rest. A plan is built on the CPU once a batch, and shared
by all layers and heads.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from .interval_blocks_docmt import BlockBuilder, Chunk


@dataclass
class IntervalPlan:
    """
    Who sees whom, built once a batch and shared by all layers and heads. Make one with `IntervalPlan.build`.

    Args:
        lo, hi (`torch.Tensor` of shape `(I,)`): Query t sees the keys lo[t]..hi[t]; none where lo[t] > hi[t].
        query_positions (`torch.Tensor` of shape `(I,)`): Position of each query on the axis of the keys.
        num_keys (`int`): J.
        chunks (`list[Chunk]`): Blocks that hold every query with keys exactly once.
        is_full (`bool`): Whether the chunks hold all queries; the others see nothing.
        relative_min, relative_max (`int`): Range of (query position - key) over all pairs that see each other.
    """

    lo: torch.Tensor
    hi: torch.Tensor
    query_positions: torch.Tensor
    num_keys: int
    chunks: list[Chunk]
    is_full: bool
    relative_min: int
    relative_max: int

    @property
    def num_queries(self) -> int:
        """I."""
        return self.lo.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the tensors of the plan are, and where query, key and value must be."""
        return self.lo.device

    @property
    def num_pairs(self) -> int:
        """Query-key pairs that are computed, masked ones included: the cost of attention in one head."""
        return sum(chunk.num_blocks * chunk.block_size * chunk.key_width for chunk in self.chunks)

    @property
    def dead(self) -> torch.Tensor:
        """True at queries that see nothing, `(I,)`."""
        return self.lo > self.hi

    @classmethod
    def build(
        cls,
        lo: torch.Tensor | np.ndarray,
        hi: torch.Tensor | np.ndarray,
        num_keys: int,
        *,
        query_positions: torch.Tensor | np.ndarray | None = None,
        device: torch.device | str | None = None,
        block_size: int | None = None,
    ) -> "IntervalPlan":
        """
        Cut the queries into blocks.

        A batch is one flat row: documents one after another, or B * T padded rows. Bounds count in that row.

        Args:
            lo, hi (integers of shape `(I,)`):
                Query t sees the keys lo[t]..hi[t], both included, and nothing where lo[t] > hi[t]. Any order and any
                jumps are allowed; the more alike the bounds of neighbours, the faster.
            num_keys (`int`): J, number of keys.
            query_positions (integers of shape `(I,)`, *optional*, defaults to 0, 1, ...):
                Position of each query on the axis of the keys; only relative terms read it.
            device (*optional*): Where attention will run; that of `lo` by default, and the CPU for arrays.
            block_size (`int`, *optional*): Largest number of queries in a block; by default it follows the intervals.

        Raises:
            `ValueError`: if the arguments have other shapes than these, or a query sees keys that do not exist.
        """
        if device is None:
            device = lo.device if isinstance(lo, torch.Tensor) else "cpu"
        device = torch.device(device)
        low, high = _integers("lo", lo), _integers("hi", hi)
        positions = np.arange(len(low)) if query_positions is None else _integers("query_positions", query_positions)
        if not len(low) == len(high) == len(positions):
            raise ValueError(
                "`lo`, `hi` and `query_positions` must have one entry a query, "
                f"got {len(low)}, {len(high)} and {len(positions)}."
            )
        live = low <= high
        if live.any() and (low[live].min() < 0 or high[live].max() >= num_keys):
            raise ValueError(
                f"`lo` and `hi` must lie in 0..{num_keys - 1} where lo <= hi, got {low[live].min()} and "
                f"{high[live].max()}. Clip them to the keys that exist."
            )
        if block_size is not None and block_size < 1:
            raise ValueError(f"`block_size` must be positive, got {block_size}.")
        chunks, is_full = BlockBuilder(low, high, positions, int(num_keys), device, block_size).chunks()
        return cls(
            lo=torch.from_numpy(low).to(device),
            hi=torch.from_numpy(high).to(device),
            query_positions=torch.from_numpy(positions).to(device),
            num_keys=int(num_keys),
            chunks=chunks,
            is_full=is_full,
            relative_min=int((positions - high)[live].min()) if live.any() else 0,
            relative_max=int((positions - low)[live].max()) if live.any() else 0,
        )

    def to(self, device: torch.device | str) -> "IntervalPlan":
        """The same plan with its tensors on `device`; chunks keep the size that suits where they were built."""
        device = torch.device(device)
        return replace(
            self,
            lo=self.lo.to(device),
            hi=self.hi.to(device),
            query_positions=self.query_positions.to(device),
            chunks=[chunk.to(device) for chunk in self.chunks],
        )

    def visible(self) -> torch.Tensor:
        """The dense mask `(I, J)`, True at visible keys; O(I J) memory, for references and analysis."""
        keys = torch.arange(self.num_keys, device=self.device)
        return (self.lo[:, None] <= keys) & (keys <= self.hi[:, None])

    def block_mask(self, block_size: int = 128) -> Any:
        """The plan as a `BlockMask` of flex attention, made from the bounds without an I x J mask."""
        from torch.nn.attention.flex_attention import BlockMask

        num_queries, num_keys = self.num_queries, self.num_keys
        lo, hi = self.lo.cpu().numpy(), self.hi.cpu().numpy()
        live = lo <= hi
        query_blocks, key_blocks = -(-num_queries // block_size), -(-num_keys // block_size)
        rows = np.arange(num_queries) // block_size
        # +1 at the first block that a query reads, -1 behind the last: the running sum counts the readers of a block
        readers = np.zeros((query_blocks, key_blocks + 1), dtype=np.int64)
        np.add.at(readers, (rows[live], lo[live] // block_size), 1)
        np.add.at(readers, (rows[live], hi[live] // block_size + 1), -1)
        some = readers.cumsum(axis=1)[:, :key_blocks] > 0
        # blocks in which every query of the block sees every key need no mask
        full = np.zeros((query_blocks, key_blocks + 1), dtype=np.int64)
        first, last = -(-lo // block_size), (hi + 1) // block_size
        whole = live & (first < last)
        np.add.at(full, (rows[whole], first[whole]), 1)
        np.add.at(full, (rows[whole], last[whole]), -1)
        every = full.cumsum(axis=1)[:, :key_blocks] == block_size
        tensors = [
            *_ordered_blocks(some & ~every, self.device),
            *_ordered_blocks(every, self.device),
        ]
        lo_row, hi_row = self.lo, self.hi

        def sees(batch, head, query, key):
            return (key >= lo_row[query]) & (key <= hi_row[query])

        return BlockMask.from_kv_blocks(
            *tensors, BLOCK_SIZE=block_size, mask_mod=sees, seq_lengths=(num_queries, num_keys)
        )


def _ordered_blocks(mask: np.ndarray, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Count and indices, ascending and then the rest, of the True columns: the layout of `BlockMask`."""
    order = np.argsort(~mask, axis=1, kind="stable").astype(np.int32)
    counts = mask.sum(axis=1).astype(np.int32)
    return torch.from_numpy(counts).to(device)[None, None], torch.from_numpy(order).to(device)[None, None]


def _integers(name: str, values: torch.Tensor | np.ndarray) -> np.ndarray:
    array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"`{name}` must be one row of integers, got shape {array.shape} of {array.dtype}.")
    return array.astype(np.int64)
