"""
Rules of document decoding as logits processors: which token may close a sentence, and when.

They run inside the stock greedy search, beam search and sampling. A rule takes tokens away and never renormalises,
and a token that is forced keeps its log-probability under the model, so that the score of a hypothesis stays the score
that the model gives it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers.generation import LogitsProcessor

from .configuration_docmt import DocMTConfig
from .sentences_docmt import is_separator


@dataclass(frozen=True)
class SentenceRule:
    """
    How one generated sentence may end.

    Attributes:
        closing_tokens (`tuple[int, ...]`): Tokens that may close the sentence: the separator that is due, `<eos>`.
        min_tokens (`int`): Tokens before the sentence may be closed.
        max_tokens (`int`): Tokens after which it must be closed, the closing token not counted.
    """

    closing_tokens: tuple[int, ...]
    min_tokens: int
    max_tokens: int


def current_sentence(
    ids: torch.LongTensor, prompt_lengths: torch.LongTensor, config: DocMTConfig
) -> tuple[torch.LongTensor, torch.LongTensor]:
    """
    Where generated sequences stand.

    Args:
        ids (`torch.LongTensor` of shape `(rows, T)`): Ids so far, the prompt included.
        prompt_lengths (`torch.LongTensor` of shape `(rows, 1)` or `(1, 1)`): Columns of the prompt.
        config (`DocMTConfig`): Names the separators.

    Returns:
        `tuple(torch.LongTensor, torch.LongTensor)`: of shape `(rows,)` each, the index of the sentence that is being
        generated, from 0, and the column at which it starts.
    """
    columns = torch.arange(ids.shape[1], device=ids.device)
    separators = is_separator(ids, config) & (columns >= prompt_lengths)
    starts = torch.cat(((columns + 1) * separators, prompt_lengths.expand(len(ids), 1)), dim=1).amax(dim=-1)
    return separators.sum(dim=-1), starts


class SentenceRulesProcessor(LogitsProcessor):
    """
    Apply the rules of each row: length bounds, closing tokens that are due, and no other special token.

    Args:
        rules (`Sequence[Sequence[SentenceRule]]`):
            For each sequence of the batch, one rule a sentence; the last one holds for all further sentences.
        total_tokens (`Sequence[int | None]`):
            For each sequence, the number of new tokens after which `<eos>` alone is left; `None` for no such bound.
        prompt_lengths (`Sequence[int]`):
            For each sequence, columns of the decoder input that were given, padding included.
        config (`DocMTConfig`): Names the special tokens.
        num_beams (`int`): Rows of one sequence, which follow each other.
        device (`torch.device`): Where the scores are.
    """

    def __init__(
        self,
        rules: Sequence[Sequence[SentenceRule]],
        total_tokens: Sequence[int | None],
        *,
        prompt_lengths: Sequence[int],
        config: DocMTConfig,
        num_beams: int,
        device: torch.device,
    ):
        self.config = config
        most_sentences = max(len(row) for row in rules)
        most_closers = max(len(rule.closing_tokens) for row in rules for rule in row)
        padded = [[*row, *[row[-1]] * (most_sentences - len(row))] for row in rules]

        def table(entries: list) -> torch.LongTensor:
            return torch.tensor(entries, device=device).repeat_interleave(num_beams, dim=0)

        self.prompt_lengths = table(list(prompt_lengths))[:, None]  # (rows, 1)
        self.min_tokens = table([[rule.min_tokens for rule in row] for row in padded])  # (rows, sentences)
        self.max_tokens = table([[rule.max_tokens for rule in row] for row in padded])
        # a missing closing token repeats the first one, which changes nothing
        closers = [[rule.closing_tokens for rule in row] for row in padded]
        self.closing_tokens = table(
            [[[*tokens, *tokens[:1] * (most_closers - len(tokens))] for tokens in row] for row in closers]
        )  # (rows, sentences, closers)
        self.total_tokens = table([torch.iinfo(torch.long).max if bound is None else bound for bound in total_tokens])
        special = {
            config.pad_token_id,
            config.bos_token_id,
            config.eos_token_id,
            config.bod_token_id,
            config.sos_token_id,
            config.mask_token_id,
            config.decoder_start_token_id,
            *config.separator_ids(),
        }
        self.special_tokens = torch.tensor(
            sorted(token for token in special if token is not None and token < config.vocab_size), device=device
        )

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Scores `(rows, V)` with minus infinity at every token that the rules exclude."""
        sentence, start = current_sentence(input_ids, self.prompt_lengths, self.config)
        length = input_ids.shape[1] - start
        row = torch.arange(len(sentence), device=scores.device)
        sentence = sentence.clamp(max=self.max_tokens.shape[1] - 1)

        is_at_end = input_ids.shape[1] - self.prompt_lengths[:, 0] >= self.total_tokens
        must_close = (length >= self.max_tokens[row, sentence]) | is_at_end
        may_close = (length >= self.min_tokens[row, sentence]) | must_close
        closing_tokens = self.closing_tokens[row, sentence]  # (rows, closers)
        closing_tokens = closing_tokens.masked_fill(is_at_end[:, None], self.config.eos_token_id)
        closing_scores = scores.gather(1, closing_tokens).masked_fill(~may_close[:, None], -torch.inf)

        scores = scores.index_fill(1, self.special_tokens, -torch.inf)
        scores = scores.masked_fill(must_close[:, None], -torch.inf)
        return scores.scatter(1, closing_tokens, closing_scores)


class SentenceNoRepeatNGramProcessor(LogitsProcessor):
    """
    `no_repeat_ngram_size` within the sentence that is being generated: two sentences may well be equal.

    Args:
        ngram_size (`int`): No n-gram of this size occurs twice in a sentence.
        prompt_lengths (`Sequence[int]`): For each sequence, columns of the decoder input that were given.
        config (`DocMTConfig`): Names the separators.
        num_beams (`int`): Rows of one sequence, which follow each other.
        device (`torch.device`): Where the scores are.
    """

    def __init__(
        self,
        ngram_size: int,
        *,
        prompt_lengths: Sequence[int],
        config: DocMTConfig,
        num_beams: int,
        device: torch.device,
    ):
        self.ngram_size, self.config = ngram_size, config
        lengths = torch.tensor(list(prompt_lengths), device=device)
        self.prompt_lengths = lengths.repeat_interleave(num_beams)[:, None]  # (rows, 1)

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Scores `(rows, V)` with minus infinity at every token that would repeat an n-gram of the sentence."""
        size = self.ngram_size
        if input_ids.shape[1] < size:
            return scores
        _, start = current_sentence(input_ids, self.prompt_lengths, self.config)
        ngrams = input_ids.unfold(1, size, 1)  # (rows, T - size + 1, size)
        last = input_ids[:, input_ids.shape[1] - size + 1 :]  # (rows, size - 1)
        columns = torch.arange(ngrams.shape[1], device=input_ids.device)
        repeated = (ngrams[..., :-1] == last[:, None]).all(dim=-1) & (columns >= start[:, None])
        counts = torch.zeros_like(scores).scatter_add(1, ngrams[..., -1], repeated.to(scores.dtype))
        return scores.masked_fill(counts > 0, -torch.inf)
