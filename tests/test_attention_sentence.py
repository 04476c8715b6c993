"""Sentence attention and its gate (G-Transformer): a plain reference, what reaches what, and what it reduces to."""

import itertools

import pytest
import torch
from plain_models import (
    EOS,
    PATHS,
    SEP,
    SOS,
    PlainModel,
    assert_equals_plain_model,
    decoded,
    padded,
    ragged,
    sentences_of,
    small_model,
    visible_pairs,
)
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.attention_sentence import GatedSentenceAttention, SentenceAttention
from modeling_docmt.cache_docmt import DocumentCache
from modeling_docmt.masking_docmt import MaskInputs, build_attention_masks
from modeling_docmt.packing_docmt import TokenLayout


CPU = torch.device("cpu")
PLACES = ("encoder_self_attention", "decoder_self_attention", "cross_attention")
# sentences of one token, an empty one, and in the second target two more than in its source
SOURCES = [[22, 23, SEP, 24, 25, 26, SEP, SEP, 27, EOS], [28, EOS], [22, 23, 24, 25, SEP, 30, EOS]]
TARGETS = [[30, SEP, 31, 32, SEP, SEP, 33, EOS], [30, SEP, 31, SEP, 32, EOS], [33, 34, SEP, 35, EOS]]


def model_of(**changes) -> DocMTForConditionalGeneration:
    return small_model("g-transformer", **{"global_layers": 1, **changes})


def kinds(*names: str) -> dict:
    """Kinds of attention of encoder, decoder and cross-attention."""
    return dict(zip(PLACES, names, strict=True))


# the computation

VARIANTS = {
    "no gates": {"global_layers": 0},
    "top layer": {},
    "all layers": {"global_layers": 2},
    "more gates than layers": {"global_layers": 5},
    "unlike stacks": {"encoder_layers": 1, "decoder_layers": 3, "global_layers": 2, "encoder_attention_heads": 4},
    "sos": {"use_sos": True, "indexed_separators": True, "decoder_start_token_id": SOS},
    "sentences in the encoder alone": kinds("sentence", "dense", "dense"),
    "sentences in the decoder alone": kinds("dense", "sentence", "dense"),
    "sentences in the source alone": kinds("dense", "dense", "sentence"),
    "beside windows": kinds("sentence", "window", "sentence") | {"window_size": 1},
    "between windows": kinds("window", "sentence", "window") | {"window_size": 2},
    "beside long-short term": kinds("long_short_term", "sentence", "sentence"),
}


def documents_of(model) -> tuple[list, list]:
    if not model.config.use_sos:
        return SOURCES, TARGETS

    def indexed(row: list) -> list:
        numbers = itertools.count(10)
        return [next(numbers) if token == SEP else token for token in row]

    return [[SOS, *indexed(row)] for row in SOURCES], [indexed(row) for row in TARGETS]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_and_gradients_equal_the_plain_model(variant, path):
    """
    E1, for whole models.

    Fails if a separator is in the wrong sentence, if a surplus target sentence looks elsewhere than at the last one of
    the source, if the gate gives the parts each other's share, or if the global part is not causal.
    """
    model = model_of(**VARIANTS[variant])
    assert_equals_plain_model(model, *documents_of(model), path)


@pytest.mark.parametrize("path", PATHS)
def test_pre_norm_layers_equal_the_plain_model(path):
    assert_equals_plain_model(model_of(normalize_before=True), SOURCES, TARGETS, path)


