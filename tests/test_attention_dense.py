import pytest
import torch

from modeling_docmt import DocMTConfig
from modeling_docmt.attention_dense import DenseAttention
from modeling_docmt.attention_reference import reference_attention
from modeling_docmt.masking_docmt import MaskInputs, build_attention_masks


LENGTHS = [7, 3, 5]  # ragged, odd


def build(place, backend):
    config = DocMTConfig(d_model=16, encoder_attention_heads=4, decoder_attention_heads=4)
    config._attn_implementation = backend
    torch.manual_seed(0)
    return config, DenseAttention(config, 4, layer_idx=0, place=place).double()


def run_fast(place, backend, queries, states, padding):
    config, module = build(place, backend)
    inputs = MaskInputs(place, config, queries, padding, states if place == "cross" else None)
    masks = build_attention_masks(module.mask_names, inputs)
    return module(queries, masks, encoder_hidden_states=states if place == "cross" else None)[0]


def run_reference(place, queries, states, padding):
    _, module = build(place, "eager")
    keys = states if place == "cross" else queries
    visible = padding.bool()[:, None, :].expand(-1, queries.shape[1], -1)
    if place == "decoder":
        visible = visible & torch.ones(queries.shape[1], queries.shape[1]).tril().bool()
    heads = [
        projection.unflatten(-1, (4, 4)).transpose(1, 2)
        for projection in (module.q_proj(queries), module.k_proj(keys), module.v_proj(keys))
    ]
    return module.out_proj(reference_attention(*heads, visible, module.scaling).flatten(2))


@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("place", ["encoder", "decoder", "cross"])
def test_outputs_and_gradients_equal_the_plain_reference(place, backend):
    queries = torch.randn(3, 7, 16, dtype=torch.double, requires_grad=True)
    states = torch.randn(3, 7, 16, dtype=torch.double, requires_grad=True)
    padding = (torch.arange(7) < torch.tensor(LENGTHS)[:, None]).long()
    real = padding.bool() if place != "cross" else torch.ones(3, 7, dtype=torch.bool)
    results = []
    for output in (run_fast(place, backend, queries, states, padding), run_reference(place, queries, states, padding)):
        inputs = (queries, states) if place == "cross" else (queries,)
        gradients = torch.autograd.grad(output[real].square().sum(), inputs)
        results.append((output[real], *gradients))
    for fast, plain in zip(*results, strict=True):
        assert (fast - plain).abs().max() <= 1e-10 * plain.abs().max()


def test_flex_attention_gives_the_same_output():
    queries = torch.randn(3, 7, 16, dtype=torch.double)
    padding = (torch.arange(7) < torch.tensor(LENGTHS)[:, None]).long()
    with torch.no_grad():
        config, module = build("encoder", "flex_attention")
        module, single = module.float(), queries.float()
        masks = build_attention_masks(module.mask_names, MaskInputs("encoder", config, single, padding))
        flex = module(single, masks)[0]
        plain = run_reference("encoder", queries, queries, padding)
    real = padding.bool()
    assert (flex[real] - plain[real]).abs().max() <= 1e-5 * plain[real].abs().max()


def test_the_reference_gives_zeros_where_a_query_sees_nothing():
    heads = torch.randn(1, 2, 3, 4)
    visible = torch.tensor([[[True, False, False], [False, False, False], [True, True, True]]])
    output = reference_attention(heads, heads, heads, visible, 0.5)
    assert output[0, 1].abs().max() == 0 and output.isfinite().all()
    assert torch.allclose(output[0, 0], heads[0, :, 0])
