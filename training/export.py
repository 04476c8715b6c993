"""
Write a trained model as a folder to publish: half-precision weights, tokenizer, decoding defaults and code.

    python -m training.export --model runs/my-model --output_dir hub_cards/my-model
    python -m training.export --model runs/my-model --output_dir hub_cards/my-model --push_to_hub USER/my-model

Input: a folder of `training.train`. Output: a folder that `from_pretrained` and `pipeline` load in float32, with or
without this package, at half the size; on the Hub, too, where it is asked for, under the account of `hf auth login` or
of the variable `HF_TOKEN`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
from huggingface_hub import HfApi
from transformers.utils import logging

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer

from .command_line import make_parser, run_command
from .results import write_json_atomic


logger = logging.get_logger(__name__)

# left over from training where the folder of a run is given; who loads a pickle runs whatever is in it
NOT_TO_PUBLISH = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "checkpoint-*", "runs")


@dataclass
class ExportArguments:
    """Options of `export`."""

    model: str = field(metadata={"help": "Folder of the trained model."})
    output_dir: str = field(metadata={"help": "Folder to write; further files in it, such as a card, stay."})
    num_beams: int = field(default=4, metadata={"help": "Default beams of the published model."})
    full_precision: bool = field(default=False, metadata={"help": "Keep float32 weights."})
    push_to_hub: str | None = field(
        default=None,
        metadata={"help": "Repository `USER/NAME` of the Hub to upload `output_dir` to; made if missing."},
    )
    private: bool = field(default=False, metadata={"help": "The repository is to be private."})
    revision: str | None = field(
        default=None, metadata={"help": "Branch of the repository, made if missing. Default: its main branch."}
    )

    def __post_init__(self) -> None:
        if self.push_to_hub is None and (self.private or self.revision is not None):
            raise ValueError(
                f"`private={self.private}` and `revision={self.revision!r}` are about a repository of the Hub: name "
                "it as `push_to_hub`, or leave them out."
            )


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


def publish_folder(folder: str | Path, repo_id: str, *, private: bool = False, revision: str | None = None) -> str:
    """
    Upload a folder to a repository of the Hub, in one commit; what is there under other names stays.

    Args:
        folder (`str` or `Path`): Folder of `export_model`, with its card.
        repo_id (`str`): `USER/NAME`; made if missing.
        private (`bool`, *optional*, defaults to `False`): Make the repository private, or refuse one that is public.
        revision (`str`, *optional*): Branch, made from the main branch if missing; the main branch by default.

    Returns:
        `str`: address of the commit.

    Raises:
        `ValueError`: if the folder holds pickles or checkpoints, or the repository is public and must not be.
    """
    unwanted = sorted({path.name for pattern in NOT_TO_PUBLISH for path in Path(folder).rglob(pattern)})
    if unwanted:
        raise ValueError(
            f"{folder} holds what must not be published: {', '.join(unwanted)}. Export into another folder."
        )
    if not Path(folder, "README.md").is_file():
        logger.warning(f"{folder} has no README.md, so the repository gets no model card: see `hub_cards.build`.")
    api = HfApi()
    # without `private`, the default of the account or organization
    repo_id = api.create_repo(repo_id, private=private or None, exist_ok=True).repo_id
    if private and not api.repo_info(repo_id).private:
        raise ValueError(
            f"`private` was asked for, but the repository {repo_id!r} exists and is public: nothing was uploaded. "
            "Make it private in its settings, or take another name."
        )
    if revision is not None:
        api.create_branch(repo_id, branch=revision, exist_ok=True)
    commit = api.upload_folder(repo_id=repo_id, folder_path=folder, revision=revision, commit_message="Upload model")
    return commit.commit_url


def main(argv: list[str] | None = None) -> None:
    """Export one model, see the module's docstring."""
    parser = make_parser(ExportArguments, __doc__)
    (arguments,) = parser.parse_args_into_dataclasses(argv)
    if not Path(arguments.model, "config.json").is_file():
        raise ValueError(
            f"`model` must be the folder of a trained model, got {arguments.model!r}: no config.json in it."
        )
    model = export_model(
        arguments.model, arguments.output_dir, num_beams=arguments.num_beams, half=not arguments.full_precision
    )
    print(f"{model.num_parameters():,} parameters -> {arguments.output_dir}")
    if arguments.push_to_hub is not None:
        address = publish_folder(
            arguments.output_dir, arguments.push_to_hub, private=arguments.private, revision=arguments.revision
        )
        print(f"{arguments.output_dir} -> {address}")


def command() -> None:
    """Run the command `docmt-export`."""
    run_command(main)


if __name__ == "__main__":
    command()
