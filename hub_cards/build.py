"""
Fill the card of a model from result files, and say under which terms its training texts were.

    python -m hub_cards.build EVALUATION.json TRAINING.json... --model_dir hub_cards/docmt-tiny-en-de

Input: results of `training.evaluate` and `training.train`; the first of each kind is that of the model, further ones
are systems to compare with. Facts that are no numbers come from `hub_cards/<model folder>.yaml`, licences from
`hub_cards/data_licences.yaml`. Output: `README.md` and `LICENSE.md` in the model folder. A number that is in no result
file is not in the card: its line is left out.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from training.results import write_text_atomic


FOLDER = Path(__file__).resolve().parent
METRIC_TYPES = {"s-BLEU": "bleu", "d-BLEU": "bleu", "chrF": "chrf", "TER": "ter"}
NAMES_OF_SYSTEMS = {"copy": "copy of the source"}

Json = dict[str, Any]


def load_results(paths: Sequence[str | Path]) -> tuple[list[Json], list[Json]]:
    """
    Read result files.

    Returns:
        `tuple[list[dict], list[dict]]`: results of evaluations, and of training runs, in the order given.

    Raises:
        `ValueError`: for a file that is neither.
    """
    found: dict[str, list[Json]] = {"evaluation": [], "training": []}
    for path in paths:
        result = json.loads(Path(path).read_text(encoding="utf-8"))
        kind = result.get("kind") if isinstance(result, dict) else None
        if kind not in found:
            raise ValueError(
                f"{path}: `kind` must be 'evaluation' or 'training', got {kind!r}. Give files that "
                "`training.evaluate` or `training.train` wrote."
            )
        found[kind].append({**result, "result_file": Path(path).name})
    return found["evaluation"], found["training"]


def load_yaml(path: str | Path) -> Json:
    """Read a YAML file that holds a mapping."""
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def card_metadata(facts: Json, model_name: str, evaluation: Json | None) -> ModelCardData:
    """
    Build the metadata of the card, the scores included.

    Args:
        facts (`dict`):
            Languages and licence.
        model_name (`str`):
            Name of the model on the Hub.
        evaluation (`dict`, *optional*):
            Result of `training.evaluate`.
    """
    languages = list(facts["languages"])
    results = []
    for test_set in evaluation["test_sets"] if evaluation else []:
        for measure, score in test_set["scores"].items():
            results.append(
                EvalResult(
                    task_type="translation",
                    task_name=f"Document translation {' to '.join(facts['languages'].values())}",
                    dataset_type=test_set["name"],
                    dataset_name=test_set["name"],
                    dataset_split="test",
                    dataset_args={"sha256": test_set["sha256"]},
                    metric_type=METRIC_TYPES[measure],
                    metric_name=measure,
                    metric_value=round(score["score"], 2),
                    metric_args={"signature": score["signature"]},
                )
            )
    return ModelCardData(
        language=languages,
        license=facts["license"],
        license_name=facts.get("license_name"),
        license_link=facts.get("license_link"),
        library_name="transformers",
        pipeline_tag="translation",
        tags=["translation", "document-level", "docmt"],
        metrics=sorted({result.metric_type for result in results}) or None,
        model_name=model_name,
        eval_results=results or None,
    )


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
    return "" if score is None else f"{score['score']:.1f}"


def _differences(test_set: str, baseline: str, result: Json) -> list[list[str]]:
    rows = []
    for measure, found in result.get("bootstrap", {}).get("measures", {}).items():
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
    sentence = f"The scores below were made with {mode} and {beams}, in {options['dtype']}"
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


def translate_example(model_dir: Path, example: Sequence[Json]) -> list[str]:
    """Translate the example document with the model in the folder, as a user of the card would."""
    from transformers import pipeline

    translator = pipeline("translation", model=str(model_dir), trust_remote_code=True)
    (output,) = translator([[sentence["source"] for sentence in example]])
    return [sentence["translation"] for sentence in output["sentences"]]


def example_rows(example: Sequence[Json], translations: Sequence[str]) -> list[list[str]]:
    """Set wrong translations beside what was wanted; what came out as wanted, or is only context, is left out."""
    rows = []
    for sentence, translation in zip(example, translations, strict=True):
        if "why" in sentence and translation != sentence["wanted"]:
            cells = (sentence["source"], translation, sentence["wanted"], sentence["why"])
            rows.append([cell.replace("|", "\\|") for cell in cells])
    return rows


def build_card(
    facts: Json,
    licences: Json,
    evaluations: Sequence[Json],
    trainings: Sequence[Json],
    *,
    model_name: str,
    config: Json | None = None,
    translations: Sequence[str] | None = None,
) -> ModelCard:
    """
    Fill the template.

    Args:
        facts (`dict`):
            What is no number: `languages`, `summary`, `license`, `example`.
        licences (`dict`):
            Origin and licence of training texts, by key.
        evaluations, trainings (`Sequence[dict]`):
            Results, that of the model first.
        model_name (`str`):
            Name of the model, and what the usage snippet loads.
        config (`dict`, *optional*):
            `config.json` of the model.
        translations (`Sequence[str]`, *optional*):
            What the model makes of the example document.

    Returns:
        `ModelCard`: the card, its metadata checked by huggingface_hub.
    """
    evaluation = evaluations[0] if evaluations else None
    config = config or {}
    example = facts.get("example", [])
    return ModelCard.from_template(
        card_metadata(facts, model_name, evaluation),
        template_path=str(FOLDER / "model_card_template.md"),
        model_name=model_name,
        summary=facts["summary"].strip(),
        context=context_sentence(config),
        max_part_tokens=config.get("max_part_tokens"),
        decoding=decoding_sentence(evaluation),
        result_source=result_source(evaluation),
        trainings=[(training_title(index, run), training_lines(run)) for index, run in enumerate(trainings)],
        data_rows=data_rows(trainings, licences),
        example_rows=example_rows(example, translations) if translations is not None else [],
        **score_section(model_name, evaluations),
    )


def result_source(evaluation: Json | None) -> str | None:
    """Name the result file behind the numbers, with its commit and date."""
    if evaluation is None:
        return None
    run = evaluation["run"]
    commit = f", commit `{run['commit'][:12]}`" if "commit" in run else ""
    return f"All numbers are from `{evaluation['result_file']}` of {run['date'][:10]}{commit}."


def build_licence(model_name: str, rows: Sequence[Sequence[str]]) -> str:
    """Write `LICENSE.md`, which `license_link` of the card names."""
    lines = [
        f"# Terms of {model_name}",
        "",
        "Code (`*.py`): Apache License 2.0.",
        "",
        "Weights, vocabulary and configuration: computed from the texts below. Most of their licences ask that what",
        "is derived from the text is passed on under the same terms, and they do not fit together under one licence.",
        "Whether weights are derived from the texts in that sense has not been settled. No terms are added to those",
        "of the texts: name them when you pass the weights on, and respect the strictest of their licences.",
        "",
        "| text | licence as stated there | remark |",
        "|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].strip(), allow_abbrev=False)
    parser.add_argument("results", nargs="+", help="result files; the first of each kind is that of the model")
    parser.add_argument("--model_dir", required=True, help="model folder, where README.md and LICENSE.md go")
    parser.add_argument("--model_name", help="name on the Hub, such as user/name; by default that of the folder")
    parser.add_argument("--facts", help="YAML of what is no number; by default hub_cards/<model folder>.yaml")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the card of a model folder."""
    options = parse_arguments(arguments)
    model_dir = Path(options.model_dir)
    facts = load_yaml(options.facts or FOLDER / f"{model_dir.resolve().name}.yaml")
    licences = load_yaml(FOLDER / "data_licences.yaml")
    evaluations, trainings = load_results(options.results)
    config_file = model_dir / "config.json"
    has_model = config_file.is_file()
    model_name = options.model_name or model_dir.resolve().name
    card = build_card(
        facts,
        licences,
        evaluations,
        trainings,
        model_name=model_name,
        config=json.loads(config_file.read_text(encoding="utf-8")) if has_model else None,
        translations=translate_example(model_dir, facts.get("example", [])) if has_model else None,
    )
    write_text_atomic(model_dir / "README.md", str(card).rstrip() + "\n")
    write_text_atomic(model_dir / "LICENSE.md", build_licence(model_name, data_rows(trainings, licences)))
    print(f"wrote {model_dir / 'README.md'} and {model_dir / 'LICENSE.md'}")


if __name__ == "__main__":
    main()
