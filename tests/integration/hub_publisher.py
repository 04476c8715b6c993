"""
Somebody who has our package, publishes models and tidies up behind. Run by test_hub_models.py.

    python hub_publisher.py FOLDER OUTPUTS.json

FOLDER holds the checkpoints `first`, `second` and `third`: the same but for their weights.
"""

import json
import sys
from pathlib import Path

from hub_processes import stay_on_this_machine


stay_on_this_machine()

from huggingface_hub import HfApi  # noqa: E402

from modeling_docmt import DocMTForConditionalGeneration, DocMTTokenizer, DocumentTranslationPipeline  # noqa: E402
from training.export import main as export  # noqa: E402


REPOSITORY = Path(__file__).resolve().parents[2]
OWNER = "ada"
VERSIONS = f"{OWNER}/docmt-v1.5"


def load(folder: Path) -> DocMTForConditionalGeneration:
    return DocMTForConditionalGeneration.from_pretrained(folder)


def publish_versions(folder: Path) -> dict:
    """A tag, a branch and `main`, each with weights of its own, and branches in which something is missing."""
    api, model = HfApi(), load(folder / "first")
    wanted = model.generation_config.num_beams
    model.generation_config.num_beams = 5
    model.push_to_hub(VERSIONS)
    DocMTTokenizer.from_pretrained(folder / "first").push_to_hub(VERSIONS)
    model.generation_config.num_beams = wanted
    commit = model.generation_config.push_to_hub(VERSIONS)
    api.create_tag(VERSIONS, tag="v1.5.0")
    load(folder / "second").push_to_hub(VERSIONS, commit_message="Train on")
    load(folder / "third").push_to_hub(VERSIONS, revision="more/training")
    for branch, missing in (("no-weights", "model.safetensors"), ("no-code", "formatting_docmt.py")):
        api.create_branch(VERSIONS, branch=branch, revision="v1.5.0")
        api.delete_file(missing, VERSIONS, revision=branch)
    return {"first_commit": commit.oid}


def publish_pipeline(folder: Path) -> None:
    tokenizer = DocMTTokenizer.from_pretrained(folder / "first")
    DocumentTranslationPipeline(model=load(folder / "first"), tokenizer=tokenizer).push_to_hub(f"{OWNER}/pipeline")


def publish_folder() -> None:
    api, name = HfApi(), f"{OWNER}/docmt-tiny-en-de"
    api.create_repo(name)
    api.upload_folder(repo_id=name, folder_path=REPOSITORY / "hub_cards" / "docmt-tiny-en-de")


def publish_export(folder: Path) -> None:
    options = ["--model", str(folder / "first"), "--full_precision", "true", "--num_beams", "2"]
    (folder / "exported").mkdir()
    (folder / "exported" / "README.md").write_text("---\nlicense: apache-2.0\n---\n\n# Private\n", encoding="utf-8")
    target = ["--output_dir", str(folder / "exported"), "--push_to_hub", f"{OWNER}/private", "--private", "true"]
    export([*options, *target])
    export([*options, *target, "--revision", "candidate"])


def main(folder: str, outputs_file: str) -> None:
    outputs = publish_versions(Path(folder))
    publish_pipeline(Path(folder))
    publish_folder()
    publish_export(Path(folder))
    Path(outputs_file).write_text(json.dumps(outputs), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
