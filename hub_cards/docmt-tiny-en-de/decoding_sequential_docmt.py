"""
Sequential decoding: sentence by sentence, each behind the translations of those before it.

`decode_from_scratch` forgets everything between two sentences: it serves sources that grow or slide, and is the plain
reference of `decode_with_cache`, which encodes a part once and keeps the decoder states of the committed translations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .decoding_docmt import decode_requests, take_batch
from .decoding_documents_docmt import DocumentJob, decoding_parts
from .decoding_options_docmt import DocumentOptions, SearchSettings
from .decoding_requests_docmt import DecodingRequest, GeneratedSentence, read_sentences
from .decoding_tasks_docmt import DecodingTask, continued_task, sequential_task
from .search_docmt import DocumentSearch, is_supported


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
        and is_supported(search)
    )
    if not keeps_states:
        decode_from_scratch(model, states, search, options, on_progress)
        return
    if not search.keep_order:
        # long ones first: the places of short ones are filled again
        states.sort(key=lambda state: state.num_left, reverse=True)
    decode_with_cache(model, states, search, options, on_progress)


def _task(model: Any, state: PartState, options: DocumentOptions) -> DecodingTask:
    return sequential_task(state.job, state.part, state.unit, model.config, options)


def decode_from_scratch(
    model: Any,
    states: Sequence[PartState],
    search: SearchSettings,
    options: DocumentOptions,
    on_progress: Callable[[], None],
) -> None:
    """Each sentence as a request of its own: encoder and target prefix are computed again."""
    states = list(states)
    tasks = [_task(model, state, options) for state in states]

    def store(index: int, hypotheses: list[list[GeneratedSentence]]) -> DecodingRequest | None:
        tasks[index].store(hypotheses, model.config)
        on_progress()
        if states[index].num_left == 1:
            return None
        states[index] = replace(states[index], unit=states[index].unit + 1)
        tasks[index] = _task(model, states[index], options)
        return tasks[index].request

    decode_requests(model, [task.request for task in tasks], search, store)


def decode_with_cache(
    model: Any,
    states: Sequence[PartState],
    search: SearchSettings,
    options: DocumentOptions,
    on_progress: Callable[[], None],
) -> None:
    """
    Sources are encoded once, and the states of committed translations are kept.

    A document goes on with its next sentence when some others are ready too, and its place goes to the next one when
    it ends.
    """
    config = model.config
    tasks = [_task(model, state, options) for state in states]
    order = list(range(len(states)))
    running = DocumentSearch(model, search)

    def next_sentence(place: int) -> tuple[DecodingRequest, list[int]]:
        slot = running.slots[place]
        task, state = slot.key
        sentences = read_sentences(slot.result[0], slot.request, config)
        # where the caller stopped the search, a sentence may lack its closing token, or even be missing
        tokens = [*(sentences[0].ids if sentences else []), slot.request.rules[0].closing_tokens[0]]
        state = replace(state, unit=state.unit + 1)
        task = continued_task(state.job, state.part, state.unit, config, options)
        slot.key = (task, state)
        return task.request, tokens

    while order or running.slots:
        if not running.slots or running.is_time_to_turn_over:
            leaving = [place for place in running.done if running.slots[place].key[1].num_left == 1]
            going_on = {place: next_sentence(place) for place in running.done if place not in leaving}
            staying = [slot.length for place, slot in enumerate(running.slots) if place not in leaving]
            batch = take_batch([tasks[index].request for index in order], search, staying)
            coming = [((tasks[index], states[index]), tasks[index].request) for index in order[:batch]]
            order = order[batch:]
            running.turn_over(leaving, going_on, coming)
        finished = running.step()
        for place in finished:
            slot = running.slots[place]
            task, _ = slot.key
            task.store([read_sentences(found, slot.request, config) for found in slot.result], config)
        if finished:
            on_progress()
