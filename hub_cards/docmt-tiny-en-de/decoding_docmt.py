"""
From decoding requests to hypotheses: batches of sequences of many documents through the stock `generate()`.

A request is one source sequence, the target tokens that are given, and the rules of the sentences to be generated.
Which batch a request falls into changes nothing in its result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import EncoderDecoderCache
from transformers.generation import LogitsProcessorList, StoppingCriteriaList
from transformers.modeling_outputs import BaseModelOutput

from .cache_docmt import empty_beam_cache
from .configuration_docmt import DocMTConfig, required_token
from .decoding_options_docmt import SearchSettings
from .logits_docmt import SentenceNoRepeatNGramProcessor, SentenceRule, SentenceRulesProcessor


# logits held at once while hypotheses are scored: 128 MiB in float32
SCORED_LOGITS = 2**25


@dataclass(frozen=True)
class DecodingRequest:
    """
    One sequence to be generated.

    Attributes:
        source (`list[int]`): Formatted source ids.
        target_prefix (`list[int]`): Target ids that are given, without the decoder start token.
        rules (`list[SentenceRule]`): One a sentence; with `is_free`, the last holds for all further ones.
        max_new_tokens (`int`): Bound of the new tokens, closing tokens included.
        is_free (`bool`): Whether `<eos>` alone ends the sequence, after any number of sentences.
    """

    source: list[int]
    target_prefix: list[int]
    rules: list[SentenceRule]
    max_new_tokens: int
    is_free: bool = False

    def stop_tokens(self, config: DocMTConfig) -> set[int]:
        """Tokens that end the whole sequence."""
        eos = required_token(config, "eos_token_id")
        return {eos} if self.is_free else {eos, *self.rules[-1].closing_tokens}


@dataclass(frozen=True)
class GeneratedSentence:
    """
    A sentence as it was generated.

    Attributes:
        ids (`list[int]`): Tokens without the closing one.
        closing_token (`int`, *optional*): Separator or `<eos>`; `None` where the search was stopped from outside.
        log_prob (`float`, *optional*): Log-probability of its tokens under the model, the closing one included.
    """

    ids: list[int]
    closing_token: int | None
    log_prob: float | None = None

    @property
    def tokens(self) -> list[int]:
        """Everything that was generated for the sentence."""
        return self.ids if self.closing_token is None else [*self.ids, self.closing_token]


def decode_requests(
    model: Any,
    requests: Sequence[DecodingRequest],
    search: SearchSettings,
    on_result: Callable[[int, list[list[GeneratedSentence]]], None],
) -> None:
    """
    Generate all requests in batches of similar length.

    Args:
        model (`DocMTForConditionalGeneration`): The model.
        requests (`Sequence[DecodingRequest]`): In any order.
        search (`SearchSettings`): How to search.
        on_result (`Callable`):
            Receives the index of a request and its hypotheses, best first, as soon as its batch is done.
    """
    order = list(range(len(requests)))
    if not search.keep_order:
        # long ones first: what does not fit into memory fails at once
        order.sort(key=lambda index: (_length(requests[index]), requests[index].max_new_tokens), reverse=True)
    while order:
        batch = take_batch(order, requests, search)
        order = order[len(batch) :]
        hypotheses = _decode_batch(model, [requests[index] for index in batch], search)
        for index, best in zip(batch, hypotheses, strict=True):
            on_result(index, best)


def take_batch(order: Sequence[int], requests: Sequence[DecodingRequest], search: SearchSettings) -> list[int]:
    """The longest beginning of `order` that may share a call."""
    batch: list[int] = []
    longest = 0
    for index in order:
        longest = max(longest, _length(requests[index]))
        if len(batch) >= search.sequences_per_call(longest):
            break
        batch.append(index)
    # a sequence that is longer than the bound goes by itself
    return batch or list(order[:1])


def _length(request: DecodingRequest) -> int:
    return len(request.source) + len(request.target_prefix)


def _decode_batch(
    model: Any, requests: Sequence[DecodingRequest], search: SearchSettings
) -> list[list[list[GeneratedSentence]]]:
    encoder_states, source_mask = encode_sources(model, [request.source for request in requests])
    prompts = [[model.config.decoder_start_token_id, *request.target_prefix] for request in requests]
    prompt_ids, prompt_mask = pad_left(prompts, model)
    continuations = search_continuations(model, search, requests, encoder_states, source_mask, prompt_ids, prompt_mask)
    hypotheses = [
        [read_sentences(ids, request, model.config) for ids in ranked]
        for request, ranked in zip(requests, continuations, strict=True)
    ]
    if search.has_scores:
        hypotheses = _with_log_probs(model, hypotheses, prompts, encoder_states, source_mask)
    return hypotheses


def encode_sources(model: Any, sources: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.LongTensor]:
    """Run the encoder: states `(B, S, d_model)` and mask `(B, S)` of sequences padded on the right."""
    ids = pad_sequence(
        [torch.tensor(source, dtype=torch.long) for source in sources],
        batch_first=True,
        padding_value=model.config.pad_token_id or 0,
    ).to(model.device)
    lengths = torch.tensor([len(source) for source in sources], device=model.device)
    mask = (torch.arange(ids.shape[1], device=model.device) < lengths[:, None]).long()
    return model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state, mask


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


def search_continuations(
    model: Any,
    search: SearchSettings,
    requests: Sequence[DecodingRequest],
    encoder_states: torch.Tensor,
    source_mask: torch.LongTensor,
    prompt_ids: torch.LongTensor,
    prompt_mask: torch.LongTensor,
    cache: EncoderDecoderCache | None = None,
) -> list[list[list[int]]]:
    """
    One call of the stock `generate()`.

    Args:
        model, search, requests: What to generate and how; the sources and prefixes of the requests are not read.
        encoder_states (`torch.Tensor` of shape `(B, S, d_model)`), source_mask (`torch.LongTensor` of shape `(B, S)`):
            Encoded sources.
        prompt_ids, prompt_mask (`torch.LongTensor` of shape `(B, T)`):
            Decoder start token and given target ids; the last column is a token in every row.
        cache (`EncoderDecoderCache`, *optional*):
            States of all columns but the last, one row a beam. It grows during the search.

    Returns:
        `list[list[list[int]]]`: for each request, the ids behind the prompt of its hypotheses, best first. What
        follows the end of a sequence is filling.
    """
    config = model.config
    prompt_length = prompt_ids.shape[1]
    processors = list(search.logits_processor)
    if search.no_repeat_ngram_size:
        processors.append(
            SentenceNoRepeatNGramProcessor(search.no_repeat_ngram_size, prompt_length=prompt_length, config=config)
        )
    processors.append(
        SentenceRulesProcessor(
            [request.rules for request in requests],
            # the last token is the closing one
            [request.max_new_tokens - 1 if request.is_free else None for request in requests],
            prompt_length=prompt_length,
            config=config,
            num_beams=search.num_beams,
            device=prompt_ids.device,
        )
    )
    stops = set().union(*(request.stop_tokens(config) for request in requests))
    call = dict(search.stock)
    call.update(
        # <eos> in front: beam search fills up with the first one where pad has the id 0
        eos_token_id=[config.eos_token_id, *sorted(stops - {config.eos_token_id})],
        pad_token_id=config.pad_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
        max_new_tokens=max(request.max_new_tokens for request in requests),
        logits_processor=LogitsProcessorList(processors),
        stopping_criteria=StoppingCriteriaList(search.stopping_criteria),
        # beam search repeats the states inside the output in place
        encoder_outputs=BaseModelOutput(last_hidden_state=encoder_states),
        attention_mask=source_mask,
        decoder_input_ids=prompt_ids,
    )
    has_prefix = cache is not None
    if cache is None and search.stock["use_cache"] is not False and search.stock["cache_implementation"] is None:
        cache = empty_beam_cache()
    if cache is not None:
        call.update(cache=cache, use_cache=True)
    if has_prefix or not prompt_mask.all():
        call.update(decoder_attention_mask=prompt_mask, decoder_position_ids=positions_of(prompt_mask))
    new_ids = model._stock_generate(**call)[:, prompt_length:].tolist()
    ranks = search.num_hypotheses
    return [new_ids[start : start + ranks] for start in range(0, len(new_ids), ranks)]


def read_sentences(ids: Sequence[int], request: DecodingRequest, config: DocMTConfig) -> list[GeneratedSentence]:
    """Cut generated ids into sentences and drop the filling behind the last one."""
    closers = {config.eos_token_id, *config.separator_ids()}
    sentences: list[GeneratedSentence] = []
    sentence: list[int] = []
    for token in ids:
        if token in closers:
            sentences.append(GeneratedSentence(sentence, token))
            sentence = []
            if token == config.eos_token_id or (not request.is_free and len(sentences) == len(request.rules)):
                return sentences
        elif token == config.pad_token_id:
            break
        else:
            sentence.append(token)
    # only a stopping criterion of the caller ends a sequence before its rules do
    return [*sentences, GeneratedSentence(sentence, None)] if sentence else sentences


def _with_log_probs(
    model: Any,
    hypotheses: Sequence[Sequence[Sequence[GeneratedSentence]]],
    prompts: Sequence[Sequence[int]],
    encoder_states: torch.Tensor,
    source_mask: torch.LongTensor,
) -> list[list[list[GeneratedSentence]]]:
    rows = [row for row, ranked in enumerate(hypotheses) for _ in ranked]
    continuations = [
        [token for sentence in sentences for token in sentence.tokens] for ranked in hypotheses for sentences in ranked
    ]
    log_probs = iter(
        token_log_probs(model, rows, [prompts[row] for row in rows], continuations, encoder_states, source_mask)
    )
    return [[add_log_probs(sentences, next(log_probs)) for sentences in ranked] for ranked in hypotheses]


def add_log_probs(sentences: Sequence[GeneratedSentence], log_probs: Sequence[float]) -> list[GeneratedSentence]:
    """Give each sentence the sum over its tokens; `log_probs` has one entry a generated token, in order."""
    scored, start = [], 0
    for sentence in sentences:
        end = start + len(sentence.tokens)
        scored.append(GeneratedSentence(sentence.ids, sentence.closing_token, sum(log_probs[start:end])))
        start = end
    return scored


def token_log_probs(
    model: Any,
    rows: Sequence[int],
    prompts: Sequence[Sequence[int]],
    continuations: Sequence[Sequence[int]],
    encoder_states: torch.Tensor,
    source_mask: torch.LongTensor,
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
        logits = model(
            encoder_outputs=BaseModelOutput(last_hidden_state=encoder_states[index]),
            attention_mask=source_mask[index],
            decoder_input_ids=ids[:, :-1],
            use_cache=False,
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
