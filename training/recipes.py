"""
Recipes of the papers' experiments: what there is, and whether each still works.

    python -m training.recipes list  [--data_set news ted-en-de] [--recipe window-attn]
    python -m training.recipes check [--data_set news ted-en-de] [--recipe window-attn] [--output checked.json]
    python -m training.recipes tables

`list` prints each recipe with its paper, its parameters at full size and how long it trains. `check` builds the model
of each at full size, without memory, counts its parameters, and then runs the recipe itself in miniature: the real
command on two small documents for two updates. `tables` writes the expected numbers of `expected.yaml` into the
README of each data set. `training/configs/README.md` says how recipes are written.

Input: the folders of `training/configs` that have an `expected.yaml`. Output: a table on stdout; with `--output` what
was checked as JSON. `check` ends with status 1 if a recipe does not work.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from .command_line import check_first_argument, make_parser
from .measure import format_table
from .recipes_check import Miniature, RecipeCheck, full_size, parameters_against_paper
from .recipes_expected import Expected, write_table
from .recipes_files import Recipe, data_sets, find_recipes, with_starts
from .results import run_info, write_json_atomic


@dataclass
class RecipeArguments:
    """Options of `recipes`."""

    data_set: list[str] = field(default_factory=list, metadata={"help": "Data sets; all by default."})
    recipe: list[str] = field(
        default_factory=list, metadata={"help": "Names of recipes, such as window-attn; all by default."}
    )
    output: str | None = field(default=None, metadata={"help": "JSON file of what `check` found."})


def training_length(recipe: Recipe) -> str:
    """How long a recipe trains at most, and what ends it before."""
    args = recipe.arguments().training
    most = f"{args.max_steps} updates" if args.max_steps > 0 else f"{args.num_train_epochs:g} epochs"
    if args.early_stopping_patience is None:
        return most
    every = "epochs" if args.eval_strategy == "epoch" else f"evaluations, one in {args.eval_steps:g} updates"
    return f"at most {most}, patience {args.early_stopping_patience} {every}"


def list_recipes(recipes: Sequence[Recipe]) -> str:
    """The table that `list` prints."""
    rows = []
    for recipe in tqdm(recipes, desc="recipes", disable=None):
        rows.append(
            {
                "data set": recipe.data_set,
                "recipe": recipe.name,
                "paper": recipe.paper,
                "parameters": f"{full_size(recipe).parameters:,}",
                "updates": training_length(recipe),
            }
        )
    return format_table(rows, {name: name for name in ("data set", "recipe", "paper", "parameters", "updates")})


def check_recipes(recipes: Sequence[Recipe]) -> list[RecipeCheck]:
    """
    Run recipes in miniature, those that others start from first.

    Args:
        recipes (`Sequence[Recipe]`): What to check; what they start from is added.
    """
    with Miniature() as miniature:
        return [miniature.check(recipe) for recipe in tqdm(with_starts(recipes), desc="recipes", disable=None)]


def check_table(checks: Sequence[RecipeCheck]) -> str:
    """What `check` prints of the recipes, and a line that sums it up."""
    rows = [
        {
            "recipe": f"{check.recipe.data_set}/{check.recipe.name}",
            "parameters": "" if check.parameters is None else f"{check.parameters:,}",
            "seconds": f"{check.seconds:.1f}",
            "result": "ok" if check.error is None else f"error: {check.error}",
        }
        for check in checks
    ]
    failed = sum(check.error is not None for check in checks)
    seconds = sum(check.seconds for check in checks)
    total = f"{len(checks) - failed} of {len(checks)} recipes work, {seconds:.0f} seconds"
    return format_table(rows, {name: name for name in rows[0]}) + "\n\n" + total


def compare_parameters(names: Sequence[str], checks: Sequence[RecipeCheck]) -> list[dict[str, Any]]:
    """Parameters that papers state against those counted, of all data sets in question."""
    counted = {(check.recipe.data_set, check.recipe.name): check.parameters for check in checks}
    rows = []
    for name in names:
        found = {recipe: count for (data_set, recipe), count in counted.items() if data_set == name and count}
        rows += [{"data set": name, **row} for row in parameters_against_paper(Expected.read(name), found)]
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command, see the module's docstring."""
    argv = list(sys.argv[1:] if argv is None else argv)
    commands = {"list": list_command, "check": check_command, "tables": tables_command}
    check_first_argument(argv, commands, __doc__)
    parser = make_parser(RecipeArguments, __doc__)
    try:
        (arguments,) = parser.parse_args_into_dataclasses(argv[1:])
        commands[argv[0]](arguments, argv)
    # a wrong argument or file is answered with what to do, not with a traceback
    except (ValueError, OSError) as error:
        raise SystemExit(f"recipes: {error}") from error


def list_command(arguments: RecipeArguments, argv: Sequence[str]) -> None:
    """Print the recipes."""
    print(list_recipes(find_recipes(arguments.data_set, arguments.recipe)))


def tables_command(arguments: RecipeArguments, argv: Sequence[str]) -> None:
    """Write the tables of expected numbers."""
    for name in arguments.data_set or data_sets():
        write_table(Expected.read(name))


def check_command(arguments: RecipeArguments, argv: Sequence[str]) -> None:
    """Check recipes, print what was found, and end with status 1 if there is an error."""
    recipes = find_recipes(arguments.data_set, arguments.recipe)
    names = arguments.data_set or data_sets()
    for name in names:
        Expected.read(name).check_systems([recipe.name for recipe in find_recipes([name])])
    checks = check_recipes(recipes)
    print(check_table(checks))
    compared = compare_parameters(names, checks)
    if compared:
        columns = ("data set", "recipe", "over", "counted", "paper", "agrees", "status")
        print("\n" + format_table(compared, {name: name for name in columns}))
    if arguments.output:
        found = [check.as_json() for check in checks]
        result = {"kind": "recipes", "recipes": found, "parameters": compared, "run": run_info(argv)}
        write_json_atomic(arguments.output, result)
    if any(check.error is not None for check in checks):
        sys.exit(1)


if __name__ == "__main__":
    main()
