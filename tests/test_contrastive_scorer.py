"""Contrastive scores are sums of log-probabilities of a plain forward pass, whatever the batch shares and pads."""

import pickle
import random
from dataclasses import replace

import pytest
import torch
from decoding_models import SYSTEMS, tiny_model
from marian_models import random_marian
from transformers import MBartConfig, MBartForConditionalGeneration

from modeling_docmt import DocMTConfig
from training import contrastive_scorer
from training.contrastive_items import ContrastiveItem, held_context
from training.contrastive_report import count_scores
from training.contrastive_scorer import (
    ContrastiveScorer,
    ScorerSettings,
    WorkerPool,
    item_batches,
    score_here,
    score_items,
    window_alignment,
)
from training.contrastive_sequences import (
    SCORE_SPANS,
    ItemSequences,
    SentenceCache,
    SystemFormat,
    build_sequences,
    resolve_context,
)


WINDOWS = ["window-attn", "window-sinusoidal"]


class NumberCache(SentenceCache):
    """Sentences of numbers, which are their ids."""

    def __init__(self):
        pass

    def fill(self, items):
        pass

    def source(self, text):
        return [int(word) for word in text.split()]

    target = source


def random_items(seed=0, count=7):
    """Items with up to 2 sentences on each side, whose candidates differ in one word, in length, or not at all."""
    generator = random.Random(seed)

    def sentence(length):
        return " ".join(str(generator.randrange(22, 40)) for _ in range(length))

    items = []
    for number in range(count):
        left, right = generator.randint(0, 2), generator.randint(0, 2)
        context = [sentence(generator.randint(0, 4)) for _ in range(left + 1 + right)]
        words = sentence(generator.randint(2, 5)).split()
        changed, place = list(words), generator.randrange(len(words))
        changed[place] = str(22 + (int(words[place]) - 21) % 18)
        currents = [words, changed, [*changed[: place + 1], "23", *changed[place + 1 :]], list(changed)]
        items.append(
            ContrastiveItem(
                id=str(number),
                source=tuple(sentence(generator.randint(1, 5)) for _ in range(left + 1 + right)),
                candidates=tuple(
                    (*context[:left], " ".join(current), *context[left + 1 :])
                    for current in currents[: 2 + number % 3]
                ),
                current=left,
            )
        )
    return items


def sequences_of(model, span="all", items=None):
    items, form = items or random_items(), SystemFormat(model.config)
    sizes = resolve_context(form, held_context(items), preset="S0")
    return build_sequences(items, form, NumberCache(), sizes, span)


def plain_tokens(model, item, **options):
    """Log-probabilities of the tokens of each target, one sequence at a time."""
    found = []
    for labels in item.targets:
        start = torch.tensor([[model.config.decoder_start_token_id, *labels[:-1]]])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([item.source]), decoder_input_ids=start, **options).logits[0]
        found.append(logits.log_softmax(-1).gather(1, torch.tensor(labels)[:, None])[:, 0])
    return found


def plain_scores(item, tokens):
    """Sums over the tokens that count."""
    sums = [float(values[span.start : span.stop].sum()) for values, span in zip(tokens, item.scored, strict=True)]
    return [sums[target] for target in item.candidates]


def scores_of(model, items, max_tokens=2048, **options):
    return score_items(items, score_here(ContrastiveScorer(model, **options)), max_tokens=max_tokens)


@pytest.mark.parametrize("system", SYSTEMS)
def test_scores_are_those_of_a_plain_forward_pass(system):
    """
    INV-F6 for given translations: teacher forcing of `model(...).logits`, one sequence at a time.

    Fails if what candidates share is not added, if the source of an item reaches the candidates of another, or if the
    padding of the decoder is seen.
    """
    model = tiny_model(system)
    tokens = [plain_tokens(model, item) for item in sequences_of(model)]
    for span in SCORE_SPANS:
        items = sequences_of(model, span)
        for item, found, scores in zip(items, tokens, scores_of(model, items), strict=True):
            assert scores == pytest.approx(plain_scores(item, found), abs=1e-9)


