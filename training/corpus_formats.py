"""
Documents from parallel text files, one sentence or one document a line, and from JSON with a pair a line.

| function | boundary between documents |
| --- | --- |
| `read_line_documents(boundaries="blank")` | an empty line in both files |
| `read_line_documents(boundaries="marker")` | a line such as `<d>` in both files |
| `read_line_documents(boundaries="ids")` | a third file has the document of each line |
| `read_line_documents(boundaries="offsets")` | a third file has the numbers of the first lines |
| `read_line_documents(boundaries="counts")` | a third file has the numbers of sentences |
| `read_line_documents(boundaries="none")` | none: a file is a document |
| `read_joined_documents` | the line end; sentences are joined by `</s>` or the like |
| `read_translation_documents` | a key beside `"translation"` changes; without one, each pair is a document |

Nothing is guessed and nothing left out: a faulty line is an error that names it, and a pair with an empty side is
handed on. All readers are generators that hold one document at a time. XML formats are in `corpus_xml.py`.
"""

import json
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from training.corpus_lines import read_lines
from training.documents import Record


Boundaries = Literal["blank", "marker", "ids", "offsets", "counts", "none"]
BOUNDARIES_WITH_FILE = ("ids", "offsets", "counts")


class LinePair(NamedTuple):
    """One line of the source file and the same line of the target file, without surrounding blanks."""

    number: int
    source: str
    target: str | None


def read_line_pairs(
    source_path: str | Path,
    target_path: str | Path | None,
    *,
    source_encoding: str = "utf-8",
    target_encoding: str = "utf-8",
) -> Iterator[LinePair]:
    """
    Read two files side by side, or one alone if there is no `target_path`.

    Raises:
        `ValueError`: with both counts, at the end of the shorter file if the other one goes on.
    """
    sources = read_lines(source_path, source_encoding)
    if target_path is None:
        for number, source in sources:
            yield LinePair(number, source.strip(), None)
        return
    targets = read_lines(target_path, target_encoding)
    number = 0
    for source_line, target_line in zip_longest(sources, targets):
        if source_line is None or target_line is None:
            longer = 1 + sum(1 for _ in (targets if source_line is None else sources)) + number
            counts = (number, longer) if source_line is None else (longer, number)
            raise ValueError(
                f"{source_path} has {counts[0]} lines and {target_path} has {counts[1]}, but line i must translate "
                "line i. Compare the ends of the files and realign them; lines are counted by line feeds alone."
            )
        number = source_line[0]
        yield LinePair(number, source_line[1].strip(), target_line[1].strip())


def read_line_documents(
    source_path: str | Path,
    target_path: str | Path | None = None,
    *,
    boundaries: Boundaries = "blank",
    boundary_file: str | Path | None = None,
    boundary_marker: str = "<d>",
    id_key: str | None = None,
    source_encoding: str = "utf-8",
    target_encoding: str = "utf-8",
) -> Iterator[Record]:
    """
    Read documents from files with one sentence a line.

    Args:
        source_path (`str` or `Path`):
            Source sentences.
        target_path (`str` or `Path`, *optional*):
            Their translations, line by line. Without it the documents have no `tgt`.
        boundaries (`str`, *optional*, defaults to `"blank"`):
            How a new document is told, see the table above. With `"blank"`, a line that is empty on one side only is
            no boundary but a sentence without translation; with all others, so is a line that is empty on both.
        boundary_file (`str` or `Path`, *optional*):
            Needed for `"ids"` (one id a line; of several columns with tabs between them, the last one), `"offsets"`
            (the first line of each document, one number a line, counted from 0 or from 1, which the first number
            tells) and `"counts"` (the sentences of each document, one number a line).
        boundary_marker (`str`, *optional*, defaults to `"<d>"`):
            The whole line that opens a document with `"marker"`.
        id_key (`str`, *optional*):
            Set it when the id file has one JSON object a line: the key of the id, such as `"docid"`.
        source_encoding, target_encoding (`str`, *optional*, default to `"utf-8"`):
            Encodings of the two files, such as `"latin-1"`.

    Returns:
        iterator over `{"id", "src", "tgt"}`. The id is that of the id file, else file name and running number.

    Raises:
        `ValueError`: naming file and line of the first fault.
    """
    if boundaries in BOUNDARIES_WITH_FILE and boundary_file is None:
        raise ValueError(f"`boundary_file` is needed for boundaries={boundaries!r}.")
    if boundaries not in BOUNDARIES_WITH_FILE and boundary_file is not None:
        raise ValueError(
            f"`boundary_file` is not read with boundaries={boundaries!r}. Leave it out, or choose one of "
            f"{BOUNDARIES_WITH_FILE}."
        )
    pairs = read_line_pairs(source_path, target_path, source_encoding=source_encoding, target_encoding=target_encoding)
    if boundaries == "blank":
        starts = _starts_at_blank_lines(pairs)
    elif boundaries == "marker":
        starts = _starts_at_markers(pairs, boundary_marker, source_path, target_path)
    elif boundaries == "none":
        starts = ((pair.number == 1, None, pair) for pair in pairs)
    elif boundaries == "ids":
        starts = _starts_at_new_ids(pairs, source_path, _required(boundary_file), id_key)
    elif boundaries == "offsets":
        starts = _starts_at_lines(pairs, _offsets(_required(boundary_file)), source_path)
    elif boundaries == "counts":
        starts = _starts_at_lines(pairs, _sums(_required(boundary_file)), source_path, ends_at_last=True)
    else:
        raise ValueError(
            f"`boundaries` must be one of 'blank', 'marker', 'ids', 'offsets', 'counts', 'none', got {boundaries!r}."
        )
    return _grouped(starts, file_stem(source_path), has_target=target_path is not None)


