"""
The system `global-local` once more, as its equations go: the encoder over sentences, then the decoder, sentence after
sentence, whose memory is what an earlier sentence left behind.

Tests compare the parallel passes of the package with it. As the rest of [`PlainModel`], it shares no code with them.
"""

import math

import torch
from plain_models import PlainModel, ragged, sentences_of, sinusoids


class GlobalLocalModel(PlainModel):
    """
    Logits of one document, with a loop over sentences, and a vector gamma for each pair of words.

    The memory is what came into a layer, before the norm of a pre-norm layer: no gradient flows into it.

    Args:
        model (`DocMTForConditionalGeneration`): Whose parameters are used; gradients reach them.
    """

    def __init__(self, model):
        super().__init__(model)
        # of the global block, and of each layer of a recurrent decoder: by head, and of the latter by sentence
        self.global_weights: list[torch.Tensor] = []
        self.recurrent_weights: dict[str, list[list[torch.Tensor]]] = {}

    # encoder

    def encode(self, source: list[int], first_position: int = 0) -> torch.Tensor:
        """Source states `(S, d_model)`."""
        states = self.encode_locally(source)
        if self.config.global_block != "none":
            states = self._global_block(states, sentences_of(source, is_source=True))
        has_norm = self.config.normalize_before or self.config.global_block != "none"
        return self._norm("model.encoder.layer_norm", states) if has_norm else states

    def encode_locally(self, source: list[int]) -> torch.Tensor:
        """States `(S, d_model)` of the top local layer."""
        states, positions = self._embed("model.encoder", source)
        for layer in range(self.config.encoder_layers):
            name = f"model.encoder.layers.{layer}"

            def attend(queries, name=f"{name}.self_attn", layer=layer):
                keys = (queries, positions, source)
                return self._attention(name, "encoder", layer, keys, keys)

            states = self._sublayer(f"{name}.self_attn_layer_norm", states, attend)
            states = self._feed_forward(name, states)
        return states

    def _global_block(self, local: torch.Tensor, sentences: list[int]) -> torch.Tensor:
        if self.config.skip_global_if_single and max(sentences) == 0:
            return local
        name = "model.encoder.global_block"
        if self.config.global_block == "attention":
            states = self._segment_attention(f"{name}.self_attn", local, sentences)
        else:
            states = self._sublayer(
                f"{name}.block.self_attn_layer_norm",
                local,
                lambda x: self._segment_attention(f"{name}.block.self_attn", x, sentences),
            )
            states = self._feed_forward(f"{name}.block", states)
        if not self.config.global_gate:
            return states
        gate = 1 / (1 + torch.exp(-self._linear(f"{name}.fusion.gate", torch.cat((local, states), dim=-1))))
        return (1 - gate) * local + gate * states

    def _segment_attention(self, name: str, states: torch.Tensor, sentences: list[int]) -> torch.Tensor:
        """`logit = q . (key + gamma^K_{k - kappa})`, `z = sum alpha (value + gamma^V_{k - kappa})`, word by word."""
        query, key, value = (self._linear(f"{name}.{kind}_proj", states) for kind in "qkv")
        most = self.config.max_segment_distance
        size = self.config.d_model // self.config.encoder_attention_heads
        heads = []
        self.global_weights = []
        for head in range(self.config.encoder_attention_heads):
            part = slice(head * size, (head + 1) * size)
            outputs, rows = [], []
            for i, k in enumerate(sentences):
                index = [most + max(-most, min(most, k - kappa)) for kappa in sentences]
                gamma_key, gamma_value = (
                    torch.stack([self.weights[f"{name}.segment_{kind}"][row] for row in index])
                    for kind in ("keys", "values")
                )
                alpha = ((key[:, part] + gamma_key) @ query[i, part] / math.sqrt(size)).softmax(dim=0)
                outputs.append(alpha @ (value[:, part] + gamma_value))
                rows.append(alpha)
            heads.append(torch.stack(outputs))
            self.global_weights.append(torch.stack(rows))
        return self._linear(f"{name}.out_proj", torch.cat(heads, dim=-1))

    # decoder

    def decode(self, inputs: list[int], source: list[int], memory: torch.Tensor) -> torch.Tensor:
        """Target states `(T, d_model)`."""
        if self.config.decoder_self_attention != "recurrent":
            return super().decode(inputs, source, memory)
        sentences = sentences_of(inputs, is_source=False)
        earlier: list[list[torch.Tensor]] = [[] for _ in range(self.config.decoder_layers)]
        self.recurrent_weights = {}
        done = [
            self._decode_sentence([i for i, s in enumerate(sentences) if s == k], k, inputs, source, memory, earlier)
            for k in range(sentences[-1] + 1)
        ]
        states = torch.cat(done)
        return self._norm("model.decoder.layer_norm", states) if self.config.normalize_before else states

    def _decode_sentence(
        self, rows: list[int], sentence: int, inputs: list[int], source: list[int], memory: torch.Tensor, earlier: list
    ) -> torch.Tensor:
        states, _ = self._embed("model.decoder", [inputs[i] for i in rows])
        keys = memory
        if self.config.cross_attention == "sentence":
            numbers = sentences_of(source, is_source=True)
            # a target sentence more than there are looks at the last one of the source
            keys = memory[[j for j, s in enumerate(numbers) if s == min(sentence, numbers[-1])]]
        for layer in range(self.config.decoder_layers):
            name = f"model.decoder.layers.{layer}"
            states = self._sublayer(
                f"{name}.self_attn_layer_norm",
                states,
                lambda x, before=states, name=f"{name}.self_attn", layer=layer: self._recurrent_attention(
                    name, x, before, earlier[layer]
                ),
            )
            states = self._sublayer(
                f"{name}.encoder_attn_layer_norm",
                states,
                lambda x, name=f"{name}.encoder_attn": self._look_at(name, x, keys),
            )
            states = self._feed_forward(name, states)
        return states

    def _recurrent_attention(
        self, name: str, states: torch.Tensor, before: torch.Tensor, earlier: list[torch.Tensor]
    ) -> torch.Tensor:
        """
        Keys are made of the states that earlier sentences left in `earlier`, held fixed, and then of the own ones.

        `before` are the own ones as they came into the layer, which is what is left behind.
        """
        memory = earlier[-self.config.memory_sentences :]
        if self.config.normalize_before:
            memory = [self._norm(f"{name}_layer_norm", fixed) for fixed in memory]
        everything = torch.cat([*memory, states])
        earlier.append(before.detach())
        query = self._linear(f"{name}.q_proj", states)
        key, value = (self._linear(f"{name}.{kind}_proj", everything) for kind in "kv")
        first = len(everything) - len(states)
        u, v = self.weights["model.decoder.content_bias"], self.weights["model.decoder.distance_bias"]
        vectors = sinusoids(range(len(everything)), self.config.d_model).to(states)
        projected = vectors @ self.weights[f"{name}.distance_proj.weight"].T  # one row a distance
        size = len(u[0])
        heads, weights = [], []
        for head in range(self.config.decoder_attention_heads):
            part = slice(head * size, (head + 1) * size)
            outputs, rows = [], []
            for a in range(len(states)):
                seen = range(first + a + 1)
                distances = [first + a - j for j in seen]
                logits = key[: len(seen), part] @ (query[a, part] + u[head])
                logits = logits + projected[distances][:, part] @ (query[a, part] + v[head])
                alpha = (logits / math.sqrt(size)).softmax(dim=0)
                outputs.append(alpha @ value[: len(seen), part])
                rows.append(torch.nn.functional.pad(alpha, (0, len(states) - a - 1)))
            heads.append(torch.stack(outputs))
            weights.append(torch.stack(rows))
        self.recurrent_weights.setdefault(name, []).append(weights)
        return self._linear(f"{name}.out_proj", torch.cat(heads, dim=-1))

    def _look_at(self, name: str, states: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        query = self._linear(f"{name}.q_proj", states)
        key, value = (self._linear(f"{name}.{kind}_proj", source) for kind in "kv")
        size = self.config.d_model // self.config.decoder_attention_heads
        parts = [slice(start, start + size) for start in range(0, self.config.d_model, size)]
        heads = [(query[:, p] @ key[:, p].T / math.sqrt(size)).softmax(dim=-1) @ value[:, p] for p in parts]
        return self._linear(f"{name}.out_proj", torch.cat(heads, dim=-1))

    # both

    def _embed(self, stack: str, ids: list[int], first_position: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        config, is_source = self.config, stack == "model.encoder"
        sentences = sentences_of(ids, is_source=is_source)
        words = self.weights[f"{stack}.embed_tokens.weight"][ids]
        if is_source and config.segment_embeddings is not None:
            last = config.segment_embeddings - 1
            numbers = [min(number, last) for number in sentences]
            words = words + self.weights["model.encoder.embed_segments.weight"][numbers]
        places = list(range(len(ids)))
        if config.reset_encoder_positions if is_source else config.reset_decoder_positions:
            places = [place - sentences.index(sentences[place]) for place in places]
        positions = sinusoids(places, config.d_model).to(words)
        is_recurrent = not is_source and config.decoder_self_attention == "recurrent"
        states = math.sqrt(config.d_model) * words
        return (states if is_recurrent else states + positions), positions

    def _linear(self, name: str, states: torch.Tensor) -> torch.Tensor:
        product = states @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return product if bias is None else product + bias


def loss_of(logits: list[torch.Tensor], targets: list[list[int]]) -> torch.Tensor:
    """Sum of the negative log-probabilities of the targets of a batch, in the precision of the logits."""
    return sum(
        torch.nn.functional.cross_entropy(row, torch.tensor(target), reduction="sum")
        for row, target in zip(logits, targets, strict=True)
    )


def assert_equals_recurrence(
    model, sources: list, targets: list, paths: dict[str, tuple[str, dict]], tolerance: float, reference=None
) -> None:
    """
    Loss, logits and gradients of all parameters, of a ragged batch, are those of the recurrence document by document.

    Args:
        model (`DocMTForConditionalGeneration`): The model.
        sources, targets (`list`): Formatted documents.
        paths (`dict`): Of `PATHS`.
        tolerance (`float`): Relative to the largest entry of a tensor.
        reference (`DocMTForConditionalGeneration`, *optional*): The same model in another precision.
    """
    reference = model if reference is None else reference
    plain, start = GlobalLocalModel(reference), model.config.decoder_start_token_id
    pairs = zip(sources, targets, strict=True)
    expected = _with_gradients(
        [plain.logits(source, [start, *target[:-1]]) for source, target in pairs], targets, reference
    )
    largest = max(tensor.abs().max() for tensor in expected if tensor is not None)
    for path, (backend, options) in paths.items():
        model.set_attn_implementation(backend)
        batch = model(**ragged(sources, targets), **options).logits
        found = _with_gradients([batch[index, : len(target)] for index, target in enumerate(targets)], targets, model)
        for fast, slow in zip(found, expected, strict=True):
            if fast is None or slow is None:
                # what no document uses
                assert (fast is None or not fast.any()) and (slow is None or not slow.any()), path
                continue
            # sums that cancel, as those of the bias of keys, leave rounding errors of what they sum
            assert (fast - slow).abs().max() <= tolerance * max(slow.abs().max(), 0.1 * largest), path


def _with_gradients(logits: list[torch.Tensor], targets: list, model) -> list[torch.Tensor | None]:
    loss = loss_of(logits, targets)
    return [*logits, loss, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)]
