"""
From decoding requests to hypotheses: sequences of many documents in one search.

Which others are searched with a request changes nothing in its result.
"""

from collections.abc import Callable, Sequence
from typing import Any

from .decoding_options_docmt import SearchSettings
from .decoding_requests_docmt import DecodingRequest, GeneratedSentence, Hypothesis, read_sentences
from .decoding_stock_docmt import search_batch
from .search_docmt import DocumentSearch, is_supported


def decode_requests(
    model: Any,
    requests: Sequence[DecodingRequest],
    search: SearchSettings,
    on_result: Callable[[int, list[list[GeneratedSentence]]], DecodingRequest | None],
) -> None:
    """
    Generate all requests, and those that follow from their results.

    Args:
        model (`DocMTForConditionalGeneration`): The model.
        requests (`Sequence[DecodingRequest]`): In any order.
        search (`SearchSettings`): How to search.
        on_result (`Callable`):
            Receives the index of a request and its hypotheses, best first, as soon as they are found. The request
            that it returns, if any, takes over the index.
    """
    current = list(requests)
    waiting = list(range(len(current)))
    if not search.keep_order:
        # long ones first: what does not fit into memory fails at once, and sequences of a step are of like length
        waiting.sort(key=lambda index: (current[index].length, current[index].max_new_tokens), reverse=True)

    def report(index: int, ranked: Sequence[Hypothesis]) -> None:
        following = on_result(index, [read_sentences(found, current[index], model.config) for found in ranked])
        if following is not None:
            current[index] = following
            waiting.append(index)

    def next_batch(running: Sequence[int] = ()) -> list[tuple[int, DecodingRequest]]:
        batch = take_batch([current[index] for index in waiting], search, running)
        taken, waiting[:] = waiting[:batch], waiting[batch:]
        return [(index, current[index]) for index in taken]

    if not is_supported(search):
        while waiting:
            batch = next_batch()
            results = search_batch(model, [request for _, request in batch], search)
            for (index, _), ranked in zip(batch, results, strict=True):
                report(index, ranked)
        return
    running = DocumentSearch(model, search)
    while waiting or running.slots:
        if not running.slots or running.is_time_to_turn_over:
            staying = [running.slots[place].length for place in running.active]
            running.turn_over(leaving=running.done, coming=next_batch(staying))
        for place in running.step():
            report(running.slots[place].key, running.slots[place].result)


def take_batch(waiting: Sequence[DecodingRequest], search: SearchSettings, running: Sequence[int] = ()) -> int:
    """How many of those that wait, from the first, may join those that are running, of so many tokens each."""
    longest = max(running, default=0)
    for count, request in enumerate(waiting):
        longest = max(longest, request.length)
        # a sequence that is longer than the bound goes by itself
        if len(running) + count >= max(1, search.sequences_per_call(longest)):
            return count
    return len(waiting)