def attention(place: str, backend: str = "sdpa", **changes) -> torch.nn.Module:
    settings = {"d_model": 8, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_indexed_separators": 12}
    config = DocMTConfig.from_system("g-transformer", **settings | changes)
    config._attn_implementation = backend
    torch.manual_seed(1)
    attention_class = GatedSentenceAttention if config.global_layers else SentenceAttention
    return attention_class(config, 2, config.encoder_layers - 1, place).double()


def masks_of(module, place: str, states: torch.Tensor, ids: list, key_ids: list | None = None) -> dict:
    """Masks of the layer for unpacked rows of ids; the keys are of `key_ids` in cross-attention."""
    layouts = []
    for rows in (ids, ids if key_ids is None else key_ids):
        mask = padded([[1] * len(row) for row in rows], 0)
        layouts.append(TokenLayout.from_mask(mask, mask.shape, CPU, is_packed=False))
    inputs = MaskInputs(place, module.config, states, queries=layouts[0], keys=layouts[1])
    inputs.query_ids, inputs.key_ids = padded(ids, 1), padded(ids if key_ids is None else key_ids, 1)
    return build_attention_masks(module.mask_names, inputs)


@pytest.mark.parametrize("bias", [0.0, 1.5, -300.0, 300.0])
def test_the_gate_mixes_element_by_element(bias):
    """
    `g * local + (1 - g) * global`, values and gradients; at the ends one part alone, exactly.

    Fails if g belongs to the other part, or if the two change places in what the gate reads.
    """
    module, states = attention("encoder"), torch.randn(1, 7, 8, dtype=torch.float64, requires_grad=True)
    torch.nn.init.constant_(module.gate.bias, bias)
    ids = [22, 23, SEP, 24, SEP, 25, EOS]
    masks = masks_of(module, "encoder", states, [ids])
    parts: list = []
    for heads in module.key_sets:
        heads.out_proj.register_forward_hook(lambda *call: parts.append(call[-1]))
    output = module(states, masks)[0][0]
    variables = [*parts, module.gate.weight, states]
    near, far = (part[0] for part in parts)
    rows = []
    for i in range(7):
        weights, both = module.gate.weight, torch.cat((near[i], far[i]))
        shares = [1 / (1 + torch.exp(-(weights[k] @ both + bias))) for k in range(8)]
        rows.append(torch.stack([g * near[i, k] + (1 - g) * far[i, k] for k, g in enumerate(shares)]))
    results, pull = [], torch.randn_like(output)
    for result in (output, torch.stack(rows)):
        results.append([result, *torch.autograd.grad((result * pull).sum(), variables, retain_graph=True)])
    for fast, plain in zip(*results, strict=True):
        assert (fast - plain).abs().max() <= 1e-12 * max(1, plain.abs().max())
    if abs(bias) > 10:
        assert torch.equal(output, near if bias > 0 else far)


# who sees whom


@pytest.mark.parametrize("place", ["encoder", "decoder", "cross"])
def test_the_mask_shows_one_sentence(place):
    """Fails if <eos>, the start token, or a separator is in a sentence of its own, or in its neighbour."""
    module = attention(place, global_layers=0)
    queries, keys = SOURCES, None
    if place != "encoder":
        queries = [[2, *row[:-1]] for row in TARGETS]
        keys = SOURCES if place == "cross" else None
    states = torch.zeros(len(queries), max(map(len, queries)), 8, dtype=torch.float64)
    plan = masks_of(module, place, states, queries, keys)["sentence"]
    others = keys or queries
    width = max(map(len, others))
    visible = plan.visible().view(len(queries), -1, len(queries), width)
    for row, ids in enumerate(queries):
        expected = visible_pairs(module.config, place, "sentence", ids, others[row])
        assert visible[row, : len(ids), row, : len(others[row])].tolist() == expected
        # no padding, no other document, and nothing for what is padding
        assert visible[row].sum() == sum(map(sum, expected))


def test_surplus_target_sentences_look_at_the_last_source_sentence():
    """Also where documents of a batch have more; fails if they see nothing, or the first sentence."""
    module = attention("cross", global_layers=0)
    targets, sources = [[2, 30, SEP, SEP, SEP, 31]] * 2, [[22, 23, SEP, 24, 25, EOS], [22, EOS]]
    plan = masks_of(module, "cross", torch.zeros(2, 6, 8), targets, sources)["sentence"]
    spans = list(zip(plan.lo.tolist(), plan.hi.tolist(), strict=True))
    assert spans[:6] == [(0, 2)] * 2 + [(3, 5)] * 4
    assert spans[6:] == [(6, 7)] * 6


def test_a_leading_sos_belongs_to_the_first_sentence():
    """Of the source, for both stacks; fails if the first sentence begins behind it."""
    model = model_of(use_sos=True, indexed_separators=True, decoder_start_token_id=SOS, global_layers=0)
    model.set_attn_implementation("eager")
    batch = ragged([[SOS, 22, 10, 23, 11, 24, EOS]], [[30, 10, 31, 11, 32, EOS]])
    outputs = model(**batch, output_attentions=True)
    for attentions, size in ((outputs.encoder_attentions, 3), (outputs.cross_attentions, 2)):
        looks_at_sos = attentions[0][0, :, :, 0] > 0
        assert looks_at_sos[:, :size].all() and not looks_at_sos[:, size:].any()


# INV-E1, E2


@pytest.mark.parametrize("path", PATHS)
def test_attention_within_one_sentence_is_full_attention(path):
    """INV-E1: fails if <eos> or the start token is alone."""
    model, dense = model_of(global_layers=0), small_model("concat-document", seed=1)
    dense.load_state_dict(model.state_dict())
    backend, options = PATHS[path]
    model.set_attn_implementation(backend)
    one_sentence = ragged([[22, 23, 24, EOS], [25, EOS]], [[30, EOS], [31, 32, 33, EOS]])
    is_token = one_sentence["labels"] != -100
    first, second = (m(**one_sentence, **o).logits[is_token] for m, o in ((model, options), (dense, {})))
    assert (first - second).abs().max() <= 1e-12
    more = ragged(SOURCES, TARGETS)
    assert (model(**more).logits - dense(**more).logits)[more["labels"] != -100].abs().max() > 1e-3


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({}, 9_452_544),
        ({"global_layers": 0}, 0),
        ({"global_layers": 9}, 3 * 9_452_544),
        (kinds("sentence", "dense", "dense"), 9_452_544 // 3),
    ],
)
def test_second_heads_and_gates_are_all_the_parameters_that_it_adds(changes, more):
    """INV-E2: six times four projections, and a gate of 2 d by d."""
    with torch.device("meta"):
        base, model = (
            DocMTForConditionalGeneration(DocMTConfig.from_system(name, vocab_size=1000, **settings))
            for name, settings in (("concat-document", {}), ("g-transformer", changes))
        )
    assert model.num_parameters() - base.num_parameters() == more


