"""
Documents as records, the one form of data that training, translation and evaluation read.

    {"id": "ted-1742", "src_lang": "en", "tgt_lang": "de", "src": ["One.", "Two."], "tgt": ["Eins.", "Zwei."]}

Sentence i of `tgt` translates sentence i of `src`. `tgt` is missing in documents that are only to be translated.
Further keys are kept; `para`, `score` (lists) and `alt` (lists by name: further references) have one entry for each
sentence.
"""

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import datasets
import pyarrow.parquet as pq

from training.corpus_lines import read_lines


# of a folder of `prepare_corpus`, the file with the documents
JSONL_NAME = "documents.jsonl.gz"
Record = dict[str, Any]

CORE_FEATURES = {
    "id": datasets.Value("string"),
    "src_lang": datasets.Value("string"),
    "tgt_lang": datasets.Value("string"),
    "src": datasets.List(datasets.Value("string")),
    "tgt": datasets.List(datasets.Value("string")),
}
PER_SENTENCE_KEYS = ("para", "score", "alt")


def corpus_features(extra: dict[str, Any] | None = None, *, has_target: bool = True) -> datasets.Features:
    """
    Columns of a corpus: those of `CORE_FEATURES`, without `tgt` if there is none, then `extra` ones, sorted by name.
    """
    core = {name: feature for name, feature in CORE_FEATURES.items() if has_target or name != "tgt"}
    return datasets.Features({**core, **dict(sorted((extra or {}).items()))})


def validate_record(record: Any, where: str, *, require_target: bool = True) -> Record:
    """
    Check one document and return it with its keys in the usual order.

    Args:
        record (`dict`):
            The document; `id` may be an integer, `src_lang` and `tgt_lang` may be missing.
        where (`str`):
            Place for the error message, such as `"train.jsonl:17"`.
        require_target (`bool`, *optional*, defaults to `True`):
            Whether a document without `tgt` is an error.

    Returns:
        `dict`: a new record with `id`, the languages that are known, `src`, `tgt` if present, and all further keys.

    Raises:
        `ValueError`: naming `where`, the document, what is wrong, and what to do.
    """
    if not isinstance(record, dict):
        raise ValueError(f"{where}: a document must be a JSON object, got {type(record).__name__}.")
    name = record.get("id")
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise ValueError(f"{where}: `id` must be a text or a whole number, got {name!r}.")
    where = f"{where}: document {str(name)!r}"
    checked: Record = {"id": str(name)}
    for key in ("src_lang", "tgt_lang"):
        if record.get(key) is not None:
            if not isinstance(record[key], str):
                raise ValueError(f"{where}: `{key}` must be a language code such as 'en', got {record[key]!r}.")
            checked[key] = record[key]
    checked["src"] = _checked_sentences(record.get("src"), f"{where}: `src`")
    if record.get("tgt") is not None:
        checked["tgt"] = _checked_sentences(record["tgt"], f"{where}: `tgt`")
        if len(checked["src"]) != len(checked["tgt"]):
            raise ValueError(
                f"{where} has {len(checked['src'])} source sentences and {len(checked['tgt'])} target sentences, but "
                "sentence i must translate sentence i. Realign it, or leave such documents out with "
                "`prepare_corpus --on_error skip`."
            )
    elif require_target:
        raise ValueError(
            f"{where} has no `tgt`. Add its translation, or name the column that holds it (`target_column`)."
        )
    _check_text(checked["id"], f"{where}: `id`")
    for key, value in record.items():
        if key not in CORE_FEATURES and value is not None:
            checked[key] = value
    _check_per_sentence_keys(checked, where)
    return checked


def _checked_sentences(sentences: Any, where: str) -> list[str]:
    if not isinstance(sentences, list | tuple):
        raise ValueError(
            f"{where} must be a list of sentences, got {type(sentences).__name__}. Split a text into sentences first, "
            "or name the column that holds the list (`source_column`, `target_column`)."
        )
    for position, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise ValueError(f"{where}[{position}] must be a text, got {sentence!r}.")
        _check_text(sentence, f"{where}[{position}]")
    return list(sentences)


def _check_text(text: str, where: str) -> None:
    # JSON can spell half of a surrogate pair, "\ud83d", which no UTF-8 file and no Arrow table can hold
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where} has half a surrogate pair, {text[error.start]!r}, at character {error.start}. Replace it by "
            "U+FFFD or write the whole character."
        ) from error


def _check_per_sentence_keys(record: Record, where: str) -> None:
    if "alt" in record and not isinstance(record["alt"], dict):
        raise ValueError(f"{where}: `alt` must hold further references by name, such as {{'B': [...]}}.")
    for name, sentences in record.get("alt", {}).items():
        _checked_sentences(sentences, f"{where}: `alt[{name!r}]`")
    for key in PER_SENTENCE_KEYS:
        value = record.get(key)
        for name, entries in value.items() if isinstance(value, dict) else [(None, value)]:
            if isinstance(entries, list) and len(entries) != len(record["src"]):
                label = key if name is None else f"{key}[{name!r}]"
                raise ValueError(
                    f"{where}: `{label}` has {len(entries)} entries for {len(record['src'])} sentences. It needs one "
                    "for each sentence; correct it or remove the key."
                )


