"""Position-aware attention (P-Transformer): sinusoids in queries and keys of every layer, one table of distances."""

import copy

import pytest
import torch
from plain_models import (
    EOS,
    PATHS,
    SEP,
    PlainModel,
    assert_equals_plain_model,
    decoded,
    padded,
    ragged,
    small_model,
)
from safetensors.torch import load_file
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration, DocMTModel
from modeling_docmt.masking_docmt import MaskInputs, build_attention_masks
from modeling_docmt.modeling_docmt import build_attention
from modeling_docmt.packing_docmt import TokenLayout
from modeling_docmt.positions_docmt import PositionVectors


CPU = torch.device("cpu")
# documents as the system has them: <sos>, indexed separators, <eos>; the longest side has ten tokens
SOURCES = [[6, 22, 23, 10, 24, 25, 26, 11, 27, EOS], [6, 28, EOS], [6, 22, 23, 24, 10, 30, EOS]]
TARGETS = [[30, 10, 31, 32, 33, 11, 34, EOS], [30, 31, 32, EOS], [33, 10, 35, 36, EOS]]

DENSE_ABLATIONS = {
    "full": {},
    "no cross-attention": {"position_aware_cross": False},
    "no table": {"relative_distances": None},
    "no source": {"position_aware_encoder": False},
    "no target": {"position_aware_decoder": False},
}
OFF = {
    "position_aware_encoder": False,
    "position_aware_decoder": False,
    "position_aware_cross": False,
    "relative_distances": None,
}
WINDOWS = {
    "encoder_self_attention": "window",
    "decoder_self_attention": "window",
    "cross_attention": "window",
    "window_size": 3,
}
COMBINATIONS = {
    "no positions but the table": OFF | {"relative_distances": 3},
    "no table, one flag": OFF | {"position_aware_cross": True},
    "one row": {"relative_distances": 0},
    "windows wider than the table": WINDOWS | {"relative_distances": 2},
    "windows narrower than the table": WINDOWS,
    "windows in the encoder alone": {"encoder_self_attention": "window", "window_size": 2},
    "windows in the source alone": {"cross_attention": "window", "window_size": 1},
    "windows without a table": WINDOWS | {"relative_distances": None},
    "windows with vectors of their own": WINDOWS | {"relative_distances": None, "position_encoding": "relative"},
    "long-short term": {
        "encoder_self_attention": "long_short_term",
        "decoder_self_attention": "long_short_term",
        "relative_distances": None,
    },
    "sentences": {
        "encoder_self_attention": "sentence",
        "decoder_self_attention": "sentence",
        "cross_attention": "sentence",
        "relative_distances": None,
        "global_layers": 1,
    },
    "more layers in the decoder": {"encoder_layers": 1, "decoder_layers": 3},
}
VARIANTS = DENSE_ABLATIONS | COMBINATIONS


def model_of(**changes) -> DocMTForConditionalGeneration:
    """Distances of more than four, of which documents have many, take the last rows of the table."""
    return small_model("p-transformer", **{"relative_distances": 4, **changes})


# the computation


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_and_gradients_equal_the_plain_model(variant, path):
    """
    C1 to C3, with any other kind of attention.

    Fails if values get positions, if a flag reaches another place, if i - j has the other sign, if distances beyond
    the table are another row than the last, or if packed rows get the positions of their neighbours.
    """
    assert_equals_plain_model(model_of(**VARIANTS[variant]), SOURCES, TARGETS, path)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("variant", ["full", "no table", "windows wider than the table", "long-short term"])
def test_positions_are_added_behind_the_norm_of_pre_norm_layers(variant, path):
    # fails if the norm is taken of states and positions
    model = model_of(normalize_before=True, **VARIANTS[variant])
    assert_equals_plain_model(model, SOURCES, TARGETS, path)


@pytest.mark.parametrize("name", OFF)
@pytest.mark.parametrize("changes", [{}, WINDOWS], ids=["dense", "window"])
def test_every_switch_changes_the_logits(changes, name):
    """Table VI: fails if the package, and the reference like it, do not read a switch."""
    with_it, batch = model_of(**changes), ragged(SOURCES, TARGETS)
    without = model_of(**changes | {name: OFF[name]})
    without.load_state_dict(with_it.state_dict(), strict=False)
    first, second = (model(**batch).logits[batch["labels"] != -100] for model in (with_it, without))
    assert (first - second).abs().max() > 1e-3


