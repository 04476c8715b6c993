import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from modeling_docmt.attention_interval import (
    RelativeTerm,
    flex_interval_attention,
    interval_attention,
    interval_attention_weights,
)
from modeling_docmt.attention_reference import dense_interval_attention, gather_interval_attention, reference_attention
from modeling_docmt.interval_blocks_docmt import GPU_CHUNK_PAIRS, BlockBuilder, block_size_for
from modeling_docmt.interval_plan_docmt import IntervalPlan
from training import benchmark_attention


H, D = 2, 8
SCALING = 0.3


def window(length, w, causal=False):
    rows = np.arange(length)
    return np.maximum(rows - w, 0), rows if causal else np.minimum(rows + w, length - 1), length


def packed(lengths, w, causal=False):
    starts = np.cumsum([0, *lengths[:-1]])
    bounds = [window(length, w, causal) for length in lengths]
    lo = np.concatenate([low + start for (low, _, _), start in zip(bounds, starts, strict=True)])
    hi = np.concatenate([high + start for (_, high, _), start in zip(bounds, starts, strict=True)])
    return lo, hi, sum(lengths)


def padded(lengths, w):
    longest = max(lengths)
    rows = np.arange(longest)
    lo = [np.where(rows < n, np.maximum(rows - w, 0), 0) + b * longest for b, n in enumerate(lengths)]
    hi = [np.where(rows < n, np.minimum(rows + w, n - 1), -1) + b * longest for b, n in enumerate(lengths)]
    return np.concatenate(lo), np.concatenate(hi), longest * len(lengths)


def around(centres, w, num_keys):
    centres = np.clip(centres, 0, num_keys - 1)
    return np.maximum(centres - w, 0), np.minimum(centres + w, num_keys - 1), num_keys


def aligned(sentences, seed, w):
    """Windows that jump to the start of each source sentence, and advance by one inside: back and forth."""
    generator = np.random.default_rng(seed)
    target, source = generator.integers(3, 40, size=(2, sentences))
    centres = np.concatenate(
        [start + np.arange(n) for start, n in zip(np.cumsum(source) - source, target, strict=True)]
    )
    return around(centres, w, int(source.sum()))


def sentences(lengths):
    ends = np.cumsum(lengths)
    return np.repeat(ends - lengths, lengths), np.repeat(ends - 1, lengths), int(ends[-1])


def random_bounds(num_queries, num_keys, seed, share_dead=0.0, longest=None):
    generator = np.random.default_rng(seed)
    lo = generator.integers(0, num_keys, num_queries)
    hi = np.minimum(lo + generator.integers(0, longest or num_keys, num_queries), num_keys - 1)
    return lo, np.where(generator.random(num_queries) < share_dead, lo - 1, hi), num_keys


