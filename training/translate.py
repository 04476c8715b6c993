r"""
Translate files: text, line for line and with its layout, or documents in JSON Lines.

    python -m training.translate --model hub_cards/docmt-tiny-en-de --input letter.txt --output letter.de.txt
    python -m training.translate --model MODEL < letter.txt > letter.de.txt
    python -m training.translate --model MODEL --input test.jsonl.gz --output test.de.jsonl --num_beams 4 --with_status

Input: UTF-8 text, one document a file or (`--document_boundary blank_line`) one a block of lines, or records with the
sentences of a document in `src` (`*.jsonl`, `*.jsonl.gz`, `*.parquet`).
Output: the text with every line translated and everything else in its place, or the records with their translation in
`tgt`. Each translation is that of `DocumentTranslationPipeline` with the same options.

A finished document is put down in `OUTPUT.partial` at once. The same command, started again after a kill, goes on
behind the last one; with another input or other options it starts anew. OUTPUT appears when it is whole.
"""

import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import torch
from tqdm import tqdm

from modeling_docmt import DocMTForConditionalGeneration, DocumentTranslationPipeline
from modeling_docmt.text_docmt import check_segmentation, split_lines
from training.command_line import make_parser
from training.documents import Record, read_documents
from training.hypotheses import load_tokenizer
from training.journal import Journal
from training.results import sha256_of_file


RECORD_ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".parquet")
# options of `generate()` that have a flag here; those not given are as the model was saved with them
# how files begin that are no text in UTF-8, and what to do with them
OTHER_FILES = {
    b"\xff\xfe": "UTF-16. Convert it first: `iconv -f utf-16 -t utf-8`",
    b"\xfe\xff": "UTF-16. Convert it first: `iconv -f utf-16 -t utf-8`",
    b"\x1f\x8b": "packed by gzip. Unpack it first: `gunzip`",
}
GENERATION_OPTIONS = (
    *("decoding", "num_beams", "length_penalty", "no_repeat_ngram_size", "max_sentence_tokens"),
    *("source_context", "source_context_sentences", "target_context_sentences"),
)


