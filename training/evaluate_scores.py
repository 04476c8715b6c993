"""The scores of one test set: measures, intervals, and comparisons with other systems."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from training.bootstrap import bootstrap_intervals, paired_bootstrap
from training.coverage import coverage
from training.documents import Record
from training.evaluate_arguments import EvaluationArguments
from training.evaluate_inputs import EvaluationSet, measure_inputs
from training.hypotheses import Hypotheses
from training.metrics import Measured, MeasureInputs, check_counts, measure_documents
from training.results import portable_path, sha256_of_file


def evaluate_test_set(
    test_set: EvaluationSet, hypotheses: Hypotheses, arguments: EvaluationArguments
) -> dict[str, Any]:
    """
    Score one test set.

    Args:
        test_set (`EvaluationSet`):
            Documents, measures and translations to compare with.
        hypotheses (`Hypotheses`):
            Translations of the documents.
        arguments (`EvaluationArguments`):
            Tagger and bootstrap.

    Returns:
        `dict`: the entry of the test set in the result file.
    """
    records, target = test_set.records, test_set.target
    references = [record["tgt"] for record in records]
    check_counts(hypotheses.documents, references, [record["id"] for record in records])
    inputs = measure_inputs(records, test_set.source, arguments)
    measured = measure_documents(hypotheses.documents, references, target, measures=test_set.measures, inputs=inputs)
    result: dict[str, Any] = {
        "name": test_set.name,
        "file": portable_path(test_set.path),
        "sha256": sha256_of_file(test_set.path),
        "source_lang": test_set.source,
        "target_lang": target,
        "documents": len(records),
        "sentences": sum(len(record["src"]) for record in records),
        "scores": {measure: found.entry for measure, found in measured.items()},
    }
    if test_set.left_out:
        result["measures_left_out"] = test_set.left_out
    if arguments.resamples and len(records) > 1:
        result["intervals"] = bootstrap_intervals(
            hypotheses.documents,
            references,
            target,
            measures=test_set.measures,
            resamples=arguments.resamples,
            seed=arguments.seed,
            inputs=inputs,
            statistics=_counts(measured),
        )
    if hypotheses.status is not None:
        result["status"] = hypotheses.status_counts()
    if hypotheses.free_status is not None:
        result["coverage"] = coverage(hypotheses.free_status)
    if hypotheses.seconds is not None and hypotheses.target_tokens is not None:
        result["seconds"] = round(hypotheses.seconds, 2)
        result["target_tokens"] = hypotheses.target_tokens
        result["target_tokens_per_second"] = round(hypotheses.target_tokens / hypotheses.seconds, 1)
    result["baselines"] = {
        name: _compare(measured, hypotheses, baseline, test_set, arguments, inputs)
        for name, baseline in test_set.baselines.items()
    }
    return result


def _counts(measured: dict[str, Measured]) -> dict[str, np.ndarray]:
    return {measure: found.statistics for measure, found in measured.items()}


def _compare(
    measured: dict[str, Measured],
    hypotheses: Hypotheses,
    baseline: Hypotheses,
    test_set: EvaluationSet,
    arguments: EvaluationArguments,
    inputs: MeasureInputs,
) -> dict[str, Any]:
    """Score a baseline and set the system against it."""
    references = [record["tgt"] for record in test_set.records]
    of_baseline = measure_documents(
        baseline.documents, references, test_set.target, measures=test_set.measures, inputs=inputs
    )
    result: dict[str, Any] = {"scores": {measure: found.entry for measure, found in of_baseline.items()}}
    if arguments.resamples and len(references) > 1:
        result["bootstrap"] = paired_bootstrap(
            hypotheses.documents,
            baseline.documents,
            references,
            test_set.target,
            measures=test_set.measures,
            resamples=arguments.resamples,
            seed=arguments.seed,
            inputs=inputs,
            statistics=_counts(measured),
            baseline_statistics=_counts(of_baseline),
        )
    return result


def hypothesis_records(records: Sequence[Record], hypotheses: Hypotheses) -> list[Record]:
    """Return the documents with the translations in `tgt`, and `status` and `score` where they are known."""
    output = []
    for index, record in enumerate(records):
        kept: Record = {key: value for key, value in record.items() if key in ("id", "src_lang", "tgt_lang", "src")}
        kept["tgt"] = hypotheses.documents[index]
        if hypotheses.status is not None:
            kept["status"] = hypotheses.status[index]
        if hypotheses.scores is not None:
            kept["score"] = hypotheses.scores[index]
        output.append(kept)
    return output