# (whether a document starts here, its id if known, the sentences)
_Starts = Iterator[tuple[bool, str | None, LinePair]]


def _required(path: str | Path | None) -> Path:
    if path is None:
        raise ValueError("`boundary_file` is needed.")
    return Path(path)


def file_stem(path: str | Path) -> str:
    """Return the name of a file without `.gz` and then `.txt`, the start of ids for its documents."""
    return Path(path).name.removesuffix(".gz").removesuffix(".txt")


def _grouped(starts: _Starts, stem: str, *, has_target: bool) -> Iterator[Record]:
    record: Record | None = None
    count = 0
    for is_start, name, pair in starts:
        if is_start or record is None:
            if record is not None:
                yield record
            count += 1
            record = {"id": name if name is not None else f"{stem}:{count}", "src": []}
            if has_target:
                record["tgt"] = []
        record["src"].append(pair.source)
        if has_target:
            record["tgt"].append(pair.target)
    if record is not None:
        yield record


def _starts_at_blank_lines(pairs: Iterator[LinePair]) -> _Starts:
    is_start = True
    for pair in pairs:
        if not pair.source and not pair.target:
            is_start = True
            continue
        yield is_start, None, pair
        is_start = False


def _starts_at_markers(
    pairs: Iterator[LinePair], marker: str, source_path: str | Path, target_path: str | Path | None
) -> _Starts:
    is_start = True
    for pair in pairs:
        in_source, in_target = pair.source == marker, pair.target == marker
        if pair.target is not None and in_source != in_target:
            has, lacks = (source_path, target_path) if in_source else (target_path, source_path)
            raise ValueError(
                f"{has}:{pair.number}: a document starts here ({marker!r}), but not in {lacks}. A line is missing or "
                "too many in one of them, at or before this one; realign the files."
            )
        if in_source:
            is_start = True
            continue
        yield is_start, None, pair
        is_start = False


def _starts_at_new_ids(
    pairs: Iterator[LinePair], source_path: str | Path, id_path: Path, id_key: str | None
) -> _Starts:
    seen: set[str] = set()
    previous: str | None = None
    number = 0
    for pair, line in zip_longest(pairs, read_lines(id_path)):
        if pair is None or line is None:
            shorter, longer = (source_path, id_path) if pair is None else (id_path, source_path)
            raise ValueError(
                f"{shorter} ends after line {number}, but {longer} goes on. The id file must have one line for each "
                "sentence."
            )
        number = line[0]
        name = _document_id(line[1], f"{id_path}:{number}", id_key)
        if not name:
            if pair.source or pair.target:
                raise ValueError(
                    f"{id_path}:{number}: no document id for the sentence {pair.source[:40]!r}. Add it, or empty the "
                    "line in all files if it only separates documents."
                )
            continue
        if name != previous and name in seen:
            raise ValueError(
                f"{id_path}:{number}: document {name!r} goes on here after lines of document {previous!r}. Sort the "
                "files by document (`paste`, then `sort --stable`), or give the two stretches different ids."
            )
        yield name != previous, name, pair
        seen.add(name)
        previous = name


