"""
Train a joint tokenizer on parallel documents.

    python -m training.train_tokenizer --train_files train.en-de.jsonl --output_dir runs/tokenizer --vocab_size 8000

Input: JSONL document records. Output: a folder that `AutoTokenizer` loads. The same input gives the same bytes.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers.utils import logging

from modeling_docmt.tokenization_docmt import SPECIAL_TOKENS, DocMTTokenizer

from .command_line import make_parser, run_command
from .documents import read_documents


logger = logging.get_logger(__name__)


@dataclass
class TokenizerArguments:
    """Options of `train_tokenizer`."""

    train_files: list[str] = field(metadata={"help": "JSONL files of document records, gzip too."})
    output_dir: str = field(metadata={"help": "Folder to write the tokenizer to."})
    vocab_size: int = field(default=8000, metadata={"help": "Vocabulary, the special tokens included."})
    algorithm: str = field(default="bpe", metadata={"help": "'bpe' or 'unigram'.", "choices": ["bpe", "unigram"]})
    source_lang: str | None = field(default=None, metadata={"help": "Source language, kept in the tokenizer."})
    target_lang: str | None = field(default=None, metadata={"help": "Target language, kept in the tokenizer."})


def train_tokenizer(
    sentences: Iterable[str], vocab_size: int = 8000, algorithm: Literal["bpe", "unigram"] = "bpe", **init_kwargs
) -> DocMTTokenizer:
    """
    Train a tokenizer over bytes, so that every text survives encoding and decoding.

    Args:
        sentences (`Iterable[str]`): Text of both languages.
        vocab_size (`int`, *optional*, defaults to 8000): Size, the special tokens and 256 bytes included.
        algorithm (`str`, *optional*, defaults to `"bpe"`): `"bpe"` or `"unigram"`.
        init_kwargs: Kept in the tokenizer, such as `source_lang`.

    Raises:
        `ValueError`: if `vocab_size` leaves no room for one piece beside special tokens and bytes, or the algorithm is
            unknown.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    if vocab_size <= len(SPECIAL_TOKENS) + len(alphabet):
        raise ValueError(
            f"`vocab_size` must be larger than {len(SPECIAL_TOKENS) + len(alphabet)}, the special tokens and the "
            f"bytes, got {vocab_size}."
        )
    if algorithm not in ("bpe", "unigram"):
        raise ValueError(f"`algorithm` must be 'bpe' or 'unigram', got {algorithm!r}.")
    options: dict[str, Any] = {
        "vocab_size": vocab_size,
        "special_tokens": list(SPECIAL_TOKENS),
        "initial_alphabet": alphabet,
    }
    if algorithm == "bpe":
        backend = Tokenizer(models.BPE())
        trainer: trainers.Trainer = trainers.BpeTrainer(**options, show_progress=sys.stderr.isatty())
    else:
        backend = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(**options, unk_token="<unk>", show_progress=sys.stderr.isatty())
    # a space in front lets a word have one spelling at the start and inside of a sentence
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(sentences, trainer)
    eos = backend.token_to_id("<eos>")
    backend.post_processor = processors.TemplateProcessing(
        single="$A <eos>", pair="$A <eos> $B <eos>", special_tokens=[("<eos>", eos)]
    )
    return DocMTTokenizer(
        tokenizer_object=backend,
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        sep_token="<sep>",
        mask_token="<mask>",
        extra_special_tokens=[token for token in SPECIAL_TOKENS if token not in _NAMED],
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
        padding_side="right",
        **init_kwargs,
    )


_NAMED = ("<unk>", "<pad>", "<bos>", "<eos>", "<sep>", "<mask>")


def iterate_text(paths: list[str]) -> Iterator[str]:
    """Source and target sentences of document records, in order."""
    for record in read_documents(paths):
        yield from record["src"]
        yield from record["tgt"]


def main(argv: list[str] | None = None) -> None:
    """Train and save a tokenizer, see the module's docstring."""
    parser = make_parser(TokenizerArguments, __doc__)
    (arguments,) = parser.parse_args_into_dataclasses(argv)
    languages = {name: getattr(arguments, name) for name in ("source_lang", "target_lang")}
    tokenizer = train_tokenizer(
        iterate_text(arguments.train_files),
        vocab_size=arguments.vocab_size,
        algorithm=arguments.algorithm,
        **{name: language for name, language in languages.items() if language},
    )
    Path(arguments.output_dir).mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(arguments.output_dir)
    logger.info(f"{len(tokenizer)} tokens -> {arguments.output_dir}")


def command() -> None:
    """Run the command `docmt-train-tokenizer`."""
    run_command(main)


if __name__ == "__main__":
    command()
