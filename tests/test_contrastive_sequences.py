"""Contrastive items as model sequences: context, formats, and the tokens that count, written out by hand."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from modeling_docmt import DocMTConfig
from training.contrastive_items import ContrastiveItem, aligned_item, held_context
from training.contrastive_sequences import (
    ContextSizes,
    PlainFormat,
    SentenceCache,
    SystemFormat,
    build_sequences,
    resolve_context,
)


PAD, BOS, EOS, SEP, BOD, SOS, SEP1 = 1, 2, 3, 4, 5, 6, 10
# one token a word: f1 is 31, e1 is 41, x3 and y3 are wrong translations of f3
WORDS = {f"f{i}": 30 + i for i in range(1, 6)} | {f"e{i}": 40 + i for i in range(1, 6)} | {"x3": 53, "y3": 54}


@pytest.fixture(scope="module")
def words():
    """A tokenizer of words, which puts a language in front of a sentence, and its end behind it."""
    special = {"<pad>": PAD, "<s>": BOS, "</s>": EOS, "<sep>": SEP, "<lang>": 7, "<unk>": 0}
    backend = Tokenizer(models.WordLevel({**special, **WORDS}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="<lang> $A </s>", special_tokens=[("<lang>", 7), ("</s>", EOS)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **{"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "<sep>"},
        additional_special_tokens=["<lang>"],
    )


def item(**changes) -> ContrastiveItem:
    """f3 in question, with two sentences of context on each side."""
    return aligned_item(
        **{
            **{"id": "a", "source": "f3", "candidates": ["e3", "x3 y3"]},
            **{"source_left": ["f1", "f2"], "target_left": ["e1", "e2"]},
            **{"source_right": ["f4", "f5"], "target_right": ["e4", "e5"], **changes},
        }
    )


def sequences(words, form, sizes, span="all", **changes):
    (found,) = build_sequences([item(**changes)], form, SentenceCache(words), ContextSizes(*sizes), span)
    return found


def system(name, **changes):
    return SystemFormat(DocMTConfig.from_system(name, vocab_size=60, num_indexed_separators=8, **changes))


def counted(found):
    """The tokens that count, of each distinct candidate."""
    return [labels[span.start : span.stop] for labels, span in zip(found.targets, found.scored, strict=True)]


def test_whole_documents_get_the_context_that_is_asked_for(words):
    # fails if the reach is counted from the start of the document, or if right context is cut like the left
    form = system("concat-document")
    found = sequences(words, form, (2, 2, 1))
    assert found.source == [31, SEP, 32, SEP, 33, SEP, 34, EOS]
    assert found.targets == [
        [41, SEP, 42, SEP, 43, SEP, 44, EOS],
        [41, SEP, 42, SEP, 53, 54, SEP, 44, EOS],
    ]
    assert counted(found) == found.targets
    assert counted(sequences(words, form, (2, 2, 1), "current")) == [[43, SEP], [53, 54, SEP]]
    assert counted(sequences(words, form, (2, 2, 1), "current+right")) == [[43, SEP, 44, EOS], [53, 54, SEP, 44, EOS]]
    assert sequences(words, form, (0, 0, 0)).source == [33, EOS]
    assert counted(sequences(words, form, (1, 1, 0), "current")) == [[43, EOS], [53, 54, EOS]]


def test_a_sentence_missing_on_one_side_stays_as_an_empty_one_and_keeps_the_alignment(words):
    # fails if such a sentence is left out: the target would have fewer separators than the source
    form = system("window-attn")
    found = sequences(words, form, (2, 1, 0), "current")
    assert found.source == [31, SEP, 32, SEP, 33, EOS]
    assert found.targets[0] == [SEP, 42, SEP, 43, EOS]
    assert counted(found)[0] == [43, EOS]
    assert (found.missing_source, found.missing_target) == (False, False)
    fewer = sequences(words, form, (2, 2, 0), target_left=["e2"])
    assert fewer.targets[0] == [SEP, 42, SEP, 43, EOS]
    assert (fewer.missing_source, fewer.missing_target) == (False, True)
    assert sequences(words, form, (0, 1, 0)).source == [SEP, 33, EOS]


def test_a_pair_missing_on_both_sides_is_left_out(words):
    # fails if empty context stands in the sequence, which training has none of
    found = sequences(words, system("concat-document"), (2, 2, 0), source_left=["f1", ""], target_left=["e1", " "])
    assert found.source == [31, SEP, 33, EOS]
    assert found.targets[0] == [41, SEP, 43, EOS]
    assert (found.missing_source, found.missing_target) == (True, True)


@pytest.mark.parametrize(
    ("left", "source", "target"),
    [
        (2, [31, SEP, 32, SEP, 33, EOS], [41, SEP, 42, SEP, 43, EOS]),
        (1, [BOD, SEP, 32, SEP, 33, EOS], [BOD, SEP, 42, SEP, 43, EOS]),
        (0, [BOD, SEP, 33, EOS], [BOD, SEP, 43, EOS]),
    ],
)
def test_context_windows_begin_as_in_training(words, left, source, target):
    # fails if `<bod>` is missing, or counts as no sentence when the current one is looked for
    form = system("concat-adj", context_sentences=2)
    found = sequences(words, form, (left, left, 0), "current")
    assert (found.source, found.targets[0]) == (source, target)
    assert counted(found) == [[43, EOS], [53, 54, EOS]]
    assert counted(sequences(words, form, (left, left, 0)))[0] == target


def test_a_sentence_level_model_reads_the_pair_in_question_alone(words):
    form = system("sentence-level")
    for span in ("all", "current", "current+right"):
        found = sequences(words, form, (0, 0, 0), span)
        assert (found.source, found.targets) == ([33, EOS], [[43, EOS], [53, 54, EOS]])
        assert counted(found) == found.targets


def test_doc2sent_has_context_on_the_source_side_alone(words):
    # fails if the sentence in question is counted among those of the source
    form = system("p-transformer", sequence_format="source_context", context_sentences=2, default_decoding="sentence")
    found = sequences(words, form, (2, 0, 0), "current")
    assert found.source == [SOS, 31, SEP1, 32, SEP1 + 1, 33, EOS]
    assert counted(found) == found.targets == [[43, EOS], [53, 54, EOS]]
    assert resolve_context(form, held_context([item()])) == ContextSizes(2, 0, 0)


def test_indexed_separators_count_from_the_first_sentence_of_the_sequence(words):
    found = sequences(words, system("p-transformer"), (1, 1, 1), "current")
    assert found.source == [SOS, 32, SEP1, 33, SEP1 + 1, 34, EOS]
    assert found.targets[0] == [42, SEP1, 43, SEP1 + 1, 44, EOS]
    assert counted(found)[0] == [43, SEP1 + 1]


def test_candidates_of_the_same_tokens_are_there_once(words):
    found = sequences(words, system("sentence-level"), (0, 0, 0), candidates=["e3", "x3", "e3", "x3  "])
    assert found.targets == [[43, EOS], [53, EOS]]
    assert found.candidates == [0, 1, 0, 1]


def test_other_models_get_what_their_tokenizer_puts_around_a_sentence(words):
    # fails if special tokens are not found, or if a missing sentence leaves its separator behind
    plain = PlainFormat(words)
    found = sequences(words, plain, (0, 0, 0))
    assert (found.source, found.targets[0]) == ([7, 33, EOS], [7, 43, EOS])
    joined = PlainFormat(words, "<sep>")
    found = sequences(words, joined, (2, 1, 1), "current")
    assert found.source == [7, 31, SEP, 32, SEP, 33, SEP, 34, EOS]
    assert found.targets[0] == [7, 42, SEP, 43, SEP, 44, EOS]
    assert counted(found) == [[43, SEP], [53, 54, SEP]]
    assert sequences(words, PlainFormat(words, ""), (1, 1, 0)).source == [7, 32, 33, EOS]
    shorter = sequences(words, joined, (0, 0, 2), "current+right", target_right=["e4"])
    assert shorter.source == [7, 33, SEP, 34, SEP, 35, EOS]
    assert counted(shorter)[0] == [7, 43, SEP, 44, EOS]
    with pytest.raises(ValueError, match="item 'a': a sequence of 7 tokens is longer than the 6 positions"):
        sequences(words, PlainFormat(words, "<sep>", max_positions=6), (2, 2, 0))


def test_presets_take_what_the_suite_holds_on_both_sides():
    # fails if the longer side decides
    held = held_context([item(), item(target_left=["e2"], source_right=[], target_right=[])])
    assert (held.source_left, held.target_left, held.both_left, held.both_right) == (2, 2, 2, 2)
    short = held_context([item(target_left=["e2"], target_right=[])])
    assert (short.source_left, short.target_left, short.both_left) == (2, 1, 1)
    assert (short.source_right, short.target_right, short.both_right) == (2, 0, 0)

    document, window, sentence = system("window-attn"), system("concat-adj"), system("sentence-level")
    assert resolve_context(document, held) == ContextSizes(2, 2, 0)
    assert resolve_context(document, held, preset="S0") == ContextSizes(2, 2, 2)
    assert resolve_context(document, short, preset="S0") == ContextSizes(1, 1, 0)
    assert resolve_context(document, short, source=3, target=0, right=1) == ContextSizes(3, 0, 1)
    assert resolve_context(window, held, preset="S0") == ContextSizes(2, 2, 0)
    assert resolve_context(window, short) == ContextSizes(1, 1, 0)
    assert resolve_context(sentence, held, preset="S0") == ContextSizes(0, 0, 0)


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("sentence-level", {"source": 1}, "`source_context_sentences` must be at most 0 for this model, got 1"),
        ("concat-adj", {"target": 3}, "`target_context_sentences` must be at most 2"),
        ("concat-adj", {"right": 1}, "`right_context_sentences` must be at most 0"),
        ("concat-document", {"source": -1}, "`source_context_sentences` must be 0 or more, got -1"),
        ("concat-document", {"preset": "S1"}, "`preset` must be one of 'standard', 'S0', got 'S1'"),
    ],
)
def test_context_for_which_a_system_has_no_room_is_refused(name, numbers, message):
    with pytest.raises(ValueError, match=message):
        resolve_context(system(name), held_context([item()]), **numbers)


def test_other_models_are_refused_context_without_a_separator(words):
    with pytest.raises(ValueError, match="name what separates sentences with `--separator`"):
        resolve_context(PlainFormat(words), held_context([item()]), source=1)
    assert resolve_context(PlainFormat(words), held_context([item()])) == ContextSizes(0, 0, 0)
    assert resolve_context(PlainFormat(words, " "), held_context([item()])) == ContextSizes(2, 2, 0)


def test_sequences_longer_than_those_of_training_are_told_apart(words):
    found = sequences(words, system("concat-document"), (2, 2, 2))
    assert not system("concat-document", max_part_tokens=11).is_over_limit(found)
    assert system("concat-document", max_part_tokens=10).is_over_limit(found)
    assert system("concat-document", max_part_sentences=4).is_over_limit(found)
    assert not system("concat-document", max_part_sentences=5, max_part_tokens=None).is_over_limit(found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": ["e3"]}, "`candidates` must be 2 or more, got 1"),
        ({"candidates": ["e3", " "]}, r"`candidates\[1\]` has no text"),
        ({"source": ""}, "`source` has no text"),
    ],
)
def test_items_that_cannot_be_scored_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        item(**changes)


def test_items_whose_sides_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"`candidates\[1\]` has 1 sentences and the source 2"):
        ContrastiveItem(id="a", source=("f1", "f2"), candidates=(("e1", "e2"), ("e2",)), current=1)
    with pytest.raises(ValueError, match="`current` must be one of 1 source sentences, got 1"):
        ContrastiveItem(id="a", source=("f1",), candidates=(("e1",), ("e2",)), current=1)
    with pytest.raises(ValueError, match="`correct` must be one of 2 candidates, got 2"):
        ContrastiveItem(id="a", source=("f1",), candidates=(("e1",), ("e2",)), current=0, correct=2)
