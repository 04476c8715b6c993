"""Facts that hold in every way of decoding (INV-F1 to F6 of the equations, and the independence of the batch)."""

import itertools

import pytest
import torch
from decoding_models import FIRST_WORD, MODES, SLIDING, SYSTEMS, batch, random_documents, tiny_model, translate

from modeling_docmt import source_reader_docmt
from modeling_docmt.formatting_docmt import Window, context_window, format_sequence
from modeling_docmt.search_docmt import DocumentSearch


# systems whose sequences are parts of documents
WHOLE_PARTS = [system for system in SYSTEMS if system not in ("sentence-level", *SLIDING)]


def assert_same_translation(first, second, tolerance: float = 1e-10) -> None:
    assert first.sentences == second.sentences
    assert first.sentence_status == second.sentence_status
    scores = [list(itertools.chain(*output.sentence_scores)) for output in (first, second)]
    torch.testing.assert_close(*map(torch.tensor, scores), rtol=0, atol=tolerance)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("system", WHOLE_PARTS)
def test_kept_decoder_states_give_what_recomputing_gives(system, num_beams):
    # fails if holes are counted as positions, or if short sentences are padded on the right
    for seed in range(2):
        model = tiny_model(system, seed=seed)
        documents = random_documents(seed, 5)
        options = {"decoding": "sequential", "num_beams": num_beams}
        kept = translate(model, documents, **options)
        recomputed = translate(model, documents, reuse_cache=False, **options)
        assert_same_translation(kept, recomputed)


@pytest.mark.parametrize("system", WHOLE_PARTS)
def test_greedy_sequential_decoding_equals_counted_decoding(system):
    # fails if the closing token that is due is off by one in either mode
    num_compared = 0
    for seed in range(4):
        model = tiny_model(system, seed=seed)
        documents = random_documents(seed, 4)
        sequential = translate(model, documents, decoding="sequential", min_sentence_tokens=0)
        counted = translate(model, documents, decoding="counted", min_sentence_tokens=0)
        assert_same_translation(sequential, counted)
        num_compared += sum(len(set(map(tuple, sentences))) > 1 for sentences in counted.sentences)
    assert num_compared > 3, "documents with different sentences are needed to say anything"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_as_many_sentences_come_out_as_went_in(system, mode):
    # fails if surplus sentences are not joined, or if empty sentences enter the model
    documents = [[], [[]], [[], []], *random_documents(7, 3)]
    # one model that never ends a sentence, one that ends each at once
    for closing_bias in (-5.0, 12.0):
        model = tiny_model(system, closing_bias=closing_bias)
        output = translate(model, documents, num_beams=2, max_sentence_tokens=5, **MODES[mode])
        for document, sentences, scores, status, alignment in zip(
            documents,
            output.sentences,
            output.sentence_scores,
            output.sentence_status,
            output.alignment,
            strict=True,
        ):
            assert len(document) == len(sentences) == len(scores) == len(status) == len(alignment)
            assert [not sentence for sentence in document] == [name == "empty" for name in status]


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("system", WHOLE_PARTS)
def test_one_sentence_is_the_same_in_all_modes(system, num_beams):
    # fails if sequential decoding ends the last sentence with a separator
    model = tiny_model(system)
    is_indexed = model.config.indexed_separators
    separator = model.config.first_separator_token_id if is_indexed else model.config.sep_token_id
    for document in random_documents(3, 4, most_sentences=1, lengths=(1, 4, 7)):
        counted = translate(model, [document], decoding="counted", num_beams=num_beams)
        full = translate(model, [document], decoding="sequential", num_beams=num_beams)
        growing = translate(
            model,
            [document],
            decoding="sequential",
            source_context="prefix",
            suppress_tokens=[separator],
            num_beams=num_beams,
        )
        assert_same_translation(full, counted)
        assert_same_translation(growing, counted)


