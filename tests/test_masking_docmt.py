"""Masks of a batch: who sees whom, pair by pair."""

import itertools

import pytest
import torch
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from modeling_docmt import DocMTConfig
from modeling_docmt.configuration_docmt import ATTENTION_KINDS
from modeling_docmt.interval_plan_docmt import IntervalPlan
from modeling_docmt.masking_docmt import INTERVAL_RULES, MASK_BUILDERS, MaskInputs, build_attention_masks
from modeling_docmt.masking_search_docmt import SEARCH_RULES
from modeling_docmt.modeling_docmt import ATTENTION_CLASSES
from modeling_docmt.packing_docmt import TokenLayout


PAD, EOS, SEP = 1, 3, 4
CPU = torch.device("cpu")
# a separator at the start, two in a row, none, and padding whose id is a separator in the next test
SOURCES = [[SEP, 31, 32, SEP, SEP, 33, EOS], [34, EOS], [35, 36, 37, SEP, EOS]]
INPUTS = [[2, 31, SEP, 32, 33], [2, SEP, SEP, 34, 35, 36, SEP, 37], [2]]


def config_of(w: int = 2) -> DocMTConfig:
    return DocMTConfig.from_system("window-attn", window_size=w, num_indexed_separators=12)


def padded(rows: list, value: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def inputs_of(place: str, config: DocMTConfig, is_packed: bool, filling: int = PAD) -> MaskInputs:
    layouts, ids = {}, {}
    for side, rows in (("source", SOURCES), ("target", INPUTS)):
        mask = padded([[1] * len(row) for row in rows], 0)
        layouts[side] = TokenLayout.from_mask(mask, mask.shape, CPU, is_packed)
        ids[side] = padded(rows, filling)
    queries, keys = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}[
        place
    ]
    inputs = MaskInputs(place, config, torch.zeros(3, layouts[queries].width, config.d_model))
    inputs.queries, inputs.keys = layouts[queries], layouts[keys]
    inputs.query_ids, inputs.key_ids = ids[queries], ids[keys]
    inputs.alignment = "one2one"
    return inputs


def sentence(ids: list, position: int, place: str) -> int:
    """Separators before a position of the source; in the decoder, up to it."""
    return sum(token == SEP for token in ids[: position + (place == "decoder")])


def sees(rule: str, place: str, w: int, row: int, t: int, k: int) -> bool:
    if place == "decoder" and k > t:
        return False
    if rule == "document":
        return True
    if rule == "sentence" and place == "cross":
        last = sentence(SOURCES[row], len(SOURCES[row]) - 1, "encoder")
        return min(sentence(INPUTS[row], t, "decoder"), last) == sentence(SOURCES[row], k, "encoder")
    if rule == "sentence":
        ids = SOURCES[row] if place == "encoder" else INPUTS[row]
        return sentence(ids, t, place) == sentence(ids, k, place)
    centre = min(t, len(SOURCES[row]) - 1) if place == "cross" else t
    return abs(k - centre) <= w


@pytest.mark.parametrize("filling", [PAD, SEP])
@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ("window", "encoder"),
        ("window", "decoder"),
        ("window", "cross"),
        ("sentence", "encoder"),
        ("sentence", "decoder"),
        ("sentence", "cross"),
        ("document", "encoder"),
        ("document", "decoder"),
        ("document", "cross"),
    ],
)
def test_every_pair_is_as_the_rule_says(rule, place, is_packed, filling):
    # fails if bounds count from the start of the row, if padding sees or is seen, or if its ids are read
    for w in (0, 1, 3):
        inputs = inputs_of(place, config_of(w), is_packed, filling)
        visible = build_attention_masks([rule], inputs)[rule].visible()
        queries, keys = inputs.queries, inputs.keys
        assert visible.shape == (len(queries.documents), len(keys.documents))
        for index, seen in enumerate(visible.tolist()):
            row, t = queries.documents[index], queries.positions[index]
            expected = [
                queries.is_token[index]
                and keys.is_token[other]
                and keys.documents[other] == row
                and sees(rule, place, w, row, t, keys.positions[other])
                for other in range(len(seen))
            ]
            assert seen == expected, (index, row, t)


