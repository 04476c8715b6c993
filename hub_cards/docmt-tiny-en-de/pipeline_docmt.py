"""The pipeline of a DocMT checkpoint: a document in, its translation out, aligned by sentence, in its old layout."""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import Pipeline, PreTrainedModel

from .documents_docmt import decode_sentences, encode_documents, encode_sentences, has_letters
from .formatting_docmt import format_sequence
from .splitter_docmt import language_of
from .text_docmt import (
    SegmentedDocument,
    check_segmentation,
    segment_sentences,
    segment_text,
    single_line,
    split_long_sentence,
)


# what a sentence is said to be if several things are true of it, or of the pieces it was cut into: the first of these
STATUS_PRIORITY = ("empty", "copied", "source_split", "missing", "joined", "hit_length_limit", "repetition", "ok")
# options of the translation pipeline of Transformers 4
STOCK_TASK_OPTIONS = ("truncation", "return_tensors", "return_text", "return_type", "stop_sequence")


@dataclass(frozen=True)
class PreparedSentence:
    """
    A sentence on its way to the model.

    Attributes:
        source (`str`): As reported to the user.
        text (`str`): Without blanks around it, on one line.
        pieces (`tuple[str, ...]`): `text`, or the pieces of a long one; none where there is nothing to translate.
        joiners (`tuple[str, ...]`): What stands before each piece but the first.
    """

    source: str
    text: str
    pieces: tuple[str, ...] = ()
    joiners: tuple[str, ...] = ()

    def to_translate(self) -> list[str]:
        """The pieces that the model translates: those with a letter."""
        return [piece for piece in self.pieces if has_letters(piece)]


@dataclass(frozen=True)
class PieceOutput:
    """
    What became of a piece.

    Attributes:
        text (`str`): Translation, on one line.
        score (`float`, *optional*): Score of `generate()`; `None` for a piece that the model did not see.
        status (`str`): One of `STATUS_PRIORITY`.
        num_tokens (`int`): Target tokens, without the end.
    """

    text: str
    score: float | None
    status: str
    num_tokens: int


@dataclass(frozen=True)
class PreparedDocument:
    """
    A document on its way through the pipeline.

    Attributes:
        layout (`SegmentedDocument`): How to put it together again.
        sentences (`list[PreparedSentence]`): All sentences, those that are not translated included.
        input_ids (`list[int]`): Neutral form of all pieces to translate; empty if there are none.
        outputs (`Sequence[PieceOutput]`): What the model made of each of these pieces.
    """

    layout: SegmentedDocument
    sentences: list[PreparedSentence]
    input_ids: list[int]
    outputs: Sequence[PieceOutput] = ()


