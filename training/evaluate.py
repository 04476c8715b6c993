"""
Score a model or finished translations on test sets: BLEU, chrF, TER and discourse measures, in one JSON file.

    python -m training.evaluate --model outputs/concat-adj --data test.en-de.wesnoth.jsonl.gz \
        --baseline copy --num_beams 4 --output training/results/concat-adj.eval.json
    python -m training.evaluate --hypotheses wesnoth.de --data test.en-de.wesnoth.jsonl.gz
    python -m training.evaluate --hypotheses wesnoth.de --data test.en-de.wesnoth.jsonl.gz \
        --measures s-BLEU d-BLEU pronoun-F1 formality-F1 lexical-consistency

s-BLEU, d-BLEU, chrF and TER are computed unless `--measures` names others. The discourse measures must be asked for,
since each fits some test sets only: pronoun-F1 and formality-F1 English to German (with the tagger HanTa,
`pip install 'docmt[discourse]'`, or `--tagger none`), TCP, TC, CP and PT the labelled test set of Sun et al.,
lexical-consistency languages with blanks between words. `training/metrics/` defines them.

Input: test sets as documents (JSON Lines, gzip or not), and a model folder, or one file of hypotheses a test set.
Output: a table on stdout, progress on stderr, and with `--output` a result file that holds the scores together with
their recipe: signature, decoding mode, hash of data and weights, commit, versions, hardware, time. Every score has an
interval, and with a baseline (the copied source, or a second system's hypotheses) the differences have one too, from a
bootstrap over documents. With `--decoding free` sentence coverage is reported too.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from training.arguments import parse_arguments as parse_flags
from training.bootstrap import RESAMPLES, SEED, bootstrap_intervals, paired_bootstrap
from training.coverage import coverage, coverage_lines
from training.documents import Record, read_documents, write_documents
from training.hypotheses import Hypotheses, Translator, copy_source, decoding_mode, read_hypotheses
from training.metrics import (
    ALL_MEASURES,
    MEASURES,
    TAGGERS,
    Measured,
    MeasureInputs,
    check_counts,
    check_measure,
    measure_documents,
)
from training.results import portable_path, run_info, sha256_of_file, write_json_atomic
from training.score_table import score_table


DOCUMENT_OPTIONS = (
    "decoding",
    "source_context",
    "source_context_sentences",
    "target_context_sentences",
    "alignment",
)


@dataclass
class EvaluationArguments:
    """What to score, against what, and where the result goes."""

    data: list[str] = field(metadata={"help": "Test sets: JSON Lines of documents with `src` and `tgt`, gzip or not."})
    model: str | None = field(
        default=None, metadata={"help": "Model folder to translate the test sets with. Either this or `--hypotheses`."}
    )
    hypotheses: list[str] | None = field(
        default=None,
        metadata={
            "help": "Finished translations, a file a test set: a line a sentence, or JSON Lines with `id`, `tgt`."
        },
    )
    baseline: str | None = field(default=None, metadata={"help": "`copy`: compare with copying the source."})
    baseline_hypotheses: list[str] | None = field(
        default=None, metadata={"help": "Translations of a second system to compare with, one file a test set."}
    )
    baseline_name: str = field(default="baseline", metadata={"help": "What to call the second system."})
    name: str | None = field(
        default=None, metadata={"help": "Name of the system; by default that of its folder or file."}
    )
    target_lang: str | None = field(
        default=None, metadata={"help": "Target language where the documents do not say it; chooses BLEU's tokenizer."}
    )
    measures: list[str] = field(
        default_factory=lambda: list(MEASURES),
        metadata={"help": f"What to compute, of {', '.join(ALL_MEASURES)}; by default {', '.join(MEASURES)}."},
    )
    tagger: str = field(
        default="hanta", metadata={"help": f"Finds pronouns for pronoun-F1 and formality-F1: {', '.join(TAGGERS)}."}
    )
    num_beams: int = field(default=4, metadata={"help": "Beams a sentence; 1 is greedy."})
    decoding: str | None = field(
        default=None,
        metadata={"help": "sentence, counted, free or sequential; by default as the model was saved."},
    )
    source_context: str | None = field(default=None, metadata={"help": "full or prefix, for sequential decoding."})
    source_context_sentences: int | None = field(
        default=None, metadata={"help": "Source sentences of context, where the decoding takes a number."}
    )
    target_context_sentences: int | None = field(
        default=None, metadata={"help": "Target sentences of context, where the decoding takes a number."}
    )
    alignment: str | None = field(
        default=None, metadata={"help": "Centre of the windows of cross-attention: sent-align, one2one or ratio."}
    )
    length_penalty: float | None = field(default=None, metadata={"help": "Above 0 favours longer translations."})
    batch_size: int = field(default=16, metadata={"help": "Documents (stock models: sentences) translated together."})
    max_documents: int | None = field(default=None, metadata={"help": "Score the first documents of a test set only."})
    device: str | None = field(default=None, metadata={"help": "cpu, cuda, …; by default a GPU where there is one."})
    dtype: str = field(default="float32", metadata={"help": "Type of the weights: float32, bfloat16, float16, auto."})
    resamples: int = field(default=RESAMPLES, metadata={"help": "Draws of the bootstrap; 0 leaves it out."})
    seed: int = field(default=SEED, metadata={"help": "Seed of the bootstrap."})
    output: str | None = field(default=None, metadata={"help": "Result file (JSON)."})
    save_hypotheses: str | None = field(
        default=None,
        metadata={"help": "Folder for the translations: `<test set>.jsonl` with status and score."},
    )

    def __post_init__(self) -> None:
        # in a YAML file there is no shell that fills in "$DOCMT_DATA/…"
        self.data = [os.path.expandvars(path) for path in self.data]
        if (self.model is None) == (self.hypotheses is None):
            raise ValueError(
                "give either `--model` or `--hypotheses`: the one says what to translate with, the other "
                "where the finished translations are."
            )
        for option in ("hypotheses", "baseline_hypotheses"):
            files = getattr(self, option)
            if files is not None and len(files) != len(self.data):
                raise ValueError(
                    f"`--{option}` names {len(files)} files for {len(self.data)} test sets of `--data`. Give one for "
                    "each, in the same order."
                )
        if self.baseline not in (None, "copy"):
            raise ValueError(
                f"`--baseline` must be 'copy', got {self.baseline!r}. Translations of another system go into "
                "`--baseline_hypotheses`."
            )
        unknown = [measure for measure in self.measures if measure not in ALL_MEASURES]
        if unknown:
            raise ValueError(f"`--measures` must be of {', '.join(ALL_MEASURES)}, got {unknown[0]!r}.")
        if self.tagger not in TAGGERS:
            raise ValueError(f"`--tagger` must be one of {', '.join(TAGGERS)}, got {self.tagger!r}.")
        for option, least in (("num_beams", 1), ("batch_size", 1), ("resamples", 0)):
            if getattr(self, option) < least:
                raise ValueError(f"`--{option}` must be {least} or more, got {getattr(self, option)}.")
        names = [test_set_name(path) for path in self.data]
        if len(set(names)) < len(names):
            raise ValueError(f"`--data` names two test sets alike: {', '.join(names)}. Rename one of the files.")
        if self.max_documents is not None and self.max_documents < 1:
            raise ValueError(f"`--max_documents` must be 1 or more, got {self.max_documents}.")


def generation_options(arguments: EvaluationArguments) -> dict[str, Any]:
    """Return the options for `generate()` that were given; the others stay as the model was saved with them."""
    names = (*DOCUMENT_OPTIONS, "length_penalty")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return {"num_beams": arguments.num_beams, **given}


def read_test_set(path: str, max_documents: int | None = None) -> list[Record]:
    """Read the documents of a test set, which all need a translation."""
    records: list[Record] = []
    for record in read_documents(path):
        if len(records) == max_documents:
            break
        records.append(record)
    if not any(record["src"] for record in records):
        raise ValueError(f"{path}: there is no sentence to score.")
    return records


def languages(records: Sequence[Record], target_lang: str | None, path: str) -> tuple[str | None, str | None]:
    """
    Return source and target language of a test set.

    Raises:
        `ValueError`: where documents of several target languages are mixed, which need several tokenizers.
    """
    targets = sorted({record["tgt_lang"] for record in records if "tgt_lang" in record})
    if target_lang is None and len(targets) > 1:
        raise ValueError(f"{path}: holds documents in {', '.join(targets)}. Score each language by itself.")
    sources = sorted({record["src_lang"] for record in records if "src_lang" in record})
    source = "+".join(sources) or None
    return source, target_lang or (targets[0] if targets else None)


def measure_inputs(records: Sequence[Record], source: str | None, arguments: EvaluationArguments) -> MeasureInputs:
    """Collect what discourse measures read of a test set beside its references."""
    return MeasureInputs(
        sources=[record["src"] for record in records],
        source_lang=source,
        tagger=arguments.tagger,
        # whether they hold labels is checked where a measure needs them
        labels=records,
    )


def check_measures(path: str, records: Sequence[Record], arguments: EvaluationArguments) -> None:
    """
    Require that a test set has what the measures asked for need.

    Raises:
        `ValueError`: naming the test set.
    """
    source, target = languages(records, arguments.target_lang, path)
    references, names = [record["tgt"] for record in records], [record["id"] for record in records]
    for measure in arguments.measures:
        try:
            check_measure(measure, references, target, measure_inputs(records, source, arguments), names)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _counts(measured: dict[str, Measured]) -> dict[str, np.ndarray]:
    return {measure: found.statistics for measure, found in measured.items()}


def compare(
    measured: dict[str, Measured],
    hypotheses: Hypotheses,
    baseline: Hypotheses,
    records: Sequence[Record],
    target: str | None,
    arguments: EvaluationArguments,
    inputs: MeasureInputs,
) -> dict[str, Any]:
    """Score a baseline and set the system against it."""
    references = [record["tgt"] for record in records]
    of_baseline = measure_documents(baseline.documents, references, target, measures=arguments.measures, inputs=inputs)
    result: dict[str, Any] = {"scores": {measure: found.entry for measure, found in of_baseline.items()}}
    if arguments.resamples and len(records) > 1:
        result["bootstrap"] = paired_bootstrap(
            hypotheses.documents,
            baseline.documents,
            references,
            target,
            measures=arguments.measures,
            resamples=arguments.resamples,
            seed=arguments.seed,
            inputs=inputs,
            statistics=_counts(measured),
            baseline_statistics=_counts(of_baseline),
        )
    return result


def evaluate_test_set(
    path: str,
    records: Sequence[Record],
    hypotheses: Hypotheses,
    baselines: dict[str, Hypotheses],
    arguments: EvaluationArguments,
) -> dict[str, Any]:
    """
    Score one test set.

    Args:
        path (`str`):
            File of the test set.
        records (`Sequence[dict]`):
            Its documents.
        hypotheses (`Hypotheses`):
            Their translations.
        baselines (`dict[str, Hypotheses]`):
            Translations to compare with, by name.
        arguments (`EvaluationArguments`):
            Measures, bootstrap, target language.

    Returns:
        `dict`: the entry of the test set in the result file.
    """
    references = [record["tgt"] for record in records]
    check_counts(hypotheses.documents, references, [record["id"] for record in records])
    source, target = languages(records, arguments.target_lang, path)
    inputs = measure_inputs(records, source, arguments)
    measured = measure_documents(hypotheses.documents, references, target, measures=arguments.measures, inputs=inputs)
    result: dict[str, Any] = {
        "name": test_set_name(path),
        "file": portable_path(path),
        "sha256": sha256_of_file(path),
        "source_lang": source,
        "target_lang": target,
        "documents": len(records),
        "sentences": sum(len(record["src"]) for record in records),
        "scores": {measure: found.entry for measure, found in measured.items()},
    }
    if arguments.resamples and len(records) > 1:
        result["intervals"] = bootstrap_intervals(
            hypotheses.documents,
            references,
            target,
            measures=arguments.measures,
            resamples=arguments.resamples,
            seed=arguments.seed,
            inputs=inputs,
            statistics=_counts(measured),
        )
    if hypotheses.status is not None:
        result["status"] = hypotheses.status_counts()
    if hypotheses.free_status is not None:
        result["coverage"] = coverage(hypotheses.free_status)
    if hypotheses.seconds is not None and hypotheses.target_tokens is not None:
        result["seconds"] = round(hypotheses.seconds, 2)
        result["target_tokens"] = hypotheses.target_tokens
        result["target_tokens_per_second"] = round(hypotheses.target_tokens / hypotheses.seconds, 1)
    result["baselines"] = {
        name: compare(measured, hypotheses, baseline, records, target, arguments, inputs)
        for name, baseline in baselines.items()
    }
    return result


def test_set_name(path: str) -> str:
    """Return the file name without its endings: `test.en-de.wesnoth`."""
    return Path(path).name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".parquet")


def describe_model(translator: Translator, arguments: EvaluationArguments) -> dict[str, Any]:
    """Say which weights were used, and how they decoded."""
    model, folder = translator.model, Path(str(arguments.model))
    info: dict[str, Any] = {"path": portable_path(folder), "model_type": model.config.model_type}
    if translator.is_docmt:
        info["system"] = model.config.system
    info["parameters"] = model.num_parameters()
    if (folder / "model.safetensors").is_file():
        info["weights_sha256"] = sha256_of_file(folder / "model.safetensors")
    decoding = generation_options(arguments)
    if translator.is_docmt:
        decoding["decoding"] = decoding_mode(model, decoding)
        if model.config.sequence_format in ("context_window", "source_context"):
            decoding["context_sentences"] = model.config.context_sentences
    else:
        refused = [name for name in decoding if name in DOCUMENT_OPTIONS]
        if refused:
            raise ValueError(
                f"`--{refused[0]}` is an option of DocMT models, but {arguments.model} holds a "
                f"{model.config.model_type!r}, which translates each sentence by itself. Leave it out."
            )
        decoding["decoding"] = "sentence"
    decoding |= {"batch_size": arguments.batch_size, "dtype": str(model.dtype).removeprefix("torch.")}
    return {"model": info, "decoding": {**decoding, "device": translator.device.type}}


def hypothesis_records(records: Sequence[Record], hypotheses: Hypotheses) -> list[Record]:
    """Return the documents with the translations in `tgt`, and `status` and `score` where they are known."""
    output = []
    for index, record in enumerate(records):
        kept: Record = {key: value for key, value in record.items() if key in ("id", "src_lang", "tgt_lang", "src")}
        kept["tgt"] = hypotheses.documents[index]
        if hypotheses.status is not None:
            kept["status"] = hypotheses.status[index]
        if hypotheses.scores is not None:
            kept["score"] = hypotheses.scores[index]
        output.append(kept)
    return output


def evaluate(arguments: EvaluationArguments, command: Sequence[str] | None = None) -> dict[str, Any]:
    """
    Run an evaluation: check all input, translate where a model is given, score, and write what was asked for.

    Args:
        arguments (`EvaluationArguments`):
            What to do.
        command (`Sequence[str]`, *optional*):
            Arguments as typed, for the record; those of the process by default.

    Returns:
        `dict`: the content of the result file.
    """
    # whatever can be wrong with the files is found before the model runs for an hour
    test_sets = [read_test_set(path, arguments.max_documents) for path in arguments.data]
    for path, records in zip(arguments.data, test_sets, strict=True):
        check_measures(path, records, arguments)
    finished = _read_all(arguments.hypotheses, test_sets)
    others = _read_all(arguments.baseline_hypotheses, test_sets)

    result: dict[str, Any] = {"kind": "evaluation", "name": system_name(arguments)}
    translator = None
    if arguments.model is not None:
        translator = Translator(arguments.model, arguments.device, arguments.dtype)
        result |= describe_model(translator, arguments)
    else:
        result["hypotheses"] = {portable_path(path): sha256_of_file(path) for path in arguments.hypotheses or []}
    if arguments.max_documents is not None:
        result["max_documents"] = arguments.max_documents
    if arguments.baseline_hypotheses:
        result["baseline_hypotheses"] = {
            portable_path(path): sha256_of_file(path) for path in arguments.baseline_hypotheses
        }

    result["test_sets"], translations = [], []
    for index, (path, records) in enumerate(zip(arguments.data, test_sets, strict=True)):
        if translator is not None:
            hypotheses = translator.translate(
                records, batch_size=arguments.batch_size, name=test_set_name(path), **generation_options(arguments)
            )
        else:
            hypotheses = finished[index]
        baselines = {"copy": copy_source(records)} if arguments.baseline == "copy" else {}
        if others:
            baselines[arguments.baseline_name] = others[index]
        result["test_sets"].append(evaluate_test_set(path, records, hypotheses, baselines, arguments))
        translations.append(hypothesis_records(records, hypotheses))
    result["run"] = run_info(command)

    if arguments.save_hypotheses is not None:
        for path, translated in zip(arguments.data, translations, strict=True):
            write_documents(Path(arguments.save_hypotheses) / f"{test_set_name(path)}.jsonl", translated)
    if arguments.output is not None:
        write_json_atomic(arguments.output, result)
    return result


def _read_all(paths: list[str] | None, test_sets: Sequence[Sequence[Record]]) -> list[Hypotheses]:
    return [read_hypotheses(path, records) for path, records in zip(paths or [], test_sets, strict=False)]


def system_name(arguments: EvaluationArguments) -> str:
    """Return the name given, or that of the model folder or the first file of hypotheses."""
    if arguments.name:
        return arguments.name
    files = [arguments.model] if arguments.model is not None else arguments.hypotheses or []
    return Path(files[0]).resolve().name


def parse_arguments(arguments: Sequence[str] | None = None) -> EvaluationArguments:
    """Read flags; a YAML file in front of them holds their defaults."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    (parsed,) = parse_flags(words, [EvaluationArguments], description=__doc__.split("\n\n")[0])
    return parsed


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command `docmt-evaluate`."""
    try:
        result = evaluate(parse_arguments(arguments), arguments)
    # a wrong argument or file is answered with what to do, not with a traceback
    except (ValueError, OSError) as error:
        raise SystemExit(f"docmt-evaluate: {error}") from error
    print("\n".join([score_table(result), *coverage_lines(result)]))


if __name__ == "__main__":
    main()
