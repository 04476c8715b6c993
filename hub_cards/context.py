"""What a card says of context: contrastive suites, what context is worth, attention, and sentence coverage."""

from collections.abc import Mapping
from typing import Any

from training.report_cells import interval_text, number, wilson_interval
from training.report_context import context_text, distinct_suites
from training.report_results import suite_name

from .card_results import CardResults
from .scores import table


# by the sides of 0 on which the intervals of "right less none" and "right less shuffled" context lie; 0 is within
ANSWERS: dict[tuple[int | None, int | None], str] = {
    (1, 1): "**yes**; references are more likely with their context than without it or with that of another document.",
    (1, 0): "**hardly**; references are more likely with a context, but that of another document does as well.",
    (1, -1): "**no**; references are more likely with a context, but that of another document does better.",
    (0, 1): "**not to its advantage**; the wrong context does harm, but the right one is no better than none.",
    (0, 0): "**no**; with or without, right or wrong: no difference can be told from 0.",
    (0, -1): "**no**; the right context is no better than none, and worse than that of another document.",
    (-1, 1): "**it hurts**; references are less likely with a context than without, most so with a wrong one.",
    (-1, 0): "**it hurts**; references are less likely with a context than without, be it right or wrong.",
    (-1, -1): "**it hurts**; references are less likely with a context than without, most so with the right one.",
}


def suite_table(found: CardResults, model_name: str) -> list[str]:
    """Lay out accuracies on contrastive suites: for each that the model was scored on, the model and the others."""
    labels, names = found.labels(model_name), {suite_name(entry) for _, entry in distinct_suites(found.model)}
    entries = distinct_suites([*found.model, *found.others])
    rows = [
        [
            name,
            # one row of the model stands for all of its settings
            f"**{model_name}**" if any(row is other for other in found.model) else labels[id(row)],
            context_text(entry),
            number(entry["accuracy"]),
            interval_text(wilson_interval(entry["correct"], entry["items"])),
            number(entry.get("chance")),
            f"{entry['items']:,}",
            f"{entry['ties']:,}",
        ]
        for name in sorted(names)
        for row, entry in entries
        if suite_name(entry) == name
    ]
    header = ["suite", "system", "context sentences", "accuracy, %", "95 % interval", "chance, %", "items", "ties"]
    return table(header, rows, texts=3)


def suite_lines(found: CardResults) -> list[str]:
    """Say how each suite of the model changes with the number of context sentences and with what it asks for."""
    lines = []
    for _, entry in distinct_suites(found.model):
        parts = {}
        if len(entry.get("curve", [])) > 1:
            parts["context sentences"] = {str(point["context_sentences"]): point for point in entry["curve"]}
        for label in ("reference_pronoun", "antecedent_distance", "phenomenon", "context_distance"):
            groups = entry.get("breakdowns", {}).get(label, {})
            # a handful of items says nothing
            kept = {name: group for name, group in groups.items() if group["items"] >= 30 and name != "unknown"}
            parts |= {label.replace("_", " "): kept} if len(kept) > 1 else {}
        for label, groups in parts.items():
            accuracies = ", ".join(f"{name}: {number(group['accuracy'])}" for name, group in groups.items())
            lines.append(f"{suite_name(entry)}, by {label}: {accuracies}")
    return lines


def context_use_lines(found: CardResults) -> list[str]:
    """Answer, for each test set that was asked, whether the model uses its context, with the numbers behind that."""
    entries: dict[str, Mapping[str, Any]] = {}
    for row in found.model:
        for on_data in row.contexts:
            entries.setdefault(on_data.name, on_data.entry)
    if entries and all("note" in entry for entry in entries.values()):
        return [context_answer(next(iter(entries.values())))]
    return [f"{name}: {context_answer(entry)}{_context_numbers(entry)}" for name, entry in entries.items()]


def context_answer(entry: Mapping[str, Any]) -> str:
    """
    Say in plain words what a measurement of context use means.

    Args:
        entry (`Mapping`): `context_use` of a test set; its intervals decide.
    """
    if "note" in entry:
        return "**no**; the model sees no context."
    signs = (_sign(entry["right_less_none"]), _sign(entry["right_less_shuffled"]))
    return ANSWERS.get(signs, "no interval was computed, so there is no answer.")


def _sign(difference: Mapping[str, Any]) -> int | None:
    if difference["interval"] is None:
        return None
    low, high = difference["interval"]
    return (low > 0) - (high < 0)


def _context_numbers(entry: Mapping[str, Any]) -> str:
    if "note" in entry:
        return ""
    texts = []
    for name, other in (("right_less_none", "none"), ("right_less_shuffled", "another's")):
        interval = interval_text(entry[name]["interval"], 4, signed=True)
        text = f"right less {other} {number(entry[name]['score'], 4, signed=True)}"
        texts.append(f"{text} ({interval})" if interval else text)
    sizes = {side: entry["context"][side] for side in ("source", "target")}
    return f" Numbers: {', '.join(texts)}; context: {context_text({'context': sizes})}."


def context_signatures(found: CardResults) -> list[str]:
    """Signatures of what context is worth, each once."""
    return list(dict.fromkeys(on_data.entry["signature"] for row in found.model for on_data in row.contexts))


def attention_lines(found: CardResults) -> list[str]:
    """How much of its cross-attention the model pays to the sentence that it is translating, by test set."""
    shares: dict[str, Mapping[str, Any]] = {}
    for row in found.model:
        for on_data in row.shares:
            shares.setdefault(on_data.name, on_data.entry)
    lines = []
    for name, entry in shares.items():
        layers = ", ".join(number(share) for share in entry["share_per_layer"])
        lines.append(f"{name}: {number(entry['share'])} % (by layer {layers}; {entry['documents']} documents)")
    return lines


def coverage_lines(found: CardResults) -> list[str]:
    """How often the model, free in the number of sentences, gives one for each, by test set."""
    lines = []
    for row in found.model:
        for test_set, entry in row.test_sets.items():
            coverage = entry.get("coverage")
            if coverage and coverage["score"] is not None:
                lines.append(
                    f"{test_set.name}: {number(coverage['score'])} % ({coverage['covered_documents']:,} of "
                    f"{coverage['documents']:,} documents), {number(coverage['missing_sentences_per_document'], 2)} "
                    "missing sentences a document"
                )
    return lines


def status_lines(found: CardResults) -> list[str]:
    """Which statuses the sentences of each test set got, by the first setting of decoding."""
    return [
        f"{test_set.name}: " + ", ".join(f"`{status}` {count:,}" for status, count in entry["status"].items())
        for row in found.model[:1]
        for test_set, entry in row.test_sets.items()
        if entry.get("status")
    ]
