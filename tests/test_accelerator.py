"""The quarter of an hour on a GPU: that its commands are valid, and that it runs in small."""

import json
import shlex
from pathlib import Path

import pytest

from training.accelerator import SIZES, AcceleratorArguments, main, parts
from training.arguments import (
    DataArguments,
    ModelArguments,
    TrainingArguments,
    parse_arguments,
    parse_config_overrides,
)
from training.benchmark_attention import AttentionArguments
from training.benchmark_steps import StepsArguments
from training.evaluate import EvaluationArguments
from training.train_tokenizer import TokenizerArguments


TOY = str(Path(__file__).parent / "data" / "toy.en-de.jsonl")
PARSED = {
    "tokenizer": [TokenizerArguments],
    "attention": [AttentionArguments],
    "steps": [StepsArguments],
    "training": [ModelArguments, DataArguments, TrainingArguments],
    "scores": [EvaluationArguments],
}


def arguments(**changes) -> AcceleratorArguments:
    return AcceleratorArguments(**{"train_file": [TOY], "test_file": [TOY], **changes})


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_every_command_is_one_that_its_module_understands(size, device, tmp_path):
    runs = parts(arguments(size=size, output_dir=str(tmp_path)), device)
    assert [run.name for run in runs] == list(PARSED)
    for run in runs:
        words = shlex.split(run.command)
        words = words[2 if words[0] == "training.benchmark" else 1 :]
        # bfloat16 is refused by training arguments where there is no GPU
        words = [word for word in words if word not in ("--bf16", "True", "--use_cpu")] + (
            ["--use_cpu"] if run.name == "training" else []
        )
        parsed = parse_arguments(words, PARSED[run.name])  # raises for what the module does not know
        if run.name == "training":
            assert parse_config_overrides(parsed[0].config_overrides)["relative_cross"] is True


def test_a_full_run_without_a_gpu_and_missing_files_are_refused(tmp_path):
    with pytest.raises(SystemExit, match="There is no GPU"):
        main(["--train_file", TOY, "--test_file", TOY, "--device", "cpu", "--output_dir", str(tmp_path)])
    with pytest.raises(SystemExit, match="`--train_file` names 'nothing.jsonl'"):
        main(["--train_file", "nothing.jsonl", "--size", "small", "--device", "cpu"])


def test_a_part_that_would_end_too_late_is_left_out_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr("training.accelerator.SIZES", {**SIZES, "full": SIZES["small"]})
    monkeypatch.setattr("training.accelerator.MINUTES", dict.fromkeys(PARSED, 1e9))
    folder = tmp_path / "out"
    with pytest.raises(SystemExit, match="without tokenizer, attention, steps, training, scores"):
        main(["--train_file", TOY, "--test_file", TOY, "--device", "cuda", "--output_dir", str(folder)])
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["results"] == {} and summary["left_out"] == list(PARSED)


@pytest.mark.slow
def test_it_runs_in_small_and_is_not_done_twice(tmp_path):
    words = ["--train_file", TOY, "--test_file", TOY, "--size", "small", "--device", "cpu"]
    main([*words, "--output_dir", str(tmp_path)])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["left_out"] == []
    assert [summary["results"][name]["kind"] for name in ("attention", "steps", "training", "scores")] == [
        *("attention-benchmark", "step-benchmark", "training", "evaluation")
    ]
    first = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json") if path.name != "summary.json"}
    main([*words, "--output_dir", str(tmp_path)])
    assert first == {path: path.stat().st_mtime_ns for path in first}
