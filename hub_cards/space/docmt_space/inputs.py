"""From what users give, a file or a pasted text, to documents; what cannot be read is answered with what to do."""

import codecs
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


FILE_TYPES = (".txt", ".jsonl")
# of one document: what a shared machine translates, and a browser shows, without a long wait
MAX_CHARACTERS, MAX_SENTENCES = 20_000, 400
WAY_OUT = (
    "Translate a part of it here, or the whole with `python -m training.translate` of the project, which takes "
    "documents of any length."
)


@dataclass(frozen=True)
class Document:
    """
    A document of a file.

    Attributes:
        name (`str`): What to call it.
        text (`str`): Its text; of a list of sentences, one a line.
        segmentation (`str`, *optional*): `"lines"` where the sentences are known.
    """

    name: str
    text: str
    segmentation: str | None = None


def read_file(path: str | Path) -> list[Document]:
    """
    Read an uploaded file.

    Args:
        path (`str` or `Path`):
            A text file, which is one document, or JSON Lines with a document a line: `{"src": [sentences]}`, and an
            `"id"` if there is one.

    Returns:
        `list[Document]`: at least one.

    Raises:
        `ValueError`: if it is of another type, not text, empty or of another form; line and reason are named.
    """
    path = Path(path)
    if path.suffix.lower() not in FILE_TYPES:
        raise ValueError(
            f"{path.name}: files of type {path.suffix or 'none'} cannot be read. Save the document as plain text "
            "(.txt), or give .jsonl with one document a line."
        )
    text = decode_text(path.read_bytes(), path.name)
    if path.suffix.lower() == ".txt":
        if not text.strip():
            raise ValueError(f"{path.name} is empty. Choose a file with text.")
        return [Document(path.name, text)]
    # JSON escapes every other line break
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not numbered:
        raise ValueError(f"{path.name} is empty. Choose a file with documents.")
    return [_read_record(line, number, path.name) for number, line in numbered]


def _read_record(line: str, number: int, name: str) -> Document:
    try:
        record: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}, line {number} is not JSON ({error}). Each line must be one document.") from error
    sentences = record.get("src") if isinstance(record, dict) else None
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise ValueError(
            f'{name}, line {number}: `src` must be a list of sentences, as in {{"src": ["One.", "Two."]}}.'
        )
    lines = [re.sub(r"\s*[\n\v\f\r\x85\u2028\u2029]\s*", " ", sentence) for sentence in sentences]
    return Document(f"{number}: {record.get('id', name)}", "\n".join(lines), "lines")


def decode_text(data: bytes, name: str) -> str:
    """
    Decode UTF-8, or UTF-16 with a byte order mark; the mark is dropped.

    Raises:
        `ValueError`: if it is neither, with the place of the first wrong byte.
    """
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 text (byte {error.start} cannot be read). In your editor, choose 'Save as' and the "
            "encoding UTF-8."
        ) from error
    if "\0" in text:
        raise ValueError(f"{name} is not a text file: it holds zero bytes. Save the document as plain text (.txt).")
    return text


def keep_line_endings(typed: str, original: str | None) -> str:
    """The text of the file if the page still shows it: a text box turns every line ending into a line feed."""
    if original is not None and re.sub("\r\n?", "\n", original) == re.sub("\r\n?", "\n", typed):
        return original
    return typed


def check_text(text: str) -> None:
    """
    Refuse what cannot be translated here.

    Raises:
        `ValueError`: if there is no text, too much of it, or half a character.
    """
    if not text.strip():
        raise ValueError("There is no text to translate. Paste a document, or upload a file.")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"The document has {len(text):,} characters; this demo takes {MAX_CHARACTERS:,}. {WAY_OUT}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Character {error.start + 1} of the text is half of a character (a lone surrogate). Delete it."
        ) from error


def check_sentences(count: int) -> None:
    """Raise `ValueError` if a document has more than `MAX_SENTENCES` sentences, blank lines included."""
    if count > MAX_SENTENCES:
        raise ValueError(
            f"The document has {count:,} sentences, blank lines included; this demo takes {MAX_SENTENCES:,}. {WAY_OUT}"
        )
