"""Results that a card is made of: those of its model, and those of the systems beside it."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from training.report_results import read_results
from training.report_systems import SystemRow, system_rows


Json = dict[str, Any]

MEASURED = ("evaluation", "contrastive", "context-use", "attention-share")
BENCHMARKS = ("document-decoding-benchmark", "step-benchmark", "decoding-benchmark")
KINDS = (*MEASURED, "training", *BENCHMARKS)


@dataclasses.dataclass(frozen=True)
class CardResults:
    """
    What is known of the model of a card, and of systems to compare it with.

    Args:
        model (`list[SystemRow]`): The model, a row for each setting of decoding and pair of languages; that of the
            first result first.
        others (`list[SystemRow]`): Other systems.
        trainings, benchmarks (`list[dict]`): Training runs, that of the model first, and measurements of speed.
    """

    model: list[SystemRow]
    others: list[SystemRow]
    trainings: list[Json]
    benchmarks: list[Json]

    @property
    def is_trained(self) -> bool:
        """Whether there is a model, not a recipe alone."""
        return bool(self.model or self.trainings)

    @property
    def evaluation(self) -> Mapping[str, Any] | None:
        """The first evaluation of the model."""
        found = (result for row in self.model for result in row.results if result["kind"] == "evaluation")
        return next(found, None)

    @property
    def sources(self) -> list[Mapping[str, Any]]:
        """Results behind the numbers of the model and of the others, each once."""
        found: list[Mapping[str, Any]] = []
        for row in (*self.model, *self.others):
            found += [result for result in row.results if all(other is not result for other in found)]
        return [*found, *self.benchmarks]

    def labels(self, model_name: str) -> dict[int, str]:
        """What to call each row, by its `id`; rows of one name are told apart by their decoding."""
        names = [row.name for row in self.others]
        labels = {
            id(row): row.name if names.count(row.name) == 1 else f"{row.name} ({row.setting})" for row in self.others
        }
        for index, row in enumerate(self.model):
            # further rows are further settings, or further pairs of languages in the same one
            is_other = index > 0 and row.decoding != self.model[0].decoding
            labels[id(row)] = f"**{model_name}**" + (f" ({row.setting})" if is_other else "")
        return labels


def load_results(paths: Sequence[str | Path]) -> list[Json]:
    """
    Read result files.

    Returns:
        `list[dict]`: results in the order given, with the name of the file as `result_file`.

    Raises:
        `ValueError`: for a file that is no result, or one that no card has a place for.
    """
    results = read_results(paths)
    for result in results:
        if result["kind"] not in KINDS:
            raise ValueError(
                f"{result['result_file']}: `kind` must be one of {', '.join(KINDS)}, got {result['kind']!r}. It says "
                "nothing of one model: leave it out."
            )
    return results


def group_results(results: Sequence[Json]) -> CardResults:
    """
    Tell the model of a card from the systems beside it.

    Args:
        results (`Sequence[dict]`):
            Contents of result files; the first of the evaluations and the first of the trainings are of the model.
            What else speaks of the same weights is found by `training.report_systems.system_rows`.
    """
    rows = system_rows([result for result in results if result["kind"] in MEASURED])
    model = [row for row in rows if _is_same(row, rows[0])]
    return CardResults(
        model=model,
        others=[row for row in rows if all(row is not other for other in model)],
        trainings=[result for result in results if result["kind"] == "training"],
        benchmarks=[result for result in results if result["kind"] in BENCHMARKS],
    )


def _is_same(row: SystemRow, first: SystemRow) -> bool:
    # an evaluation is of one model, and has a row for each pair of languages
    evaluations = [result for result in row.results if result["kind"] == "evaluation"]
    if row is first or any(result is other for result in evaluations for other in first.results):
        return True
    for name in ("weights_sha256", "path"):
        if row.model.get(name) and first.model.get(name):
            return row.model[name] == first.model[name]
    return False