@pytest.mark.parametrize("alignment", ["linear", "sent-linear", "one2one", "ratio", "sent-align"])
@pytest.mark.parametrize("system", WINDOWS)
def test_windows_follow_the_alignment_that_is_asked_for(system, alignment):
    """Fails if the beginning of candidates is shared although it depends on their length, as with `linear`."""
    model = tiny_model(system, window_size=1)
    items = sequences_of(model)
    scores = scores_of(model, items, alignment=alignment)
    for item, found in zip(items, scores, strict=True):
        assert found == pytest.approx(plain_scores(item, plain_tokens(model, item, alignment=alignment)), abs=1e-9)
    if alignment != "sent-align":
        assert any(abs(a[0] - b[0]) > 1e-3 for a, b in zip(scores, scores_of(model, items), strict=True))


def test_windows_are_aligned_as_in_decoding_by_default():
    # fails if the alignment of training is taken, as it is where labels are given
    config = DocMTConfig.from_system("window-attn")
    assert (config.training_alignment, window_alignment(config)) == ("linear", "sent-align")
    assert window_alignment(config, "linear") == "linear"
    assert window_alignment(DocMTConfig.from_system("concat-adj")) is None
    with pytest.raises(ValueError, match="`alignment` is for windows in cross-attention"):
        window_alignment(DocMTConfig.from_system("concat-adj"), "sent-align")
    with pytest.raises(ValueError, match="`alignment` must be one of 'one2one'"):
        window_alignment(config, "diagonal")


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_batch_changes_no_score(system):
    # fails if batches are put back in the order in which they were scored
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model = tiny_model(system, dtype=dtype)
        for parameter in model.parameters():
            # the usual size: twice that, rounding grows from layer to layer
            parameter.data.mul_(0.5)
        items = sequences_of(model)
        alone, together = scores_of(model, items, max_tokens=1), scores_of(model, items, max_tokens=10_000)
        for first, second in zip(alone, together, strict=True):
            assert first == pytest.approx(second, rel=0, abs=tolerance)


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name != "sentence-level"])
def test_the_whole_sequence_and_the_last_sentence_rank_alike(system):
    """
    G3: candidates with one left context, and nothing on the right, differ in the last sentence alone.

    Fails if the current sentence is taken for another one.
    """
    model = tiny_model(system)
    items = [
        ContrastiveItem(
            id=item.id,
            source=item.source[: item.current + 1],
            candidates=tuple(candidate[: item.current + 1] for candidate in item.candidates),
            current=item.current,
        )
        for item in random_items()
    ]
    whole, current = (scores_of(model, sequences_of(model, span, items)) for span in ("all", "current"))
    assert any(first[0] != pytest.approx(second[0], abs=1) for first, second in zip(whole, current, strict=True))
    for first, second in zip(whole, current, strict=True):
        assert [score - first[0] for score in first] == pytest.approx([s - second[0] for s in second], abs=1e-9)


def test_a_model_of_constant_scores_is_never_right():
    """INV-G7. Fails if a tie counts as right."""
    model = tiny_model("concat-document")
    model.lm_head.weight.data.zero_()
    model.final_logits_bias.zero_()
    items = random_items()
    # candidates of one length
    items = [
        ContrastiveItem(id=item.id, source=item.source, candidates=item.candidates[:2], current=item.current)
        for item in items
    ]
    counts = count_scores(items, scores_of(model, sequences_of(model, items=items)))
    assert (counts["accuracy"], counts["ties"]) == (0.0, len(items))
    assert counts["first_minimum_accuracy"] == 100.0


def test_equal_candidates_tie_exactly():
    # fails if both go through the model, each in a row of its own that may round differently
    model = tiny_model("concat-adj", dtype=torch.float32)
    items = sequences_of(model, items=[item for item in random_items(count=12) if len(item.candidates) == 4])
    for item, scores in zip(items, scores_of(model, items), strict=True):
        assert len(item.targets) == 3
        assert scores[1] == scores[3]


def test_scores_can_be_divided_by_the_tokens_that_count():
    model = tiny_model("concat-document")
    items = sequences_of(model, "current")
    for item, sums, means in zip(
        items, scores_of(model, items), scores_of(model, items, normalize_length=True), strict=True
    ):
        lengths = [len(item.scored[target]) for target in item.candidates]
        assert means == pytest.approx([total / length for total, length in zip(sums, lengths, strict=True)])