def test_positions_are_those_that_the_model_is_told():
    """Fails if they count columns where `position_ids` say otherwise: pieces of a source, targets with holes."""
    model = model_of()
    [source, *_], [target, *_] = SOURCES, TARGETS
    ids = torch.tensor([source])
    for first in (0, 7):
        states = model.model.encoder(
            ids, position_ids=torch.arange(first, first + len(source))[None]
        ).last_hidden_state
        assert (states[0] - PlainModel(model).encode(source, first)).abs().max() <= 1e-10
    inputs = torch.tensor([[6, *target[:-1]]])
    shifted = torch.arange(3, 3 + len(target))[None]
    plain, moved = (
        model(input_ids=ids, decoder_input_ids=inputs, decoder_position_ids=positions).logits
        for positions in (None, shifted)
    )
    assert (plain - moved).abs().max() > 1e-3


# INV-C1, C2


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({}, 65_600),
        ({"relative_distances": 100}, 201 * 64),
        ({"relative_distances": None}, 0),
        (OFF | {"relative_distances": 512}, 65_600),
        (OFF, 0),
        ({"tie_word_embeddings": False}, 65_600),
    ],
)
def test_one_table_is_all_the_parameters_that_positions_add(changes, more):
    """INV-C1: fails if a layer, a head or a stack has a table of its own, be it where embeddings are not shared."""
    counts = []
    is_tied = changes.get("tie_word_embeddings", True)
    for name, settings in (("concat-document", {"tie_word_embeddings": is_tied}), ("p-transformer", changes)):
        config = DocMTConfig.from_system(name, vocab_size=1000, **settings)
        with torch.device("meta"):
            model = DocMTForConditionalGeneration(config)
        model.tie_weights()
        counts.append(model.num_parameters())
    assert counts[1] - counts[0] == more


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
def test_without_positions_it_is_the_vanilla_transformer(backend):
    """INV-C2, exact: fails if a switch that is off leaves a sum or another computation behind."""
    model, vanilla = model_of(**OFF), small_model("concat-document", seed=1, decoder_start_token_id=6)
    vanilla.load_state_dict(model.state_dict())
    batch = ragged(SOURCES, TARGETS)
    for one in (model, vanilla):
        one.set_attn_implementation(backend)
    first, second = model(**batch), vanilla(**batch)
    assert torch.equal(first.logits, second.logits) and torch.equal(first.loss, second.loss)


# INV-C3


def attention_and_masks(place: str, backend: str, **changes) -> tuple:
    """The attention of the top layer, states of two rows of five and three tokens, and their masks."""
    settings = {"d_model": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "relative_distances": 4}
    config = DocMTConfig.from_system("p-transformer", num_indexed_separators=12, **settings | changes)
    config._attn_implementation = backend
    torch.manual_seed(1)
    module = build_attention(config, config.encoder_layers - 1, place).double()
    states = torch.randn(2, 5, 16, dtype=torch.float64)
    mask = torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    layout = TokenLayout.from_mask(mask, (2, 5), CPU, is_packed=False)
    inputs = MaskInputs(place, config, states, mask, queries=layout, keys=layout, alignment="one2one")
    inputs.encoder_hidden_states = states if place == "cross" else None
    inputs.query_ids = inputs.key_ids = torch.tensor([[6, 22, SEP, 23, EOS], [6, SEP, EOS, 1, 1]])
    return module, states, build_attention_masks(module.mask_names, inputs)


