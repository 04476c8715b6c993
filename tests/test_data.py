import itertools
import random

import pytest
import torch
from datasets import Dataset

from modeling_docmt import DocMTConfig
from training.data import TokenBudgetBatchSampler, TranslationCollator, build_sequences, encode_corpus


def test_sequences_of_each_system_hold_what_the_papers_say():
    source, target = [[300], [301, 302]], [[400, 401], [402]]
    sentence = build_sequences(source, target, DocMTConfig())
    assert sentence == [([300, 3], [400, 401, 3]), ([301, 302, 3], [402, 3])]
    adjacent = build_sequences(source, target, DocMTConfig.from_system("concat-adj", context_sentences=1))
    assert adjacent == [
        ([5, 4, 300, 3], [5, 4, 400, 401, 3]),
        ([300, 4, 301, 302, 3], [400, 401, 4, 402, 3]),
    ]
    whole = build_sequences(source, target, DocMTConfig.from_system("concat-document"))
    assert whole == [([300, 4, 301, 302, 3], [400, 401, 4, 402, 3])]


def test_documents_at_several_resolutions_have_separators_that_count_from_one():
    """A3 and A6: doc + sent, and the three resolutions of three sentences."""
    source, target = [[300], [301, 302], [303]], [[400, 401], [402], [403]]
    sentences = [([6, 300, 3], [400, 401, 3]), ([6, 301, 302, 3], [402, 3]), ([6, 303, 3], [403, 3])]
    whole = ([6, 300, 10, 301, 302, 11, 303, 3], [400, 401, 10, 402, 11, 403, 3])
    both = DocMTConfig.from_system("p-transformer", training_resolutions="document+sentence")
    assert build_sequences(source, target, both) == [whole, *sentences]
    assert build_sequences(source, target, both, resolutions="document") == [whole]
    halves = [([6, 300, 10, 301, 302, 3], [400, 401, 10, 402, 3]), sentences[2]]
    multi = DocMTConfig.from_system("mr-doc2doc")
    assert build_sequences(source, target, multi) == [whole, *halves, *sentences]


def test_source_context_is_left_out_of_the_ratio_of_lengths(tokenizer, toy_documents):
    """The ratio estimates how long a translation gets; fails if the context counts."""
    documents = Dataset.from_list([{k: r[k] for k in ("id", "src", "tgt")} for r in toy_documents])
    config = DocMTConfig(sequence_format="source_context", context_sentences=2)
    alone, context = encode_corpus(documents, tokenizer, DocMTConfig()), encode_corpus(documents, tokenizer, config)
    assert list(context["ratio"]) == list(alone["ratio"])
    assert list(context["labels"]) == list(alone["labels"])
    assert sum(context["source_length"]) > sum(alone["source_length"])


def test_a_pair_with_an_empty_side_is_left_out_of_training():
    assert build_sequences([[300], [], [301]], [[400], [401], []], DocMTConfig()) == [([300, 3], [400, 3])]


def test_encoding_a_corpus_counts_and_drops_long_sequences(tokenizer, toy_documents):
    documents = Dataset.from_list([{k: r[k] for k in ("id", "src", "tgt")} for r in toy_documents])
    everything = encode_corpus(documents, tokenizer, DocMTConfig())
    assert set(everything.column_names) >= {"input_ids", "labels", "length"}
    pairs = [(s, t) for r in toy_documents for s, t in zip(r["src"], r["tgt"], strict=True) if s and t]
    assert len(everything) == len(pairs)
    assert tokenizer.decode(everything[0]["labels"], skip_special_tokens=True).strip() == pairs[0][1]
    limited = encode_corpus(documents, tokenizer, DocMTConfig(), max_source_length=20, max_target_length=20)
    expected = [n for n in zip(everything["source_length"], everything["target_length"], strict=True) if max(n) <= 20]
    assert len(limited) == len(expected) < len(everything)


