"""
DocMT: encoder-decoder Transformers for document-level machine translation.

Read from top to bottom: layers, encoder, decoder, then the public classes. What differs between the systems of the
literature is the attention of a layer (`ATTENTION_CLASSES`), the positions and the sequence format, all named by
`DocMTConfig`.

Shapes: `B` sequences in a batch · `S` source tokens · `T` target tokens · `H` heads · `D` head dimension · `d_model` ·
`V` vocabulary.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.generation import GenerationConfig, GenerationMixin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention_bounded import DocumentAttention
from .attention_dense import DenseAttention
from .attention_heads import AttentionHeads
from .attention_long_short_term import LongShortTermAttention
from .attention_recurrent import RecurrentAttention, RecurrentPlan, RecurrentTerms
from .attention_segment import GatedFusion, GateProjection, SegmentAttention, SentenceNumbers
from .attention_sentence import GatedSentenceAttention, SentenceAttention
from .attention_window import WindowAttention
from .cache_docmt import SearchCache
from .configuration_docmt import DocMTConfig
from .generation_docmt import DocumentGenerationMixin
from .loss_docmt import translation_loss
from .masking_docmt import INTERVAL_RULES, MaskInputs, build_attention_masks
from .packing_docmt import TokenLayout, states_at
from .positions_docmt import PositionVectors, RelativeTable, sinusoids
from .sentences_docmt import places_in_sentences, source_sentence_ids, target_sentence_ids


# one class a kind of attention, all with the interface of `DenseAttention`
ATTENTION_CLASSES: dict[str, type[AttentionHeads]] = {
    "dense": DenseAttention,
    "window": WindowAttention,
    "sentence": SentenceAttention,
    "long_short_term": LongShortTermAttention,
    "recurrent": RecurrentAttention,
}


def build_attention(config: DocMTConfig, layer_idx: int, place: str) -> AttentionHeads:
    """The attention of a layer in `place` `"encoder"`, `"decoder"` or `"cross"`."""
    kind = config.cross_attention if place == "cross" else getattr(config, f"{place}_self_attention")
    num_heads, num_layers = config.decoder_attention_heads, config.decoder_layers
    if place == "encoder":
        num_heads, num_layers = config.encoder_attention_heads, config.encoder_layers
    attention_class = ATTENTION_CLASSES[kind]
    if kind == "dense" and config.relative_distances is not None:
        attention_class = DocumentAttention
    elif kind == "sentence" and layer_idx >= num_layers - config.global_layers:
        attention_class = GatedSentenceAttention
    return attention_class(config, num_heads, layer_idx, place)


class DocMTEncoderLayer(GradientCheckpointingLayer):
    """Self-attention and feed-forward, each with residual and LayerNorm, post-norm or pre-norm."""

    def __init__(self, config: DocMTConfig, layer_idx: int, attention: AttentionHeads | None = None):
        super().__init__()
        self.normalize_before = config.normalize_before
        self.dropout = config.dropout
        self.activation_dropout = config.activation_dropout
        self.self_attn = build_attention(config, layer_idx, place="encoder") if attention is None else attention
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.activation_fn = ACT2FN[config.activation_function]
        self.fc1 = nn.Linear(config.d_model, config.encoder_ffn_dim)
        self.fc2 = nn.Linear(config.encoder_ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)

    def forward(self, hidden_states: torch.Tensor, attention_masks: dict[str, Any], **kwargs) -> torch.Tensor:
        """States `(B, S, d_model)` to states of the same shape."""
        residual = hidden_states
        if self.normalize_before:
            hidden_states = self.self_attn_layer_norm(hidden_states)
        hidden_states, _ = self.self_attn(hidden_states, attention_masks, **kwargs)
        hidden_states = residual + nn.functional.dropout(hidden_states, self.dropout, self.training)
        if not self.normalize_before:
            hidden_states = self.self_attn_layer_norm(hidden_states)
        return _feed_forward(self, hidden_states)


class DocMTGlobalBlock(nn.Module):
    """
    Lets the sentences of a document meet behind encoder layers that keep them apart.

    A layer of segment-level attention (or its attention alone), whose states a gate mixes with those before it.
    Documents of one sentence pass unchanged, see `skip_global_if_single`.

    Source: Zheng et al. (2020), on the global encoder.
    """

    def __init__(self, config: DocMTConfig):
        super().__init__()
        self.config = config
        attention = SegmentAttention(config, config.encoder_attention_heads, config.encoder_layers, "encoder")
        self.mask_names = attention.mask_names
        self.is_layer = config.global_block == "full"
        if self.is_layer:
            self.block = DocMTEncoderLayer(config, config.encoder_layers, attention)
        else:
            self.self_attn = attention
        self.fusion = GatedFusion(config.d_model) if config.global_gate else None

    def forward(self, hidden_states: torch.Tensor, attention_masks: dict[str, Any], **kwargs) -> torch.Tensor:
        """States `(B, S, d_model)`, or those of a packed row, to states of the same shape."""
        numbers: SentenceNumbers = attention_masks["sentence_numbers"]
        skips = self.config.skip_global_if_single
        if skips and bool(numbers.is_single.all()):
            return hidden_states
        if self.is_layer:
            states = self.block(hidden_states, attention_masks, **kwargs)
        else:
            states, _ = self.self_attn(hidden_states, attention_masks, **kwargs)
        if self.fusion is not None:
            states = self.fusion(hidden_states, states)
        if not skips:
            return states
        is_single = numbers.is_single.view(*states.shape[:-1], 1)
        return torch.where(is_single, hidden_states, states)


class DocMTDecoderLayer(GradientCheckpointingLayer):
    """Causal self-attention, cross-attention and feed-forward, each with residual and LayerNorm."""

    def __init__(self, config: DocMTConfig, layer_idx: int):
        super().__init__()
        self.normalize_before = config.normalize_before
        self.dropout = config.dropout
        self.activation_dropout = config.activation_dropout
        self.self_attn = build_attention(config, layer_idx, place="decoder")
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.encoder_attn = build_attention(config, layer_idx, place="cross")
        self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.activation_fn = ACT2FN[config.activation_function]
        self.fc1 = nn.Linear(config.d_model, config.decoder_ffn_dim)
        self.fc2 = nn.Linear(config.decoder_ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)

    # the keyword must be `cache`: GradientCheckpointingLayer drops it while it checkpoints
    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_masks: dict[str, Any],
        encoder_hidden_states: torch.Tensor | None,
        encoder_attention_masks: dict[str, Any],
        cache: EncoderDecoderCache | SearchCache | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """Target states `(B, T, d_model)` and source states `(B, S, d_model)` to target states."""
        # 1. self-attention
        residual = hidden_states
        memory = {}
        if self.normalize_before:
            hidden_states = self.self_attn_layer_norm(hidden_states)
            if isinstance(self.self_attn, RecurrentAttention) and torch.is_grad_enabled():
                # a memory holds what came into the layer, so that the norm learns from it as the projections do
                memory["memory_states"] = self.self_attn_layer_norm(residual.detach())
        hidden_states, _ = self.self_attn(hidden_states, attention_masks, cache=cache, **memory, **kwargs)
        hidden_states = residual + nn.functional.dropout(hidden_states, self.dropout, self.training)
        if not self.normalize_before:
            hidden_states = self.self_attn_layer_norm(hidden_states)

        # 2. cross-attention
        residual = hidden_states
        if self.normalize_before:
            hidden_states = self.encoder_attn_layer_norm(hidden_states)
        hidden_states, _ = self.encoder_attn(
            hidden_states, encoder_attention_masks, encoder_hidden_states=encoder_hidden_states, cache=cache, **kwargs
        )
        hidden_states = residual + nn.functional.dropout(hidden_states, self.dropout, self.training)
        if not self.normalize_before:
            hidden_states = self.encoder_attn_layer_norm(hidden_states)

        # 3. feed-forward
        return _feed_forward(self, hidden_states)


def _feed_forward(layer: DocMTEncoderLayer | DocMTDecoderLayer, hidden_states: torch.Tensor) -> torch.Tensor:
    residual = hidden_states
    if layer.normalize_before:
        hidden_states = layer.final_layer_norm(hidden_states)
    hidden_states = layer.activation_fn(layer.fc1(hidden_states))
    hidden_states = nn.functional.dropout(hidden_states, layer.activation_dropout, layer.training)
    hidden_states = residual + nn.functional.dropout(layer.fc2(hidden_states), layer.dropout, layer.training)
    return hidden_states if layer.normalize_before else layer.final_layer_norm(hidden_states)


class DocMTPreTrainedModel(PreTrainedModel):
    """Weight initialisation and what Transformers needs to know of the models."""

    config: DocMTConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["DocMTEncoderLayer", "DocMTDecoderLayer"]
    _supports_sdpa = True
    _supports_flex_attn = True

    @property
    def _can_compile_fullgraph(self) -> bool:
        # plans of intervals are built outside of the graph
        return not self.config.has_intervals

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        """
        Embeddings with a zero pad row and output layer N(0, 1 / d_model), and Xavier elsewhere, as in fairseq's
        Transformer; with `config.init_std`, N(0, init_std^2) for all, as in Marian models.
        """
        # the base class leaves out custom modules without parameters of their own: those of a child are set at it
        if isinstance(module, RelativeTable):
            init.normal_(module.weight, mean=0.0, std=self.config.init_std or module.weight.shape[1] ** -0.5)
        if isinstance(module, SegmentAttention):
            for table in (module.segment_keys, module.segment_values):
                init.normal_(table, mean=0.0, std=self.config.init_std or table.shape[1] ** -0.5)
        if isinstance(module, DocMTDecoder) and module.content_bias is not None:
            # as in Transformer-XL, queries begin without a preference
            init.zeros_(module.content_bias)
            init.zeros_(module.distance_bias)
        if isinstance(module, WindowAttention) and module.relative_keys is not None:
            init.normal_(module.relative_keys, mean=0.0, std=self.config.init_std or self.config.d_model**-0.5)
        if self.config.init_std is not None or not isinstance(module, nn.Linear | nn.Embedding):
            super()._init_weights(module)
        elif isinstance(module, nn.Linear):
            is_output_layer = module is getattr(self, "lm_head", None)
            if is_output_layer:
                init.normal_(module.weight, mean=0.0, std=self.config.d_model**-0.5)
            else:
                init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        else:
            init.normal_(module.weight, mean=0.0, std=self.config.d_model**-0.5)
            # a weight that came with the checkpoint is not ours to change
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        if isinstance(module, GateProjection):
            init.constant_(module.bias, module.global_sign * self.config.global_gate_bias)
        if isinstance(module, DocMTForConditionalGeneration) and self.config.use_final_logits_bias:
            init.zeros_(module.final_logits_bias)

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize embeddings and output layer, see `PreTrainedModel.resize_token_embeddings`."""
        stacks = [module for module in self.modules() if isinstance(module, DocMTStack)]
        tables = [stack.embed_tokens for stack in stacks]
        embeddings = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        if not self.config.tie_word_embeddings:
            # the stock method puts one table into both stacks, which have their own here
            size = embeddings.weight.shape[0]
            for stack, table in zip(stacks, tables, strict=True):
                stack.embed_tokens = self._get_resized_embeddings(table, size, mean_resizing=mean_resizing)
                stack.embed_tokens.requires_grad_(table.weight.requires_grad)
        return embeddings


