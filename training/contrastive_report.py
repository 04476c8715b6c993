"""Results of `training.contrastive`: accuracies of scored items, as tables, and as a curve over context sentences."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .contrastive_items import UNKNOWN, ContrastiveItem, label_values
from .measure import format_table
from .plotting import load_pyplot, save_figure


TABLE = {
    "suite": "suite",
    "context": "context",
    "items": "items",
    "correct": "correct",
    "accuracy": "accuracy",
    "chance": "chance",
    "ties": "ties",
    "first_minimum_accuracy": "first minimum",
    "items_per_second": "items/s",
}
GROUP_TABLE = {"group": "", "items": "items", "correct": "correct", "accuracy": "accuracy", "ties": "ties"}


def is_correct(scores: Sequence[float], correct: int) -> bool:
    """Whether the right candidate scores strictly better than every other; a tie is none."""
    return all(scores[correct] > score for index, score in enumerate(scores) if index != correct)


def is_tie(scores: Sequence[float], correct: int) -> bool:
    """Whether the right candidate and another one share the best score."""
    return scores[correct] == max(scores) and list(scores).count(scores[correct]) > 1


def is_first_minimum(scores: Sequence[float], correct: int) -> bool:
    """Whether the right candidate is the first of those with the lowest cost, as the scorer of Voita et al. has it."""
    return list(scores).index(max(scores)) == correct


def count_scores(items: Sequence[ContrastiveItem], scores: Sequence[Sequence[float]]) -> dict[str, Any]:
    """
    Count right decisions.

    Args:
        items (`Sequence[ContrastiveItem]`): The items; each counts once.
        scores (`Sequence[Sequence[float]]`): Scores of the candidates of each; the higher, the better.

    Returns:
        `dict`: JSON-able. `items`; `correct` and `accuracy` in percent, by strict inequality; `ties`, which are not
        correct; `first_minimum_correct` and `first_minimum_accuracy`, where the first of the best counts; `chance`,
        the accuracy in percent of drawing a candidate.

    Raises:
        `ValueError`: if there is no score for an item or a candidate, or one is no number.
    """
    pairs = list(zip(items, scores, strict=True))
    for item, values in pairs:
        if len(values) != len(item.candidates) or any(map(math.isnan, values)):
            raise ValueError(f"item {item.id!r} has {len(item.candidates)} candidates and the scores {list(values)}.")
    correct = sum(is_correct(values, item.correct) for item, values in pairs)
    first = sum(is_first_minimum(values, item.correct) for item, values in pairs)
    return {
        "items": len(pairs),
        "correct": correct,
        "accuracy": _percent(correct, len(pairs)),
        "ties": sum(is_tie(values, item.correct) for item, values in pairs),
        "first_minimum_correct": first,
        "first_minimum_accuracy": _percent(first, len(pairs)),
        "chance": _percent(sum(1 / len(item.candidates) for item in items), len(pairs)),
    }


def _percent(part: float, whole: int) -> float | None:
    return round(100 * part / whole, 4) if whole else None


def breakdowns(
    items: Sequence[ContrastiveItem], scores: Sequence[Sequence[float]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """
    Count right decisions in the groups of each label.

    Args:
        items, scores: As in `count_scores`.

    Returns:
        `dict`: for each label that not all items share, the counts of each of its values; every item is in one of
        them, if need be in `"unknown"`.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in dict.fromkeys(name for item in items for name in item.labels):
        values = label_values(items, name)
        if len(set(values)) == 1:
            continue
        found[name] = {}
        for value in sorted(set(values), key=lambda value: (value == UNKNOWN, value.startswith(">"), value)):
            rows = [row for row, of_row in enumerate(values) if of_row == value]
            counts = count_scores([items[row] for row in rows], [scores[row] for row in rows])
            found[name][value] = {key: counts[key] for key in ("items", "correct", "accuracy", "ties")}
    return found


def contrastive_table(result: dict[str, Any]) -> str:
    """Lay out a result for reading: a row a suite, then its groups, then its curve."""
    blocks = [suite_table(result["suites"])]
    for entry in result["suites"]:
        for name, groups in entry["breakdowns"].items():
            rows = [{**counts, "group": group, **_shown(counts)} for group, counts in groups.items()]
            heading = f"{Path(entry['suite']).name}, by {name.replace('_', ' ')}"
            blocks.append(f"{heading}\n{format_table(rows, GROUP_TABLE)}")
        if entry["curve"]:
            rows = [{**point, "group": str(point["context_sentences"]), **_shown(point)} for point in entry["curve"]]
            heading = f"{Path(entry['suite']).name}, by context sentences"
            blocks.append(f"{heading}\n{format_table(rows, GROUP_TABLE)}")
    return "\n\n".join(blocks)


def suite_table(entries: Sequence[dict[str, Any]]) -> str:
    """Lay out suites for reading, a row each."""
    return format_table([_row(entry) for entry in entries], TABLE)


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    context = entry["context"]
    sizes = f"{context['source']} source, {context['target']} target, {context['right']} right"
    rate = entry["items_per_second"]
    return {
        **entry,
        "suite": Path(entry["suite"]).name,
        "context": sizes,
        **_shown(entry),
        "items_per_second": None if rate is None else f"{rate:.1f}",
    }


def _shown(counts: dict[str, Any]) -> dict[str, str | None]:
    names = [name for name in ("accuracy", "chance", "first_minimum_accuracy") if name in counts]
    return {name: None if counts[name] is None else f"{counts[name]:.1f}" for name in names}


def save_curves(path: str | Path, result: dict[str, Any]) -> None:
    """Draw accuracy against context sentences, a line a suite; the dashed lines are chance."""
    pyplot = load_pyplot()
    figure, axis = pyplot.subplots(figsize=(6, 4.2))
    for entry in result["suites"]:
        points = entry["curve"]
        name = Path(entry["suite"]).name.partition(".jsonl")[0]
        (line,) = axis.plot(
            [point["context_sentences"] for point in points],
            [point["accuracy"] for point in points],
            marker="o",
            label=name,
        )
        axis.axhline(entry["chance"], color=line.get_color(), linestyle="--", linewidth=1, alpha=0.6)
    ticks = {point["context_sentences"] for entry in result["suites"] for point in entry["curve"]}
    axis.set_xticks(sorted(ticks))
    axis.set(
        title=f"{result['model']} ({result['system']})",
        xlabel="context sentences before the current one, on both sides",
        ylabel="contrastive accuracy (%)",
        ylim=(0, 102),
    )
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)