KINDS = ("full", "no table", "windows narrower than the table", "sentences")
PLACES = [(place, name) for place in ("encoder", "decoder", "cross") for name in KINDS]


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize(
    ("place", "variant"), [*PLACES, ("encoder", "long-short term"), ("decoder", "long-short term")]
)
def test_values_carry_no_positions(place, variant, backend):
    """INV-C3, exact: queries that are zero see neither sinusoids nor distances; fails if `v_proj` reads H + P."""
    is_token = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    module, states, masks = attention_and_masks(place, backend, **VARIANTS[variant])
    source = torch.randn_like(states) if place == "cross" else None

    def output(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        vectors = PositionVectors(torch.randn(1, 5, 16).double(), torch.randn(1, 5, 16).double())
        beside = {"positions": vectors, "relative_table": torch.randn(9, 8).double()}
        return module(states, masks | beside, encoder_hidden_states=source)[0][is_token]

    assert (output(3) - output(4)).abs().max() > 1e-3
    for heads in module.key_sets:
        heads.q_proj.weight.data.zero_()
        heads.q_proj.bias.data.zero_()
    assert torch.equal(output(3), output(4))


# INV-C4


@pytest.mark.parametrize("kind", ["dense", "window"])
@pytest.mark.parametrize("place", ["encoder", "decoder"])
def test_a_pair_reads_the_row_of_its_distance_wherever_it_stands(place, kind):
    """INV-C4: 512 is distance 0, rows above it are keys before the query; fails if rows are counted from 511."""
    changes = {f"{place}_self_attention": kind, "relative_distances": 512, "window_size": 9}
    module, states, masks = attention_and_masks(place, "eager", **changes)
    for projection in (module.q_proj, module.k_proj):
        projection.weight.data.zero_()
        projection.bias.data.zero_()
    # q . r is the first component of r, and q . k is 0
    module.q_proj.bias.data[[0, 8]] = 1.0
    masks["positions"] = PositionVectors(torch.zeros(1, 5, 16).double(), torch.zeros(1, 5, 16).double())
    lengths = [5, 3]
    for distance in range(-5, 6):
        table = torch.zeros(1025, 8, dtype=torch.float64)
        # by far the best: all weight goes to the key at this distance, where there is one
        table[512 + distance, 0] = 1e4
        _, weights = module(states, masks | {"relative_table": table})
        for row, length in enumerate(lengths):
            for i in range(length):
                keys = range(i + 1) if place == "decoder" else range(length)
                expected = torch.zeros(5, dtype=torch.float64)
                if i - distance in keys:
                    expected[i - distance] = 1
                else:
                    expected[list(keys)] = 1 / len(keys)
                assert (weights[row, :, i] - expected).abs().max() <= 1e-12


# INV-C5

DECODED = [
    *((name, "counted") for name in VARIANTS),
    *((name, "sequential") for name in ("full", "no table", "windows wider than the table", "long-short term")),
    *((name, "sequential") for name in ("windows without a table", "windows with vectors of their own")),
]


@pytest.mark.parametrize(("variant", "decoding"), DECODED)
def test_steps_of_decoding_have_the_logits_of_the_full_pass(variant, decoding):
    """INV-C5: fails if a new key gets no position, or that of its column, or if r is read for another distance."""
    model = model_of(use_final_logits_bias=True, **VARIANTS[variant])
    # sentences end
    model.final_logits_bias[0, [EOS, *model.config.separator_ids()]] = 4.0
    document = [[22, 23, 24], [25], [26, 27, 28, 29], [30, 31]]
    steps, expected = decoded(model, document, decoding=decoding, min_sentence_tokens=2, max_sentence_tokens=6)
    assert len(steps) > 8 and steps.shape == expected.shape
    assert (steps - expected).abs().max() <= 1e-10 * expected.abs().max()


def stock_steps(model, inputs: torch.Tensor, first: int, **source) -> torch.Tensor:
    """Logits of one token after the other behind the first ones, with the cache of Transformers."""
    cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    outputs = model(**source, decoder_input_ids=inputs[:, :first], cache=cache, use_cache=True)
    steps = [outputs.logits]
    for place in range(first, inputs.shape[1]):
        outputs = model(
            encoder_outputs=(outputs.encoder_last_hidden_state,),
            attention_mask=source["attention_mask"],
            decoder_input_ids=inputs[:, place : place + 1],
            cache=cache,
            use_cache=True,
        )
        steps.append(outputs.logits)
    return torch.cat(steps, dim=1)


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("variant", ["no table", "no table, one flag"])
def test_steps_with_the_cache_of_transformers_have_the_logits_of_the_full_pass(variant, backend):
    """INV-C5: fails if cached keys get a position twice, or new ones that of column 0."""
    model = model_of(**VARIANTS[variant])
    model.set_attn_implementation(backend)
    batch = ragged(SOURCES, TARGETS)
    inputs = model.prepare_decoder_input_ids_from_labels(batch.pop("labels"))
    expected = torch.stack(
        [
            torch.nn.functional.pad(logits, (0, 0, 0, inputs.shape[1] - len(logits)))
            for logits in (
                PlainModel(model).logits(source, [6, *target[:-1]])
                for source, target in zip(SOURCES, TARGETS, strict=True)
            )
        ]
    )
    steps = stock_steps(model, inputs, 3, **batch)
    real = padded([[1] * len(row) for row in TARGETS], 0).bool()
    assert (steps - expected)[real].abs().max() <= 1e-10 * expected.abs().max()


def test_the_stock_search_finds_the_same_with_and_without_its_cache():
    model = model_of(relative_distances=None)
    options = {"decoding": None, "num_beams": 3, "max_new_tokens": 8, "return_dict_in_generate": True}
    batch = ragged(SOURCES, TARGETS)
    del batch["labels"]
    # padding on the left of the target: positions count tokens
    batch["decoder_input_ids"] = torch.tensor([[1, 6, 30], [6, 31, 10], [1, 6, 35]])
    batch["decoder_attention_mask"] = torch.tensor([[0, 1, 1], [1, 1, 1], [0, 1, 1]])
    first, second = (
        model.generate(**batch, **options, use_cache=use_cache, output_scores=True) for use_cache in (True, False)
    )
    assert torch.equal(first.sequences, second.sequences)
    assert (first.sequences_scores - second.sequences_scores).abs().max() <= 1e-10


def test_a_stock_cache_is_refused_where_the_table_is_read():
    model = model_of()
    ids = torch.tensor([SOURCES[0]])
    assert model(input_ids=ids, decoder_input_ids=ids, use_cache=True).cache is None
    cache = EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    with pytest.raises(ValueError, match="call it with `use_cache=False`"):
        model(input_ids=ids, decoder_input_ids=ids, cache=cache)


# INV-C6


def table_gradient(model, sources: list = SOURCES, targets: list = TARGETS, **options) -> torch.Tensor:
    table = model.model.encoder.relative_table.weight
    return torch.autograd.grad(model(**ragged(sources, targets), **options).loss, table)[0]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("changes", "reach"),
    [
        ({}, 10),
        ({"encoder_self_attention": "window", "window_size": 3}, None),
        (WINDOWS | {"window_size": 4}, 5),
    ],
)
def test_rows_of_distances_that_do_not_occur_get_no_gradient(changes, reach, path):
    """INV-C6, exactly zero: fails if padding, hidden pairs or neighbours in a packed row reach the table."""
    model = model_of(relative_distances=20, **changes)
    backend, options = PATHS[path]
    model.set_attn_implementation(backend)
    has_gradient = table_gradient(model, **options).abs().sum(dim=1) > 0
    # keys behind the query are those of the encoder: ten source tokens; the target has eight
    behind = 4 if reach is None else reach
    before = 8 if reach is None else reach
    assert has_gradient.tolist() == [-behind < row - 20 < before for row in range(41)]


