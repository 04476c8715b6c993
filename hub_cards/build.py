"""
Make the card of a model from result files, or of a recipe that nobody has trained yet.

    python -m hub_cards.build EVALUATION.json TRAINING.json... --model_dir hub_cards/docmt-tiny-en-de
    python -m hub_cards.build EVALUATION.json TRAINING.json --recipe window-attn --facts facts.yaml --model_dir mine
    python -m hub_cards.build --recipe window-attn

Input: results of `training.evaluate` and `training.train`; the first of each kind is that of the model, further ones
are systems to compare with. Results of `training.contrastive`, `context_use`, `attention_share` and `benchmark` may
stand beside them. Facts that are no numbers come from `hub_cards/<model folder>.yaml` or from `--facts`, what there is
to say of a system from `hub_cards/systems.yaml`, licences from `hub_cards/data_licences.yaml`.

Output: `README.md` in the model folder, and `LICENSE.md` where the facts name it; the card of a recipe on stdout where
there is no folder. With `--readme` the blocks `example` and `results` of the project's README. A number that is in no
result file is not in the card: its line is left out. The same input gives the same bytes.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from transformers import pipeline

from modeling_docmt import SYSTEMS, DocMTConfig
from training.report_markdown import fill_block
from training.results import portable_path, write_text_atomic

from .card import FOLDER, build_card, load_yaml
from .card_results import Json, group_results, load_results
from .context import suite_table
from .scores import README_MEASURES, score_table, signature_lines, table
from .sections import data_rows, decoding_sentence, result_sentence


LICENCE_FILE = "LICENSE.md"
FACTS = (
    *("languages", "summary", "license", "license_name", "license_link", "terms"),
    *("limits", "data", "data_note", "example", "context_examples", "readme_example"),
)


def load_facts(path: str | Path) -> Json:
    """
    Read the facts of a model.

    Raises:
        `ValueError`: for one that no card has a place for.
    """
    facts = load_yaml(path)
    unknown = [name for name in facts if name not in FACTS]
    if unknown:
        raise ValueError(f"{portable_path(path)}: facts must be of {', '.join(FACTS)}, got {unknown[0]!r}.")
    return facts


def read_config(model_dir: Path) -> Json | None:
    """The configuration of the model in a folder with all of its fields, if there is a model."""
    file = model_dir / "config.json"
    if not file.is_file():
        return None
    config = json.loads(file.read_text(encoding="utf-8"))
    # the file leaves out what is at its default
    return DocMTConfig.from_pretrained(model_dir).to_dict() if config.get("model_type") == "docmt" else config


def translate_documents(model_dir: Path, documents: Sequence[Sequence[str]], **options: Any) -> list[list[str]]:
    """Translate documents with the model in the folder, as a user of the card would."""
    translator = pipeline("translation", model=str(model_dir), trust_remote_code=True)
    outputs = translator([list(document) for document in documents], **options)
    return [[sentence["translation"] for sentence in output["sentences"]] for output in outputs]


def build_licence(model_name: str, terms: str, rows: Sequence[Sequence[str]]) -> str:
    """Write `LICENSE.md`, which `license_link` of the card names."""
    texts = table(["text", "licence as stated there", "remark"], rows, texts=3)
    return (
        "\n".join([f"# Terms of {model_name}", "", "Code (`*.py`): Apache License 2.0.", "", terms, "", *texts]) + "\n"
    )


def readme_results(model_name: str, results: Sequence[Json]) -> list[str]:
    """Write the results block of the project's README: the scores, how they were made, and from which files."""
    found = group_results(results)
    scores = score_table(found, model_name, README_MEASURES, with_intervals=False)
    shown = [result for result in found.sources if result["kind"] in ("evaluation", "contrastive")]
    sentences = [decoding_sentence(found.evaluation), result_sentence(shown)]
    signatures = "; ".join(line.rpartition(": ")[2] for line in signature_lines(found, README_MEASURES))
    suites = suite_table(found, model_name)
    return [
        *scores,
        "",
        *([*suites, ""] if suites else []),
        f"{' '.join(filter(None, sentences))} Signatures: {signatures}.",
    ]


