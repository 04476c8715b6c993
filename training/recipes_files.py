"""Recipes as files: where they are, what they say, and which of them start from others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .arguments import DataArguments, ModelArguments, TrainingArguments, option_files, parse_arguments, read_options


CONFIGS = Path(__file__).parent / "configs"
EXPECTED = "expected.yaml"
# the folder of prepared corpora, one folder a data set
CORPORA = "DOCMT_CORPORA"

# by the preset that a recipe builds on
PAPERS = {
    "herold-ney": "Herold and Ney (2023)",
    "p-transformer": "Li et al., P-Transformer",
    "zheng": "Zheng et al. (2020)",
}


@dataclass(frozen=True)
class Arguments:
    """What the command `training.train` reads from a recipe."""

    model: ModelArguments
    data: DataArguments
    training: TrainingArguments


@dataclass(frozen=True)
class Recipe:
    """
    One experiment of a paper: a file of options of `training.train`.

    Args:
        data_set (`str`): Its folder.
        name (`str`): Its file name, without `.yaml`.
        folder (`Path`, *optional*): The folder of all data sets.
    """

    data_set: str
    name: str
    folder: Path = CONFIGS

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / self.data_set / f"{self.name}.yaml"

    @property
    def output_dir(self) -> str:
        """Where the model of a recipe belongs, which is where others look for it."""
        return f"runs/{self.data_set}.{self.name}"

    @property
    def paper(self) -> str:
        """The paper whose settings it has."""
        preset = option_files(self.path)[-1].stem
        if preset not in PAPERS:
            raise ValueError(f"{self.path}: builds on {preset!r}, which is no preset of {', '.join(PAPERS)}.")
        return PAPERS[preset]

    def options(self) -> dict[str, Any]:
        """What the file says, together with those that it builds on."""
        return read_options(self.path)

    def arguments(self, flags: Sequence[str] = ()) -> Arguments:
        """The options as `training.train` reads them, with flags behind them."""
        # without this, what Trainer finds of hardware would depend on the machine that asks
        words = [str(self.path), "--use_cpu", "true", *flags]
        return Arguments(*parse_arguments(words, [ModelArguments, DataArguments, TrainingArguments]))

    def start(self) -> "Recipe | None":
        """
        The recipe whose model this one starts from.

        Raises:
            `ValueError`: if `init_from` is where no recipe puts a model.
        """
        init_from = self.options().get("init_from")
        if init_from is None:
            return None
        for recipe in all_recipes(self.folder):
            if recipe.output_dir == init_from:
                return recipe
        raise ValueError(f"{self.path}: `init_from` is {init_from!r}, which is the `output_dir` of no recipe.")

    def check_paths(self) -> None:
        """
        Require that data and model lie where all recipes have them.

        Raises:
            `ValueError`: naming the file and the option.
        """
        options = self.options()
        for name in ("train_file", "validation_file"):
            paths = options.get(name) or []
            wrong = [path for path in paths if not path.startswith(f"${CORPORA}/{self.data_set}/")]
            if wrong or not paths:
                raise ValueError(
                    f"{self.path}: `{name}` must name files under ${CORPORA}/{self.data_set}/, got {paths}."
                )
        if options.get("output_dir") != self.output_dir:
            raise ValueError(
                f"{self.path}: `output_dir` must be {self.output_dir!r}, got {options.get('output_dir')!r}."
            )


def data_sets(folder: Path = CONFIGS) -> list[str]:
    """Names of the data sets: the folders with an `expected.yaml`."""
    return sorted(path.parent.name for path in folder.glob(f"*/{EXPECTED}"))


def all_recipes(folder: Path = CONFIGS) -> list[Recipe]:
    """All recipes; files whose name begins with `_` are what several build on."""
    return [
        Recipe(data_set, path.stem, folder)
        for data_set in data_sets(folder)
        for path in sorted((folder / data_set).glob("*.yaml"))
        if not path.name.startswith("_") and path.name != EXPECTED
    ]


def find_recipes(data_set: Sequence[str] = (), name: Sequence[str] = (), folder: Path = CONFIGS) -> list[Recipe]:
    """
    Recipes of some data sets and names.

    Args:
        data_set, name (`Sequence[str]`): What to take; all, where empty.
        folder (`Path`, *optional*): The folder of all data sets.

    Raises:
        `ValueError`: if a data set or a name does not occur.
    """
    recipes = all_recipes(folder)
    for option, wanted, known in (
        ("data_set", data_set, data_sets(folder)),
        ("recipe", name, sorted({recipe.name for recipe in recipes})),
    ):
        unknown = [value for value in wanted if value not in known]
        if unknown:
            raise ValueError(f"`{option}` must be of {', '.join(known)}, got {unknown[0]!r}.")
    found = [
        recipe
        for recipe in recipes
        if (not data_set or recipe.data_set in data_set) and (not name or recipe.name in name)
    ]
    if not found:
        raise ValueError(f"`recipe`: {', '.join(data_set)} has none of {', '.join(name)}.")
    return found


def with_starts(recipes: Iterable[Recipe]) -> list[Recipe]:
    """The recipes, and those that they start from, each once and behind its start."""
    ordered: list[Recipe] = []
    for recipe in recipes:
        chain = [recipe]
        while (start := chain[-1].start()) is not None and start not in ordered:
            if start in chain:
                raise ValueError(f"{recipe.path}: starts from itself, by way of {start.path}.")
            chain.append(start)
        ordered += [one for one in reversed(chain) if one not in ordered]
    return ordered
