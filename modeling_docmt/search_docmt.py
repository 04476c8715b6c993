"""
The search of document decoding: greedy, beam search and sampling over sequences that come and go.

It finds what the stock `generate()` of Transformers finds for each sequence by itself, with the stock logits
processors, but a sequence leaves when its own search is over, a waiting one takes its place, and beams share all that
they have in common, see `DocumentCache`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.generation import GenerationMode, LogitsProcessorList, StoppingCriteriaList

from .alignment_docmt import SourceSentences, TargetPlaces, align
from .beams_docmt import Beams, Candidates
from .cache_docmt import GROWTH, DocumentCache
from .decoding_options_docmt import SearchSettings
from .decoding_requests_docmt import DecodingRequest, Hypothesis
from .decoding_rules_docmt import own_processors
from .logits_docmt import current_sentence
from .masking_search_docmt import SearchQueries
from .source_reader_docmt import SourceReader, read_sources


SUPPORTED_MODES = (
    GenerationMode.GREEDY_SEARCH,
    GenerationMode.SAMPLE,
    GenerationMode.BEAM_SEARCH,
    GenerationMode.BEAM_SAMPLE,
)
# tokens of a given prefix that go through the decoder together
PREFILL_TOKENS = 512
# source tokens in the cache beyond those that windows see at present
LOOKAHEAD = 32
# share of the sequences that must be done before others take their places, since each change moves the cache
TURNOVER = 0.25


def is_supported(search: SearchSettings) -> bool:
    """Whether `DocumentSearch` knows all that is asked for; the stock `generate()` serves the other options."""
    stock = search.stock
    return (
        search.mode in SUPPORTED_MODES
        and stock["use_cache"] is not False
        and stock["cache_implementation"] is None
        and not stock.get("synced_gpus")
        and stock["guidance_scale"] in (None, 1)
        and not stock["low_memory"]
        and not stock["token_healing"]
    )


@dataclass
class Slot:
    """
    A sequence in the search.

    Attributes:
        key (`Any`): The caller's name of the sequence.
        request (`DecodingRequest`): What is wanted.
        prompt (`list[int]`): Decoder input up to the first generated token.
        source (`SourceReader`): Its source.
        sentence, place (`int`): Index of the sentence that the last committed token predicts, and place in it.
        result (`list[Hypothesis]`): Best first; empty as long as it is searched.
    """

    key: Any
    request: DecodingRequest
    prompt: list[int]
    source: SourceReader
    sentence: int = 0
    place: int = -1
    result: list[Hypothesis] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens on both sides so far, the decoder start token aside."""
        return len(self.source) + len(self.prompt) - 1

    def read(self, ids: Sequence[int], separators: frozenset[int]) -> list[tuple[int, int]]:
        """Sentence and place of each of the decoder inputs that come next."""
        sentence, place, found = self.sentence, self.place, []
        for token in ids:
            sentence, place = (sentence + 1, 0) if token in separators else (sentence, place + 1)
            found.append((sentence, place))
        return found


@dataclass
class Group:
    """
    Sequences that stock processors and criteria may see together: prompts and generated tokens are of one length.

    Attributes:
        sequences (`list[int]`): Indices.
        rows (`torch.LongTensor`, *optional*): Their rows, one a beam; `None` for all.
        prompts (`torch.LongTensor` of shape `(rows, prompt_length)`): Decoder input before the generated tokens.
        start (`int`): Column of their first generated token.
        processors (`LogitsProcessorList`): All that change their scores.
    """

    sequences: list[int]
    rows: torch.LongTensor | None
    prompts: torch.LongTensor
    start: int
    processors: LogitsProcessorList


