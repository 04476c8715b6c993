"""
Translate a document with the checkpoint of this repository and show source and translation side by side.

    python -m training.demo
    python -m training.demo --file letter.txt
    python -m training.demo --model outputs/concat-adj --num_beams 1

The checkpoint is loaded as any user of the Hub would load it, through `pipeline("translation", ...)` with the code in
its own folder, and without a network. A model that translates in context is shown with and without it.
"""

import argparse
import os
import shutil
import sys
import textwrap
import time
import unicodedata
from pathlib import Path
from typing import Any


DEFAULT_MODEL = Path(__file__).resolve().parent.parent / "hub_cards" / "docmt-tiny-en-de"

# pronouns whose German form depends on the sentence before: the door (die), the key (der), the window (das)
EXAMPLE = """\
The old tower

The door is locked. I cannot open it.
Where is the key? It was on the table.
The soldiers are in the village. They are looking for the king.
The elf saw the window. It was open, and she smiled.
"We must leave now!" said the captain.

  1. Choose File - Open.
  2. Select the document, and then click OK. It is opened in a new window.
  3. To save the file, press Ctrl+S.
"""


def display_width(text: str) -> int:
    """Columns that a text takes on a terminal, about."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def side_by_side(rows: list[tuple[str, ...]], width: int) -> str:
    """
    Lay texts out in columns of equal width.

    Args:
        rows (`list[tuple[str, ...]]`): The texts of each row, as many in every row; empty ones give an empty line.
        width (`int`): Columns of the terminal.
    """
    if not rows:
        return ""
    gap = "  "
    column = max(10, (width - len(gap) * (len(rows[0]) - 1)) // len(rows[0]))
    lines = []
    for row in rows:
        # half as many characters where they are twice as wide
        cells = [textwrap.wrap(cell, column if display_width(cell) <= len(cell) else column // 2) for cell in row]
        for index in range(max(1, *map(len, cells))):
            texts = [cell[index] if index < len(cell) else "" for cell in cells]
            padded = [text + " " * (column - display_width(text)) for text in texts]
            lines.append(gap.join(padded).rstrip())
    return "\n".join(lines)


def load_pipeline(model: str) -> Any:
    """Load a checkpoint folder, with its own code."""
    # before the import: nothing is asked of the network
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import pipeline
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    return pipeline("translation", model=model, trust_remote_code=True)


def count_tokens(pipe: Any, result: dict[str, Any]) -> int:
    """Target tokens of the sentences that the model translated, with the end of each."""
    texts = [sentence["translation"] for sentence in result["sentences"] if sentence["score"] is not None]
    if not texts:
        return 0
    encoded = pipe.tokenizer(text_target=texts, add_special_tokens=False)["input_ids"]
    return sum(len(ids) + 1 for ids in encoded)


def translate(pipe: Any, text: str, **options: Any) -> tuple[dict[str, Any], str]:
    """Translate a document; returns the result and a line on time and speed."""
    start = time.perf_counter()
    result = pipe(text, **options)
    seconds = time.perf_counter() - start
    tokens = count_tokens(pipe, result)
    count = sum(sentence["status"] != "empty" for sentence in result["sentences"])
    return result, f"{count} sentences, {tokens} tokens in {seconds:.2f} s ({tokens / seconds:.0f} tokens/s)"


def demonstrate(text: str, model: str, num_beams: int, segmentation: str, width: int) -> str:
    """Translate a document and describe the outcome, ready to print."""
    start = time.perf_counter()
    pipe = load_pipeline(model)
    loading = time.perf_counter() - start
    config = pipe.model.config
    options = {"num_beams": num_beams, "segmentation": segmentation}
    result, speed = translate(pipe, text, **options)
    columns = [("source", "source"), ("translation", "translation")]
    timing = [f"{config.system}, loaded in {loading:.1f} s; {speed}"]
    rows = [tuple(sentence[key] for _, key in columns) for sentence in result["sentences"]]
    titles = tuple(title for title, _ in columns)
    # the point of a document system: what a sentence turns into without the others
    if config.sequence_format != "sentence":
        alone, speed = translate(pipe, text, decoding="sentence", **options)
        titles = ("source", "with context", "each sentence alone")
        rows = [(*row, sentence["translation"]) for row, sentence in zip(rows, alone["sentences"], strict=True)]
        timing.append(f"each sentence alone: {speed}")
    rules = tuple("-" * len(title) for title in titles)
    return "\n".join([side_by_side([titles, rules, *rows], width), "", *timing])


def main(argv: list[str] | None = None) -> None:
    """Run the command, see the module's docstring."""
    description, _, _ = (__doc__ or "").strip().partition("\n")
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--file", help="UTF-8 text to translate in place of the example")
    parser.add_argument("--model", default=str(DEFAULT_MODEL), help="checkpoint folder (default: that of hub_cards)")
    parser.add_argument("--num_beams", type=int, default=4, help="1 is greedy (default: %(default)s)")
    parser.add_argument(
        "--segmentation",
        choices=["lines", "sentences", "paragraphs"],
        default="sentences",
        help="what is a sentence of the file: a line, or what the splitter finds (default: %(default)s)",
    )
    arguments = parser.parse_args(argv)
    if not (Path(arguments.model) / "config.json").is_file():
        parser.error(f"--model: there is no checkpoint in {arguments.model}. Train one with python -m training.train.")
    text = EXAMPLE
    if arguments.file:
        try:
            text = Path(arguments.file).read_bytes().decode("utf-8")
        except FileNotFoundError:
            parser.error(f"--file: there is no file {arguments.file}.")
        except UnicodeDecodeError as error:
            parser.error(f"--file: {arguments.file} is not UTF-8 (position {error.start}). Convert it with iconv.")
    width = shutil.get_terminal_size((120, 24)).columns
    output = demonstrate(text, arguments.model, arguments.num_beams, arguments.segmentation, width)
    sys.stdout.write(output + "\n")


if __name__ == "__main__":
    main()
