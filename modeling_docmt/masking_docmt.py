"""
Who may see whom: the masks of a batch, one builder a visibility rule.

Dense rules are masks of Transformers. The others are intervals: query t sees the keys lo[t]..hi[t] of the flat row of
a batch, and their mask is a plan of interval attention.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import EncoderDecoderCache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask

from .alignment_docmt import SourceSentences, TargetPlaces, align
from .attention_recurrent import RecurrentPlan
from .configuration_docmt import DocMTConfig
from .interval_plan_docmt import IntervalPlan
from .packing_docmt import TokenLayout
from .sentences_docmt import source_sentence_ids, target_sentence_ids


# queries in a block that sees the whole document with relative positions: each block has distances of its own, as many
# as it has keys and queries
RELATIVE_BLOCK = 128
# plans are made by NumPy: torch.compile would trace it into operations on tensors, and some do not exist
opaque = torch.compiler.disable


@dataclass
class MaskInputs:
    """
    What the rules read.

    Args:
        place (`str`): `"encoder"`, `"decoder"` (causal) or `"cross"`.
        config (`DocMTConfig`): The model.
        hidden_states (`torch.Tensor` of shape `(B, T, d_model)`): States of the queries, padded.
        attention_mask (`torch.Tensor` of shape `(B, K)`, *optional*): 1 at keys that are tokens.
        encoder_hidden_states (`torch.Tensor` of shape `(B, K, d_model)`, *optional*): Source states (cross).
        cache (`EncoderDecoderCache`, *optional*): Keys and values of earlier steps (decoder).
        queries, keys (`TokenLayout`, *optional*): Flat rows of queries and keys; for intervals.
        query_ids, key_ids (`torch.LongTensor` of shapes `(B, T)` and `(B, K)`, *optional*):
            Token ids; for rules that know sentences.
        alignment (`str`, *optional*): Which source position a target position is aligned with; for windows (cross).
    """

    place: str
    config: DocMTConfig
    hidden_states: torch.Tensor
    attention_mask: torch.Tensor | None = None
    encoder_hidden_states: torch.Tensor | None = None
    cache: EncoderDecoderCache | None = None
    queries: TokenLayout | None = None
    keys: TokenLayout | None = None
    query_ids: torch.LongTensor | None = None
    key_ids: torch.LongTensor | None = None
    alignment: str | None = None


def _dense_mask(inputs: MaskInputs) -> Any:
    if inputs.place == "decoder":
        return create_causal_mask(
            config=inputs.config,
            inputs_embeds=inputs.hidden_states,
            attention_mask=inputs.attention_mask,
            cache=None if inputs.cache is None else inputs.cache.self_attention_cache,
        )
    return create_bidirectional_mask(
        config=inputs.config,
        inputs_embeds=inputs.hidden_states,
        attention_mask=inputs.attention_mask,
        encoder_hidden_states=inputs.encoder_hidden_states,
    )


@opaque
def _document_plan(inputs: MaskInputs) -> IntervalPlan:
    """All keys of the document; in the decoder, up to the query."""
    queries, keys = _layouts(inputs)
    low = np.zeros_like(queries.positions)
    high = queries.positions if inputs.place == "decoder" else keys.lengths[queries.documents] - 1
    is_relative = inputs.config.relative_distances is not None and inputs.place != "cross"
    block_size = RELATIVE_BLOCK if is_relative else None
    return _plan(low, high, queries, keys, queries.positions, block_size)


@opaque
def _window_plan(inputs: MaskInputs) -> IntervalPlan:
    """Keys at most `window_size` away from the query itself, or from the source position aligned with it."""
    queries, keys = _layouts(inputs)
    centers = _aligned_positions(inputs) if inputs.place == "cross" else queries.positions
    low = np.maximum(centers - inputs.config.window, 0)
    high = np.minimum(centers + inputs.config.window, keys.lengths[queries.documents] - 1)
    if inputs.place == "decoder":
        high = queries.positions
    return _plan(low, high, queries, keys, centers)


@opaque
def _sentence_plan(inputs: MaskInputs) -> IntervalPlan:
    """Keys of the query's own sentence, in the decoder up to the query; or of the source sentence it translates."""
    queries, keys = _layouts(inputs)
    if inputs.place == "decoder":
        first = queries.positions - _target_places(inputs).places
        return _plan(first, queries.positions, queries, keys)
    if inputs.place == "cross":
        source = SourceSentences.from_ids(_ids(inputs.key_ids, inputs), keys.lengths, inputs.config)
        # a surplus target sentence looks at the last one of the source
        sentences = np.minimum(_target_places(inputs).sentences, source.counts[queries.documents] - 1)
        # a leading special belongs to the first sentence
        first = np.where(sentences == 0, 0, source.starts[queries.documents, sentences])
        return _plan(first, source.ends[queries.documents, sentences] - 1, queries, keys)
    sentences = queries.pack_array(source_sentence_ids(_ids(inputs.key_ids, inputs), inputs.config))
    places, lengths = _places(sentences, queries)
    first = queries.positions - places
    return _plan(first, first + lengths - 1, queries, keys)


