"""
Train for two updates and publish by the trainer's own means. Run by test_hub_models.py.

    python hub_trainer.py CORPUS.jsonl TOKENIZER OUTPUTS.json
"""

import sys

from hub_processes import stay_on_this_machine


stay_on_this_machine()

from training.results import write_json_atomic  # noqa: E402
from training.train import main as train  # noqa: E402


SMALL_MODEL = "d_model=16,encoder_layers=1,decoder_layers=1,encoder_attention_heads=2,decoder_attention_heads=2"


def main(corpus: str, tokenizer: str, outputs_file: str) -> None:
    sizes = ["--config_overrides", SMALL_MODEL, "--max_steps", "2", "--train_batch_tokens", "256", "--use_cpu", "true"]
    data = ["--train_file", corpus, "--tokenizer_name", tokenizer, "--output_dir", "trained"]
    results = train(
        ["--system", "concat-adj", *data, *sizes, "--push_to_hub", "true", "--hub_model_id", "ada/trained"]
    )
    write_json_atomic(outputs_file, {"updates": results["updates"]})


if __name__ == "__main__":
    main(*sys.argv[1:])
