"""The search of document decoding finds what the stock `generate()` of Transformers finds, sequence by sequence."""

import itertools

import pytest
import torch
from decoding_models import MODES, SYSTEMS, random_documents, tiny_model, translate

from modeling_docmt import decoding_docmt, decoding_options_docmt, decoding_sequential_docmt, search_docmt


@pytest.fixture
def stock_search(monkeypatch):
    """Sends all decoding through the stock `generate()`."""

    def choose():
        for module in (decoding_docmt, decoding_sequential_docmt):
            monkeypatch.setattr(module, "is_supported", lambda search: False)

    return choose


OPTIONS = {
    "greedy": {},
    "beams": {"num_beams": 4},
    "beams, first found": {"num_beams": 3, "early_stopping": True},
    "beams, to the end": {"num_beams": 3, "early_stopping": "never", "length_penalty": 2.0},
    "beams, short ones": {"num_beams": 4, "length_penalty": -0.5},
    "beams, no penalty": {"num_beams": 2, "length_penalty": 0.0, "early_stopping": "never"},
    "renormalized": {"num_beams": 4, "renormalize_logits": True},
    "n-grams": {"num_beams": 3, "no_repeat_ngram_size": 2, "min_sentence_tokens": 4},
    "greedy n-grams": {"no_repeat_ngram_size": 1, "min_sentence_tokens": 6},
    "bad words": {"num_beams": 3, "bad_words_ids": [[25], [30, 31]]},
    "greedy bad words": {"bad_words_ids": [[25], [30, 31]], "repetition_penalty": 1.7},
    "repetition": {"num_beams": 3, "repetition_penalty": 1.7},
    "decay": {"num_beams": 3, "exponential_decay_length_penalty": (2, 1.5)},
    "suppressed": {"num_beams": 3, "suppress_tokens": [24, 26], "begin_suppress_tokens": [27, 28]},
    "bias": {"num_beams": 2, "sequence_bias": [[[23], 2.0], [[29, 30], -3.0]]},
}


ALL_OPTIONS = [("sentence-level", "sentence"), ("concat-adj", "counted"), ("concat-document", "sequential")]
SOME_OPTIONS = [
    ("concat-adj", "sequential"),
    ("concat-document", "counted"),
    ("concat-document", "free"),
    ("mr-doc2doc", "counted"),
    ("mr-doc2doc", "sequential"),
]


@pytest.mark.parametrize(
    ("system", "mode", "name"),
    [
        *((*pair, name) for pair in ALL_OPTIONS for name in OPTIONS),
        *((*pair, name) for pair in SOME_OPTIONS for name in ("greedy", "beams", "repetition")),
    ],
)
def test_a_batch_finds_what_stock_searches_find_one_by_one(system, mode, name, stock_search):
    # fails if a sequence stays or leaves too early, or if it sees processors at the length of another one
    model = tiny_model(system, seed=2, closing_bias=1.0)
    documents, options = random_documents(4, 7), OPTIONS[name]
    found = translate(model, documents, **MODES[mode], **options)
    stock_search()
    expected = translate(model, documents, **MODES[mode], **options, batch_rows=options.get("num_beams", 1))
    assert found.sentences == expected.sentences
    assert found.sentence_status == expected.sentence_status
    scores = [list(itertools.chain(*output.sentence_scores)) for output in (found, expected)]
    torch.testing.assert_close(*map(torch.tensor, scores), rtol=0, atol=1e-9)
    assert sum(map(len, itertools.chain(*found.sentences))) > 20


def assert_as_stock(model, documents, stock_search, **options) -> None:
    """What a batch finds is what stock searches find, documents by themselves."""
    found = translate(model, documents, **options)
    stock_search()
    expected = translate(model, documents, **options, batch_rows=options.get("num_beams", 1))
    assert found.sentences == expected.sentences
    assert found.sentence_status == expected.sentence_status
    scores = [list(itertools.chain(*output.sentence_scores)) for output in (found, expected)]
    torch.testing.assert_close(*map(torch.tensor, scores), rtol=0, atol=1e-9)
    assert len(set(map(tuple, itertools.chain(*found.sentences)))) > 2, "outputs must differ"