@opaque
def _recurrent_plan(inputs: MaskInputs) -> RecurrentPlan:
    """
    Keys of the query's own sentence up to the query, and of the `memory_sentences` before it.

    Every sentence gets a run of keys of its own: those of its memory, and its own behind them.
    """
    queries, _ = _layouts(inputs)
    target = _target_places(inputs)
    rows = np.arange(len(queries.documents))
    is_first = (target.places == 0) & queries.is_token
    starts = rows[is_first]  # row of the first token of each sentence of the batch
    documents = queries.documents[is_first]
    sentence = np.cumsum(is_first) - 1  # of each row, among all of the batch; padding has that of the token before it
    lengths = np.bincount(sentence[queries.is_token], minlength=len(starts))
    number = np.arange(len(starts))
    first_of_document = np.searchsorted(documents, documents)
    memory_starts = starts[np.maximum(number - inputs.config.memory_sentences, first_of_document)]
    counts = starts + lengths - memory_starts
    offsets = np.cumsum(counts) - counts
    keys = np.arange(counts.sum()) - np.repeat(offsets - memory_starts, counts)
    is_memory = keys < np.repeat(starts, counts)
    low = offsets[sentence]
    own = low + rows - memory_starts[sentence]
    plan = IntervalPlan.build(
        low, np.where(queries.is_token, own, low - 1), len(keys), query_positions=own, device=queries.device
    )
    return RecurrentPlan(plan, *(torch.from_numpy(array).to(queries.device) for array in (keys, is_memory)))


# one entry a visibility rule; an attention class names those it reads in `mask_names`
MASK_BUILDERS: dict[str, Callable[[MaskInputs], Any]] = {
    "dense": _dense_mask,
    "document": _document_plan,
    "window": _window_plan,
    "sentence": _sentence_plan,
    "recurrent": _recurrent_plan,
}
# rules whose mask is a plan
INTERVAL_RULES = frozenset(MASK_BUILDERS) - {"dense"}


def build_attention_masks(names: Iterable[str], inputs: MaskInputs) -> dict[str, Any]:
    """
    Build the masks of a batch once, for all layers that share them.

    Args:
        names (`Iterable[str]`): Masks wanted, keys of `MASK_BUILDERS`.
        inputs (`MaskInputs`): What the rules read.

    Returns:
        `dict`: masks by name. Dense ones are in the format of the attention backend in use, `None` where everything is
        visible; the others are plans.
    """
    return {name: MASK_BUILDERS[name](inputs) for name in sorted(set(names))}


def _layouts(inputs: MaskInputs) -> tuple[TokenLayout, TokenLayout]:
    if inputs.cache is not None:
        raise ValueError(
            "Attention within intervals keeps no cache of the stock `generate()`: call it with `use_cache=False`, or "
            "translate documents (`decoding` other than None), which has a cache of its own."
        )
    if inputs.queries is None or inputs.keys is None:
        raise ValueError("Attention within intervals needs the layouts of queries and keys.")
    return inputs.queries, inputs.keys


def _ids(ids: torch.LongTensor | None, inputs: MaskInputs) -> torch.LongTensor:
    if ids is None:
        side = "input_ids" if inputs.place == "encoder" else "input_ids` and `decoder_input_ids"
        raise ValueError(
            f"`{side}` are needed by system {inputs.config.system!r}, which reads the sentences from them: give them "
            "together with embeddings or `encoder_outputs`."
        )
    return ids


def _places(sentences: np.ndarray, layout: TokenLayout) -> tuple[np.ndarray, np.ndarray]:
    """Position of each token in its sentence, and length of that sentence, from the numbers of the sentences."""
    is_first = (np.diff(sentences, prepend=-1) != 0) | (layout.positions == 0)
    first = np.flatnonzero(is_first)
    sentence = np.cumsum(is_first) - 1  # among all of the row
    # padding counts in no sentence
    lengths = np.add.reduceat(layout.is_token.astype(np.int64), first) if len(first) else first
    return np.arange(len(sentences)) - first[sentence], lengths[sentence]


def _target_places(inputs: MaskInputs) -> TargetPlaces:
    queries, _ = _layouts(inputs)
    sentences = queries.pack_array(target_sentence_ids(_ids(inputs.query_ids, inputs), inputs.config))
    places, lengths = _places(sentences, queries)
    return TargetPlaces(
        documents=queries.documents,
        positions=queries.positions,
        sentences=sentences,
        places=places,
        lengths=np.maximum(queries.lengths[queries.documents], 1),
        sentence_lengths=np.maximum(lengths, 1),
    )


def _aligned_positions(inputs: MaskInputs) -> np.ndarray:
    queries, keys = _layouts(inputs)
    if inputs.alignment in ("sent-align", "sent-linear"):
        source = SourceSentences.from_ids(_ids(inputs.key_ids, inputs), keys.lengths, inputs.config)
        return align(inputs.alignment, source, _target_places(inputs), inputs.config)
    # one sentence: the other alignments do not look
    source = SourceSentences(np.zeros((len(keys.lengths), 1), int), np.ones_like(keys.lengths), keys.lengths)
    lengths = np.maximum(queries.lengths[queries.documents], 1)
    target = TargetPlaces(queries.documents, queries.positions, 0 * queries.positions, queries.positions, lengths)
    return align(str(inputs.alignment), source, target, inputs.config)


def _plan(
    low: np.ndarray,
    high: np.ndarray,
    queries: TokenLayout,
    keys: TokenLayout,
    centers: np.ndarray | None = None,
    block_size: int | None = None,
) -> IntervalPlan:
    """The plan of bounds that count in the document of each query, as `centers` do; padding sees nothing."""
    start = keys.starts[queries.documents]
    high = np.where(queries.is_token, high, low - 1)
    positions = start + (queries.positions if centers is None else centers)
    return IntervalPlan.build(
        start + low,
        start + high,
        len(keys.documents),
        query_positions=positions,
        device=keys.device,
        block_size=block_size,
    )
