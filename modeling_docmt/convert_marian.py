"""
Turn a Marian checkpoint, such as those of OPUS-MT, into a DocMT model with the same translations.

    python -m modeling_docmt.convert_marian Helsinki-NLP/opus-mt-en-de opus-mt-en-de-docmt

Input: a folder or Hub id of a `MarianMTModel` with its tokenizer, Marian's or one of ours. Output: a folder that
`AutoModelForSeq2SeqLM`, `AutoTokenizer` and `pipeline("translation")` load with `trust_remote_code=True`. With
`--system concat-adj` or another system, the same weights are the start of fine-tuning on documents.
"""

import argparse
from pathlib import Path

import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging

from .configuration_docmt import SYSTEMS, DocMTConfig
from .modeling_docmt import DocMTForConditionalGeneration
from .tokenization_docmt import NUM_INDEXED_SEPARATORS, SPECIAL_TOKENS, DocMTTokenizer


logger = logging.get_logger(__name__)

# what a Marian vocabulary lacks, in the order of our own tokenizers: `<sep>`, `<bod>`, ..., `<sep255>`
DOCUMENT_TOKENS: tuple[str, ...] = SPECIAL_TOKENS[SPECIAL_TOKENS.index("<sep>") :]

_SAME_FIELDS = (
    *("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"),
    *("encoder_ffn_dim", "decoder_ffn_dim", "activation_function", "scale_embedding", "tie_word_embeddings"),
    *("dropout", "attention_dropout", "activation_dropout", "init_std"),
    *("pad_token_id", "eos_token_id", "decoder_start_token_id"),
)
_VOCABULARY_WEIGHTS = (
    *("model.shared.weight", "lm_head.weight"),
    *("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"),
)
# options of the Marian toolkit that checkpoints name and `MarianMTModel` does not compute: a checkpoint in which one
# has another value was trained as another model
_FIXED_FIELDS = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
# a logit this far below the average one is a probability of zero in float32, so that the appended tokens change
# neither the translations nor their scores; and it is small enough for the sums that label smoothing takes
_UNUSED_LOGIT_BIAS = -100.0


def convert_marian(
    source: str | Path | MarianMTModel,
    *,
    system: str = "sentence-level",
    tokenizer: PreTrainedTokenizerBase | None = None,
    **config_changes,
) -> DocMTForConditionalGeneration:
    """
    Build a DocMT model from a Marian one.

    As `"sentence-level"` it gives the same logits and the same translations, greedy or by beam search. The vocabulary
    is the same plus the tokens that join sentences, `DOCUMENT_TOKENS`, in this order behind the last Marian id; their
    embeddings start at the mean of the others. The given model is left as it is.

    Args:
        source (`str`, `Path` or `MarianMTModel`):
            Folder or Hub id of a checkpoint, or the model itself.
        system (`str`, *optional*, defaults to `"sentence-level"`):
            Row of `SYSTEMS`. The others are a start for fine-tuning on documents: their `<sep>` has to be learned.
        tokenizer (`PreTrainedTokenizerBase`, *optional*):
            Needed for a Marian model that was trained with a tokenizer of ours, whose vocabulary has `<sep>` and the
            others already: their ids are taken from it, and nothing is appended.
        config_changes:
            Fields of [`DocMTConfig`] to set, such as `context_sentences=3`.

    Returns:
        `DocMTForConditionalGeneration`: in evaluation mode, with the generation config of the Marian model but its
        forced end: a document ends where its last sentence does.

    Raises:
        `ValueError`: if source and target do not share one vocabulary, or the checkpoint names an option that
            `MarianMTModel` does not compute.
    """
    marian = source if isinstance(source, MarianMTModel) else MarianMTModel.from_pretrained(source)
    _check_supported(marian)
    config = convert_config(marian.config, system=system, tokenizer=tokenizer, **config_changes)
    model = DocMTForConditionalGeneration(config).to(marian.dtype)
    new_weights = model.load_state_dict(_convert_weights(marian, config), strict=False).missing_keys
    if new_weights:
        logger.warning(f"Not in a Marian model, hence to be trained: {', '.join(new_weights)}.")
    model.generation_config = convert_generation_config(marian.generation_config)
    model.generation_config.decoding = config.default_decoding
    return model.eval()


