"""Fixtures of all tests: toy documents, a tokenizer trained on them, small random models, and the real data."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


# before transformers is imported: no network, and nothing read from or left in the user's cache
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="docmt-hf-home-")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest  # noqa: E402
import torch  # noqa: E402


REPOSITORY = Path(__file__).resolve().parent.parent
TOY_CORPUS = REPOSITORY / "tests" / "data" / "toy.en-de.jsonl"

torch.set_num_threads(1)


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["HF_HOME"], ignore_errors=True)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def toy_corpus() -> Path:
    """The toy documents as a file, in the record format of the project."""
    return TOY_CORPUS


@pytest.fixture(scope="session")
def toy_documents() -> list[dict]:
    """Records `{"id", "src_lang", "tgt_lang", "src", "tgt"}`, the hard cases of a document inside."""
    with open(TOY_CORPUS, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def tokenizer(toy_documents):
    """`DocMTTokenizer` of about 600 tokens trained on both sides of the toy documents."""
    from training.train_tokenizer import train_tokenizer

    sentences = [sentence for record in toy_documents for side in ("src", "tgt") for sentence in record[side]]
    return train_tokenizer(sentences, vocab_size=600)


@pytest.fixture(scope="session")
def make_model(tokenizer) -> Callable:
    """Factory of small random models in evaluation mode: `make_model("concat-adj", seed=1, context_sentences=2)`."""
    from modeling_docmt import SYSTEMS, DocMTConfig, DocMTForConditionalGeneration

    def make(system: str = "sentence-level", dtype: torch.dtype = torch.float32, seed: int = 0, **config_changes):
        starts_with_sos = SYSTEMS[system].get("use_sos", False)
        settings = {
            "vocab_size": len(tokenizer),
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "decoder_start_token_id": tokenizer.sos_token_id if starts_with_sos else tokenizer.bos_token_id,
            "sep_token_id": tokenizer.sep_token_id,
            "bod_token_id": tokenizer.bod_token_id,
            "sos_token_id": tokenizer.sos_token_id,
            "mask_token_id": tokenizer.mask_token_id,
            "first_separator_token_id": tokenizer.first_separator_token_id,
            **config_changes,
        }
        config = DocMTConfig.from_system(system, **settings)
        torch.manual_seed(seed)
        return DocMTForConditionalGeneration(config).eval().to(dtype)

    return make


@pytest.fixture(scope="session")
def docmt_data() -> Path:
    """Folder of the real corpora and test suites, named by `DOCMT_DATA`; tests that need it are skipped without."""
    folder = Path(os.environ.get("DOCMT_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set DOCMT_DATA to the folder that holds it")
    return folder.resolve()