# INV-E3


def set_gates(model, bias: float) -> None:
    for name, parameter in model.named_parameters():
        if name.endswith("gate.bias"):
            torch.nn.init.constant_(parameter, bias)


def reached(model, source: list, inputs: list) -> tuple[list, list, list]:
    """Tokens that reach each source state and each target state: of the source, of the source, of the target."""
    embeddings: list = []
    hooks = [
        stack.embed_tokens.register_forward_hook(lambda *call: embeddings.append(call[-1]))
        for stack in (model.model.encoder, model.model.decoder)
    ]
    outputs = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([inputs]), use_cache=False)
    for hook in hooks:
        hook.remove()

    def found(states: torch.Tensor, embedding: torch.Tensor) -> list:
        return [
            set(
                torch.autograd.grad(row.square().sum(), embedding, retain_graph=True)[0][0]
                .any(-1)
                .nonzero()[:, 0]
                .tolist()
            )
            for row in states
        ]

    encoder_states, logits = outputs.encoder_last_hidden_state[0], outputs.logits[0]
    return found(encoder_states, embeddings[0]), found(logits, embeddings[0]), found(logits, embeddings[1])


@pytest.mark.parametrize("global_layers", [0, 1, 2])
@pytest.mark.parametrize("backend", ["sdpa", "eager"])
def test_with_closed_gates_nothing_of_other_sentences_reaches_a_state(backend, global_layers):
    """INV-E3: gradients are exactly zero, and not with open gates; fails if one place looks at all of the document."""
    model = model_of(global_layers=global_layers)
    model.set_attn_implementation(backend)
    source, inputs = SOURCES[0], [2, 30, SEP, 31, 32, SEP, SEP, 33, 34]
    source_sentences, target_sentences = sentences_of(source, is_source=True), sentences_of(inputs, is_source=False)
    # the state of a separator reaches its own sentence alone
    own_source = [{j for j, s in enumerate(source_sentences) if s == mine} for mine in source_sentences]
    aligned = [{j for j, s in enumerate(source_sentences) if s == mine} for mine in target_sentences]
    own_target = [
        {j for j, s in enumerate(target_sentences[: i + 1]) if s == mine} for i, mine in enumerate(target_sentences)
    ]
    set_gates(model, 1e4)
    assert reached(model, source, inputs) == (own_source, aligned, own_target)
    if global_layers:
        set_gates(model, 0.0)
        everything = set(range(len(source)))
        earlier = [set(range(i + 1)) for i in range(len(inputs))]
        assert reached(model, source, inputs) == ([everything] * 10, [everything] * 9, earlier)