def convert_config(
    marian_config: MarianConfig,
    *,
    system: str = "sentence-level",
    tokenizer: PreTrainedTokenizerBase | None = None,
    **config_changes,
) -> DocMTConfig:
    """
    Build the configuration of a converted model.

    Args:
        marian_config (`MarianConfig`): Configuration of the Marian model; left as it is.
        system (`str`, *optional*, defaults to `"sentence-level"`): Row of `SYSTEMS`.
        tokenizer (`PreTrainedTokenizerBase`, *optional*): See [`convert_marian`].
        config_changes: Fields of [`DocMTConfig`] to set.
    """
    vocab_size = marian_config.vocab_size
    if tokenizer is not None and has_document_tokens(tokenizer, vocab_size):
        ids = {token: tokenizer.convert_tokens_to_ids(token) for token in DOCUMENT_TOKENS}
        bos_token_id = tokenizer.bos_token_id
    else:
        ids = {token: vocab_size + index for index, token in enumerate(DOCUMENT_TOKENS)}
        vocab_size += len(DOCUMENT_TOKENS)
        # Marian starts from padding; what checkpoints call bos is never used, and often another token's id
        bos_token_id = None
    fields = {name: getattr(marian_config, name) for name in _SAME_FIELDS}
    fields |= {
        "vocab_size": vocab_size,
        "use_final_logits_bias": True,
        "bos_token_id": bos_token_id,
        "sep_token_id": ids["<sep>"],
        "bod_token_id": ids["<bod>"],
        "sos_token_id": ids["<sos>"],
        "mask_token_id": ids["<mask>"],
        "first_separator_token_id": ids["<sep1>"],
        "num_indexed_separators": NUM_INDEXED_SEPARATORS,
        # as the layers of a Marian model are
        "normalize_before": False,
        "decoder_attention_bias": True,
    }
    preset = SYSTEMS.get(system, {})
    if preset.get("use_sos"):
        fields["decoder_start_token_id"] = ids["<sos>"]
    if preset.get("max_part_tokens", 0) is not None:
        # positions are computed and have no end here, but the model has not seen more
        fields["max_part_tokens"] = marian_config.max_position_embeddings
    return DocMTConfig.from_system(system, **{**fields, **config_changes})