def readme_example(config: Json, document: Sequence[str], translate: Callable[..., list[list[str]]]) -> list[str]:
    """
    Write the example block of the project's README: two sentences with context, and without where the model has any.

    Args:
        config (`dict`):
            Configuration of the model.
        document (`Sequence[str]`):
            The two sentences.
        translate (`Callable`):
            From documents and options of `generate()` to the translations of their sentences.
    """
    rows = [["source", " ".join(document)]]
    if config.get("sequence_format") != "sentence":
        rows.append(["translated together", " ".join(translate([document])[0])])
    rows.append(["each sentence alone", " ".join(translate([document], decoding="sentence")[0])])
    return table(["", ""], rows, texts=2)


def readme_document(facts: Json) -> list[str]:
    """Two sentences of the facts: `readme_example`, else the beginning of the example document."""
    return facts.get("readme_example") or [sentence["source"] for sentence in facts.get("example", [])[:2]]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].strip(), allow_abbrev=False)
    parser.add_argument("results", nargs="*", help="result files; the first of each kind is that of the model")
    parser.add_argument("--recipe", choices=list(SYSTEMS), help="system of the model, or of a card without results")
    parser.add_argument("--model_dir", help="model folder, where README.md and LICENSE.md go")
    parser.add_argument("--model_name", help="name on the Hub, such as user/name; by default that of the folder")
    parser.add_argument("--facts", help="YAML of what is no number; by default hub_cards/<model folder>.yaml, if any")
    parser.add_argument("--readme", help="README of the project, whose blocks `example` and `results` are filled")
    options = parser.parse_args(arguments)
    if options.model_dir is None and options.recipe is None:
        parser.error("name the model folder (--model_dir), or a system whose card is to be printed (--recipe)")
    if not options.results and options.recipe is None:
        parser.error("name result files, or a system (--recipe)")
    return options


def build(options: argparse.Namespace) -> None:
    """Read everything, then write the card and what belongs to it."""
    results = load_results(options.results)
    model_dir = Path(options.model_dir) if options.model_dir else None
    name = model_dir.resolve().name if model_dir else options.recipe
    facts_file = options.facts or (FOLDER / f"{name}.yaml" if (FOLDER / f"{name}.yaml").is_file() else None)
    facts = load_facts(facts_file) if facts_file else {}
    licences = load_yaml(FOLDER / "data_licences.yaml")
    config = read_config(model_dir) if model_dir else None
    translate = partial(translate_documents, model_dir) if model_dir else None
    model_name = options.model_name or name
    card = build_card(
        facts,
        licences,
        results,
        model_name=model_name,
        system=options.recipe,
        config=config,
        translate=translate if config else None,
    )
    text = str(card).rstrip() + "\n"
    if model_dir is None:
        sys.stdout.write(text)
        return
    written = [model_dir / "README.md"]
    write_text_atomic(written[0], text)
    found = group_results(results)
    if facts.get("license_link") == LICENCE_FILE:
        rows = data_rows(found.trainings, licences | facts.get("data", {}))
        written.append(model_dir / LICENCE_FILE)
        write_text_atomic(written[1], build_licence(model_name, facts.get("terms", "").strip(), rows))
    if options.readme is not None:
        readme = Path(options.readme).read_text(encoding="utf-8")
        if found.evaluation:
            readme = fill_block(readme, "results", readme_results(model_name, results))
        document = readme_document(facts)
        if config and document and translate:
            readme = fill_block(readme, "example", readme_example(config, document, translate))
        write_text_atomic(options.readme, readme)
    print(f"wrote {' and '.join(map(portable_path, written))}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, see the module's docstring."""
    options = parse_arguments(arguments)
    try:
        build(options)
    # a wrong argument or file is answered with what to do, not with a traceback
    except (ValueError, OSError) as error:
        raise SystemExit(f"hub_cards.build: {error}") from error


if __name__ == "__main__":
    main()
