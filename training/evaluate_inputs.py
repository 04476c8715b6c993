"""What `training.evaluate` reads, checked as a whole before a model runs for an hour."""

import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

from transformers import AutoConfig, PreTrainedConfig

from training.context_use_items import check_documents, context_sizes, text_pairs
from training.contrastive import suite_sizes, system_format
from training.contrastive_arguments import ContrastiveArguments
from training.contrastive_items import ContrastiveItem, held_context
from training.contrastive_readers import read_suite, suite_languages
from training.contrastive_scorer import window_alignment
from training.documents import Record, read_documents
from training.evaluate_arguments import (
    ALL,
    DOCUMENT_OPTIONS,
    EvaluationArguments,
    generation_options,
    test_set_name,
)
from training.hypotheses import Hypotheses, copy_source, hypotheses_file, read_hypotheses
from training.metrics import ALL_MEASURES, MeasureInputs, check_measure
from training.metrics.comet_score import COMET_MEASURE
from training.metrics.documents import primary_language
from training.metrics.taggers import load_tagger


Languages = tuple[str | None, str | None]


@dataclasses.dataclass(frozen=True)
class EvaluationSet:
    """
    A test set, and what was translated of it before.

    Args:
        path (`str`): Its file.
        records (`list[dict]`): Its documents.
        source, target (`str`, *optional*): Its languages.
        measures (`list[str]`): What is computed.
        left_out (`dict[str, str]`): Of all measures those that do not fit, and why.
        hypotheses (`Hypotheses`, *optional*): Finished translations.
        baselines (`dict[str, Hypotheses]`): Translations to compare with, by name.
    """

    path: str
    records: list[Record]
    source: str | None
    target: str | None
    measures: list[str]
    left_out: dict[str, str]
    hypotheses: Hypotheses | None
    baselines: dict[str, Hypotheses]

    @property
    def name(self) -> str:
        """The name of the file, without its endings."""
        return test_set_name(self.path)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Test sets, contrastive suites, and files of translations to compare with."""

    test_sets: list[EvaluationSet]
    suites: dict[str, list[ContrastiveItem]]
    baseline_files: list[str]


def read_inputs(arguments: EvaluationArguments) -> Inputs:
    """
    Read test sets, translations and suites, and require that they fit each other and the model.

    Raises:
        `ValueError`: naming the file, what is wrong, and what to do.
    """
    files: list[str] = []
    test_sets = []
    for index, path in enumerate(arguments.data):
        records = read_test_set(path, arguments.max_documents)
        source, target = languages(records, arguments.target_lang, path)
        measures, left_out = fitting_measures(path, records, arguments)
        found = read_hypotheses(arguments.hypotheses[index], records) if arguments.hypotheses else None
        of_baselines = _baseline_files(arguments, index)
        files += of_baselines.values()
        baselines = {name: read_hypotheses(file, records) for name, file in of_baselines.items()}
        if arguments.baseline == "copy":
            baselines = {"copy": copy_source(records), **baselines}
        test_sets.append(EvaluationSet(path, records, source, target, measures, left_out, found, baselines))
    if arguments.report is not None and any(primary_language(one.target or "") == "de" for one in test_sets):
        load_tagger(arguments.tagger)  # the page marks pronouns
    inputs = Inputs(test_sets, {path: read_suite(path) for path in arguments.suites}, files)
    if arguments.model is not None:
        _check_model(arguments, inputs)
    return inputs


def read_test_set(path: str, max_documents: int | None = None) -> list[Record]:
    """Read the documents of a test set, which all need a translation."""
    records = list(itertools.islice(read_documents(path), max_documents))
    if not any(record["src"] for record in records):
        raise ValueError(f"{path}: there is no sentence to score.")
    return records


def languages(records: Sequence[Record], target_lang: str | None, path: str) -> Languages:
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
    """Collect what measures read of a test set beside its references."""
    return MeasureInputs(
        sources=[record["src"] for record in records],
        source_lang=source,
        tagger=arguments.tagger,
        # whether they hold labels is checked where a measure needs them
        labels=records,
        comet=arguments.comet,
        comet_command=arguments.comet_command,
    )


def fitting_measures(
    path: str, records: Sequence[Record], arguments: EvaluationArguments
) -> tuple[list[str], dict[str, str]]:
    """
    Measures of a test set: those asked for, or all that its languages and labels allow.

    Returns:
        `tuple`: names of measures, and of those left out the reason, by name.

    Raises:
        `ValueError`: naming the test set, where a measure that was asked for does not fit, or lacks its software.
    """
    source, target = languages(records, arguments.target_lang, path)
    references, names = [record["tgt"] for record in records], [record["id"] for record in records]
    inputs = measure_inputs(records, source, arguments)
    measures, left_out = list(arguments.measures), {}
    if measures == [ALL]:
        measures = []
        for measure in ALL_MEASURES:
            if measure == COMET_MEASURE:
                continue
            try:
                # a tagger that is not installed is no reason to leave out what fits
                check_measure(measure, references, target, dataclasses.replace(inputs, tagger="none"), names)
                measures.append(measure)
            except ValueError as error:
                left_out[measure] = str(error)
        if arguments.comet is None:
            left_out[COMET_MEASURE] = "there is no checkpoint: name one with `--comet`"
    if arguments.comet is not None and COMET_MEASURE not in measures:
        measures.append(COMET_MEASURE)
    for measure in measures:
        try:
            check_measure(measure, references, target, inputs, names)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    return measures, left_out


def _baseline_files(arguments: EvaluationArguments, index: int) -> dict[str, str]:
    """Translations of each further system for test set `index`, by name."""
    files = {}
    if arguments.baseline_hypotheses:
        files[arguments.baseline_name] = arguments.baseline_hypotheses[index]
    for name, path in arguments.named_baselines():
        is_only, test_set = len(arguments.data) == 1, test_set_name(arguments.data[index])
        files[name] = str(hypotheses_file(path, test_set, is_only=is_only))
    return files


def suite_arguments(arguments: EvaluationArguments) -> ContrastiveArguments:
    """Options of `training.contrastive` for the suites; all that are not ours are its defaults."""
    return ContrastiveArguments(
        model=str(arguments.model),
        suite=arguments.suites,
        curve=arguments.suite_curve,
        **{name: getattr(arguments, name) for name in ("alignment", "num_processes", "device", "dtype")},
    )


def _check_model(arguments: EvaluationArguments, inputs: Inputs) -> None:
    """Require that the model can do what it is asked for, from its configuration alone."""
    model = str(arguments.model)
    try:
        config = AutoConfig.from_pretrained(model)
    except OSError as error:
        raise ValueError(
            f"`--model`: {model} is no model folder, which has a `config.json`, and no model of the Hub that can be "
            "reached. Check the name."
        ) from error
    refused = [name for name in generation_options(arguments) if name in DOCUMENT_OPTIONS]
    if refused and config.model_type != "docmt":
        raise ValueError(
            f"`--{refused[0]}` is an option of DocMT models, but {model} holds a {config.model_type!r}, which "
            "translates each sentence by itself. Leave it out."
        )
    pairs = {test_set.path: (test_set.source, test_set.target) for test_set in inputs.test_sets}
    pairs |= {path: suite_languages(path) for path in inputs.suites}
    check_languages(model, model_languages(model, config), pairs)
    if arguments.attention_share and config.model_type != "docmt":
        raise ValueError(
            f"`--attention_share` reads the attention of DocMT models, but {model} holds a {config.model_type!r}. "
            "Leave it out, or convert the model: `python -m modeling_docmt.convert_marian`."
        )
    if not arguments.scores_sequences:
        return
    window_alignment(config, arguments.alignment)
    form, _ = system_format(model)
    for path, items in inputs.suites.items():
        suite_sizes(path, held_context(items), form, suite_arguments(arguments))
    for test_set in inputs.test_sets if arguments.context_use else []:
        documents = text_pairs(test_set.records)
        check_documents(documents, test_set.path)
        context_sizes(form, documents)


def model_languages(model: str, config: PreTrainedConfig) -> Languages:
    """Source and target language as the configuration of a model or of its tokenizer names them."""
    file = Path(model) / "tokenizer_config.json"
    of_tokenizer = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    source, target = (
        config.to_dict().get(name) or of_tokenizer.get(name) or None for name in ("source_lang", "target_lang")
    )
    return source, target


def check_languages(model: str, of_model: Languages, of_files: dict[str, Languages]) -> None:
    """
    Require one language pair of a model and all that it is scored on, as far as languages are known.

    Only codes of two letters are compared: "deu" and "ger" are one language, and "roa" is many.

    Raises:
        `ValueError`: naming both files.
    """
    for side, name in enumerate(("source", "target")):
        known, where = _two_letters(of_model[side]), f"the model {model}"
        for path, pair in of_files.items():
            found = _two_letters(pair[side])
            if known is None:
                known, where = found, path
            elif found not in (None, known):
                raise ValueError(
                    f"{path}: the {name} language is {found!r}, but that of {where} is {known!r}. Leave it out, and "
                    "score it with a model of its languages. If only the name is wrong, correct `src_lang` and "
                    "`tgt_lang` of its records."
                )


def _two_letters(language: str | None) -> str | None:
    code = primary_language(language) if language else ""
    return code if len(code) == 2 else None