def has_document_tokens(tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> bool:
    """Whether the tokens that join sentences are in a tokenizer, at ids below `vocab_size`, that of its model."""
    ids = tokenizer.convert_tokens_to_ids(list(DOCUMENT_TOKENS))
    return tokenizer.unk_token_id not in ids and all(index is not None and index < vocab_size for index in ids)


def convert_generation_config(marian_generation_config: GenerationConfig) -> GenerationConfig:
    """
    Carry decoding options over: beams, lengths, forbidden tokens and so on.

    `forced_eos_token_id` is dropped, since it would end a document at the length limit of a sentence. That limit
    becomes `max_sentence_tokens`, without the start and the end token that `max_length` counts, and a sentence may be
    empty, as it may there.
    """
    options = marian_generation_config.to_dict()
    for name in ("forced_eos_token_id", "bos_token_id", "transformers_version", "_from_model_config"):
        options.pop(name, None)
    options["min_sentence_tokens"] = 0
    if options.get("max_length") is not None:
        options["max_sentence_tokens"] = options["max_length"] - 2
    return GenerationConfig(**options)


def convert_marian_tokenizer(tokenizer: MarianTokenizer, vocab_size: int) -> MarianTokenizer:
    """
    Append `DOCUMENT_TOKENS` to a Marian tokenizer, at the ids that the converted model has for them.

    Args:
        tokenizer (`MarianTokenizer`): Changed in place.
        vocab_size (`int`): `vocab_size` of the Marian model, id of the first appended token.

    Returns:
        `MarianTokenizer`: the same one; `encode_documents` and `decode_documents` work with it.

    Raises:
        `ValueError`: if source and target have vocabularies of their own, or the tokenizer does not fit the model.
    """
    if tokenizer.separate_vocabs:
        raise ValueError(_SEPARATE_VOCABULARIES.format("The tokenizer has `separate_vocabs=True`"))
    if len(tokenizer) > vocab_size:
        raise ValueError(
            f"The tokenizer has {len(tokenizer)} tokens and the Marian model only {vocab_size}: they do not belong "
            "together, or the tokenizer was converted before."
        )
    # some models have more rows than tokens, for speed
    fillers = [f"<unused{index}>" for index in range(len(tokenizer), vocab_size)]
    tokenizer.add_tokens([*fillers, *DOCUMENT_TOKENS], special_tokens=True)
    tokenizer.add_special_tokens({"sep_token": "<sep>", "mask_token": "<mask>"})
    for index, token in enumerate(DOCUMENT_TOKENS):
        if tokenizer.convert_tokens_to_ids(token) != vocab_size + index:
            raise ValueError(
                f"Token {token!r} has id {tokenizer.convert_tokens_to_ids(token)} in the tokenizer, and "
                f"{vocab_size + index} was expected: the Marian vocabulary has a token of that name."
            )
    return tokenizer


_SEPARATE_VOCABULARIES = (
    "{}, but a DocMT model has one vocabulary for source, target and output: sentences of both sides are joined by "
    "the same tokens. Convert a checkpoint with a joint vocabulary."
)


def _check_supported(marian: MarianMTModel) -> None:
    config = marian.config
    if not config.share_encoder_decoder_embeddings:
        sizes = f"vocab_size={config.vocab_size}, decoder_vocab_size={config.decoder_vocab_size}"
        message = f"The Marian model has `share_encoder_decoder_embeddings=False` ({sizes})"
        raise ValueError(_SEPARATE_VOCABULARIES.format(message))
    for name, expected in _FIXED_FIELDS.items():
        value = config.to_dict().get(name, expected)
        if value != expected:
            raise ValueError(
                f"The Marian config has {name}={value}, which `MarianMTModel` does not compute: its translations "
                f"would not be those of the model that was trained. If they are what you want, set {name}={expected}."
            )
    if not isinstance(config.eos_token_id, int):
        raise ValueError(f"`eos_token_id` must be one id, got {config.eos_token_id}.")


def _convert_weights(marian: MarianMTModel, config: DocMTConfig) -> dict[str, torch.Tensor]:
    """The Marian weights, with the rows of the appended tokens."""
    weights = {name: weight for name, weight in marian.state_dict().items() if "embed_positions" not in name}
    for name in _VOCABULARY_WEIGHTS:
        weights[name] = _append_mean_rows(weights[name], config.vocab_size)
    # a sentence never holds these tokens. In other formats they are learned, from the average logit on
    bias = _UNUSED_LOGIT_BIAS if config.sequence_format == "sentence" else 0.0
    old_bias = marian.final_logits_bias
    new_bias = old_bias.new_full((1, config.vocab_size - old_bias.shape[1]), bias)
    weights["final_logits_bias"] = torch.cat((old_bias, new_bias), dim=1)  # (1, V)
    return weights


def _append_mean_rows(rows: torch.Tensor, size: int) -> torch.Tensor:
    mean = rows.float().mean(dim=0, keepdim=True).to(rows.dtype)
    return torch.cat((rows, mean.expand(size - len(rows), -1)))  # (V, d_model)


def main(argv: list[str] | None = None) -> None:
    """Convert and save a checkpoint, see the module's docstring."""
    arguments = _parse_arguments(argv)
    tokenizer = _load_tokenizer(arguments.source)
    marian = MarianMTModel.from_pretrained(arguments.source)
    changes = {
        "source_lang": arguments.source_lang or tokenizer.init_kwargs.get("source_lang"),
        "target_lang": arguments.target_lang or tokenizer.init_kwargs.get("target_lang"),
        "context_sentences": arguments.context_sentences,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    model = convert_marian(marian, system=arguments.system, tokenizer=tokenizer, **changes)
    if not has_document_tokens(tokenizer, marian.config.vocab_size):
        convert_marian_tokenizer(tokenizer, marian.config.vocab_size)
    tokenizer.save_pretrained(arguments.target)
    model.save_pretrained(arguments.target)
    print(f"{arguments.system}: {model.num_parameters():,} parameters -> {arguments.target}")


def _load_tokenizer(source: str) -> PreTrainedTokenizerBase:
    """Marian's own tokenizer, or ours in the folder of a Marian model that was trained with it."""
    is_ours = (Path(source) / "tokenizer.json").exists() and not (Path(source) / "source.spm").exists()
    return DocMTTokenizer.from_pretrained(source) if is_ours else MarianTokenizer.from_pretrained(source)


def _parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("source", help="folder or Hub id of the Marian checkpoint")
    parser.add_argument("target", help="folder to write the DocMT checkpoint to")
    parser.add_argument("--system", default="sentence-level", choices=list(SYSTEMS), help="default: %(default)s")
    parser.add_argument("--context_sentences", type=int, help="context k, for --system concat-adj")
    parser.add_argument("--source_lang", help="default: what the tokenizer says")
    parser.add_argument("--target_lang", help="default: what the tokenizer says")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