CASES = {
    "window, odd length": window(131, 5),
    "window of one key": window(67, 0),
    "window beyond the length": window(45, 60),
    "wide window": window(333, 70),
    "length k * block + 1": window(97, 20),
    "long row of strided blocks": window(1100, 20),
    "causal window": window(203, 20, causal=True),
    "causal, all of the past": window(150, 1000, causal=True),
    "all see all": (np.zeros(70, int), np.full(70, 69), 70),
    "ratio 1.1": around(np.arange(400) * 11 // 10, 20, 440),
    "ratio 0.5": around(np.arange(301) // 2, 7, 150),
    "ratio 2": around(np.arange(150) * 2, 7, 301),
    "sentence alignment": aligned(12, 0, 10),
    "sentence alignment, narrow": aligned(12, 1, 2),
    "sentences of any length": sentences([5, 190, 1, 30, 2, 2, 2, 2, 60, 17]),
    "packed documents": packed([130, 1, 70, 3, 33, 2, 2, 41], 20),
    "packed, causal": packed([100, 1, 50, 3, 33], 10, causal=True),
    "padded rows": padded([41, 130, 7, 90], 20),
    "padded rows, an empty document": padded([41, 0, 70], 5),
    "random bounds": random_bounds(150, 90, 0),
    "random short bounds": random_bounds(150, 300, 1, longest=6),
    "random bounds, dead queries": random_bounds(150, 90, 2, share_dead=0.3),
    "window, dead queries": (np.where(np.arange(120) % 7 == 3, 200, window(120, 9)[0]), window(120, 9)[1], 120),
    "all dead": (np.ones(5, int), np.zeros(5, int), 9),
    "one query": (np.array([2]), np.array([6]), 9),
    "one key": (np.zeros(40, int), np.zeros(40, int), 1),
    "one of each": (np.zeros(1, int), np.zeros(1, int), 1),
    "no queries": (np.zeros(0, int), np.zeros(0, int), 3),
    "no keys": (np.ones(3, int), np.zeros(3, int), 0),
}
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def tensors(plan, dtype, value_dim=D, device="cpu"):
    shapes = [(plan.num_queries, H, D), (plan.num_keys, H, D), (plan.num_keys, H, value_dim)]
    return [torch.randn(shape, dtype=dtype, device=device).requires_grad_() for shape in shapes]


def relative_term(plan, dtype, shared, own_query, device="cpu"):
    rows = plan.relative_max - plan.relative_min + 1
    table = torch.randn((rows, D) if shared else (rows, H, D), dtype=dtype, device=device).requires_grad_()
    query = torch.randn(plan.num_queries, H, D, dtype=dtype, device=device).requires_grad_() if own_query else None
    return RelativeTerm(table, zero_row=-plan.relative_min, query=query)


def values_and_gradients(function, inputs, plan, relative=None, **kwargs):
    output = function(*inputs, plan, SCALING, relative=relative, **kwargs)
    wanted = [*inputs]
    if relative is not None:
        wanted += [relative.table] if relative.query is None else [relative.table, relative.query]
    weight = torch.linspace(-1, 2, output.numel(), dtype=output.dtype, device=output.device).view_as(output)
    gradients = torch.autograd.grad((output.square() + output * weight).sum(), wanted, allow_unused=True)
    return [output, *gradients]


def assert_close(results, expected, tolerance):
    largest = max((t.abs().max().item() for t in expected if t is not None and t.numel()), default=0)
    for found, wanted in zip(results, expected, strict=True):
        if wanted is None or wanted.numel() == 0:
            assert found is None or not found.any()
            continue
        assert found.isfinite().all()
        size = wanted.abs().max().item()
        # gradients that cancel to nothing, as with one visible key, leave rounding errors of the others' size
        size = size if size > 1e-6 * largest else largest
        assert (found - wanted).abs().max().item() <= tolerance * size


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("value_dim", [D, 11])  # the second is not for the fused kernel
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_equal_the_dense_reference(case, value_dim, dtype, tolerance, device):
    lo, hi, num_keys = CASES[case]
    plan = IntervalPlan.build(lo, hi, num_keys, device=device)
    inputs = tensors(plan, dtype, value_dim, device)
    found = values_and_gradients(interval_attention, inputs, plan)
    assert_close(found, values_and_gradients(dense_interval_attention, inputs, plan), tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("own_query", [False, True])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_relative_terms_equal_the_dense_reference(case, shared, own_query, dtype, tolerance, device):
    lo, hi, num_keys = CASES[case]
    plan = IntervalPlan.build(lo, hi, num_keys, device=device)
    inputs = tensors(plan, dtype, device=device)
    relative = relative_term(plan, dtype, shared, own_query, device)
    found = values_and_gradients(interval_attention, inputs, plan, relative)
    assert_close(found, values_and_gradients(dense_interval_attention, inputs, plan, relative), tolerance)


@pytest.mark.parametrize("seed", range(12))
def test_random_plans_equal_the_dense_reference(seed):
    generator = np.random.default_rng(seed)
    num_queries, num_keys = generator.integers(1, 300, 2)
    lo, hi, num_keys = random_bounds(num_queries, int(num_keys), seed, 0.2 * (seed % 2), longest=int(2 ** (seed % 9)))
    if seed % 3 == 0:
        lo, hi = np.sort(lo), np.sort(hi)
    positions = generator.integers(-20, 20, num_queries)
    block_size = None if seed % 4 else 5
    plan = IntervalPlan.build(lo, hi, num_keys, query_positions=positions, block_size=block_size)
    inputs = tensors(plan, torch.float64)
    relative = relative_term(plan, torch.float64, shared=bool(seed % 2), own_query=True)
    for term in (None, relative):
        found = values_and_gradients(interval_attention, inputs, plan, term)
        assert_close(found, values_and_gradients(dense_interval_attention, inputs, plan, term), 1e-10)


@pytest.mark.parametrize("case", CASES)
def test_chunks_as_a_gpu_wants_them_give_the_same(case):
    lo, hi, num_keys = CASES[case]
    plan = IntervalPlan.build(lo, hi, num_keys)
    builder = BlockBuilder(plan.lo.numpy(), plan.hi.numpy(), np.arange(len(lo)), num_keys, plan.device, None)
    builder.on_gpu, builder.chunk_pairs = True, GPU_CHUNK_PAIRS
    chunks, is_full = builder.chunks()
    plan = replace(plan, chunks=chunks, is_full=is_full)
    inputs = tensors(plan, torch.float64)
    for term in (None, relative_term(plan, torch.float64, shared=False, own_query=False)):
        found = values_and_gradients(interval_attention, inputs, plan, term)
        assert_close(found, values_and_gradients(dense_interval_attention, inputs, plan, term), 1e-10)


@pytest.mark.parametrize("own_query", [False, True])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("case", ["window, odd length", "sentence alignment", "padded rows, an empty document"])
def test_gather_reference_equals_the_dense_one(case, shared, own_query):
    plan = IntervalPlan.build(*CASES[case])
    inputs = tensors(plan, torch.float64)
    relative = relative_term(plan, torch.float64, shared, own_query)
    for term in (None, relative):
        found = values_and_gradients(gather_interval_attention, inputs, plan, term)
        assert_close(found, values_and_gradients(dense_interval_attention, inputs, plan, term), 1e-10)


@pytest.mark.parametrize("case", ["window, odd length", "sentence alignment", "window, dead queries"])
def test_dense_reference_equals_the_one_written_query_by_query(case):
    plan = IntervalPlan.build(*CASES[case])
    query, key, value = tensors(plan, torch.float64)
    rows = [states.transpose(0, 1)[None] for states in (query, key, value)]
    expected = reference_attention(*rows, plan.visible()[None], SCALING)[0]
    assert torch.allclose(dense_interval_attention(query, key, value, plan, SCALING), expected, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_chunks_hold_every_query_with_keys_once_and_nothing_else_is_visible(case):
    lo, hi, num_keys = CASES[case]
    plan = IntervalPlan.build(lo, hi, num_keys)
    seen = np.zeros((len(lo), num_keys), dtype=int)
    for chunk in plan.chunks:
        rows, keys = chunk.query_rows(plan.device), chunk.key_rows(plan.device)
        shape = (chunk.num_blocks, 1, chunk.block_size, chunk.key_width)
        visible = torch.ones(shape) if chunk.bias is None else (chunk.bias == 0).expand(shape).float()
        if chunk.dead is not None:
            visible = visible * ~chunk.dead
        flat = rows.flatten() if chunk.real_rows is None else rows.flatten()[chunk.real_rows]
        assert len(flat.unique()) == len(flat)
        for m, i, c in visible[:, 0].nonzero().tolist():
            seen[rows[m, i], keys[m, c]] += 1
    assert (seen == plan.visible().numpy()).all()


def test_dead_queries_have_zero_output_and_gradient_whatever_the_others_hold():
    lo, hi, num_keys = CASES["padded rows, an empty document"]
    plan = IntervalPlan.build(lo, hi, num_keys)
    for value_dim in (D, 11):
        inputs = tensors(plan, torch.float32, value_dim)
        output, *gradients = values_and_gradients(interval_attention, inputs, plan)
        assert output[plan.dead].abs().max() == 0 and gradients[0][plan.dead].abs().max() == 0
        unseen = ~plan.visible().any(0)
        assert unseen.any() and all(gradient[unseen].abs().max() == 0 for gradient in gradients[1:])


def test_gradient_reaches_exactly_the_visible_keys():
    plan = IntervalPlan.build(*window(200, 6))
    query, key, value = tensors(plan, torch.float32)
    (gradient,) = torch.autograd.grad(interval_attention(query, key, value, plan, SCALING)[101].sum(), value)
    assert gradient.abs().sum((1, 2)).nonzero().flatten().tolist() == list(range(95, 108))


def test_a_window_over_the_whole_document_is_plain_attention():
    plan = IntervalPlan.build(*window(150, 150))
    query, key, value = tensors(plan, torch.float64)
    rows = [states.transpose(0, 1)[None] for states in (query, key, value)]
    plain = torch.nn.functional.scaled_dot_product_attention(*rows, scale=SCALING)[0].transpose(0, 1)
    assert torch.allclose(interval_attention(query, key, value, plan, SCALING), plain, atol=1e-12)


def test_clamped_tables_repeat_their_ends_and_others_must_reach():
    plan = IntervalPlan.build(*window(90, 12))
    inputs = tensors(plan, torch.float64)
    short = torch.randn(7, D, dtype=torch.float64).requires_grad_()
    term = RelativeTerm(short, zero_row=3, clamp=True)
    found = values_and_gradients(interval_attention, inputs, plan, term)
    assert_close(found, values_and_gradients(dense_interval_attention, inputs, plan, term), 1e-10)
    with pytest.raises(ValueError, match=r"needs rows -9\.\.15 of `relative.table`, which has 7"):
        interval_attention(*inputs, plan, SCALING, relative=RelativeTerm(short, zero_row=3))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("seed", "longest", "count"), [(0, 70, 12), (1, 70, 12), (10, 70, 12), (30, 70, 12), (37, 31, 30)]
)
def test_relative_terms_of_whole_documents_equal_the_dense_reference(seed, longest, count, causal, shared):
    # the last three fail if two kinds of chunks with the same distances do not agree on the size of their gradient
    lengths = np.random.default_rng(seed).integers(20 if longest < 32 else 1, longest, count).tolist()
    lo, hi, num_keys = sentences(lengths)
    plan = IntervalPlan.build(lo, np.arange(num_keys) if causal else hi, num_keys, block_size=128)
    inputs, term = tensors(plan, torch.float64), relative_term(plan, torch.float64, shared, own_query=False)
    found = values_and_gradients(interval_attention, inputs, plan, term)
    assert_close(found, values_and_gradients(dense_interval_attention, inputs, plan, term), 1e-10)


def test_rows_of_the_table_that_no_pair_needs_get_no_gradient():
    plan = IntervalPlan.build(*window(40, 3))
    inputs = tensors(plan, torch.float32)
    table = torch.randn(101, D).requires_grad_()
    output = interval_attention(*inputs, plan, SCALING, relative=RelativeTerm(table, zero_row=50))
    (gradient,) = torch.autograd.grad(output.square().sum(), table)
    assert gradient.abs().sum(1).nonzero().flatten().tolist() == list(range(47, 54))


@pytest.mark.parametrize("with_relative", [False, True])
@pytest.mark.parametrize("case", ["window, odd length", "sentence alignment, narrow", "random short bounds"])
def test_dropout_drops_the_same_weights_in_both_passes(case, with_relative):
    plan = IntervalPlan.build(*CASES[case])
    query, key, value = tensors(plan, torch.float64)
    relative = relative_term(plan, torch.float64, True, False) if with_relative else None

    def attend(*inputs):
        torch.manual_seed(1)
        return interval_attention(*inputs, plan, SCALING, relative=relative, dropout=0.4)

    output = attend(query, key, value)
    # linear in the values: one step along a direction gives the derivative exactly
    direction = torch.randn_like(value)
    step = attend(query, key, value + direction) - output
    weight = torch.randn_like(output)
    of_query, of_value = torch.autograd.grad(output, (query, value), weight)
    assert torch.allclose((step * weight).sum(), (of_value * direction).sum())
    direction, epsilon = torch.randn_like(query), 1e-6
    ahead, behind = (attend(query + sign * epsilon * direction, key, value) for sign in (1, -1))
    slope = ((ahead - behind) * weight).sum() / (2 * epsilon)
    assert torch.allclose(slope, (of_query * direction).sum(), rtol=1e-6)


def test_dropout_keeps_the_mean_and_drops_as_many_as_asked():
    plan = IntervalPlan.build(*window(600, 20))
    query, key, _ = tensors(plan, torch.float32)
    ones = torch.ones(plan.num_keys, H, D)
    output = interval_attention(query * 0, key, ones, plan, SCALING, dropout=0.25)
    assert abs(output.mean() - 1) < 0.02 and output.std() > 0.01
    with pytest.raises(ValueError, match="`dropout` must be in"):
        interval_attention(query, key, ones, plan, SCALING, dropout=1.0)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("case", ["window, dead queries", "sentence alignment, narrow", "random short bounds"])
def test_gradients_can_be_differentiated_again(case, dropout):
    plan = IntervalPlan.build(*(bounds if np.isscalar(bounds) else bounds[:70] for bounds in CASES[case]))
    inputs = tensors(plan, torch.float64)
    relative = relative_term(plan, torch.float64, shared=False, own_query=True)

    def attend(query, key, value, table, relative_query):
        torch.manual_seed(2)
        term = RelativeTerm(table, relative.zero_row, relative_query)
        return interval_attention(query, key, value, plan, SCALING, relative=term, dropout=dropout)

    everything = (*inputs, relative.table, relative.query)
    first = torch.autograd.grad(attend(*everything).square().sum(), everything)
    again = torch.autograd.grad(attend(*everything).square().sum(), everything, create_graph=True)
    assert_close(again, first, 1e-10)
    assert torch.autograd.gradgradcheck(attend, everything, fast_mode=True)


def test_one_tensor_as_query_key_and_value_gets_the_sum_of_its_gradients():
    plan = IntervalPlan.build(*window(50, 4))
    states = torch.randn(50, H, D, dtype=torch.float64).requires_grad_()
    expected = torch.autograd.grad(
        dense_interval_attention(states, states, states, plan, SCALING).square().sum(), states
    )
    for create_graph in (False, True):
        output = interval_attention(states, states, states, plan, SCALING)
        assert_close(torch.autograd.grad(output.square().sum(), states, create_graph=create_graph), expected, 1e-10)


def test_only_the_gradients_that_are_needed():
    plan = IntervalPlan.build(*window(50, 4))
    query, key, value = tensors(plan, torch.float64)
    output = interval_attention(query.detach(), key, value.detach(), plan, SCALING)
    (found,) = torch.autograd.grad(output.square().sum(), key, create_graph=True)
    (again,) = torch.autograd.grad(output.square().sum(), key)
    assert torch.allclose(found, again)
    with torch.no_grad():
        assert torch.equal(interval_attention(query, key, value, plan, SCALING), output)


@pytest.mark.parametrize("with_relative", [False, True])
def test_bfloat16_is_as_exact_as_its_inputs(with_relative):
    plan = IntervalPlan.build(*packed([300, 77, 5], 20))
    inputs = [t.detach().bfloat16().requires_grad_() for t in tensors(plan, torch.float32)]
    term = relative_term(plan, torch.bfloat16, True, False) if with_relative else None
    found = values_and_gradients(interval_attention, inputs, plan, term)
    exact = [t.detach().double().requires_grad_() for t in inputs]
    exact_term = None if term is None else RelativeTerm(term.table.detach().double().requires_grad_(), term.zero_row)
    expected = values_and_gradients(dense_interval_attention, exact, plan, exact_term)
    assert all(result.dtype == torch.bfloat16 for result in found)
    assert_close([result.double() for result in found], expected, 0.03)


def test_bfloat16_sums_the_gradients_of_many_blocks_in_float32():
    plan = IntervalPlan.build(np.zeros(80_000, int), np.full(80_000, 7), 8, block_size=200)
    inputs = [t.detach().bfloat16().requires_grad_() for t in tensors(plan, torch.float32)]
    _, _, value = inputs
    (found,) = torch.autograd.grad(interval_attention(*inputs, plan, SCALING).sum(), value)
    exact = [t.detach().double().requires_grad_() for t in inputs]
    (expected,) = torch.autograd.grad(dense_interval_attention(*exact, plan, SCALING).sum(), exact[2])
    assert_close([found.double()], [expected], 0.01)


def test_autocast_computes_in_its_dtype_and_returns_gradients_in_that_of_the_inputs():
    plan = IntervalPlan.build(*window(120, 20))
    inputs = tensors(plan, torch.float32)
    term = relative_term(plan, torch.float32, True, False)
    expected = values_and_gradients(dense_interval_attention, inputs, plan, term)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = interval_attention(*inputs, plan, SCALING, relative=term)
        weights = interval_attention_weights(*inputs[:2], plan, SCALING, term)
    gradients = torch.autograd.grad(output.float().square().sum(), [*inputs, term.table])
    assert output.dtype == weights.dtype == torch.bfloat16
    assert all(gradient.dtype == torch.float32 for gradient in gradients)
    assert_close([output.float()], expected[:1], 0.03)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_checkpointing_changes_nothing(dropout, reentrant):
    plan = IntervalPlan.build(*window(200, 20))
    inputs = tensors(plan, torch.float32)

    def attend(*states):
        return interval_attention(*states, plan, SCALING, dropout=dropout)

    results = []
    for run in (attend, lambda *x: torch.utils.checkpoint.checkpoint(attend, *x, use_reentrant=reentrant)):
        torch.manual_seed(3)
        output = run(*inputs)
        output.square().sum().backward()
        results.append([output, *(t.grad for t in inputs)])
        for t in inputs:
            t.grad = None
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_rows_may_be_views_of_batches_with_heads_first():
    plan = IntervalPlan.build(*window(150, 20))
    states = [torch.randn(H, 150, D).transpose(0, 1).requires_grad_() for _ in range(3)]
    found = values_and_gradients(interval_attention, states, plan)
    assert_close(found, values_and_gradients(dense_interval_attention, states, plan), 1e-5)


@pytest.mark.parametrize("case", ["window, odd length", "window, dead queries", "sentence alignment", "all dead"])
def test_weights_are_those_of_the_output(case):
    plan = IntervalPlan.build(*CASES[case])
    query, key, value = tensors(plan, torch.float64)
    relative = relative_term(plan, torch.float64, shared=False, own_query=True)
    weights = interval_attention_weights(query, key, plan, SCALING, relative)
    assert weights.shape == (H, plan.num_queries, plan.num_keys)
    output = interval_attention(query, key, value, plan, SCALING, relative=relative)
    assert torch.allclose(torch.einsum("hij,jhd->ihd", weights, value), output, atol=1e-12)
    live = ~plan.dead
    assert torch.allclose(weights.sum(-1)[:, live], torch.ones(H, int(live.sum()), dtype=torch.float64))
    assert weights[:, ~plan.visible()].abs().sum() == 0


@pytest.mark.parametrize("with_relative", [False, True])
@pytest.mark.parametrize(
    "case", ["window, odd length", "all see all", "packed documents", "sentence alignment", "window, dead queries"]
)
def test_flex_attention_on_the_same_plan_gives_the_same_output(case, with_relative):
    plan = IntervalPlan.build(*CASES[case])
    inputs = [t.detach() for t in tensors(plan, torch.float32)]
    relative = relative_term(plan, torch.float32, True, False) if with_relative else None
    with torch.no_grad():
        found = flex_interval_attention(*inputs, plan, SCALING, relative=relative)
        assert_close([found], [dense_interval_attention(*inputs, plan, SCALING, relative=relative)], 1e-5)


@pytest.mark.parametrize("case", CASES)
def test_block_masks_of_flex_attention_hold_the_visible_blocks(case):
    plan = IntervalPlan.build(*CASES[case])
    if not plan.num_queries or not plan.num_keys:
        pytest.skip("flex attention knows no empty tensors")
    size = 16
    visible = plan.visible()
    mask = plan.block_mask(size)
    blocks = torch.nn.functional.pad(visible, (0, -plan.num_keys % size, 0, -plan.num_queries % size))
    blocks = blocks.unflatten(1, (-1, size)).unflatten(0, (-1, size)).transpose(1, 2).flatten(2).float().mean(-1)
    for counts, order, expected in (
        (mask.kv_num_blocks, mask.kv_indices, (blocks > 0) & (blocks < 1)),
        (mask.full_kv_num_blocks, mask.full_kv_indices, blocks == 1),
    ):
        for row, (count, indices) in enumerate(zip(counts[0, 0].tolist(), order[0, 0].tolist(), strict=True)):
            assert sorted(indices[:count]) == expected[row].nonzero().flatten().tolist()


def test_windows_become_a_few_strided_chunks():
    plan = IntervalPlan.build(*window(4096, 20))
    assert all(chunk.query_index is None for chunk in plan.chunks)
    assert len(plan.chunks) <= 4096 / block_size_for(41) / 8 + 3
    assert plan.num_pairs <= 4096 * 73


def test_same_sentence_bounds_cost_about_the_sum_of_squares():
    lengths = np.random.default_rng(0).integers(5, 200, 40)
    plan = IntervalPlan.build(*sentences(lengths))
    assert plan.num_pairs <= 1.1 * (lengths**2).sum()


@pytest.mark.parametrize("seed", range(3))
def test_jumps_of_sentence_alignment_cost_little(seed):
    lo, hi, num_keys = aligned(100, seed, 20)
    plan = IntervalPlan.build(lo, hi, num_keys)
    straight = IntervalPlan.build(*around(np.arange(len(lo)), 20, len(lo)))
    assert plan.num_pairs <= 1.35 * straight.num_pairs


def test_blocks_end_at_jumps():
    # neighbours across a jump still have keys in common
    centres = np.concatenate([300 + part % 2 * 390 + np.arange(100) for part in range(10)])
    plan = IntervalPlan.build(*around(centres, 200, 2000))
    assert plan.num_pairs <= len(centres) * 520


def test_blocks_without_order_are_copied_together():
    plan = IntervalPlan.build(*random_bounds(2000, 50_000, 0, longest=40))
    assert len(plan.chunks) <= 100


def test_padding_and_empty_documents_cost_nothing():
    lengths = [300, 20, 0, 150]
    assert (
        IntervalPlan.build(*padded(lengths, 20)).num_pairs
        <= IntervalPlan.build(*packed([300, 20, 150], 20)).num_pairs * 1.1
    )


def test_bad_arguments_are_refused():
    lo, hi, num_keys = window(30, 3)
    with pytest.raises(ValueError, match="must lie in 0..29"):
        IntervalPlan.build(lo - 1, hi, num_keys)
    with pytest.raises(ValueError, match="one entry a query"):
        IntervalPlan.build(lo[1:], hi, num_keys)
    with pytest.raises(ValueError, match="`lo` must be one row of integers"):
        IntervalPlan.build(lo * 1.0, hi, num_keys)
    plan = IntervalPlan.build(torch.from_numpy(lo), torch.from_numpy(hi), num_keys)
    query, key, value = tensors(plan, torch.float32)
    with pytest.raises(ValueError, match="`plan` is for 30 queries and 30 keys, got 29 and 30"):
        interval_attention(query[1:], key, value, plan, SCALING)
    with pytest.raises(ValueError, match="one dtype"):
        interval_attention(query, key.double(), value, plan, SCALING)
    with pytest.raises(ValueError, match="must be \\(I, H, D\\)"):
        interval_attention(query, key[:, :1], value, plan, SCALING)
    with pytest.raises(ValueError, match="`relative.table` must be"):
        interval_attention(query, key, value, plan, SCALING, relative=RelativeTerm(torch.randn(7, D + 1), 3))


def test_benchmark_compares_all_variants_of_every_scenario(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(benchmark_attention, "DOCUMENT_TOKENS", (40, 9, 25))
    output = tmp_path / "attention.json"
    benchmark_attention.main(
        [
            "--lengths",
            "70",
            "--window",
            "5",
            "--heads",
            "2",
            "--head_dim",
            "8",
            "--rounds",
            "1",
            "--output",
            str(output),
        ]
    )
    results = json.loads(output.read_text())
    assert {entry["scenario"] for entry in results["entries"]} == set(benchmark_attention.SCENARIOS)
    assert all(entry["milliseconds"] > 0 and entry["peak_mib"] > 0 for entry in results["entries"])
    first = [entry for entry in results["entries"] if entry["variant"] in ("interval", "packed")]
    assert all(entry["times_slower"] == entry["times_larger"] == 1 for entry in first)
    assert "gather with the term" in capsys.readouterr().out
    with pytest.raises(ValueError, match="`scenarios` must be of window"):
        benchmark_attention.main(["--scenarios", "windows"])


@pytest.mark.parametrize("w", [5, 70])
def test_what_packed_rows_are_compared_with_computes_the_same(w):
    # fails if a block reads beyond its document, or misses the ends of its neighbours
    lengths = [150, 64, 3]
    plan = IntervalPlan.build(*packed(lengths, w))
    inputs = tensors(plan, torch.float64)
    states = [torch.nn.utils.rnn.pad_sequence(rows.split(lengths), batch_first=True) for rows in inputs]
    padded_rows = benchmark_attention.PaddedBlocks(lengths, w, "cpu")(*states, SCALING)
    outputs = torch.cat([row[:length] for row, length in zip(padded_rows, lengths, strict=True)])
    expected = interval_attention(*inputs, plan, SCALING)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)
    weight = torch.randn_like(expected)
    gradients = [torch.autograd.grad(result, inputs, weight) for result in (outputs, expected)]
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_memory_is_that_of_the_results_and_not_of_copies_of_keys():
    plan = IntervalPlan.build(*window(4000, 20))
    inputs = [torch.randn(4000, H, D).requires_grad_() for _ in range(3)]
    grad_output = torch.randn(4000, H, D)
    relative = relative_term(plan, torch.float32, True, False)
    for term, limit in ((None, 1.5), (relative, 1.8)):

        def run(term=term):
            output = interval_attention(*inputs, plan, SCALING, relative=term)
            return torch.autograd.grad(output, inputs, grad_output)

        results = 4 * grad_output.nbytes  # output and three gradients
        assert benchmark_attention.peak_bytes(run, "cpu") <= limit * results
