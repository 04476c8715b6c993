"""
Sequential decoding: sentence by sentence, each behind the translations of those before it.

`decode_in_rounds` forgets everything between two sentences: it serves sources that grow or slide, and is the plain
reference of `decode_with_cache`, which encodes a part once and keeps the decoder states of the committed translations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from .cache_docmt import BeamCache
from .decoding_docmt import (
    GeneratedSentence,
    add_log_probs,
    chosen_log_probs,
    decode_requests,
    encode_sources,
    pad_left,
    positions_of,
    read_sentences,
    search_continuations,
    take_batch,
)
from .decoding_documents_docmt import DocumentJob, decoding_parts
from .decoding_options_docmt import DocumentOptions, SearchSettings
from .decoding_tasks_docmt import DecodingTask, sequential_task


@dataclass(frozen=True)
class PartState:
    """A part of a document and the unit that is to be translated next."""

    job: DocumentJob
    part: range
    unit: int

    @property
    def num_left(self) -> int:
        """Units still to be translated."""
        return self.part.stop - self.unit


def decode_sequentially(
    model: Any,
    jobs: Sequence[DocumentJob],
    search: SearchSettings,
    options: DocumentOptions,
    on_progress: Callable[[], None],
) -> None:
    """
    Translate all documents sentence by sentence, batched across documents and parts.

    Args:
        model (`DocMTForConditionalGeneration`): The model.
        jobs (`Sequence[DocumentJob]`): Documents; they receive their translations.
        search (`SearchSettings`), options (`DocumentOptions`): How to decode.
        on_progress (`Callable`): Called whenever sentences have been translated.
    """
    states = []
    for job in jobs:
        for part in decoding_parts(job, model.config):
            unit = max(part.start, min(job.num_given, part.stop))
            if unit < part.stop:
                states.append(PartState(job, part, unit))
    keeps_states = (
        model.config.sequence_format == "document"
        and options.source_context == "full"
        and options.reuse_cache
        and search.stock["use_cache"] is not False
        and search.stock["cache_implementation"] is None
        # the winner is committed in one pass, which scores no other hypothesis
        and search.num_hypotheses == 1
    )
    if not keeps_states:
        decode_in_rounds(model, states, search, options, on_progress)
        return
    if not search.keep_order:
        # parts of a batch should end together
        states.sort(key=lambda state: (state.num_left, len(_task(model, state, options).request.source)), reverse=True)
    requests = [_task(model, state, options).request for state in states]
    order = list(range(len(states)))
    while order:
        batch = take_batch(order, requests, search)
        order = order[len(batch) :]
        decode_with_cache(model, [states[index] for index in batch], search, options, on_progress)


def _task(model: Any, state: PartState, options: DocumentOptions) -> DecodingTask:
    return sequential_task(state.job, state.part, state.unit, model.config, options)


def decode_in_rounds(
    model: Any,
    states: Sequence[PartState],
    search: SearchSettings,
    options: DocumentOptions,
    on_progress: Callable[[], None],
) -> None:
    """One sentence of every part a round, each from scratch: encoder and target prefix are computed again."""
    while states:
        tasks = [_task(model, state, options) for state in states]

        def store(index: int, hypotheses: list[list[GeneratedSentence]], tasks: list[DecodingTask] = tasks) -> None:
            tasks[index].store(hypotheses, model.config)

        decode_requests(model, [task.request for task in tasks], search, store)
        on_progress()
        states = [replace(state, unit=state.unit + 1) for state in states if state.num_left > 1]


def decode_with_cache(
    model: Any,
    states: Sequence[PartState],
    search: SearchSettings,
    options: DocumentOptions,
    on_progress: Callable[[], None],
) -> None:
    """
    Translate parts whose source is encoded once, all in one batch, which a part leaves when it is done.

    Target columns are shared by the batch, so a short sentence leaves holes (mask 0) in front of its tokens: the last
    column is a token in every row, since the next one is predicted from it. `cache` holds the states of all columns
    but the last. A search works on a copy of it, with one row a beam; one parallel pass over the winners extends it.
    """
    config = model.config
    tasks = [_task(model, state, options) for state in states]
    encoder_states, source_mask = encode_sources(model, [task.request.source for task in tasks])
    ids, mask = pad_left([[config.decoder_start_token_id, *task.request.target_prefix] for task in tasks], model)
    cache: EncoderDecoderCache | None = None
    if ids.shape[1] > 1:
        cache, _ = extend_cache(model, cache, encoder_states, source_mask, ids, mask)
    while True:
        requests = [task.request for task in tasks]
        beams = None if cache is None else fork_cache(cache, search.num_beams)
        continuations = search_continuations(
            model, search, requests, encoder_states, source_mask, ids, mask, cache=beams
        )
        winners = [
            read_sentences(ranked[0], request, config) for ranked, request in zip(continuations, requests, strict=True)
        ]
        # where the caller stopped the search, a sentence may lack its closing token, or even be missing
        columns = [
            [*(sentences[0].ids if sentences else []), request.rules[0].closing_tokens[0]]
            for sentences, request in zip(winners, requests, strict=True)
        ]
        new_ids, new_mask = pad_left(columns, model)
        ids, mask = torch.cat((ids, new_ids), dim=1), torch.cat((mask, new_mask), dim=1)
        alive = [row for row, state in enumerate(states) if state.num_left > 1]
        if alive or search.has_scores:
            cache, logits = extend_cache(model, cache, encoder_states, source_mask, ids, mask)
            if search.has_scores:
                winners = _score_winners(winners, logits, new_ids)
        for task, sentences in zip(tasks, winners, strict=True):
            task.store([sentences], config)
        on_progress()
        if not alive:
            return
        states = [replace(states[row], unit=states[row].unit + 1) for row in alive]
        tasks = [_task(model, state, options) for state in states]
        rows = torch.tensor(alive, device=ids.device)
        if cache is not None and len(alive) < len(ids):
            encoder_states, source_mask, ids, mask = (x[rows] for x in (encoder_states, source_mask, ids, mask))
            cache.batch_select_indices(rows)


def _score_winners(
    winners: Sequence[list[GeneratedSentence]], logits: torch.Tensor, new_ids: torch.LongTensor
) -> list[list[GeneratedSentence]]:
    """Log-probabilities of the committed sentences; logits `(B, T, V)` start with the column in front of them."""
    width = new_ids.shape[1]
    scored = []
    for row, sentences in enumerate(winners):
        if not sentences:
            scored.append(sentences)
            continue
        tokens = sentences[0].tokens
        # tokens stand on the right of their columns; the first is predicted from the column in front of all
        start = width - len(sentences[0].ids) - 1
        predictors = [0, *range(start + 1, width)][: len(tokens)]
        targets = new_ids[row, start : start + len(tokens)]
        log_probs = chosen_log_probs(logits[row, predictors][None], targets[None])[0]
        scored.append(add_log_probs(sentences, log_probs.tolist()))
    return scored


def extend_cache(
    model: Any,
    cache: EncoderDecoderCache | None,
    encoder_states: torch.Tensor,
    source_mask: torch.LongTensor,
    ids: torch.LongTensor,
    mask: torch.LongTensor,
) -> tuple[EncoderDecoderCache, torch.Tensor]:
    """
    Bring the cache up to the last column but one, in one parallel pass.

    Args:
        model (`DocMTForConditionalGeneration`): The model.
        cache (`EncoderDecoderCache`, *optional*): States of the first columns, changed in place; `None` for none.
        encoder_states (`torch.Tensor` of shape `(B, S, d_model)`), source_mask (`torch.LongTensor` of shape `(B, S)`):
            Encoded sources.
        ids, mask (`torch.LongTensor` of shape `(B, T)`): Decoder input from the start; 0 in the mask is a hole.

    Returns:
        `tuple(EncoderDecoderCache, torch.Tensor)`: the cache, and logits of the columns that are new in it.
    """
    start = 0 if cache is None else cache.get_seq_length()
    outputs = model(
        encoder_outputs=BaseModelOutput(last_hidden_state=encoder_states),
        attention_mask=source_mask,
        decoder_input_ids=ids[:, start:-1],
        decoder_attention_mask=mask[:, :-1],
        decoder_position_ids=positions_of(mask)[:, start:-1],
        cache=cache,
        use_cache=True,
    )
    return outputs.cache, outputs.logits


def fork_cache(cache: EncoderDecoderCache, num_beams: int) -> EncoderDecoderCache:
    """A copy with `num_beams` rows for each row, which may grow and be reordered without harm to the original."""
    copies = []
    for side in (cache.self_attention_cache, cache.cross_attention_cache):
        copy = DynamicCache()
        for layer_idx, layer in enumerate(side.layers):
            keys, values = (states.repeat_interleave(num_beams, dim=0) for states in (layer.keys, layer.values))
            copy.update(keys, values, layer_idx)
        copies.append(copy)
    # states in the second one mark cross-attention as computed
    return BeamCache(*copies)
