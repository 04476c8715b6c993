"""Alignments against a plain transcription of their definitions, in which positions count from 1."""

import math
import random

import numpy as np
import pytest
import torch
from decoding_models import FIRST_WORD, batch, tiny_model

from modeling_docmt import DocMTConfig
from modeling_docmt.alignment_docmt import SourceSentences, TargetPlaces, align
from modeling_docmt.configuration_docmt import ALIGNMENTS
from modeling_docmt.masking_docmt import MaskInputs, build_attention_masks
from modeling_docmt.packing_docmt import TokenLayout


PAD, START, EOS, SEP, BOD, SOS, FIRST_INDEXED = 1, 2, 3, 4, 5, 6, 10


def is_closing(token: int) -> bool:
    return token == SEP or FIRST_INDEXED <= token < FIRST_INDEXED + 12


def sentence_lengths(tokens: list, num_leading: int = 0) -> list:
    """J_n, each with the separator or end token that closes the sentence."""
    lengths, length = [], 0
    for index, token in enumerate(tokens[num_leading:], start=num_leading + 1):
        length += 1
        if is_closing(token) or index == len(tokens):
            lengths.append(length)
            length = 0
    return lengths


def half_up(numerator: int, denominator: int) -> int:
    return math.floor((2 * numerator + denominator) / (2 * denominator))


def plain_alignment(kind: str, source: list, target: list, *, use_sos=False, ratio=1.0, clip=False) -> list:
    """b_1..b_I of source tokens x_1..x_J and target tokens e_1..e_I, both with their end tokens."""
    J, I, o = len(source), len(target), int(use_sos)  # noqa: E741
    J_n, I_n = sentence_lengths(source, o), sentence_lengths(target)
    N = len(J_n)
    if kind == "one2one":
        return [min(i, J) for i in range(1, I + 1)]
    if kind == "linear":
        return [min(max(half_up(J * i, I), 1), J) for i in range(1, I + 1)]
    if kind == "ratio":
        return [min(max(math.floor(ratio * i + 0.5), 1), J) for i in range(1, I + 1)]
    b, s, t, result = o + 1, 1, 1, []
    for i in range(1, I + 1):
        if i > 1:
            if is_closing(target[i - 2]):
                s, t = s + 1, 1
                b = o + sum(J_n[: min(s - 1, N - 1)]) + 1
            else:
                t, b = t + 1, b + 1
        n = min(s, N)
        if kind == "sent-align":
            last = o + sum(J_n[:n]) if clip else J
            result.append(min(b, last))
        else:
            inside = min(max(half_up(J_n[n - 1] * t, I_n[s - 1]), 1), J_n[n - 1])
            result.append(o + sum(J_n[: n - 1]) + inside)
    return result


def config_of(**changes) -> DocMTConfig:
    """A system whose windows of cross-attention see the aligned position alone."""
    settings = {"window_size": 0, "num_indexed_separators": 12, "decoder_start_token_id": START, **changes}
    return DocMTConfig.from_system("window-attn", **settings)


