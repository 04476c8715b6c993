"""Document decoding: the `generate()` of DocMT models, from documents to as many sentences as went in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig
from transformers.generation import LogitsProcessorList, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer
from transformers.utils import ModelOutput, logging

from .configuration_docmt import DocMTConfig
from .decoding_docmt import decode_requests
from .decoding_documents_docmt import DocumentJob, SentenceTranslation, assemble
from .decoding_options_docmt import DocumentOptions, SearchSettings, check_stock_options
from .decoding_sequential_docmt import decode_sequentially
from .decoding_tasks_docmt import document_tasks
from .formatting_docmt import neutral_to_sentences, sentences_to_neutral


logger = logging.get_logger(__name__)

# what a Trainer passes along; document decoding makes its own decoder inputs
IGNORED_INPUTS = ("labels", "decoder_input_ids", "decoder_attention_mask", "num_items_in_batch")


@dataclass
class DocumentTranslationOutput(ModelOutput):
    """
    Translated documents, sentence by sentence. With `num_return_sequences=R`, R entries for the one document.

    Args:
        sequences (`torch.LongTensor` of shape `(B, T)`):
            Decoder start token, then `E_1 <sep> E_2 ... E_N <eos>`, padded on the right.
        sentences (`list[list[list[int]]]`): Token ids of each sentence of each document, without special tokens.
        sentence_scores (`list[list[float]]`):
            Sum of the model's log-probabilities of the generated tokens, the closing one included, divided by their
            number to the power of `length_penalty`. 0 where nothing was generated: empty or given sentences.
        sentence_status (`list[list[str]]`):
            `"ok"`; `"empty"`: empty source; `"source_split"`: longer than a part and translated in pieces;
            `"hit_length_limit"`: ended by `max_sentence_tokens`; `"repetition"`: an n-gram of up to 4 tokens, 4 times
            or more in a row; and where the count was free, `"missing"`: none generated, and `"joined"`: surplus
            sentences are in it, or it came out of order.
        alignment (`list[list[int]]`): Index of the source sentence that each target sentence translates.
    """

    sequences: torch.LongTensor | None = None
    sentences: list[list[list[int]]] | None = None
    sentence_scores: list[list[float]] | None = None
    sentence_status: list[list[str]] | None = None
    alignment: list[list[int]] | None = None


class DocumentGenerationMixin:
    r"""
    `generate()` for documents: N sentences in, N sentences out, whatever the batch.

    ```python
    inputs = tokenizer([["First sentence.", "Second sentence."]], return_tensors="pt", padding=True)
    ids = model.generate(**inputs, decoding="sequential", num_beams=5)
    tokenizer.decode_documents(ids)  # [["...", "..."]]
    ```

    Options, each a keyword of the call or a field of the generation config (saved in `generation_config.json`):

    | option                     | default       | values                                                             |
    |----------------------------|---------------|--------------------------------------------------------------------|
    | `decoding`                 | of the system | `"sentence"`: each sentence by itself                              |
    |                            |               | `"counted"`: a part in one go, with exactly as many sentences; a   |
    |                            |               | system with context windows decodes in blocks as long as those     |
    |                            |               | `"free"`: the same without a count; what is missing comes back     |
    |                            |               | empty, what is too much joins the last sentence                    |
    |                            |               | `"sequential"`: one sentence after the other, each behind the      |
    |                            |               | translations of those before it                                    |
    |                            |               | `None`: the stock `generate()`, on sequences formatted by you      |
    | `source_context`           | `"full"`      | for sequential decoding of whole parts. `"full"`: the source is    |
    |                            |               | the part, encoded once; `"prefix"`: it grows with each sentence.   |
    |                            |               | Systems with context windows slide in any case                     |
    | `source_context_sentences` | as trained    | source sentences before the current one, with `"sentence"` (0 by   |
    |                            |               | default, but for `sequence_format="source_context"`) and with a    |
    |                            |               | sliding or growing source                                          |
    | `target_context_sentences` | the same      | translations before the current one, with such a source            |
    | `max_sentence_tokens`      | 1.2 J + 10    | tokens after which a sentence is ended; J: tokens of its source    |
    |                            |               | with the separator. `"free"` bounds the sum over the sentences     |
    | `min_sentence_tokens`      | 1             | tokens before which no sentence ends                               |
    | `alignment`                | as configured | centre of the windows of cross-attention: `"sent-align"`,          |
    |                            |               | `"one2one"` or `"ratio"`, see `align`                              |
    | `batch_rows`               | up to 128     | sequences times beams in one internal call. Sentences, blocks and  |
    |                            |               | parts of all documents are pooled: this bounds memory, the batch   |
    |                            |               | of documents need not be small                                     |
    | `reuse_cache`              | `True`        | keep decoder states of earlier sentences in sequential decoding    |
    |                            |               | with a full source; `False` computes them again for each           |
    | `target_prefix`            | none          | keyword only: ids of given translations of the first sentences of  |
    |                            |               | each document                                                      |

    From the model config come `sequence_format`, `context_sentences`, `max_part_tokens`, `part_splitting`,
    `train_ratio` and `default_decoding`, see [`DocMTConfig`]. A sentence longer than `max_part_tokens` is translated
    in pieces.

    Stock options do what they do in Transformers: `num_beams`, `do_sample` and its relatives, `length_penalty`,
    `early_stopping`, `repetition_penalty`, `logits_processor`, `return_dict_in_generate`, and so on, with these
    differences:

    - `no_repeat_ngram_size` looks at the current sentence only.
    - `max_length`, `max_new_tokens`, `min_length`, `min_new_tokens`, `output_scores` and `output_logits` have no
      effect (a warning says so); `encoder_repetition_penalty`, `encoder_no_repeat_ngram_size` and `stop_strings` are
      refused.
    - `num_return_sequences` is for one document: the r-th sequence holds the r-th best hypothesis of each sentence
      (sequential decoding goes on from the best), block or part; with sampling, R independent translations.
    - `streamer` is for one document and receives whole sentences with their closing token, with any number of beams.
    - `renormalize_logits=True` lets the rules of document decoding renormalise too; by default they only mask.

    Sampling draws from the global random generator, so a sampled document depends on its batch. All else does not.
    """

    config: DocMTConfig
    device: torch.device

    @torch.no_grad()
    def generate(
        self,
        inputs: torch.LongTensor | None = None,
        generation_config: GenerationConfig | None = None,
        *,
        target_prefix: Sequence[Sequence[Sequence[int]]] | None = None,
        logits_processor: LogitsProcessorList | None = None,
        stopping_criteria: StoppingCriteriaList | None = None,
        streamer: BaseStreamer | None = None,
        synced_gpus: bool | None = None,
        **kwargs,
    ) -> torch.LongTensor | DocumentTranslationOutput | ModelOutput:
        """
        Translate documents; the options are in the table of the class.

        Args:
            inputs (`torch.LongTensor` of shape `(B, S)`, *optional*):
                Source documents in the neutral form, padded on the right; also as `input_ids`.
            generation_config (`GenerationConfig`, *optional*): In place of `model.generation_config`.
            target_prefix (`Sequence[Sequence[Sequence[int]]]`, *optional*):
                For each document, token ids of given translations of its first sentences, without special tokens.
            logits_processor, stopping_criteria (*optional*): Added to the stock ones; they see internal batches.
            streamer (`BaseStreamer`, *optional*): Receives the sentences of one document as they are done.
            synced_gpus (`bool`, *optional*): Handed to the stock `generate()`.
            kwargs: `attention_mask`, our options and stock ones. Labels and decoder inputs are ignored.

        Returns:
            `torch.LongTensor` of shape `(B, T)`: decoder start token and the translations in the neutral form; or a
            [`DocumentTranslationOutput`] with `return_dict_in_generate=True`.

        Raises:
            `ValueError`: if an option is unknown, has a bad value or means nothing with the others.
        """
        own = {name: kwargs.pop(name) for name in DocumentOptions.names() if name in kwargs}
        resolved, model_inputs = self._prepare_generation_config(generation_config, **kwargs)  # type: ignore[attr-defined]
        options = DocumentOptions.resolve(self.config, resolved, own)
        if options.decoding is None:
            if target_prefix is not None:
                raise ValueError(
                    "`target_prefix` needs document decoding: with decoding=None pass `decoder_input_ids`."
                )
            if self.config.has_intervals:
                if kwargs.get("use_cache") is None:
                    logger.warning_once(
                        f"The stock `generate()` keeps no states of system {self.config.system!r}: each step computes "
                        "all tokens again. Translate documents with `decoding`, or pass use_cache=False to hide this."
                    )
                    kwargs["use_cache"] = False
                # sentences are read off the source, which the stock search does not show to each step
                if options.alignment is not None:
                    kwargs["alignment"] = options.alignment
                source = kwargs.get("input_ids", inputs)
                kwargs.setdefault("encoder_input_ids", source)
                if source is not None and "decoder_input_ids" not in kwargs:
                    # what follows the end of a sequence counts as tokens, which nobody sees
                    kwargs.setdefault("decoder_attention_mask", torch.ones_like(source[:, :1]))
            return self._stock_generate(
                inputs=inputs,
                generation_config=generation_config,
                logits_processor=logits_processor,
                stopping_criteria=stopping_criteria,
                streamer=streamer,
                synced_gpus=synced_gpus,
                **kwargs,
            )
        documents = self._read_documents(inputs, model_inputs)
        given = {**_fields_of(generation_config), **kwargs}
        check_stock_options(given, model_inputs, options, resolved, self.config.has_intervals)
        num_return_sequences = resolved.num_return_sequences or 1
        _check_single_document(len(documents), num_return_sequences, resolved, streamer)
        prefixes = _check_target_prefix(target_prefix, documents, self.config)
        if resolved.do_sample:
            # independent translations, each behind its own target context
            documents, prefixes = documents * num_return_sequences, prefixes * num_return_sequences
        ranks = 1 if resolved.do_sample else num_return_sequences

        search = SearchSettings.from_generation_config(
            resolved,
            num_hypotheses=ranks,
            has_scores=bool(resolved.return_dict_in_generate),
            keep_order=streamer is not None,
            batch_rows=options.batch_rows,
            alignment=options.alignment or self.config.alignment,
            logits_processor=list(logits_processor or []),
            stopping_criteria=list(stopping_criteria or []),
        )
        search.stock["synced_gpus"] = synced_gpus
        jobs = [
            DocumentJob.from_sentences(sentences, given, self.config, ranks)
            for sentences, given in zip(documents, prefixes, strict=True)
        ]
        self._translate(jobs, search, options, streamer)
        translations = [assemble(job, rank) for job in jobs for rank in range(ranks)]
        output = _output(translations, search.length_penalty, self.config, self.device)
        return output if resolved.return_dict_in_generate else output.sequences

    def _stock_generate(self, **kwargs) -> Any:
        """The `generate()` of Transformers on sequences as the model reads them."""
        return super().generate(**kwargs)  # type: ignore[misc]

    def _read_documents(self, inputs: torch.LongTensor | None, model_inputs: dict[str, Any]) -> list[list[list[int]]]:
        """Sentences of each document; takes what it knows out of `model_inputs`."""
        for name in IGNORED_INPUTS:
            model_inputs.pop(name, None)
        ids = model_inputs.pop("input_ids", None)
        mask = model_inputs.pop("attention_mask", None)
        if ids is not None and inputs is not None:
            raise ValueError("Give the source documents as `inputs` or as `input_ids`, not as both.")
        ids = inputs if ids is None else ids
        if not isinstance(ids, torch.Tensor) or ids.dim() != 2:
            shape = tuple(ids.shape) if isinstance(ids, torch.Tensor) else type(ids).__name__
            raise ValueError(
                f"Document decoding reads `input_ids` of shape (documents, tokens), got {shape}. Embeddings and "
                "encoder outputs have no sentences: use decoding=None with them."
            )
        if mask is None:
            mask = torch.ones_like(ids) if self.config.pad_token_id is None else ids.ne(self.config.pad_token_id)
        if mask.shape != ids.shape:
            raise ValueError(
                f"`attention_mask` must have the shape of `input_ids`, got {tuple(mask.shape)} and {tuple(ids.shape)}."
            )
        rows = zip(ids.tolist(), mask.bool().tolist(), strict=True)
        return [
            neutral_to_sentences([token for token, is_token in zip(*row, strict=True) if is_token], self.config)
            for row in rows
        ]

    def _translate(
        self, jobs: list[DocumentJob], search: SearchSettings, options: DocumentOptions, streamer: BaseStreamer | None
    ) -> None:
        stream = SentenceStream(streamer, jobs[0], self.config) if streamer is not None else None

        def report() -> None:
            if stream is not None:
                stream.update()

        report()
        if options.decoding == "sequential" and self.config.sequence_format != "sentence":
            decode_sequentially(self, jobs, search, options, report)
        else:
            tasks = [task for job in jobs for task in document_tasks(job, self.config, options)]

            def store(index: int, hypotheses: list) -> None:
                tasks[index].store(hypotheses, self.config)
                report()

            decode_requests(self, [task.request for task in tasks], search, store)
        if streamer is not None:
            streamer.end()


class SentenceStream:
    """
    Hands the sentences of a document to a streamer, in order and each as soon as those before it are done.

    The first `put` is the decoder start token, as in the stock `generate()`; then one a sentence, with `<sep>` or
    `<eos>` at its end.
    """

    def __init__(self, streamer: BaseStreamer, job: DocumentJob, config: DocMTConfig):
        self.streamer, self.job, self.config = streamer, job, config
        self.num_units = self.num_sent = 0
        streamer.put(torch.tensor([config.decoder_start_token_id]))

    def update(self) -> None:
        """Send what has become ready."""
        num_units = self.num_units
        while num_units < len(self.job.units) and self.job.translations[num_units]:
            num_units += 1
        self.num_units = num_units
        is_done = num_units == len(self.job.units)
        ready = len(self.job.sentences) if is_done else self.job.owners[num_units]
        for index, sentence in enumerate(assemble(self.job, 0, self.num_sent, ready), start=self.num_sent):
            is_last = index == len(self.job.sentences) - 1
            closing = self.config.eos_token_id if is_last else self.config.sep_token_id
            self.streamer.put(torch.tensor([*sentence.ids, closing]))
        self.num_sent = ready


def _fields_of(generation_config: GenerationConfig | None) -> dict[str, Any]:
    """What a caller has set in a generation config."""
    if generation_config is None:
        return {}
    default = vars(GenerationConfig())
    return {name: value for name, value in vars(generation_config).items() if value != default.get(name)}


def _check_single_document(
    num_documents: int, num_return_sequences: int, generation_config: GenerationConfig, streamer: BaseStreamer | None
) -> None:
    if num_return_sequences > 1:
        if num_documents != 1:
            raise ValueError(
                f"`num_return_sequences={num_return_sequences}` is for one document a call, got {num_documents}: a "
                "batch returns one translation a document."
            )
        beams = generation_config.num_beams or 1
        if not generation_config.do_sample and num_return_sequences > beams:
            raise ValueError(
                f"`num_return_sequences` must not exceed `num_beams` without sampling, got {num_return_sequences} and "
                f"{beams}."
            )
    if streamer is not None and (num_documents != 1 or num_return_sequences > 1):
        raise ValueError(
            f"`streamer` is for one translation of one document, got {num_documents} documents and "
            f"num_return_sequences={num_return_sequences}."
        )


def _check_target_prefix(
    target_prefix: Sequence[Sequence[Sequence[int]]] | None, documents: list[list[list[int]]], config: DocMTConfig
) -> list[list[list[int]]]:
    if target_prefix is None:
        return [[] for _ in documents]
    if len(target_prefix) != len(documents):
        raise ValueError(
            f"`target_prefix` must have one entry a document, got {len(target_prefix)} for {len(documents)} "
            "documents. A document without given translations has an empty list."
        )
    special = (config.eos_token_id, config.pad_token_id, config.bod_token_id, *config.separator_ids())
    forbidden = {token for token in special if token is not None}
    for index, (given, sentences) in enumerate(zip(target_prefix, documents, strict=True)):
        if len(given) > len(sentences):
            raise ValueError(
                f"`target_prefix` gives {len(given)} sentences of document {index}, which has {len(sentences)}."
            )
        for place, ids in enumerate(given):
            if found := forbidden.intersection(ids):
                raise ValueError(
                    f"`target_prefix` of document {index}, sentence {place}, holds the special tokens "
                    f"{sorted(found)}: give each sentence as ids without special tokens, see `encode_sentences`."
                )
    return [[[int(token) for token in ids] for ids in given] for given in target_prefix]


def _output(
    documents: Sequence[Sequence[SentenceTranslation]],
    length_penalty: float,
    config: DocMTConfig,
    device: torch.device,
) -> DocumentTranslationOutput:
    sequences = [
        torch.tensor(
            [config.decoder_start_token_id, *sentences_to_neutral([sentence.ids for sentence in sentences], config)]
        )
        for sentences in documents
    ]
    padding = config.eos_token_id if config.pad_token_id is None else config.pad_token_id
    if sequences:
        padded = pad_sequence(sequences, batch_first=True, padding_value=padding)
    else:
        padded = torch.zeros((0, 1), dtype=torch.long)
    return DocumentTranslationOutput(
        sequences=padded.to(device),
        sentences=[[sentence.ids for sentence in sentences] for sentences in documents],
        sentence_scores=[[sentence.score(length_penalty) for sentence in sentences] for sentences in documents],
        sentence_status=[[sentence.status for sentence in sentences] for sentences in documents],
        alignment=[list(range(len(sentences))) for sentences in documents],
    )
