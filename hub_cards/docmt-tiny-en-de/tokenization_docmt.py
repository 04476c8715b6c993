"""Tokenizer of DocMT checkpoints: documents in, documents out, sentence structure as token ids."""

from collections.abc import Iterable, Sequence

import torch
from transformers import BatchEncoding, PreTrainedTokenizerFast

from .documents_docmt import decode_documents, encode_documents, replace_surrogates


NUM_INDEXED_SEPARATORS = 255

# the order fixes the ids, which the defaults of `DocMTConfig` repeat; pad is not 0, which beam search would not use
SPECIAL_TOKENS: tuple[str, ...] = (
    *("<unk>", "<pad>", "<bos>", "<eos>", "<sep>", "<bod>", "<sos>", "<mask>", "<spare1>", "<spare2>"),
    *(f"<sep{index}>" for index in range(1, NUM_INDEXED_SEPARATORS + 1)),
)


class DocMTTokenizer(PreTrainedTokenizerFast):
    """
    Fast tokenizer whose input may be documents: lists of sentences.

    `tokenizer([["First sentence.", "Second one."], ["Another document."]], return_tensors="pt", padding=True)` returns
    the neutral form `F_1 <sep> F_2 <eos>`, one row a document. A string is a document of one sentence, as it is for
    stock tokenizers. Special tokens are never produced from text: "<sep>" in a sentence is encoded like other text.
    """

    # no `__init__`: for a class that has one, Transformers rebuilds the tokenizer from its vocabulary alone on loading

    def __call__(self, text=None, *args, **kwargs) -> BatchEncoding:  # type: ignore[override]
        """
        Encode documents given as lists of sentences, or anything that stock tokenizers take.

        Args:
            text (`str`, `list[str]` or `list[list[str]]`):
                A sentence, a batch of sentences, or a batch of documents.
            text_target (same types, *optional*): The target side; its ids become `labels`, or `input_ids` alone.
            args, kwargs: Those of stock tokenizers (`padding`, `return_tensors`, …). For documents no truncation.

        Raises:
            `ValueError`: on `truncation` or a text pair together with documents: nothing is cut in silence.
        """
        target = kwargs.get("text_target")
        if not (_are_documents(text) or _are_documents(target)) or kwargs.get("is_split_into_words"):
            clean = {"text": _clean(text)} if text is not None else {}
            if target is not None:
                kwargs["text_target"] = _clean(target)
            return super().__call__(*args, **clean, **kwargs)
        if args or kwargs.get("text_pair") is not None or kwargs.get("truncation"):
            raise ValueError("Documents take neither a text pair nor `truncation`: split long documents into parts.")
        kwargs.pop("text_target", None)
        return self._encode_batch(text, target, **kwargs)

    def encode_documents(self, documents: Sequence[Sequence[str]], *, target: bool = False) -> list[list[int]]:
        """Encode documents to lists of ids in the neutral form, see `documents_docmt.encode_documents`."""
        return encode_documents(self, documents, target=target)

    def decode_documents(self, sequences: Iterable[Sequence[int] | torch.Tensor]) -> list[list[str]]:
        """Decode the output of `generate()` to the sentences of each document."""
        return decode_documents(self, sequences)

    @property
    def bod_token_id(self) -> int:
        """Id of `<bod>`, the pseudo-sentence before the first."""
        return self.convert_tokens_to_ids("<bod>")

    @property
    def sos_token_id(self) -> int:
        """Id of `<sos>`, which opens the source in P-Transformer formats."""
        return self.convert_tokens_to_ids("<sos>")

    @property
    def first_separator_token_id(self) -> int:
        """Id of `<sep1>`; the other indexed separators follow without a gap."""
        return self.convert_tokens_to_ids("<sep1>")

    def _encode_batch(
        self, documents, target_documents, padding=False, return_tensors=None, **kwargs
    ) -> BatchEncoding:
        allowed = {"max_length", "pad_to_multiple_of", "return_attention_mask", "verbose", "truncation"}
        if unknown := set(kwargs) - allowed:
            raise ValueError(f"Not available for documents: {', '.join(sorted(unknown))}.")
        names = ("max_length", "pad_to_multiple_of", "return_attention_mask")
        options = {key: kwargs[key] for key in names if key in kwargs}
        sides = {}
        for name, side in (("text", documents), ("text_target", target_documents)):
            if side is not None:
                ids = self.encode_documents(side, target=name == "text_target")
                sides[name] = self.pad({"input_ids": ids}, padding=padding, return_tensors=return_tensors, **options)
        if "text" not in sides:
            return sides["text_target"]
        if "text_target" in sides:
            sides["text"]["labels"] = sides["text_target"]["input_ids"]
        return sides["text"]


def _are_documents(text) -> bool:
    return isinstance(text, list | tuple) and len(text) > 0 and all(isinstance(item, list | tuple) for item in text)


def _clean(text):
    if isinstance(text, str):
        return replace_surrogates(text)
    return [_clean(item) for item in text] if isinstance(text, list | tuple) else text


DocMTTokenizer.register_for_auto_class("AutoTokenizer")
