"""A journal of finished documents beside an output file, so that a long job can be killed and go on."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any


class Journal:
    """
    Results of a job, one line of JSON each, in `OUTPUT.partial`, under the key of the job.

    Opening it takes up what an earlier run with the same key has left. A torn last line, of a run that was killed
    while writing, is cut off. A journal of another key is emptied.

    Args:
        output (`Path`):
            The file that the job writes in the end.
        key (`str`):
            Names all that the results depend on.
    """

    def __init__(self, output: Path, key: str):
        self.path = output.with_name(output.name + ".partial")
        self.key = key
        self._count = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "Journal":
        size, self._count = self._whole_lines()
        self._file = open(self.path, "r+b" if self.path.exists() else "w+b")
        self._file.truncate(size)
        self._file.seek(size)
        if size == 0:
            self._write({"key": self.key})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        """Number of results that are in it."""
        return self._count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Read the results again, from the first on."""
        with open(self.path, "rb") as file:
            next(file)
            for line in file:
                yield json.loads(line)

    def append(self, result: dict[str, Any]) -> None:
        """Add a result; it survives a kill of this process from now on."""
        self._write(result)
        self._count += 1

    def write(self, path: Path, text_of: Callable[[int, dict[str, Any]], str]) -> None:
        """Write a file of what `text_of(index, result)` gives for each result; it appears when it is whole."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "w", encoding="utf-8", newline="") as file:
                for index, result in enumerate(self):
                    file.write(text_of(index, result))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the journal of a job that is done."""
        self.path.unlink()

    def _write(self, value: dict[str, Any]) -> None:
        if self._file is None:
            raise RuntimeError("The journal is not open: use it in a `with` statement.")
        # ASCII only: a line ends at a line feed and nowhere else
        self._file.write(json.dumps(value).encode("ascii") + b"\n")
        self._file.flush()

    def _whole_lines(self) -> tuple[int, int]:
        """Size in bytes of the lines that are whole, and the number of results among them; 0 if the key is another."""
        if not self.path.exists():
            return 0, 0
        size = count = 0
        with open(self.path, "rb") as file:
            for number, line in enumerate(file):
                try:
                    value = json.loads(line)
                except ValueError:
                    break
                if not line.endswith(b"\n"):
                    break
                if number == 0 and value != {"key": self.key}:
                    return 0, 0
                size += len(line)
                count += number > 0
        return size, count