class DocumentSearch:
    """
    Sequences that are searched together: `turn_over` brings some in, `step` takes each a token further.

    Args:
        model (`DocMTForConditionalGeneration`): The model.
        search (`SearchSettings`): How to search, as `is_supported` allows.
    """

    def __init__(self, model: Any, search: SearchSettings):
        self.model, self.search, self.config = model, search, model.config
        self.decoder, self.device = model.get_decoder(), model.device
        self.num_beams, self.num_hypotheses = search.num_beams, search.num_hypotheses
        self.do_sample, self.early_stopping = search.stock["do_sample"], search.stock["early_stopping"]
        self.cache = DocumentCache(self.config, search.num_beams, model.dtype, self.device)
        self.separators = frozenset(self.config.separator_ids())
        self.slots: list[Slot] = []
        self.source_sentences: SourceSentences | None = None  # of all slots, made when it is asked for
        dtype = torch.promote_types(model.dtype, torch.float32)
        nothing = torch.zeros(0, dtype=torch.long, device=self.device)
        self.beams = Beams.start(nothing, search.num_beams, 0, dtype)
        self.groups: list[Group] = []
        self.generation_config, _ = model._prepare_generation_config(None, **search.stock)
        # each sequence ends by its own stop tokens and length
        self.generation_config.max_length = self.generation_config._eos_token_tensor = None
        self.criteria = model._get_stopping_criteria(
            self.generation_config, StoppingCriteriaList(search.stopping_criteria)
        )
        self.has_stock_processors = len(self._processors(1, [self.config.eos_token_id], own=[])) > 0

    @property
    def active(self) -> list[int]:
        """Indices of the sequences that are still searched."""
        return [index for index, slot in enumerate(self.slots) if not slot.result]

    @property
    def done(self) -> list[int]:
        """Indices of the sequences whose search is over."""
        return [index for index, slot in enumerate(self.slots) if slot.result]

    @property
    def is_time_to_turn_over(self) -> bool:
        """Whether so many sequences are done that it pays to move the others."""
        return len(self.done) >= max(1.0, TURNOVER * len(self.slots))

    def turn_over(
        self,
        leaving: Sequence[int] = (),
        going_on: dict[int, tuple[DecodingRequest, list[int]]] | None = None,
        coming: Sequence[tuple[Any, DecodingRequest]] = (),
    ) -> None:
        """
        Change the sequences of the search.

        Args:
            leaving (`Sequence[int]`): Indices of those that leave.
            going_on (`dict`):
                By index of a sequence that is done, what is wanted of it next, and the target tokens that come behind
                its prompt, those that were found or others. Source and prefix of the request are not read.
            coming (`Sequence[tuple]`): Keys and requests of new ones, which get the last indices.
        """
        if going_on:
            self._go_on(going_on)
        if leaving:
            gone = set(leaving)
            self._keep([index for index in range(len(self.slots)) if index not in gone])
        self._drop_columns()
        if coming:
            self._admit(coming)
        self._prepare_steps()

    def step(self) -> list[int]:
        """Generate one token in every beam; the indices of the sequences whose search is over with it."""
        if not self.slots:
            return []
        column = self.cache.width
        if column == self.beams.width:
            self.beams = self.beams.widen(GROWTH)
        queries = self._step_queries(column)
        outputs = self.model(
            decoder_input_ids=self.beams.pending.reshape(-1, 1),
            decoder_position_ids=self._position_ids(queries),
            cache=self.cache.step(queries),
        )
        logits = outputs.logits[:, -1].to(self.beams.scores.dtype)
        is_over = self._choose_tokens(logits, column) if self.num_beams == 1 else self._choose_beams(logits, column)
        over = []
        for index, ends in enumerate(is_over.tolist()):
            if ends and not self.slots[index].result:
                self.slots[index].result = self._hypotheses(index)
                over.append(index)
        return over

    # sequences come and go

    def _keep(self, kept: list[int]) -> None:
        index = torch.tensor(kept, dtype=torch.long)
        self.cache.keep(index)
        self.beams = self.beams.select(index.to(self.device))
        self.slots = [self.slots[i] for i in kept]
        self.source_sentences = None

    def _drop_columns(self) -> None:
        """Forget the columns in front of the first one in use."""
        first = min(self.cache.starts.tolist(), default=self.cache.width)
        if first:
            self.beams = self.beams.drop_columns(first, self.cache.width)
            self.cache.drop_columns(first)

    def _admit(self, coming: Sequence[tuple[Any, DecodingRequest]]) -> None:
        first = len(self.slots)
        start = self.config.decoder_start_token_id
        for key, request in coming:
            reader = SourceReader(request.source, self.config)
            self.slots.append(Slot(key, request, [start, *request.target_prefix], reader))
        self.source_sentences = None
        self.cache.admit(len(coming))
        whole = {index: (0, len(slot.source)) for index, slot in enumerate(self.slots) if index >= first}
        self._show_sources({index: ends for index, ends in whole.items() if not self.slots[index].source.has_pieces})
        self._commit({index: self.slots[index].prompt[:-1] for index in range(first, len(self.slots))})
        self.beams = self.beams.extend(self._fresh_beams(range(first, len(self.slots))))

    def _go_on(self, going_on: dict[int, tuple[DecodingRequest, list[int]]]) -> None:
        to_compute = {}
        for index, (request, tokens) in going_on.items():
            slot = self.slots[index]
            inputs = [slot.prompt[-1], *tokens[:-1]]
            is_found = bool(slot.result) and slot.result[0].tokens == tokens
            if is_found and self.cache.can_commit_current(index, len(inputs)):
                # a single beam has read just these tokens
                self.cache.commit_current(index, len(inputs))
                slot.sentence, slot.place = slot.read(inputs, self.separators)[-1]
            else:
                to_compute[index] = inputs
            slot.prompt += tokens
            slot.request, slot.result = request, []
        self._commit(to_compute)
        self.cache.forget()
        index = torch.tensor(list(going_on))
        self.cache.restart(index)
        self.beams.replace(index.to(self.device), self._fresh_beams(list(going_on)))

    def _fresh_beams(self, indices: Sequence[int]) -> Beams:
        pending = torch.tensor([self.slots[index].prompt[-1] for index in indices], device=self.device)
        return Beams.start(pending, self.num_beams, self.beams.width, self.beams.scores.dtype)

    def _commit(self, inputs: dict[int, list[int]]) -> None:
        """Put the states of decoder inputs behind what is committed, in parallel passes."""
        left = {index: ids for index, ids in inputs.items() if ids}
        while left:
            pieces = {index: ids[:PREFILL_TOKENS] for index, ids in left.items()}
            sequences, lengths = torch.tensor(list(pieces)), torch.tensor([len(ids) for ids in pieces.values()])
            ids = pad_sequence([torch.tensor(piece) for piece in pieces.values()], batch_first=True)
            positions = self.cache.committed_ends[sequences, None] + torch.arange(ids.shape[1])
            stands = np.zeros((*ids.shape, 2), dtype=np.int64)
            for row, (index, piece) in enumerate(pieces.items()):
                slot = self.slots[index]
                found = slot.read(piece, self.separators)
                slot.sentence, slot.place = found[-1]
                # padding stands with the last token
                stands[row] = [*found, *found[-1:] * (ids.shape[1] - len(piece))]
            queries = self._queries(list(pieces), positions[:, None], stands[:, None, :, 0], stands[:, None, :, 1])
            view = self.cache.commit(sequences, lengths, queries)
            self.decoder(input_ids=ids.to(self.device), position_ids=self._position_ids(queries), cache=view)
            self.cache.forget()
            left = {index: ids[PREFILL_TOKENS:] for index, ids in left.items() if len(ids) > PREFILL_TOKENS}

    def _show_sources(self, ranges: dict[int, tuple[int, int]]) -> None:
        """Put source tokens, the first and one behind the last, into the cache of some sequences."""
        read_sources(self.model, [self.slots[index].source for index in ranges], list(ranges.values()))
        for index, (first, last) in ranges.items():
            reader = self.slots[index].source
            self.cache.set_source(index, reader.part(first, last), reader.sentence_ids(first, last), first)
            if not reader.has_pieces:
                reader.states = None  # all of it is in the cache

    def _follow_sources(self, sequences: list[int], centers: np.ndarray) -> None:
        """Move on to the source tokens that windows around `centers` `(n, G, T)` see."""
        flat = centers.reshape(len(centers), -1)
        firsts, lasts = flat.min(axis=1) - self.config.window, flat.max(axis=1) + self.config.window + 1
        ranges = {}
        for index, first, last in zip(sequences, firsts.tolist(), lasts.tolist(), strict=True):
            reader, first = self.slots[index].source, max(first, 0)
            seen_first = int(self.cache.source.offsets[index])
            seen_last = seen_first + int(self.cache.source.lengths[index])
            if reader.has_pieces and not (seen_first <= first and min(last, len(reader)) <= seen_last):
                ranges[index] = (first, min(last + LOOKAHEAD, len(reader)))
        if ranges:
            self._show_sources(ranges)

    def _queries(
        self, sequences: list[int], positions: torch.Tensor, sentences: np.ndarray, places: np.ndarray
    ) -> SearchQueries:
        """Queries at positions `(n, 1, T)` of some sequences, in sentences and at places `(n, G, T)`."""
        centers = None
        if self.config.cross_attention == "window":
            if self.source_sentences is None:
                self.source_sentences = SourceSentences.stack([slot.source.sentences for slot in self.slots])
            documents = np.broadcast_to(np.array(sequences)[:, None, None], sentences.shape)
            at = np.broadcast_to(positions.cpu().numpy(), sentences.shape)
            target = TargetPlaces(documents, at, sentences, places)
            aligned = align(self.search.alignment, self.source_sentences, target, self.config)
            self._follow_sources(sequences, aligned)
            centers = torch.from_numpy(aligned).to(self.device)
        on_device = (torch.from_numpy(numbers).to(self.device) for numbers in (sentences, places))
        sentence_ids, place_ids = on_device
        return SearchQueries(positions.to(self.device), sentence_ids, centers, place_ids)

    def _position_ids(self, queries: SearchQueries) -> torch.LongTensor:
        """Positions that are added to the embeddings of the rows, `(n * G, T)`."""
        if self.config.reset_decoder_positions and queries.places is not None:
            return queries.places.flatten(0, 1)
        return queries.positions.expand(-1, queries.sentences.shape[1], -1).flatten(0, 1)

    def _prepare_steps(self) -> None:
        """Bring what depends on the set of sequences up to date: stop tokens, lengths, positions, processors."""
        self.groups = []
        if not self.slots:
            return
        stops = [slot.request.stop_tokens(self.config) for slot in self.slots]
        most = max(map(len, stops))
        # a missing token repeats another one, which changes nothing
        self.stop_tokens = torch.tensor([(sorted(row) * most)[:most] for row in stops], device=self.device)
        self.max_new_tokens = torch.tensor([slot.request.max_new_tokens for slot in self.slots], device=self.device)
        self.starts = self.cache.starts.to(self.device)
        prompt_lengths = torch.tensor([len(slot.prompt) for slot in self.slots], device=self.device)
        self.positions = prompt_lengths - 1 - self.starts  # of column 0
        # sentence and place of the first query of each, (n, 2)
        self.stands = np.array([slot.read(slot.prompt[-1:], self.separators)[0] for slot in self.slots])
        if not self.has_stock_processors and not self.criteria:
            requests = [slot.request for slot in self.slots]
            own = own_processors(requests, self.cache.starts.tolist(), self.search, self.config, self.device)
            no_prompts = torch.zeros(len(requests) * self.num_beams, 0, dtype=torch.long, device=self.device)
            everyone = list(range(len(requests)))
            self.groups = [Group(everyone, None, no_prompts, start=0, processors=LogitsProcessorList(own))]
            return
        members: dict[tuple, list[int]] = {}
        for index, slot in enumerate(self.slots):
            alike = (int(self.cache.starts[index]), len(slot.prompt), tuple(sorted(stops[index])))
            members.setdefault(alike, []).append(index)
        self.groups = [self._group(sequences) for sequences in members.values()]

    def _group(self, sequences: list[int]) -> Group:
        """The group of some sequences that are alike in start, length of the prompt and stop tokens."""
        requests = [self.slots[index].request for index in sequences]
        prompt_length = len(self.slots[sequences[0]].prompt)
        own = own_processors(requests, [prompt_length] * len(requests), self.search, self.config, self.device)
        index = torch.tensor(sequences, device=self.device)[:, None] * self.num_beams
        prompts = torch.tensor([self.slots[index].prompt for index in sequences], device=self.device)
        return Group(
            sequences,
            rows=(index + torch.arange(self.num_beams, device=self.device)).flatten(),
            prompts=prompts.repeat_interleave(self.num_beams, dim=0),
            start=int(self.cache.starts[sequences[0]]),
            processors=self._processors(prompt_length, sorted(requests[0].stop_tokens(self.config)), own),
        )

    def _processors(self, prompt_length: int, stops: Sequence[int], own: list) -> LogitsProcessorList:
        """The stock processors, those of the caller, and behind them our own."""
        self.generation_config._eos_token_tensor = torch.tensor(stops, device=self.device)
        return self.model._get_logits_processor(
            self.generation_config,
            input_ids_seq_length=prompt_length,
            logits_processor=LogitsProcessorList([*self.search.logits_processor, *own]),
            device=self.device,
            model_kwargs={},
        )

    # one step

    def _step_queries(self, column: int) -> SearchQueries:
        n, G = len(self.slots), self.num_beams
        positions = (self.positions + column)[:, None, None]
        if not self.config.knows_sentences:
            # nobody asks for sentences
            return SearchQueries(positions, positions.expand(n, G, 1))
        numbers, starts = current_sentence(
            self.beams.tokens[..., :column].flatten(0, 1), self.starts.repeat_interleave(G)[:, None], self.config
        )
        numbers, starts = (x.view(n, G, 1).cpu().numpy() for x in (numbers, starts))
        sentences, places = self.stands.T[..., None, None]  # (n, 1, 1) each
        places = column - starts + np.where(numbers == 0, places, 0)
        return self._queries(list(range(n)), positions, numbers + sentences, places)

    def _process(self, scores: torch.Tensor, column: int) -> torch.Tensor:
        """Scores `(n * G, V)` as the processors leave them."""
        processed = self._run_processors(scores, column)
        if self.do_sample and (done := self.done):
            # behind the end of a sequence rules may leave no token at all, which is nothing to draw from
            rows = torch.tensor(done, device=self.device)[:, None] * self.num_beams
            rows = (rows + torch.arange(self.num_beams, device=self.device)).flatten()
            processed = processed.index_fill(0, rows, 0.0)
        return processed

    def _run_processors(self, scores: torch.Tensor, column: int) -> torch.Tensor:
        tokens = self.beams.tokens[..., :column].flatten(0, 1)
        if self.groups[0].rows is None:
            return self.groups[0].processors(tokens, scores)
        processed = torch.empty_like(scores)
        for group in self.groups:
            ids = torch.cat((group.prompts, tokens[group.rows, group.start :]), dim=1)
            processed[group.rows] = group.processors(ids, scores[group.rows])
        return processed

    def _ends(self, candidates: Candidates, column: int) -> torch.Tensor:
        """Which candidates end their sequence, `(n, K)`: by a stop token, by length, or by the caller's criteria."""
        ends = (candidates.tokens[..., None] == self.stop_tokens[:, None]).any(dim=-1)
        ends = ends | (column + 1 - self.starts >= self.max_new_tokens)[:, None]
        if self.criteria:
            generated = self.beams.candidate_ids(candidates, column)  # (n, K, column + 1)
            K = generated.shape[1]
            for group in self.groups:
                index = torch.tensor(group.sequences, device=self.device)
                prompts = group.prompts[:: self.num_beams].repeat_interleave(K, dim=0)
                ids = torch.cat((prompts, generated[index][..., group.start :].flatten(0, 1)), dim=1)
                ends[index] |= self.criteria(ids, None).view(-1, K)
        return ends

    def _choose_tokens(self, logits: torch.Tensor, column: int) -> torch.Tensor:
        """Greedy search and sampling, one beam a sequence: which sequences are over."""
        scores = self._process(logits, column)
        if self.do_sample:
            chosen = torch.multinomial(scores.softmax(dim=-1), num_samples=1)
        else:
            chosen = scores.argmax(dim=-1, keepdim=True)  # (n, 1)
        candidates = Candidates(torch.zeros_like(chosen, dtype=scores.dtype), torch.zeros_like(chosen), chosen)
        ends = self._ends(candidates, column)
        self.beams.tokens[:, :, column] = self.beams.pending = chosen
        if self.search.has_scores:
            self.beams.log_probs[:, :, column] = logits.gather(1, chosen) - logits.logsumexp(dim=-1, keepdim=True)
        return ends[:, 0]

    def _choose_beams(self, logits: torch.Tensor, column: int) -> torch.Tensor:
        """Beam search and beam sampling, by the rules of the stock search: which sequences are over."""
        beams, G = self.beams, self.num_beams
        log_probs = logits.log_softmax(dim=-1)
        totals = self._process(log_probs, column).unflatten(0, (-1, G)) + beams.scores[..., None]  # (n, G, V)
        # more candidates than can end, so that G of them go on
        candidates = Candidates.from_totals(totals, (1 + self.stop_tokens.shape[1]) * G, self.do_sample)
        log_probs = log_probs.unflatten(0, (-1, G))
        chosen_log_probs = log_probs[
            torch.arange(len(log_probs), device=self.device)[:, None], candidates.parents, candidates.tokens
        ]
        ends = self._ends(candidates, column)
        lengths = column + 1 - self.starts
        can_end = ends.clone()
        can_end[:, G:] = False  # only the best G may be chosen
        length_penalty = self.search.length_penalty
        if can_end.any():
            beams.finish(
                candidates, can_end, chosen_log_probs, column, lengths, length_penalty, self.early_stopping is True
            )
        self.cache.reorder(beams.advance(candidates, ends, chosen_log_probs, column))
        beams.check_improvement(lengths, self.max_new_tokens, length_penalty, self.early_stopping)
        is_over = ~beams.can_improve | ends.all(dim=-1)
        return is_over | beams.is_finished.all(dim=-1) if self.early_stopping is True else is_over

    def _hypotheses(self, index: int) -> list[Hypothesis]:
        beams, start = self.beams, int(self.cache.starts[index])
        if self.num_beams == 1:
            ids, log_probs, scores, ends = beams.tokens, beams.log_probs, [None], [self.cache.width]
        else:
            ids, log_probs = beams.finished_tokens, beams.finished_log_probs
            scores = beams.finished_scores[index].tolist()
            ends = (beams.finished_lengths[index] + start).tolist()
        return [
            Hypothesis(
                tokens=ids[index, rank, start : ends[rank]].tolist(),
                log_probs=log_probs[index, rank, start : ends[rank]].tolist() if self.search.has_scores else None,
                score=scores[rank],
            )
            for rank in range(self.num_hypotheses)
        ]
