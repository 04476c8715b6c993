"""
Which source position a target position is aligned with: the centres of windows in cross-attention.

Source: Herold and Ney (2023), on target-source alignment; `"sent-linear"` and the handling of surplus separators are
ours. Positions count from 0 here, from 1 in the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .configuration_docmt import ALIGNMENTS, DECODING_ALIGNMENTS, DocMTConfig
from .sentences_docmt import is_separator


@dataclass
class SourceSentences:
    """
    Where the sentences of B source sequences begin.

    Args:
        starts (`np.ndarray` of shape `(B, N)`): First position of each sentence, behind a leading `<sos>`; the rows
            of shorter documents are filled with the length.
        counts (`np.ndarray` of shape `(B,)`): Sentences of each.
        lengths (`np.ndarray` of shape `(B,)`): Tokens of each, J.
    """

    starts: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def from_ids(cls, ids: torch.LongTensor, lengths: np.ndarray, config: DocMTConfig) -> "SourceSentences":
        """Read the separators in `ids` `(B, S)`, of which the first `lengths` of a row are tokens."""
        separators = is_separator(ids.cpu(), config).numpy()
        separators &= np.arange(ids.shape[1]) < lengths[:, None] - 1
        counts = separators.sum(axis=1) + 1
        starts = np.repeat(lengths[:, None], counts.max(initial=1), axis=1)
        starts[:, 0] = int(config.use_sos)
        rows, columns = separators.nonzero()
        places = np.concatenate([np.arange(1, count) for count in counts]) if len(counts) else rows
        starts[rows, places] = columns + 1
        return cls(starts, counts, lengths)

    @classmethod
    def stack(cls, parts: Sequence["SourceSentences"]) -> "SourceSentences":
        """Several of them as one."""
        lengths = np.concatenate([part.lengths for part in parts])
        starts = np.repeat(lengths[:, None], max(part.starts.shape[1] for part in parts), axis=1)
        row = 0
        for part in parts:
            starts[row : row + len(part.lengths), : part.starts.shape[1]] = part.starts
            row += len(part.lengths)
        return cls(starts, np.concatenate([part.counts for part in parts]), lengths)

    @property
    def ends(self) -> np.ndarray:
        """One behind the last position of each sentence, the token that closes it included; `(B, N)`."""
        return np.concatenate((self.starts[:, 1:], self.lengths[:, None]), axis=1)


@dataclass
class TargetPlaces:
    """
    Where queries of the decoder stand; arrays of one shape.

    Args:
        documents (`np.ndarray`): Row of the source sequence.
        positions (`np.ndarray`): Position in the target sequence, i - 1.
        sentences (`np.ndarray`): Index of the target sentence that the query predicts.
        places (`np.ndarray`): Position in that sentence, t - 1.
        lengths (`np.ndarray`, *optional*): Length of the whole target, I, where it is known.
        sentence_lengths (`np.ndarray`, *optional*): Length of the target sentence, I_s, where it is known.
    """

    documents: np.ndarray
    positions: np.ndarray
    sentences: np.ndarray
    places: np.ndarray
    lengths: np.ndarray | None = None
    sentence_lengths: np.ndarray | None = None


def align(alignment: str, source: SourceSentences, target: TargetPlaces, config: DocMTConfig) -> np.ndarray:
    """
    The aligned source position of each query, of the shape of `target.positions`.

    Args:
        alignment (`str`):
            `"one2one"`: the same position. `"linear"`: a straight line from start to end. `"ratio"`: a straight line
            whose slope is `config.train_ratio`. `"sent-align"`: sentences start together, one step a token.
            `"sent-linear"`: sentences start and end together, a straight line between.
        source (`SourceSentences`), target (`TargetPlaces`): The sequences.
        config (`DocMTConfig`): `train_ratio` and `clip_alignment`.

    Raises:
        `ValueError`: if the alignment needs lengths of the target that are not known before it is translated.
    """
    total = source.lengths[target.documents]
    if alignment == "one2one":
        return np.minimum(target.positions, total - 1)
    if alignment == "linear":
        length = _known(target.lengths, alignment)
        return np.clip(_round_half_up(total * (target.positions + 1), length), 1, total) - 1
    if alignment == "ratio":
        rounded = np.floor(config.train_ratio * (target.positions + 1) + 0.5).astype(np.int64)
        return np.clip(rounded, 1, total) - 1
    # behind as many separators as the source has sentences, the last one starts again
    sentence = np.minimum(target.sentences, source.counts[target.documents] - 1)
    start, end = source.starts[target.documents, sentence], source.ends[target.documents, sentence]
    if alignment == "sent-linear":
        length = _known(target.sentence_lengths, alignment)
        return start + np.clip(_round_half_up((end - start) * (target.places + 1), length), 1, end - start) - 1
    if alignment != "sent-align":
        raise ValueError(f"`alignment` must be one of {', '.join(map(repr, ALIGNMENTS))}, got {alignment!r}.")
    return np.minimum(start + target.places, (end if config.clip_alignment else total) - 1)


def _round_half_up(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    return (2 * numerator + denominator) // (2 * denominator)


def _known(lengths: np.ndarray | None, alignment: str) -> np.ndarray:
    if lengths is None:
        raise ValueError(
            f"`alignment={alignment!r}` needs the lengths of the target, which decoding does not know: use one of "
            f"{', '.join(map(repr, DECODING_ALIGNMENTS))}."
        )
    return lengths