@pytest.mark.parametrize("place", PLACES)
def test_an_open_gate_in_one_place_is_enough_to_reach_other_sentences(place):
    """Fails if the gate of one place is that of another."""
    model = model_of()
    set_gates(model, 1e4)
    module = {
        "encoder_self_attention": model.model.encoder.layers[1].self_attn,
        "decoder_self_attention": model.model.decoder.layers[1].self_attn,
        "cross_attention": model.model.decoder.layers[1].encoder_attn,
    }[place]
    torch.nn.init.zeros_(module.gate.bias)
    source, inputs = [22, SEP, 23, EOS], [2, 30, SEP, 31]
    of_source, of_target, of_inputs = reached(model, source, inputs)
    own = [{0, 1}] * 2 + [{2, 3}] * 2
    assert of_source == ([{0, 1, 2, 3}] * 4 if place == "encoder_self_attention" else own)
    if place == "decoder_self_attention":
        # what an earlier sentence has read of the source comes with it
        assert of_inputs == [{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}] and of_target == [{0, 1}] * 2 + [{0, 1, 2, 3}] * 2
    else:
        assert of_inputs == [{0}, {0, 1}, {2}, {2, 3}] and of_target == [{0, 1, 2, 3}] * 4


# weights


def test_weights_of_both_parts_are_returned():
    model = model_of()
    model.set_attn_implementation("eager")
    outputs = model(**ragged(SOURCES, TARGETS), output_attentions=True)
    # the lower layer has no gate
    for attentions, shape in (
        (outputs.encoder_attentions, (10, 10)),
        (outputs.decoder_attentions, (8, 8)),
        (outputs.cross_attentions, (8, 10)),
    ):
        assert [tuple(weights.shape) for weights in attentions] == [(3, 2, *shape), (3, 4, *shape)]
    near, far = outputs.encoder_attentions[1].split(2, dim=1)
    # the first sentence has three tokens, the document ten
    assert not near[0, :, :3, 3:].any() and near[0, :, :3, :3].all() and far[0].all()
    assert (near[0].sum(dim=-1) - 1).abs().max() <= 1e-12
    assert torch.equal(near[0, :, :3] > 0, outputs.encoder_attentions[0][0, :, :3] > 0)


@pytest.mark.parametrize("global_layers", [1, 2])
def test_weights_of_a_sentence_level_model_are_a_start(global_layers):
    """The fine-tuned variant: local attention is loaded, second heads and gates are what is missing, and all of it."""
    sentence_level, model = small_model("sentence-level", seed=1), model_of(global_layers=global_layers)
    missing, unexpected = model.load_state_dict(sentence_level.state_dict(), strict=False)
    own = {name for name, _ in model.named_parameters() if ".global_heads." in name or ".gate." in name}
    assert set(missing) == own and len(own) == 3 * global_layers * 10 and not unexpected
    # on a sentence by itself, closed gates leave the sentence-level model
    set_gates(model, 1e4)
    batch = ragged([[22, 23, 24, EOS], [25, EOS]], [[30, EOS], [31, 32, 33, EOS]])
    difference = model(**batch).logits - sentence_level(**batch).logits
    assert difference[batch["labels"] != -100].abs().max() <= 1e-12


