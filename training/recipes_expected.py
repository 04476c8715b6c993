"""What papers report for the recipes of a data set, and the table of it in the README of the data set."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .recipes_files import CONFIGS, EXPECTED
from .results import write_text_atomic


# how a number got here; only the first kind may be quoted without a look into the paper
STATUSES = {
    "printed": "a cell of a table, as printed",
    "stated": "said in the text of the paper",
    "stated-order": "the text of the paper says what is better, not by how much",
    "derived": "follows from the structure that the paper describes",
    "recalled": "from memory of the published paper: verify before quoting",
    "unreadable": "the table is lost in the text that we have",
}
NUMBER_KEYS = {"measure", "test_set", "system", "decoding", "value", "source", "status"}
PARAMETER_KEYS = {"system", "paper", "least", "most", "source", "status"}
OPTIONAL_KEYS = {"alignment", "note", "over"}
BEGIN = "<!-- expected:begin (made from expected.yaml by `python -m training.recipes tables`) -->"
END = "<!-- expected:end -->"


@dataclass(frozen=True)
class Expected:
    """
    The content of `expected.yaml`.

    Attributes:
        path (`Path`): The file.
        tokenizers (`dict[str, int]`): Size of the vocabulary by `tokenizer_name`.
        results (`list[dict]`): Numbers, each with measure, test set, system (a recipe), decoding, value (`None` where
            it is unreadable), source and status (a key of `STATUSES`).
        parameters (`list[dict]`): Parameters, each with a system, the words of the paper, the least and the most that
            agree with them, source and status; of the difference to another system where there is `over`.
        not_in_package (`list[str]`): Systems of the tables that this package does not have.
    """

    path: Path
    tokenizers: dict[str, int]
    results: list[dict[str, Any]]
    parameters: list[dict[str, Any]] = field(default_factory=list)
    not_in_package: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, data_set: str, folder: Path = CONFIGS) -> "Expected":
        """
        Read and check the file of a data set.

        Raises:
            `ValueError`: naming the file and the entry at fault.
        """
        path = folder / data_set / EXPECTED
        try:
            expected = cls(path=path, **yaml.safe_load(path.read_text(encoding="utf-8")))
        except TypeError as error:
            raise ValueError(f"{path}: {error}") from error
        for entries, keys in ((expected.results, NUMBER_KEYS), (expected.parameters, PARAMETER_KEYS)):
            for entry in entries:
                if not keys <= set(entry) <= keys | OPTIONAL_KEYS:
                    raise ValueError(f"{path}: an entry must have {', '.join(sorted(keys))}, got {entry}.")
                if entry["status"] not in STATUSES:
                    raise ValueError(f"{path}: `status` must be of {', '.join(STATUSES)}, got {entry}.")
        for entry in expected.results:
            if (entry["value"] is None) != (entry["status"] == "unreadable"):
                raise ValueError(f"{path}: a value is missing where it is unreadable, and only there, got {entry}.")
        return expected

    def check_systems(self, recipes: Collection[str]) -> None:
        """
        Require that each system is a recipe, or is said not to be in the package.

        Raises:
            `ValueError`: naming the one that is neither, or both.
        """
        both = set(self.not_in_package).intersection(recipes)
        if both:
            raise ValueError(f"{self.path}: {min(both)!r} is a recipe, and among those not in the package.")
        for entry in (*self.results, *self.parameters):
            for name in (entry["system"], entry.get("over")):
                if name is not None and name not in recipes and name not in self.not_in_package:
                    raise ValueError(
                        f"{self.path}: there is no recipe {name!r}. Write one, or name it in `not_in_package`."
                    )

    def table(self) -> str:
        """The numbers as Markdown, and the parameters where papers state them."""
        if not self.results and not self.parameters:
            return "The paper reports no number."
        lines = [
            "| measure | test set | system | decoding | value | status | source |",
            "|---|---|---|---|--:|---|---|",
        ]
        for entry in self.results:
            decoding = ", ".join(filter(None, (entry["decoding"], entry.get("alignment"))))
            value = "" if entry["value"] is None else entry["value"]
            cells = (entry["measure"], entry["test_set"], self._named(entry["system"]), decoding, value)
            lines.append(f"| {' | '.join(map(str, cells))} | {entry['status']} | {_source(entry)} |")
        if self.parameters:
            lines += ["", "| parameters of | paper | status | source |", "|---|---|---|---|"]
        for entry in self.parameters:
            over = f", over {self._named(entry['over'])}" if "over" in entry else ""
            name = self._named(entry["system"]) + over
            lines.append(f"| {name} | {entry['paper']} | {entry['status']} | {_source(entry)} |")
        used = {entry["status"] for entry in (*self.results, *self.parameters)}
        legend = [f"{status}: {meaning}" for status, meaning in STATUSES.items() if status in used]
        return "\n".join([*lines, "", "; ".join(legend) + "."])

    def _named(self, system: str) -> str:
        return f"{system} (not in the package)" if system in self.not_in_package else f"`{system}`"


def _source(entry: dict[str, Any]) -> str:
    return entry["source"] + (f" ({entry['note']})" if "note" in entry else "")


def with_table(text: str, expected: Expected) -> str:
    """
    The text of a README with the table of expected numbers between its marks.

    Raises:
        `ValueError`: if the text does not have them.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{expected.path.parent.name}/README.md: must have the lines {BEGIN!r} and {END!r}.")
    return f"{before}{BEGIN}\n{expected.table()}\n{END}{after}"


def write_table(expected: Expected) -> None:
    """Put the table of expected numbers into the README beside `expected.yaml`."""
    readme = expected.path.with_name("README.md")
    write_text_atomic(readme, with_table(readme.read_text(encoding="utf-8"), expected))