def aligned_by_masks(kind: str, pairs: list, config: DocMTConfig, is_packed: bool) -> list:
    """b_1..b_I of each pair of a padded batch, read off the masks of the model."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    inputs = [[START, *target[:-1]] for target in targets]

    def padded(rows):
        longest = max(map(len, rows))
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])

    layouts = []
    for rows in (inputs, sources):
        mask = padded([[2] * len(row) for row in rows]).ne(PAD).long()
        layouts.append(TokenLayout.from_mask(mask, mask.shape, torch.device("cpu"), is_packed))
    queries, keys = layouts
    masks = MaskInputs("cross", config, torch.zeros(len(pairs), queries.width, config.d_model))
    masks.queries, masks.keys, masks.alignment = queries, keys, kind
    masks.query_ids, masks.key_ids = padded(inputs), padded(sources)
    plan = build_attention_masks(["window"], masks)["window"]
    result = []
    for row, target in enumerate(targets):
        first = queries.starts[row]
        low, high = (bound[first : first + len(target)] for bound in (plan.lo, plan.hi))
        assert torch.equal(low, high)
        result.append((low - keys.starts[row] + 1).tolist())
    return result


def random_side(generator: random.Random, separators: list, *, sos=False, bod=False) -> list:
    sentences = [
        [generator.randrange(FIRST_WORD, 40) for _ in range(generator.choice((0, 1, 1, 2, 3, 5, 9)))]
        for _ in range(generator.randint(1, 6))
    ]
    sentences = [[BOD], *sentences] if bod else sentences
    tokens = [SOS] if sos else []
    for index, sentence in enumerate(sentences):
        tokens += [*sentence, EOS if index == len(sentences) - 1 else separators[index % len(separators)]]
    return tokens


FORMATS = {
    "plain": {},
    "sos": {"use_sos": True},
    "indexed": {"use_sos": True, "indexed_separators": True},
    "bod": {},
    "clipped": {"clip_alignment": True},
}


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("formats", FORMATS)
@pytest.mark.parametrize("kind", ALIGNMENTS)
def test_windows_are_centred_where_the_plain_definition_says(kind, formats, is_packed):
    # fails if J_n leaves out the separator, if <sos> counts in no or in a sentence of its own, or if the recursion is
    # clamped in place of its use; the numbers of sentences differ, so that there are too many separators
    changes = FORMATS[formats]
    for seed in range(12):
        generator = random.Random(seed)
        ratio = generator.choice((1.0, 0.7, 1.31, 2.5))
        config = config_of(train_ratio=ratio, **changes)
        separators = list(range(FIRST_INDEXED, FIRST_INDEXED + 8)) if config.indexed_separators else [SEP]
        pairs = [
            tuple(
                random_side(generator, separators, sos=config.use_sos and side == 0, bod=formats == "bod")
                for side in (0, 1)
            )
            for _ in range(4)
        ]
        expected = [
            plain_alignment(kind, *pair, use_sos=config.use_sos, ratio=ratio, clip=config.clip_alignment)
            for pair in pairs
        ]
        assert aligned_by_masks(kind, pairs, config, is_packed) == expected


def word_pair(source_length: int, target_length: int) -> tuple:
    return tuple([FIRST_WORD] * (length - 1) + [EOS] for length in (source_length, target_length))


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((5, 2), [3, 5]),  # 2.5 goes up: to even would be 2
        ((1, 4), [1, 1, 1, 1]),  # 0.25 is clamped
        ((9, 6), [2, 3, 5, 6, 8, 9]),  # 1.5 4.5 7.5 go up
        ((7, 7), [1, 2, 3, 4, 5, 6, 7]),
        ((1, 1), [1]),
        ((6, 1), [6]),
    ],
)
def test_linear_alignment_rounds_half_up_and_ends_at_the_end(lengths, expected):
    # fails with round() of Python or NumPy, which go to the even neighbour
    assert aligned_by_masks("linear", [word_pair(*lengths)], config_of(), True) == [expected]


def test_ratio_alignment_rounds_half_up():
    # fails with round(), which gives 2, 5, 8 and 10
    assert aligned_by_masks("ratio", [word_pair(20, 4)], config_of(train_ratio=2.5), True) == [[3, 5, 8, 10]]


def test_linear_alignment_is_exact_for_long_documents():
    # fails if the quotient is taken in single precision
    J, I = 1_000_003, 999_983  # noqa: E741
    source = SourceSentences(np.zeros((1, 1), int), np.array([1]), np.array([J]))
    positions = np.arange(0, I, 997)
    places = TargetPlaces(0 * positions, positions, 0 * positions, positions, np.full_like(positions, I))
    expected = [(2 * J * (p + 1) + I) // (2 * I) - 1 for p in positions.tolist()]
    assert align("linear", source, places, config_of()).tolist() == expected


def test_surplus_target_sentences_start_again_in_the_last_source_sentence():
    source, target = [30, SEP, 31, 32, EOS], [30, SEP, 31, SEP, 32, 33, 34, 35, SEP, EOS]
    assert aligned_by_masks("sent-align", [(source, target)], config_of(), True) == [[1, 2, 3, 4, 3, 4, 5, 5, 5, 3]]


def test_a_longer_target_sentence_runs_into_the_next_source_sentence_unless_clipped():
    source, target = [30, SEP, 31, 32, EOS], [30, 31, 32, SEP, 31, EOS]
    free = aligned_by_masks("sent-align", [(source, target)], config_of(), True)
    clipped = aligned_by_masks("sent-align", [(source, target)], config_of(clip_alignment=True), True)
    assert free == [[1, 2, 3, 4, 3, 4]] and clipped == [[1, 2, 2, 2, 3, 4]]


def test_clipping_is_for_sentence_alignment_alone():
    pair = ([30, SEP, 31, 32, EOS], [30, 31, 32, SEP, 31, EOS])
    for kind in set(ALIGNMENTS) - {"sent-align"}:
        plain, clipped = (aligned_by_masks(kind, [pair], config_of(clip_alignment=on), True) for on in (False, True))
        assert plain == clipped


def test_padding_behind_a_source_is_in_no_sentence():
    # fails if the last sentence reaches to the end of the columns, or if pad ids that are separators count
    ids = torch.tensor([[30, SEP, 31, EOS, SEP, SEP], [30, 31, 32, SEP, 33, EOS]])
    source = SourceSentences.from_ids(ids, np.array([4, 6]), config_of())
    assert source.counts.tolist() == [2, 2]
    assert source.starts.tolist() == [[0, 2], [0, 4]]
    assert source.ends.tolist() == [[2, 4], [4, 6]]


def test_queries_one_by_one_are_aligned_like_all_at_once():
    generator = random.Random(3)
    for _ in range(20):
        source, target = (random_side(generator, [SEP]) for _ in range(2))
        config = config_of(train_ratio=1.3)
        sentences = SourceSentences.from_ids(torch.tensor([source]), np.array([len(source)]), config)
        for kind in ("one2one", "ratio", "sent-align"):
            sentence, place, found = 0, 0, []
            for position in range(len(target)):
                if position:
                    sentence, place = (sentence + 1, 0) if is_closing(target[position - 1]) else (sentence, place + 1)
                stand = (np.array([number]) for number in (0, position, sentence, place))
                found.append(int(align(kind, sentences, TargetPlaces(*stand), config)[0]) + 1)
            assert found == plain_alignment(kind, source, target, ratio=1.3)


# what cannot be


@pytest.mark.parametrize("kind", ["linear", "sent-linear"])
def test_alignments_that_need_the_target_are_refused_without_it(kind):
    source = SourceSentences(np.array([[0]]), np.array([1]), np.array([5]))
    nowhere = np.zeros(1, int)
    with pytest.raises(ValueError, match="which decoding does not know: use one of 'one2one', 'ratio', 'sent-align'"):
        align(kind, source, TargetPlaces(nowhere, nowhere, nowhere, nowhere), config_of())
    with pytest.raises(ValueError, match="`alignment` must be one of 'one2one', 'ratio', 'sent-align'"):
        config_of(alignment=kind)
    model = tiny_model("window-attn")
    with pytest.raises(ValueError, match="'sent-align' in decoding, got '" + kind):
        model.generate(**batch([[[FIRST_WORD]]], model.config), alignment=kind)


def test_an_alignment_that_does_not_exist_is_refused_everywhere():
    source = SourceSentences(np.array([[0]]), np.array([1]), np.array([5]))
    nowhere = np.zeros(1, int)
    with pytest.raises(ValueError, match="got 'diagonal'"):
        align("diagonal", source, TargetPlaces(nowhere, nowhere, nowhere, nowhere), config_of())
    for name in ("alignment", "training_alignment"):
        with pytest.raises(ValueError, match=f"`{name}` must be one of"):
            config_of(**{name: "diagonal"})
    ids = torch.tensor([[FIRST_WORD, EOS]])
    with pytest.raises(ValueError, match="got 'diagonal'"):
        tiny_model("window-attn")(input_ids=ids, labels=ids, alignment="diagonal")


@pytest.mark.parametrize("system", ["concat-document", "lst-attn"])
def test_an_alignment_without_windows_of_cross_attention_is_refused(system):
    model = tiny_model(system)
    with pytest.raises(ValueError, match="leave it out"):
        model.generate(**batch([[[FIRST_WORD]]], model.config), alignment="one2one")


def test_training_and_labels_take_the_training_alignment_and_all_else_the_other():
    # fails if evaluation of the loss or a forward pass for decoding take the wrong one
    model = tiny_model("window-attn", window_size=0, alignment="sent-align", training_alignment="one2one")
    source = torch.tensor([[22, SEP, 23, 24, 25, 26, EOS]])
    labels = torch.tensor([[30, 31, 32, SEP, 33, EOS]])
    decoder_ids = model.prepare_decoder_input_ids_from_labels(labels)
    mask = torch.ones_like(labels)

    def logits(**inputs):
        return model(input_ids=source, use_cache=False, **inputs).logits

    one2one, sent_align = (logits(decoder_input_ids=decoder_ids, alignment=name) for name in ("one2one", "sent-align"))
    assert not torch.allclose(one2one, sent_align)
    assert torch.equal(logits(labels=labels), one2one)
    assert torch.equal(logits(labels=labels, alignment="sent-align"), sent_align)
    assert torch.equal(logits(decoder_input_ids=decoder_ids, decoder_attention_mask=mask), sent_align)
    model.train()
    for module in model.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.0
    model.config.dropout = 0.0
    assert torch.equal(logits(decoder_input_ids=decoder_ids), one2one)