@pytest.mark.parametrize("init_std", [None, 0.02])
def test_gates_that_start_nearly_closed_leave_the_sentence_level_model_in_each_sentence(init_std):
    """Fails if the bias has the sign of the gate of a global block, or misses one of the three places."""
    changes = {"init_std": init_std, "reset_encoder_positions": True, "reset_decoder_positions": True}
    model = model_of(global_layers=2, global_gate_bias=-30.0)
    config = DocMTConfig.from_dict({**model.config.to_dict(), **changes})
    model = DocMTForConditionalGeneration(config).double().eval()
    biases = [parameter for name, parameter in model.named_parameters() if name.endswith("gate.bias")]
    assert len(biases) == 6 and all((bias == 30).all() for bias in biases)
    plain = small_model("sentence-level")
    plain.load_state_dict(model.state_dict(), strict=False)
    ids = {"input_ids": [22, 23, SEP, 24, 25, 26, EOS], "decoder_input_ids": [2, 30, 31, SEP, 32]}
    found = model(**{name: torch.tensor([row]) for name, row in ids.items()}).logits[0]
    first = plain(input_ids=torch.tensor([ids["input_ids"][:3]]), decoder_input_ids=torch.tensor([[2, 30, 31]]))
    second = plain(input_ids=torch.tensor([ids["input_ids"][3:]]), decoder_input_ids=torch.tensor([[SEP, 32]]))
    assert (found - torch.cat((first.logits[0], second.logits[0]))).abs().max() <= 1e-9


# decoding

MIXTURES = {
    "sentences": {},
    "sentences in the decoder alone": kinds("dense", "sentence", "dense"),
    "sentences in the source alone": kinds("sentence", "dense", "sentence"),
    "sentences in the encoder alone": kinds("sentence", "dense", "dense"),
    "unlike stacks": {"encoder_layers": 1, "decoder_layers": 3},
}


@pytest.mark.parametrize("global_layers", [0, 1, 2, 7])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_the_cache_has_a_place_for_the_keys_of_every_layer_and_gate(mixture, global_layers):
    """Fails if two sets of keys share a place, or if a place is left over."""
    model = model_of(global_layers=global_layers, **MIXTURES[mixture])
    config = model.config
    cache = DocumentCache(config, 2, torch.float64, CPU)
    states = model.model.decoder.project_source(torch.randn(1, 5, 16).double())
    for place, name, held in (("decoder", "self_attn", cache.current), ("cross", "encoder_attn", cache.source.states)):
        layers = [getattr(layer, name) for layer in model.model.decoder.layers]
        places = [heads.layer_idx for attention in layers for heads in attention.key_sets]
        assert sorted(places) == list(range(config.num_key_sets(place))) and held.shape[1] == len(places)
        if place == "cross":
            assert states.shape == (2, len(places), 1, 2, 5, 8)
        gates = min(global_layers, config.decoder_layers) if isinstance(layers[-1], GatedSentenceAttention) else 0
        assert len(places) == config.decoder_layers + gates


DECODED = ["no gates", "top layer", "all layers", "more gates than layers", "unlike stacks", "sos"]
DECODED += [name for name in VARIANTS if name not in DECODED]


