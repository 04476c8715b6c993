"""
Where the translations under test come from: a file, the source itself, or a model that translates now.

Whatever the origin, a hypothesis is a list of sentences for each record of the test set, and its counts are checked
before anything is scored.
"""

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer, DocumentTranslationPipeline
from modeling_docmt.documents_docmt import decode_sentences, encode_sentences, has_letters
from training.corpus_lines import read_lines
from training.coverage import FORMATS_WITH_COVERAGE
from training.documents import Record
from training.metrics import check_counts


@dataclasses.dataclass
class Hypotheses:
    """
    Translations of one test set.

    Args:
        documents (`list[list[str]]`):
            One list of sentences for each record.
        status (`list[list[str]]`, *optional*):
            Status of each sentence, from a model only.
        scores (`list[list[float | None]]`, *optional*):
            Model score of each sentence, from a DocMT model only.
        seconds (`float`, *optional*):
            Time of translating, loading excluded.
        target_tokens (`int`, *optional*):
            Tokens of the translations, one end token for each sentence that was not empty.
        free_status (`list[list[str]]`, *optional*):
            What `generate()` said of each sentence that it got, the pieces of a long one one by one; where the model
            was free in the number of sentences only.
    """

    documents: list[list[str]]
    status: list[list[str]] | None = None
    scores: list[list[float | None]] | None = None
    seconds: float | None = None
    target_tokens: int | None = None
    free_status: list[list[str]] | None = None

    def status_counts(self) -> dict[str, int] | None:
        """Count sentences by status, the most frequent first; None where no status is known."""
        if self.status is None:
            return None
        return dict(Counter(status for document in self.status for status in document).most_common())


def read_hypotheses(path: str | Path, records: Sequence[Record]) -> Hypotheses:
    """
    Read the translations of a test set.

    Args:
        path (`str` or `Path`):
            Plain text with one sentence a line, in the order of the test set (an empty line is an empty translation),
            or JSON Lines (`.jsonl`, `.jsonl.gz`) with records whose `id` names the document and whose `hypothesis`,
            or `tgt` where there is none, is the list of translated sentences: what `training.translate` writes.
        records (`Sequence[dict]`):
            The records of the test set.

    Raises:
        `ValueError`: where counts differ or a document is missing; file, document and counts are named.
    """
    name = Path(path).name
    is_json = name.removesuffix(".gz").endswith((".jsonl", ".json"))
    documents = _read_records(path, records) if is_json else _read_plain(path, records)
    try:
        check_counts(documents, [record["src"] for record in records], [record["id"] for record in records])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return Hypotheses(documents)


def hypotheses_file(path: str | Path, test_set: str, *, is_only: bool) -> Path:
    """
    Find the translations of a test set.

    Args:
        path (`str` or `Path`): A folder with a file a test set, such as `--save_hypotheses` writes, or a file.
        test_set (`str`): Name of the test set.
        is_only (`bool`): Whether there is no other test set.

    Raises:
        `ValueError`: for a folder without them, a file where there are several test sets, and where there is nothing.
    """
    path = Path(path)
    if path.is_file():
        if not is_only:
            raise ValueError(f"{path}: is one file for several test sets. Name a folder with a file for each.")
        return path
    for ending in (".jsonl", ".jsonl.gz", ".txt"):
        if (path / f"{test_set}{ending}").is_file():
            return path / f"{test_set}{ending}"
    if not path.is_dir():
        raise ValueError(f"{path}: there is no such file or folder of translations. Check the name.")
    there = sorted(file.name for file in path.iterdir())
    raise ValueError(
        f"{path}: holds no translation of {test_set}, `{test_set}.jsonl`; there is {', '.join(there) or 'nothing'}. "
        "Check the name, translate the test set with `--save_hypotheses`, or leave the system or the test set out."
    )


def _read_plain(path: str | Path, records: Sequence[Record]) -> list[list[str]]:
    lines = [line for _, line in read_lines(path)]
    counts = [len(record["src"]) for record in records]
    if len(lines) != sum(counts):
        raise ValueError(
            f"{path}: has {len(lines)} lines, but the test set has {sum(counts)} sentences in {len(records)} "
            "documents. Write one line for each sentence, an empty one where there is no translation, and none "
            "between documents."
        )
    documents, start = [], 0
    for count in counts:
        documents.append(lines[start : start + count])
        start += count
    return documents


