"""
Fill the card of a model from result files, and say under which terms its training texts were.

    python -m hub_cards.build EVALUATION.json TRAINING.json... --model_dir hub_cards/docmt-tiny-en-de

Input: results of `training.evaluate` and `training.train`; the first of each kind is that of the model, further ones
are systems to compare with. Facts that are no numbers come from `hub_cards/<model folder>.yaml`, licences from
`hub_cards/data_licences.yaml`. Output: `README.md` and `LICENSE.md` in the model folder, and with `--readme` the
blocks `example` and `results` of the project's README. A number that is in no result file is not in the card: its line
is left out.
"""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from transformers import pipeline

from hub_cards.sections import (
    Json,
    context_sentence,
    data_rows,
    decoding_sentence,
    example_rows,
    markdown_table,
    result_source,
    score_section,
    training_lines,
    training_title,
)
from training.results import write_text_atomic


FOLDER = Path(__file__).resolve().parent
METRIC_TYPES = {"s-BLEU": "bleu", "d-BLEU": "bleu", "chrF": "chrf", "TER": "ter"}


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


def translate_example(model_dir: Path, example: Sequence[Json], **options: Any) -> list[str]:
    """Translate the example document with the model in the folder, as a user of the card would."""
    translator = pipeline("translation", model=str(model_dir), trust_remote_code=True)
    (output,) = translator([[sentence["source"] for sentence in example]], **options)
    return [sentence["translation"] for sentence in output["sentences"]]


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
        *markdown_table(["text", "licence as stated there", "remark"], rows),
    ]
    return "\n".join(lines) + "\n"


def readme_results(model_name: str, evaluations: Sequence[Json]) -> list[str]:
    """Write the results block of the project's README: the scores, how they were made, and from which file."""
    section = score_section(model_name, evaluations)
    signatures = "; ".join(dict.fromkeys(f"`{signature}`" for signature in section["signatures"].values()))
    return [
        *markdown_table(["test set", "system", *section["measures"]], section["score_rows"], texts=2),
        "",
        f"{decoding_sentence(evaluations[0]) or ''} {result_source(evaluations[0])} Signatures: {signatures}.".strip(),
    ]


def readme_example(config: Json, example: Sequence[Json], translate: Callable[..., list[str]]) -> list[str]:
    """
    Write the example block of the project's README: two sentences with context, and without where the model has any.

    Args:
        config (`dict`):
            `config.json` of the model.
        example (`Sequence[dict]`):
            Sentences with `source`.
        translate (`Callable`):
            From sentences and options of `generate()` to translations.
    """
    document = list(example)[:2]
    rows = [["source", " ".join(sentence["source"] for sentence in document)]]
    if config.get("sequence_format") != "sentence":
        rows.append(["translated together", " ".join(translate(document))])
    rows.append(["each sentence alone", " ".join(translate(document, decoding="sentence"))])
    return markdown_table(["", ""], rows)


def fill_block(text: str, name: str, lines: Sequence[str]) -> str:
    """
    Put lines between the comments `<!-- name:begin … -->` and `<!-- name:end -->` of a Markdown text.

    Raises:
        `ValueError`: where the text has no such block.
    """
    block = re.compile(rf"(<!-- {name}:begin[^\n]*-->\n).*?(<!-- {name}:end -->)", flags=re.DOTALL)
    if not block.search(text):
        raise ValueError(f"there is no block {name!r}: put `<!-- {name}:begin -->` and `<!-- {name}:end -->` in.")
    content = "\n".join(lines)
    return block.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].strip(), allow_abbrev=False)
    parser.add_argument("results", nargs="+", help="result files; the first of each kind is that of the model")
    parser.add_argument("--model_dir", required=True, help="model folder, where README.md and LICENSE.md go")
    parser.add_argument("--model_name", help="name on the Hub, such as user/name; by default that of the folder")
    parser.add_argument("--facts", help="YAML of what is no number; by default hub_cards/<model folder>.yaml")
    parser.add_argument("--readme", help="README of the project, whose blocks `example` and `results` are filled")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the card of a model folder."""
    options = parse_arguments(arguments)
    model_dir = Path(options.model_dir)
    facts = load_yaml(options.facts or FOLDER / f"{model_dir.resolve().name}.yaml")
    licences = load_yaml(FOLDER / "data_licences.yaml")
    evaluations, trainings = load_results(options.results)
    config_file = model_dir / "config.json"
    config = json.loads(config_file.read_text(encoding="utf-8")) if config_file.is_file() else None
    example = facts.get("example", [])
    model_name = options.model_name or model_dir.resolve().name
    card = build_card(
        facts,
        licences,
        evaluations,
        trainings,
        model_name=model_name,
        config=config,
        translations=translate_example(model_dir, example) if config else None,
    )
    write_text_atomic(model_dir / "README.md", str(card).rstrip() + "\n")
    write_text_atomic(model_dir / "LICENSE.md", build_licence(model_name, data_rows(trainings, licences)))
    if options.readme is not None:
        text = Path(options.readme).read_text(encoding="utf-8")
        if evaluations:
            text = fill_block(text, "results", readme_results(model_name, evaluations))
        if config and example:
            text = fill_block(text, "example", readme_example(config, example, partial(translate_example, model_dir)))
        write_text_atomic(options.readme, text)
    print(f"wrote {model_dir / 'README.md'} and {model_dir / 'LICENSE.md'}")


if __name__ == "__main__":
    main()
