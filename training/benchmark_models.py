"""Models with random weights and documents of random words, for the benchmarks of whole models."""

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import MarianConfig, MarianMTModel

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.configuration_docmt import required_token

from .measure import MeasureArguments


@dataclass(kw_only=True)
class ModelArguments(MeasureArguments):
    """Shape of the models: by default that of Transformer base."""

    vocabulary: int = field(default=32000, metadata={"help": "Words of the vocabulary, special tokens included."})
    d_model: int = field(default=512, metadata={"help": "Dimension of the states."})
    layers: int = field(default=6, metadata={"help": "Layers of the encoder, and of the decoder."})
    heads: int = field(default=8, metadata={"help": "Heads."})
    ffn: int = field(default=2048, metadata={"help": "Dimension within the feed-forward layers."})
    window: int = field(default=20, metadata={"help": "Keys on either side of a query, in systems with windows."})
    sentence_tokens: int = field(default=25, metadata={"help": "Tokens of a sentence, its separator included."})

    def shape(self) -> dict[str, int]:
        """The shape as results tell it."""
        names = ("vocabulary", "d_model", "layers", "heads", "ffn", "window", "sentence_tokens")
        return {name: getattr(self, name) for name in names}


# what is measured beside the rows of `SYSTEMS`, as changes to one of them
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "window-attn sinusoidal": ("window-attn", {"position_encoding": "sinusoidal"}),
    # what a sentence-level model computes for the same tokens
    "sentences alone": ("g-transformer", {"global_layers": 0}),
}


def docmt_config(system: str, args: ModelArguments, **changes) -> DocMTConfig:
    """The configuration of a system, or of a row of `VARIANTS`, without a bound for its parts."""
    system, own = VARIANTS.get(system, (system, {}))
    settings = {**_shared_settings(args), "max_part_tokens": None, **own, **changes}
    if system == "window-attn":
        settings["window_size"] = args.window
    return DocMTConfig.from_system(system, **settings)


def docmt_model(system: str, args: ModelArguments, **changes) -> DocMTForConditionalGeneration:
    """A model of `docmt_config`, with random weights."""
    torch.manual_seed(0)
    return DocMTForConditionalGeneration(docmt_config(system, args, **changes)).eval()


def marian_model(args: ModelArguments, longest: int, **changes) -> MarianMTModel:
    """A `MarianMTModel` of the same shape; as in its checkpoints, the last token of the vocabulary is the padding."""
    torch.manual_seed(0)
    padding = args.vocabulary - 1
    settings: dict[str, Any] = {"eos_token_id": 0, "pad_token_id": padding, "decoder_start_token_id": padding}
    settings |= {"forced_eos_token_id": 0, "max_position_embeddings": longest + 8, "scale_embedding": True}
    settings |= {"activation_function": "relu", **_shared_settings(args), **changes}
    return MarianMTModel(MarianConfig(**settings)).eval()


def _shared_settings(args: ModelArguments) -> dict[str, Any]:
    settings: dict[str, Any] = {"vocab_size": args.vocabulary, "d_model": args.d_model}
    for side in ("encoder", "decoder"):
        settings |= {f"{side}_layers": args.layers, f"{side}_attention_heads": args.heads, f"{side}_ffn_dim": args.ffn}
    return settings


def random_sentences(tokens: int, config: DocMTConfig, args: ModelArguments, seed: int = 0) -> list[list[int]]:
    """Sentences of equal length that are `tokens` long together, closing tokens included; the last may be shorter."""
    # behind the special tokens, and the last is the padding of Marian
    first = max(config.separator_ids()) + 1
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(first, args.vocabulary - 1, (tokens,), generator=generator).tolist()
    size = args.sentence_tokens
    return [words[start : min(start + size, tokens) - 1] for start in range(0, tokens, size)]


def as_row(sentences: list[list[int]], config: DocMTConfig) -> list[int]:
    """A document in the neutral form, which is also what a model of whole documents reads."""
    separator, eos = required_token(config, "sep_token_id"), required_token(config, "eos_token_id")
    ids = [token for sentence in sentences for token in (*sentence, separator)]
    return [*ids[:-1], eos]
