r"""
Turn parallel files of any usual layout into a corpus of checked documents.

    python -m training.prepare_corpus --format lines --boundaries marker --source_lang en --target_lang de \
        --source_files corpus.en.txt --target_files corpus.de.txt --output_dir corpus.en-de

Input: `--format` says how the files are written.

    records   one JSON object a line (`.jsonl`, `.jsonl.gz`), `.parquet`, or a folder of this command
    lines     one sentence a line; `--boundaries` says what separates documents
    joined    one document a line, sentences joined by `--separator`
    wmt-xml   WMT 2021 and later, source and references in one file
    tmx       a translation memory
    opus      an OPUS alignment file, beside the documents that it links
    translations   JSON Lines as `run_translation.py` reads them, a pair a line; `--id_key doc_id` joins pairs

Output, in `--output_dir`, which appears when it is whole:

    documents.jsonl.gz   the documents, one JSON record a line
    data-*.arrow, dataset_info.json, state.json   the same for `datasets.load_from_disk` and `load_corpus`
    info.json            command, versions, counts, what was dropped and why, checksums
    README.md            the card, with which the Hub shows the documents and `load_dataset` reads the folder

The same input gives the same bytes. One document at a time is held in memory.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm
from transformers.utils import logging

from training.command_line import make_parser
from training.corpus_card import corpus_card
from training.corpus_filters import CorpusFilter
from training.corpus_formats import (
    BOUNDARIES_WITH_FILE,
    read_joined_documents,
    read_line_documents,
    read_translation_documents,
)
from training.corpus_xml import read_opus_documents, read_tmx_documents, read_wmt_documents
from training.documents import (
    JSONL_NAME,
    Record,
    dataset_from_documents,
    read_documents,
    validate_record,
    write_documents,
)
from training.results import (
    command_line,
    commit_info,
    package_versions,
    portable_path,
    sha256_of_file,
    sha256_of_files,
    write_json_atomic,
    write_text_atomic,
)


logger = logging.get_logger(__name__)

INFO_NAME = "info.json"
CARD_NAME = "README.md"
MESSAGES_KEPT = 20


@dataclass
class CorpusArguments:
    """Arguments of `prepare_corpus`. Limits that are not set are off."""

    format: Literal["records", "lines", "joined", "wmt-xml", "tmx", "opus", "translations"] = field(
        metadata={"help": "Layout of the input files."}
    )
    source_files: list[str] = field(
        metadata={"help": "Input files; those of the source side for `lines` and `joined`. gzip is unpacked."}
    )
    output_dir: str = field(metadata={"help": "Folder to make."})
    target_files: list[str] | None = field(
        default=None, metadata={"help": "Target sides for `lines` and `joined`, in the order of `source_files`."}
    )
    source_lang: str | None = field(default=None, metadata={"help": "Source language, such as `en`."})
    target_lang: str | None = field(default=None, metadata={"help": "Target language, such as `de`."})
    boundaries: Literal["blank", "marker", "ids", "offsets", "counts", "none"] = field(
        default="blank",
        metadata={
            "help": "What separates documents in `lines`: an empty line, a marker line, or a third file with the id "
            "of each line, the number of each first line, or the number of sentences of each document."
        },
    )
    boundary_files: list[str] | None = field(
        default=None,
        metadata={"help": "Third files, in the order of `source_files`.", "aliases": ["--id_file", "--id_files"]},
    )
    boundary_marker: str = field(default="<d>", metadata={"help": "Line that opens a document with `marker`."})
    id_key: str | None = field(
        default=None,
        metadata={
            "help": "Key of the document, such as `docid`, where the id file has one JSON object a line, and beside "
            "the pairs of `translations`, which are documents of one sentence without it."
        },
    )
    separator: str = field(default="</s>", metadata={"help": "Mark between sentences in `joined`."})
    encoding: str = field(default="utf-8", metadata={"help": "Encoding of the source files of `lines`, `joined`."})
    target_encoding: str | None = field(default=None, metadata={"help": "That of the target files, if another one."})
    source_column: str = field(default="src", metadata={"help": "Key of the source sentences in `records`."})
    target_column: str = field(default="tgt", metadata={"help": "Key of the target sentences in `records`."})
    id_column: str = field(default="id", metadata={"help": "Key of the document id in `records`."})
    reference: str | None = field(default=None, metadata={"help": "Translator whose reference to take in `wmt-xml`."})
    document_property: str | None = field(
        default=None, metadata={"help": "Type of the `prop` that names the document in `tmx`; none: one a file."}
    )
    opus_root: str | None = field(default=None, metadata={"help": "Folder of the documents that `opus` links."})
    monolingual: bool = field(
        default=False, metadata={"help": "Documents to be translated: no target side, and no sentence is dropped."}
    )
    on_error: Literal["raise", "skip"] = field(
        default="raise",
        metadata={
            "help": "What to do with a faulty document: stop, or count it and go on. Files whose lines do not match "
            "always stop, since nothing after the fault can be trusted."
        },
    )
    normalize_text: bool = field(
        default=False, metadata={"help": "Compose characters (NFC), drop soft hyphens, join runs of blanks."}
    )
    max_sentence_words: int | None = field(default=None, metadata={"help": "Longest sentence, in words."})
    max_sentence_characters: int | None = field(default=None, metadata={"help": "Longest sentence, in characters."})
    max_length_ratio: float | None = field(
        default=None, metadata={"help": "Largest ratio of the longer to the shorter side, in characters."}
    )
    drop_identical_pairs: bool = field(default=False, metadata={"help": "Drop pairs with equal sides."})
    faulty_pairs: Literal["drop_pair", "drop_document"] = field(
        default="drop_pair", metadata={"help": "Drop a faulty pair alone, or its whole document."}
    )
    min_sentences: int = field(default=1, metadata={"help": "Shortest document, in sentences."})
    max_sentences: int | None = field(default=None, metadata={"help": "Longest document, in sentences."})
    drop_duplicates: bool = field(default=False, metadata={"help": "Drop documents that occurred before."})
    exclude_ids: list[str] | None = field(default=None, metadata={"help": "Documents to leave out, by id."})
    license: str | None = field(
        default=None, metadata={"help": "Terms of the texts, for the card, as the Hub writes them: `cc-by-4.0`."}
    )
    overwrite: bool = field(default=False, metadata={"help": "Replace `output_dir` if it is one of this command."})

    def __post_init__(self) -> None:
        two_files = self.format in ("lines", "joined")
        if not two_files and self.target_files is not None:
            raise ValueError(f"`target_files` is not read with format={self.format!r}: one file has both sides there.")
        if two_files and self.monolingual != (self.target_files is None):
            raise ValueError(
                f"format={self.format!r} needs `target_files`, or `--monolingual` for documents without translation; "
                f"got target_files={self.target_files} and monolingual={self.monolingual}."
            )
        if self.format != "records" and self.source_lang is None:
            raise ValueError(f"`source_lang` is needed for format={self.format!r}, such as `--source_lang en`.")
        if self.format != "records" and self.target_lang is None and not self.monolingual:
            raise ValueError(f"`target_lang` is needed for format={self.format!r}, such as `--target_lang de`.")
        needs_boundary_files = self.format == "lines" and self.boundaries in BOUNDARIES_WITH_FILE
        if needs_boundary_files != (self.boundary_files is not None):
            raise ValueError(
                f"`boundary_files` (`--id_file`) goes with `--format lines` and boundaries {BOUNDARIES_WITH_FILE}, "
                f"got format={self.format!r}, boundaries={self.boundaries!r} and boundary_files={self.boundary_files}."
            )
        for name in ("target_files", "boundary_files"):
            files = getattr(self, name)
            if files is not None and len(files) != len(self.source_files):
                raise ValueError(
                    f"`{name}` must have one file for each of `source_files`, got {len(files)} for "
                    f"{len(self.source_files)}."
                )

    @property
    def input_files(self) -> list[str]:
        return [*self.source_files, *(self.target_files or []), *(self.boundary_files or [])]


def read_corpus(arguments: CorpusArguments, on_problem: Callable[[str], None] | None = None) -> Iterator[Record]:
    """Yield the checked, unfiltered documents of all input files, with their languages."""
    known = {"src_lang": arguments.source_lang, "tgt_lang": arguments.target_lang}
    for position, path in enumerate(arguments.source_files):
        for record in _read_file(arguments, position, on_problem):
            languages = {key: value for key, value in known.items() if value is not None and key not in record}
            yield validate_record({**record, **languages}, path, require_target=False)


def _read_file(
    arguments: CorpusArguments, position: int, on_problem: Callable[[str], None] | None
) -> Iterator[Record]:
    path = arguments.source_files[position]
    target = arguments.target_files[position] if arguments.target_files else None
    encodings = {
        "source_encoding": arguments.encoding,
        "target_encoding": arguments.target_encoding or arguments.encoding,
    }
    languages = {"source_lang": arguments.source_lang or "", "target_lang": arguments.target_lang or ""}
    if arguments.format == "lines":
        return read_line_documents(
            path,
            target,
            boundaries=arguments.boundaries,
            boundary_file=arguments.boundary_files[position] if arguments.boundary_files else None,
            boundary_marker=arguments.boundary_marker,
            id_key=arguments.id_key,
            **encodings,
        )
    if arguments.format == "joined":
        return read_joined_documents(path, target, separator=arguments.separator, on_problem=on_problem, **encodings)
    if arguments.format == "wmt-xml":
        return read_wmt_documents(
            path,
            source_lang=arguments.source_lang,
            target_lang=arguments.target_lang,
            reference=arguments.reference,
            on_problem=on_problem,
        )
    if arguments.format == "tmx":
        return read_tmx_documents(path, document_property=arguments.document_property, **languages)
    if arguments.format == "opus":
        return read_opus_documents(path, root=arguments.opus_root, on_problem=on_problem, **languages)
    if arguments.format == "translations":
        return read_translation_documents(path, id_key=arguments.id_key, **languages)
    return read_documents(
        path,
        source_column=arguments.source_column,
        target_column=arguments.target_column,
        id_column=arguments.id_column,
        require_target=not arguments.monolingual,
        on_problem=on_problem,
    )


def prepare_corpus(arguments: CorpusArguments, command: list[str] | None = None) -> dict[str, Any]:
    """
    Write the corpus folder.

    Args:
        arguments (`CorpusArguments`):
            What to read and how.
        command (`list[str]`, *optional*):
            Arguments to record in `info.json` instead of those of this process.

    Returns:
        `dict`: the content of `info.json`.

    Raises:
        `ValueError`: at the first fault of the input, if all documents were dropped, or if `output_dir` is in the way.
            `output_dir` is then as it was.
    """
    output = Path(arguments.output_dir)
    _refuse_foreign_output(output, arguments.overwrite)
    corpus_filter = _corpus_filter(arguments)
    messages: list[str] = []
    skipped = 0

    def note(message: str) -> None:
        nonlocal skipped
        skipped += 1
        if len(messages) < MESSAGES_KEPT:
            messages.append(message)
            logger.warning(message)

    output.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}."))
    try:
        folder = work / "corpus"
        records = read_corpus(arguments, note if arguments.on_error == "skip" else None)
        write_documents(folder / JSONL_NAME, _kept(records, corpus_filter, arguments.monolingual))
        # documents that a reader refused never reached the filter
        corpus_filter.counts["documents_in"] += skipped
        corpus_filter.dropped_documents["faulty"] += skipped
        info = {
            "command": command_line(command),
            **commit_info(),
            "versions": package_versions(),
            **corpus_filter.report(),
            "messages": [_without_folders(message, arguments.input_files) for message in messages],
            "inputs": sha256_of_files(file for file in arguments.input_files if Path(file).is_file()),
        }
        if not corpus_filter.counts["documents_out"]:
            raise ValueError(
                f"no document is left of {corpus_filter.counts['documents_in']}: {info['dropped_documents']}. Check "
                f"`format`, `boundaries` and the limits. First message: {(messages or ['none'])[0]}"
            )
        source_languages, target_languages = _write_arrow(folder, work / "cache", monolingual=arguments.monolingual)
        info["outputs"] = {file.name: sha256_of_file(file) for file in sorted(folder.iterdir())}
        write_json_atomic(folder / INFO_NAME, info)
        card = corpus_card(
            output.resolve().name,
            info,
            documents=JSONL_NAME,
            source_languages=source_languages,
            target_languages=target_languages,
            license=arguments.license,
        )
        write_text_atomic(folder / CARD_NAME, card)
        _move_into_place(folder, output, work / "replaced")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return info


def _without_folders(message: str, files: list[str]) -> str:
    # what is published should not tell where files lie on this machine
    for file in files:
        message = message.replace(file, portable_path(file))
    return message


def _refuse_foreign_output(output: Path, overwrite: bool) -> None:
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not overwrite:
        raise ValueError(f"`output_dir` {output} exists. Name another one, or replace it with `--overwrite`.")
    if not (output / INFO_NAME).is_file() or not (output / JSONL_NAME).is_file():
        raise ValueError(
            f"`output_dir` {output} is not a folder of this command ({INFO_NAME} and {JSONL_NAME} are not both in "
            "it), so it is not replaced. Name another one."
        )


def _corpus_filter(arguments: CorpusArguments) -> CorpusFilter:
    return CorpusFilter(
        max_sentence_words=arguments.max_sentence_words,
        max_sentence_characters=arguments.max_sentence_characters,
        max_length_ratio=arguments.max_length_ratio,
        drop_identical_pairs=arguments.drop_identical_pairs,
        faulty_pairs=arguments.faulty_pairs,
        min_sentences=arguments.min_sentences,
        max_sentences=arguments.max_sentences,
        normalize_text=arguments.normalize_text,
        drop_duplicates=arguments.drop_duplicates,
        exclude_ids=tuple(arguments.exclude_ids or ()),
        parallel=not arguments.monolingual,
    )


def _kept(records: Iterator[Record], corpus_filter: CorpusFilter, monolingual: bool) -> Iterator[Record]:
    # `disable=None` shows the bar on a terminal only
    for record in tqdm(records, desc="documents", unit=" documents", disable=None):
        if monolingual:
            record = {key: value for key, value in record.items() if key not in ("tgt", "tgt_lang", "alt")}
        kept = corpus_filter.apply(record)
        if kept is not None:
            yield kept


def _write_arrow(folder: Path, cache_dir: Path, *, monolingual: bool) -> tuple[list[str], list[str]]:
    """Write the documents as a table; returns the source and the target languages in it."""
    # the fingerprint goes into the files; from the content, it is the same in each run
    documents = folder / JSONL_NAME
    table = dataset_from_documents(
        [str(documents)],
        cache_dir=str(cache_dir),
        fingerprint=sha256_of_file(documents)[:16],
        require_target=not monolingual,
    )
    table.save_to_disk(str(folder))
    source, target = (
        sorted(filter(None, table.unique(column))) if column in table.column_names else []
        for column in ("src_lang", "tgt_lang")
    )
    return source, target


def _move_into_place(folder: Path, output: Path, replaced: Path) -> None:
    if output.exists():
        os.rename(output, replaced)
    try:
        os.rename(folder, output)
    except OSError:
        if replaced.exists():
            os.rename(replaced, output)
        raise


def main(command: list[str] | None = None) -> None:
    parser = make_parser(CorpusArguments, __doc__)
    try:
        (arguments,) = parser.parse_args_into_dataclasses(args=command)
        info = prepare_corpus(arguments, command)
    except ValueError as error:
        sys.exit(f"prepare_corpus: {error}")
    counts = info["counts"]
    for name, unit in (("dropped_documents", "documents_in"), ("faulty_pairs", "sentences_in")):
        for reason, dropped in info[name].items():
            what = name.replace("_", " ")
            print(f"{what}: {dropped['count']:,} of {counts[unit]:,} ({dropped['share']:.2%}): {reason}")
    print(
        f"{arguments.output_dir}: {counts['documents_out']:,} of {counts['documents_in']:,} documents, "
        f"{counts['sentences_out']:,} of {counts['sentences_in']:,} sentences"
    )


if __name__ == "__main__":
    main()
