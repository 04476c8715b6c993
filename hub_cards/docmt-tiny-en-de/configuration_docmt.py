"""Configuration of DocMT: every option of a document-level translation model, and the presets of the literature."""

import transformers
from huggingface_hub.dataclasses import strict
from packaging.version import parse


if parse(transformers.__version__) < parse("5.24"):
    raise ImportError(f"DocMT needs transformers>=5.24, found {transformers.__version__}: pip install -U transformers")

from transformers.configuration_utils import PreTrainedConfig  # noqa: E402


# parts of documents as the P-Transformer paper and those it compares with have them, and its separators
_SUB_DOCUMENTS = {
    "sequence_format": "document",
    "max_part_tokens": 512,
    "part_splitting": "greedy",
    "default_decoding": "counted",
}
_NUMBERED_SENTENCES = {"use_sos": True, "decoder_start_token_id": 6, "indexed_separators": True}

# each sentence attends to itself; with `global_layers`, to all of the sequence through a gate
_SENTENCE_ATTENTION = {
    "encoder_self_attention": "sentence",
    "decoder_self_attention": "sentence",
    "cross_attention": "sentence",
    "global_layers": 2,
}

# One row a system of the literature, and one of our own: only what differs from the defaults of `DocMTConfig`. A new
# system is a new row, plus the attention kind, position kind or format that it names.
SYSTEMS: dict[str, dict] = {
    "sentence-level": {"sequence_format": "sentence", "default_decoding": "sentence"},
    "concat-adj": {"sequence_format": "context_window", "context_sentences": 2, "default_decoding": "counted"},
    "concat-document": {"sequence_format": "document", "default_decoding": "counted"},
    "lst-attn": {
        "sequence_format": "document",
        "default_decoding": "counted",
        "encoder_self_attention": "long_short_term",
        "decoder_self_attention": "long_short_term",
    },
    "window-attn": {
        "sequence_format": "document",
        "default_decoding": "sequential",
        "max_part_tokens": None,
        "encoder_self_attention": "window",
        "decoder_self_attention": "window",
        "cross_attention": "window",
        "window_size": 20,
        "position_encoding": "relative",
    },
    "p-transformer": {
        **_SUB_DOCUMENTS,
        **_NUMBERED_SENTENCES,
        "position_aware_encoder": True,
        "position_aware_decoder": True,
        "position_aware_cross": True,
        "relative_distances": 512,
    },
    "g-transformer": {
        **_SUB_DOCUMENTS,
        **_SENTENCE_ATTENTION,
    },
    # ours: a sentence-level model that sees the sentence before through gates, nearly closed at first
    "gated-adj": {
        **_SENTENCE_ATTENTION,
        "sequence_format": "context_window",
        "context_sentences": 1,
        "default_decoding": "sequential",
        "reset_encoder_positions": True,
        "reset_decoder_positions": True,
        "global_gate_bias": -3.0,
    },
    "global-local": {
        "sequence_format": "document",
        "max_part_tokens": None,
        "max_part_sentences": 20,
        "default_decoding": "sequential",
        "encoder_layers": 4,
        "decoder_layers": 4,
        "normalize_before": True,
        "encoder_self_attention": "sentence",
        "decoder_self_attention": "recurrent",
        "cross_attention": "sentence",
        "decoder_attention_bias": False,
        "reset_encoder_positions": True,
        "segment_embeddings": 20,
        "global_block": "full",
    },
    "mr-doc2doc": {**_SUB_DOCUMENTS, **_NUMBERED_SENTENCES, "training_resolutions": "multi"},
}

ATTENTION_KINDS = ("dense", "window", "sentence", "long_short_term", "recurrent")
# kinds that are for self-attention in one or in both stacks
SELF_ATTENTION_KINDS = {"encoder": ("long_short_term",), "decoder": ("long_short_term", "recurrent"), "cross": ()}
GLOBAL_BLOCKS = ("none", "full", "attention")
POSITION_KINDS = ("sinusoidal", "relative")
RELATIVE_HEADS = ("separate", "shared", "scalar")
LST_MODES = ("shared", "heads")
ALIGNMENTS = ("one2one", "linear", "ratio", "sent-align", "sent-linear")
# those that need nothing of the target but what has been translated
DECODING_ALIGNMENTS = ("one2one", "ratio", "sent-align")
SEQUENCE_FORMATS = ("sentence", "context_window", "source_context", "document")
TRAINING_RESOLUTIONS = ("document", "multi", "document+sentence")
DECODING_MODES = ("sentence", "counted", "free", "sequential")
PART_SPLITTINGS = ("balanced", "greedy")