def _read_records(path: str | Path, records: Sequence[Record]) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            # beside a `hypothesis`, `tgt` is the reference
            identifier, sentences = str(record["id"]), record["hypothesis" if "hypothesis" in record else "tgt"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}:{number}: not a translated document ({type(error).__name__}: {error}). Each line must be an "
                "object with `id` and `tgt` (or `hypothesis`), the list of translated sentences."
            ) from error
        if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
            raise ValueError(f"{path}:{number}: the translation of document {identifier!r} must be a list of texts.")
        if identifier in found:
            raise ValueError(f"{path}:{number}: document {identifier!r} is there twice. Keep one of its translations.")
        found[identifier] = sentences
    missing = [record["id"] for record in records if record["id"] not in found]
    if missing:
        raise ValueError(
            f"{path}: no translation of document {missing[0]!r} ({len(missing)} of {len(records)} are missing). "
            "Translate the whole test set, or score fewer documents with `--max_documents`."
        )
    return [found[record["id"]] for record in records]


def copy_source(records: Sequence[Record]) -> Hypotheses:
    """Return the source as its own translation: what a system must beat to be of any use."""
    return Hypotheses([list(record["src"]) for record in records])


class PieceStatusPipeline(DocumentTranslationPipeline):
    """
    The pipeline, with a further key `piece_status` in its results: what `generate()` said of each sentence it got.

    The status of a sentence that was split for its length is `source_split`, whatever became of its pieces.
    """

    def postprocess(self, model_outputs: dict) -> dict[str, Any]:
        """The result of the pipeline and the status of each output of the model."""
        pieces = [output.status for output in model_outputs["document"].outputs]
        return {**super().postprocess(model_outputs), "piece_status": pieces}


def decoding_mode(model: PreTrainedModel, generation: dict[str, Any]) -> str:
    """Return the mode in which a DocMT model decodes: that of the call, else as it was saved, else of the system."""
    saved = model.generation_config.to_dict().get("decoding")
    return generation.get("decoding") or saved or model.config.default_decoding


