"""Documents as text, documents as token ids: encoding and decoding over any tokenizer, Marian's included."""

import unicodedata
from collections.abc import Iterable, Sequence

import torch
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from .formatting_docmt import cut_sentences


logger = logging.get_logger(__name__)


def has_letters(text: str) -> bool:
    """Whether there is anything to translate: a letter of any script (Unicode category L)."""
    return any(unicodedata.category(character).startswith("L") for character in text)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which no tokenizer and no UTF-8 file can hold, by U+FFFD, with a warning."""
    if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    logger.warning_once("The text has lone surrogates (broken UTF-16), which were replaced by U+FFFD.")
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)


def encode_sentences(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], *, target: bool = False
) -> list[list[int]]:
    """
    Encode sentences one by one, without special tokens; text that looks like one ("<sep>") stays text.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): Any tokenizer.
        sentences (`Sequence[str]`): Sentences of one language.
        target (`bool`, *optional*, defaults to `False`): Whether they are in the target language.

    Returns:
        `list[list[int]]`: token ids, one list a sentence.
    """
    if not sentences:
        return []
    side = "text_target" if target else "text"
    texts = [replace_surrogates(sentence) for sentence in sentences]
    encoded = tokenizer(**{side: texts}, add_special_tokens=False, split_special_tokens=True)
    return [list(ids) for ids in encoded["input_ids"]]


def encode_documents(
    tokenizer: PreTrainedTokenizerBase, documents: Sequence[Sequence[str]], *, target: bool = False
) -> list[list[int]]:
    """
    Encode documents to the neutral form `F_1 <sep> ... F_N <eos>`; a document without sentences gives an empty list.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): Any tokenizer with an end token and, for N > 1, a separator token.
        documents (`Sequence[Sequence[str]]`): Sentences of each document.
        target (`bool`, *optional*, defaults to `False`): Whether they are in the target language.

    Raises:
        `TypeError`: if a document is a string: its sentences must be known.
        `ValueError`: if the tokenizer lacks `sep_token` and a document has several sentences.
    """
    for document in documents:
        if isinstance(document, str):
            raise TypeError(
                f"A document must be a list of sentences, got the string {document[:40]!r}: split it first."
            )
        if len(document) > 1 and tokenizer.sep_token_id is None:
            raise ValueError(
                "The tokenizer has no `sep_token`, which joins the sentences of a document: "
                "tokenizer.add_special_tokens({'sep_token': '<sep>'}) and resize the model's embeddings."
            )
    encoded = encode_sentences(tokenizer, [s for document in documents for s in document], target=target)
    neutral, start = [], 0
    for document in documents:
        ids: list[int] = []
        for sentence in encoded[start : start + len(document)]:
            ids += [*sentence, tokenizer.sep_token_id]
        if ids:
            ids[-1] = tokenizer.eos_token_id
        neutral.append(ids)
        start += len(document)
    return neutral


def decode_documents(
    tokenizer: PreTrainedTokenizerBase, sequences: Iterable[Sequence[int] | torch.Tensor]
) -> list[list[str]]:
    """
    Decode what `generate()` returns, or labels, to the sentences of each document.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer of the target side.
        sequences (`Iterable`): Token ids of each document, with decoder start, separators, `<eos>`, padding and -100.

    Returns:
        `list[list[str]]`: N sentences a document; `[]` where there is nothing but padding.
    """
    return [decode_sentences(tokenizer, _cut_at_separators(tokenizer, sequence)) for sequence in sequences]


def decode_sentences(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[int]]) -> list[str]:
    """Decode sentences of token ids to text, special tokens left out."""
    return [
        tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False).strip()
        for ids in sentences
    ]


def _cut_at_separators(tokenizer: PreTrainedTokenizerBase, sequence: Sequence[int] | torch.Tensor) -> list[list[int]]:
    ids = sequence.tolist() if isinstance(sequence, torch.Tensor) else sequence
    ignored = {tokenizer.pad_token_id, tokenizer.bos_token_id, *_known_ids(tokenizer, ("<bod>", "<sos>"))}
    separators = _separator_ids(tokenizer)
    return cut_sentences(ids, separators=separators, end=tokenizer.eos_token_id, ignored=ignored)


def _known_ids(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[str]) -> set[int]:
    """Ids of those tokens that the tokenizer has."""
    return set(tokenizer.convert_tokens_to_ids(list(tokens))) - {tokenizer.unk_token_id}


def _separator_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    added = tokenizer.get_added_vocab()
    return {
        tokenizer.sep_token_id,
        *(i for token, i in added.items() if token.startswith("<sep") and token[4:-1].isdigit()),
    }