@pytest.mark.parametrize("decoding", ["counted", "sequential"])
@pytest.mark.parametrize("variant", DECODED)
def test_steps_of_decoding_have_the_logits_of_the_full_pass(variant, decoding):
    """Fails if the two sets of keys are mixed up in the cache, or if a step looks at another source sentence."""
    model = model_of(use_final_logits_bias=True, **VARIANTS[variant])
    # sentences end
    model.final_logits_bias[0, [EOS, *model.config.separator_ids()]] = 4.0
    document = [[22, 23, 24], [25], [26, 27, 28, 29], [30, 31]]
    steps, expected = decoded(model, document, decoding=decoding, min_sentence_tokens=2, max_sentence_tokens=6)
    assert len(steps) > 8 and steps.shape == expected.shape
    assert (steps - expected).abs().max() <= 1e-10 * expected.abs().max()


@pytest.mark.parametrize("global_layers", [0, 1])
def test_surplus_sentences_of_free_decoding_look_at_the_last_source_sentence(global_layers):
    """Fails if they see no key, the first sentence, or padding behind a source that is shorter than another one."""
    model = model_of(global_layers=global_layers, use_final_logits_bias=True)
    # separators, and no end
    model.final_logits_bias[0, SEP], model.final_logits_bias[0, EOS] = 6.0, -50.0
    steps: list = []

    def record(module, args, kwargs, outputs):
        steps.append((kwargs["decoder_input_ids"][:, 0], outputs.logits[:, -1]))

    hook = model.register_forward_hook(record, with_kwargs=True)
    sources = [[22, 23, SEP, 24, SEP, 25, 26, EOS], [27, SEP, 28, EOS]]
    batch = ragged(sources, [[EOS]] * 2)
    del batch["labels"]
    model.generate(**batch, decoding="free", num_beams=1, max_sentence_tokens=4, batch_rows=2)
    hook.remove()
    # the shorter one ends first
    steps = [step for step in steps if len(step[0]) == 2]
    for row, source in enumerate(sources):
        inputs = [int(ids[row]) for ids, _ in steps]
        assert inputs.count(SEP) > source.count(SEP)
        found = torch.stack([logits[row] for _, logits in steps])
        assert (found - PlainModel(model).logits(source, inputs)).abs().max() <= 1e-10 * found.abs().max()


# what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"global_layers": -1}, "`global_layers` must be 0 or more, got -1"),
        ({"global_layers": 0, "global_gate_bias": -4.0}, "`global_gate_bias` belongs to gates.* got .*-4.0"),
        (kinds("dense", "dense", "dense"), "`global_layers` belongs to 'sentence' attention, got global_layers=2"),
        ({"relative_distances": 4}, "`relative_distances` is for dense and window self-attention .*'sentence'"),
        ({"position_encoding": "relative"}, "`position_encoding='relative'` belongs to windows.*'sentence'"),
        ({"cross_attention": "sentences"}, "`cross_attention` must be one of .*'sentence', got 'sentences'"),
    ],
)
def test_a_combination_without_meaning_is_refused_with_the_reason(changes, message):
    with pytest.raises(ValueError, match=message):
        DocMTConfig.from_system("g-transformer", **changes)


def test_embeddings_without_ids_are_refused_with_the_reason():
    # fails if sentences are read off ids that are not there
    model, ids = model_of(), torch.tensor([[22, SEP, 23, EOS]])
    with pytest.raises(ValueError, match="`input_ids` are needed by system 'g-transformer'"):
        model(inputs_embeds=model.model.shared(ids), labels=ids)
    encoded = (model.model.encoder(ids).last_hidden_state,)
    with pytest.raises(ValueError, match="`input_ids` and `decoder_input_ids` are needed"):
        model(encoder_outputs=encoded, decoder_input_ids=ids, use_cache=False)
    # they may come beside the states
    given = model(encoder_outputs=encoded, encoder_input_ids=ids, decoder_input_ids=ids).logits
    assert torch.equal(given, model(input_ids=ids, decoder_input_ids=ids).logits)


def test_a_stock_cache_is_refused_with_the_reason():
    model, ids = model_of(), torch.tensor([[22, SEP, 23, EOS]])
    cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    with pytest.raises(ValueError, match="call it with `use_cache=False`"):
        model(input_ids=ids, decoder_input_ids=ids, cache=cache)
