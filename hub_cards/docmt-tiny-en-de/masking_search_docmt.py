"""Who may see whom in document decoding: the rules of `masking_docmt`, for a few queries and stretches of keys."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .configuration_docmt import DocMTConfig


@dataclass
class SearchQueries:
    """
    Where the new tokens of a decoding pass stand: n sequences, G beams, T tokens.

    Args:
        positions (`torch.LongTensor` of shape `(n, 1, T)`): Positions in the target.
        sentences (`torch.LongTensor` of shape `(n, G, T)`): Indices of the sentences that they predict.
        centers (`torch.LongTensor` of shape `(n, G, T)`, *optional*): Aligned source positions; for windows.
        places (`torch.LongTensor` of shape `(n, G, T)`, *optional*): Positions in those sentences.
    """

    positions: torch.LongTensor
    sentences: torch.LongTensor
    centers: torch.LongTensor | None = None
    places: torch.LongTensor | None = None


@dataclass
class StretchKeys:
    """
    What masks know of the keys of a stretch.

    Args:
        hidden (`torch.BoolTensor`, *optional*):
            True where no rule may look, broadcast to `(n, G, T, K)`: filling, later tokens, other beams.
        positions, sentences (`torch.LongTensor` of shape `(n, K)`): Position and sentence of each key.
    """

    hidden: torch.Tensor | None
    positions: torch.LongTensor
    sentences: torch.LongTensor


def _everything(place: str, config: DocMTConfig, queries: SearchQueries, keys: StretchKeys) -> None:
    return None


def _beyond_window(place: str, config: DocMTConfig, queries: SearchQueries, keys: StretchKeys) -> torch.Tensor:
    return _distances(place, queries, keys).abs() > config.window


def _in_other_sentences(place: str, config: DocMTConfig, queries: SearchQueries, keys: StretchKeys) -> torch.Tensor:
    sentences = queries.sentences
    if place == "cross":
        # a surplus target sentence looks at the last one of the source
        sentences = torch.minimum(sentences, keys.sentences.amax(dim=-1)[:, None, None])
    return sentences[..., None] != keys.sentences[:, None, None]


def _beyond_memory(place: str, config: DocMTConfig, queries: SearchQueries, keys: StretchKeys) -> torch.Tensor:
    return keys.sentences[:, None, None] < queries.sentences[..., None] - config.memory_sentences


# what each rule hides, beside what is hidden in any case; the names are those of `MASK_BUILDERS`
SEARCH_RULES: dict[str, Callable] = {
    "dense": _everything,
    "document": _everything,
    "window": _beyond_window,
    "sentence": _in_other_sentences,
    "recurrent": _beyond_memory,
}


def build_search_masks(
    names: Iterable[str],
    place: str,
    config: DocMTConfig,
    queries: SearchQueries,
    stretches: Sequence[StretchKeys],
    dtype: torch.dtype,
) -> dict[str, Any]:
    """
    Masks of a decoding pass, built once for all layers.

    Args:
        names (`Iterable[str]`): Rules wanted, keys of `SEARCH_RULES`.
        place (`str`): `"decoder"` or `"cross"`.
        config (`DocMTConfig`): The model.
        queries (`SearchQueries`), stretches (`Sequence[StretchKeys]`): Who looks, at what.
        dtype (`torch.dtype`): Of the logits.

    Returns:
        `dict`: for each name a list with one entry a stretch, to be added to logits `(n, H, G, T, K)`, or `None`; and
        under `"distances"`, for relative positions, those of query, or aligned position, and key, `(n, G or 1, T, K)`.
    """
    masks: dict[str, Any] = {}
    for name in set(names):
        masks[name] = []
        for keys in stretches:
            hidden, more = keys.hidden, SEARCH_RULES[name](place, config, queries, keys)
            if more is not None:
                hidden = more if hidden is None else hidden | more
            masks[name].append(_additive(hidden, dtype))
    is_relative = config.position_encoding == "relative" or config.relative_distances is not None
    is_relative = is_relative or config.decoder_self_attention == "recurrent"
    if (place == "decoder" and is_relative) or (place == "cross" and config.relative_cross):
        masks["distances"] = [_distances(place, queries, keys) for keys in stretches]
    return masks


def _distances(place: str, queries: SearchQueries, keys: StretchKeys) -> torch.Tensor:
    """Of keys from the query, or in the source from the position aligned with it: `(n, G or 1, T, K)`."""
    centers = queries.positions
    if place == "cross":
        if queries.centers is None:
            raise ValueError("Windows of cross-attention need aligned source positions.")
        centers = queries.centers
    return centers[..., None] - keys.positions[:, None, None]


def _additive(hidden: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    if hidden is None or not hidden.any():
        return None
    mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill(hidden, -torch.inf)
    return mask[:, None]