@dataclass
class TranslationArguments:
    """What to translate, with what, how, and where to."""

    model: str = field(metadata={"help": "Model folder or Hub id."})
    input: str = field(default="-", metadata={"help": "Text file or documents; - for standard input."})
    output: str = field(default="-", metadata={"help": "File to write; - for standard output."})
    input_format: Literal["auto", "text", "jsonl"] = field(
        default="auto", metadata={"help": "auto: by the name of the input; standard input is text."}
    )
    document_boundary: Literal["file", "blank_line"] = field(
        default="file", metadata={"help": "Where a document of a text ends: at the end, or at blank lines too."}
    )
    segmentation: Literal["lines", "sentences", "paragraphs"] = field(
        default="lines",
        metadata={"help": "What is translated as one: a line, a sentence of it, a sentence of a wrapped paragraph."},
    )
    splitter: Literal["auto", "builtin", "pysbd"] = field(
        default="auto", metadata={"help": "Sentence splitter; auto: pysbd where it is installed."}
    )
    target_field: Literal["tgt", "hypothesis"] = field(
        default="tgt",
        metadata={"help": "Key of the translation in a record; a `tgt` that is there is replaced, or kept beside."},
    )
    with_status: bool = field(
        default=False,
        metadata={"help": "Write status and score of each sentence: keys of a record, or OUTPUT.status.jsonl."},
    )
    decoding: Literal["sentence", "counted", "free", "sequential"] | None = field(
        default=None, metadata={"help": "How a document is decoded; by default as the model was saved."}
    )
    num_beams: int | None = field(default=None, metadata={"help": "Beams; 1 is greedy."})
    length_penalty: float | None = field(default=None, metadata={"help": "Above 0 favours longer translations."})
    no_repeat_ngram_size: int | None = field(
        default=None, metadata={"help": "No n-gram of this length twice in a sentence."}
    )
    max_sentence_tokens: int | None = field(default=None, metadata={"help": "Bound of a translated sentence."})
    source_context: Literal["full", "prefix"] | None = field(
        default=None, metadata={"help": "Source seen in sequential decoding: all of it, or up to the sentence."}
    )
    source_context_sentences: int | None = field(
        default=None, metadata={"help": "Source sentences of context, where the decoding takes a number."}
    )
    target_context_sentences: int | None = field(
        default=None, metadata={"help": "Target sentences of context, where the decoding takes a number."}
    )
    batch_size: int = field(default=8, metadata={"help": "Documents translated together."})
    device: str | None = field(default=None, metadata={"help": "cpu, cuda, …; by default a GPU where there is one."})
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = field(
        default="float32", metadata={"help": "Type of the weights; auto: that of the checkpoint."}
    )
    threads: int | None = field(default=None, metadata={"help": "Threads on the CPU; by default as PyTorch chooses."})
    overwrite: bool = field(default=False, metadata={"help": "Replace an output that is there."})

    def __post_init__(self):
        positive = ("batch_size", "num_beams", "threads", "max_sentence_tokens")
        for name, least in (*((name, 1) for name in positive), ("no_repeat_ngram_size", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"`--{name}` must be {least} or more, got {value}.")
        if self.with_status and self.output == "-" and not self.has_records:
            raise ValueError("`--with_status` writes a file beside the output of a text: name one with `--output`.")
        if self.has_records and (self.segmentation, self.document_boundary) != ("lines", "file"):
            raise ValueError(
                "`--segmentation` and `--document_boundary` are for texts: the sentences of a record are in `src`."
            )
        if not self.has_records and self.target_field != "tgt":
            raise ValueError("`--target_field` is for records, and the input is a text (see `--input_format`).")
        check_segmentation(self.segmentation, self.splitter)

    @property
    def has_records(self) -> bool:
        """Whether the input holds documents as records."""
        if self.input_format == "auto":
            return self.input.endswith(RECORD_ENDINGS)
        return self.input_format == "jsonl"

    def check_files(self) -> None:
        """Raise `ValueError` if an input is missing or an output is in the way."""
        if self.input != "-" and not Path(self.input).is_file():
            raise ValueError(f"`--input`: there is no file {self.input}. Check the name; - is standard input.")
        folder = Path(self.model)
        # a relative name without such a folder may be a Hub id
        if not (folder / "config.json").is_file() and (folder.is_dir() or folder.is_absolute()):
            raise ValueError(f"`--model`: {self.model} is no model folder, it has no config.json.")
        if self.output == "-":
            return
        target = Path(self.output)
        if not target.absolute().parent.is_dir():
            raise ValueError(f"`--output`: there is no folder {target.parent}. Make it first.")
        if target.is_dir():
            raise ValueError(f"`--output`: {target} is a folder. Name a file in it.")
        if target.exists() and not target.is_file():
            raise ValueError(f"`--output`: {target} is no regular file. Name one, or - for standard output.")
        if self.input != "-" and target.exists() and target.samefile(self.input):
            raise ValueError(f"`--output` must not be the input, got {target} for both.")
        if target.exists() and not self.overwrite:
            raise ValueError(f"`--output`: {target} is there already. Choose another name, or pass `--overwrite`.")
        if self.with_status and not self.has_records and self.status_path.exists() and not self.overwrite:
            raise ValueError(
                f"`--with_status` would replace {self.status_path}. Choose another `--output`, or pass `--overwrite`."
            )

    @property
    def status_path(self) -> Path:
        """Where the status of the sentences of a text goes."""
        return Path(f"{self.output}.status.jsonl")

    def generation_options(self) -> dict[str, Any]:
        """The options for `generate()` that were given."""
        return {name: getattr(self, name) for name in GENERATION_OPTIONS if getattr(self, name) is not None}


@dataclass
class Document:
    """A document to translate: what the pipeline takes, and the record it stands in, if any."""

    content: str | list[str]
    record: Record | None = None


def split_text(text: str, document_boundary: str = "file") -> list[str]:
    """
    Cut a text into documents; joined, they are the text.

    Args:
        text (`str`): The whole file.
        document_boundary (`str`, *optional*, defaults to `"file"`):
            `"file"`: it is one document. `"blank_line"`: a document begins at each line behind a blank one; blank
            lines belong to the document before them.
    """
    if document_boundary == "file":
        return [text]
    documents = [""]
    is_behind_blank = False
    for line in split_lines(text):
        if line.strip() and is_behind_blank and documents[-1].strip():
            documents.append("")
        documents[-1] += line
        is_behind_blank = not line.strip()
    return documents


def read_input(path: Path, arguments: TranslationArguments) -> Iterator[Document]:
    """Yield the documents of the input; a faulty one raises `ValueError` with its place."""
    if arguments.has_records:
        for record in read_documents(path, require_target=False):
            yield Document(content=record["src"], record=record)
        return
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if (found := next((hint for start, hint in OTHER_FILES.items() if data.startswith(start)), None)) is not None:
            raise ValueError(f"{arguments.input}: not UTF-8, but {found}.") from error
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{arguments.input}:{line}: not UTF-8 (byte {data[error.start]:#04x} at position {error.start}). Convert "
            "it first, such as `iconv -f latin1 -t utf-8`."
        ) from error
    for content in split_text(text, arguments.document_boundary):
        yield Document(content=content)


def load_pipeline(arguments: TranslationArguments) -> DocumentTranslationPipeline:
    """Load model and tokenizer to the device."""
    try:
        model = DocMTForConditionalGeneration.from_pretrained(arguments.model, dtype=arguments.dtype)
        tokenizer = load_tokenizer(arguments.model)
    except OSError as error:
        raise ValueError(
            f"`--model`: {arguments.model} is no model folder, which has a `config.json`, and no model of the Hub "
            "that can be reached. Check the name."
        ) from error
    try:
        device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        return DocumentTranslationPipeline(model=model.eval(), tokenizer=tokenizer, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"`--device`: {arguments.device!r} cannot be used here ({error}).") from error


def translate(
    documents: Iterator[Document], pipe: DocumentTranslationPipeline, arguments: TranslationArguments
) -> Iterator[dict[str, Any]]:
    """
    Translate documents one after the other.

    Yields:
        `dict`: for each document `output` (what goes into the output file), `sentences` (the status records of the
        pipeline).
    """
    pending: list[Document] = []

    def contents() -> Iterator[str | list[str]]:
        for document in documents:
            pending.append(document)
            yield document.content

    options: dict[str, Any] = arguments.generation_options()
    if not arguments.has_records:
        options |= {"segmentation": arguments.segmentation, "splitter": arguments.splitter}
    for result in pipe(contents(), batch_size=arguments.batch_size, **options):
        document = pending.pop(0)
        yield {
            "output": format_output(document, result, arguments.target_field, arguments.with_status),
            "sentences": result["sentences"],
        }


def format_output(document: Document, result: dict[str, Any], target_field: str, with_status: bool) -> str:
    """What the output file holds of a document: its text, or its record as a line of JSON."""
    if document.record is None:
        return result["translation_text"]
    record = {**document.record, target_field: [sentence["translation"] for sentence in result["sentences"]]}
    if with_status:
        record |= {key: [sentence[key] for sentence in result["sentences"]] for key in ("status", "score")}
    return json.dumps(record, ensure_ascii=False) + "\n"


def job_key(path: Path, arguments: TranslationArguments) -> str:
    """Hash of all that the output depends on: input, model, options. Batch size and device change nothing."""
    free = ("batch_size", "device", "threads", "overwrite", "input", "output")
    options = {name: value for name, value in vars(arguments).items() if name not in free}
    folder = Path(arguments.model)
    files = sorted(file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else []
    weights = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    recipe = json.dumps([sha256_of_file(path), arguments.has_records, options, weights], sort_keys=True)
    return hashlib.sha256(recipe.encode()).hexdigest()


def translate_file(path: Path, arguments: TranslationArguments) -> Counter[str]:
    """
    Translate the documents of a file to the output that the arguments name.

    Args:
        path (`Path`): The input, or a copy of what came from standard input.
        arguments (`TranslationArguments`): All the rest.

    Returns:
        `Counter`: sentences by status, those of an earlier, interrupted run included.
    """
    # a faulty document is found before the first is translated
    num_documents = sum(1 for _ in read_input(path, arguments))
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        journal = None
        num_done = 0
        if arguments.output != "-":
            journal = stack.enter_context(Journal(Path(arguments.output), job_key(path, arguments)))
            num_done = len(journal)
        todo = islice(read_input(path, arguments), num_done, None)
        progress = tqdm(total=num_documents, initial=num_done, unit="document", file=sys.stderr)
        stack.callback(progress.close)
        if num_done < num_documents:
            try:
                pipe = load_pipeline(arguments)
            except ValueError:
                if journal is not None and num_done == 0:
                    journal.remove()  # there is nothing in it
                raise
            with torch.inference_mode():
                for entry in translate(todo, pipe, arguments):
                    if journal is not None:
                        journal.append(entry)
                    else:
                        counts.update(sentence["status"] for sentence in entry["sentences"])
                        _write_stdout(entry["output"])
                    progress.update()
        if journal is None:
            return counts
        for entry in journal:
            counts.update(sentence["status"] for sentence in entry["sentences"])
        if arguments.with_status and not arguments.has_records:
            journal.write(arguments.status_path, _status_lines)
        journal.write(Path(arguments.output), lambda index, entry: entry["output"])
        journal.remove()
    return counts


def _status_lines(index: int, entry: dict[str, Any]) -> str:
    lines = [
        json.dumps({"document": index, "sentence": number, **sentence}, ensure_ascii=False)
        for number, sentence in enumerate(entry["sentences"])
    ]
    return "".join(line + "\n" for line in lines)


def _write_stdout(text: str) -> None:
    # as bytes: line endings stay as they are, whatever the platform and the locale
    sys.stdout.flush()
    binary: IO[bytes] = sys.stdout.buffer
    binary.write(text.encode("utf-8"))
    binary.flush()


def main(argv: list[str] | None = None) -> None:
    """Run the command, see the module's docstring."""
    parser = make_parser(TranslationArguments, __doc__.split("\n\n")[0])
    try:
        (arguments,) = parser.parse_args_into_dataclasses(argv)
        arguments.check_files()
    except ValueError as error:
        parser.error(str(error))
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="docmt-translate-") as folder:
        path = Path(arguments.input)
        if arguments.input == "-":
            path = Path(folder) / "stdin"
            path.write_bytes(sys.stdin.buffer.read())
        try:
            counts = translate_file(path, arguments)
        except ValueError as error:
            # of the input, or of options that the model does not take
            sys.exit(f"{parser.prog}: error: {error}")
    summary = ", ".join(f"{count:,} {status}" for status, count in counts.most_common()) or "none"
    print(f"{counts.total():,} sentences ({summary}) in {time.perf_counter() - start:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
