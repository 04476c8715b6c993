"""
Publish the corpus of a folder in two ways, and read it again with `datasets` alone. Run by test_hub_datasets.py.

    python hub_corpus.py FOLDER OUTPUTS.json
"""

import json
import sys
from pathlib import Path
from typing import Any

from hub_processes import stay_on_this_machine


stay_on_this_machine()

from datasets import load_dataset  # noqa: E402
from huggingface_hub import HfApi  # noqa: E402

from training.documents import load_corpus  # noqa: E402


def publish(folder: str) -> None:
    api = HfApi()
    # the folder as it is, with a card that says which of its files are the data
    api.create_repo("ada/corpus", repo_type="dataset")
    api.upload_folder(repo_id="ada/corpus", repo_type="dataset", folder_path=folder)
    # the documents, as `datasets` itself would have them
    load_corpus(folder).push_to_hub("ada/corpus-parquet", private=True)


def read(name: str) -> dict:
    data = load_dataset(name, split="train")
    streamed = list(load_dataset(name, split="train", streaming=True))
    return {"features": repr(data.features), "records": data.to_list(), "streamed": streamed}


def error_without_token(name: str) -> str:
    try:
        load_dataset(name, split="train", token=False)
    except Exception as error:
        return type(error).__name__
    return ""


def main(folder: str, outputs_file: str) -> None:
    publish(folder)
    # first, since later there is a copy in the cache
    outputs: dict[str, Any] = {"error": error_without_token("ada/corpus-parquet")}
    outputs |= {name: read(f"ada/{name}") for name in ("corpus", "corpus-parquet")}
    Path(outputs_file).write_text(json.dumps(outputs), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