class Translator:
    """
    A model folder that translates records.

    DocMT models translate through `DocumentTranslationPipeline`, as a user would; any other sequence-to-sequence model
    (a `MarianMTModel` to compare with) translates each sentence alone with the stock `generate()`.

    Args:
        model (`str`):
            Folder (or Hub name) of model and tokenizer.
        device (`str`, *optional*):
            Where to run; a GPU where there is one by default.
        dtype (`str`, *optional*, defaults to `"float32"`):
            Type of the weights; `"auto"` takes that of the checkpoint.
    """

    def __init__(self, model: str, device: str | None = None, dtype: str = "float32"):
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        config = AutoConfig.from_pretrained(model)
        self.is_docmt = config.model_type == "docmt"
        model_class = DocMTForConditionalGeneration if self.is_docmt else AutoModelForSeq2SeqLM
        self.model: PreTrainedModel = model_class.from_pretrained(model, dtype=dtype).to(self.device).eval()
        self.tokenizer = load_tokenizer(model)
        if self.is_docmt:
            self.pipeline = PieceStatusPipeline(model=self.model, tokenizer=self.tokenizer, device=self.device)

    def translate(
        self, records: Sequence[Record], *, batch_size: int = 16, name: str = "", **generation: Any
    ) -> Hypotheses:
        """
        Translate the source of each record, with a progress bar on stderr.

        Args:
            records (`Sequence[dict]`):
                Documents with `src`.
            batch_size (`int`, *optional*, defaults to 16):
                Documents (or, for models that are not DocMT, sentences) that go through the model together.
            name (`str`, *optional*):
                What the progress bar says.
            generation:
                Options of `generate()`: `num_beams`, `decoding`, …
        """
        start = time.perf_counter()
        documents = [record["src"] for record in records]
        progress = tqdm(total=sum(map(len, documents)), desc=name, unit="sentence")
        with progress, torch.inference_mode():
            if self.is_docmt:
                result = self._translate_documents(documents, batch_size, progress, generation)
            else:
                result = self._translate_sentences(documents, batch_size, progress, generation)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        result.seconds = time.perf_counter() - start
        sentences = [sentence for document in result.documents for sentence in document]
        result.target_tokens = sum(
            len(ids) + 1 for ids in encode_sentences(self.tokenizer, sentences, target=True) if ids
        )
        return result

    def _translate_documents(
        self, documents: list[list[str]], batch_size: int, progress: tqdm, generation: dict[str, Any]
    ) -> Hypotheses:
        translated: list[list[dict[str, Any]]] = [[] for _ in documents]
        pieces: list[list[str]] = [[] for _ in documents]
        for batch in _batches_by_length([sum(map(len, document)) for document in documents], batch_size):
            outputs = self.pipeline([documents[index] for index in batch], batch_size=batch_size, **generation)
            for index, output in zip(batch, outputs, strict=True):
                translated[index], pieces[index] = output["sentences"], output["piece_status"]
                progress.update(len(documents[index]))
        is_free = decoding_mode(self.model, generation) == "free"
        has_coverage = is_free and self.model.config.sequence_format in FORMATS_WITH_COVERAGE
        return Hypotheses(
            documents=[[sentence["translation"] for sentence in document] for document in translated],
            status=[[sentence["status"] for sentence in document] for document in translated],
            scores=[[sentence["score"] for sentence in document] for document in translated],
            free_status=pieces if has_coverage else None,
        )

    def _translate_sentences(
        self, documents: list[list[str]], batch_size: int, progress: tqdm, generation: dict[str, Any]
    ) -> Hypotheses:
        sentences = [sentence for document in documents for sentence in document]
        # as the pipeline has it: what holds no letter is not sent to the model
        translations, status = list(sentences), ["copied" if sentence else "empty" for sentence in sentences]
        encoded = encode_sentences(self.tokenizer, sentences)
        todo = [index for index, sentence in enumerate(sentences) if has_letters(sentence)]
        progress.update(len(sentences) - len(todo))
        for batch in _batches_by_length([len(encoded[index]) for index in todo], batch_size):
            indices = [todo[position] for position in batch]
            outputs = generate_stock(self.model, self.tokenizer, [encoded[index] for index in indices], **generation)
            for index, ids in zip(indices, outputs, strict=True):
                ended = self.tokenizer.eos_token_id in ids[1:]
                translations[index] = decode_sentences(self.tokenizer, [ids])[0]
                status[index] = "ok" if ended else "hit_length_limit"
            progress.update(len(batch))
        return Hypotheses(documents=_regroup(translations, documents), status=_regroup(status, documents))


def load_tokenizer(model: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model folder, `DocMTTokenizer` without asking for remote code."""
    tokenizer_class = AutoTokenizer
    file = Path(model) / "tokenizer_config.json"
    if file.is_file() and "DocMTTokenizer" in json.loads(file.read_text(encoding="utf-8")).get("tokenizer_class", ""):
        tokenizer_class = DocMTTokenizer
    return tokenizer_class.from_pretrained(model)


def generate_stock(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[int]], **generation: Any
) -> list[list[int]]:
    """
    Translate single sentences with the `generate()` of Transformers, under the length limit of DocMT: 1.2 J + 10.

    Args:
        sentences (`Sequence[Sequence[int]]`):
            Source ids without special tokens.

    Returns:
        `list[list[int]]`: decoder start and target ids with `<eos>`; padding may follow.
    """
    rows = [[*ids, tokenizer.eos_token_id] for ids in sentences]
    longest = max(map(len, rows))
    input_ids = torch.full((len(rows), longest), int(tokenizer.pad_token_id))  # (B, S)
    attention_mask = torch.zeros_like(input_ids)
    for position, ids in enumerate(rows):
        input_ids[position, : len(ids)] = torch.tensor(ids)
        attention_mask[position, : len(ids)] = 1
    outputs = model.generate(
        input_ids=input_ids.to(model.device),
        attention_mask=attention_mask.to(model.device),
        max_new_tokens=int(-(-12 * longest // 10) + 10),
        **generation,
    )
    return outputs.tolist()


def _batches_by_length(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Put indices of similar length together, the longest first, so that memory fails at once or not at all."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def _regroup(items: Sequence[Any], documents: Sequence[Sequence[str]]) -> list[list[Any]]:
    iterator = iter(items)
    return [[next(iterator) for _ in document] for document in documents]