class DocMTStack(DocMTPreTrainedModel):
    """What encoder and decoder share: embeddings, positions, and the norm behind a pre-norm stack."""

    # whether sinusoids are added to the embeddings
    has_positions: bool

    def __init__(self, config: DocMTConfig):
        super().__init__(config)
        self.has_positions = config.position_encoding == "sinusoidal"
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.embed_scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.layer_norm = nn.LayerNorm(config.d_model) if config.normalize_before else None
        self.relative_table = None
        if config.relative_distances is not None:
            head_dim = config.d_model // config.encoder_attention_heads
            self.relative_table = RelativeTable(config.relative_distances, head_dim)
        self.gradient_checkpointing = False

    def embed(
        self, input_ids, inputs_embeds, position_ids, past_length: int = 0, segments: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Scaled token embeddings plus positions, `(B, L, d_model)`; by default these count on from `past_length`.

        Embeddings of `segments` are added to those of the tokens. Also returns the sinusoids of the positions, `(B or
        1, L, d_model)`, where something reads them.
        """
        # beside embeddings, systems that know sentences read these off the ids
        is_redundant = inputs_embeds is not None and not self.config.knows_sentences
        if (input_ids is None) == (inputs_embeds is None) and (input_ids is None or is_redundant):
            raise ValueError("Give exactly one of `input_ids` and `inputs_embeds` (or of their decoder versions).")
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if segments is not None:
            inputs_embeds = inputs_embeds + segments
        hidden_states = inputs_embeds * self.embed_scale
        positions = None
        if self.has_positions or self.config.is_position_aware:
            if position_ids is None:
                position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device)[None] + past_length
            positions = sinusoids(position_ids, self.config.d_model, inputs_embeds.dtype)
        if self.has_positions:
            hidden_states = hidden_states + positions
        return nn.functional.dropout(hidden_states, self.config.dropout, self.training), positions

    def beside_masks(
        self, query: torch.Tensor | None, key: torch.Tensor | None, is_position_aware: bool
    ) -> dict[str, Any]:
        """What attention reads beside its masks: the sinusoids of queries and keys, and the table of distances."""
        found: dict[str, Any] = {}
        if is_position_aware:
            found["positions"] = PositionVectors(query, key)
        if self.relative_table is not None:
            found["relative_table"] = self.relative_table.weight
        return found

    def is_packed(self, mask_names: Iterable[str], kwargs: dict[str, Any]) -> bool:
        """
        Whether the layers get the tokens of a batch in one row without padding.

        They do where all rules are intervals and nobody asks for what goes on in between.
        """
        flags = ("output_hidden_states", "output_attentions")
        shows = any(kwargs.get(name, getattr(self.config, name, False)) for name in flags)
        return INTERVAL_RULES.issuperset(mask_names) and self.config._attn_implementation != "eager" and not shows

    def normalize(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """The final LayerNorm of a pre-norm stack; post-norm stacks have none."""
        return hidden_states if self.layer_norm is None else self.layer_norm(hidden_states)


class DocMTEncoder(DocMTStack):
    """Source ids to source states."""

    # states of the layers alone: what the global block does is in the last ones
    _can_record_outputs = {
        "hidden_states": OutputRecorder(DocMTEncoderLayer, layer_name="layers"),
        "attentions": OutputRecorder(AttentionHeads, index=1, layer_name="self_attn"),
    }

    def __init__(self, config: DocMTConfig):
        super().__init__(config)
        self.layers = nn.ModuleList(DocMTEncoderLayer(config, i) for i in range(config.encoder_layers))
        self.global_block = None
        if config.global_block != "none":
            self.global_block = DocMTGlobalBlock(config)
            # the norm behind the fusion is there in post-norm stacks, too
            self.layer_norm = nn.LayerNorm(config.d_model)
        self.embed_segments = None
        if config.segment_embeddings is not None:
            self.embed_segments = nn.Embedding(config.segment_embeddings, config.d_model)
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        r"""
        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, source_length)`): Formatted source ids.
            attention_mask (`torch.Tensor` of the same shape, *optional*): 1 at tokens, 0 at padding (on the right).
            position_ids (`torch.LongTensor` of the same shape, *optional*): Positions, for pieces; from 0 by default.
            inputs_embeds (`torch.Tensor` of shape `(batch_size, source_length, d_model)`, *optional*):
                Embeddings in place of ids.
        """
        sentences = self._sentences(input_ids, attention_mask)
        if sentences is not None and self.config.reset_encoder_positions:
            position_ids = places_in_sentences(sentences)
        segments = None
        if sentences is not None and self.embed_segments is not None:
            segments = self.embed_segments(sentences.clamp(max=self.embed_segments.num_embeddings - 1))
        hidden_states, positions = self.embed(input_ids, inputs_embeds, position_ids, segments=segments)
        names = {name for layer in self.layers for name in layer.self_attn.mask_names}
        names.update(() if self.global_block is None else self.global_block.mask_names)
        inputs = MaskInputs("encoder", self.config, hidden_states, attention_mask, key_ids=input_ids)
        is_packed = self.is_packed(names, kwargs)
        if not INTERVAL_RULES.isdisjoint(names):
            layout = TokenLayout.from_mask(attention_mask, hidden_states.shape[:2], hidden_states.device, is_packed)
            inputs.queries = inputs.keys = layout
        masks = build_attention_masks(names, inputs)
        if is_packed:
            hidden_states, positions = layout.pack(hidden_states), layout.pack_shared(positions)
        masks |= self.beside_masks(positions, positions, self.config.position_aware_encoder)
        for layer in self.layers:
            hidden_states = layer(hidden_states, masks, **kwargs)
        if self.global_block is not None:
            masks["sentence_numbers"] = _sentence_numbers(sentences, layout)
            hidden_states = self.global_block(hidden_states, masks, **kwargs)
        hidden_states = self.normalize(hidden_states)
        return BaseModelOutput(last_hidden_state=layout.unpack(hidden_states) if is_packed else hidden_states)

    def _sentences(
        self, input_ids: torch.LongTensor | None, attention_mask: torch.Tensor | None
    ) -> torch.LongTensor | None:
        """Number of each token's sentence, `(B, S)`, where embeddings or the global block read it."""
        if not (
            self.config.reset_encoder_positions or self.embed_segments is not None or self.global_block is not None
        ):
            return None
        if input_ids is None:
            raise ValueError(
                f"`input_ids` are needed by system {self.config.system!r}, which reads the sentences from them: give "
                "them together with embeddings."
            )
        sentences = source_sentence_ids(input_ids, self.config)
        if attention_mask is None:
            return sentences
        # padding belongs to the last sentence, whatever its ids
        last = sentences.gather(1, (attention_mask.sum(dim=1, keepdim=True) - 1).clamp(min=0))
        return torch.where(attention_mask.bool(), sentences, last)


def _sentence_numbers(sentences: torch.LongTensor, layout: TokenLayout) -> SentenceNumbers:
    """Of the flat row of a batch, from those of the padded one, `(B, S)`."""
    is_single = (sentences.amax(dim=1, keepdim=True) == 0).expand_as(sentences)
    return SentenceNumbers(layout.pack(sentences)[0], int(sentences.max()) + 1, layout.pack(is_single)[0])


class DocMTDecoder(DocMTStack):
    """Target ids and source states to target states."""

    _can_record_outputs = {
        "hidden_states": DocMTDecoderLayer,
        "attentions": OutputRecorder(AttentionHeads, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(AttentionHeads, index=1, layer_name="encoder_attn"),
    }

    def __init__(self, config: DocMTConfig):
        super().__init__(config)
        self.layers = nn.ModuleList(DocMTDecoderLayer(config, i) for i in range(config.decoder_layers))
        self.content_bias: nn.Parameter | None = None
        self.distance_bias: nn.Parameter | None = None
        if config.decoder_self_attention == "recurrent":
            self.has_positions = False  # its attention has them
            heads = config.decoder_attention_heads
            self.content_bias, self.distance_bias = (
                nn.Parameter(torch.empty(heads, config.d_model // heads)) for _ in range(2)
            )
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: Any = None,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: EncoderDecoderCache | SearchCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        position_ids: torch.LongTensor | None = None,
        encoder_input_ids: torch.LongTensor | None = None,
        alignment: str | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        r"""
        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, target_length)`): Decoder input behind the cache.
            attention_mask (`torch.Tensor` of shape `(batch_size, past_length + target_length)`, *optional*):
                1 at tokens, 0 at padding, cached positions included.
            encoder_hidden_states (`torch.Tensor` of shape `(batch_size, source_length, d_model)`, *optional*):
                Source states; a `SearchCache` holds them itself.
            encoder_attention_mask (`torch.Tensor` of shape `(batch_size, source_length)`, *optional*): Source padding.
            cache (`EncoderDecoderCache` or `SearchCache`, *optional*):
                Keys and values of earlier steps. With a `SearchCache`, of document decoding, give `position_ids`.
            inputs_embeds (`torch.Tensor` of shape `(batch_size, target_length, d_model)`, *optional*):
                Embeddings in place of ids.
            use_cache (`bool`, *optional*): Whether to return a cache.
            position_ids (`torch.LongTensor` of shape `(batch_size, target_length)`, *optional*):
                Positions from 0; needed where the mask has holes. Defaults to counting on from the cache.
            encoder_input_ids (`torch.LongTensor` of shape `(batch_size, source_length)`, *optional*):
                Source ids, from which windows that follow the sentences read where these begin.
            alignment (`str`, *optional*): Centre of the windows of cross-attention, in place of `config.alignment`.
        """
        if use_cache and cache is None and not self.config.has_intervals:
            view = self.config.get_text_config(decoder=True)
            cache = EncoderDecoderCache(DynamicCache(config=view), DynamicCache(config=view))
        names = {name for layer in self.layers for name in layer.self_attn.mask_names}
        cross_names = {name for layer in self.layers for name in layer.encoder_attn.mask_names}
        is_packed = False
        if isinstance(cache, SearchCache):
            hidden_states, positions = self.embed(input_ids, inputs_embeds, position_ids)
            self_masks, cross_masks = cache.masks("decoder", names), cache.masks("cross", cross_names)
            source_positions = None  # the keys of the source are in the cache
        else:
            past_length = 0 if cache is None else cache.get_seq_length()
            if position_ids is None and self.config.reset_decoder_positions:
                position_ids = self._places(input_ids, past_length)
            hidden_states, positions = self.embed(input_ids, inputs_embeds, position_ids, past_length)
            source_positions = self._source_positions(encoder_hidden_states)
            inputs = MaskInputs("decoder", self.config, hidden_states, attention_mask, cache=cache)
            inputs.query_ids = inputs.key_ids = input_ids
            cross_inputs = MaskInputs("cross", self.config, hidden_states, encoder_attention_mask)
            cross_inputs.encoder_hidden_states, cross_inputs.cache = encoder_hidden_states, cache
            cross_inputs.query_ids, cross_inputs.key_ids = input_ids, encoder_input_ids
            cross_inputs.alignment = alignment or self.config.alignment
            if not INTERVAL_RULES.isdisjoint(names | cross_names):
                is_packed = self.is_packed(names | cross_names, kwargs)
                target, source = self._layouts(inputs, cross_inputs, encoder_hidden_states, is_packed)
            self_masks = build_attention_masks(names, inputs)
            cross_masks = build_attention_masks(cross_names, cross_inputs)
            if is_packed:
                hidden_states, encoder_hidden_states = target.pack(hidden_states), source.pack(encoder_hidden_states)
                positions, source_positions = target.pack_shared(positions), source.pack_shared(source_positions)
        self_masks |= self.beside_masks(positions, positions, self.config.position_aware_decoder)
        if self.content_bias is not None:
            self_masks["recurrent_terms"] = self._recurrent_terms(self_masks["recurrent"], hidden_states.dtype)
        cross_masks |= self.beside_masks(positions, source_positions, self.config.position_aware_cross)
        for layer in self.layers:
            hidden_states = layer(hidden_states, self_masks, encoder_hidden_states, cross_masks, cache=cache, **kwargs)
        hidden_states = self.normalize(hidden_states)
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=target.unpack(hidden_states) if is_packed else hidden_states, cache=cache
        )

    def _places(self, input_ids: torch.LongTensor | None, past_length: int) -> torch.LongTensor:
        """Positions in the sentences, `(B, T)`."""
        if input_ids is None or past_length:
            raise ValueError(
                "`reset_decoder_positions=True` needs the whole of `decoder_input_ids`, beside embeddings too; call "
                "the stock `generate()` with `use_cache=False`."
            )
        return places_in_sentences(target_sentence_ids(input_ids, self.config))

    def _recurrent_terms(self, plan: Any, dtype: torch.dtype) -> RecurrentTerms:
        """What the layers of recurrent attention share; no distances in document decoding, where masks are no plan."""
        assert self.content_bias is not None and self.distance_bias is not None
        if not isinstance(plan, RecurrentPlan):
            return RecurrentTerms(self.content_bias, self.distance_bias)
        steps = torch.arange(plan.plan.relative_max + 1, device=self.content_bias.device)
        distances = sinusoids(steps, self.config.d_model, dtype)
        distances = nn.functional.dropout(distances, self.config.dropout, self.training)
        return RecurrentTerms(self.content_bias, self.distance_bias, distances)

    def _layouts(
        self, inputs: MaskInputs, cross_inputs: MaskInputs, encoder_hidden_states: torch.Tensor, is_packed: bool
    ) -> tuple[TokenLayout, TokenLayout]:
        """Rows of the target and of the source, for rules that are intervals; the inputs receive them."""
        hidden_states = inputs.hidden_states
        ids, pad = inputs.query_ids, self.config.pad_token_id
        if inputs.attention_mask is None and ids is not None and ids.shape[1] > 1 and (ids[:, -1] == pad).any():
            raise ValueError(
                "`decoder_attention_mask` is needed by attention within intervals where targets are padded, got None "
                "and `decoder_input_ids` that end in padding. It is made from `labels` where the model gets them; the "
                "Trainer keeps them back with `label_smoothing_factor`: let the data collator add the mask."
            )
        target = TokenLayout.from_mask(inputs.attention_mask, hidden_states.shape[:2], hidden_states.device, is_packed)
        source = TokenLayout.from_mask(
            cross_inputs.attention_mask, encoder_hidden_states.shape[:2], hidden_states.device, is_packed
        )
        inputs.queries = inputs.keys = cross_inputs.queries = target
        cross_inputs.keys = source
        return target, source

    def _source_positions(
        self, encoder_hidden_states: torch.Tensor, position_ids: torch.LongTensor | None = None
    ) -> torch.Tensor | None:
        """Sinusoids of source states `(B, S, d_model)`, where cross-attention reads them; from 0 by default."""
        if not self.config.position_aware_cross:
            return None
        if position_ids is None:
            position_ids = torch.arange(encoder_hidden_states.shape[1], device=encoder_hidden_states.device)[None]
        return sinusoids(position_ids, self.config.d_model, encoder_hidden_states.dtype)

    def project_source(
        self, encoder_hidden_states: torch.Tensor, position_ids: torch.LongTensor | None = None
    ) -> torch.Tensor:
        """
        Keys and values of the source in all layers, for decoding.

        Args:
            encoder_hidden_states (`torch.Tensor` of shape `(B, S, d_model)`): Source states.
            position_ids (`torch.LongTensor` of shape `(B, S)`, *optional*): Their positions; from 0 by default.

        Returns:
            `torch.Tensor` of shape `(2, key sets, B, H, S, D)`: those of all layers, then those of the second
            attention of layers with a gate.
        """
        positions = self._source_positions(encoder_hidden_states, position_ids)
        key_sets = sorted(
            (heads for layer in self.layers for heads in layer.encoder_attn.key_sets),
            key=lambda heads: heads.layer_idx,
        )
        return torch.stack([heads.project_source(encoder_hidden_states, positions) for heads in key_sets], dim=1)


# the decoder has the table of the encoder, whether or not they share embeddings
_ONE_RELATIVE_TABLE = {"decoder.relative_table.weight": "encoder.relative_table.weight"}


class DocMTModel(DocMTPreTrainedModel):
    """Encoder and decoder without the output layer."""

    _tied_weights_keys = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }

    def __init__(self, config: DocMTConfig):
        super().__init__(config)
        self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = DocMTEncoder(config)
        self.decoder = DocMTDecoder(config)
        if config.relative_distances is not None:
            self._tied_weights_keys = {**self._tied_weights_keys, **_ONE_RELATIVE_TABLE}
        self.post_init()

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Parameters that are others, by name: embeddings as configured, and always the one table of distances."""
        tied = super().get_expanded_tied_weights_keys(all_submodels)
        return tied if self.config.relative_distances is None else {**tied, **_ONE_RELATIVE_TABLE}

    def get_input_embeddings(self) -> nn.Embedding:
        return self.shared

    def set_input_embeddings(self, value: nn.Embedding):
        self.shared = self.encoder.embed_tokens = self.decoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        decoder_position_ids: torch.LongTensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: EncoderDecoderCache | SearchCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        encoder_input_ids: torch.LongTensor | None = None,
        alignment: str | None = None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        """Arguments as in [`DocMTForConditionalGeneration.forward`], without the labels."""
        if isinstance(cache, SearchCache):
            encoded = BaseModelOutput()  # the cache holds the source
        elif encoder_outputs is None:
            encoded = self.encoder(
                input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        else:
            encoded = BaseModelOutput(*encoder_outputs) if isinstance(encoder_outputs, tuple) else encoder_outputs
        decoder_outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            position_ids=decoder_position_ids,
            encoder_input_ids=input_ids if encoder_input_ids is None else encoder_input_ids,
            alignment=alignment or (self.config.training_alignment if self.training else self.config.alignment),
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            cache=decoder_outputs.cache,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )


class DocMTForConditionalGeneration(DocMTPreTrainedModel, DocumentGenerationMixin, GenerationMixin):
    """The translation model: encoder, decoder and output layer, with document decoding in `generate()`."""

    _tied_weights_keys = {"lm_head.weight": "model.shared.weight"}
    final_logits_bias: torch.Tensor

    def __init__(self, config: DocMTConfig):
        super().__init__(config)
        self.model = DocMTModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.use_final_logits_bias:
            self.register_buffer("final_logits_bias", torch.zeros(1, config.vocab_size))
        self.generation_config = self.default_generation_config(config)
        self.post_init()

    @staticmethod
    def default_generation_config(config: DocMTConfig) -> GenerationConfig:
        """
        The decoding mode of the system and the ids of the vocabulary.

        A fresh object: one that Transformers derives from the model's configuration loses our fields on loading.
        """
        ids = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
        return GenerationConfig(decoding=config.default_decoding, **{name: getattr(config, name) for name in ids})

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Embedding:
        """Resize embeddings, output layer and output bias, see `PreTrainedModel.resize_token_embeddings`."""
        embeddings = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        if self.config.use_final_logits_bias:
            missing = embeddings.weight.shape[0] - self.final_logits_bias.shape[-1]
            self.final_logits_bias = nn.functional.pad(self.final_logits_bias, (0, missing))
        return embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        decoder_position_ids: torch.LongTensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        cache: EncoderDecoderCache | SearchCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: int | torch.Tensor | None = None,
        encoder_input_ids: torch.LongTensor | None = None,
        alignment: str | None = None,
        logits_at: torch.BoolTensor | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        r"""
        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, source_length)`):
                Formatted source ids, see `format_sequence`. Systems that know sentences read them off the ids, so give
                these beside `encoder_outputs` too.
            attention_mask (`torch.Tensor` of shape `(batch_size, source_length)`, *optional*):
                1 at tokens, 0 at padding, which stands on the right.
            decoder_input_ids (`torch.LongTensor` of shape `(batch_size, target_length)`, *optional*):
                Target shifted to the right; made from `labels` where missing.
            decoder_attention_mask (`torch.Tensor` of shape `(batch_size, past_length + target_length)`, *optional*):
                1 at tokens, 0 at padding and holes, the cached positions included.
            decoder_position_ids (`torch.LongTensor` of shape `(batch_size, target_length)`, *optional*):
                Positions of the decoder input, from 0.
            encoder_outputs (`BaseModelOutput`, *optional*): Source states, in place of running the encoder.
            cache (`EncoderDecoderCache` or `SearchCache`, *optional*): Keys and values of earlier steps.
            inputs_embeds, decoder_inputs_embeds (`torch.Tensor`, *optional*):
                Unscaled embeddings, in place of ids; systems that know sentences need the ids too.
            labels (`torch.LongTensor` of shape `(batch_size, target_length)`, *optional*):
                Target ids, -100 at padding.
            use_cache (`bool`, *optional*):
                Whether to return a cache; off while there are labels. Attention within intervals returns none: its
                cache is that of document decoding.
            num_items_in_batch (`int` or `torch.Tensor`, *optional*):
                Target tokens by which the summed loss is divided, over all accumulated batches.
            encoder_input_ids (`torch.LongTensor` of shape `(batch_size, source_length)`, *optional*):
                Source ids beside `encoder_outputs`, where `input_ids` cannot be given.
            alignment (`str`, *optional*):
                Centre of the windows of cross-attention. By default `config.training_alignment` in training and with
                labels, else `config.alignment`.
            logits_at (`torch.BoolTensor` of shape `(batch_size, target_length)`, *optional*):
                Where logits are computed; everywhere by default. In training that is `labels != -100`: padding would
                cost as much as tokens in the output layer.

        Returns:
            `Seq2SeqLMOutput` with logits of shape `(batch_size, target_length, vocab_size)`, or, with `logits_at`, of
            shape `(places, vocab_size)`, row by row of the batch.
        """
        if labels is not None:
            if logits_at is not None and not torch.equal(logits_at, labels != -100):
                raise ValueError("With `labels`, `logits_at` must be `labels != -100`: the loss needs these logits.")
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
            if decoder_attention_mask is None and self.config.has_intervals:
                # up to the last label: what follows is padding
                is_label = (labels != -100).long()
                decoder_attention_mask = is_label.flip(-1).cumsum(-1).clamp(max=1).flip(-1)
            alignment = alignment or self.config.training_alignment
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            decoder_position_ids=decoder_position_ids,
            encoder_outputs=encoder_outputs,
            cache=cache,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            encoder_input_ids=encoder_input_ids,
            alignment=alignment,
            **kwargs,
        )
        hidden_states = outputs.last_hidden_state
        logits = self.lm_head(hidden_states if logits_at is None else states_at(hidden_states, logits_at))
        if self.config.use_final_logits_bias:
            logits = logits + self.final_logits_bias
        loss = None
        if labels is not None:
            loss = translation_loss(logits, labels, self.config, num_items_in_batch=num_items_in_batch)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            cache=outputs.cache,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
        )

    def prepare_decoder_input_ids_from_labels(self, labels: torch.LongTensor) -> torch.LongTensor:
        """Shift labels `(B, T)` to the right, behind the decoder start token."""
        start = labels.new_full((labels.shape[0], 1), self.config.decoder_start_token_id)
        shifted = torch.cat((start, labels[:, :-1]), dim=1)
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id)


def _files_shipped_with_the_checkpoint():
    """Never called: `save_pretrained` finds the files of a checkpoint by the relative imports in the source text."""
    from .pipeline_docmt import DocumentTranslationPipeline

    return DocumentTranslationPipeline


DocMTModel.register_for_auto_class("AutoModel")
DocMTForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
