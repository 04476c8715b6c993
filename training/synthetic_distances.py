"""What systems make of context by its distance, beside how far each of them can see."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .plotting import load_pyplot, save_figure


def save_distances(
    path: str | Path,
    runs: Sequence[dict[str, Any]],
    reach: Iterable[dict[str, Any]],
    without_context: dict[str, float],
) -> None:
    """
    Draw the final accuracy of each phenomenon against its distance: a row for each setting, a line for each system.

    A point is the mean over seeds; it is hollow where the answer is out of the reach of the system. The first panel
    shows how far that is.

    Args:
        path (`str` or `Path`): PNG file.
        runs (`Sequence[dict]`): Finished runs, see [`RunFile`].
        reach (`Iterable[dict]`): Of each setting and system, see `reaches`.
        without_context (`dict[str, float]`): As for `save_curves`.
    """
    pyplot = load_pyplot()
    settings = list(dict.fromkeys(run["setting"] for run in runs))
    systems = list(dict.fromkeys(run["system"] for run in runs))
    # what needs no context has no distance
    names = [name for name, accuracy in without_context.items() if accuracy < 1]
    palette = pyplot.get_cmap("tab10" if len(systems) <= 10 else "tab20")
    colors = {system: palette(index) for index, system in enumerate(systems)}
    shape = len(settings), 1 + len(names)
    size = 4.5 * shape[1], (2.2 + 0.15 * len(systems)) * shape[0]
    figure, axes = pyplot.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
    found = {(row["setting"], row["system"]): row["sentences"] for row in reach}
    for (left, *panels), setting in zip(axes, settings, strict=True):
        sentences = {system: found[setting, system] for system in systems if (setting, system) in found}
        bars = left.barh(list(sentences), list(sentences.values()), color=[colors[system] for system in sentences])
        left.bar_label(bars, padding=2, fontsize=8)
        left.invert_yaxis()
        left.set(title="reach" if len(settings) == 1 else f"{setting}: reach", xlabel="sentences before the current")
        for axis, name in zip(panels, names, strict=True):
            same = [run for run in runs if run["setting"] == setting]
            _draw(axis, same, name, colors, sentences)
            axis.axhline(without_context[name], color="grey", linestyle="--", linewidth=1)
            axis.set(title=name, xlabel="sentences back to the answer", ylim=(-0.02, 1.02))
            axis.grid(alpha=0.3)
        panels[0].set(ylabel="accuracy")
    save_figure(figure, path)


def _draw(
    axis: Any, runs: Sequence[dict[str, Any]], name: str, colors: dict[str, Any], sentences: dict[str, int]
) -> None:
    for system in dict.fromkeys(run["system"] for run in runs):
        found = [run["final"]["read"].get(name, {}).get("by_distance", {}) for run in runs if run["system"] == system]
        distances = sorted({int(distance) for one in found for distance in one})
        values = [[one[str(distance)]["accuracy"] for one in found if str(distance) in one] for distance in distances]
        means = [sum(same) / len(same) for same in values]
        fills = [colors[system] if distance <= sentences.get(system, distance) else "white" for distance in distances]
        axis.plot(distances, means, linewidth=1.2, color=colors[system])
        axis.scatter(distances, means, color=fills, edgecolor=colors[system], s=22, zorder=3)
