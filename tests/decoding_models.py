"""Random models that end their sentences, and documents for them, shared by the tests of decoding."""

import random

import torch

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.formatting_docmt import sentences_to_neutral
from modeling_docmt.generation_docmt import DocumentTranslationOutput


# the systems, and windows with nothing but sinusoids
SYSTEMS = {
    "sentence-level": {},
    "concat-adj": {},
    "gated-adj": {},
    "concat-document": {"max_part_tokens": 40},
    "mr-doc2doc": {"max_part_tokens": 40},
    "p-transformer": {"max_part_tokens": 40, "relative_distances": 6},
    "g-transformer": {"max_part_tokens": 40, "global_layers": 1},
    "global-local": {"normalize_before": False},
    "lst-attn": {"max_part_tokens": 40},
    "window-attn": {"window_size": 3, "max_part_tokens": 40},
    "window-sinusoidal": {"window_size": 3, "position_encoding": "sinusoidal", "max_part_tokens": 40},
}
# those whose sequences slide over the document
SLIDING = ("concat-adj", "gated-adj")
# a system here that is no row of `modeling_docmt.SYSTEMS`, and the row that it changes
BASES = {"window-sinusoidal": "window-attn"}
MODES = {
    "sentence": {"decoding": "sentence"},
    "doc2sent": {"decoding": "sentence", "source_context_sentences": 2},
    "counted": {"decoding": "counted"},
    "free": {"decoding": "free"},
    "sequential": {"decoding": "sequential"},
    "growing": {"decoding": "sequential", "source_context": "prefix"},
}
FIRST_WORD = 22


def tiny_model(
    system: str, *, seed: int = 0, dtype: torch.dtype = torch.float64, closing_bias: float = 2.5, **changes
) -> DocMTForConditionalGeneration:
    """
    A seeded random model over 40 tokens of which 18 are words; `closing_bias` raises the logits of separators and end.

    Weights are larger than usual, so that outputs depend visibly on source and context.
    """
    settings = {
        "vocab_size": 40,
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "first_separator_token_id": 10,
        "num_indexed_separators": 12,
        "use_final_logits_bias": True,
        **SYSTEMS[system],
        **changes,
    }
    config = DocMTConfig.from_system(BASES.get(system, system), **settings)
    torch.manual_seed(seed)
    model = DocMTForConditionalGeneration(config).eval().to(dtype)
    for parameter in model.parameters():
        parameter.data.mul_(2.0)
    for token in (config.eos_token_id, *config.separator_ids()):
        model.final_logits_bias[0, token] = closing_bias
    return model


def random_documents(seed: int, count: int, *, most_sentences: int = 4, lengths=(0, 1, 2, 3, 5)) -> list:
    """Documents of 0 to `most_sentences` sentences, some of them empty."""
    generator = random.Random(seed)
    return [
        [
            [generator.randrange(FIRST_WORD, 40) for _ in range(generator.choice(lengths))]
            for _ in range(generator.randint(0, most_sentences))
        ]
        for _ in range(count)
    ]


def batch(documents: list, config: DocMTConfig) -> dict[str, torch.Tensor]:
    """Ids and mask of documents in the neutral form, padded on the right."""
    rows = [sentences_to_neutral(document, config) for document in documents]
    longest = max([1, *map(len, rows)])
    return {
        "input_ids": torch.tensor([row + [config.pad_token_id] * (longest - len(row)) for row in rows]),
        "attention_mask": torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows]),
    }


def translate(model: DocMTForConditionalGeneration, documents: list, **options) -> DocumentTranslationOutput:
    """`generate()` on documents of ids, with all outputs."""
    return model.generate(**batch(documents, model.config), return_dict_in_generate=True, **options)
