"""The logits processors that hold requests to the rules of document decoding."""

from collections.abc import Sequence

import torch
from transformers.generation import LogitsProcessor

from .configuration_docmt import DocMTConfig
from .decoding_options_docmt import SearchSettings
from .decoding_requests_docmt import DecodingRequest
from .logits_docmt import SentenceNoRepeatNGramProcessor, SentenceRulesProcessor


def own_processors(
    requests: Sequence[DecodingRequest],
    prompt_lengths: Sequence[int],
    search: SearchSettings,
    config: DocMTConfig,
    device: torch.device,
) -> list[LogitsProcessor]:
    """
    Processors for the rows of some requests, one row a beam.

    Args:
        requests (`Sequence[DecodingRequest]`): Whose rules hold.
        prompt_lengths (`Sequence[int]`): Columns in front of the generated tokens of each.
        search (`SearchSettings`), config (`DocMTConfig`): Options of the search, and the special tokens.
        device (`torch.device`): Where the scores are.
    """
    own: list[LogitsProcessor] = []
    if search.no_repeat_ngram_size:
        own.append(
            SentenceNoRepeatNGramProcessor(
                search.no_repeat_ngram_size,
                prompt_lengths=prompt_lengths,
                config=config,
                num_beams=search.num_beams,
                device=device,
            )
        )
    own.append(
        SentenceRulesProcessor(
            [request.rules for request in requests],
            # the last token is the closing one
            [request.max_new_tokens - 1 if request.is_free else None for request in requests],
            prompt_lengths=prompt_lengths,
            config=config,
            num_beams=search.num_beams,
            device=device,
        )
    )
    return own
