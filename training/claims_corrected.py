"""Two systems in all measures: one was named beforehand, the p-values of the others are corrected for their number."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .bootstrap import holm
from .claims import Compared
from .contrastive_paired import compare_suites
from .report_results import Result, run_name, suite_name


LEVEL = 0.05
ACCURACY = "accuracy"


@dataclasses.dataclass(frozen=True)
class Difference:
    """A measure on its data, and what `compare_draws` says of the difference."""

    measure: str
    data: str
    found: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Correction:
    """
    Differences of two systems.

    Args:
        system, baseline (`str`): Their names.
        files (`frozenset[str]`): Their result files, without `.json`.
        named (`Difference`): The one that was named beforehand.
        others (`Sequence[Difference]`): All others that have a p-value.
        repeats (`Sequence[Mapping]`, *optional*):
            The same two with other seeds: what `compare_draws` says, by measure and data.
    """

    system: str
    baseline: str
    files: frozenset[str]
    named: Difference | None
    others: Sequence[Difference]
    repeats: Sequence[Mapping[tuple[str, str], Mapping[str, Any]]] = ()

    @property
    def corrected(self) -> dict[tuple[str, str], float]:
        """Corrected p-values of the others, by measure and data."""
        p_values = holm([one.found["p_value"] for one in self.others])
        return {(one.measure, one.data): p_value for one, p_value in zip(self.others, p_values, strict=True)}


def _of_suites(result: Result, other: Result) -> list[Difference]:
    found = []
    theirs = {suite_name(entry): entry for entry in other.get("suites", [])}
    for entry in result.get("suites", []):
        name = suite_name(entry)
        if name in theirs and "decisions" in entry and "decisions" in theirs[name]:
            found.append(Difference(ACCURACY, name, compare_suites(entry, theirs[name])))
    return found


def _of_test_sets(result: Result, other: Result) -> list[Difference]:
    found = []
    for entry in result["test_sets"]:
        for name in dict.fromkeys((other["name"], run_name(other))):
            measures = entry.get("baselines", {}).get(name, {}).get("bootstrap", {}).get("measures", {})
            found += [Difference(m, entry["name"], d) for m, d in measures.items() if d["p_value"] is not None]
    return found


def _differences(result: Result, other: Result) -> list[Difference]:
    return _of_suites(result, other) + _of_test_sets(result, other)


def correct(results: Sequence[Result], compared: Compared) -> Correction | None:
    """
    Compare two systems in all measures that both have.

    Args:
        results (`Sequence[Mapping]`): Contents of result files, with their names as `result_file`.
        compared (`Compared`):
            Which files, and the suite that was named beforehand. Repeats whose files are not there are left out.

    Returns:
        `Correction`, or None where one of the files is not among the results.
    """
    by_name = {result.get("result_file", "").removesuffix(".json"): result for result in results}
    if compared.system not in by_name or compared.baseline not in by_name:
        return None
    system, baseline = by_name[compared.system], by_name[compared.baseline]
    found = _differences(system, baseline)
    named = next((one for one in found if (one.measure, one.data) == (ACCURACY, compared.named_suite)), None)
    others = [one for one in found if one is not named]
    repeats = [
        {(one.measure, one.data): one.found for one in _differences(*(by_name[file] for file in pair))}
        for pair in compared.repeats
        if by_name.keys() >= set(pair)
    ]
    files = frozenset((compared.system, compared.baseline))
    return Correction(system["name"], baseline["name"], files, named, others, repeats)