def read_documents(
    paths: str | Path | Iterable[str | Path],
    *,
    source_column: str = "src",
    target_column: str = "tgt",
    id_column: str = "id",
    require_target: bool = True,
    on_problem: Callable[[str], None] | None = None,
) -> Iterator[Record]:
    """
    Yield the checked documents of one or more files, in order, holding one at a time in memory.

    Args:
        paths (`str`, `Path` or an iterable of them):
            JSON Lines (gzip or not), `.parquet`, or a folder written by `prepare_corpus` or `save_to_disk`.
        source_column, target_column, id_column (`str`, *optional*, default to `"src"`, `"tgt"`, `"id"`):
            Names of the keys in the files; they are `src`, `tgt` and `id` in what is yielded. A document without id
            gets one from file name and line, such as `"train:17"`.
        require_target (`bool`, *optional*, defaults to `True`):
            `False` lets documents without translation pass; they have no key `tgt` then.
        on_problem (`Callable[[str], None]`, *optional*):
            Receives the message of a faulty document, which is then left out. `None` raises it.

    Raises:
        `ValueError`: at the first faulty document, naming file, line, document, what is wrong and what to do.
    """
    columns = {source_column: "src", target_column: "tgt", id_column: "id"}
    for path in _as_paths(paths):
        number = 0
        for number, raw in _raw_records(path):
            where = f"{path}:{number}"
            try:
                record = _parsed(raw, where) if isinstance(raw, str) else raw
                if isinstance(record, dict):
                    renamed = {columns[key]: value for key, value in record.items() if key in columns}
                    # "src" beside a column that was named instead of it is not the source
                    others = {k: v for k, v in record.items() if k not in columns and k not in columns.values()}
                    record = {"id": f"{_stem(path)}:{number}", **renamed, **others}
                    _refuse_missing_source(record, where, source_column)
                checked = validate_record(record, where, require_target=require_target)
            except ValueError as error:
                if on_problem is None:
                    raise
                on_problem(str(error))
                continue
            yield checked


def _as_paths(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    if isinstance(paths, str | Path):
        return [Path(paths)]
    return [Path(path) for path in paths]


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json").removesuffix(".parquet")


def _raw_records(path: Path) -> Iterator[tuple[int, str | Record]]:
    """Yield (line or row number from 1, JSON text or record)."""
    if path.is_dir():
        for number, row in enumerate(_load_folder(path), start=1):
            yield number, {key: value for key, value in row.items() if value is not None}
    elif path.suffix == ".parquet":
        number = 0
        for batch in pq.ParquetFile(path).iter_batches(batch_size=256):
            for row in batch.to_pylist():
                number += 1
                yield number, {key: value for key, value in row.items() if value is not None}
    else:
        for number, line in read_lines(path):
            if line.strip():
                yield number, line


def _parsed(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where}: not a JSON document ({error.msg} at character {error.pos}): {line[:40]!r}. Documents are read "
            "one JSON object a line; turn other formats into it with `python -m training.prepare_corpus`."
        ) from error


def _refuse_missing_source(record: Record, where: str, source_column: str) -> None:
    if "src" not in record:
        raise ValueError(
            f"{where}: document {record['id']!r} has no `{source_column}`, only {sorted(set(record) - {'id'})}. Name "
            "the column of the source sentences (`source_column`)."
        )


def load_corpus(
    paths: str | Path | Iterable[str | Path],
    *,
    source_column: str = "src",
    target_column: str = "tgt",
    id_column: str = "id",
    require_target: bool = True,
    streaming: bool = False,
) -> datasets.Dataset | datasets.IterableDataset:
    """
    Load documents as a `datasets` table with the columns `id`, `src_lang`, `tgt_lang`, `src`, `tgt` and further ones.

    Every document is checked as in `read_documents`. The table lies in files that are mapped into memory, so its size
    does not matter; a folder of `prepare_corpus` is used where it is, other files are converted once into the cache
    of `datasets`, and again when their size or date changes.

    Args:
        paths (`str`, `Path` or an iterable of them):
            As in `read_documents`. Several are put one after another.
        source_column, target_column, id_column, require_target:
            As in `read_documents`.
        streaming (`bool`, *optional*, defaults to `False`):
            Read the files anew in each pass instead, without a copy on the disk. Only the five named columns are kept
            then, since the others are not known in advance.

    Returns:
        `datasets.Dataset`, or `datasets.IterableDataset` with as many shards as files if `streaming`. A column `tgt`
        is there unless no document has a target; languages that are not known are `None`. Of the further columns,
        texts are `Value("string")` and all else is `Json()`.

    Raises:
        `ValueError`: as in `read_documents`.
    """
    files = [str(path) for path in _as_paths(paths)]
    options: dict[str, Any] = {
        "source_column": source_column,
        "target_column": target_column,
        "id_column": id_column,
        "require_target": require_target,
    }
    if streaming:
        features = corpus_features(has_target=require_target or _has_target(files, options))
        return datasets.IterableDataset.from_generator(
            _core_rows, features=features, gen_kwargs={"files": files, "options": options}
        )
    standard_columns = (source_column, target_column, id_column) == ("src", "tgt", "id")
    if len(files) == 1 and Path(files[0]).is_dir() and standard_columns:
        table = _load_folder(Path(files[0]))
        _check_table(table, files[0], require_target)
        return table
    return dataset_from_documents(files, **options)