@pytest.mark.parametrize("filling", [PAD, SEP])
@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("memory", [1, 2])
def test_keys_of_a_recurrent_plan_are_those_of_the_memory_and_of_the_sentence(memory, is_packed, filling):
    # fails if the memory of a first sentence is the end of the document before, or if keys of a memory count as live
    config = DocMTConfig.from_system("global-local", memory_sentences=memory, num_indexed_separators=12)
    inputs = inputs_of("decoder", config, is_packed, filling)
    found = build_attention_masks(["recurrent"], inputs)["recurrent"]
    queries = inputs.queries
    for index, (low, high) in enumerate(zip(found.plan.lo.tolist(), found.plan.hi.tolist(), strict=True)):
        row, t = queries.documents[index], queries.positions[index]
        seen = []
        if queries.is_token[index]:
            own = sentence(INPUTS[row], t, "decoder")
            numbers = [sentence(INPUTS[row], k, "decoder") for k in range(t + 1)]
            seen = [(index - t + k, n < own) for k, n in enumerate(numbers) if n >= own - memory]
        keys = range(low, high + 1)
        assert [(found.index[k].item(), found.is_memory[k].item()) for k in keys] == seen
        if seen:
            distances = [found.plan.query_positions[index].item() - k for k in keys]
            assert distances == list(reversed(range(len(seen))))


@pytest.mark.parametrize("is_packed", [True, False])
def test_every_token_sees_something(is_packed):
    for rule, place in itertools.product(sorted(INTERVAL_RULES), ("encoder", "decoder", "cross")):
        if rule == "recurrent" and place != "decoder":
            continue
        inputs = inputs_of(place, config_of(0), is_packed)
        plan = build_attention_masks([rule], inputs)[rule]
        plan = plan.plan if rule == "recurrent" else plan
        assert (~plan.dead).tolist() == inputs.queries.is_token.tolist()


@pytest.mark.parametrize("is_packed", [True, False])
def test_distances_of_relative_positions_are_those_within_the_document(is_packed):
    # fails if a packed document has the positions of the row on one side alone
    for place, first in (("encoder", -2), ("decoder", 0)):
        plan = build_attention_masks(["window"], inputs_of(place, config_of(2), is_packed))["window"]
        assert (plan.relative_min, plan.relative_max) == (first, 2)


def test_each_mask_is_built_once_for_all_layers(monkeypatch):
    calls = []

    def spied(name, builder):
        def build(inputs):
            calls.append(name)
            return builder(inputs)

        return build

    for name, builder in dict(MASK_BUILDERS).items():
        monkeypatch.setitem(MASK_BUILDERS, name, spied(name, builder))
    masks = build_attention_masks(["window", "sentence", "window"], inputs_of("encoder", config_of(), True))
    assert sorted(masks) == sorted(calls) == ["sentence", "window"]
    assert all(isinstance(mask, IntervalPlan) for mask in masks.values())


def test_every_kind_of_attention_has_its_masks_in_training_and_in_decoding():
    # fails if a new rule is forgotten in one of the two
    assert set(MASK_BUILDERS) == set(SEARCH_RULES) == INTERVAL_RULES | {"dense"}
    assert set(ATTENTION_CLASSES) == set(ATTENTION_KINDS)
    for attention in ATTENTION_CLASSES.values():
        assert set(attention.mask_names) <= set(MASK_BUILDERS)


# what cannot be


def test_the_cache_of_the_stock_search_is_refused_with_the_way_out():
    inputs = inputs_of("decoder", config_of(), False)
    inputs.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    with pytest.raises(ValueError, match="`use_cache=False`, or translate documents"):
        build_attention_masks(["window"], inputs)


def test_rules_that_know_sentences_need_ids():
    for place, rule, message in (
        ("encoder", "sentence", "`input_ids` are needed"),
        ("decoder", "sentence", "`input_ids` and `decoder_input_ids` are needed"),
        ("cross", "window", "`input_ids` and `decoder_input_ids` are needed"),
    ):
        inputs = inputs_of(place, config_of(), False)
        inputs.query_ids = inputs.key_ids = None
        inputs.alignment = "sent-align"
        with pytest.raises(ValueError, match=message):
            build_attention_masks([rule], inputs)
        # windows around the query itself, or along a line, do without
        inputs.alignment = "linear"
        assert build_attention_masks(["window"], inputs)["window"].num_queries > 0


def test_intervals_need_layouts():
    inputs = inputs_of("encoder", config_of(), False)
    inputs.queries = None
    with pytest.raises(ValueError, match="layouts of queries and keys"):
        build_attention_masks(["window"], inputs)
