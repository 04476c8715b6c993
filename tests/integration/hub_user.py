"""
A user who has Transformers and the name of a repository, but not our package. Run by test_hub_models.py.

    python hub_user.py INPUTS.json OUTPUTS.json
"""

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from hub_processes import hide_our_packages, stay_on_this_machine


stay_on_this_machine()
hide_our_packages()

import torch  # noqa: E402
from huggingface_hub import hf_hub_download, is_offline_mode  # noqa: E402
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline  # noqa: E402


VERSIONS = "ada/docmt-v1.5"
AUTO_CLASSES = (AutoConfig, AutoTokenizer, AutoModel, AutoModelForSeq2SeqLM)
TRUST = {"trust_remote_code": True}


def errors_of(action: Callable, *args, **kwargs) -> dict:
    """Names of the exception that an action ends with and of those that led to it, and what the first one says."""
    try:
        action(*args, **kwargs)
    except Exception as error:
        names = []
        cause: BaseException | None = error
        while cause is not None:
            names.append(type(cause).__name__)
            cause = cause.__cause__ or cause.__context__
        return {"names": names, "message": str(error), "trace": traceback.format_exc()}
    return {"names": [], "message": "", "trace": ""}


def translations(inputs: dict, repo_id: str, task: str = "translation", **kwargs) -> list[str]:
    pipe = pipeline(task, model=repo_id, **TRUST, **kwargs)
    return [result["translation_text"] for result in pipe(inputs["documents"], **inputs["options"])]


def load_all_classes(inputs: dict) -> dict:
    """The four auto classes by the name of the repository, and what the model translates without a pipeline."""
    config, tokenizer, base, model = (auto.from_pretrained(VERSIONS, **TRUST) for auto in AUTO_CLASSES)
    batch = tokenizer(inputs["documents"], return_tensors="pt", padding=True)
    start = torch.full((len(inputs["documents"]), 1), config.decoder_start_token_id)
    with torch.no_grad():
        states = base(**batch, decoder_input_ids=start).last_hidden_state
        logits = model(**batch, decoder_input_ids=start).logits
    return {
        "classes": [type(thing).__name__ for thing in (config, tokenizer, base, model)],
        "modules": [type(thing).__module__ for thing in (config, tokenizer, base, model)],
        "sentences": tokenizer.decode_documents(model.generate(**batch, **inputs["options"])),
        "base_agrees": torch.allclose(model.lm_head(states), logits, atol=1e-5),
        "num_beams": model.generation_config.num_beams,
    }


def publish_copy(inputs: dict) -> None:
    """Pass a version on, under another name: what a user does after fine-tuning."""
    pipe = pipeline("translation", model=VERSIONS, revision="v1.5.0", **TRUST)
    pipe.push_to_hub("eve/fine-tuned", token=inputs["tokens"]["eve"])


def collect_errors(inputs: dict) -> dict:
    tokens, load = inputs["tokens"], AutoModelForSeq2SeqLM.from_pretrained
    return {
        **{
            f"no trust: {a.__name__}": errors_of(a.from_pretrained, VERSIONS, trust_remote_code=False)
            for a in AUTO_CLASSES
        },
        "no trust: pipeline": errors_of(pipeline, "translation", model=VERSIONS, trust_remote_code=False),
        "no trust: asked": errors_of(load, VERSIONS),
        "no such repository": errors_of(load, "ada/nothing", **TRUST),
        "no such repository, known user": errors_of(load, "ada/nothing", token=tokens["eve"], **TRUST),
        "no such revision": errors_of(load, VERSIONS, revision="v9", **TRUST),
        "no such file": errors_of(hf_hub_download, VERSIONS, "nothing.json"),
        "no weights": errors_of(load, VERSIONS, revision="no-weights", **TRUST),
        "no code": errors_of(load, VERSIONS, revision="no-code", **TRUST),
        "no such pair": errors_of(pipeline, "translation_en_to_fr", model=VERSIONS, **TRUST),
        "private, nobody": errors_of(load, "ada/private", **TRUST),
        "private, unknown token": errors_of(load, "ada/private", token="hf_wrong", **TRUST),
        "private, somebody else": errors_of(load, "ada/private", token=tokens["eve"], **TRUST),
        "private, pipeline": errors_of(pipeline, "translation", model="ada/private", **TRUST),
        "gated, nobody": errors_of(load, "ada/pipeline", **TRUST),
        "gated, somebody else": errors_of(load, "ada/pipeline", token=tokens["eve"], **TRUST),
    }


def main(inputs_file: str, outputs_file: str) -> None:
    torch.set_num_threads(1)
    inputs = json.loads(Path(inputs_file).read_text(encoding="utf-8"))
    revisions = {"main": "main", "tag": "v1.5.0", "branch": "more/training", "commit": inputs["first_commit"]}
    outputs = {
        "versions": {name: translations(inputs, VERSIONS, revision=r) for name, r in revisions.items()},
        "shipped": translations(inputs, "ada/docmt-tiny-en-de"),
        "loaded": load_all_classes(inputs),
    }
    if not is_offline_mode():
        publish_copy(inputs)
        token = inputs["tokens"]["ada"]
        outputs |= {
            # first, since a user may go on with what is in the cache
            "errors": collect_errors(inputs),
            "pair": translations(inputs, VERSIONS, "translation_en_to_de"),
            "private": translations(inputs, "ada/private", token=token),
            "gated": translations(inputs, "ada/pipeline", token=token),
            "copy": translations(inputs, "eve/fine-tuned"),
        }
    Path(outputs_file).write_text(json.dumps(outputs), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
