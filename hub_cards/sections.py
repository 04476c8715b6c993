"""Parts of a model card that come from result files: tables and sentences, or nothing where a number is missing."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


NAMES_OF_SYSTEMS = {"copy": "copy of the source"}

Json = dict[str, Any]


def score_section(model_name: str, evaluations: Sequence[Json]) -> Json:
    """
    Lay out the scores: the model, what it was compared with in its own result, then the systems of other results.

    Returns:
        `dict`: `measures`, `score_rows`, `signatures`, `difference_rows`, `resamples`; empty without an evaluation.
    """
    if not evaluations:
        return {}
    main, others = evaluations[0], evaluations[1:]
    measures = list(main["test_sets"][0]["scores"])
    section: Json = {"measures": measures, "score_rows": [], "signatures": {}, "difference_rows": []}
    for test_set in main["test_sets"]:
        name = test_set["name"]
        systems = {f"**{model_name}**": test_set["scores"]}
        for baseline, result in test_set["baselines"].items():
            systems[NAMES_OF_SYSTEMS.get(baseline, baseline)] = result["scores"]
            section["difference_rows"] += _differences(name, baseline, result)
            section["resamples"] = result.get("bootstrap", {}).get("resamples", section.get("resamples"))
        for other in others:
            for entry in other["test_sets"]:
                if entry["sha256"] == test_set["sha256"]:
                    systems[other["name"]] = entry["scores"]
        for system, scores in systems.items():
            section["score_rows"].append([name, system, *(_score(scores.get(measure)) for measure in measures)])
        section["signatures"] |= {measure: score["signature"] for measure, score in test_set["scores"].items()}
    return section


def _score(score: Json | None) -> str:
    # a measure of what does not occur has no value
    return "" if score is None or score["score"] is None else f"{score['score']:.1f}"


def _differences(test_set: str, baseline: str, result: Json) -> list[list[str]]:
    rows = []
    for measure, found in result.get("bootstrap", {}).get("measures", {}).items():
        if found["interval"] is None or found["p_value"] is None:
            continue  # nothing to count in one of the two
        low, high = found["interval"]
        numbers = [f"{found['difference']:+.2f}", f"{low:+.2f} to {high:+.2f}", f"{found['p_value']:.3f}"]
        rows.append([test_set, NAMES_OF_SYSTEMS.get(baseline, baseline), measure, *numbers])
    return rows


def decoding_sentence(evaluation: Json | None) -> str | None:
    """Say how the scored translations were made."""
    if not evaluation or "decoding" not in evaluation:
        return None
    options = evaluation["decoding"]
    beams = "greedy search" if options["num_beams"] == 1 else f"beam search with {options['num_beams']} beams"
    mode = f"`decoding={json.dumps(options['decoding'])}`"
    sentence = f"The scores were made with {mode} and {beams}, in {options['dtype']}"
    kept = ("source_context", "source_context_sentences", "target_context_sentences", "length_penalty")
    extra = [f"`{name}={options[name]!r}`" for name in kept if name in options]
    return sentence + (f", {', '.join(extra)}" if extra else "") + "."


def context_sentence(config: Json) -> str | None:
    """Say what the model sees besides the sentence that it translates."""
    sequence_format = config.get("sequence_format")
    if sequence_format == "sentence":
        return "It translates each sentence by itself; the sentences around it are not seen."
    if sequence_format == "context_window":
        count = config["context_sentences"]
        noun = "sentence" if count == 1 else f"{count} sentences"
        return f"It sees the {noun} before the one that it translates, and its own translation of them."
    if sequence_format == "source_context":
        count = config["context_sentences"]
        return f"It sees the source of the {count} sentences before the one that it translates, not their translation."
    if sequence_format == "document":
        return "It sees all sentences of a part of the document, and its own translation of those before."
    return None


def training_title(index: int, training: Json) -> str:
    """Say whose training run this is."""
    if index == 0:
        start = training.get("init_from")
        return "This model" + (f", which started from `{start}`:" if start else ":")
    is_marian = training.get("architecture") == "marian"
    kind = "a MarianMTModel of the same size" if is_marian else f"`{training['system']}`"
    return f"For comparison, or as its start, {kind} (`{training['result_file']}`):"


def training_lines(training: Json) -> list[str]:
    """
    Describe a training run and what it cost, one line a fact.

    Args:
        training (`dict`):
            Result of `training.train`. Lines whose numbers are missing are left out.
    """
    run = training.get("run", {})
    hardware, metrics = run.get("hardware", {}), training.get("metrics", {})
    device = hardware.get("gpu") or hardware.get("cpu")
    threads = hardware.get("torch_threads")
    device_text = f"{device}, {threads} threads" if device and threads and "gpu" not in hardware else device
    seconds = metrics.get("train_runtime")
    candidates = [
        ("System `{}`", (training.get("system"),)),
        ("{:,} parameters", (training.get("parameters"),)),
        ("{:,} training sequences, {:,} target tokens", _both(training, "train_sequences", "train_target_tokens")),
        ("{:,} updates of {:,} tokens", _both(training, "updates", "train_batch_tokens")),
        ("{:.2f} passes over the texts", (training.get("epochs"),)),
        ("Cost: {:.0f} minutes, {:.1f} CPU hours", (_over(seconds, 60), _over(training.get("cpu_seconds"), 3600))),
        ("Hardware: {}", (device_text,)),
        ("Precision: {}; seed {}", (training.get("precision"), training.get("seed"))),
        ("Code: commit `{}`", (run.get("commit"),)),
        ("Command: `{}`", (run.get("command"),)),
    ]
    return [text.format(*values) for text, values in candidates if None not in values]


def _both(result: Json, *keys: str) -> tuple[Any, ...]:
    return tuple(result.get(key) for key in keys)


def _over(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def data_rows(trainings: Sequence[Json], licences: Json) -> list[list[str]]:
    """
    List the training texts with their origin and licence.

    Raises:
        `ValueError`: for a training file whose licence is not known; such a model must not be published.
    """
    rows = []
    # those of the run that the model started from are in its weights too
    files = dict.fromkeys(file for training in trainings for file in training["train_files"])
    for file in files:
        name = Path(file).name.removesuffix(".gz").removesuffix(".jsonl")
        entry = licences.get(name.split(".")[-1])
        if entry is None:
            raise ValueError(
                f"there is no licence for the training file {file!r}. Add it to hub_cards/data_licences.yaml, or "
                "train without it."
            )
        rows.append([f"{entry['origin']} (`{name}`)", entry["licence"], entry.get("note", "")])
    return rows


def example_rows(example: Sequence[Json], translations: Sequence[str]) -> list[list[str]]:
    """Set wrong translations beside what was wanted; what came out as wanted, or is only context, is left out."""
    rows = []
    for sentence, translation in zip(example, translations, strict=True):
        if "why" in sentence and translation != sentence["wanted"]:
            cells = (sentence["source"], translation, sentence["wanted"], sentence["why"])
            rows.append([cell.replace("|", "\\|") for cell in cells])
    return rows


def result_source(evaluation: Json | None) -> str | None:
    """Name the result file behind the numbers, with its commit and date."""
    if evaluation is None:
        return None
    run = evaluation["run"]
    commit = f", commit `{run['commit'][:12]}`" if "commit" in run else ""
    return f"All numbers are from `{evaluation['result_file']}` of {run['date'][:10]}{commit}."


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int | None = None) -> list[str]:
    """
    Lay out a table.

    Args:
        header (`Sequence[str]`):
            Names of the columns.
        rows (`Sequence[Sequence[str]]`):
            Cells.
        texts (`int`, *optional*):
            How many columns hold text; the rest holds numbers, which stand on the right. All by default.
    """
    texts = len(header) if texts is None else texts
    rule = "|" + "---|" * texts + "--:|" * (len(header) - texts)
    return ["| " + " | ".join(header) + " |", rule, *("| " + " | ".join(row) + " |" for row in rows)]