def _document_id(line: str, where: str, id_key: str | None) -> str:
    if id_key is None:
        return line.split("\t")[-1].strip()
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where}: not a JSON object ({error.msg}). Leave `id_key` out for a file of plain ids."
        ) from error
    if not isinstance(fields, dict) or id_key not in fields:
        raise ValueError(f"{where}: there is no key {id_key!r} in {line[:60]!r}. Name the key of the id (`id_key`).")
    return str(fields[id_key]).strip()


def _numbers(path: Path) -> Iterator[tuple[int, int]]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        if not line.strip().isdecimal():
            raise ValueError(f"{path}:{number}: must be one whole number a line, got {line[:40]!r}.")
        yield number, int(line)


def _offsets(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (place, line number from 1 of the first sentence)."""
    base: int | None = None
    previous = 0
    for number, offset in _numbers(path):
        if base is None:
            base = offset
            if base not in (0, 1):
                raise ValueError(
                    f"{path}:{number}: the first document must start at line 0 or 1 (which tells how lines are "
                    f"counted), got {offset}. Is this a file of sentence counts (`boundaries='counts'`)?"
                )
        line = offset - base + 1
        if line <= previous:
            raise ValueError(
                f"{path}:{number}: document starts must rise from line to line, got {offset} after "
                f"{previous + base - 1}. Remove documents without sentences and sort the rest."
            )
        yield f"{path}:{number}", line
        previous = line


def _sums(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (place, line number from 1 of the first sentence), and at the end where a next document would start."""
    start = 1
    where = str(path)
    for number, count in _numbers(path):
        where = f"{path}:{number}"
        if count:
            yield where, start
        start += count
    yield where, start


def _starts_at_lines(
    pairs: Iterator[LinePair], starts: Iterator[tuple[str, int]], source_path: str | Path, ends_at_last: bool = False
) -> _Starts:
    upcoming = next(starts, None)
    number = 0
    for pair in pairs:
        number = pair.number
        is_start = upcoming is not None and upcoming[1] == number
        if upcoming is not None and is_start:
            where, upcoming = upcoming[0], next(starts, None)
            if upcoming is None and ends_at_last:
                raise ValueError(
                    f"{source_path}:{number}: there is no document for this line; the counts end with {where}. Is a "
                    "count missing?"
                )
        yield is_start, None, pair
    # with counts, the last start is the line after the last sentence
    if upcoming is not None and not (ends_at_last and upcoming[1] == number + 1):
        raise ValueError(
            f"{upcoming[0]}: a document reaches line {upcoming[1] - ends_at_last}, but {source_path} has {number} "
            "lines. Do the files belong together?"
        )


def read_joined_documents(
    source_path: str | Path,
    target_path: str | Path | None = None,
    *,
    separator: str = "</s>",
    source_encoding: str = "utf-8",
    target_encoding: str = "utf-8",
    on_problem: Callable[[str], None] | None = None,
) -> Iterator[Record]:
    """
    Read documents from files with one document a line, its sentences joined by a separator.

    A separator after the last sentence closes it and opens no further one, `<s>` at the start of a sentence is
    dropped when the separator is `</s>`, and lines that are empty on both sides are no documents.

    Args:
        source_path (`str` or `Path`), target_path (`str` or `Path`, *optional*):
            The two sides; without a target the documents have no `tgt`.
        separator (`str`, *optional*, defaults to `"</s>"`):
            What stands between two sentences; `"_eos"` and `"<SEP>"` are others in use.
        source_encoding, target_encoding (`str`, *optional*, default to `"utf-8"`):
            Encodings of the two files.
        on_problem (`Callable[[str], None]`, *optional*):
            Receives the message of a faulty document, which is then left out. `None` raises it.

    Raises:
        `ValueError`: naming the line of the first document with different numbers of sentences on its two sides.
    """
    if not separator.strip():
        raise ValueError(f"`separator` must be a mark such as '</s>', got {separator!r}.")
    for pair in read_line_pairs(
        source_path, target_path, source_encoding=source_encoding, target_encoding=target_encoding
    ):
        if not pair.source and not pair.target:
            continue
        record: Record = {
            "id": f"{file_stem(source_path)}:{pair.number}",
            "src": _split_joined(pair.source, separator),
        }
        if pair.target is not None:
            record["tgt"] = _split_joined(pair.target, separator)
            if len(record["src"]) != len(record["tgt"]):
                message = (
                    f"{source_path}:{pair.number}: {len(record['src'])} sentences between {separator!r}, but "
                    f"{len(record['tgt'])} in line {pair.number} of {target_path}. Realign the document, or leave "
                    "such documents out with `--on_error skip`."
                )
                if on_problem is None:
                    raise ValueError(message)
                on_problem(message)
                continue
        yield record


def _split_joined(line: str, separator: str) -> list[str]:
    sentences = line.strip().removesuffix(separator).split(separator)
    if separator == "</s>":
        sentences = [sentence.strip().removeprefix("<s>") for sentence in sentences]
    return [sentence.strip() for sentence in sentences]


def read_translation_documents(
    path: str | Path, *, source_lang: str, target_lang: str, id_key: str | None = None
) -> Iterator[Record]:
    """
    Read pairs as `run_translation.py` of Transformers does, `{"translation": {"en": "One.", "de": "Eins."}}` a line.

    Args:
        path (`str` or `Path`):
            JSON Lines, gzip or not. Keys beside `"translation"` and further languages are not read.
        source_lang, target_lang (`str`):
            Keys of the two sides.
        id_key (`str`, *optional*):
            A key beside `"translation"` whose value is the document of the pair, such as `"doc_id"`: neighbouring
            pairs with the same value are a document. Without it, each pair is a document of one sentence.

    Returns:
        iterator over `{"id", "src", "tgt"}`; the id is that of `id_key`, else file name and running number.

    Raises:
        `ValueError`: naming file and line of the first fault: no JSON, a missing key, a document in two places.
    """
    starts = _starts_of_translations(Path(path), source_lang, target_lang, id_key)
    return _grouped(starts, file_stem(path).removesuffix(".jsonl").removesuffix(".json"), has_target=True)


def _starts_of_translations(path: Path, source_lang: str, target_lang: str, id_key: str | None) -> _Starts:
    seen: set[str] = set()
    previous: str | None = None
    for number, line in read_lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        pair = LinePair(number, *_translation(line, where, source_lang, target_lang))
        if id_key is None:
            yield True, None, pair
            continue
        name = _document_id(line, where, id_key)
        if name != previous and name in seen:
            raise ValueError(
                f"{where}: document {name!r} goes on here after pairs of document {previous!r}. Sort the file by "
                f"document, keeping the order of sentences, or give the two stretches different values of {id_key!r}."
            )
        yield name != previous, name, pair
        seen.add(name)
        previous = name


def _translation(line: str, where: str, source_lang: str, target_lang: str) -> tuple[str, str]:
    """Both sides of a pair, without surrounding blanks."""
    try:
        pair = json.loads(line)["translation"]
        sides = [pair[language] for language in (source_lang, target_lang)]
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where}: not a JSON object ({error.msg}). Each line must be one, as "
            f'{{"translation": {{"{source_lang}": "...", "{target_lang}": "..."}}}}.'
        ) from error
    except (KeyError, TypeError) as error:
        raise ValueError(
            f'{where}: there is no {{"translation": {{"{source_lang}": ..., "{target_lang}": ...}}}} in '
            f"{line.strip()[:60]!r}. Name the languages as the file does (`source_lang`, `target_lang`)."
        ) from error
    for side in sides:
        if not isinstance(side, str):
            raise ValueError(f"{where}: both sides of a translation must be texts, got {side!r}.")
    return sides[0].strip(), sides[1].strip()
