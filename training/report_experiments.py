"""Tables of what is no score of a system: probes, synthetic tasks, training, time, and signatures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .metrics import ALL_MEASURES
from .report_cells import MISSING, NOTHING, Cell, Column, Table, number
from .report_results import LISTED, Result, run_name
from .synthetic_report import PROBE, probe_rows


# of an entry of a benchmark: what it is, and the ratios in it
RATIO_OF = ("scenario", "queries", "variant", "decoding", "batch_size")
RATIOS = ("times_slower", "times_larger", "speed_up")


def _of_kind(results: Sequence[Result], kind: str) -> list[Result]:
    return [result for result in results if result["kind"] == kind]


def _range(interval: Sequence[float] | None) -> str:
    return "" if interval is None or interval[0] == interval[1] else f"{interval[0]:.1f} – {interval[1]:.1f}"


def synthetic_tables(results: Sequence[Result]) -> list[Table]:
    """Means and ranges over seeds on each synthetic task."""
    tables = []
    for result in _of_kind(results, "synthetic"):
        rows = result["summary"]
        found = dict.fromkeys(
            name for row in rows for name in row if f"{name}_range" in row and not name.startswith(PROBE)
        )
        measures = sorted(found, key=lambda name: name.startswith("translated_"))
        columns = [
            Column("system", is_text=True),
            Column("parameters"),
            Column("seeds"),
            Column("CPU seconds", note="mean of a run"),
            *(Column(name.removeprefix("translated_").replace("_", " "), _way(name)) for name in measures),
        ]
        blocks = []
        for setting in dict.fromkeys(row["setting"] for row in rows):
            lines = [
                [
                    Cell(row["system"]),
                    Cell(f"{row['parameters']:,}"),
                    Cell(str(row["seeds"])),
                    Cell(number(row.get("cpu_seconds"), 0)),
                    *(Cell(number(row.get(name)), _range(row.get(f"{name}_range"))) for name in measures),
                ]
                for row in rows
                if row["setting"] == setting
            ]
            blocks.append(("" if setting == "default" else f"setting: {setting}", lines))
        note = "Right words in percent: mean, and the worst and the best seed."
        tables.append(Table(f"Synthetic task: {result['task']}", columns, blocks, note).without_empty_columns())
    return tables


def synthetic_probe_tables(results: Sequence[Result]) -> list[Table]:
    """What probes read from the encoder states of synthetic runs, layer by layer."""
    tables = []
    for result in _of_kind(results, "synthetic"):
        rows, titles = probe_rows(result["summary"])
        texts = ("setting", "system")
        columns = [Column(title, is_text=name in texts) for name, title in titles.items()]
        cells = [
            [Cell(str(row[name]) if name in (*texts, "layer") else number(row.get(name))) for name in titles]
            for row in rows
        ]
        if cells:
            note = "Right answers of probes in percent; layer 0 are the embeddings."
            tables.append(Table(f"Probes of the encoder: {result['task']}", columns, [("", cells)], note))
    return tables


def _way(name: str) -> str:
    return "in greedy translations" if name.startswith("translated_") else "behind right translations"


def probe_tables(results: Sequence[Result]) -> list[Table]:
    """What encoder states know of positions, a block for each model."""
    tables = []
    for result in _of_kind(results, "probe"):
        columns = [
            Column("layer", is_text=True),
            Column("exactly", "absolute position"),
            Column(f"within {result['tolerance']}", "absolute position"),
            Column("relative position"),
            Column("word order"),
        ]
        blocks = []
        for model in result["models"]:
            lines = [
                [
                    Cell(str(layer["layer"]) if layer["layer"] else "embeddings"),
                    Cell(number(layer["absolute"]["accuracy"])),
                    Cell(number(layer["absolute"]["tolerance_accuracy"])),
                    Cell(number(layer["relative"]["accuracy"])),
                    Cell(number(layer["order"]["accuracy"])),
                ]
                for layer in model["layers"]
            ]
            chance = model["chance"]
            cells = [number(chance["absolute"]), MISSING, number(chance["relative"]), number(chance["order"])]
            lines.append([Cell("chance"), *map(Cell, cells)])
            blocks.append((f"{model['name']} ({model.get('system', MISSING)})", lines))
        title = f"Probes of positions, {run_name(result)}" if run_name(result) else "Probes of positions"
        tables.append(Table(title, columns, blocks, "Accuracy of linear probes on encoder states, in percent."))
    return tables


def training_table(results: Sequence[Result]) -> Table:
    """What was trained, on how much, at what cost, and how far the loss came."""
    columns = [
        Column("run", is_text=True),
        Column("started from", is_text=True),
        Column("parameters"),
        Column("updates"),
        Column("tokens", note="a batch, at most"),
        Column("epochs"),
        Column("CPU hours"),
        Column("training", "last loss"),
        Column("validation", "last loss"),
    ]
    lines = []
    for result in _of_kind(results, "training"):
        cpu, batch = result.get("cpu_seconds"), result.get("train_batch_tokens")
        losses = [
            next((point[name] for point in reversed(result.get("loss_curve", [])) if name in point), None)
            for name in ("loss", "eval_loss")
        ]
        parameters, updates = result.get("parameters"), result.get("updates")
        kind = result["system"] if result.get("architecture", "docmt") == "docmt" else result["architecture"]
        lines.append(
            [
                Cell(run_name(result) or result["system"], kind),
                Cell(Path(result["init_from"]).name if result.get("init_from") else MISSING),
                Cell(MISSING if parameters is None else f"{parameters:,}"),
                Cell(MISSING if updates is None else f"{updates:,}"),
                Cell(MISSING if batch is None else f"{batch:,}"),
                Cell(number(result.get("epochs"), 2)),
                Cell(number(None if cpu is None else cpu / 3600, 2)),
                *(Cell(number(loss, 3)) for loss in losses),
            ]
        )
    return Table("Runs", columns, [("", lines)])


def _ratios(result: Result) -> dict[str, float]:
    """What a benchmark was made for, else the ratios of its entries."""
    found = dict(result.get("goals", {}))
    for entry in () if found else result.get("entries", ()):
        label = ", ".join(f"{name.replace('_', ' ')} {entry[name]}" for name in RATIO_OF if name in entry)
        found |= {f"{label}: {name.replace('_', ' ')}": entry[name] for name in RATIOS if name in entry}
    return found


def listed_table(results: Sequence[Result]) -> Table:
    """Benchmarks and reports: the ratios that they measured, by file."""
    columns = [Column("measured", is_text=True), Column("value")]
    blocks = []
    for result in results:
        if result["kind"] in LISTED:
            lines = [[Cell(name), Cell(number(value, 3))] for name, value in _ratios(result).items()]
            name = result.get("result_file", result["kind"])
            kind = result["kind"].replace("-", " ")
            blocks.append((f"{name} · {kind}", lines or [[Cell("see the file"), NOTHING]]))
    return Table("Time and memory", columns, blocks)


def signature_table(results: Sequence[Result]) -> Table:
    """Signatures of all measures, each with the test sets on which it was used."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for result in _of_kind(results, "evaluation"):
        for entry in result["test_sets"]:
            groups = [entry["scores"], *(baseline["scores"] for baseline in entry.get("baselines", {}).values())]
            pairs = [(measure, score["signature"]) for group in groups for measure, score in group.items()]
            if "context_use" in entry:
                pairs.append(("context use", str(entry["context_use"].get("signature", MISSING))))
            for pair in pairs:
                found.setdefault(pair, {})[entry["name"]] = None
    place = {measure: index for index, measure in enumerate(ALL_MEASURES)}
    lines = [
        [Cell(measure), Cell(signature), Cell(", ".join(names))]
        for (measure, signature), names in sorted(
            found.items(), key=lambda item: (place.get(item[0][0], len(place)), item[0])
        )
    ]
    columns = [Column(name, is_text=True) for name in ("measure", "signature", "test sets")]
    return Table("Signatures", columns, [("", lines)])


def class_table(results: Sequence[Mapping[str, Any]]) -> Table:
    """What pronoun-F1 and formality-F1 are made of: each class of pronouns."""
    columns = [
        Column("system", is_text=True),
        Column("measure", is_text=True),
        Column("class", is_text=True),
        Column("F1"),
        Column("precision"),
        Column("recall"),
        Column("in hypotheses"),
        Column("in references"),
    ]
    blocks: dict[str, list[list[Cell]]] = {}
    for result in _of_kind(results, "evaluation"):
        for entry in result["test_sets"]:
            for measure, score in entry["scores"].items():
                for name, found in score.get("classes", {}).items():
                    rates = [Cell(number(found[rate])) for rate in ("score", "precision", "recall")]
                    counts = [Cell(f"{found[side]:,}") for side in ("hypothesis", "reference")]
                    line = [Cell(run_name(result) or result["name"]), Cell(measure), Cell(name), *rates, *counts]
                    blocks.setdefault(entry["name"], []).append(line)
    return Table("Pronouns by class", columns, list(blocks.items()))
