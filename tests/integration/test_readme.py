"""
What the README tells a user to type must work: each ```bash and each ```python block is run in order, in one folder.

The folder is laid out as the checkout is. Commands that would run for hours get small sizes appended, the last value
of an option being the one that counts; in place of the Hub there is a folder with a small Marian checkpoint. Only
`make` is left out, since this test is part of it.
"""

import os
import re
import shlex
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from marian_models import write_opus_checkpoint


REPOSITORY = Path(__file__).resolve().parents[2]
CHECKPOINT = "hub_cards/docmt-tiny-en-de"
SMALL_MODEL = "d_model=16,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,decoder_attention_heads=2"
MARIAN = "Helsinki-NLP/opus-mt-en-de"


def small_sizes(module: str, arguments: list[str]) -> list[str]:
    """Options that make a command of the README a matter of seconds."""
    if module == "training.train_tokenizer":
        return ["--vocab_size", "560"]
    if module == "training.train":
        sizes = ["--max_steps", "2", "--train_batch_tokens", "256", "--use_cpu", "true"]
        return sizes if "--init_from" in arguments else [*sizes, "--config_overrides", SMALL_MODEL]
    if module == "training.evaluate":
        sizes = ["--num_beams", "1", "--resamples", "20"]
        return sizes if "--measures" in arguments else [*sizes, "--measures", "s-BLEU", "chrF"]
    return []


def blocks(kind: str) -> list[str]:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = "".join(blocks("bash")).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith(("#", "make "))]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, toy_documents, tokenizer, make_model) -> Path:
    """A folder like that of a user: the packages, a checkpoint, some text."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("modeling_docmt", "training"):
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / "hub_cards").mkdir()
    if (REPOSITORY / CHECKPOINT / "model.safetensors").exists():
        (folder / CHECKPOINT).symlink_to(REPOSITORY / CHECKPOINT)
    else:
        make_model(source_lang="en", target_lang="de").save_pretrained(folder / CHECKPOINT)
        tokenizer.save_pretrained(folder / CHECKPOINT)
    documents = [record for record in toy_documents if record["id"] not in ("empty-lines", "numbers", "long-sentence")]
    for side, language in (("src", "en"), ("tgt", "de")):
        text = "\n\n".join("\n".join(record[side]) for record in documents) + "\n"
        for part in ("train", "test"):
            (folder / f"{part}.{language}.txt").write_text(text, encoding="utf-8")
    (folder / MARIAN).mkdir(parents=True)
    write_opus_checkpoint(folder / MARIAN, documents, encoder_layers=1, decoder_layers=1)
    (folder / "letter.en.txt").write_text("Dear friend,\n\nthe door is open.\n", encoding="utf-8")
    return folder


def run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    assert result.returncode == 0, f"{shlex.join(command)}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def test_commands_of_the_readme_work_in_order(checkout):
    assert len(commands()) >= 5
    for command in commands():
        program, *arguments = shlex.split(command, comments=True)
        assert program == "python", f"say how to test `{command}`"
        run([sys.executable, *arguments, *small_sizes(arguments[1], arguments)], checkout)
    translation = (checkout / "letter.de.txt").read_text(encoding="utf-8")
    assert translation.count("\n") == 3
    assert translation.split("\n")[1] == ""


def test_python_of_the_readme_works(checkout):
    assert blocks("python")
    for block in blocks("python"):
        output = run([sys.executable, "-c", block], checkout)
        assert "The bridge is old. ->" in output


def test_console_commands_are_functions_that_exist():
    setup = ConfigParser()
    setup.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    entries = setup["options.entry_points"]["console_scripts"].split("\n")
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for entry in filter(None, entries):
        name, _, target = (part.strip() for part in entry.partition("="))
        module, _, function = target.partition(":")
        file = REPOSITORY / (module.replace(".", "/") + ".py")
        assert re.search(rf"^def {function}\(", file.read_text(encoding="utf-8"), flags=re.MULTILINE), entry
        assert f"`{name}`" in text, f"{name} is not in the README"


def test_links_of_the_readme_lead_to_files():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    paths = [path for path in re.findall(r"\]\(([^)]+)\)", text) if "://" not in path]
    assert paths
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []
