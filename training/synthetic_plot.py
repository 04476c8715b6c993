"""Learning curves of experiments on synthetic tasks."""

from pathlib import Path
from typing import Any

from .learning_scores import WORDS
from .plotting import load_pyplot, save_figure


def save_curves(path: str | Path, runs: list[dict[str, Any]], without_context: dict[str, float]) -> None:
    """
    Draw accuracy against updates: a row of panels for each setting, of all words and of each phenomenon.

    A line is the mean of a system over its seeds, the band about it reaches from the worst to the best.

    Args:
        path (`str` or `Path`): PNG file.
        runs (`list[dict]`): Finished runs, see [`RunFile`].
        without_context (`dict[str, float]`):
            For each phenomenon, the accuracy of one who knows the current sentence alone, a dashed line.
    """
    pyplot = load_pyplot()
    settings = list(dict.fromkeys(run["setting"] for run in runs))
    names = [WORDS, *without_context]
    # phenomena side by side; where there are none, the settings
    shape = (len(settings), len(names)) if without_context else (1, len(settings))
    size = (4.5 * shape[1], 3.6 * shape[0] + 0.8)
    figure, axes = pyplot.subplots(*shape, figsize=size, squeeze=False, sharey=True, layout="constrained")
    # a system keeps its colour where another is missing
    colors = {system: f"C{index}" for index, system in enumerate(dict.fromkeys(run["system"] for run in runs))}
    panels = [(setting, name) for setting in settings for name in names]
    for axis, (setting, name) in zip(axes.flat, panels, strict=True):
        _draw(axis, [run for run in runs if run["setting"] == setting], name, colors)
        if name in without_context:
            axis.axhline(without_context[name], color="grey", linestyle="--", linewidth=1, label="without context")
        # what all panels share is not said in each
        title = setting if len(names) == 1 else name if len(settings) == 1 else f"{setting}: {name}"
        axis.set(title=title, xlabel="updates", ylim=(0, 1.02))
        axis.grid(alpha=0.3)
    axes[0][0].set(ylabel="accuracy")
    lines = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=2 * shape[1], fontsize=8)
    save_figure(figure, path)


def _draw(axis: Any, runs: list[dict[str, Any]], name: str, colors: dict[str, str]) -> None:
    for system in dict.fromkeys(run["system"] for run in runs):
        curves = [run["curve"] for run in runs if run["system"] == system]
        # examinations of one plan come after the same updates
        points = [[point[name] for point in same if point.get(name) is not None] for same in zip(*curves, strict=True)]
        kept = [(curve["updates"], values) for curve, values in zip(curves[0], points, strict=True) if values]
        updates, means = [update for update, _ in kept], [sum(values) / len(values) for _, values in kept]
        axis.plot(updates, means, label=system, linewidth=1.5, color=colors[system])
        lowest, highest = [min(values) for _, values in kept], [max(values) for _, values in kept]
        axis.fill_between(updates, lowest, highest, color=colors[system], alpha=0.2, linewidth=0)
