"""What a card says of recipes: which there are for a system, how to train and score one, and what papers report."""

import functools
from pathlib import Path
from typing import Any

from training.recipes_expected import STATUSES, Expected
from training.recipes_files import CORPORA, Recipe, all_recipes

from .scores import table


# other numbers must be looked up in the paper before they are quoted
QUOTED = ("printed", "stated", "stated-order", "derived")
FOLDER = "training/configs"


@functools.cache
def recipes_by_system() -> dict[str, list[Recipe]]:
    """All recipes, by their system."""
    found: dict[str, list[Recipe]] = {}
    for recipe in all_recipes():
        found.setdefault(recipe.options()["system"], []).append(recipe)
    return found


@functools.cache
def _expected(data_set: str) -> Expected:
    return Expected.read(data_set)


def find_recipe(system: str, name: str) -> Recipe:
    """
    Find the recipe `DATA SET/NAME` of a system.

    Raises:
        `ValueError`: if the system has no such recipe.
    """
    for recipe in recipes_by_system().get(system, []):
        if f"{recipe.data_set}/{recipe.name}" == name:
            return recipe
    raise ValueError(f"hub_cards/systems.yaml: {FOLDER} has no recipe {name!r} of the system {system!r}.")


def recipe_table(system: str) -> list[str]:
    """Lay out the recipes of a system, a row for each data set."""
    by_data_set: dict[str, list[Recipe]] = {}
    for recipe in recipes_by_system().get(system, []):
        by_data_set.setdefault(recipe.data_set, []).append(recipe)
    rows = []
    for data_set, recipes in by_data_set.items():
        papers = dict.fromkeys(recipe.paper for recipe in recipes)
        rows.append([f"`{data_set}`", ", ".join(f"`{recipe.name}`" for recipe in recipes), "; ".join(papers)])
    return table(["data set", "recipes", "settings of"], rows, texts=3)


def recipe_commands(recipe: Recipe, system: str) -> str:
    """The commands that train a recipe, score the model, and make its card."""
    output, result = recipe.output_dir, f"{recipe.output_dir}.eval.json"
    data = f"${CORPORA}/{recipe.data_set}/test/documents.jsonl.gz"
    commands = [
        f"python -m training.train {FOLDER}/{recipe.data_set}/{recipe.name}.yaml",
        f"python -m training.evaluate --model {output} --data {data} --measures all --context_use "
        f"--baseline copy --num_beams 4 --output {result}",
        f"python -m hub_cards.build {result} {output}/results.json --recipe {system} --facts facts.yaml "
        f"--model_dir {output}",
    ]
    return "\n".join(commands)


def expected_section(system: str) -> dict[str, Any]:
    """
    What papers report for the recipes of a system.

    Returns:
        `dict`: `table`, empty where there is nothing; `statuses`, what the words in it mean; `left_out`, how many
        numbers are not shown since they were not read in the paper.
    """
    rows, statuses, left_out = [], [], 0
    names: dict[str, set[str]] = {}
    for recipe in recipes_by_system().get(system, []):
        names.setdefault(recipe.data_set, set()).add(recipe.name)
    for data_set, recipes in names.items():
        for entry in _expected(data_set).results:
            if entry["system"] not in recipes:
                continue
            if entry["status"] not in QUOTED:
                left_out += 1
                continue
            statuses.append(entry["status"])
            decoding = ", ".join(filter(None, (entry["decoding"], entry.get("alignment"))))
            value, status = str(entry["value"]), entry["status"]
            cells = [entry["measure"], entry["test_set"], f"`{data_set}/{entry['system']}`", decoding, value, status]
            rows.append([cell.replace("|", "\\|") for cell in (*cells, entry["source"])])
    header = ["measure", "test set", "recipe", "decoding", "value", "status", "source"]
    return {
        "table": table(header, rows, texts=len(header)),
        "statuses": "; ".join(f"{name}: {STATUSES[name]}" for name in dict.fromkeys(statuses)),
        "left_out": left_out,
    }


def readme_of(recipe: Recipe) -> str:
    """The file that says how to get the data of a recipe."""
    return str(Path(FOLDER) / recipe.data_set / "README.md")
