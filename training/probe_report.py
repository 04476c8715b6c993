"""Results of `training.probe`: for its file, as a table, and as plots like figures 1 to 3 of the paper."""

from collections.abc import Sequence
from typing import Any

from .measure import format_table
from .plotting import load_pyplot, save_figure
from .probe_training import TOLERANCE, Fit, Score


COLUMNS = {
    "layer": "layer",
    "absolute": "absolute",
    "tolerance": f"within {TOLERANCE}",
    "relative": "relative",
    "relative_near": "at 1",
    "relative_far": "at {0}",
    "order": "order",
    "order_near": "at 1",
    "order_far": "at {0}",
}
TITLES = {"absolute": "absolute position", "relative": "relative position", "order": "word order"}


def describe_layers(scores: dict[str, Score], fit: Fit) -> list[dict[str, Any]]:
    """Accuracies of each layer in percent, the embeddings first."""
    layers: list[dict[str, Any]] = [{"layer": layer} for layer in range(len(scores["absolute"].correct))]
    for task, score in scores.items():
        columns: dict[str, list] = {"accuracy": score.accuracy()}
        if task == "absolute":
            columns["tolerance_accuracy"] = score.tolerance_accuracy()
        else:
            columns["by_distance"] = score.by_group()
        columns["validation_accuracy"] = fit.validation_accuracy[task]
        columns["picked_update"] = fit.picked_update[task]
        for index, layer in enumerate(layers):
            layer[task] = {name: column[index] for name, column in columns.items()}
    return layers


def probe_table(results: dict[str, Any]) -> str:
    """Accuracy in percent, a row a layer; for pairs also at the smallest and at the largest distance."""
    farthest = results["max_distance"]
    columns = {name: heading.format(farthest) for name, heading in COLUMNS.items()}
    lines = []
    for model in results["models"]:
        rows: list[dict[str, Any]] = [_table_row(layer, model["distances"]) for layer in model["layers"]]
        chance = {task: f"{model['chance'][task]:.1f}" for task in TITLES}
        constant = f"{model['constant_answer']['absolute']:.1f}"
        rows += [{"layer": "chance", **chance}, {"layer": "one answer", "absolute": constant}]
        lines += [f"{model['name']} ({model['system']}), {model['num_positions']} positions", ""]
        lines += [format_table(rows, columns), ""]
    return "\n".join(lines)


def _table_row(layer: dict[str, Any], distances: Sequence[int]) -> dict[str, Any]:
    row = {"layer": str(layer["layer"]), "tolerance": f"{layer['absolute']['tolerance_accuracy']:.1f}"}
    for task in TITLES:
        row[task] = f"{layer[task]['accuracy']:.1f}"
    for task in ("relative", "order"):
        for name, distance in (("near", 1), ("far", max(distances))):
            value = at_distance(layer[task], distances, distance)
            row[f"{task}_{name}"] = "" if value is None else f"{value:.1f}"
    return row


def at_distance(scores: dict[str, Any], distances: Sequence[int], distance: int) -> float | None:
    """
    Accuracy in percent of pairs that are so far apart, mean of both directions; `None` where no pair is.

    Args:
        scores (`dict`): Those of a task in a layer, of `describe_layers`.
        distances (`Sequence[int]`): Signed distances, in the order of `scores["by_distance"]`.
        distance (`int`): Tokens, without a sign.
    """
    found = dict(zip(distances, scores["by_distance"], strict=True))
    both = [value for value in (found[-distance], found[distance]) if value is not None]
    return sum(both) / len(both) if both else None


def save_probe_plot(path: str, results: dict[str, Any]) -> None:
    """
    Draw accuracy by layer (above, and below for nearly right positions) and by signed distance (below).

    By distance there is a line for each layer of a single model; of several models, a line for the top layer of each.
    """
    pyplot = load_pyplot()
    figure, axes = pyplot.subplots(2, 3, figsize=(15, 8))
    for axis, task in zip(axes[0], TITLES, strict=True):
        _draw_by_layer(axis, results["models"], task, "accuracy", TITLES[task])
    _draw_by_layer(
        axes[1][0], results["models"], "absolute", "tolerance_accuracy", f"absolute position, within {TOLERANCE}"
    )
    for axis, task in zip(axes[1][1:], ("relative", "order"), strict=True):
        _draw_by_distance(axis, results["models"], task)
    for axis in axes.flat:
        axis.set(ylabel="accuracy (%)", ylim=(0, 102))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.tight_layout()
    save_figure(figure, path)


def _draw_by_layer(axis: Any, models: Sequence[dict[str, Any]], task: str, measure: str, title: str) -> None:
    for model in models:
        layers = [layer["layer"] for layer in model["layers"]]
        axis.plot(layers, [layer[task][measure] for layer in model["layers"]], marker="o", label=model["name"])
        axis.set_xticks(layers)
    _draw_chance(axis, models, task)
    axis.set(title=title, xlabel="encoder layer (0: embeddings)")


def _draw_by_distance(axis: Any, models: Sequence[dict[str, Any]], task: str) -> None:
    lines = [(model["name"], model["distances"], model["layers"][-1]) for model in models]
    if len(models) == 1:
        lines = [(f"layer {layer['layer']}", models[0]["distances"], layer) for layer in models[0]["layers"]]
    for name, distances, layer in lines:
        found = dict(zip(distances, layer[task]["by_distance"], strict=True))
        # nothing stands at distance 0, where the line breaks
        x = list(range(min(distances), max(distances) + 1))
        axis.plot(x, [float("nan") if found.get(d) is None else found[d] for d in x], marker=".", label=name)
    _draw_chance(axis, models, task)
    axis.set(title=TITLES[task] + (", top layer" if len(models) > 1 else ""), xlabel="signed distance i - j (tokens)")


def _draw_chance(axis: Any, models: Sequence[dict[str, Any]], task: str) -> None:
    # of absolute positions it depends on the model, and cannot be told from 0
    if task != "absolute":
        axis.axhline(models[0]["chance"][task], color="grey", linestyle=":", label="chance")
