"""What a search is asked for and what it finds: requests, and generated sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from .configuration_docmt import DocMTConfig, required_token
from .logits_docmt import SentenceRule


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

    @property
    def length(self) -> int:
        """Tokens that are given on both sides."""
        return len(self.source) + len(self.target_prefix)

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


@dataclass(frozen=True)
class Hypothesis:
    """
    A continuation that a search has found.

    Attributes:
        tokens (`list[int]`): Generated ids; what follows the end of the sequence is filling.
        log_probs (`list[float]`, *optional*): Log-probability of each token under the model.
        score (`float`, *optional*): Score by which beam search ranks it, divided by a power of its length.
    """

    tokens: list[int]
    log_probs: list[float] | None = None
    score: float | None = None


def read_sentences(hypothesis: Hypothesis, request: DecodingRequest, config: DocMTConfig) -> list[GeneratedSentence]:
    """Cut a hypothesis into sentences and drop the filling behind the last one."""
    closers = {config.eos_token_id, *config.separator_ids()}
    sentences: list[GeneratedSentence] = []
    sentence: list[int] = []
    for token in hypothesis.tokens:
        if token in closers:
            sentences.append(GeneratedSentence(sentence, token))
            sentence = []
            if token == config.eos_token_id or (not request.is_free and len(sentences) == len(request.rules)):
                return _with_log_probs(sentences, hypothesis.log_probs)
        elif token == config.pad_token_id:
            break
        else:
            sentence.append(token)
    # only a stopping criterion of the caller ends a sequence before its rules do
    if sentence:
        sentences.append(GeneratedSentence(sentence, None))
    return _with_log_probs(sentences, hypothesis.log_probs)


def _with_log_probs(sentences: list[GeneratedSentence], log_probs: Sequence[float] | None) -> list[GeneratedSentence]:
    """Give each sentence the sum over its tokens."""
    if log_probs is None:
        return sentences
    scored, start = [], 0
    for sentence in sentences:
        end = start + len(sentence.tokens)
        scored.append(GeneratedSentence(sentence.ids, sentence.closing_token, sum(log_probs[start:end])))
        start = end
    return scored


def pad_right(sequences: Sequence[Sequence[int]], model: Any) -> torch.LongTensor:
    """Ids `(B, S)`, padded on the right."""
    ids = [torch.tensor(sequence, dtype=torch.long) for sequence in sequences]
    return pad_sequence(ids, batch_first=True, padding_value=model.config.pad_token_id or 0).to(model.device)


def encode_sources(model: Any, sources: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.LongTensor]:
    """Run the encoder: states `(B, S, d_model)` and mask `(B, S)` of sequences padded on the right."""
    ids = pad_right(sources, model)
    lengths = torch.tensor([len(source) for source in sources], device=model.device)
    mask = (torch.arange(ids.shape[1], device=model.device) < lengths[:, None]).long()
    return model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state, mask
