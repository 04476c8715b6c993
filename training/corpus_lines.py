"""Lines of a text file, gzip or not, with the line number that an error message needs."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast


GZIP_MAGIC = b"\x1f\x8b"
UTF8_BOM = b"\xef\xbb\xbf"


def open_binary(path: str | Path) -> IO[bytes]:
    """
    Open a file for reading bytes, unpacking gzip, which is recognised by its first two bytes, not by its name.

    Raises:
        `ValueError`: if there is no such file.
    """
    if not Path(path).is_file():
        raise ValueError(f"{path}: there is no such file. Check the name and the folder it is meant from.")
    with open(path, "rb") as file:
        packed = file.read(2) == GZIP_MAGIC
    return cast(IO[bytes], gzip.open(path, "rb")) if packed else open(path, "rb")


def read_lines(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """
    Yield `(line number from 1, line without its end)`.

    A line ends at a line feed alone, as in every other tool that counts lines (`wc`, `paste`, sacreBLEU): form feeds,
    U+2028 and a carriage return in the middle of a line do not split it, or two sides would no longer match. The
    carriage return of a Windows line end and a byte order mark at the start of the file are dropped.

    Args:
        path (`str` or `Path`):
            The file; gzip is unpacked.
        encoding (`str`, *optional*, defaults to `"utf-8"`):
            Any encoding that writes a line feed as one byte: `"utf-8"`, `"latin-1"`, `"cp1252"`, `"gb18030"`, ...

    Raises:
        `ValueError`: naming file and line, if the bytes are not text in `encoding` or the gzip data is damaged.
    """
    try:
        line_feed = "\n".encode(encoding)
    except LookupError as error:
        raise ValueError(f"`encoding` must be one that Python knows, got {encoding!r}.") from error
    if line_feed != b"\n":
        raise ValueError(
            f"`encoding` must be one that writes a line feed as one byte, got {encoding!r}. Convert the file first: "
            f"`iconv -f {encoding} -t utf-8 {path}`."
        )
    number = 0
    with open_binary(path) as file:
        try:
            for raw in file:
                number += 1
                if number == 1:
                    raw = raw.removeprefix(UTF8_BOM)
                yield number, raw.removesuffix(b"\n").removesuffix(b"\r").decode(encoding)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}:{number}: byte {error.object[error.start]:#04x} at position {error.start} is not {encoding}. "
                "Name the encoding of the file (`encoding`, on the command line `--encoding latin-1`), or repair the "
                "line."
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{path}:{number + 1}: the gzip data is damaged or cut off ({error}). Fetch the file again."
            ) from error