@pytest.mark.parametrize("decoding", ["counted", "sequential"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_beam_of_the_whole_vocabulary_finds_the_best_sentence_of_one_token(system, decoding):
    """
    INV-F5.

    Fails if scores are divided by a length that leaves out the closing token, if a search goes on from another
    sentence than the best one, or if a window lacks its context.
    """
    model = tiny_model(system, closing_bias=0.0, max_part_tokens=None)
    document = [[FIRST_WORD, FIRST_WORD + 3], [FIRST_WORD + 7], [FIRST_WORD + 1] * 3]
    # counted decoding searches all sentences at once, which are more choices than the beam has places
    document = document if decoding == "sequential" else document[:1]
    # where the source ends with the sentence, both may end its translation
    closers = (4, 3) if system in SLIDING and decoding == "sequential" else ()
    options = {"max_sentence_tokens": 1, "length_penalty": 1.0, "early_stopping": False}
    output = translate(model, [document], decoding=decoding, num_beams=model.config.vocab_size, **options)
    for index, sentence in enumerate(output.sentences[0]):
        scores = scores_of_one_token(model, document, output.sentences[0][:index], closers)
        best = max(scores, key=lambda word: scores[word])
        assert sentence == [best]
        assert output.sentence_scores[0][index] == pytest.approx(scores[best], abs=1e-10)


def scores_of_one_token(model, source: list, translated: list, closers: tuple) -> dict[int, float]:
    """
    Mean log-probability of each word and its closing token as the sentence behind those that are translated.

    The best of `closers` closes it, or where there are none, the token that the format has in its place.
    """
    config, index = model.config, len(translated)
    window = {
        "sentence": Window(index, index + 1, index),
        "context_window": context_window(index, config.context_sentences),
        "document": Window(0, len(source), index),
    }[config.sequence_format]
    source_ids = format_sequence(source[window.first : window.last], config, bod=window.bod)
    # words are all of the vocabulary that is no special token: <unk> and the spares too
    words = [token for token in range(config.vocab_size) if token not in special_tokens(config)]
    rows = []
    for word in words:
        sentences = [*translated[window.first :], [word], *source[index + 1 : window.last]]
        rows.append(format_sequence(sentences, config, bod=window.bod, source=False))
    # of the word in the target, behind <bod> and its separator and what is translated
    place = 2 * window.bod + sum(len(sentence) + 1 for sentence in translated[window.first :])
    with torch.no_grad():
        log_probs = model(
            input_ids=torch.tensor([source_ids] * len(rows)),
            decoder_input_ids=torch.tensor([[config.decoder_start_token_id, *row[: place + 1]] for row in rows]),
            use_cache=False,
        ).logits.log_softmax(-1)
    closings = list(closers) or [rows[0][place + 1]]
    return {
        word: (log_probs[i, place, word] + log_probs[i, place + 1, closings].max()).item() / 2
        for i, word in enumerate(words)
    }


def special_tokens(config) -> set:
    return {
        config.pad_token_id,
        config.bos_token_id,
        config.eos_token_id,
        config.bod_token_id,
        config.sos_token_id,
        config.mask_token_id,
        *config.separator_ids(),
    }


@pytest.mark.parametrize("closing_bias", [-5.0, 2.5])
@pytest.mark.parametrize("mode", ["sentence", "counted", "sequential", "growing"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_beam_score_is_the_score_under_the_model(system, mode, closing_bias, monkeypatch):
    # fails if a rule renormalises, or if a forced token counts 0 (with a bias of -5 all ends are forced)
    beam_scores = []
    hypotheses = DocumentSearch._hypotheses

    def spy(self, index):
        ranked = hypotheses(self, index)
        beam_scores.append(ranked[0].score)
        return ranked

    monkeypatch.setattr(DocumentSearch, "_hypotheses", spy)
    model = tiny_model(system, closing_bias=closing_bias)
    [document] = random_documents(5, 1, lengths=(1, 3, 5))
    # one part and no context, so that each search is one sum over what is kept
    document = document[: model.config.context_sentences + 1] if system in SLIDING else document
    assert len(document) > 1
    output = translate(model, [document], num_beams=3, length_penalty=0.7, max_sentence_tokens=6, **MODES[mode])
    lengths = [len(sentence) + 1 for sentence in output.sentences[0]]
    sums = [score * length**0.7 for score, length in zip(output.sentence_scores[0], lengths, strict=True)]
    if mode == "counted" and system != "sentence-level" and len(beam_scores) == 1:
        assert beam_scores == pytest.approx([sum(sums) / sum(lengths) ** 0.7])
    else:
        assert sorted(beam_scores) == pytest.approx(sorted(output.sentence_scores[0]))


def plain_scores(model, source: list, sentences: list, alignment: str | None) -> list[float]:
    """Mean log-probability of each target sentence with its closing token, by one pass over the whole document."""
    config = model.config
    source_ids, target = format_sequence(source, config), format_sequence(sentences, config, source=False)
    inputs = [config.decoder_start_token_id, *target[:-1]]
    with torch.no_grad():
        log_probs = (
            model(
                input_ids=torch.tensor([source_ids]),
                decoder_input_ids=torch.tensor([inputs]),
                alignment=alignment,
                use_cache=False,
            )
            .logits[0]
            .log_softmax(-1)
        )
    scores, place = [], 0
    for sentence in sentences:
        tokens = target[place : place + len(sentence) + 1]
        scores.append(sum(log_probs[place + i, token].item() for i, token in enumerate(tokens)) / len(tokens))
        place += len(tokens)
    return scores


ALIGNED_SYSTEMS = [
    *((system, None) for system in WHOLE_PARTS),
    *((system, name) for system in WHOLE_PARTS if "window" in system for name in ("one2one", "ratio")),
]


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("mode", ["counted", "sequential"])
@pytest.mark.parametrize(("system", "alignment"), ALIGNED_SYSTEMS)
def test_teacher_forcing_gives_the_scores_of_decoding(system, alignment, mode, num_beams):
    """INV-F6: fails if a window of a step is not centred as in training, or if forgotten keys were needed."""
    model = tiny_model(system, max_part_tokens=None, closing_bias=1.0, train_ratio=1.3)
    documents = [document for document in random_documents(23, 4, most_sentences=7, lengths=(1, 4, 9)) if document]
    options = {} if alignment is None else {"alignment": alignment}
    output = translate(model, documents, num_beams=num_beams, **options, **MODES[mode])
    for source, sentences, scores in zip(documents, output.sentences, output.sentence_scores, strict=True):
        assert scores == pytest.approx(plain_scores(model, source, sentences, alignment), abs=1e-10)


@pytest.mark.parametrize("decoding", ["counted", "free", "sequential"])
@pytest.mark.parametrize("alignment", ["one2one", "ratio", "sent-align"])
def test_a_source_read_in_pieces_is_translated_like_one_read_at_once(alignment, decoding, monkeypatch):
    # fails if a piece lacks context on a side, or if a query looks beyond it
    model = tiny_model("window-attn", max_part_tokens=None, closing_bias=1.0, train_ratio=0.8, encoder_layers=2)
    documents = random_documents(29, 2, most_sentences=9, lengths=(1, 4, 9))
    options = {"alignment": alignment, "decoding": decoding, "num_beams": 2}
    at_once = translate(model, documents, **options)
    monkeypatch.setattr(source_reader_docmt, "PIECE_TOKENS", 1)
    assert_same_translation(translate(model, documents, **options), at_once)


MIXED_KINDS = [
    ("window", "window", "dense"),
    ("window", "dense", "window"),
    ("dense", "window", "window"),
    ("long_short_term", "window", "window"),
    ("window", "long_short_term", "dense"),
    ("dense", "long_short_term", "window"),
    ("window", "sentence", "sentence"),
    ("sentence", "window", "window"),
]


@pytest.mark.parametrize("kinds", MIXED_KINDS, ids="-".join)
def test_mixed_kinds_of_attention_decode_alike_with_and_without_kept_states(kinds):
    """INV-F1, F2, F6."""
    places = ("encoder_self_attention", "decoder_self_attention", "cross_attention")
    position = "relative" if kinds[:2] == ("window", "window") else "sinusoidal"
    changes = dict(zip(places, kinds, strict=True)) | {"position_encoding": position, "max_part_tokens": None}
    model = tiny_model("window-attn", closing_bias=1.0, **changes)
    documents = [document for document in random_documents(31, 4, lengths=(1, 4)) if document]
    kept = translate(model, documents, decoding="sequential", min_sentence_tokens=0)
    again = translate(model, documents, decoding="sequential", min_sentence_tokens=0, reuse_cache=False)
    assert_same_translation(kept, again)
    assert_same_translation(kept, translate(model, documents, decoding="counted", min_sentence_tokens=0))
    for source, sentences, scores in zip(documents, kept.sentences, kept.sentence_scores, strict=True):
        assert scores == pytest.approx(plain_scores(model, source, sentences, None), abs=1e-10)


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("w", [0, 1, 3, 50])
def test_windows_keep_the_keys_that_a_later_token_may_see_and_no_others(w, num_beams, monkeypatch):
    """INV-F1: fails if committed keys are counted from the wrong end, or if the current stretch is kept."""
    model = tiny_model("window-attn", window_size=w, max_part_tokens=None, closing_bias=1.0)
    seen = []
    turn_over = DocumentSearch.turn_over

    def spy(self, *arguments, **options):
        turn_over(self, *arguments, **options)
        if self.slots:
            cache = self.cache
            current = (cache.width - cache.starts).max()
            seen.append((cache.committed.width, int(cache.committed_ends.max()), int(current)))

    monkeypatch.setattr(DocumentSearch, "turn_over", spy)
    document = [[FIRST_WORD + place] * 3 for place in range(8)]
    options = {"decoding": "sequential", "num_beams": num_beams, "min_sentence_tokens": 2}
    kept = translate(model, [document], **options)
    # one change of the sequences a sentence, the last one to an empty search
    assert len(seen) == len(document)
    for sentence, (width, end, current) in enumerate(seen):
        # the last token of a sentence, its separator, is the first that the next step reads
        written = sum(len(ids) + 1 for ids in kept.sentences[0][:sentence])
        assert (width, end, current) == (min(written, w), written, 0)
    assert written > 16
    assert_same_translation(kept, translate(model, [document], reuse_cache=False, **options))


@pytest.mark.parametrize(
    ("system", "mode"),
    [
        ("sentence-level", "sentence"),
        ("concat-adj", "counted"),
        ("concat-adj", "sequential"),
        ("gated-adj", "sequential"),
        ("concat-document", "counted"),
        ("concat-document", "free"),
        ("concat-document", "sequential"),
        ("concat-document", "growing"),
        ("mr-doc2doc", "doc2sent"),
        ("mr-doc2doc", "sequential"),
        ("p-transformer", "counted"),
        ("p-transformer", "growing"),
        ("g-transformer", "counted"),
        ("g-transformer", "sequential"),
        ("lst-attn", "counted"),
        ("lst-attn", "sequential"),
        ("window-attn", "counted"),
        ("window-attn", "sequential"),
        ("window-attn", "growing"),
        ("window-sinusoidal", "free"),
    ],
)
def test_a_document_is_translated_the_same_in_any_batch(system, mode):
    # fails if rows are bounded by the longest of the batch, or if padding on the left is attended
    model = tiny_model(system, seed=1)
    documents = random_documents(11, 16)
    options = {"num_beams": 4, **MODES[mode]}
    together = translate(model, documents, **options)
    assert len({tuple(map(tuple, sentences)) for sentences in together.sentences}) > 8, "outputs must differ"
    alone = [translate(model, [document], **options) for document in documents[:4]]
    assert [output.sentences[0] for output in alone] == together.sentences[:4]
    scores = [value for output in alone for value in output.sentence_scores[0]]
    assert scores == pytest.approx(list(itertools.chain(*together.sentence_scores[:4])), abs=1e-10)
    threes = [translate(model, documents[start : start + 3], **options) for start in (0, 3)]
    assert [sentences for output in threes for sentences in output.sentences] == together.sentences[:6]


@pytest.mark.parametrize("mode", ["counted", "sequential", "growing"])
def test_the_bound_of_an_internal_batch_changes_nothing(mode):
    model = tiny_model("concat-document", seed=1)
    documents = random_documents(12, 5)
    options = {"num_beams": 2, **MODES[mode]}
    assert_same_translation(
        translate(model, documents, batch_rows=4, **options), translate(model, documents, **options)
    )


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("mode", ["sentence", "sequential"])
def test_every_stopping_rule_of_beam_search_is_independent_of_the_batch(mode, early_stopping):
    # "never" compares with the bound of the whole call, which is longer than that of a short sentence; fails if the
    # rules let a sentence grow beyond its own
    model = tiny_model("concat-document", seed=2, closing_bias=1.0)
    documents = [[[FIRST_WORD + place]] for place in range(0, 18, 3)] + [[list(range(FIRST_WORD, 40)) * 2]]
    options = {"num_beams": 2, "early_stopping": early_stopping, "length_penalty": 2.0, **MODES[mode]}
    together = translate(model, documents, **options)
    for document, sentences in zip(documents, together.sentences, strict=True):
        assert translate(model, [document], **options).sentences == [sentences]


@pytest.mark.parametrize("system", SYSTEMS)
def test_single_precision_agrees_with_double_precision(system):
    documents = random_documents(17, 3)
    double = translate(tiny_model(system), documents, num_beams=2)
    single = translate(tiny_model(system, dtype=torch.float32), documents, num_beams=2)
    assert_same_translation(single, double, tolerance=1e-4)


@pytest.mark.parametrize("mode", ["counted", "sequential", "growing"])
def test_sequences_hold_the_sentences(mode):
    model = tiny_model("concat-document")
    documents = random_documents(19, 4)
    output = translate(model, documents, **MODES[mode])
    plain = model.generate(**batch(documents, model.config), **MODES[mode])
    assert plain.dtype == torch.long
    assert torch.equal(plain, output.sequences)
    expected = batch(output.sentences, model.config)["input_ids"]
    assert torch.equal(plain[:, 0], torch.full((4,), model.config.decoder_start_token_id))
    assert torch.equal(plain[:, 1:], expected)
