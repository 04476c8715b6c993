"""Metadata of a card, as the Hub reads it: languages, licence, and the scores as a model index."""

from collections.abc import Mapping
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from training.report_cells import wilson_interval
from training.report_context import context_text, distinct_suites
from training.report_results import suite_name

from .card_results import CardResults, Json


# names of metrics that the Hub knows; other measures go by their own
METRIC_TYPES = {
    "s-BLEU": "bleu",
    "d-BLEU": "bleu",
    "chrF": "chrf",
    "TER": "ter",
    "COMET": "comet",
    "pronoun-F1": "f1",
    "formality-F1": "f1",
}
ACCURACY = "accuracy"
# by the beginning of the name of a suite's file
NAMES_OF_SUITES = {
    "contrapro": "ContraPro",
    "large-contrastive-pronouns": "Large contrastive pronoun test set",
    "voita": "Consistency test sets of Voita et al. (2019)",
    "discourse-mt": "Discourse test sets of Bawden et al. (2018)",
}


def languages_of(facts: Json, found: CardResults) -> dict[str, str]:
    """Languages by their codes, source first: those of the facts, else those of the results."""
    if facts.get("languages"):
        return facts["languages"]
    pairs = [(e["source_lang"], e["target_lang"]) for row in found.model for e in row.test_sets.values()]
    pairs += [(training.get("source_lang"), training.get("target_lang")) for training in found.trainings[:1]]
    return {code: code for pair in pairs for code in pair if code}


def eval_results(facts: Json, found: CardResults) -> list[EvalResult]:
    """The scores of the model, and its accuracies on contrastive suites, each of which is a data set of its own."""
    task = f"Document translation {' to '.join(languages_of(facts, found).values())}".strip()
    results = []
    for row in found.model:
        # settings beside the first are told apart by the configuration of the metric
        setting = None if row.decoding == found.model[0].decoding else row.setting
        for test_set, entry in row.test_sets.items():
            intervals = entry.get("intervals", {}).get("measures", {})
            for measure, score in entry["scores"].items():
                # a measure of what does not occur has no value
                if score["score"] is not None:
                    results.append(
                        EvalResult(
                            task_type="translation",
                            task_name=task,
                            dataset_type=test_set.name,
                            dataset_name=test_set.name,
                            dataset_split="test",
                            dataset_args={"sha256": test_set.sha256},
                            metric_type=METRIC_TYPES.get(measure, measure.lower()),
                            metric_name=measure,
                            metric_config=setting,
                            metric_value=round(score["score"], 2),
                            metric_args=_args(score["signature"], intervals.get(measure, {}).get("interval")),
                        )
                    )
    return results + [_suite_result(entry) for _, entry in distinct_suites(found.model)]


def _args(signature: str, interval: Any) -> Json:
    return {"signature": signature, **({"interval": [round(end, 2) for end in interval]} if interval else {})}


def _suite_result(entry: Mapping[str, Any]) -> EvalResult:
    name = suite_name(entry)
    known = next((start for start in NAMES_OF_SUITES if name.startswith(start)), None)
    signature = f"contrastive|context:{context_text(entry)}|items:{entry['items']}|ties:{entry['ties']}, wrong"
    return EvalResult(
        task_type="translation",
        task_name="Contrastive test of context in translation",
        dataset_type=name,
        dataset_name=NAMES_OF_SUITES[known] if known else name,
        dataset_split="test",
        # scored with two sizes of context, it is there twice
        dataset_config=context_text(entry),
        metric_type=ACCURACY,
        metric_name="accuracy, %",
        metric_value=round(entry["accuracy"], 2),
        metric_args=_args(signature, wilson_interval(entry["correct"], entry["items"])),
    )


def card_metadata(facts: Json, model_name: str, found: CardResults) -> ModelCardData:
    """
    Build the metadata of a card.

    Args:
        facts (`dict`):
            Languages and licence.
        model_name (`str`):
            Name of the model on the Hub.
        found (`CardResults`):
            Results of the model.

    Raises:
        `ValueError`: for a trained model whose licence is not stated.
    """
    if found.is_trained and "license" not in facts:
        raise ValueError(
            "`license` is missing: say under which terms the weights are, in the YAML file of facts (`--facts`)."
        )
    results = eval_results(facts, found)
    known = {*METRIC_TYPES.values(), ACCURACY}
    return ModelCardData(
        language=list(languages_of(facts, found)) or None,
        # a recipe is code and nothing else
        license=facts.get("license", "apache-2.0"),
        license_name=facts.get("license_name"),
        license_link=facts.get("license_link"),
        library_name="transformers",
        pipeline_tag="translation",
        tags=["translation", "document-level", "docmt"],
        metrics=sorted({result.metric_type for result in results if result.metric_type in known}) or None,
        model_name=model_name if results else None,
        eval_results=results or None,
    )