INTERVAL_SYSTEMS = {
    "lst-attn": {},
    "window-attn": {},
    "window-attn, r in cross-attention": {"relative_cross": True},
    "p-transformer": {},
    "p-transformer, windows": {
        "encoder_self_attention": "window",
        "decoder_self_attention": "window",
        "window_size": 3,
    },
    "g-transformer": {},
    "global-local": {"memory_sentences": 2},
    "g-transformer, gates in all layers": {"global_layers": 2, "position_aware_cross": True},
}
LONG_DOCUMENTS = [document for document in random_documents(5, 6, lengths=(0, 1, 3, 6)) if len(document) > 1][:3]


@pytest.mark.parametrize("options", ["greedy", "beams"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("system", INTERVAL_SYSTEMS)
def test_attention_within_intervals_finds_what_the_stock_search_finds(system, mode, options, stock_search):
    # fails if a mask of a step is not the row of the mask of the whole target that it stands for
    model = tiny_model(system.partition(",")[0], seed=1, **INTERVAL_SYSTEMS[system])
    assert_as_stock(model, LONG_DOCUMENTS, stock_search, max_sentence_tokens=7, **MODES[mode], **OPTIONS[options])


@pytest.mark.parametrize("alignment", ["one2one", "ratio", "sent-align", "clipped"])
@pytest.mark.parametrize("mode", ["counted", "sequential", "growing"])
def test_every_alignment_finds_what_the_stock_search_finds(mode, alignment, stock_search):
    # fails if centres count from the start of the stretch, or if beams share those of the first one
    is_clipped = alignment == "clipped"
    model = tiny_model("window-attn", seed=1, window_size=1, train_ratio=1.4, clip_alignment=is_clipped)
    chosen = "sent-align" if is_clipped else alignment
    options = {"alignment": chosen, "num_beams": 3, "max_sentence_tokens": 7, **MODES[mode]}
    assert_as_stock(model, LONG_DOCUMENTS, stock_search, **options)


def test_alignments_lead_to_different_translations():
    model = tiny_model("window-attn", seed=3, window_size=0, train_ratio=1.4)
    documents = random_documents(6, 6, lengths=(4, 7))
    outputs = [translate(model, documents, alignment=name).sentences for name in ("one2one", "ratio", "sent-align")]
    assert len(set(map(str, outputs))) == 3
    assert outputs[2] == translate(model, documents).sentences


@pytest.mark.parametrize(
    ("system", "mode"),
    [
        ("concat-document", "counted"),
        ("concat-document", "sequential"),
        ("concat-document", "growing"),
        ("lst-attn", "sequential"),
        ("window-attn", "counted"),
        ("window-attn", "sequential"),
    ],
)
def test_all_ranks_are_those_of_the_stock_search(system, mode, stock_search):
    model = tiny_model(system, seed=3)
    document = random_documents(5, 1, lengths=(3, 5))
    options = {**MODES[mode], "num_beams": 4, "num_return_sequences": 3}
    found = translate(model, document, **options)
    stock_search()
    expected = translate(model, document, **options)
    assert found.sentences == expected.sentences
    assert len(set(map(str, found.sentences))) == 3
    for scores, others in zip(found.sentence_scores, expected.sentence_scores, strict=True):
        assert scores == pytest.approx(others, abs=1e-9)


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize(
    ("system", "mode"),
    [
        ("concat-document", "sentence"),
        ("concat-document", "counted"),
        ("concat-document", "sequential"),
        ("lst-attn", "counted"),
        ("window-attn", "sequential"),
    ],
)
def test_sequences_that_take_the_places_of_others_are_searched_alike(system, mode, num_beams):
    # fails if a column of the former owner of a place stays visible
    model = tiny_model(system, seed=5, closing_bias=0.5)
    documents = random_documents(9, 12, lengths=(1, 2, 9))
    together = translate(model, documents, num_beams=num_beams, **MODES[mode])
    in_turn = translate(model, documents, num_beams=num_beams, **MODES[mode], batch_rows=2 * num_beams)
    alone = translate(model, documents, num_beams=num_beams, **MODES[mode], batch_rows=num_beams)
    assert together.sentences == in_turn.sentences == alone.sentences
    assert len({len(sentence) for sentence in itertools.chain(*alone.sentences)}) > 3


@pytest.mark.parametrize("num_beams", [1, 3])
def test_sampling_draws_from_what_the_processors_leave(num_beams):
    model = tiny_model("concat-document", seed=5)
    documents = random_documents(9, 6)
    torch.manual_seed(0)
    options = {"do_sample": True, "num_beams": num_beams, "decoding": "sequential"}
    sampled = translate(model, documents, top_k=8 if num_beams > 1 else 1, **options)
    again = translate(model, documents, top_k=8 if num_beams > 1 else 1, **options)
    assert [len(document) for document in sampled.sentences] == [len(document) for document in documents]
    if num_beams == 1:
        # one token is left
        greedy = translate(model, documents, decoding="sequential")
        assert sampled.sentences == again.sentences == greedy.sentences
    else:
        assert sampled.sentences != again.sentences


@pytest.mark.parametrize("options", [{"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 3, "num_beams": 4}])
@pytest.mark.parametrize(("system", "mode"), [("sentence-level", "sentence"), ("concat-document", "sequential")])
def test_sampling_goes_on_beside_a_sequence_that_is_over(system, mode, options):
    """Fails if draws are from a sequence behind its end, of which n-grams and lengths leave no token."""
    documents = [[[22, 28]], *[[list(range(22, 40))]] * 7]
    model = tiny_model(system, closing_bias=-20.0)
    torch.manual_seed(0)
    found = translate(model, documents, do_sample=True, decoding=mode, **options)
    assert all(len(sentence) > 0 for document in found.sentences for sentence in document)


@pytest.mark.parametrize("reuse_cache", [True, False])
def test_a_long_document_bounds_the_rows_beside_it_as_long_as_it_is_there(reuse_cache, monkeypatch):
    """Fails if it is forgotten when it goes on with its next sentence."""
    rows, tokens = 32, 400
    monkeypatch.setattr(decoding_options_docmt, "DEFAULT_ROWS", rows)
    monkeypatch.setattr(decoding_options_docmt, "DEFAULT_ROW_TOKENS", tokens)
    seen = []
    step = search_docmt.DocumentSearch.step

    def watched(search):
        seen.append((len(search.slots), search.cache.source.states.shape[-2] if search.slots else 0))
        return step(search)

    monkeypatch.setattr(search_docmt.DocumentSearch, "step", watched)
    documents = [[list(range(22, 40))] * 5] * 4 + [[[30, 31], [32]]] * 40
    model = tiny_model("concat-document", max_part_tokens=None)
    translate(model, documents, decoding="sequential", max_sentence_tokens=3, reuse_cache=reuse_cache)
    assert max(count for count, _ in seen) > tokens // 95  # short ones by themselves are more
    assert max(count * longest for count, longest in seen) <= tokens


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("system", SYSTEMS)
def test_autocast_translates_all_sentences(system, num_beams):
    model = tiny_model(system, dtype=torch.float32)
    documents = random_documents(3, 4)
    for mode in ("counted", "sequential"):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = translate(model, documents, num_beams=num_beams, decoding=mode)
        assert [len(document) for document in found.sentences] == [len(document) for document in documents]


@pytest.mark.parametrize(
    ("system", "alignment"),
    [
        ("lst-attn", None),
        ("window-attn", None),
        ("window-attn", "one2one"),
    ],
)
def test_the_stock_generate_on_formatted_sequences_takes_the_best_token_of_each_pass(system, alignment):
    # fails if steps see no source ids, or take another alignment than the one asked for
    options = {} if alignment is None else {"alignment": alignment}
    model = tiny_model(system, seed=1, window_size=1)
    source = torch.tensor([[30, 31, 4, 32, 33, 34, 35, 4, 36, 3]])
    ids = [model.config.decoder_start_token_id]
    for _ in range(9):
        logits = model(input_ids=source, decoder_input_ids=torch.tensor([ids]), use_cache=False, **options).logits
        ids.append(int(logits[0, -1].argmax()))
    found = model.generate(
        input_ids=source, decoding=None, use_cache=False, max_new_tokens=9, eos_token_id=None, **options
    )
    assert found.tolist() == [ids]
