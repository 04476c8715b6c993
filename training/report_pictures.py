"""Pictures of a report: curves as SVG, which takes its colours from the page, and pictures that lie beside results."""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .plotting import load_pyplot
from .report_context import context_text, distinct_suites
from .report_results import Result, run_name, suite_name
from .report_systems import SystemRow


# lines that can be told apart on light and on dark ground, and by those who do not see all colours
COLORS = ("#0077bb", "#ee7733", "#009988", "#cc3377", "#8866cc", "#997700", "#5588aa", "#cc6655")
MARKERS = "osD^vPX*"
LOSSES = {"loss": "training", "eval_loss": "validation"}
# stands for the colour of the text of the page, which is not known while drawing
_TEXT = "#010203"
_SETTINGS = {
    "svg.fonttype": "none",
    # same input, same names of parts
    "svg.hashsalt": "docmt",
    "font.family": "sans-serif",
    "font.size": 10,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _TEXT),
    "grid.color": _TEXT,
    "grid.alpha": 0.15,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # names are text, not formulas
    "text.parse_math": False,
}


Line = tuple[Sequence[float], Sequence[float], int]


def _panel(lines: Mapping[str, Line], chance: float | None = None, **axes: Any) -> str:
    """Draw lines by name, each as x, y and the number of its colour."""
    pyplot = load_pyplot()
    with pyplot.rc_context(_SETTINGS):
        figure, axis = pyplot.subplots(figsize=(5.4, 3.2 + 0.22 * len(lines)), layout="constrained")
        for name, (x, y, place) in lines.items():
            color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
            axis.plot(x, y, color=color, marker=marker if len(x) < 20 else "", markersize=5, label=name)
        if chance is not None:
            axis.axhline(chance, color="#888888", linestyle="--", linewidth=1, label="chance")
        axis.set(**axes)
        axis.xaxis.get_major_locator().set_params(integer=True)
        figure.legend(loc="outside lower left", frameon=False, fontsize=9)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True)
        pyplot.close(figure)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(_TEXT, "currentColor")
    # who drew it and when is no part of the picture
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    # as wide as it is drawn, and never wider than the page
    return re.sub(r'(<svg[^>]*?) width="([\d.]+)pt" height="[\d.]+pt"', r'\1 style="max-width:\2pt"', svg, count=1)


def context_curves(rows: Sequence[SystemRow]) -> list[str]:
    """Contrastive accuracy against context sentences: a picture a suite, a line a system; none without curves."""
    entries = [(row.name, entry) for row, entry in distinct_suites(rows) if entry.get("curve")]
    names = list(dict.fromkeys(name for name, _ in entries))
    pictures = []
    for suite in dict.fromkeys(suite_name(entry) for _, entry in entries):
        lines = {}
        of_suite = [(name, entry) for name, entry in entries if suite_name(entry) == suite]
        for name, entry in of_suite:
            points = [point for point in entry["curve"] if point["accuracy"] is not None]
            label = f"{name} ({context_text(entry)})" if [n for n, _ in of_suite].count(name) > 1 else name
            while label in lines:
                label += " again"
            x, y = [point["context_sentences"] for point in points], [point["accuracy"] for point in points]
            lines[label] = (x, y, names.index(name))
        labels = {"xlabel": "context sentences on both sides", "ylabel": "accuracy, %", "ylim": (0, 102)}
        pictures.append(_panel(lines, of_suite[0][1].get("chance"), title=suite, **labels))
    return pictures


def loss_curves(results: Sequence[Result]) -> list[str]:
    """Loss against updates, in training and on validation documents, a line a run; none without any history."""
    runs = [result for result in results if result["kind"] == "training" and result.get("loss_curve")]
    pictures = []
    for loss, title in LOSSES.items():
        lines = {}
        for place, run in enumerate(runs):
            points = [(point["step"], point[loss]) for point in run["loss_curve"] if loss in point]
            if points:
                x, y = zip(*points, strict=True)
                lines[run_name(run) or f"{run['system']}, run {place + 1}"] = (x, y, place)
        if lines:
            pictures.append(_panel(lines, title=title, xlabel="updates", ylabel="loss, nats a token"))
    return pictures


def pictures_beside(paths: Sequence[str | Path]) -> list[Path]:
    """The pictures that lie beside result files, `synthetic.length.png` beside `synthetic.length.json`."""
    beside = [Path(path).with_name(name) for path in paths for name in picture_names(Path(path).stem)]
    return [picture for picture in beside if picture.is_file()]


def picture_names(stem: str) -> list[str]:
    """The names that pictures of a result file can have, by its own without `.json`."""
    return [f"{stem}.png", f"{stem}.distances.png"]


def embedded(path: Path) -> str:
    """A PNG file as a part of the page."""
    content = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img class="picture" alt="{escape(path.name)}" src="data:image/png;base64,{content}">'
