"""What a report is made of: result files, and what they call things."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .results import portable_path


Result = Mapping[str, Any]

# kinds that a report lays out, with what they cannot do without
NEEDED = {
    "evaluation": ("name", "test_sets", "run"),
    "contrastive": ("model", "suites", "run"),
    "training": ("system", "run"),
    "attention-share": ("system", "entries", "run"),
    "context-use": ("model", "test_sets", "run"),
    "synthetic": ("task", "summary", "runs"),
    "probe": ("models", "run"),
}
# kinds that it lists with their recipe
LISTED = (
    "attention-benchmark",
    "step-benchmark",
    "decoding-benchmark",
    "document-decoding-benchmark",
    "precision-benchmark",
    "accelerator",
    "alignment-report",
    "sentence-attention",
)
# by these endings, files tell what they hold of a run: `tiny-en-de.concat-adj.eval.json`
ENDINGS = ("eval", "dev", "train", "share", "map", "suites", "contrastive", "context", "probe", "benchmark")
# options of decoding that change the time and not the translation
OPTIONS_OF_SPEED = ("batch_size", "device")

_PAIR = re.compile(r"(?:^|[.\-_])([a-z]{2,3}-[a-z]{2,3})(?:[.\-_]|$)")


def check_result(result: Any, where: str) -> None:
    """
    Require a result that can be reported.

    Args:
        result (`Any`): Content of a result file.
        where (`str`): Its file, for the error.

    Raises:
        `ValueError`: for another kind, and where a part is missing that no result of its kind is without.
    """
    kind = result.get("kind") if isinstance(result, Mapping) else None
    if kind not in NEEDED and kind not in LISTED:
        raise ValueError(
            f"{where}: `kind` must be one of {', '.join((*NEEDED, *LISTED))}, got {kind!r}. Give result files that "
            "commands of `training` wrote with `--output`."
        )
    missing = [name for name in NEEDED.get(kind, ("run",)) if name not in result]
    if missing:
        raise ValueError(f"{where}: a result of kind {kind!r} must hold `{missing[0]}`. Make it anew.")


def read_results(paths: Sequence[str | Path]) -> list[dict[str, Any]]:
    """
    Read result files.

    Returns:
        `list[dict]`: their contents in the order given, with the name of the file as `result_file`.

    Raises:
        `ValueError`: for a file that holds no JSON or no result, and two files of one name.
    """
    results = []
    for path in map(Path, paths):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{portable_path(path)}: holds no JSON ({error}). Give result files.") from error
        check_result(result, portable_path(path))
        results.append({**result, "result_file": path.name})
    names = [result["result_file"] for result in results]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{twice[0]}: is given twice, or two files have this name. Give each result once.")
    return results


def run_name(result: Result) -> str | None:
    """The name of a result file without its endings; files of one run share it."""
    stem = result.get("result_file", "").removesuffix(".json")
    name, _, ending = stem.rpartition(".")
    return (name if ending in ENDINGS and name else stem) or None


def model_of(result: Result) -> dict[str, Any]:
    """Facts about the model of a result, as far as they are there: `path`, `weights_sha256`, `system`, …"""
    if isinstance(result.get("model"), Mapping):
        return dict(result["model"])
    names = ("weights_sha256", "system", "parameters")
    facts = {name: result[name] for name in names if result.get(name) is not None}
    path = result.get("model") or result.get("output_dir")
    return {**facts, "path": path} if path else facts


def pair_of(source: str | None, target: str | None) -> str:
    """A pair of languages: `en-de`."""
    return f"{source or '?'}-{target or '?'}"


def pair_in_name(name: str) -> str | None:
    """The pair of languages in the name of a file, where there is one."""
    found = _PAIR.search(name)
    return found[1] if found else None


def file_stem(path: str) -> str:
    """Name of a file of documents or of a suite, without its endings."""
    return Path(path).name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")


def suite_name(entry: Mapping[str, Any]) -> str:
    """Name of a suite: that of its file without endings."""
    return file_stem(entry["suite"])


def decoding_text(decoding: Mapping[str, Any] | None) -> str:
    """Say in a few words how translations were made: `sequential, sent-align, 4 beams`."""
    if not decoding:
        return "finished translations"
    known = ("decoding", "source_context", "alignment", "num_beams", "context_sentences", "dtype", *OPTIONS_OF_SPEED)
    words = [str(decoding[name]) for name in ("decoding", "alignment") if decoding.get(name)]
    words += ["growing source"] if decoding.get("source_context") == "prefix" else []
    beams = decoding.get("num_beams")
    words += ["greedy" if beams == 1 else f"{beams} beams"] if beams else []
    if "context_sentences" in decoding:
        words.append(f"k = {decoding['context_sentences']}")
    words += [decoding["dtype"]] if decoding.get("dtype", "float32") != "float32" else []
    return ", ".join([*words, *(f"{name}={value}" for name, value in decoding.items() if name not in known)])


def known_names(results: Sequence[Result]) -> set[str]:
    """Names by which results call a system, a baseline, or themselves."""
    names: set[str] = set()
    for result in results:
        if result["kind"] != "evaluation":
            continue
        names |= {result["name"], *filter(None, [run_name(result)])}
        for entry in result["test_sets"]:
            names |= set(entry.get("baselines", {}))
    return names


def recipes_of(result: Result) -> list[Mapping[str, Any]]:
    """The `run` of a result; of an experiment, one for each different command of its runs."""
    if "run" in result:
        return [result["run"]]
    recipes = {recipe.get("command"): recipe for recipe in (run.get("run", {}) for run in result.get("runs", []))}
    return list(recipes.values())