_PIPELINE = {"impl": "pipeline_docmt.DocumentTranslationPipeline", "pt": ["AutoModelForSeq2SeqLM"], "type": "text"}
_AUTO_MAP = {
    "AutoConfig": "configuration_docmt.DocMTConfig",
    "AutoModel": "modeling_docmt.DocMTModel",
    "AutoModelForSeq2SeqLM": "modeling_docmt.DocMTForConditionalGeneration",
}


@strict
class DocMTConfig(PreTrainedConfig):
    r"""
    Hyperparameters of a DocMT encoder-decoder.

    `DocMTConfig.from_system(name)` gives the preset of a published system; every field can be changed, and a
    combination without a meaning is refused with the reason.

    Args:
        system (`str`, *optional*, defaults to `"sentence-level"`):
            Name of the row of `SYSTEMS` that this configuration started from. A label: the fields decide.
        sequence_format (`str`, *optional*, defaults to `"sentence"`):
            What one model sequence holds. `"sentence"`: one sentence. `"context_window"`: `context_sentences`
            sentences and the current one. `"source_context"`: the same on the source side, and the current sentence
            alone on the target side (Doc2Sent of Li et al.). `"document"`: a whole part of a document (Herold and Ney
            2023).
        context_sentences (`int`, *optional*, defaults to 0):
            Preceding sentences, k, in a sequence of format `"context_window"` or `"source_context"`.
        context_loss_weight (`float`, *optional*, defaults to 1.0):
            Weight, from 0 to 1, of the loss of context sentences on the target side (`"context_window"` only).
        use_sos (`bool`, *optional*, defaults to `False`):
            Put `<sos>` in front of the source, and start the decoder with it (Li et al., P-Transformer).
        indexed_separators (`bool`, *optional*, defaults to `False`):
            Separate sentence I from the next by `<sepI>`, counted from 1 in every sequence, in place of `<sep>`.
        max_part_tokens (`int`, *optional*, defaults to 1000):
            Longest model sequence, in tokens of one side, separators included; longer documents are split at sentence
            boundaries. `None`: no limit.
        max_part_sentences (`int`, *optional*):
            Most sentences in a model sequence of format `"document"`; longer documents are split. `None`: no limit but
            that of indexed separators. Training with those sets it, so that decoding meets none that training did not.
        part_splitting (`str`, *optional*, defaults to `"balanced"`):
            `"balanced"` cuts into parts of similar length (Herold and Ney 2023), `"greedy"` fills one part after the
            other (Bao et al. 2021).
        training_resolutions (`str`, *optional*, defaults to `"document"`):
            Which sequences a training document of format `"document"` gives. `"document"`: its parts. `"multi"`: the
            document cut into 1, 2, 4, ... pieces, and into sentences (multi-resolution training, Sun et al. 2022).
            `"document+sentence"`: its parts, and each sentence by itself (Li et al.).
        train_ratio (`float`, *optional*, defaults to 1.0):
            Source tokens per target token in the training documents, mean of ratios. Estimates target lengths.
        encoder_self_attention, decoder_self_attention, cross_attention (`str`, *optional*, defaults to `"dense"`):
            Kind of attention in each place: `"dense"`; `"window"`, see `window_size`; `"sentence"`, the own sentence,
            or the source sentence of the same number, see `global_layers`; in self-attention also `"long_short_term"`,
            the own sentence beside the whole sequence (Zhang et al. 2020); in the decoder also `"recurrent"`, the own
            sentence and those just before it, whose states get no gradient (Zheng et al. 2020).
        memory_sentences (`int`, *optional*, defaults to 1):
            Target sentences before the current one that `"recurrent"` attention sees.
        global_block (`str`, *optional*, defaults to `"none"`):
            What follows the encoder layers so that sentences which these keep apart meet: attention over all words
            with relative positions of sentences, as a `"full"` layer or as mere `"attention"` (Zheng et al. 2020).
        global_gate (`bool`, *optional*, defaults to `True`):
            Mix the states before and behind `global_block` by a gate; without, those behind it replace the former.
        global_gate_bias (`float`, *optional*, defaults to 0.0):
            Logit of the share of global states at first, in the gate of `global_block` and in those of
            `global_layers`. With -4, a model that starts from the weights of one that keeps sentences apart is nearly
            that one at first.
        skip_global_if_single (`bool`, *optional*, defaults to `True`):
            Leave `global_block` out for sources of one sentence.
        max_segment_distance (`int`, *optional*, defaults to 20):
            Largest distance of sentences in `global_block`; those further apart count as being so far apart.
        segment_embeddings (`int`, *optional*):
            Learned embeddings of the number of a source sentence, so many; later sentences have the last one.
        reset_encoder_positions, reset_decoder_positions (`bool`, *optional*, defaults to `False`):
            Count sinusoidal positions from the start of the sentence.
        decoder_attention_bias (`bool`, *optional*, defaults to `True`):
            Whether attention in the decoder has biases in its projections.
        global_layers (`int`, *optional*, defaults to 0):
            Top layers of each stack in which a gate mixes `"sentence"` attention with attention to the whole sequence
            (G-Transformer, Bao et al. 2021).
        window_size (`int`, *optional*):
            Keys that window attention sees on each side of the query, or of the source position aligned with it, w.
        alignment, training_alignment (`str`, *optional*, defaults to `"sent-align"` and `"linear"`):
            Source position at the centre of the windows of cross-attention, in decoding and in training: `"one2one"`,
            `"linear"`, `"ratio"`, `"sent-align"` or `"sent-linear"`, see `align`. Decoding does not know the lengths
            of the target that `"linear"` and `"sent-linear"` need.
        clip_alignment (`bool`, *optional*, defaults to `False`):
            Keep `"sent-align"` within the source sentence where the target sentence is longer.
        lst_mode (`str`, *optional*, defaults to `"shared"`):
            How `"long_short_term"` joins its views: `"shared"`, both with all heads and an output projection of twice
            the size, or `"heads"`, half of the heads each.
        position_encoding (`str`, *optional*, defaults to `"sinusoidal"`):
            Kind of position information: `"sinusoidal"`, added to the embeddings, or `"relative"`, learned for each
            distance within the windows of self-attention, with nothing added to the embeddings.
        relative_cross (`bool`, *optional*, defaults to `False`):
            Learn relative positions in the windows of cross-attention too, of each key from the aligned source
            position. Ours: in Herold and Ney (2023) such a window is a mere set of keys.
        relative_heads (`str`, *optional*, defaults to `"separate"`):
            Relative positions of each layer: `"separate"` vectors a head, vectors `"shared"` by the heads, or
            `"scalar"`, one bias a head and distance.
        position_aware_encoder, position_aware_decoder, position_aware_cross (`bool`, *optional*, defaults to `False`):
            Add sinusoids to what queries and keys, but not values, are made of, in every layer: in self-attention of
            the encoder and of the decoder, and in cross-attention (P-Transformer, Li et al.).
        relative_distances (`int`, *optional*):
            Largest distance in a table of relative keys that all layers and heads of both stacks share in
            self-attention, `(2 * relative_distances + 1, head_dim)`; keys further away take its last row (Li et al.).
            `None`: there is no such table.
        normalize_before (`bool`, *optional*, defaults to `False`):
            Pre-norm layers with a final LayerNorm on both stacks, in place of post-norm.
        scale_embedding (`bool`, *optional*, defaults to `True`):
            Multiply token embeddings by `sqrt(d_model)`.
        init_std (`float`, *optional*):
            Standard deviation of all fresh weights; 0.02 is Marian's, with which small post-norm models learn faster.
            `None`: embeddings N(0, 1 / d_model) and Xavier in linear layers, as in fairseq.
        use_final_logits_bias (`bool`, *optional*, defaults to `False`):
            Keep a bias of shape `(1, V)` on the logits, as Marian checkpoints do.
        default_decoding (`str`, *optional*, defaults to `"sentence"`):
            Decoding mode of `generate()` where neither the call nor the saved generation config names one.
        sep_token_id, bod_token_id, sos_token_id, mask_token_id (`int`, *optional*):
            Ids of the separator, the begin-of-document, the start-of-source and the mask token.
        first_separator_token_id (`int`, *optional*):
            Id of `<sep1>`; `<sep2>` and so on follow it without a gap. `None`: the vocabulary has none.
        num_indexed_separators (`int`, *optional*, defaults to 255):
            Number of indexed separators, M. A sequence with more than M + 1 sentences is split further.
        source_lang, target_lang (`str`, *optional*):
            Languages, as codes. They name the task `translation_xx_to_yy` of the checkpoint.

    The remaining fields are those of [`MarianConfig`] with `encoder_ffn_dim`, `decoder_ffn_dim` and so on.
    """

    model_type = "docmt"
    keys_to_ignore_at_inference = ["cache"]
    attribute_map = {
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    }

    # shape
    vocab_size: int = 32000
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_attention_heads: int = 8
    decoder_attention_heads: int = 8
    encoder_ffn_dim: int = 2048
    decoder_ffn_dim: int = 2048
    activation_function: str = "relu"
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    normalize_before: bool = False
    scale_embedding: bool = True
    init_std: float | None = None
    use_final_logits_bias: bool = False
    tie_word_embeddings: bool = True

    # who sees whom, and where tokens stand
    system: str = "sentence-level"
    encoder_self_attention: str = "dense"
    decoder_self_attention: str = "dense"
    cross_attention: str = "dense"
    window_size: int | None = None
    alignment: str = "sent-align"
    training_alignment: str = "linear"
    clip_alignment: bool = False
    lst_mode: str = "shared"
    position_encoding: str = "sinusoidal"
    relative_heads: str = "separate"
    relative_cross: bool = False
    position_aware_encoder: bool = False
    position_aware_decoder: bool = False
    position_aware_cross: bool = False
    relative_distances: int | None = None
    global_layers: int = 0
    memory_sentences: int = 1
    global_block: str = "none"
    global_gate: bool = True
    global_gate_bias: float | int = 0.0
    skip_global_if_single: bool = True
    max_segment_distance: int = 20
    segment_embeddings: int | None = None
    reset_encoder_positions: bool = False
    reset_decoder_positions: bool = False
    decoder_attention_bias: bool = True

    # what a sequence holds
    sequence_format: str = "sentence"
    context_sentences: int = 0
    context_loss_weight: float | int = 1.0
    use_sos: bool = False
    indexed_separators: bool = False
    max_part_tokens: int | None = 1000
    max_part_sentences: int | None = None
    part_splitting: str = "balanced"
    training_resolutions: str = "document"
    train_ratio: float | int = 1.0
    default_decoding: str = "sentence"

    # vocabulary
    pad_token_id: int | None = 1
    bos_token_id: int | None = 2
    eos_token_id: int | None = 3
    sep_token_id: int | None = 4
    bod_token_id: int | None = 5
    sos_token_id: int | None = 6
    mask_token_id: int | None = 7
    first_separator_token_id: int | None = 10
    num_indexed_separators: int = 255
    decoder_start_token_id: int | None = 2
    source_lang: str | None = None
    target_lang: str | None = None

    use_cache: bool = True
    is_encoder_decoder: bool = True
    auto_map: dict | None = None
    custom_pipelines: dict | None = None

    def __post_init__(self, **kwargs):
        self._check_choices()
        self._check_shape()
        self._check_attention()
        self._check_format()
        if self.auto_map is None:
            self.auto_map = dict(_AUTO_MAP)
        if self.custom_pipelines is None:
            tasks = ["translation"]
            if self.source_lang and self.target_lang:
                tasks.append(f"translation_{self.source_lang}_to_{self.target_lang}")
            self.custom_pipelines = {task: dict(_PIPELINE) for task in tasks}
        super().__post_init__(**kwargs)

    @classmethod
    def from_system(cls, name: str, **changes) -> "DocMTConfig":
        """
        Build the configuration of a published system.

        Args:
            name (`str`): Row of `SYSTEMS`, such as `"concat-adj"`.
            changes: Fields that differ from the preset.

        Raises:
            `ValueError`: if there is no such system, or no such field.
        """
        if name not in SYSTEMS:
            raise ValueError(f"`name` must be one of {', '.join(map(repr, SYSTEMS))}, got {name!r}.")
        return cls(system=name, **{**SYSTEMS[name], **changes})

    @property
    def has_intervals(self) -> bool:
        """Whether something is in intervals: it needs padding on the right alone, and to know where that begins."""
        return self.knows_sentences or self.relative_distances is not None

    @property
    def knows_sentences(self) -> bool:
        """Whether something depends on more than positions: the sentences are read off the token ids."""
        kinds = {self.encoder_self_attention, self.decoder_self_attention, self.cross_attention}
        resets = self.reset_encoder_positions or self.reset_decoder_positions or self.segment_embeddings is not None
        return kinds != {"dense"} or resets or self.global_block != "none"

    @property
    def window(self) -> int:
        """`window_size` of a model that has windows."""
        if self.window_size is None:
            raise ValueError("`window_size` is needed by window attention, got None.")
        return self.window_size

    @property
    def is_position_aware(self) -> bool:
        """Whether some attention adds positions to its queries and keys."""
        return self.position_aware_encoder or self.position_aware_decoder or self.position_aware_cross

    @property
    def largest_distance(self) -> int:
        """`relative_distances` of a model that has such a table."""
        if self.relative_distances is None:
            raise ValueError("`relative_distances` is needed by a table of relative positions, got None.")
        return self.relative_distances

    def num_key_sets(self, place: str) -> int:
        """Pairs of keys and values that a decoding cache holds: one a layer, two in layers with a gate."""
        kind = self.decoder_self_attention if place == "decoder" else self.cross_attention
        return self.decoder_layers + (min(self.global_layers, self.decoder_layers) if kind == "sentence" else 0)

    def separator_ids(self) -> list[int]:
        """Ids of every token that separates two sentences: `<sep>`, and the indexed separators there are."""
        indexed = range(0)
        if self.first_separator_token_id is not None:
            indexed = range(self.first_separator_token_id, self.first_separator_token_id + self.num_indexed_separators)
        return [*([] if self.sep_token_id is None else [self.sep_token_id]), *indexed]

    def _check_choices(self):
        choices = {
            "encoder_self_attention": _kinds("encoder"),
            "decoder_self_attention": _kinds("decoder"),
            "cross_attention": _kinds("cross"),
            "global_block": GLOBAL_BLOCKS,
            "alignment": DECODING_ALIGNMENTS,
            "training_alignment": ALIGNMENTS,
            "lst_mode": LST_MODES,
            "position_encoding": POSITION_KINDS,
            "relative_heads": RELATIVE_HEADS,
            "sequence_format": SEQUENCE_FORMATS,
            "default_decoding": DECODING_MODES,
            "part_splitting": PART_SPLITTINGS,
            "training_resolutions": TRAINING_RESOLUTIONS,
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                allowed_text = ", ".join(map(repr, allowed))
                raise ValueError(f"`{name}` must be one of {allowed_text}, got {getattr(self, name)!r}.")

    def _check_shape(self):
        for side in ("encoder", "decoder"):
            heads = getattr(self, f"{side}_attention_heads")
            if heads < 1 or self.d_model % heads:
                raise ValueError(
                    f"`d_model` must be divisible by `{side}_attention_heads`, got d_model={self.d_model} and "
                    f"{side}_attention_heads={heads}."
                )
        if self.d_model % 2:
            raise ValueError(f"`d_model` must be even for sinusoidal positions, got {self.d_model}.")
        for name in ("dropout", "attention_dropout", "activation_dropout", "context_loss_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"`{name}` must lie between 0 and 1, got {getattr(self, name)}.")

    def _check_attention(self):
        kinds = (self.encoder_self_attention, self.decoder_self_attention, self.cross_attention)
        if "window" in kinds and (self.window_size is None or self.window_size < 0):
            raise ValueError(f"`window_size` must be 0 or more for window attention, got {self.window_size}.")
        if self.position_encoding == "relative" and kinds[:2] != ("window", "window"):
            raise ValueError(
                "`position_encoding='relative'` belongs to windows: use `encoder_self_attention='window'` and "
                f"`decoder_self_attention='window'`, got {kinds[0]!r} and {kinds[1]!r}."
            )
        if self.relative_cross and (self.position_encoding != "relative" or self.cross_attention != "window"):
            raise ValueError(
                "`relative_cross=True` belongs to windows with relative positions: use `position_encoding='relative'` "
                f"and `cross_attention='window'`, got {self.position_encoding!r} and {self.cross_attention!r}."
            )
        if self.relative_distances is not None:
            if self.relative_distances < 0:
                raise ValueError(f"`relative_distances` must be 0 or more, or None, got {self.relative_distances}.")
            if not set(kinds[:2]) <= {"dense", "window"} or self.position_encoding == "relative":
                raise ValueError(
                    "`relative_distances` is for dense and window self-attention with sinusoidal positions, got "
                    f"{kinds[0]!r}, {kinds[1]!r} and `position_encoding={self.position_encoding!r}`."
                )
            if self.encoder_attention_heads != self.decoder_attention_heads:
                raise ValueError(
                    "`relative_distances` needs heads of one size in encoder and decoder, got "
                    f"{self.encoder_attention_heads} and {self.decoder_attention_heads} heads."
                )
        if self.global_layers and "sentence" not in kinds:
            raise ValueError(
                f"`global_layers` belongs to 'sentence' attention, got global_layers={self.global_layers} and {kinds}."
            )
        for name, least in (("global_layers", 0), ("memory_sentences", 1), ("max_segment_distance", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be {least} or more, got {getattr(self, name)}.")
        has_gate = self.global_block != "none" and self.global_gate
        if self.global_gate_bias and not has_gate and not self.global_layers:
            raise ValueError(
                "`global_gate_bias` belongs to gates: leave it at 0, or use `global_block='full'` with "
                "`global_gate=True`, or 'sentence' attention with `global_layers`, got "
                f"global_gate_bias={self.global_gate_bias}."
            )
        if self.segment_embeddings is not None and self.segment_embeddings < 1:
            raise ValueError(f"`segment_embeddings` must be 1 or more, or None, got {self.segment_embeddings}.")
        if self.decoder_self_attention == "recurrent" and (
            self.position_aware_decoder or self.relative_distances is not None or self.position_encoding == "relative"
        ):
            raise ValueError(
                "`decoder_self_attention='recurrent'` has relative positions of its own: leave out "
                "`position_aware_decoder`, `relative_distances` and `position_encoding='relative'`."
            )
        for side, kind in zip(("encoder", "decoder"), kinds, strict=False):
            heads = getattr(self, f"{side}_attention_heads")
            if kind == "long_short_term" and self.lst_mode == "heads" and heads % 2:
                raise ValueError(f"`{side}_attention_heads` must be even for `lst_mode='heads'`, got {heads}.")

    def _check_format(self):
        if self.context_sentences < 0:
            raise ValueError(f"`context_sentences` must be 0 or more, got {self.context_sentences}.")
        if self.context_sentences and self.sequence_format not in ("context_window", "source_context"):
            raise ValueError(
                "`context_sentences` is read by `sequence_format='context_window'` and `'source_context'` alone, got "
                f"context_sentences={self.context_sentences} and sequence_format={self.sequence_format!r}."
            )
        if self.training_resolutions != "document" and self.sequence_format != "document":
            raise ValueError(
                f"`training_resolutions={self.training_resolutions!r}` cuts whole documents: it belongs to "
                f"`sequence_format='document'`, got {self.sequence_format!r}."
            )
        if self.max_part_tokens is not None and self.max_part_tokens < 2:
            raise ValueError(
                f"`max_part_tokens` must be at least 2, or None for no limit, got {self.max_part_tokens}."
            )
        if self.max_part_sentences is not None and self.max_part_sentences < 1:
            raise ValueError(
                f"`max_part_sentences` must be at least 1, or None for no limit, got {self.max_part_sentences}."
            )
        if self.sequence_format == "source_context":
            if self.default_decoding != "sentence":
                raise ValueError(
                    "`sequence_format='source_context'` translates one sentence at a time: use "
                    f"`default_decoding='sentence'`, got {self.default_decoding!r}."
                )
            if self.cross_attention in ("sentence", "window"):
                raise ValueError(
                    "`sequence_format='source_context'` aligns no target sentence with the first one of the source: "
                    f"use `cross_attention='dense'`, got {self.cross_attention!r}."
                )
        if self.train_ratio <= 0:
            raise ValueError(f"`train_ratio` must be positive, got {self.train_ratio}.")
        if self.sequence_format != "sentence" and self.sep_token_id is None:
            raise ValueError(f"`sep_token_id` is needed by `sequence_format={self.sequence_format!r}`, got None.")
        if self.use_sos and self.sos_token_id is None:
            raise ValueError("`sos_token_id` is needed by `use_sos=True`, got None.")
        if self.indexed_separators and self.first_separator_token_id is None:
            raise ValueError("`first_separator_token_id` is needed by `indexed_separators=True`, got None.")


def _kinds(place: str) -> tuple[str, ...]:
    """Kinds of attention that `place` can have."""
    elsewhere = {kind for kinds in SELF_ATTENTION_KINDS.values() for kind in kinds} - set(SELF_ATTENTION_KINDS[place])
    return tuple(kind for kind in ATTENTION_KINDS if kind not in elsewhere)


def required_token(config: DocMTConfig, name: str) -> int:
    """The id of a special token; a `ValueError` where the config has none."""
    token = getattr(config, name)
    if token is None:
        raise ValueError(f"`{name}` of the model config is needed for document formats, got None.")
    return token


DocMTConfig.register_for_auto_class()
