"""
Write a trained model as a folder to publish: half-precision weights, tokenizer, decoding defaults and code.

    python -m training.export --model runs/my-model --output_dir hub_cards/my-model

Input: a folder of `training.train`. Output: a folder that `from_pretrained` and `pipeline` load in float32, with or
without this package, at half the size.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import HfArgumentParser

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer

from .results import write_json_atomic


@dataclass
class ExportArguments:
    """Options of `export`."""

    model: str = field(metadata={"help": "Folder of the trained model."})
    output_dir: str = field(metadata={"help": "Folder to write; further files in it, such as a card, stay."})
    num_beams: int = field(default=4, metadata={"help": "Default beams of the published model."})
    full_precision: bool = field(default=False, metadata={"help": "Keep float32 weights."})


def export_model(
    source: str | Path, target: str | Path, *, num_beams: int = 4, half: bool = True
) -> DocMTForConditionalGeneration:
    """
    Save a model for publishing.

    Args:
        source, target (`str` or `Path`): Folders.
        num_beams (`int`, *optional*, defaults to 4): Beams in the saved generation config.
        half (`bool`, *optional*, defaults to `True`): Store float16, to be loaded as float32.

    Returns:
        `DocMTForConditionalGeneration`: the model as a user loads it, its rounded weights included.
    """
    model = DocMTForConditionalGeneration.from_pretrained(source, dtype=torch.float32)
    model.generation_config.num_beams = num_beams
    if half:
        model = model.half()
    model.save_pretrained(target)
    DocMTTokenizer.from_pretrained(source).save_pretrained(target)
    # saving writes the type of the weights, which would then load, and run, in float16
    config_file = Path(target) / "config.json"
    config = json.loads(config_file.read_text(encoding="utf-8"))
    write_json_atomic(config_file, {**config, "dtype": "float32"})
    return DocMTForConditionalGeneration.from_pretrained(target)


def main(argv: list[str] | None = None) -> None:
    """Export one model, see the module's docstring."""
    parser = HfArgumentParser(ExportArguments, allow_abbrev=False, description=__doc__)
    (arguments,) = parser.parse_args_into_dataclasses(argv)
    if not Path(arguments.model, "config.json").is_file():
        raise ValueError(
            f"`model` must be the folder of a trained model, got {arguments.model!r}: no config.json in it."
        )
    model = export_model(
        arguments.model, arguments.output_dir, num_beams=arguments.num_beams, half=not arguments.full_precision
    )
    print(f"{model.num_parameters():,} parameters -> {arguments.output_dir}")


if __name__ == "__main__":
    main()