def test_collator_pads_on_the_right_and_shifts_the_labels():
    batch = TranslationCollator(pad_token_id=1, decoder_start_token_id=2)(
        [{"input_ids": [300, 301, 3], "labels": [400, 3]}, {"input_ids": [300, 3], "labels": [401, 402, 403, 3]}]
    )
    assert batch["input_ids"].tolist() == [[300, 301, 3], [300, 3, 1]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[400, 3, -100, -100], [401, 402, 403, 3]]
    assert batch["decoder_input_ids"].tolist() == [[2, 400, 1, 1], [2, 401, 402, 403]]


def test_collator_says_where_targets_end_to_those_who_ask():
    # fails if the mask is read off ids, of which the first may be the pad token
    examples = [{"input_ids": [300, 3], "labels": [400, 3]}, {"input_ids": [3], "labels": [401, 402, 403, 3]}]
    assert "decoder_attention_mask" not in TranslationCollator(1, 1)(examples)
    batch = TranslationCollator(1, 1, masks_decoder=True)(examples)
    assert batch["decoder_attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]


def test_collator_keeps_a_source_token_that_equals_the_pad_token_visible():
    """Marian starts decoding with its pad token: lengths come from the rows, never from ids."""
    batch = TranslationCollator(1, 1)([{"input_ids": [1, 1], "labels": [1]}, {"input_ids": [3], "labels": [3]}])
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]


def test_collator_rounds_lengths_up_when_asked():
    batch = TranslationCollator(1, 2, pad_to_multiple_of=8)([{"input_ids": [300, 3], "labels": [400, 3]}])
    assert batch["input_ids"].shape == batch["labels"].shape == torch.Size([1, 8])


LENGTHS = [3, 50, 7, 7, 9, 30, 4, 21, 8, 8, 8, 2]


def test_batches_cover_every_row_once_within_the_budget():
    batches = TokenBudgetBatchSampler(LENGTHS, max_tokens=32).batches()
    assert sorted(itertools.chain(*batches)) == list(range(len(LENGTHS)))
    for batch in batches:
        longest = max(LENGTHS[i] for i in batch)
        assert longest * len(batch) <= 32 or len(batch) == 1


def test_order_depends_on_seed_and_epoch_alone():
    lengths = [5 + i % 7 for i in range(200)]
    first, second = (TokenBudgetBatchSampler(lengths, 40, seed=3) for _ in range(2))
    assert list(first) == list(second)
    second.set_epoch(1)
    assert list(first) != list(second)
    first.set_epoch(1)
    assert list(first) == list(second)
    assert list(TokenBudgetBatchSampler(lengths, 40, seed=4)) != list(TokenBudgetBatchSampler(lengths, 40, seed=3))


@pytest.mark.parametrize("max_tokens", [100, 256, 700])
def test_all_epochs_have_as_many_batches(max_tokens):
    """Fails if a resumed run finds another place than that where it stopped, which Trainer counts from the first."""
    rng = random.Random(42)
    lengths = [max(2, int(rng.lognormvariate(3.0, 0.7))) for _ in range(3000)]
    sampler = TokenBudgetBatchSampler(lengths, max_tokens, seed=42)
    counts, firsts = set(), set()
    for epoch in range(8):
        sampler.set_epoch(epoch)
        counts.add(len(sampler))
        firsts.add(tuple(next(iter(sampler))))
    assert len(counts) == 1 and len(firsts) == 8


def test_every_process_gets_as_many_batches():
    sampler = TokenBudgetBatchSampler(LENGTHS, 32, multiple_of=4)
    assert len(sampler) % 4 == 0
    assert set(itertools.chain(*sampler)) == set(range(len(LENGTHS)))


def test_bad_budgets_and_empty_corpora_are_refused():
    with pytest.raises(ValueError, match="`max_tokens` must be positive, got 0"):
        TokenBudgetBatchSampler(LENGTHS, 0)
    with pytest.raises(ValueError, match="no training sequence"):
        TokenBudgetBatchSampler([], 100)