def sequences(source, targets, scored=None):
    """An item of ids that are all sentence in question, unless said otherwise."""
    return ItemSequences(
        source=source,
        targets=targets,
        scored=scored or [range(len(labels)) for labels in targets],
        candidates=list(range(len(targets))),
        missing_source=False,
        missing_target=False,
        sentences=1,
    )


def test_left_contexts_of_candidates_may_differ():
    # fails if what is shared is looked up from where the current sentence of the first candidate begins
    model = tiny_model("concat-document")
    candidates = (("24 25", "26 27"), ("24", "25 26"), ("24 25", "26 28"))
    item = ContrastiveItem(id="a", source=("30 31", "32"), candidates=candidates, current=1)
    items = [sequences_of(model, span, [item])[0] for span in SCORE_SPANS]
    # as of sentences that are joined without a separator
    items.append(sequences([30, 31, 3], [[24, 25, 26, 27, 3], [24, 25, 26, 28, 3]], [range(3, 5), range(1, 5)]))
    for each, found in zip(items, scores_of(model, items), strict=True):
        assert found == pytest.approx(plain_scores(each, plain_tokens(model, each)), abs=1e-9)


def random_mbart():
    """A model whose decoder starts with the last token of its labels."""
    torch.manual_seed(0)
    config = MBartConfig(
        **{"vocab_size": 97, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16},
        **{"decoder_ffn_dim": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "init_std": 0.3},
        **{"max_position_embeddings": 32, "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0},
    )
    return MBartForConditionalGeneration(config).eval()


@pytest.mark.parametrize("make", [random_marian, random_mbart])
def test_other_models_are_scored_by_their_loss(make):
    """Fails if the decoder of another model is started by rules of ours, or reads the source of another item."""
    model = make()
    generator = random.Random(0)
    items = []
    for length in (3, 9, 1, 6):
        source, *targets = ([generator.randrange(4, 90) for _ in range(size)] + [2] for size in (length, 4, 4, 7))
        targets[1][:2] = targets[0][:2]
        items.append(sequences(source, targets))
    for item, scores in zip(items, scores_of(model, items), strict=True):
        with torch.no_grad():
            losses = [
                float(model(input_ids=torch.tensor([item.source]), labels=torch.tensor([labels])).loss) * len(labels)
                for labels in item.targets
            ]
        assert scores == pytest.approx([-loss for loss in losses], abs=1e-4)


def test_batches_hold_each_item_once_within_the_budget():
    # fails if the longest source of a batch is not that of all its items
    items = sequences_of(tiny_model("concat-document"), items=random_items(count=40))
    batches = item_batches(items, 200)
    assert sorted(index for batch in batches for index in batch) == list(range(40))
    assert len(batches) > 5
    for batch in batches:
        rows = [labels for index in batch for labels in items[index].targets]
        sources = [items[index].source for index in batch]
        size = len(rows) * max(map(len, rows)) + len(sources) * max(map(len, sources))
        assert size <= 200 or len(batch) == 1
    with pytest.raises(ValueError, match="`max_tokens` must be 1 or more, got 0"):
        item_batches(items, 0)


@pytest.fixture
def saved(tmp_path):
    """A model, and how to load it."""
    model = tiny_model("concat-adj", dtype=torch.float32)
    model.save_pretrained(tmp_path)
    return model, ScorerSettings(str(tmp_path), threads=1)


def test_what_a_worker_does_gives_the_same_scores(saved):
    # fails if a worker loads another type of weights, or forgets how to score
    model, settings = saved
    items = sequences_of(model)
    batches = [[items[index] for index in batch] for batch in item_batches(items, 60)]
    sent = pickle.loads(pickle.dumps((replace(settings, normalize_length=True), batches)))
    contrastive_scorer._start_worker(sent[0])
    found = [contrastive_scorer._score_in_worker(batch) for batch in sent[1]]
    scorer = ContrastiveScorer(model, normalize_length=True)
    assert found == [scorer.score(batch) for batch in batches]


@pytest.mark.slow
def test_worker_processes_give_the_same_scores(saved):
    # fails if batches come back in the order in which they end
    model, settings = saved
    items = sequences_of(model)
    with WorkerPool(settings, 2) as pool:
        found = score_items(items, pool.score, max_tokens=60)
    assert found == scores_of(model, items, max_tokens=60)
