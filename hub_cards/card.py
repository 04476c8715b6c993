"""The card of a model or of a recipe: what the template is filled with."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml
from huggingface_hub import ModelCard

from modeling_docmt import SYSTEMS, DocMTConfig
from training.arguments import DataArguments, ModelArguments, TrainingArguments

from .card_results import CardResults, Json, group_results
from .citation import citation_text, papers_of_measures
from .context import (
    attention_lines,
    context_signatures,
    context_use_lines,
    coverage_lines,
    status_lines,
    suite_lines,
    suite_table,
)
from .context_examples import context_example_table
from .costs import benchmark_blocks, speed_lines
from .metadata import card_metadata
from .recipe import expected_section, find_recipe, readme_of, recipe_commands, recipe_table
from .scores import (
    TEXT_MEASURES,
    bootstrap_resamples,
    difference_table,
    measure_notes,
    score_table,
    signature_lines,
    table,
)
from .sections import (
    context_sentence,
    data_rows,
    decoding_sentence,
    default_decoding_sentence,
    example_rows,
    length_sentences,
    option_lines,
    result_sentence,
    training_lines,
    training_title,
)


FOLDER = Path(__file__).resolve().parent
# of every model of this kind
LIMITS = (
    "Names, numbers and rare words may be changed or lost. Read every translation before you rely on it.",
    "It repeats what is in its texts, their prejudices included.",
)


def load_yaml(path: str | Path) -> Json:
    """Read a YAML file that holds a mapping."""
    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def build_card(
    facts: Json,
    licences: Json,
    results: Sequence[Json],
    *,
    model_name: str,
    system: str | None = None,
    config: Json | None = None,
    translate: Callable[..., list[list[str]]] | None = None,
) -> ModelCard:
    """
    Fill the template.

    Args:
        facts (`dict`):
            What is no number: `build.FACTS`. What is missing is taken from the system.
        licences (`dict`):
            Origin and licence of training texts, by key.
        results (`Sequence[dict]`):
            Results, those of the model first; without any, the card is that of the recipe of `system`.
        model_name (`str`):
            Name of the model, and what the usage snippet loads.
        system (`str`, *optional*):
            Row of `SYSTEMS`; that of the configuration or of the training by default.
        config (`dict`, *optional*):
            Configuration of the model; that of the preset by default.
        translate (`Callable`, *optional*):
            From documents to the translations of their sentences by the model, for the examples of the facts.

    Returns:
        `ModelCard`: the card, its metadata checked by huggingface_hub.

    Raises:
        `ValueError`: where licences are missing, or a benchmark is of another system.
    """
    found = group_results(results)
    system = system or find_system(config, found)
    of_system = load_yaml(FOLDER / "systems.yaml")[system] if system else {}
    if config is None:
        config = DocMTConfig.from_system(system).to_dict() if system and not found.is_trained else {}
    keys = [*of_system.get("papers", []), *papers_of_measures(found)]
    recipe = recipe_section(system, of_system["recipe"]) if system and not found.is_trained else None
    runs = found.trainings
    trainings = [(training_title(index, runs), training_lines(run)) for index, run in enumerate(runs)]
    rows = data_rows(found.trainings, licences | facts.get("data", {}))
    example, of_context = facts.get("example", []), facts.get("context_examples", [])
    examples = (
        example_rows(example, translate([[row["source"] for row in example]])[0]) if translate and example else []
    )
    reads_context = config.get("sequence_format") != "sentence"
    sections: Json = {
        "model_name": model_name,
        "model_path": recipe["output_dir"] if recipe else model_name,
        "is_trained": found.is_trained,
        "code_place": "this repository" if found.is_trained else "the folder of the model",
        "summary": (facts.get("summary") or of_system.get("summary", "")).strip(),
        "system_text": f"System `{system}`: {of_system['summary'].strip()}"
        if facts.get("summary") and system
        else None,
        "context": context_sentence(config),
        "length": length_sentences(config),
        "default_decoding": default_decoding_sentence(config),
        "decoding": decoding_sentence(found.evaluation),
        "option_lines": _options(config, of_system, found),
        **result_sections(found, model_name),
        "context_examples": _text(context_example_table(of_context, translate, reads_context) if translate else []),
        "benchmarks": [(title, "\n".join(lines)) for title, lines in benchmark_blocks(found.benchmarks, system)],
        "limits": [*facts.get("limits", []), *of_system.get("limits", []), *LIMITS],
        "examples": _text(table(["source", "translation", "what was wanted", "why it is hard"], examples, texts=4)),
        "trainings": trainings,
        "data": _text(table(["training texts", "licence as stated there", "remark"], rows, texts=3)),
        "data_note": facts.get("data_note"),
        "recipe": recipe,
        "terms": terms_text(facts, found),
        "citation": citation_text(keys),
        "citation_sentence": _citation_sentence(of_system, found),
    }
    template = str(FOLDER / "model_card_template.md")
    return ModelCard.from_template(card_metadata(facts, model_name, found), template_path=template, **sections)


def find_system(config: Json | None, found: CardResults) -> str | None:
    """The system of a model, from its configuration or its results; `None` for a model of another kind."""
    names = [(config or {}).get("system"), *(row.model.get("system") for row in found.model[:1])]
    names += [training.get("system") for training in found.trainings[:1] if training.get("architecture") != "marian"]
    return next((name for name in names if name in SYSTEMS), None)


def result_sections(found: CardResults, model_name: str) -> Json:
    """What the template says of results, each empty where there is none."""
    discourse = [
        m for row in found.model for e in row.test_sets.values() for m in e["scores"] if m not in TEXT_MEASURES
    ]
    return {
        "text_scores": _text(score_table(found, model_name, TEXT_MEASURES)),
        "discourse_scores": _text(score_table(found, model_name, discourse)),
        "resamples": bootstrap_resamples(found),
        "measure_notes": measure_notes(found),
        "signatures": signature_lines(found),
        "differences": _text(difference_table(found, model_name)),
        "suites": _text(suite_table(found, model_name)),
        "suite_lines": suite_lines(found),
        "result_sentence": result_sentence(found.sources),
        "context_use": context_use_lines(found),
        "context_signatures": context_signatures(found),
        "attention": attention_lines(found),
        "coverage": coverage_lines(found),
        "speed": speed_lines(found),
        "status": status_lines(found),
    }


def recipe_section(system: str, name: str) -> Json:
    """What the template says of recipes of a system."""
    recipe = find_recipe(system, name)
    expected = expected_section(system)
    return {
        "table": _text(recipe_table(system)),
        "readme": readme_of(recipe),
        "output_dir": recipe.output_dir,
        "commands": recipe_commands(recipe, system),
        "expected": {**expected, "table": _text(expected["table"])},
    }


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def _options(config: Json, of_system: Json, found: CardResults) -> list[str]:
    # a trained model has the options of its training in the command
    training = {} if found.is_trained else of_system.get("training", {})
    kinds = (ModelArguments, DataArguments, TrainingArguments)
    defaults = {field.name: field.default for kind in kinds for field in dataclasses.fields(kind)}
    return option_lines(config, of_system.get("options", {}), training, defaults)


def terms_text(facts: Json, found: CardResults) -> str:
    """Say under which terms code and weights are."""
    if not found.is_trained:
        return (
            "The code is under Apache-2.0. Weights are under the terms of whoever trains them, and of the texts that "
            "they are trained on."
        )
    terms = facts.get("terms", f"The weights are under `{facts.get('license')}`.").strip()
    more = f" See `{facts['license_link']}`." if facts.get("license_link") else ""
    return f"The code in this repository is under Apache-2.0. {terms}{more}"


def _citation_sentence(of_system: Json, found: CardResults) -> str:
    of_measures = papers_of_measures(found)
    parts = ["the paper of the system"] if of_system.get("papers") else []
    parts += ["of the measures whose numbers you quote"] if of_measures else []
    return f"Please cite {', '.join([*parts, 'and this software' if parts else 'this software'])}:"