@pytest.mark.parametrize("path", PATHS)
def test_distances_beyond_the_table_are_those_of_its_last_rows(path):
    """Fails if they are hidden, wrap around, or leave no gradient."""
    short, long = model_of(relative_distances=3), model_of(relative_distances=12, seed=1)
    backend, options = PATHS[path]
    weights = short.state_dict()
    for stack in ("encoder", "decoder"):
        table = weights[f"model.{stack}.relative_table.weight"]
        ends = [table[:1].expand(9, -1), table, table[-1:].expand(9, -1)]
        weights[f"model.{stack}.relative_table.weight"] = torch.cat(ends)
    long.load_state_dict(weights)
    for model in (short, long):
        model.set_attn_implementation(backend)
    batch = ragged(SOURCES, TARGETS)
    assert (short(**batch, **options).logits - long(**batch, **options).logits).abs().max() <= 1e-12
    one, many = table_gradient(short, **options), table_gradient(long, **options)
    many = torch.cat((many[:10].sum(dim=0, keepdim=True), many[10:15], many[15:].sum(dim=0, keepdim=True)))
    assert (one - many).abs().max() <= 1e-12 and (one.abs().sum(dim=1) > 0).all()


# one table


def tables(model) -> list:
    base = model if isinstance(model, DocMTModel) else model.model
    return [stack.relative_table.weight for stack in (base.encoder, base.decoder)]


