"""Masks of document decoding: the rules of a batch, for a few queries and stretches of keys."""

import itertools

import pytest
import torch

from modeling_docmt import DocMTConfig
from modeling_docmt.masking_search_docmt import SEARCH_RULES, SearchQueries, StretchKeys, build_search_masks


N, BEAMS, TOKENS, WIDTHS = 2, 3, 2, (5, 1, 4)


def random_numbers(generator: torch.Generator, most: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, most, shape, generator=generator)


def case(seed: int, hides: bool) -> tuple[SearchQueries, list[StretchKeys]]:
    generator = torch.Generator().manual_seed(seed)
    queries = SearchQueries(
        positions=random_numbers(generator, 12, N, 1, TOKENS),
        sentences=random_numbers(generator, 3, N, BEAMS, TOKENS),
        centers=random_numbers(generator, 12, N, BEAMS, TOKENS),
    )
    # each stretch hides keys in another shape, as filling, beams and later tokens do
    shapes = [(N, 1, 1), (N, BEAMS, 1), (1, 1, TOKENS)]
    stretches = []
    for width, shape in zip(WIDTHS, shapes, strict=True):
        hidden = torch.rand(*shape, width, generator=generator) < 0.4 if hides else None
        positions, sentences = (random_numbers(generator, most, N, width) for most in (12, 3))
        stretches.append(StretchKeys(hidden, positions, sentences))
    return queries, stretches


@pytest.mark.parametrize("hides", [True, False])
@pytest.mark.parametrize("place", ["decoder", "cross"])
def test_every_pair_is_as_the_rule_says(place, hides):
    # fails if the window of a beam is that of another, if a stretch of keys counts from its own start, or if a target
    # sentence more than the source has sees nothing
    w = 2
    config = DocMTConfig.from_system("window-attn", window_size=w)
    queries, stretches = case(0, hides)
    masks = build_search_masks(SEARCH_RULES, place, config, queries, stretches, torch.float64)
    for name, (index, keys) in itertools.product(SEARCH_RULES, enumerate(stretches)):
        mask, width = masks[name][index], WIDTHS[index]
        if mask is None:
            mask = torch.zeros(1, 1, 1, 1, 1, dtype=torch.float64)
        mask = mask.expand(N, 1, BEAMS, TOKENS, width)
        for n, g, t, k in itertools.product(range(N), range(BEAMS), range(TOKENS), range(width)):
            center = queries.positions[n, 0, t] if place == "decoder" else queries.centers[n, g, t]
            sentence = int(queries.sentences[n, g, t])
            if place == "cross":
                sentence = min(sentence, int(keys.sentences[n].max()))
            is_seen = {
                "dense": True,
                "document": True,
                "window": abs(int(center) - int(keys.positions[n, k])) <= w,
                "recurrent": int(keys.sentences[n, k]) >= sentence - config.memory_sentences,
                "sentence": sentence == int(keys.sentences[n, k]),
            }[name]
            if keys.hidden is not None:
                is_seen = is_seen and not keys.hidden.expand(N, BEAMS, TOKENS, width)[n, g, t, k]
            assert mask[n, 0, g, t, k].item() == (0.0 if is_seen else -torch.inf)


def test_where_nothing_is_hidden_there_is_no_mask():
    # fails if a mask of zeros is added to the logits of every step
    config = DocMTConfig.from_system("window-attn", window_size=20)
    queries, stretches = case(1, hides=False)
    for keys in stretches:
        keys.sentences = torch.zeros_like(keys.sentences)
    queries.sentences = torch.zeros_like(queries.sentences)
    masks = build_search_masks(SEARCH_RULES, "decoder", config, queries, stretches, torch.float64)
    assert [masks[name] for name in SEARCH_RULES] == [[None] * 3] * len(SEARCH_RULES)


def test_distances_are_those_from_key_to_query_in_the_decoder_alone():
    # fails if the sign is turned
    queries, stretches = case(2, hides=False)
    for kind, place, has_them in (
        ("relative", "decoder", True),
        ("relative", "cross", False),
        ("sinusoidal", "decoder", False),
    ):
        config = DocMTConfig.from_system("window-attn", position_encoding=kind)
        masks = build_search_masks(["window"], place, config, queries, stretches, torch.float64)
        assert ("distances" in masks) is has_them
        if has_them:
            for keys, distances in zip(stretches, masks["distances"], strict=True):
                for n, t, k in itertools.product(range(N), range(TOKENS), range(keys.positions.shape[1])):
                    assert distances[n, 0, t, k] == queries.positions[n, 0, t] - keys.positions[n, k]


def test_windows_over_the_source_need_aligned_positions():
    queries, stretches = case(3, hides=False)
    queries.centers = None
    with pytest.raises(ValueError, match="aligned source positions"):
        build_search_masks(
            ["window"], "cross", DocMTConfig.from_system("window-attn"), queries, stretches, torch.float32
        )
