"""Whether a recipe works: its model at full size, counted without memory, and the recipe itself in miniature."""

import contextlib
import functools
import io
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers.utils import logging

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration, DocMTTokenizer

from . import train
from .arguments import format_config_overrides, parse_config_overrides
from .documents import read_documents, write_documents
from .prepare_corpus import CorpusArguments, prepare_corpus
from .recipes_expected import Expected
from .recipes_files import CORPORA, Recipe
from .train_tokenizer import iterate_text, train_tokenizer


TOY_CORPUS = Path(__file__).resolve().parent.parent / "tests" / "data" / "toy.en-de.jsonl"
# what replaces the shape of a recipe in miniature: two layers are the least that two gated ones fit in
SMALL = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
DOCUMENTS = UPDATES = 2
SHORT = {
    "max_steps": UPDATES,
    "max_eval_samples": 1,
    # read where a recipe counts updates, not epochs
    "eval_steps": 1,
    "save_steps": 1,
    "logging_steps": 1,
    "use_cpu": True,
    "report_to": "none",
    "disable_tqdm": True,
    "log_level": "error",
}


@dataclass(frozen=True)
class FullSize:
    """
    The model of a recipe as the paper has it.

    Attributes:
        config (`DocMTConfig`): Its configuration, with the vocabulary of the data set.
        parameters (`int`): Trained parameters.
    """

    config: DocMTConfig
    parameters: int


@dataclass(frozen=True)
class RecipeCheck:
    """
    What was found of a recipe.

    Attributes:
        recipe (`Recipe`): Which.
        parameters (`int`, *optional*): Trained parameters at full size.
        seconds (`float`): Time of the check.
        error (`str`, *optional*): What went wrong.
    """

    recipe: Recipe
    parameters: int | None
    seconds: float
    error: str | None

    def as_json(self) -> dict[str, Any]:
        """For a result file."""
        return {
            "data_set": self.recipe.data_set,
            "recipe": self.recipe.name,
            "parameters": self.parameters,
            "seconds": round(self.seconds, 1),
            "error": self.error,
        }


@functools.lru_cache(maxsize=1)
def toy_tokenizer() -> DocMTTokenizer:
    """A tokenizer of the toy documents, which has all special tokens."""
    if not TOY_CORPUS.is_file():
        raise ValueError(f"There is no {TOY_CORPUS.name}: recipes are checked in a checkout, whose tests have it.")
    return train_tokenizer(iterate_text([str(TOY_CORPUS)]), vocab_size=600)


def vocabulary_of(recipe: Recipe) -> int:
    """
    Size of the vocabulary of a recipe, which is that of its start where it names no tokenizer.

    Raises:
        `ValueError`: if `expected.yaml` does not know the tokenizer.
    """
    name = recipe.options().get("tokenizer_name")
    if name is None:
        start = recipe.start()
        if start is None:
            raise ValueError(f"{recipe.path}: `tokenizer_name` is needed, or `init_from` with a tokenizer in it.")
        return vocabulary_of(start)
    tokenizers = _tokenizers(recipe.data_set, recipe.folder)
    if name not in tokenizers:
        raise ValueError(f"{recipe.path}: `tokenizer_name` is {name!r}, but expected.yaml has {tokenizers}.")
    return tokenizers[name]


@functools.cache
def _tokenizers(data_set: str, folder: Path) -> dict[str, int]:
    return Expected.read(data_set, folder).tokenizers


@functools.cache
def full_size(recipe: Recipe) -> FullSize:
    """
    The model of a recipe at full size, counted on the meta device, which holds no numbers.

    Args:
        recipe (`Recipe`): Which. What it starts from is built first, for its shape.
    """
    arguments = recipe.arguments()
    with tempfile.TemporaryDirectory() as folder:
        start = recipe.start()
        if start is not None:
            full_size(start).config.save_pretrained(folder)
            arguments.model.init_from = folder
        languages = {"src_lang": "xx", "tgt_lang": "yy"}
        config = train.build_config(arguments.model, arguments.data, toy_tokenizer(), [languages])  # type: ignore[arg-type]
    # all else that comes from the tokenizer is the same for all tokenizers
    config.vocab_size = vocabulary_of(recipe)
    return FullSize(config, _count_parameters(config.to_json_string(use_diff=False)))


