"""Contrastive suites in line files, and the folder of documents in which the context of ContraPro stands."""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path

from .contrastive_items import ContrastiveItem, check_ids
from .corpus_lines import read_lines


def read_line_suite(
    source_file: str | Path,
    target_file: str | Path,
    source_context_file: str | Path | None = None,
    target_context_file: str | Path | None = None,
    *,
    candidates_per_item: int | None = None,
) -> list[ContrastiveItem]:
    """
    Read a suite of line files: line i of the target translates line i of the source, the right candidate comes first.

    A context file has the same number of lines for each line of the text, in the order of the document, empty where
    there is none; it is that of `json2text_and_context` of ContraPro and of the large EN-FR suite.

    Args:
        source_file, target_file (`str` or `Path`):
            A line for each candidate; the source is repeated.
        source_context_file, target_context_file (`str` or `Path`, *optional*):
            Sentences before each of them.
        candidates_per_item (`int`, *optional*):
            Lines of an item; by default an item ends where source or source context change, or its first translation
            comes again.

    Returns:
        `list[ContrastiveItem]`: items that are called by their first line, from 0.

    Raises:
        `ValueError`: if the files do not fit.
    """
    sources, targets = _lines(source_file), _lines(target_file)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source_file} has {len(sources)} lines and {target_file} {len(targets)}, but line i must translate line "
            "i."
        )
    contexts = [
        _contexts(path, len(sources)) if path is not None else [()] * len(sources)
        for path in (source_context_file, target_context_file)
    ]
    longest = max((len(lines) for side in contexts for lines in side[:1]), default=0)
    source_sides, target_sides = (
        [("",) * (longest - len(before)) + before + (text,) for before, text in zip(context, texts, strict=True)]
        for context, texts in zip(contexts, (sources, targets), strict=True)
    )
    items = []
    for first, last in _groups(source_sides, target_sides, candidates_per_item, source_file):
        where = f"{source_file}:{first + 1}"
        if len(set(source_sides[first:last])) > 1:
            raise ValueError(
                f"{where}: the source changes within {last - first} lines. Is `candidates_per_item` right?"
            )
        try:
            item = ContrastiveItem(
                id=f"line-{first}",
                source=source_sides[first],
                candidates=tuple(target_sides[first:last]),
                current=longest,
            )
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        items.append(item)
    return check_ids(items, str(source_file))


def _lines(path: str | Path) -> list[str]:
    return [line.strip() for _, line in read_lines(path)]


def _contexts(path: str | Path, count: int) -> list[tuple[str, ...]]:
    lines = _lines(path)
    if not count or len(lines) % count:
        raise ValueError(
            f"{path} has {len(lines)} lines for {count} lines of text: each must have as many context sentences."
        )
    size = len(lines) // count
    return [tuple(lines[line * size : (line + 1) * size]) for line in range(count)]


def _groups(
    sources: Sequence[tuple[str, ...]], targets: Sequence[tuple[str, ...]], size: int | None, where: str | Path
) -> list[tuple[int, int]]:
    """First line of each item, and one behind its last."""
    if size is not None and (size < 2 or len(sources) % size):
        raise ValueError(f"{where}: {len(sources)} lines are no items of `candidates_per_item={size}` lines.")
    bounds = [0]
    for line in range(1, len(sources)):
        if size is not None:
            ends = line - bounds[-1] == size
        else:
            # one sentence may be in question twice, for two of its pronouns
            ends = sources[line] != sources[line - 1] or targets[line] == targets[bounds[-1]]
        if ends:
            bounds.append(line)
    return list(itertools.pairwise([*bounds, len(sources)])) if sources else []


class DocumentFolder:
    """
    A folder of sentence-aligned documents, as `setup_opensubs.sh` of ContraPro leaves it: `1926/1926_164_47.de`.

    Args:
        folder (`str` or `Path`): With files at any depth.
        source_lang (`str`): How the names of the source files end; those of the target are named in the suite.
    """

    def __init__(self, folder: str | Path, source_lang: str = "en"):
        self.folder = Path(folder)
        self.source_lang = source_lang
        if not self.folder.is_dir():
            raise ValueError(f"`documents`: there is no folder {folder}. Check the name.")

    @functools.cached_property
    def paths(self) -> dict[str, Path]:
        """Files by name."""
        return {path.name: path for path in self.folder.rglob("*") if path.is_file()}

    def context(self, document: str, segment: int, source: str, count: int) -> dict[str, list[str]]:
        """
        The sentences around one of a document.

        Args:
            document (`str`): Name of the target file.
            segment (`int`): Its line, from 1.
            source (`str`): The source sentence that must stand there, white space aside.
            count (`int`): Sentences wanted on each side; fewer at the ends of the document.

        Returns:
            `dict`: `source_left`, `target_left`, `source_right` and `target_right`, for `aligned_item`.

        Raises:
            `ValueError`: if there is no such document, or another sentence.
        """
        names = (Path(document).with_suffix(f".{self.source_lang}").name, document)
        missing = [name for name in names if name not in self.paths]
        if missing:
            raise ValueError(f"document {missing[0]!r} is not in {self.folder}. Is it the right folder and language?")
        sources, targets = (_document_lines(self.paths[name]) for name in names)
        found = sources[segment - 1] if 0 < segment <= len(sources) else ""
        if len(sources) != len(targets) or "".join(found.split()) != "".join(source.split()):
            raise ValueError(
                f"line {segment} of {names[0]!r} is not the source sentence of the item, or source and target differ "
                f"in length ({len(sources)} and {len(targets)} lines): these are not the documents of the suite."
            )
        first, last = max(0, segment - 1 - count), segment + count
        return {
            "source_left": sources[first : segment - 1],
            "target_left": targets[first : segment - 1],
            "source_right": sources[segment:last],
            "target_right": targets[segment:last],
        }


@functools.lru_cache(maxsize=64)
def _document_lines(path: Path) -> list[str]:
    return _lines(path)
