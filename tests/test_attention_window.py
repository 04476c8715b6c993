"""Window attention against a plain reference, and what its windows reach, miss and reduce to."""

import itertools

import pytest
import torch

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration, modeling_docmt
from modeling_docmt.attention_window import WindowAttention
from modeling_docmt.masking_docmt import MaskInputs, build_attention_masks
from modeling_docmt.packing_docmt import TokenLayout


D_MODEL, HEADS = 16, 4
CPU = torch.device("cpu")


def build(place: str, backend: str, dtype=torch.float64, **changes) -> WindowAttention:
    settings = {"d_model": D_MODEL, "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, **changes}
    config = DocMTConfig.from_system("window-attn", **settings)
    config._attn_implementation = backend
    torch.manual_seed(1)
    module = WindowAttention(config, HEADS, layer_idx=0, place=place)
    if module.relative_keys is not None:
        torch.nn.init.normal_(module.relative_keys)
    return module.to(dtype)


def centre(place: str, i: int, I: int, J: int) -> int:  # noqa: E741
    """b_i, from 1: the query itself, or its linear alignment, rounded half up and clamped."""
    return i if place != "cross" else min(max((2 * J * i + I) // (2 * I), 1), J)


def plain_attention(module: WindowAttention, place: str, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """States `(I, d)` of queries `(I, d)` over keys `(J, d)`, pair by pair."""
    config = module.config
    w, size = config.window_size, D_MODEL // HEADS
    q, k, v = module.q_proj(queries), module.k_proj(keys), module.v_proj(keys)
    I, J = len(queries), len(keys)  # noqa: E741
    rows = []
    for i in range(1, I + 1):
        b = centre(place, i, I, J)
        seen = [j for j in range(1, J + 1) if abs(j - b) <= w and (place != "decoder" or j <= i)]
        heads = []
        for h in range(HEADS):
            part = slice(h * size, (h + 1) * size)
            logits = []
            for j in seen:
                key, bias = k[j - 1, part], 0.0
                if module.relative_keys is not None:
                    r = module.relative_keys[i - j + (w if place == "encoder" else 0)]
                    if config.relative_heads == "separate":
                        key = key + r.flatten()[part]
                    elif config.relative_heads == "shared":
                        key = key + r
                    else:
                        bias = r.flatten()[h]
                logits.append((q[i - 1, part] * key).sum() / size**0.5 + bias)
            weights = torch.stack(logits).softmax(dim=0)
            heads.append(sum(weight * v[j - 1, part] for weight, j in zip(weights, seen, strict=True)))
        rows.append(torch.cat(heads))
    return module.out_proj(torch.stack(rows))


def attend(module: WindowAttention, place: str, targets: list, sources: list, is_packed: bool) -> list:
    """States of each sequence from one pass over all of them, packed or padded."""
    layouts, states = [], []
    for rows in (targets, sources):
        width = max(map(len, rows))
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        padded = torch.stack([torch.nn.functional.pad(row, (0, 0, 0, width - len(row)), value=7.0) for row in rows])
        layout = TokenLayout.from_mask(mask, mask.shape, CPU, is_packed)
        layouts.append(layout)
        states.append(layout.pack(padded) if is_packed else padded)
    queries, keys = layouts if place == "cross" else (layouts[0], layouts[0])
    inputs = MaskInputs(place, module.config, states[0], queries=queries, keys=keys, alignment="linear")
    masks = build_attention_masks(module.mask_names, inputs)
    output, _ = module(states[0], masks, encoder_hidden_states=states[1] if place == "cross" else None)
    output = queries.unpack(output) if is_packed else output
    return [output[index, : len(row)] for index, row in enumerate(targets)]


PATHS = {"packed": ("sdpa", True), "padded": ("sdpa", False), "eager": ("eager", False)}
# (I, J) of the documents of a batch
SHAPES = {
    "odd lengths": [(9, 13), (7, 5), (11, 11)],
    "one token": [(1, 1), (1, 6), (6, 1)],
    "one document": [(8, 17)],
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("w", [0, 2, 40])
@pytest.mark.parametrize("place", ["encoder", "decoder", "cross"])
def test_outputs_and_gradients_equal_the_plain_reference(place, w, shapes, path):
    """INV-B9, B11: fails if r is read with the other sign, if windows shift at the ends, or reach a neighbour."""
    backend, is_packed = PATHS[path]
    compare_with_reference(place, SHAPES[shapes], is_packed, backend, 1e-10, window_size=w)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("relative", ["none", "shared", "scalar"])
@pytest.mark.parametrize("place", ["encoder", "decoder"])
def test_every_kind_of_relative_position_equals_the_plain_reference(place, relative, path):
    """INV-B9: fails if a scalar is scaled like a product, or if heads read the columns of each other."""
    backend, is_packed = PATHS[path]
    changes = {"position_encoding": "sinusoidal"} if relative == "none" else {"relative_heads": relative}
    compare_with_reference(place, SHAPES["odd lengths"], is_packed, backend, 1e-10, window_size=3, **changes)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("place", ["encoder", "decoder", "cross"])
def test_single_precision_stays_close_to_the_plain_reference(place, path):
    backend, is_packed = PATHS[path]
    compare_with_reference(place, SHAPES["odd lengths"], is_packed, backend, 1e-5, torch.float32, window_size=3)


def compare_with_reference(place, shapes, is_packed, backend, tolerance, dtype=torch.float64, **changes):
    module = build(place, backend, dtype, **changes)
    targets = [torch.randn(length, D_MODEL, dtype=dtype, requires_grad=True) for length, _ in shapes]
    sources = [torch.randn(length, D_MODEL, dtype=dtype, requires_grad=True) for _, length in shapes]
    inputs = [*targets, *(sources if place == "cross" else [])]
    variables = [*inputs, *module.parameters()]
    pulls = [torch.randn(length, D_MODEL, dtype=dtype) for length, _ in shapes]
    plain = [
        plain_attention(module, place, target, source if place == "cross" else target)
        for target, source in zip(targets, sources, strict=True)
    ]
    results = []
    for outputs in (attend(module, place, targets, sources, is_packed), plain):
        total = sum((output * pull).sum() for output, pull in zip(outputs, pulls, strict=True))
        results.append([*outputs, *torch.autograd.grad(total, variables)])
    largest = max(tensor.abs().max() for tensor in results[1])
    for fast, slow in zip(*results, strict=True):
        # sums that cancel, as those of the bias of keys, leave rounding errors of what they sum
        assert (fast - slow).abs().max() <= tolerance * max(slow.abs().max(), 0.1 * largest)


def test_cross_attention_has_no_relative_positions():
    assert build("cross", "sdpa").relative_keys is None
    assert build("encoder", "sdpa", window_size=3).relative_keys.shape == (7, HEADS, D_MODEL // HEADS)
    assert build("decoder", "sdpa", window_size=3).relative_keys.shape == (4, HEADS, D_MODEL // HEADS)


# models


def small_model(*, seed=0, **changes) -> DocMTForConditionalGeneration:
    settings = {
        "vocab_size": 40,
        "d_model": D_MODEL,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "num_indexed_separators": 12,
        "window_size": 2,
        **changes,
    }
    config = DocMTConfig.from_system("window-attn", **settings)
    torch.manual_seed(seed)
    return DocMTForConditionalGeneration(config).eval().double()


def pad(rows: list, value: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


SEP, EOS = 4, 3
SOURCES = [[22, 23, SEP, 24, 25, 26, SEP, 27, EOS], [28, EOS], [22, SEP, 30, 31, EOS]]
TARGETS = [[30, SEP, 31, 32, 33, 34, 35, 36, SEP, 37, EOS], [30, 31, SEP, 32, EOS], [33, SEP, EOS]]


def ragged(sources=SOURCES, targets=TARGETS) -> dict[str, torch.Tensor]:
    ids = pad(sources, 1)
    return {"input_ids": ids, "attention_mask": ids.ne(1).long(), "labels": pad(targets, -100)}


def loss_logits_gradients(model, batch) -> list:
    outputs = model(**batch)
    parameters = [p for _, p in sorted(model.named_parameters()) if p.requires_grad]
    return [outputs.loss, outputs.logits[batch["labels"] != -100], *torch.autograd.grad(outputs.loss, parameters)]


def assert_close(first: list, second: list, tolerance=1e-10) -> None:
    for one, other in zip(first, second, strict=True):
        assert (one - other).abs().max() <= tolerance * max(1e-3, other.abs().max())


KINDS = ("dense", "window", "long_short_term")
MIXED = [
    kinds
    for kinds in itertools.product(KINDS, KINDS, ("dense", "window"))
    if set(kinds) != {"dense"} and set(kinds) != {"window"}
]


def mixed_settings(kinds: tuple) -> dict:
    names = ("encoder_self_attention", "decoder_self_attention", "cross_attention")
    is_relative = kinds[:2] == ("window", "window")
    return dict(zip(names, kinds, strict=True)) | {"position_encoding": "relative" if is_relative else "sinusoidal"}


@pytest.mark.parametrize("alignment", ["linear", "one2one", "sent-align"])
def test_windows_over_everything_are_full_attention(alignment):
    """INV-B5: fails if a window is cut short, or if padding is in it."""
    changes = {"position_encoding": "sinusoidal", "training_alignment": alignment}
    windows = small_model(window_size=11, **changes)
    dense = dict.fromkeys(("encoder_self_attention", "decoder_self_attention", "cross_attention"), "dense")
    full = small_model(seed=1, **dense, **changes)
    full.load_state_dict(windows.state_dict())
    expected = loss_logits_gradients(full, ragged())
    for backend in ("sdpa", "eager"):
        windows.set_attn_implementation(backend)
        assert_close(loss_logits_gradients(windows, ragged()), expected)
    # and a narrow one is not
    narrow = small_model(window_size=1, **changes)
    narrow.load_state_dict(windows.state_dict())
    assert not torch.allclose(narrow(**ragged()).loss, expected[0])


@pytest.mark.parametrize("kinds", MIXED, ids="-".join)
def test_kinds_of_attention_mix_and_backends_agree(kinds):
    # fails if one kind reads the mask or the layout of another
    model = small_model(**mixed_settings(kinds))
    results = []
    for backend in ("sdpa", "eager"):
        model.set_attn_implementation(backend)
        results.append(loss_logits_gradients(model, ragged()))
    assert_close(*results)


@pytest.mark.parametrize("kinds", [("window", "window", "dense"), ("long_short_term", "window", "window")])
def test_rows_of_mixed_kinds_alone_give_what_they_give_in_a_batch(kinds):
    model = small_model(**mixed_settings(kinds))
    logits = model(**ragged()).logits
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = model(input_ids=torch.tensor([source]), labels=torch.tensor([target])).logits
        assert (alone[0] - logits[row, : len(target)]).abs().max() <= 1e-10


# receptive fields


def reached_by(states: torch.Tensor, embeddings: list) -> list:
    """For each row of states `(L, d)`, the positions of each tensor of embeddings `(1, K, d)` that it depends on."""
    result = []
    for position in range(len(states)):
        gradients = torch.autograd.grad(states[position].square().sum(), embeddings, retain_graph=True)
        result.append([set(g[0].abs().sum(dim=-1).nonzero().flatten().tolist()) for g in gradients])
    return result


@pytest.mark.parametrize("normalize_before", [False, True])
@pytest.mark.parametrize("w", [0, 1, 3])
@pytest.mark.parametrize("layers", [1, 3])
def test_an_encoder_state_depends_on_the_tokens_within_w_times_layers_and_on_no_others(w, layers, normalize_before):
    """INV-B6, and B7 with w = 0: gradients are exactly zero beyond, and not zero up to the edge."""
    model = small_model(window_size=w, encoder_layers=layers, normalize_before=normalize_before)
    embeddings = torch.randn(1, 23, D_MODEL, dtype=torch.float64, requires_grad=True)
    states = model.model.encoder(inputs_embeds=embeddings).last_hidden_state[0]
    for i, [reached] in enumerate(reached_by(states, [embeddings])):
        assert reached == {j for j in range(23) if abs(j - i) <= w * layers}


def plain_centres(source: list, target: list, alignment: str) -> list:
    """b_1..b_I, from 1."""
    if alignment == "linear":
        return [centre("cross", i, len(target), len(source)) for i in range(1, len(target) + 1)]
    starts = [1, *(j + 2 for j, token in enumerate(source) if token == SEP)]
    b, n, centres = 1, 0, []
    for i in range(1, len(target) + 1):
        if i > 1:
            n, b = (n + 1, starts[min(n + 1, len(starts) - 1)]) if target[i - 2] == SEP else (n, b + 1)
        centres.append(min(b, len(source)))
    return centres


@pytest.mark.parametrize("alignment", ["linear", "sent-align"])
@pytest.mark.parametrize("w", [0, 1, 2])
def test_a_decoder_state_depends_on_the_span_that_follows_from_the_windows(w, alignment):
    """INV-B6, B7: exact sets, where the alignment jumps back too."""
    layers = 2
    model = small_model(window_size=w, encoder_layers=layers, decoder_layers=layers, training_alignment=alignment)
    # a target sentence that is longer than its source, then one more than there are
    source = [*[22, 23, SEP], *[24, 25, 26, 27, SEP], *range(22, 36), EOS]
    target = [*range(22, 31), SEP, 30, SEP, *range(22, 30), SEP, 31, EOS]
    embeddings: list = []
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_tokens.register_forward_hook(lambda *call: embeddings.append(call[-1]))
    outputs = model(input_ids=torch.tensor([source]), labels=torch.tensor([target]))
    centres = plain_centres(source, target, alignment)
    assert alignment == "linear" or any(later < b for b, later in itertools.pairwise(centres))
    for i, (sources, targets) in enumerate(reached_by(outputs.logits[0], embeddings)):
        assert targets == set(range(max(i - w * layers, 0), i + 1))
        lookers = range(max(i - w * (layers - 1), 0), i + 1)
        reach = w + w * layers
        expected = {j for p in lookers for j in range(centres[p] - 1 - reach, centres[p] + reach)}
        assert sources == expected & set(range(len(source)))


def test_distances_of_zero_vectors_are_windows_without_sinusoids(monkeypatch):
    """INV-B8: fails if relative positions are added to something else, or sinusoids are too."""
    relative = small_model()
    for name, parameter in relative.named_parameters():
        if "relative_keys" in name:
            parameter.data.zero_()
    plain = small_model(seed=1, position_encoding="sinusoidal")
    missing, unexpected = plain.load_state_dict(relative.state_dict(), strict=False)
    assert not missing and len(unexpected) == 4 and all("relative_keys" in name for name in unexpected)
    with_sinusoids = plain(**ragged()).logits
    monkeypatch.setattr(
        modeling_docmt, "sinusoids", lambda ids, size, dtype: torch.zeros(*ids.shape, size, dtype=dtype)
    )
    expected = plain(**ragged()).logits
    assert (relative(**ragged()).logits - expected).abs().max() <= 1e-12
    assert not torch.allclose(with_sinusoids, expected)


@pytest.mark.parametrize("relative_heads", ["separate", "shared", "scalar"])
def test_relative_positions_matter_on_both_sides(relative_heads):
    # fails if a table is made but not read
    model = small_model(relative_heads=relative_heads)
    tables = [p for name, p in model.named_parameters() if "relative_keys" in name]
    assert len(tables) == 4
    gradients = torch.autograd.grad(model(**ragged()).loss, tables)
    for gradient in gradients:
        # each distance occurs
        assert (gradient.flatten(1).abs().sum(dim=1) > 0).all()


def test_a_document_is_where_it_is_whatever_stands_before_it_in_relative_positions():
    # translation in the document: shifted by a prefix out of reach, an encoder state is the same
    model = small_model(window_size=1, encoder_layers=2)
    tokens = list(range(22, 34))
    plain, shifted = (
        model.model.encoder(torch.tensor([row])).last_hidden_state[0] for row in (tokens, [30, 31, 32, *tokens])
    )
    assert (plain[2:] - shifted[5:]).abs().max() <= 1e-12


@pytest.mark.parametrize("lengths", [(1, 1), (1, 5), (5, 1)])
@pytest.mark.parametrize("alignment", ["one2one", "linear", "ratio", "sent-align", "sent-linear"])
def test_sequences_of_one_token_work(lengths, alignment):
    """INV-B11."""
    model = small_model(training_alignment=alignment)
    source, target = ([*range(22, 21 + length), EOS] for length in lengths)
    outputs = model(input_ids=torch.tensor([source]), labels=torch.tensor([target]))
    outputs.loss.backward()
    assert outputs.loss.isfinite() and all(p.grad.isfinite().all() for p in model.parameters())


def test_an_empty_row_disturbs_no_other_one():
    # fails if a row without tokens makes a softmax over nothing
    model = small_model()
    batch = ragged()
    expected = model(**batch).logits
    empty = {
        "input_ids": torch.cat((batch["input_ids"], torch.full((1, 9), 1))),
        "attention_mask": torch.cat((batch["attention_mask"], torch.zeros(1, 9, dtype=torch.long))),
        "labels": torch.cat((batch["labels"], torch.full((1, 11), -100))),
    }
    for backend in ("sdpa", "eager"):
        model.set_attn_implementation(backend)
        outputs = model(**empty)
        outputs.loss.backward()
        assert all(p.grad.isfinite().all() for p in model.parameters())
        assert (outputs.logits[:3] - expected)[batch["labels"] != -100].abs().max() <= 1e-12


def test_dropout_of_attention_drops_weights_in_training_alone():
    # fails if interval attention does not get the probability, or gets it in evaluation
    model = small_model(attention_dropout=0.5, dropout=0.0)
    plain = small_model(dropout=0.0)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(**ragged()).logits, plain(**ragged()).logits)
    model.train()
    first, second = (model(**ragged()).logits for _ in range(2))
    assert not torch.allclose(first, second)
    assert torch.equal(*(plain.train()(**ragged()).logits for _ in range(2)))


# sizes


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({}, 190_464),
        ({"relative_heads": "shared"}, 23_808),
        ({"relative_heads": "scalar"}, 6 * 41 * 8 + 6 * 21 * 8),
        ({"position_encoding": "sinusoidal"}, 0),
        ({"window_size": 5}, 6 * (11 + 6) * 512),
    ],
)
def test_relative_positions_are_all_the_parameters_that_windows_add(changes, more):
    """INV-B12."""
    with torch.device("meta"):
        base, windows = (
            DocMTForConditionalGeneration(DocMTConfig.from_system(name, vocab_size=1000, **settings))
            for name, settings in (("concat-document", {}), ("window-attn", changes))
        )
    assert windows.num_parameters() - base.num_parameters() == more


def test_vectors_of_distances_start_like_embeddings():
    model = small_model(window_size=400)
    table = model.model.encoder.layers[0].self_attn.relative_keys
    assert table.std().item() == pytest.approx(D_MODEL**-0.5, rel=0.05)
    table = small_model(window_size=400, init_std=0.02).model.decoder.layers[1].self_attn.relative_keys
    assert table.std().item() == pytest.approx(0.02, rel=0.05)