@pytest.mark.parametrize("is_tied", [True, False])
def test_encoder_and_decoder_have_one_table(is_tied, tmp_path):
    """Fails if loading, copying or untied embeddings give the decoder a table of its own."""
    model = model_of(tie_word_embeddings=is_tied)
    model.save_pretrained(tmp_path)
    names = [name for name in load_file(tmp_path / "model.safetensors") if "relative_table" in name]
    loaded = DocMTForConditionalGeneration.from_pretrained(tmp_path)
    base = DocMTModel.from_pretrained(tmp_path)
    resized = copy.deepcopy(model)
    resized.resize_token_embeddings(50)
    for one in (model, copy.deepcopy(model), loaded, base, resized, copy.deepcopy(model).float()):
        first, second = tables(one)
        assert first is second and (first.double() - tables(model)[0]).abs().max() <= 1e-6
    assert names == ["model.encoder.relative_table.weight"]
    assert (loaded.lm_head.weight is loaded.model.shared.weight) == is_tied


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("variant", ["full", "no source", "windows wider than the table"])
def test_gradient_checkpointing_gives_the_table_the_same_gradient(variant, use_reentrant):
    """Fails if a checkpoint cuts the table off, which reaches the layers beside the masks."""
    model = model_of(dropout=0.0, **VARIANTS[variant]).train()
    gradients = []
    for is_on in (False, True):
        if is_on:
            model.activation_checkpointing_enable({"use_reentrant": use_reentrant})
        model.zero_grad()
        model(**ragged(SOURCES, TARGETS)).loss.backward()
        gradients.append(tables(model)[0].grad.clone())
    assert gradients[0].abs().max() > 0
    assert (gradients[0] - gradients[1]).abs().max() <= 1e-12


def test_the_table_starts_like_vectors_of_a_head():
    """N(0, 1 / head_dim), or the standard deviation of all weights."""
    shape = {"vocab_size": 40, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8}
    for init_std, expected in ((None, 4**-0.5), (0.02, 0.02)):
        config = DocMTConfig.from_system("p-transformer", decoder_ffn_dim=8, init_std=init_std, **shape)
        table = tables(DocMTModel(config))[0]
        assert table.shape == (1025, 4)
        assert table.std().item() == pytest.approx(expected, rel=0.05)


# what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relative_distances": -1}, "`relative_distances` must be 0 or more, or None, got -1"),
        ({"encoder_self_attention": "long_short_term"}, "`relative_distances` is for .*'long_short_term', 'dense'"),
        ({"decoder_self_attention": "sentence"}, "`relative_distances` is for .*'dense', 'sentence'"),
        (WINDOWS | {"position_encoding": "relative"}, "`relative_distances` is for .*`position_encoding='relative'`"),
        ({"encoder_attention_heads": 4}, "`relative_distances` needs heads of one size .* got 4 and 8 heads"),
        ({"position_encoding": "relative", "relative_distances": None}, "`position_encoding='relative'` belongs to"),
    ],
)
def test_a_combination_without_meaning_is_refused_with_the_reason(changes, message):
    with pytest.raises(ValueError, match=message):
        DocMTConfig.from_system("p-transformer", **changes)


def test_padding_in_front_is_refused_where_the_table_is_read():
    """Distances are those of positions: fails if a row that starts late is read as if it did not."""
    batch = ragged(SOURCES, TARGETS)
    batch["attention_mask"][1, 0] = 0
    with pytest.raises(ValueError, match="padded on the right alone: `attention_mask`"):
        model_of()(**batch)


def test_targets_that_end_in_padding_are_refused_without_a_mask():
    batch = ragged(SOURCES, TARGETS)
    inputs = model_of().prepare_decoder_input_ids_from_labels(batch.pop("labels"))
    with pytest.raises(ValueError, match="`decoder_attention_mask` is needed"):
        model_of()(**batch, decoder_input_ids=inputs)
