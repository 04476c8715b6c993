"""How the tokens of a batch lie in one flat row: document after document, with or without the padding."""

from dataclasses import dataclass

import numpy as np
import torch


def states_at(states: torch.Tensor, places: torch.BoolTensor) -> torch.Tensor:
    """
    States of the marked places alone.

    Args:
        states (`torch.Tensor` of shape `(B, L, ...)`): States of a padded batch.
        places (`torch.BoolTensor` of shape `(B, L)`): True where they are wanted.

    Returns:
        `torch.Tensor` of shape `(n, ...)`: one row a place; not a copy where all are wanted.

    Raises:
        `ValueError`: if the shapes do not fit.
    """
    if places.shape != states.shape[:2]:
        raise ValueError(f"`logits_at` must be {tuple(states.shape[:2])}, as the target, got {tuple(places.shape)}.")
    rows, index = states.flatten(0, 1), places.flatten().nonzero().flatten()
    # not `states[places]`, whose gradient is a scattered sum
    return rows if len(index) == len(rows) else rows.index_select(0, index)


@dataclass
class TokenLayout:
    """
    The flat row of a batch of right-padded sequences. Make one with `from_mask`.

    Args:
        lengths (`np.ndarray` of shape `(B,)`): Tokens of each sequence.
        width (`int`): Columns of the padded batch, L.
        is_packed (`bool`): Whether the row has the tokens alone; else it has all B L columns.
        device (`torch.device`): Where states are.
    """

    lengths: np.ndarray
    width: int
    is_packed: bool
    device: torch.device

    def __post_init__(self):
        counts = self.lengths if self.is_packed else np.full_like(self.lengths, self.width)
        self.starts = np.cumsum(counts) - counts  # first row of each sequence
        self.documents = np.repeat(np.arange(len(counts)), counts)
        self.positions = np.arange(counts.sum()) - self.starts[self.documents]
        self.is_token = self.positions < self.lengths[self.documents]
        self._index = None
        if self.is_packed and not (self.lengths == self.width).all():
            index = self.documents * self.width + self.positions
            self._index = torch.from_numpy(index).to(self.device)

    @classmethod
    @torch.compiler.disable  # NumPy, see `masking_docmt.opaque`
    def from_mask(cls, mask: torch.Tensor | None, shape: tuple[int, int], device: torch.device, is_packed: bool):
        """
        Read the lengths off a mask `(B, L)` with 1 at tokens; `None` for no padding.

        Raises:
            `ValueError`: if there is padding in front of or between tokens.
        """
        batch_size, width = shape
        if mask is None:
            return cls(np.full(batch_size, width), width, is_packed, device)
        lengths = mask.sum(dim=-1).cpu().numpy().astype(np.int64)
        columns = np.arange(width)
        if mask.shape != (batch_size, width) or not np.array_equal(
            mask.bool().cpu().numpy(), columns < lengths[:, None]
        ):
            raise ValueError(
                "Attention within intervals needs sequences that are padded on the right alone: `attention_mask` (or "
                f"`decoder_attention_mask`) of shape {(batch_size, width)} with ones in front, got shape "
                f"{tuple(mask.shape)} with other padding, or holes."
            )
        return cls(lengths, width, is_packed, device)

    def pack(self, states: torch.Tensor) -> torch.Tensor:
        """Padded states `(B, L, ...)` to the states of the row, `(1, rows, ...)`."""
        flat = states.flatten(0, 1)
        return (flat if self._index is None else flat.index_select(0, self._index))[None]

    def pack_shared(self, states: torch.Tensor | None) -> torch.Tensor | None:
        """States that all sequences may share, `(B or 1, L, ...)`, as those of the row; `None` stays `None`."""
        return None if states is None else self.pack(states.expand(len(self.lengths), *states.shape[1:]))

    def unpack(self, states: torch.Tensor) -> torch.Tensor:
        """States of the row `(1, rows, ...)` to padded ones `(B, L, ...)`, zeros at padding."""
        flat = states[0]
        if self._index is not None:
            padded = flat.new_zeros(len(self.lengths) * self.width, *flat.shape[1:])
            flat = padded.index_copy(0, self._index, flat)
        return flat.unflatten(0, (len(self.lengths), self.width))

    def pack_array(self, numbers: torch.Tensor) -> np.ndarray:
        """Integers of the padded batch, `(B, L)`, as an array of the row, `(rows,)`."""
        return numbers.cpu().numpy()[self.documents, self.positions]
