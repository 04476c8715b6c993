"""LST attention against a plain reference, and what its two views reduce to."""

import pytest
import torch
from torch import nn

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.attention_long_short_term import LongShortTermAttention
from modeling_docmt.masking_docmt import MaskInputs, build_attention_masks
from modeling_docmt.packing_docmt import TokenLayout


D_MODEL, HEADS = 16, 4
EOS, SEP, FIRST_INDEXED = 3, 4, 10
CPU = torch.device("cpu")

SOURCES = [[22, 23, SEP, 24, 25, 26, SEP, SEP, 27, EOS], [28, EOS], [22, 23, 24, 25, SEP, 30, EOS]]
# what the decoder reads; its last token is <eos> nowhere
INPUTS = [[2, SEP, 31, 32, 33, SEP, 34], [2, 30, 31], [2]]


def build(place: str, backend: str, **changes) -> LongShortTermAttention:
    settings = {"d_model": D_MODEL, "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, **changes}
    config = DocMTConfig.from_system("lst-attn", num_indexed_separators=10, **settings)
    config._attn_implementation = backend
    torch.manual_seed(1)
    return LongShortTermAttention(config, HEADS, layer_idx=0, place=place).double()


def sentences_of(ids: list, place: str) -> list:
    """s(1)..s(L): a separator closes its sentence in the source; in the decoder it opens the next one."""
    numbers, number = [], 0
    for token in ids:
        is_separator = token == SEP or token >= FIRST_INDEXED and token < FIRST_INDEXED + 10
        number += is_separator and place == "decoder"
        numbers.append(number)
        number += is_separator and place == "encoder"
    return numbers


def plain_attention(module: LongShortTermAttention, place: str, states: torch.Tensor, ids: list) -> torch.Tensor:
    """States `(L, d)` of one sequence, query by query."""
    size = D_MODEL // HEADS
    q, k, v = module.q_proj(states), module.k_proj(states), module.v_proj(states)
    sentences = sentences_of(ids, place)

    def view(h: int, i: int, keys: list) -> torch.Tensor:
        part = slice(h * size, (h + 1) * size)
        logits = torch.stack([(q[i, part] * k[j, part]).sum() / size**0.5 for j in keys])
        return sum(weight * v[j, part] for weight, j in zip(logits.softmax(dim=0), keys, strict=True))

    rows = []
    for i in range(len(ids)):
        full = list(range(i + 1 if place == "decoder" else len(ids)))
        own = [j for j in full if sentences[j] == sentences[i]]
        if module.config.lst_mode == "shared":
            heads = [view(h, i, own) for h in range(HEADS)] + [view(h, i, full) for h in range(HEADS)]
        else:
            heads = [view(h, i, own if h < HEADS // 2 else full) for h in range(HEADS)]
        rows.append(torch.cat(heads))
    return module.out_proj(torch.stack(rows))


def padded(rows: list, value) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def masks_of(module: LongShortTermAttention, place: str, ids: list, states: torch.Tensor) -> dict:
    mask = padded([[1] * len(row) for row in ids], 0)
    layout = TokenLayout.from_mask(mask, mask.shape, CPU, is_packed=False)
    inputs = MaskInputs(place, module.config, states, mask, queries=layout, keys=layout)
    inputs.query_ids = inputs.key_ids = padded(ids, 1)
    return build_attention_masks(module.mask_names, inputs)


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("mode", ["shared", "heads"])
@pytest.mark.parametrize("place", ["encoder", "decoder"])
def test_outputs_and_gradients_equal_the_plain_reference(place, mode, backend):
    # fails if a separator is in the wrong sentence, if the views change places, or if one is not causal
    module = build(place, backend, lst_mode=mode)
    ids = SOURCES if place == "encoder" else INPUTS
    states = [torch.randn(len(row), D_MODEL, dtype=torch.float64, requires_grad=True) for row in ids]
    width = max(map(len, ids))
    batch = torch.stack([nn.functional.pad(row, (0, 0, 0, width - len(row)), value=5.0) for row in states])
    output, _ = module(batch, masks_of(module, place, ids, batch))
    results = []
    pulls = [torch.randn_like(row) for row in states]
    for outputs in (
        [output[index, : len(row)] for index, row in enumerate(ids)],
        [plain_attention(module, place, row, row_ids) for row, row_ids in zip(states, ids, strict=True)],
    ):
        total = sum((row * pull).sum() for row, pull in zip(outputs, pulls, strict=True))
        results.append([*outputs, *torch.autograd.grad(total, [*states, *module.parameters()])])
    largest = max(tensor.abs().max() for tensor in results[1])
    for fast, plain in zip(*results, strict=True):
        assert (fast - plain).abs().max() <= 1e-10 * max(plain.abs().max(), 0.1 * largest)


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("place", ["encoder", "decoder"])
def test_the_views_of_one_sentence_are_the_same(place, backend):
    """INV-B1: fails if <eos>, or the start token of the decoder, is a sentence of its own."""
    module = build(place, backend)
    ids = [[22, 23, 24, 25, EOS] if place == "encoder" else [2, 22, 23, 24, 25]]
    states = torch.randn(1, 5, D_MODEL, dtype=torch.float64)
    masks = masks_of(module, place, ids, states)
    causal = torch.ones(5, 5, dtype=torch.bool).tril() if place == "decoder" else torch.ones(5, 5, dtype=torch.bool)
    assert torch.equal(masks["sentence"].visible(), causal)
    joined: list = []
    module.out_proj.register_forward_pre_hook(lambda _, inputs: joined.append(inputs[0]))
    _, weights = module(states, masks)
    near, far = joined[0].split(D_MODEL, dim=-1)
    assert (near - far).abs().max() <= 1e-14 * far.abs().max()
    if weights is not None:
        assert (weights[:, :HEADS] - weights[:, HEADS:]).abs().max() <= 1e-15


def test_the_first_query_of_a_target_sentence_sees_itself_alone():
    # fails if the separator that it reads is in the sentence before
    module = build("decoder", "eager")
    ids = [[2, 22, SEP, 23, SEP]]
    states = torch.randn(1, 5, D_MODEL, dtype=torch.float64)
    _, weights = module(states, masks_of(module, "decoder", ids, states))
    near = weights[0, 0]
    assert [row.nonzero().flatten().tolist() for row in near] == [[0], [0, 1], [2], [2, 3], [4]]


# models


def small_model(system="lst-attn", *, seed=0, **changes) -> DocMTForConditionalGeneration:
    settings = {
        "vocab_size": 40,
        "d_model": D_MODEL,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "num_indexed_separators": 10,
        **changes,
    }
    torch.manual_seed(seed)
    return DocMTForConditionalGeneration(DocMTConfig.from_system(system, **settings)).eval().double()


def lst_weights(base: DocMTForConditionalGeneration, upper: float, lower: float) -> dict[str, torch.Tensor]:
    """Weights of `base` with W_c = [upper W_O; lower W_O]: of the own sentence, and of everything."""
    weights = dict(base.state_dict())
    for name, weight in weights.items():
        if name.endswith("self_attn.out_proj.weight"):
            weights[name] = torch.cat((upper * weight, lower * weight), dim=1)
    return weights


ONE_SENTENCE = ([[22, 23, 24, 25, EOS], [26, EOS]], [[30, 31, EOS], [32, 33, 34, 35, EOS]])
SENTENCES = (SOURCES, [[30, SEP, 31, 32, SEP, SEP, EOS], [33, EOS], [34, 35, SEP, 36, 37, EOS]])


def batch_of(sources: list, targets: list) -> dict[str, torch.Tensor]:
    mask = padded([[1] * len(row) for row in sources], 0)
    return {"input_ids": padded(sources, 1), "attention_mask": mask, "labels": padded(targets, -100)}


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize(
    ("upper", "lower", "documents"),
    [
        (1.0, 0.0, ONE_SENTENCE),
        (0.25, 0.75, ONE_SENTENCE),
        # the view of everything is the base model's, however many sentences there are
        (0.0, 1.0, SENTENCES),
    ],
)
def test_lst_with_the_output_projection_of_the_base_model_is_the_base_model(upper, lower, documents, backend):
    """INV-B4: fails if W_c joins the views in the other order, or scales one of them."""
    base = small_model("concat-document")
    model = small_model(seed=1)
    model.load_state_dict(lst_weights(base, upper, lower))
    model.set_attn_implementation(backend)
    batch = batch_of(*documents)
    assert (model(**batch).logits - base(**batch).logits)[batch["labels"] != -100].abs().max() <= 1e-12


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
def test_weights_of_a_dense_model_are_taken_as_they_are(backend):
    """
    INV-B4 for a start from a dense model: [0, W_O], which gives its logits, on any number of sentences.

    Fails if the halves change places, or if the weights that are handed over are changed.
    """
    base = small_model("concat-document")
    model = small_model(seed=1)
    weights = base.state_dict()
    missing, unexpected = model.load_state_dict(weights)
    assert not missing and not unexpected
    assert all(torch.equal(weights[name], weight) for name, weight in base.state_dict().items())
    model.set_attn_implementation(backend)
    batch = batch_of(*SENTENCES)
    outputs = model(**batch)
    assert (outputs.logits - base(**batch).logits)[batch["labels"] != -100].abs().max() <= 1e-12
    # training finds the other view
    outputs.loss.backward()
    for stack in (model.model.encoder, model.model.decoder):
        for layer in stack.layers:
            new, taken = layer.self_attn.out_proj.weight.split(D_MODEL, dim=1)
            assert not new.any() and taken.any()
            assert layer.self_attn.out_proj.weight.grad[:, :D_MODEL].abs().max() > 0
    # and weights of its own are not widened
    again = small_model(seed=2)
    again.load_state_dict(model.state_dict())
    again.set_attn_implementation(backend)
    assert torch.equal(again(**batch).logits, outputs.logits)


def test_the_own_sentence_alone_is_not_the_base_model():
    base = small_model("concat-document")
    model = small_model(seed=1)
    model.load_state_dict(lst_weights(base, 1.0, 0.0))
    batch = batch_of(*SENTENCES)
    assert not torch.allclose(model(**batch).logits, base(**batch).logits)


@pytest.mark.parametrize("documents", [ONE_SENTENCE, SENTENCES])
def test_views_of_half_of_the_heads_have_the_weights_of_the_base_model(documents):
    # one sentence is seen alike by all heads
    base = small_model("concat-document")
    model = small_model(seed=1, lst_mode="heads")
    model.load_state_dict(base.state_dict())
    batch = batch_of(*documents)
    difference = (model(**batch).logits - base(**batch).logits)[batch["labels"] != -100].abs().max()
    assert difference <= 1e-12 if documents is ONE_SENTENCE else difference > 1e-3


def zero_full_view(model: DocMTForConditionalGeneration) -> None:
    for name, parameter in model.named_parameters():
        if name.endswith("self_attn.out_proj.weight"):
            parameter.data[:, D_MODEL:] = 0


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
def test_without_the_full_view_other_sentences_change_nothing_in_the_encoder(backend):
    """INV-B2, exact: fails if a block of the own sentence lets in a token of the next one."""
    model = small_model()
    model.set_attn_implementation(backend)
    source = [22, 23, SEP, 24, 25, 26, SEP, 27, EOS]
    sentence = [0, 0, 0, 1, 1, 1, 1, 2, 2]

    def states(ids):
        return model.model.encoder(torch.tensor([ids])).last_hidden_state[0]

    for is_zero in (False, True):
        if is_zero:
            zero_full_view(model)
        plain = states(source)
        for place, token in enumerate(source):
            if token in (SEP, EOS):
                continue
            changed = states([*source[:place], 35, *source[place + 1 :]])
            same = [torch.equal(*pair) for pair in zip(plain, changed, strict=True)]
            others = [number != sentence[place] for number in sentence]
            assert same == (others if is_zero else [False] * len(source))


def test_without_the_full_view_the_decoder_reads_its_own_sentence_alone():
    """INV-B2 for the target: cross-attention sees the whole source, so the source stays as it is."""
    model = small_model()
    zero_full_view(model)
    source = torch.tensor([[22, SEP, 23, EOS]])
    inputs = [2, 30, 31, SEP, 32, 33, SEP, 34]
    sentence = [0, 0, 0, 1, 1, 1, 2, 2]

    def logits(ids):
        return model(input_ids=source, decoder_input_ids=torch.tensor([ids]), use_cache=False).logits[0]

    plain = logits(inputs)
    for place in (1, 2, 4, 5, 7):
        changed = logits([*inputs[:place], 35, *inputs[place + 1 :]])
        same = [torch.equal(*pair) for pair in zip(plain, changed, strict=True)]
        assert same == [number != sentence[place] or i < place for i, number in enumerate(sentence)]


def test_indexed_separators_close_sentences_too():
    model = small_model(indexed_separators=True, use_sos=True)
    zero_full_view(model)

    def states(first):
        return model.model.encoder(torch.tensor([[6, first, 10, 24, 25, 11, 26, EOS]])).last_hidden_state[0]

    same = [torch.equal(*pair) for pair in zip(states(22), states(23), strict=True)]
    # <sos> is in the first sentence
    assert same == [False] * 3 + [True] * 5


@pytest.mark.parametrize(("mode", "more"), [("shared", 3_145_728), ("heads", 0)])
def test_the_output_projections_are_all_the_parameters_that_lst_adds(mode, more):
    """INV-B3."""
    with torch.device("meta"):
        base, model = (
            DocMTForConditionalGeneration(DocMTConfig.from_system(name, vocab_size=1000, **settings))
            for name, settings in (("concat-document", {}), ("lst-attn", {"lst_mode": mode}))
        )
    assert model.num_parameters() - base.num_parameters() == more


def test_weights_of_both_views_are_returned():
    model = small_model()
    model.set_attn_implementation("eager")
    outputs = model(**batch_of(*SENTENCES), output_attentions=True)
    assert [tuple(weights.shape) for weights in outputs.encoder_attentions] == [(3, 4, 10, 10)] * 2
    assert [tuple(weights.shape) for weights in outputs.decoder_attentions] == [(3, 4, 7, 7)] * 2
    assert [tuple(weights.shape) for weights in outputs.cross_attentions] == [(3, 2, 7, 10)] * 2
    near, far = outputs.encoder_attentions[0][0].split(2)
    # the first sentence has three tokens
    assert not near[:, :3, 3:].any() and near[:, :3, :3].all() and far[:, :3].all()
    assert (near.sum(dim=-1) - 1).abs().max() <= 1e-12


def test_heads_that_cannot_be_halved_are_refused():
    with pytest.raises(ValueError, match="`encoder_attention_heads` must be even for `lst_mode='heads'`, got 3"):
        small_model(d_model=24, encoder_attention_heads=3, lst_mode="heads")


def test_embeddings_without_ids_are_refused_with_the_reason():
    # fails if sentences are read off ids that are not there
    model = small_model()
    ids = torch.tensor([[22, SEP, 23, EOS]])
    with pytest.raises(ValueError, match="`input_ids` are needed by system 'lst-attn'"):
        model(inputs_embeds=model.model.shared(ids), labels=ids)
    with pytest.raises(ValueError, match="`decoder_input_ids` are needed by system 'lst-attn'"):
        model(
            input_ids=ids,
            decoder_inputs_embeds=model.model.shared(ids),
            decoder_attention_mask=torch.ones_like(ids),
            use_cache=False,
        )
