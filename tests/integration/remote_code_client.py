"""
A user who has Transformers and a checkpoint folder, but not our package. Run by test_hub_roundtrip.py.

    python remote_code_client.py FOLDER INPUTS.json OUTPUTS.json
"""

import json
import sys


OUR_PACKAGES = ("modeling_docmt", "training", "hub_cards")
# an editable install of the development environment would make them importable from everywhere
for name in OUR_PACKAGES:
    sys.modules[name] = None

import torch  # noqa: E402
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline  # noqa: E402


def our_code_is_out_of_reach() -> bool:
    for name in OUR_PACKAGES:
        try:
            __import__(name)
        except ImportError:
            continue
        return False
    return True


def main(folder: str, inputs_file: str, outputs_file: str) -> None:
    torch.set_num_threads(1)
    with open(inputs_file, encoding="utf-8") as file:
        inputs = json.load(file)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    base = AutoModel.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    pipe = pipeline("translation", model=folder, trust_remote_code=True)

    batch = tokenizer(inputs["documents"], return_tensors="pt", padding=True)
    decoder_input_ids = torch.tensor(inputs["decoder_input_ids"])
    with torch.no_grad():
        outputs = model(**batch, decoder_input_ids=decoder_input_ids, use_cache=False)
        states = base(**batch, decoder_input_ids=decoder_input_ids, use_cache=False).last_hidden_state
    results = {
        "out_of_reach": our_code_is_out_of_reach(),
        "classes": [type(thing).__name__ for thing in (config, tokenizer, base, model, pipe)],
        "modules": [type(thing).__module__ for thing in (config, tokenizer, base, model, pipe)],
        "input_ids": batch["input_ids"].tolist(),
        "logits": outputs.logits.tolist(),
        "states_agree": torch.allclose(model.lm_head(states), outputs.logits, atol=1e-5),
        "sequences": model.generate(**batch, **inputs["options"]).tolist(),
        "translations": [result["translation_text"] for result in pipe(inputs["documents"], **inputs["options"])],
        "text_translation": pipe(inputs["text"], **inputs["options"])["translation_text"],
    }
    with open(outputs_file, "w", encoding="utf-8") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
