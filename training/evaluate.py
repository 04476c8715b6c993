"""
Score a model or finished translations on test sets with all measures of the project, in one JSON file.

    python -m training.evaluate --model outputs/concat-adj --data test.en-de.wesnoth.jsonl.gz \
        --baseline copy --num_beams 4 --output training/results/concat-adj.eval.json
    python -m training.evaluate --hypotheses wesnoth.de --data test.en-de.wesnoth.jsonl.gz
    python -m training.evaluate --hypotheses wesnoth.de --data test.en-de.wesnoth.jsonl.gz \
        --measures s-BLEU d-BLEU pronoun-F1 formality-F1 lexical-consistency
    python -m training.evaluate --model outputs/concat-adj --data test.en-de.wesnoth.jsonl.gz --measures all \
        --suites contrapro.en-de.jsonl.gz --suite_curve 0 1 --context_use --attention_share \
        --baseline copy --baselines sentence-level=outputs/sentence-level.hypotheses \
        --output concat-adj.eval.json --report concat-adj.html

s-BLEU, d-BLEU, chrF and TER are computed unless `--measures` names others. The discourse measures must be asked for,
since each fits some test sets only: pronoun-F1 and formality-F1 English to German (with the tagger HanTa,
`pip install 'docmt[discourse]'`, or `--tagger none`), TCP, TC, CP and PT the labelled test set of Sun et al.,
lexical-consistency languages with blanks between words; `--measures all` takes those that fit, and the result says
which do not, and why. `--comet` adds COMET from a checkpoint on the disk. `training/metrics/` defines them.

`--suites` scores contrastive suites with the model, `--context_use` says what context is worth to it, and
`--attention_share` how much it looks at the aligned sentence; `training.contrastive`, `training.context_use` and
`training.attention_share` have more options.

Input: test sets as documents (JSON Lines, gzip or not), and a model folder, or one file of hypotheses a test set; or a
model and suites alone. All of it is checked before the model runs. Output: a table on stdout, progress on stderr, with
`--report` an HTML page, and with `--output` a result file that holds the scores together with their recipe: signature,
decoding mode, hash of data and weights, commit, versions, hardware, time. Every score has an interval, and with
baselines (the copied source, or other systems' hypotheses) the differences have one too, from a bootstrap over
documents. With `--decoding free` sentence coverage is reported too.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.arguments import parse_arguments as parse_flags
from training.coverage import coverage_lines
from training.documents import write_documents
from training.evaluate_arguments import EvaluationArguments, generation_options
from training.evaluate_inputs import EvaluationSet, Inputs, read_inputs
from training.evaluate_model import describe_decoding, describe_model, score_sequences, share_entry
from training.evaluate_scores import evaluate_test_set, hypothesis_records
from training.hypotheses import Hypotheses, Translator
from training.results import portable_path, run_info, sha256_of_file, sha256_of_files, write_json_atomic
from training.score_table import score_table


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
    inputs = read_inputs(arguments)
    result: dict[str, Any] = {"kind": "evaluation", "name": arguments.system_name}
    if arguments.model is not None:
        result["model"] = describe_model(arguments.model)
    else:
        result["hypotheses"] = {portable_path(path): sha256_of_file(path) for path in arguments.hypotheses or []}
    if arguments.max_documents is not None:
        result["max_documents"] = arguments.max_documents
    if inputs.baseline_files:
        result["baseline_hypotheses"] = sha256_of_files(inputs.baseline_files)
    result["test_sets"] = []
    uses: list[dict[str, Any]] = []
    if arguments.scores_sequences:
        # before the translation, which takes longer: two models need not be in memory at once
        of_model, uses = score_sequences(arguments, inputs)
        result |= of_model
    translations = _translate(arguments, inputs, result)
    for index, test_set in enumerate(inputs.test_sets):
        hypotheses, share = translations[index]
        entry = evaluate_test_set(test_set, hypotheses, arguments)
        if uses:
            entry["context_use"] = uses[index]
        if share is not None:
            entry["attention_share"] = share
        result["test_sets"].append(entry)
    result["run"] = run_info(command)
    _write(arguments, inputs.test_sets, [hypotheses for hypotheses, _ in translations], result)
    return result


def _translate(
    arguments: EvaluationArguments, inputs: Inputs, result: dict[str, Any]
) -> list[tuple[Hypotheses, dict[str, Any] | None]]:
    """The translations of each test set, finished or made now, and the share of attention where it is asked for."""
    if arguments.model is None or not inputs.test_sets:
        return [(test_set.hypotheses, None) for test_set in inputs.test_sets if test_set.hypotheses is not None]
    translator = Translator(arguments.model, arguments.device, arguments.dtype)
    result["model"]["parameters"] = translator.model.num_parameters()
    result["decoding"] = describe_decoding(translator, arguments)
    translations = [
        translator.translate(
            test_set.records, batch_size=arguments.batch_size, name=test_set.name, **generation_options(arguments)
        )
        for test_set in inputs.test_sets
    ]
    if not arguments.attention_share:
        return [(hypotheses, None) for hypotheses in translations]
    return [
        (hypotheses, share_entry(translator, test_set.records, hypotheses))
        for test_set, hypotheses in zip(inputs.test_sets, translations, strict=True)
    ]


def _write(
    arguments: EvaluationArguments,
    test_sets: Sequence[EvaluationSet],
    translations: Sequence[Hypotheses],
    result: dict[str, Any],
) -> None:
    """Write translations, result file and page, as far as they are asked for."""
    pairs = list(zip(test_sets, translations, strict=True))
    if arguments.save_hypotheses is not None:
        for test_set, hypotheses in pairs:
            path = Path(arguments.save_hypotheses) / f"{test_set.name}.jsonl"
            write_documents(path, hypothesis_records(test_set.records, hypotheses))
    if arguments.output is not None:
        write_json_atomic(arguments.output, result)
    if arguments.report is not None:
        from training.report_page import DocumentView, write_report

        views = []
        for test_set, hypotheses in pairs:
            systems = {result["name"]: hypotheses, **test_set.baselines}
            views.append(
                DocumentView(
                    name=test_set.name,
                    records=test_set.records,
                    hypotheses={name: found.documents for name, found in systems.items()},
                    statuses={name: found.status for name, found in systems.items() if found.status is not None},
                )
            )
        write_report(arguments.report, [result], views, tagger=arguments.tagger)


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
