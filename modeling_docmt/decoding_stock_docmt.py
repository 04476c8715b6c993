"""
Decoding requests by the stock `generate()` of Transformers.

It serves the stock options that `DocumentSearch` does not know, and is its plain reference.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.generation import LogitsProcessorList, StoppingCriteriaList
from transformers.modeling_outputs import BaseModelOutput

from .decoding_options_docmt import SearchSettings
from .decoding_requests_docmt import DecodingRequest, Hypothesis, encode_sources, pad_right
from .decoding_rules_docmt import own_processors


# logits held at once while hypotheses are scored: 128 MiB in float32
SCORED_LOGITS = 2**25


def search_batch(model: Any, requests: Sequence[DecodingRequest], search: SearchSettings) -> list[list[Hypothesis]]:
    """
    Hypotheses of each request, best first, by one call of the stock `generate()`.

    Args:
        model (`DocMTForConditionalGeneration`): The model.
        requests (`Sequence[DecodingRequest]`): A batch.
        search (`SearchSettings`): How to search.
    """
    prompts = [[model.config.decoder_start_token_id, *request.target_prefix] for request in requests]
    if model.config.has_intervals and len(set(map(len, prompts))) > 1:
        # padding may stand on the right alone
        return [search_batch(model, [request], search)[0] for request in requests]
    encoder_states, source_mask = encode_sources(model, [request.source for request in requests])
    continuations = _search(model, search, requests, encoder_states, source_mask, prompts)
    if not search.has_scores:
        return [[Hypothesis(ids) for ids in ranked] for ranked in continuations]
    rows = [row for row, ranked in enumerate(continuations) for _ in ranked]
    flat = [ids for ranked in continuations for ids in ranked]
    source_ids = pad_right([request.source for request in requests], model)
    encoded = (encoder_states, source_mask, source_ids)
    log_probs = iter(token_log_probs(model, rows, [prompts[row] for row in rows], flat, *encoded, search.alignment))
    return [[Hypothesis(ids, next(log_probs)) for ids in ranked] for ranked in continuations]


def pad_left(sequences: Sequence[Sequence[int]], model: Any) -> tuple[torch.LongTensor, torch.LongTensor]:
    """Ids and mask `(B, T)`, padded on the left: the next token is predicted from the last column."""
    longest = max(len(sequence) for sequence in sequences)
    padding = model.config.pad_token_id or 0
    ids = [[padding] * (longest - len(sequence)) + list(sequence) for sequence in sequences]
    mask = [[0] * (longest - len(sequence)) + [1] * len(sequence) for sequence in sequences]
    return torch.tensor(ids, device=model.device), torch.tensor(mask, device=model.device)


def positions_of(mask: torch.LongTensor) -> torch.LongTensor:
    """Position of each column among the tokens of its row: padding and holes do not count."""
    return (mask.cumsum(dim=-1) - 1).clamp(min=0)


def _search(
    model: Any,
    search: SearchSettings,
    requests: Sequence[DecodingRequest],
    encoder_states: torch.Tensor,
    source_mask: torch.LongTensor,
    prompts: Sequence[Sequence[int]],
) -> list[list[list[int]]]:
    """For each request, the ids behind the prompt of its hypotheses; what follows the end of a sequence is filling."""
    prompt_ids, prompt_mask = pad_left(prompts, model)
    config = model.config
    prompt_length = prompt_ids.shape[1]
    own = own_processors(requests, [prompt_length] * len(requests), search, config, prompt_ids.device)
    stops = set().union(*(request.stop_tokens(config) for request in requests))
    call = dict(search.stock)
    call.update(
        # <eos> in front: beam search fills up with the first one where pad has the id 0
        eos_token_id=[config.eos_token_id, *sorted(stops - {config.eos_token_id})],
        pad_token_id=config.pad_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
        max_new_tokens=max(request.max_new_tokens for request in requests),
        logits_processor=LogitsProcessorList([*search.logits_processor, *own]),
        stopping_criteria=StoppingCriteriaList(search.stopping_criteria),
        # beam search repeats the states inside the output in place
        encoder_outputs=BaseModelOutput(last_hidden_state=encoder_states),
        attention_mask=source_mask,
        decoder_input_ids=prompt_ids,
    )
    if config.has_intervals:
        source_ids = pad_right([request.source for request in requests], model)
        # what follows the end of a sequence counts as tokens, which nobody sees
        call.update(decoder_attention_mask=prompt_mask, use_cache=False)
        call.update(encoder_input_ids=source_ids, alignment=search.alignment)
    if not prompt_mask.all():
        call.update(decoder_attention_mask=prompt_mask, decoder_position_ids=positions_of(prompt_mask))
    new_ids = model._stock_generate(**call)[:, prompt_length:].tolist()
    ranks = search.num_hypotheses
    return [new_ids[start : start + ranks] for start in range(0, len(new_ids), ranks)]


def token_log_probs(
    model: Any,
    rows: Sequence[int],
    prompts: Sequence[Sequence[int]],
    continuations: Sequence[Sequence[int]],
    encoder_states: torch.Tensor,
    source_mask: torch.LongTensor,
    source_ids: torch.LongTensor,
    alignment: str,
) -> list[list[float]]:
    """
    Log-probabilities of given continuations under the model, by teacher forcing.

    Args:
        model (`DocMTForConditionalGeneration`): The model.
        rows (`Sequence[int]`): Row of the encoded source of each continuation.
        prompts (`Sequence[Sequence[int]]`): Decoder input in front of each, with the decoder start token.
        continuations (`Sequence[Sequence[int]]`): Tokens to be scored.
        encoder_states (`torch.Tensor` of shape `(B, S, d_model)`), source_mask (`torch.LongTensor` of shape `(B, S)`):
            Encoded sources.
        source_ids (`torch.LongTensor` of shape `(B, S)`): Their ids.
        alignment (`str`): Centre of the windows of cross-attention.

    Returns:
        `list[list[float]]`: one number a token of each continuation.
    """
    longest = max(len(prompt) + len(new) for prompt, new in zip(prompts, continuations, strict=True))
    rows_per_pass = max(1, SCORED_LOGITS // (longest * model.config.vocab_size))
    results: list[list[float]] = []
    for start in range(0, len(rows), rows_per_pass):
        part = slice(start, start + rows_per_pass)
        targets = [[*prompt, *new] for prompt, new in zip(prompts[part], continuations[part], strict=True)]
        # padding on the right is not seen by any token in front of it: no mask needed
        ids = pad_sequence(
            [torch.tensor(target) for target in targets],
            batch_first=True,
            padding_value=model.config.pad_token_id or 0,
        ).to(model.device)
        index = torch.tensor(rows[part], device=model.device)
        inputs = {"decoder_input_ids": ids[:, :-1], "use_cache": False}
        if model.config.has_intervals:
            lengths = torch.tensor([len(target) - 1 for target in targets], device=model.device)
            mask = (torch.arange(ids.shape[1] - 1, device=model.device) < lengths[:, None]).long()
            inputs |= {"decoder_attention_mask": mask, "input_ids": source_ids[index], "alignment": alignment}
        logits = model(
            encoder_outputs=BaseModelOutput(last_hidden_state=encoder_states[index]),
            attention_mask=source_mask[index],
            **inputs,
        ).logits
        chosen = chosen_log_probs(logits, ids[:, 1:]).tolist()
        for prompt, target, log_probs in zip(prompts[part], targets, chosen, strict=True):
            results.append(log_probs[len(prompt) - 1 : len(target) - 1])
    return results


def chosen_log_probs(logits: torch.Tensor, targets: torch.LongTensor) -> torch.Tensor:
    """Log-probability `(B, T)` of the target of each position, from logits `(B, T, V)`; at least in float32."""
    precise = torch.promote_types(logits.dtype, torch.float32)
    chosen = logits.gather(-1, targets[..., None])[..., 0].to(precise)
    return chosen - logits.to(precise).logsumexp(dim=-1)
