"""Which results speak of the same trained system: the rows of a report."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .report_results import (
    OPTIONS_OF_SPEED,
    Result,
    decoding_text,
    file_stem,
    model_of,
    pair_in_name,
    pair_of,
    run_name,
    suite_name,
)


Entry = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, order=True)
class TestSet:
    """A test set, by name and content."""

    __test__ = False  # for pytest

    name: str
    sha256: str
    documents: int
    sentences: int

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "TestSet":
        """That of an entry in a result."""
        return cls(entry["name"], entry["sha256"], entry["documents"], entry["sentences"])


@dataclasses.dataclass(frozen=True)
class OnData:
    """What was measured on a file of documents: its name without endings, its hash, and the numbers."""

    name: str
    sha256: str
    entry: Entry


@dataclasses.dataclass
class SystemRow:
    """
    A trained system in one setting of decoding, for one pair of languages.

    Args:
        name (`str`): What its results call it.
        pair (`str`): Languages: `en-de`.
        decoding (`dict`): Options of decoding; empty where it has not translated.
        model (`dict`): What is known of the model, see `model_of`.
        results (`list[dict]`): Results behind the row.
        test_sets (`dict[TestSet, dict]`): Entries of the evaluations.
        suites (`list[dict]`): Entries of contrastive suites.
        shares (`list[OnData]`): Shares of attention on the aligned sentence.
        contexts (`list[OnData]`): Log-probabilities with the right context, another, and none.
        training (`dict`, *optional*): Result of its training.
        anchor (`str`): Name of the place of its recipe on a page.
    """

    name: str
    pair: str
    decoding: dict[str, Any]
    model: dict[str, Any]
    results: list[Result] = dataclasses.field(default_factory=list)
    test_sets: dict[TestSet, Entry] = dataclasses.field(default_factory=dict)
    suites: list[Entry] = dataclasses.field(default_factory=list)
    shares: list[OnData] = dataclasses.field(default_factory=list)
    contexts: list[OnData] = dataclasses.field(default_factory=list)
    training: Result | None = None
    anchor: str = ""

    @property
    def setting(self) -> str:
        """Decoding in words."""
        return decoding_text(self.decoding) if self.test_sets else "-"

    @property
    def kind(self) -> str:
        """The system of the literature, or the kind of model."""
        return self.model.get("system") or self.model.get("model_type") or "-"

    def add(self, result: Result) -> None:
        """Count a result among those behind the row."""
        if all(other is not result for other in self.results):
            self.results.append(result)

    def share_on(self, test_set: TestSet) -> Entry | None:
        """Its attention share on a test set."""
        return next((found.entry for found in self.shares if found.sha256 == test_set.sha256), None)

    def context_on(self, test_set: TestSet) -> Entry | None:
        """What context is worth to it on a test set."""
        return next((found.entry for found in self.contexts if found.sha256 == test_set.sha256), None)


def _evaluation_rows(results: Sequence[Result]) -> list[SystemRow]:
    rows: dict[tuple[str, ...], SystemRow] = {}
    for result in results:
        model = model_of(result)
        decoding = {k: v for k, v in result.get("decoding", {}).items() if k not in OPTIONS_OF_SPEED}
        # the default, which older files do not name
        decoding = {k: v for k, v in decoding.items() if (k, v) != ("source_context", "full")}
        # finished translations are told apart by their files
        identity = model.get("weights_sha256") or model.get("path") or json.dumps(result.get("hypotheses"))
        for entry in result["test_sets"]:
            pair, test_set = pair_of(entry["source_lang"], entry["target_lang"]), TestSet.of(entry)
            key: tuple[str, ...] = (pair, identity, json.dumps(decoding, sort_keys=True))
            # scored twice: both are shown
            while key in rows and test_set in rows[key].test_sets:
                key = (*key, "again")
            row = rows.setdefault(key, SystemRow(result["name"], pair, decoding, model))
            row.test_sets[test_set] = entry
            row.add(result)
            if "attention_share" in entry:
                row.shares.append(OnData(test_set.name, test_set.sha256, entry["attention_share"]))
            if "context_use" in entry:
                row.contexts.append(OnData(test_set.name, test_set.sha256, entry["context_use"]))
    for row in rows.values():
        # the name under which most was scored
        row.name = max(row.results, key=lambda result: len(result["test_sets"]))["name"]
    return list(rows.values())


def _same_model(result: Result, row: SystemRow) -> bool:
    """Whether a result speaks of the model of a row: by its weights, else its folder, else the names of the files."""
    facts = model_of(result)
    # export rounds the weights that were trained, into another folder
    is_exported = result["kind"] == "training" and facts.get("path") not in (None, row.model.get("path"))
    # the first that both know decides; a folder may hold other weights today
    for name in ("weights_sha256", "path"):
        if facts.get(name) and row.model.get(name):
            if facts[name] == row.model[name]:
                return True
            if name == "weights_sha256" and not is_exported:
                return False
    architecture, system = result.get("architecture"), facts.get("system")
    differing = [
        (architecture, row.model.get("model_type")),
        (facts.get("parameters"), row.model.get("parameters")),
        # a Marian model is trained as `sentence-level`
        (None if architecture == "marian" else system, row.model.get("system")),
    ]
    if any(ours is not None and theirs is not None and ours != theirs for ours, theirs in differing):
        return False
    run = run_name(result)
    # of its evaluations, or of what stands for them
    names = [run_name(found) for found in row.results if found["kind"] != "training"]
    if row.model.get("path"):
        names.append(Path(row.model["path"]).name)
    return run is not None and any(f"{name}.".startswith(f"{run}.") for name in names)


def _same_alignment(result: Result, row: SystemRow) -> bool:
    return row.decoding.get("alignment") in (None, result.get("alignment"))


def _rows_of(rows: list[SystemRow], result: Result, pair: str | None) -> list[SystemRow]:
    """Rows of the model of a result, for one pair of languages where it is known; a new row where there is none."""
    fitting = [row for row in rows if pair in (None, row.pair)]
    if result["kind"] == "evaluation":
        found = [row for row in fitting if any(other is result for other in row.results)]
    else:
        found = [row for row in fitting if _same_model(result, row) and _same_alignment(result, row)]
    if not found:
        name = result.get("name") or Path(model_of(result).get("path") or run_name(result) or "?").name
        found = [SystemRow(name, pair or pair_of(None, None), {}, model_of(result))]
        rows += found
    for row in found:
        row.add(result)
    return found


def _add_suites(rows: list[SystemRow], result: Result) -> None:
    for entry in result.get("suites", []):
        for row in _rows_of(rows, result, pair_in_name(suite_name(entry))):
            row.suites.append(entry)


def _add_shares(rows: list[SystemRow], result: Result) -> None:
    for entry in result["entries"]:
        name = file_stem(entry["data"])
        for row in _rows_of(rows, result, pair_in_name(name)):
            row.shares.append(OnData(name, entry["data_sha256"], entry))


def _add_contexts(rows: list[SystemRow], result: Result) -> None:
    for entry in result["test_sets"]:
        name = file_stem(entry["data"])
        for row in _rows_of(rows, result, pair_in_name(name)):
            row.contexts.append(OnData(name, entry["sha256"], entry["context_use"]))


def _add_maps(rows: list[SystemRow], result: Result) -> None:
    _rows_of(rows, result, pair_in_name(file_stem(result["data"])))


def _add_trainings(rows: list[SystemRow], trainings: Sequence[Result]) -> None:
    for row in rows:
        found = [result for result in trainings if _same_model(result, row)]
        if found:
            # of `tiny` and `tiny.large`, the longer name says more
            row.training = max(found, key=lambda result: len(run_name(result) or ""))
            row.add(row.training)
    for result in trainings:
        if all(row.training is not result for row in rows):
            model = {**model_of(result), "model_type": result.get("architecture")}
            pair = pair_of(result.get("source_lang"), result.get("target_lang"))
            row = SystemRow(run_name(result) or result["system"], pair, {}, model, [result], training=result)
            rows.append(row)


def system_rows(results: Sequence[Result]) -> list[SystemRow]:
    """
    Put together what results say of each trained system.

    Evaluations of the same weights with the same options of decoding are one row for each pair of languages. Suites,
    attention shares, context use and training runs go to the rows of the same model, found by the hash of the weights
    (of which an exported model has another one than its training), else the folder, else the name of the file
    (`tiny-en-de.concat-adj.train.json` belongs to `tiny-en-de.concat-adj.eval.json`); kind, system and number of
    parameters must agree then. A system that was trained or measured otherwise alone has a row too.

    Returns:
        `list[SystemRow]`: rows in the order of the results.
    """
    rows = _evaluation_rows([result for result in results if result["kind"] == "evaluation"])
    add = {
        "evaluation": _add_suites,
        "contrastive": _add_suites,
        "attention-share": _add_shares,
        "context-use": _add_contexts,
        "sentence-attention": _add_maps,
    }
    for result in results:
        if result["kind"] in add:
            add[result["kind"]](rows, result)
    _add_trainings(rows, [result for result in results if result["kind"] == "training"])
    for index, row in enumerate(rows, start=1):
        row.anchor = f"recipe-{index}"
    return rows


def by_pair(rows: Sequence[SystemRow]) -> dict[str, list[SystemRow]]:
    """Rows of each pair of languages, those first that have most rows."""
    pairs = sorted({row.pair for row in rows}, key=lambda pair: (-sum(row.pair == pair for row in rows), pair))
    return {pair: [row for row in rows if row.pair == pair] for pair in pairs}