@functools.cache
def _count_parameters(config: str) -> int:
    # many recipes differ in their data alone
    with torch.device("meta"):
        model = DocMTForConditionalGeneration(DocMTConfig.from_dict(json.loads(config)))
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def parameters_against_paper(expected: Expected, counted: Mapping[str, int]) -> list[dict[str, Any]]:
    """
    Compare counts with those that papers state.

    Args:
        expected (`Expected`): Of one data set.
        counted (`Mapping[str, int]`): Parameters by recipe; those that are missing are not compared.

    Returns:
        `list[dict]`: a row for each comparison. `counted` is the difference where the paper states what a system has
        `over` another one.
    """
    rows = []
    for entry in expected.parameters:
        over = entry.get("over")
        if entry["system"] not in counted or (over is not None and over not in counted):
            continue
        count = counted[entry["system"]] - (0 if over is None else counted[over])
        row = {"recipe": entry["system"], "over": over, "counted": count, "paper": entry["paper"]}
        agrees = "yes" if entry["least"] <= count <= entry["most"] else "no"
        rows.append({**row, "agrees": agrees, "status": entry["status"], "source": entry["source"]})
    return rows


class Miniature(contextlib.ExitStack):
    """
    A folder in which recipes run as they are, but for their size: the paths in them are those of the paper.

    While it is entered, it is the working directory, `DOCMT_CORPORA` names toy documents in it, and nothing of what
    training prints is shown.
    """

    def __enter__(self) -> "Miniature":
        super().__enter__()
        self.folder = Path(tempfile.mkdtemp(prefix="recipes-"))
        self.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.enter_context(contextlib.chdir(self.folder))
        self.enter_context(_environment(CORPORA, str(self.folder / "corpora")))
        self.callback(logging.set_verbosity, logging.get_verbosity())
        # small models gain nothing from threads
        self.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        if datasets.are_progress_bars_disabled() is False:
            self.callback(datasets.enable_progress_bars)
            datasets.disable_progress_bars()
        toy_tokenizer().save_pretrained(self.folder / "tokenizer")
        # the shortest first: it is what evaluations translate
        write_documents("toys.jsonl", sorted(read_documents(TOY_CORPUS), key=lambda toy: len(str(toy)))[:DOCUMENTS])
        prepare_corpus(CorpusArguments(format="records", source_files=["toys.jsonl"], output_dir="toys"))
        return self

    def check(self, recipe: Recipe) -> RecipeCheck:
        """Build the model of a recipe at full size, and train it in miniature. An error is part of the result."""
        start = time.perf_counter()
        parameters = error = None
        messages = io.StringIO()
        try:
            with contextlib.redirect_stdout(messages), contextlib.redirect_stderr(messages):
                recipe.check_paths()
                parameters = full_size(recipe).parameters
                self.train(recipe)
        except SystemExit:
            # how the parser ends where a value is not among the choices of an argument
            error = messages.getvalue().strip().splitlines()[-1]
        except Exception as exception:  # whatever is wrong with one recipe, the others are to be checked
            error = f"{type(exception).__name__}: {exception}"
        return RecipeCheck(recipe, parameters, time.perf_counter() - start, error)

    def train(self, recipe: Recipe) -> dict[str, Any]:
        """
        Run the command of a recipe, on two documents and for two updates.

        Returns:
            `dict`: what the command returns.

        Raises:
            `ValueError`: if it did something else.
        """
        options = recipe.options()
        for path in (*options["train_file"], *options["validation_file"]):
            self._link(Path(os.path.expandvars(path)), self.folder / "toys")
        if options.get("tokenizer_name") is not None:
            self._link(self.folder / options["tokenizer_name"], self.folder / "tokenizer")
        overrides = parse_config_overrides(options.get("config_overrides")) | SMALL
        flags = [text for name, value in SHORT.items() for text in (f"--{name}", str(value))]
        results = train.main([str(recipe.path), *flags, "--config_overrides", format_config_overrides(overrides)])
        loss = results["metrics"]["train_loss"]
        if results["updates"] != UPDATES or not math.isfinite(loss):
            raise ValueError(f"after {results['updates']} updates of {UPDATES} the loss is {loss}.")
        if not (self.folder / recipe.output_dir / "config.json").is_file():
            raise ValueError(f"there is no model in {recipe.output_dir}.")
        return results

    @staticmethod
    def _link(path: Path, target: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.symlink_to(target)


@contextlib.contextmanager
def _environment(name: str, value: str):
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
