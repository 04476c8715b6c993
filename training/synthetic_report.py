"""Results of experiments on synthetic tasks: a file that grows by a run at a time, and tables."""

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .learning_scores import WORDS
from .measure import format_table
from .probe_report import at_distance
from .probe_training import TOLERANCE
from .results import portable_path, write_json_atomic
from .synthetic_experiment import Run


# how the measures of probes begin in a summary
PROBE = "probe_"


class RunFile:
    """
    Finished runs in a JSON file, which is written anew after each.

    Args:
        path (`str` or `Path`): The file; runs that are in it are kept.
        task (`str`): Name of the task.

    Raises:
        `ValueError`: if the file is of another task, or something else.
    """

    def __init__(self, path: str | Path, task: str):
        self.path = Path(path)
        self.content: dict[str, Any] = {"kind": "synthetic", "task": task, "summary": [], "runs": []}
        if self.path.exists():
            self.content = json.loads(self.path.read_text(encoding="utf-8"))
            found = self.content.get("kind"), self.content.get("task")
            if found != ("synthetic", task):
                raise ValueError(
                    f"{portable_path(path)}: holds results of {found[0]!r} {found[1]!r}, not of 'synthetic' {task!r}. "
                    "Name another `output`."
                )

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Finished runs, in the order in which they were done."""
        return self.content["runs"]

    def has(self, run: Run) -> bool:
        """
        Whether a run is done.

        Raises:
            `ValueError`: if one of its name is, but by another recipe.
        """
        done, recipe = self._find(run), run.recipe()
        if done is not None and done["recipe"] != recipe:
            names = dict.fromkeys([*recipe, *done["recipe"]])
            differing = [name for name in names if done["recipe"].get(name) != recipe.get(name)]
            raise ValueError(
                f"{portable_path(self.path)}: {run.key} was run with other options ({', '.join(differing)}). Name "
                "another `output`, or remove the runs that no longer count."
            )
        return done is not None

    def add(self, run: Run, results: dict[str, Any], recipe: dict[str, Any]) -> None:
        """
        Keep a run.

        Args:
            run (`Run`): The run.
            results (`dict`): What `learn` returned.
            recipe (`dict`): What `run_info` says of this process.
        """
        setting, system, seed = run.key
        entry = {"setting": setting, "system": system, "seed": seed, "recipe": run.recipe(), **results, "run": recipe}
        self.runs.append(entry)
        self._write()

    def keep_reach(self, reach: list[dict[str, Any]]) -> None:
        """
        Keep how far systems see.

        Args:
            reach (`list[dict]`): As `reaches` finds it.
        """
        self.content["reach"] = reach
        self._write()

    def take(self, other: "RunFile", wanted: Sequence[Run]) -> int:
        """
        Take over runs that another process did, and put all in the order of the experiment.

        Args:
            other (`RunFile`): File of the other process.
            wanted (`Sequence[Run]`): Runs of the experiment.

        Returns:
            `int`: how many were not here.

        Raises:
            `ValueError`: as in `has`.
        """
        found = [other._find(run) for run in wanted if other.has(run) and not self.has(run)]
        missing = [entry for entry in found if entry is not None]
        self.runs.extend(missing)
        order = {run.key: index for index, run in enumerate(wanted)}
        self.runs.sort(key=lambda entry: order.get(_key(entry), len(order)))
        self._write()
        return len(missing)

    def _find(self, run: Run) -> dict[str, Any] | None:
        return next((entry for entry in self.runs if _key(entry) == run.key), None)

    def _write(self) -> None:
        self.content["summary"] = summarize(self.runs)
        write_json_atomic(self.path, self.content)


def _key(entry: dict[str, Any]) -> tuple[str, str, int]:
    return entry["setting"], entry["system"], entry["seed"]


def summarize(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """
    One row a setting and system: mean, least and greatest accuracy over the seeds, in percent.

    Accuracies are of the words after right translations (`words`), of translations (`translated`), and of each
    phenomenon in both ways; where these were examined, also of single sentences (`single`) and of probes by layer
    (`probe`).
    """
    rows = []
    for setting, system in dict.fromkeys((run["setting"], run["system"]) for run in runs):
        same = [run for run in runs if (run["setting"], run["system"]) == (setting, system)]
        row: dict[str, Any] = {"setting": setting, "system": system, "seeds": len(same)}
        row["parameters"] = same[0]["parameters"]
        row["cpu_seconds"] = round(statistics.mean(run["cpu_seconds"] for run in same), 1)
        for name in same[0]["final"]["read"]:
            row |= _spread(name, [run["final"]["read"].get(name, {}).get("accuracy") for run in same])
        for name in same[0]["final"]["translated"]:
            values = [run["final"]["translated"].get(name, {}).get("accuracy") for run in same]
            row |= _spread(f"translated_{name}", values)
        for measures in (_single_measures, _probe_measures):
            found = [measures(run) for run in same]
            for name in found[0]:
                row |= _spread(name, [one.get(name) for one in found])
        rows.append(row)
    return rows


def _single_measures(run: dict[str, Any]) -> dict[str, float | None]:
    """Accuracies on single sentences."""
    if "single_sentences" not in run:
        return {}
    ways = {"single": run["single_sentences"]["read"], "translated_single": run["single_sentences"]["translated"]}
    return {f"{way}_{name}": entry["accuracy"] for way, entries in ways.items() for name, entry in entries.items()}


def _probe_measures(run: dict[str, Any]) -> dict[str, float | None]:
    """Accuracies of probes by layer; of pairs also for neighbours, which documents of all lengths have."""
    measures: dict[str, float | None] = {}
    probe = run.get("probe", {"layers": []})
    for layer in probe["layers"]:
        percent = {
            "absolute": layer["absolute"]["accuracy"],
            f"within_{TOLERANCE}": layer["absolute"]["tolerance_accuracy"],
        }
        for task in ("relative", "order"):
            percent[task] = layer[task]["accuracy"]
            percent[f"{task}_at_1"] = at_distance(layer[task], probe["distances"], 1)
        for name, value in percent.items():
            measures[f"{PROBE}{name}_layer_{layer['layer']}"] = None if value is None else value / 100
    return measures


def _spread(name: str, values: Iterable[float | None]) -> dict[str, Any]:
    found = [100 * value for value in values if value is not None]
    if not found:
        return {}
    return {name: round(statistics.mean(found), 1), f"{name}_range": [round(min(found), 1), round(max(found), 1)]}


def summary_table(summary: list[dict[str, Any]]) -> str:
    """The means of a summary as text, but for probes."""
    names = dict.fromkeys(name for row in summary for name, value in row.items() if not isinstance(value, list))
    return format_table(summary, {name: name.replace("_", " ") for name in names if not name.startswith(PROBE)})


def probe_rows(summary: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Accuracy of probes in percent, a row a layer, the embeddings first; and the columns with their titles."""
    rows: list[dict[str, Any]] = []
    columns = {name: name for name in ("setting", "system", "layer")}
    for entry in summary:
        layers: dict[str, dict[str, Any]] = {}
        for name, value in entry.items():
            measure, found, layer = name.removeprefix(PROBE).partition("_layer_")
            if name.startswith(PROBE) and found and not isinstance(value, list):
                columns.setdefault(measure, measure.replace("_", " "))
                layers.setdefault(layer, {"setting": entry["setting"], "system": entry["system"], "layer": layer})
                layers[layer][measure] = value
        rows += layers.values()
    return rows, columns


def probe_summary_table(summary: list[dict[str, Any]]) -> str:
    """The accuracy of probes as text; empty without probes."""
    rows, columns = probe_rows(summary)
    return format_table(rows, columns) if rows else ""


def distance_table(runs: list[dict[str, Any]]) -> str:
    """Accuracy of each phenomenon by distance, in percent, mean over seeds; empty without phenomena."""
    rows = []
    for setting, system in dict.fromkeys((run["setting"], run["system"]) for run in runs):
        same = [run["final"]["read"] for run in runs if (run["setting"], run["system"]) == (setting, system)]
        for name in same[0]:
            if name == WORDS:
                continue
            row: dict[str, Any] = {"setting": setting, "system": system, "phenomenon": name}
            for distance in same[0][name]["by_distance"]:
                values = [read.get(name, {}).get("by_distance", {}).get(distance, {}).get("accuracy") for read in same]
                row |= {key: value for key, value in _spread(distance, values).items() if key == distance}
            rows.append(row)
    distances = sorted({key for row in rows for key in row if key.isdigit()}, key=int)
    names = {"setting": "setting", "system": "system", "phenomenon": "phenomenon"}
    return format_table(rows, names | {name: name for name in distances}) if rows else ""