def dataset_from_documents(
    files: list[str], *, cache_dir: str | None = None, fingerprint: str | None = None, **options: Any
) -> datasets.Dataset:
    """
    Convert documents into an Arrow table: one pass to learn the further columns, one to write.

    Args:
        files (`list[str]`):
            As `paths` of `read_documents`, whose other arguments are `options`.
        cache_dir (`str`, *optional*):
            Folder for the table, by default the cache of `datasets`.
        fingerprint (`str`, *optional*):
            Name of the content, by default from names, sizes and dates of the files.
    """
    extra: dict[str, Any] = {}
    has_target = False
    for record in read_documents(files, **options):
        has_target |= "tgt" in record
        for key in record.keys() - CORE_FEATURES.keys():
            is_text = isinstance(record[key], str) and extra.get(key) != datasets.Json()
            extra[key] = datasets.Value("string") if is_text else datasets.Json()
    features = corpus_features(extra, has_target=has_target or options.get("require_target", True))
    stats = [(Path(file).stat().st_size, Path(file).stat().st_mtime_ns) for file in files]
    return datasets.Dataset.from_generator(
        _rows,
        features=features,
        cache_dir=cache_dir,
        fingerprint=fingerprint,
        # the dates are not used, but make the cache key change when a file does
        gen_kwargs={
            "files": tuple(files),
            "stats": tuple(stats),
            "options": options,
            "json_columns": tuple(sorted(key for key, feature in extra.items() if feature == datasets.Json())),
        },
    )


def _rows(
    files: Iterable[str], stats: Any, options: dict[str, Any], json_columns: tuple[str, ...]
) -> Iterator[Record]:
    for record in read_documents(files, **options):
        # `Json` takes a text for ready-made JSON, so "7" would come back as a number: hand it over as JSON
        yield {key: json.dumps(value) if key in json_columns else value for key, value in record.items()}


def _core_rows(files: Iterable[str], options: dict[str, Any]) -> Iterator[Record]:
    for record in read_documents(files, **options):
        yield {key: record.get(key) for key in CORE_FEATURES if key in record or key != "tgt"}


def _has_target(files: list[str], options: dict[str, Any]) -> bool:
    first = next(read_documents(files, **options), None)
    return first is not None and "tgt" in first


def _load_folder(path: Path) -> datasets.Dataset:
    try:
        table = datasets.load_from_disk(str(path))
    except FileNotFoundError as error:
        raise ValueError(
            f"{path}: not a folder of `save_to_disk`. Make one with `python -m training.prepare_corpus`, or name the "
            "JSON Lines files in it."
        ) from error
    if isinstance(table, datasets.DatasetDict):
        raise ValueError(f"{path}: holds the splits {sorted(table)}. Name the folder of one, such as {path}/train.")
    return table


def _check_table(table: datasets.Dataset, where: str, require_target: bool) -> None:
    # the lengths are compared in Arrow; reading 25 million sentences into Python to count them would take minutes
    needed = ("id", "src", "tgt") if require_target else ("id", "src")
    for column in needed:
        if column not in table.column_names:
            raise ValueError(
                f"{where}: there is no column {column!r}, only {table.column_names}. Name the columns that hold the "
                "sentences (`source_column`, `target_column`)."
            )
    if "tgt" not in table.column_names:
        return
    row = 0
    for batch in table.select_columns(["src", "tgt"]).with_format("arrow").iter(batch_size=10_000):
        sources, targets = (batch[column].combine_chunks() for column in ("src", "tgt"))
        lengths = (sources.value_lengths().to_pylist(), targets.value_lengths().to_pylist())
        for source_length, target_length in zip(*lengths, strict=True):
            if source_length != target_length and (require_target or target_length is not None):
                validate_record(table[row], f"{where}: row {row + 1}", require_target=require_target)
            row += 1


def write_documents(path: str | Path, records: Iterable[Record]) -> int:
    """
    Write documents as JSON Lines, packed if the name ends in `.gz`, and return their number.

    The file appears under its name when it is whole, and the same documents always give the same bytes.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    count = 0
    try:
        with open(handle, "wb") as file:
            output: IO[bytes] | gzip.GzipFile = file
            if path.suffix == ".gz":
                # name and date in the gzip header would make the bytes differ from run to run
                output = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)
            for record in records:
                output.write(json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n")
                count += 1
            if output is not file:
                output.close()
        # mkstemp makes files that only their owner can read
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return count


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
