"""
Models of all kinds of attention once more, from their weights and the equations alone: one sequence, every pair.

Tests compare the package with it. It shares no code with the package: who sees whom, sentences, positions, distances
and gates are worked out here.
"""

import math

import torch
from decoding_models import translate
from torch import nn

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.formatting_docmt import format_sequence


PAD, EOS, SEP, SOS, FIRST_INDEXED = 1, 3, 4, 6, 10


def small_model(system: str, *, seed: int = 0, **changes) -> DocMTForConditionalGeneration:
    """A random model of 40 tokens in double precision; no parameter is 0, biases and norms included."""
    settings = {
        "vocab_size": 40,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "num_indexed_separators": 12,
        "training_alignment": "one2one",
        "alignment": "one2one",
        "max_part_tokens": None,
        **changes,
    }
    torch.manual_seed(seed)
    model = DocMTForConditionalGeneration(DocMTConfig.from_system(system, **settings)).eval().double()
    for parameter in model.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model


class PlainModel:
    """
    Logits of a model, with one explicit matrix of visible pairs and of relative vectors for each attention.

    Cross-attention within windows follows the alignment `"one2one"`.

    Args:
        model (`DocMTForConditionalGeneration`): Whose parameters are used; gradients reach them.
    """

    def __init__(self, model: DocMTForConditionalGeneration):
        self.config = model.config
        # a shared parameter under each of its names
        self.weights = dict(model.named_parameters(remove_duplicate=False))
        self.bias = model.final_logits_bias[0] if self.config.use_final_logits_bias else 0.0

    def logits(self, source: list[int], inputs: list[int]) -> torch.Tensor:
        """Logits `(T, V)` of T decoder inputs."""
        return self.decode(inputs, source, self.encode(source)) @ self.weights["lm_head.weight"].T + self.bias

    def encode(self, source: list[int], first_position: int = 0) -> torch.Tensor:
        """Source states `(S, d_model)`."""
        states, positions = self._embed("model.encoder", source, first_position)
        for layer in range(self.config.encoder_layers):
            name = f"model.encoder.layers.{layer}"

            def attend(queries, name=f"{name}.self_attn", layer=layer):
                return self._attention(
                    name, "encoder", layer, (queries, positions, source), (queries, positions, source)
                )

            states = self._sublayer(f"{name}.self_attn_layer_norm", states, attend)
            states = self._feed_forward(name, states)
        return self._norm("model.encoder.layer_norm", states) if self.config.normalize_before else states

    def decode(self, inputs: list[int], source: list[int], memory: torch.Tensor) -> torch.Tensor:
        """Target states `(T, d_model)`."""
        states, positions = self._embed("model.decoder", inputs)
        keys = (memory, sinusoids(range(len(source)), self.config.d_model), source)
        for layer in range(self.config.decoder_layers):
            name = f"model.decoder.layers.{layer}"

            def attend(queries, name=f"{name}.self_attn", layer=layer):
                return self._attention(
                    name, "decoder", layer, (queries, positions, inputs), (queries, positions, inputs)
                )

            def look_at_source(queries, name=f"{name}.encoder_attn", layer=layer):
                return self._attention(name, "cross", layer, (queries, positions, inputs), keys)

            states = self._sublayer(f"{name}.self_attn_layer_norm", states, attend)
            states = self._sublayer(f"{name}.encoder_attn_layer_norm", states, look_at_source)
            states = self._feed_forward(name, states)
        return self._norm("model.decoder.layer_norm", states) if self.config.normalize_before else states

    def _attention(self, name: str, place: str, layer: int, queries: tuple, keys: tuple) -> torch.Tensor:
        """Queries and keys are states, their sinusoids, and ids."""
        config = self.config
        kind = config.cross_attention if place == "cross" else getattr(config, f"{place}_self_attention")
        num_layers = config.encoder_layers if place == "encoder" else config.decoder_layers
        if kind == "long_short_term":
            views = [self._heads(name, place, rule, queries, keys) for rule in ("sentence", "dense")]
            return self._linear(f"{name}.out_proj", torch.cat(views, dim=-1))
        near = self._linear(f"{name}.out_proj", self._heads(name, place, kind, queries, keys))
        if kind != "sentence" or layer < num_layers - config.global_layers:
            return near
        other = f"{name}.global_heads"
        far = self._linear(f"{other}.out_proj", self._heads(other, place, "dense", queries, keys))
        gate = 1 / (1 + torch.exp(-self._linear(f"{name}.gate", torch.cat((near, far), dim=-1))))
        return gate * near + (1 - gate) * far

    def _heads(self, name: str, place: str, rule: str, queries: tuple, keys: tuple) -> torch.Tensor:
        config = self.config
        (query_states, query_positions, query_ids), (key_states, key_positions, key_ids) = queries, keys
        value = self._linear(f"{name}.v_proj", key_states)
        if getattr(config, f"position_aware_{place}"):
            query_states, key_states = query_states + query_positions, key_states + key_positions
        query, key = self._linear(f"{name}.q_proj", query_states), self._linear(f"{name}.k_proj", key_states)
        visible = torch.tensor(visible_pairs(config, place, rule, query_ids, key_ids))
        size = config.d_model // (
            config.encoder_attention_heads if place == "encoder" else config.decoder_attention_heads
        )
        heads = []
        for head in range(config.d_model // size):
            part = slice(head * size, (head + 1) * size)
            logits = query[:, part] @ key[:, part].T
            vectors = self._distance_vectors(name, place, head, len(query), len(key))  # (I, J, D)
            if vectors is not None:
                logits = logits + torch.einsum("id,ijd->ij", query[:, part], vectors)
            weights = (logits / math.sqrt(size)).masked_fill(~visible, -math.inf).softmax(dim=-1)
            heads.append(weights @ value[:, part])
        return torch.cat(heads, dim=-1)

    def _distance_vectors(self, name: str, place: str, head: int, num_queries: int, num_keys: int):
        distances = torch.arange(num_queries)[:, None] - torch.arange(num_keys)
        if self.config.relative_distances is not None and place != "cross":
            largest = self.config.relative_distances
            # one table, which is that of the encoder
            return self.weights["model.encoder.relative_table.weight"][distances.clamp(-largest, largest) + largest]
        table = self.weights.get(f"{name}.relative_keys")
        if table is None:
            return None
        zero = 0 if place == "decoder" else self.config.window_size
        # pairs outside of the windows are hidden, whatever they read
        return table[(distances + zero).clamp(0, len(table) - 1), head]

    def _embed(self, stack: str, ids: list[int], first_position: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        size = self.config.d_model
        positions = sinusoids(range(first_position, first_position + len(ids)), size)
        states = math.sqrt(size) * self.weights[f"{stack}.embed_tokens.weight"][ids]
        return (states + positions if self.config.position_encoding == "sinusoidal" else states), positions

    def _sublayer(self, norm: str, states: torch.Tensor, compute) -> torch.Tensor:
        if self.config.normalize_before:
            return states + compute(self._norm(norm, states))
        return self._norm(norm, states + compute(states))

    def _feed_forward(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return self._sublayer(
            f"{name}.final_layer_norm",
            states,
            lambda x: self._linear(f"{name}.fc2", self._linear(f"{name}.fc1", x).clamp(min=0)),
        )

    def _linear(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(
            states, (self.config.d_model,), self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        )


def visible_pairs(config, place: str, rule: str, query_ids: list[int], key_ids: list[int]) -> list[list[bool]]:
    """Whether query i sees key j: one row a query."""
    query_sentences = sentences_of(query_ids, is_source=place == "encoder")
    key_sentences = sentences_of(key_ids, is_source=place != "decoder")
    if place == "cross":
        # a target sentence more than there are looks at the last one of the source
        query_sentences = [min(number, key_sentences[-1]) for number in query_sentences]

    def sees(i: int, j: int) -> bool:
        if place == "decoder" and j > i:
            return False
        if rule == "window":
            return abs(j - (min(i, len(key_ids) - 1) if place == "cross" else i)) <= config.window_size
        return rule == "dense" or query_sentences[i] == key_sentences[j]

    return [[sees(i, j) for j in range(len(key_ids))] for i in range(len(query_ids))]


def sentences_of(ids: list[int], *, is_source: bool) -> list[int]:
    """A separator closes its sentence in the source, and opens the next one for the decoder, which reads it."""
    numbers, number = [], 0
    for token in ids:
        is_separator = token == SEP or FIRST_INDEXED <= token < FIRST_INDEXED + 12
        number += is_separator and not is_source
        numbers.append(number)
        number += is_separator and is_source
    return numbers


def sinusoids(positions, size: int) -> torch.Tensor:
    """`sin(p w_t)` in the first half, `cos(p w_t)` in the second, `w_t = 10000^(-2t / size)`."""
    rows = []
    for position in positions:
        angles = [position / 10000 ** (2 * t / size) for t in range(size // 2)]
        rows.append([math.sin(a) for a in angles] + [math.cos(a) for a in angles])
    return torch.tensor(rows, dtype=torch.float64)


def padded(rows: list, value: int) -> torch.Tensor:
    """Rows of different lengths as a tensor, padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def ragged(sources: list, targets: list) -> dict[str, torch.Tensor]:
    """A batch of formatted documents."""
    mask = padded([[1] * len(row) for row in sources], 0)
    return {"input_ids": padded(sources, PAD), "attention_mask": mask, "labels": padded(targets, -100)}


# how the rows of a batch lie in memory, and who computes: backend, and options of `forward`
PATHS = {
    "packed": ("sdpa", {}),
    # where somebody looks, rows keep their padding
    "padded": ("sdpa", {"output_hidden_states": True}),
    "eager": ("eager", {}),
}


def assert_equals_plain_model(model, sources: list, targets: list, path: str, tolerance: float = 1e-10) -> None:
    """Logits and gradients of all parameters, of a ragged batch, are those of the plain model row by row."""
    backend, options = PATHS[path]
    model.set_attn_implementation(backend)
    plain, start = PlainModel(model), model.config.decoder_start_token_id
    batch = model(**ragged(sources, targets), **options).logits
    results = []
    for rows in (
        [batch[index, : len(target)] for index, target in enumerate(targets)],
        [plain.logits(*pair) for pair in zip(sources, [[start, *row[:-1]] for row in targets], strict=True)],
    ):
        pulls = torch.Generator().manual_seed(5)
        total = sum((row * torch.randn(row.shape, generator=pulls, dtype=row.dtype)).sum() for row in rows)
        results.append([*rows, *torch.autograd.grad(total, list(model.parameters()))])
    largest = max(tensor.abs().max() for tensor in results[1])
    for fast, slow in zip(*results, strict=True):
        # sums that cancel, as those of the bias of keys, leave rounding errors of what they sum
        assert (fast - slow).abs().max() <= tolerance * max(slow.abs().max(), 0.1 * largest)


def decoded(model, document: list, **options) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Logits of every step in which one document is translated, and those of the plain model for the same target.

    Greedy decoding in one part, `(T, V)` each.
    """
    steps: list = []
    hook = model.register_forward_hook(lambda *call: steps.append(call[-1].logits[0, -1]))
    with torch.no_grad():
        output = translate(model, [document], num_beams=1, **options)
        hook.remove()
        source = format_sequence(document, model.config)
        target = format_sequence(output.sentences[0], model.config, source=False)
        expected = PlainModel(model).logits(source, [model.config.decoder_start_token_id, *target[:-1]])
    return torch.stack(steps), expected
