"""The beams of a search: which tokens they take, which hypotheses are finished, when none can become better."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch


# what stock beam search takes off the score of a candidate that must not be chosen
LOW = -1.0e9


@dataclass
class Candidates:
    """
    Continuations of n sequences, K each, best first; all of shape `(n, K)`.

    Attributes:
        scores (`torch.Tensor`): Sums of processed log-probabilities.
        parents (`torch.LongTensor`): Beam that is continued.
        tokens (`torch.LongTensor`): Its next token.
    """

    scores: torch.Tensor
    parents: torch.LongTensor
    tokens: torch.LongTensor

    @classmethod
    def from_totals(cls, totals: torch.Tensor, count: int, do_sample: bool) -> "Candidates":
        """The best `count` of total scores `(n, G, V)`, or as many drawn without replacement."""
        vocab_size = totals.shape[-1]
        totals = totals.flatten(1)
        count = min(count, totals.shape[1])
        if do_sample:
            picked = torch.multinomial(totals.softmax(dim=-1), num_samples=count)
            scores, order = totals.gather(1, picked).sort(dim=-1, descending=True)
            picked = picked.gather(1, order)
        else:
            scores, picked = totals.topk(count)
        return cls(scores, picked // vocab_size, picked % vocab_size)


@dataclass
class Beams:
    """
    State of n sequences with G beams each; all tensors have the sequences in front.

    Generated tokens stand in the columns of the cache: those in front of the start of a sequence are filling.

    Attributes:
        pending (`torch.LongTensor` of shape `(n, G)`): Tokens that the next step reads.
        tokens (`torch.LongTensor` of shape `(n, G, W)`): Generated ids.
        log_probs (`torch.Tensor` of shape `(n, G, W)`): Log-probabilities of the tokens under the model.
        scores (`torch.Tensor` of shape `(n, G)`): Sums of processed log-probabilities.
        finished_tokens, finished_log_probs (`(n, G, W)`), finished_lengths, finished_scores, is_finished (`(n, G)`):
            Finished hypotheses, best first; `is_finished` is false where there is none.
        can_improve (`torch.BoolTensor` of shape `(n,)`): Whether a running beam may still beat the finished ones.
    """

    pending: torch.LongTensor
    tokens: torch.LongTensor
    log_probs: torch.Tensor
    scores: torch.Tensor
    finished_tokens: torch.LongTensor
    finished_log_probs: torch.Tensor
    finished_lengths: torch.LongTensor
    finished_scores: torch.Tensor
    is_finished: torch.BoolTensor
    can_improve: torch.BoolTensor

    @classmethod
    def start(cls, pending: torch.LongTensor, num_beams: int, width: int, dtype: torch.dtype) -> "Beams":
        """Beams in front of their first column, `pending` `(n,)` about to be read."""
        n, G, device = len(pending), num_beams, pending.device
        ids = torch.zeros(n, G, width, dtype=torch.long, device=device)
        scores = torch.zeros(n, G, dtype=dtype, device=device)
        # only the first beam counts in the first step: all are equal
        scores[:, 1:] = LOW
        return cls(
            pending=pending[:, None].repeat(1, G),
            tokens=ids,
            log_probs=torch.zeros(n, G, width, dtype=dtype, device=device),
            scores=scores,
            finished_tokens=ids.clone(),
            finished_log_probs=torch.zeros(n, G, width, dtype=dtype, device=device),
            finished_lengths=torch.zeros(n, G, dtype=torch.long, device=device),
            finished_scores=torch.full_like(scores, LOW),
            is_finished=torch.zeros(n, G, dtype=torch.bool, device=device),
            can_improve=torch.ones(n, dtype=torch.bool, device=device),
        )

    @property
    def width(self) -> int:
        """Columns there is room for, W."""
        return self.tokens.shape[-1]

    def select(self, sequences: torch.LongTensor) -> "Beams":
        """Some of the sequences."""
        return self._map(lambda x: x[sequences], lambda x: x[sequences])

    def drop_columns(self, first: int, last: int) -> "Beams":
        """Only the columns from `first` to `last`, one behind."""
        return self._map(lambda x: x, lambda x: x[..., first:last].contiguous())

    def widen(self, missing: int) -> "Beams":
        """Room for more columns."""
        return self._map(lambda x: x, lambda x: torch.nn.functional.pad(x, (0, missing)))

    def extend(self, others: "Beams") -> "Beams":
        """These sequences and behind them the others, of equal width."""
        return Beams(**{f.name: torch.cat((getattr(self, f.name), getattr(others, f.name))) for f in fields(self)})

    def replace(self, sequences: torch.LongTensor, others: "Beams") -> None:
        """Put others in the places of some sequences."""
        for f in fields(self):
            getattr(self, f.name)[sequences] = getattr(others, f.name)

    def _map(self, change: Callable, change_columns: Callable) -> "Beams":
        columns = ("tokens", "log_probs", "finished_tokens", "finished_log_probs")
        return Beams(
            **{f.name: (change_columns if f.name in columns else change)(getattr(self, f.name)) for f in fields(self)}
        )

    def candidate_ids(self, candidates: Candidates, column: int) -> torch.LongTensor:
        """Generated ids of the candidates, `(n, K, column + 1)`, whose last tokens stand in `column`."""
        return _grown(self.tokens, candidates.parents, candidates.tokens, column)

    def finish(
        self,
        candidates: Candidates,
        can_end: torch.Tensor,
        log_probs: torch.Tensor,
        column: int,
        lengths: torch.LongTensor,
        length_penalty: float,
        stops_when_full: bool,
    ) -> None:
        """
        Take candidates among the finished hypotheses where their score, divided by a power of the length, is better.

        Args:
            candidates (`Candidates`): Continuations in this step.
            can_end (`torch.BoolTensor` of shape `(n, K)`): Those that end here and may be chosen.
            log_probs (`torch.Tensor` of shape `(n, K)`): Of their last tokens under the model.
            column (`int`): Column of their last tokens.
            lengths (`torch.LongTensor` of shape `(n,)`): Their numbers of generated tokens.
            length_penalty (`float`): The power.
            stops_when_full (`bool`): `early_stopping=True`: G finished hypotheses are enough.
        """
        G = self.scores.shape[1]
        scores = candidates.scores / _power(lengths, length_penalty, candidates.scores.dtype)[:, None]
        is_closed = ~self.can_improve
        if stops_when_full:
            is_closed = is_closed | self.is_finished.all(dim=-1)
        scores = scores + is_closed[:, None].to(scores.dtype) * LOW + (~can_end).to(scores.dtype) * LOW
        best = torch.cat((self.finished_scores, scores), dim=1).topk(G).indices

        def merge(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
            both = torch.cat((old, new), dim=1)
            return both.gather(1, best if both.dim() == 2 else best[..., None].expand(-1, -1, both.shape[-1]))

        ids = self.candidate_ids(candidates, column)
        token_log_probs = _grown(self.log_probs, candidates.parents, log_probs, column)
        self.finished_tokens[..., : column + 1] = merge(self.finished_tokens[..., : column + 1], ids)
        self.finished_log_probs[..., : column + 1] = merge(self.finished_log_probs[..., : column + 1], token_log_probs)
        self.finished_lengths = merge(self.finished_lengths, lengths[:, None].expand_as(can_end))
        self.finished_scores = merge(self.finished_scores, scores)
        self.is_finished = merge(self.is_finished, can_end)

    def advance(
        self, candidates: Candidates, ends: torch.Tensor, log_probs: torch.Tensor, column: int
    ) -> torch.LongTensor:
        """
        Go on with the G best candidates that do not end.

        Args:
            candidates (`Candidates`), ends (`torch.BoolTensor` of shape `(n, K)`): Continuations, and which end.
            log_probs (`torch.Tensor` of shape `(n, K)`): Of their tokens under the model.
            column (`int`): Column of their tokens.

        Returns:
            `torch.LongTensor` of shape `(n, G)`: the former beam that each beam continues.
        """
        scores = candidates.scores + ends.to(candidates.scores.dtype) * LOW
        self.scores, chosen = scores.topk(self.scores.shape[1])
        parents = candidates.parents.gather(1, chosen)
        self.pending = candidates.tokens.gather(1, chosen)
        self.tokens[..., : column + 1] = _grown(self.tokens, parents, self.pending, column)
        self.log_probs[..., : column + 1] = _grown(self.log_probs, parents, log_probs.gather(1, chosen), column)
        return parents

    def check_improvement(
        self,
        lengths: torch.LongTensor,
        max_lengths: torch.LongTensor,
        length_penalty: float,
        early_stopping: bool | str,
    ) -> None:
        """
        Find the sequences whose best running beam cannot beat their worst finished hypothesis.

        The score that it may reach is estimated at its present length, or, with `early_stopping="never"` and a
        positive length penalty, at the greatest length.
        """
        at_end = early_stopping == "never" and length_penalty > 0
        hoped = self.scores[:, 0] / _power(max_lengths if at_end else lengths, length_penalty, self.scores.dtype)
        worst = self.finished_scores.min(dim=-1).values
        worst = torch.where(self.is_finished.all(dim=-1), worst, torch.full_like(worst, LOW))
        self.can_improve = self.can_improve & (hoped > worst)


def _power(lengths: torch.LongTensor, exponent: float, dtype: torch.dtype) -> torch.Tensor:
    # MPS has no float64
    precise = torch.float32 if lengths.device.type == "mps" else torch.float64
    return (lengths.to(precise) ** exponent).to(dtype)


def _grown(history: torch.Tensor, parents: torch.LongTensor, new: torch.Tensor, column: int) -> torch.Tensor:
    """Columns before `column` of the parents `(n, K)` in `(n, G, W)`, and behind them `new`: `(n, K, column + 1)`."""
    old = history[..., :column].gather(1, parents[..., None].expand(-1, -1, column))
    return torch.cat((old, new[..., None]), dim=-1)
