"""`Seq2SeqTrainer` in a user's own script, in processes of its own: plain, checkpointed and on two processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from modeling_docmt import DocMTForConditionalGeneration


REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).parent / "user_script.py"
FLAGS = {
    **{"max_steps": 3, "logging_steps": 1, "save_steps": 3, "learning_rate": 0.01, "use_cpu": True},
    **{"per_device_eval_batch_size": 2, "predict_with_generate": True, "eval_do_concat_batches": True},
    # the same batches whatever the number of processes
    **{"report_to": "none", "disable_tqdm": True, "train_sampling_strategy": "sequential"},
}
# what a Trainer writes by `torch.save`: its arguments, and in checkpoints the states of optimizer and generators
PICKLES_OF_TRAINER = {"training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"}


@pytest.fixture(scope="module")
def train(tmp_path_factory, tokenizer, toy_corpus):
    """Run the script, behind `launcher`, and return its folder and the losses of its updates."""
    folder = tmp_path_factory.mktemp("user")
    tokenizer.save_pretrained(folder / "tokenizer")

    def run(name: str, *launcher: str, **flags) -> tuple[Path, list[float]]:
        output = folder / name
        options = [text for key, value in (FLAGS | flags).items() for text in (f"--{key}", str(value))]
        command = [sys.executable, *launcher, str(SCRIPT), str(toy_corpus), str(folder / "tokenizer"), str(output)]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
        environment |= {"HF_DATASETS_CACHE": str(folder / "datasets")}
        result = subprocess.run(
            [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
        assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
        history = json.loads((output / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
        evaluation = next(entry for entry in history if "eval_loss" in entry)
        assert evaluation["eval_documents"] == 4 and 0 <= evaluation["eval_bleu"] <= 100
        return output, [entry["loss"] for entry in history if "loss" in entry]

    return run


@pytest.fixture(scope="module")
def plain(train):
    return train("plain", per_device_train_batch_size=4)


def test_a_script_of_forty_lines_trains_evaluates_saves_and_reloads(plain):
    folder, losses = plain
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) <= 40
    assert len(losses) == 3 and losses[-1] < losses[0]
    model = DocMTForConditionalGeneration.from_pretrained(folder)
    assert model.config.system == "window-attn" and model.generation_config.max_sentence_tokens == 6
    again = DocMTForConditionalGeneration.from_pretrained(folder / "checkpoint-3")
    for (name, weight), other in zip(model.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(weight, other), name


def test_weights_are_in_safetensors_and_pickles_are_those_of_the_trainer(plain):
    folder, _ = plain
    for place in (folder, folder / "checkpoint-3"):
        assert load_file(place / "model.safetensors")
        written = {path.name for path in place.iterdir()}
        pickles = {name for name in written if name.endswith((".bin", ".pt", ".pth", ".pkl", ".ckpt"))}
        assert pickles <= PICKLES_OF_TRAINER
        assert {"modeling_docmt.py", "pipeline_docmt.py", "generation_config.json", "tokenizer.json"} <= written


@pytest.mark.slow
def test_two_processes_with_checkpointing_have_the_losses_of_one_without(train, plain):
    # fails if a layer loses its masks to checkpointing, or if the loss is not a mean over the tokens of all processes
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    flags = {"per_device_train_batch_size": 2, "ddp_find_unused_parameters": False, "gradient_checkpointing": True}
    _, losses = train("two", *launcher, **flags)
    assert losses == pytest.approx(plain[1], rel=1e-5)