class DocumentTranslationPipeline(Pipeline):
    """
    Translation of whole documents with a DocMT checkpoint.

    ```python
    pipe = pipeline("translation", model=FOLDER_OR_ID, trust_remote_code=True)
    pipe("First sentence.\\nIt goes on.")  # a document as a string
    pipe([["First sentence.", "It goes on."]])  # one document as a list of sentences
    pipe(["A document.", "Another one."], batch_size=2, num_beams=4)  # a list is a list of documents
    ```

    With a model in memory: `DocumentTranslationPipeline(model=model, tokenizer=tokenizer)`.

    **Input.** A document is a string, cut into sentences as `segmentation` says, or a list of sentences. A list (or
    tuple, generator, dataset) is a list of documents.

    **Output**, for each document a dict:
    - `translation_text`: the translated document. Blank lines, indentation, trailing blanks and line endings of a
      string stand where they stood (but see `segmentation="paragraphs"`); sentences given as a list are joined by
      newlines. A translation never holds a line break, so there are as many lines as in the source.
    - `sentences`: one dict for each source sentence, blank lines included: `source`, `translation`, `status` and
      `score` (see `generate()`; `None` where the model was not asked).

    **Status.** The first that is true of a sentence: `empty` (blank), `copied` (no letter in it: never sent to the
    model), `source_split` (longer than `max_part_tokens` of the model: cut at white space, else between two graphemes,
    translated piece by piece and joined; its score is the mean of those of the pieces by length), then those of
    `generate()`: `missing`, `joined`, `hit_length_limit`, `repetition`, `ok`.

    Args:
        segmentation (`str`, *optional*, defaults to `"lines"`):
            How a string is cut: `"lines"`, `"sentences"` or `"paragraphs"`, see `text_docmt.segment_text`.
        splitter (`str`, *optional*, defaults to `"auto"`):
            Sentence splitter: `"auto"` (pysbd where it is installed, else the built-in one), `"builtin"`, `"pysbd"`.
        src_lang, tgt_lang (`str`, *optional*):
            Languages, for those used to name them: refused if the model has others.
        batch_size (`int`, *optional*, defaults to 1):
            Documents that are translated together. Changes the speed, not the translations.
        kwargs:
            Options of `generate()`, here or in a call: `num_beams`, `decoding`, `source_context`, ...
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False
    _pipeline_calls_generate = True

    def __init__(self, model: PreTrainedModel, *args, **kwargs):
        # by name, since in a checkpoint each file has a copy of the config class of its own
        if model.config.model_type != "docmt":
            raise ValueError(
                f"`model` must be a DocMT model, got one of type {model.config.model_type!r}. Marian checkpoints can "
                "be converted: python -m modeling_docmt.convert_marian."
            )
        super().__init__(model, *args, **kwargs)
        if self.tokenizer is None:
            raise ValueError("`tokenizer` is needed to translate texts, got None.")
        languages = (self.task or "").split("_")
        if len(languages) == 4 and languages[0] == "translation":
            self._check_languages(src_lang=languages[1], tgt_lang=languages[3])

    def __call__(self, inputs, *args, **kwargs):
        """
        Translate a document or a list of documents.

        Args:
            inputs (`str` or `list[str | list[str]]`): A document as a string, or documents.
            kwargs: Any of the options of the class, for this call only.

        Returns:
            `dict` for a string, `list[dict]` for a list, an iterator for a generator or a dataset.
        """
        if isinstance(inputs, tuple):
            inputs = list(inputs)
        if isinstance(inputs, list) and not inputs:
            return []
        return super().__call__(inputs, *args, **kwargs)

    def _sanitize_parameters(self, segmentation=None, splitter=None, src_lang=None, tgt_lang=None, **generate_kwargs):
        self._check_languages(src_lang, tgt_lang)
        check_segmentation(segmentation or "lines", splitter or "auto", self.model.config.source_lang)
        if generate_kwargs.get("decoding", "default") is None:
            raise ValueError(
                "decoding=None is the stock `generate()`, which promises no translation for each sentence. Leave "
                "`decoding` out for the default of the checkpoint."
            )
        for name in STOCK_TASK_OPTIONS:
            if name in generate_kwargs:
                raise ValueError(
                    f"`{name}` belongs to the translation pipeline that Transformers had: this one returns the texts "
                    "of all sentences, and cuts none off. Leave it out."
                )
        if generate_kwargs.get("target_prefix") is not None:
            raise ValueError("`target_prefix` holds token ids and does not fit texts: use `model.generate()`.")
        given = {"segmentation": segmentation, "splitter": splitter}
        return {name: value for name, value in given.items() if value is not None}, generate_kwargs, {}

    def _check_languages(self, src_lang: str | None, tgt_lang: str | None) -> None:
        config = self.model.config
        for name, wanted, own in (
            ("src_lang", src_lang, config.source_lang),
            ("tgt_lang", tgt_lang, config.target_lang),
        ):
            if wanted and own and language_of(wanted) != language_of(own):
                raise ValueError(
                    f"`{name}` must be {own!r}: the model translates from {config.source_lang!r} to "
                    f"{config.target_lang!r}. Got {wanted!r}."
                )

    def preprocess(self, input_, segmentation: str = "lines", splitter: str = "auto") -> dict[str, PreparedDocument]:
        """Cut a document into sentences, take out what is not translated, and encode the rest."""
        if isinstance(input_, str):
            layout = segment_text(input_, segmentation, splitter, self.model.config.source_lang)
            sources: Sequence[str] = layout.segments
        elif isinstance(input_, list | tuple) and all(isinstance(sentence, str) for sentence in input_):
            layout, sources = segment_sentences(input_), input_
        else:
            raise TypeError(
                "A document must be a string or a list of sentences, and several documents a list of those; got "
                f"{type(input_).__name__}: {str(input_)[:60]!r}."
            )
        sentences = self._prepare_sentences(sources, layout.segments)
        pieces = [piece for sentence in sentences for piece in sentence.to_translate()]
        (input_ids,) = encode_documents(self.tokenizer, [pieces])
        return {"document": PreparedDocument(layout=layout, sentences=sentences, input_ids=input_ids)}

    def _prepare_sentences(self, sources: Sequence[str], texts: Sequence[str]) -> list[PreparedSentence]:
        limit = self._max_sentence_tokens()
        lengths = map(len, encode_sentences(self.tokenizer, [text for text in texts if has_letters(text)]))
        sentences = []
        for source, text in zip(sources, texts, strict=True):
            pieces: list[str] = []
            joiners: list[str] = []
            # a text that the tokenizer drops as a whole is copied, too
            if has_letters(text) and (length := next(lengths)) > 0:
                pieces = [text]
                if limit is not None and length > limit:
                    pieces, joiners = split_long_sentence(text, limit, self._count_tokens)
            sentences.append(PreparedSentence(source, text, tuple(pieces), tuple(joiners)))
        return sentences

    def _max_sentence_tokens(self) -> int | None:
        config = self.model.config
        if config.max_part_tokens is None:
            return None
        specials = format_sequence([[]], config, bod=config.sequence_format == "context_window")
        # the longest source that `generate()` takes in one piece, so that none is cut at a token
        longest = math.floor((config.max_part_tokens - 1) * config.train_ratio)
        return max(1, min(config.max_part_tokens - len(specials), longest))

    def _count_tokens(self, text: str) -> int:
        return len(encode_sentences(self.tokenizer, [text])[0])

    def _forward(self, input_tensors: dict, **generate_kwargs) -> dict:
        prepared = input_tensors["document"]
        # a batch comes as a list
        documents = prepared if isinstance(prepared, list) else [prepared]
        active = [index for index, document in enumerate(documents) if document.input_ids]
        if active:
            input_ids, attention_mask = self._pad([documents[index].input_ids for index in active])
            result = self.model.generate(
                input_ids=input_ids,
                attention_mask=attention_mask,
                **self._prepare_generate_kwargs(generate_kwargs, return_dict_in_generate=True),
            )
            if len(result.sentences) != len(active):
                raise ValueError(
                    "`num_return_sequences` must be 1 in a pipeline, which returns one translation a document: use "
                    "`model.generate()`."
                )
            documents = list(documents)
            for row, index in enumerate(active):
                documents[index] = replace(documents[index], outputs=self._read_outputs(result, row))
        elif (streamer := generate_kwargs.get("streamer")) is not None:
            # nothing to translate, and somebody who waits for the end
            streamer.end()
        return {"document": documents if isinstance(prepared, list) else documents[0]}

    def _pad(self, sequences: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Pad on the right, as documents are, whatever side the tokenizer pads on."""
        shape = (len(sequences), max(map(len, sequences)))  # (B, S)
        input_ids = torch.full(shape, self.model.config.pad_token_id, dtype=torch.long)
        attention_mask = torch.zeros(shape, dtype=torch.long)
        for row, ids in enumerate(sequences):
            input_ids[row, : len(ids)] = torch.tensor(ids)
            attention_mask[row, : len(ids)] = 1
        return input_ids.to(self.device), attention_mask.to(self.device)

    def _read_outputs(self, result, row: int) -> list[PieceOutput]:
        ids = result.sentences[row]
        scores, statuses = result.sentence_scores[row], result.sentence_status[row]
        texts = decode_sentences(self.tokenizer, ids)
        return [
            PieceOutput(text=single_line(text).strip(), score=score, status=status, num_tokens=len(tokens))
            for text, score, status, tokens in zip(texts, scores, statuses, ids, strict=True)
        ]

    def postprocess(self, model_outputs: dict) -> dict[str, Any]:
        """Join pieces, put copied and empty sentences back, and rebuild the document."""
        document: PreparedDocument = model_outputs["document"]
        outputs = iter(document.outputs)
        sentences = [_finish_sentence(sentence, outputs) for sentence in document.sentences]
        # every output has found its sentence, and every sentence its output
        assert next(outputs, None) is None
        translations = [sentence["translation"] for sentence in sentences]
        for index in range(1, len(translations)):
            touches = document.layout.gaps[index] == "" and translations[index - 1] and translations[index]
            is_translated = {sentence["status"] for sentence in sentences[index - 1 : index + 1]} != {"copied"}
            # Chinese sentences follow each other without a blank, their English translations do not
            if touches and is_translated and not _is_wide(translations[index - 1][-1]):
                translations[index] = " " + translations[index]
        return {"translation_text": document.layout.restore(translations), "sentences": sentences}


def _finish_sentence(sentence: PreparedSentence, outputs: Iterator[PieceOutput]) -> dict[str, Any]:
    """Build the record of a sentence from the outputs of its pieces, which it takes from `outputs`."""
    record: dict[str, Any] = {
        "source": sentence.source,
        "translation": sentence.text,
        "status": "copied",
        "score": None,
    }
    if not sentence.pieces:
        return record if sentence.text else {**record, "status": "empty"}
    results = [
        next(outputs) if has_letters(piece) else PieceOutput(text=piece, score=None, status="ok", num_tokens=0)
        for piece in sentence.pieces
    ]
    text = results[0].text
    for joiner, result in zip(sentence.joiners, results[1:], strict=True):
        text += joiner + result.text
    statuses = {result.status for result in results} | ({"source_split"} if len(results) > 1 else set())
    # the end of a piece is scored too
    scored = [(result.score, result.num_tokens + 1) for result in results if result.score is not None]
    score = sum(score * length for score, length in scored) / sum(length for _, length in scored) if scored else None
    return {**record, "translation": text, "status": min(statuses, key=STATUS_PRIORITY.index), "score": score}


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"
