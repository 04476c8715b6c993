"""Document decoding through `generate()`: what goes in and out, options, statuses, errors."""

import pytest
import torch
from decoding_models import FIRST_WORD, MODES, SLIDING, SYSTEMS, batch, tiny_model, translate
from transformers import GenerationConfig
from transformers.generation import LogitsProcessor, LogitsProcessorList, MaxLengthCriteria, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer

from modeling_docmt import DocMTForConditionalGeneration
from modeling_docmt.decoding_documents_docmt import DocumentJob, has_repetition, split_sentence
from modeling_docmt.decoding_options_docmt import DocumentOptions
from modeling_docmt.decoding_tasks_docmt import counted_windows, sequential_task
from modeling_docmt.formatting_docmt import Window


A, B, C, D = ([FIRST_WORD + place, FIRST_WORD + place + 6] for place in range(4))


def job_of(model, num_sentences: int) -> DocumentJob:
    return DocumentJob.from_sentences([[FIRST_WORD + n] for n in range(num_sentences)], [], model.config, 1)


def options_of(model, **given) -> DocumentOptions:
    return DocumentOptions.resolve(model.config, GenerationConfig(), given)


# ids in, ids out


def test_documents_of_no_one_and_two_sentences():
    model = tiny_model("concat-document")
    output = translate(model, [[], [A], [A, B]])
    assert [len(sentences) for sentences in output.sentences] == [0, 1, 2]
    assert output.sequences[0].tolist()[0] == model.config.decoder_start_token_id
    assert set(output.sequences[0].tolist()[1:]) == {model.config.pad_token_id}
    assert output.sequences[2].tolist().count(model.config.sep_token_id) == 1


def test_a_batch_without_text_never_calls_the_model(monkeypatch):
    model = tiny_model("concat-adj")
    monkeypatch.setattr(model, "forward", None)
    output = translate(model, [[[], []], []])
    assert output.sentences == [[[], []], []]
    assert output.sentence_status == [["empty", "empty"], []]
    assert output.sentence_scores == [[0.0, 0.0], []]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_empty_sentences_change_nothing_in_the_others(system, mode):
    model = tiny_model(system)
    [without] = translate(model, [[A, B, C]], max_sentence_tokens=6, **MODES[mode]).sentences
    [with_empty] = translate(model, [[[], A, [], [], B, C, []]], max_sentence_tokens=6, **MODES[mode]).sentences
    assert with_empty == [[], without[0], [], [], without[1], without[2], []]


@pytest.mark.parametrize("mode", ["sentence", "counted", "sequential", "growing"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_sentence_longer_than_a_part_is_split_and_rejoined(system, mode):
    model = tiny_model(system, max_part_tokens=8)
    long_sentence = [FIRST_WORD + place % 18 for place in range(30)]
    output = translate(model, [[A, long_sentence, B]], max_sentence_tokens=3, min_sentence_tokens=2, **MODES[mode])
    # 30 tokens in pieces of at most 7
    assert 10 <= len(output.sentences[0][1]) <= 15
    assert output.sentence_status[0][1] == "source_split"
    assert output.sentence_status[0][0] != "source_split" != output.sentence_status[0][2]


def test_pieces_of_a_long_sentence_are_of_nearly_equal_length():
    config = tiny_model("concat-document", max_part_tokens=11, train_ratio=0.5).config
    assert [len(piece) for piece in split_sentence(list(range(16)), config)] == [4, 4, 4, 4]
    assert [len(piece) for piece in split_sentence(list(range(5)), config)] == [5]
    assert split_sentence([], config) == []
    assert sum(split_sentence(list(range(23)), config), []) == list(range(23))


def test_a_document_with_more_sentences_than_indexed_separators():
    model = tiny_model("mr-doc2doc", max_part_tokens=None)
    document = [[FIRST_WORD + n % 18] for n in range(30)]
    for mode in ("counted", "sequential"):
        [sentences] = translate(model, [document], max_sentence_tokens=2, **MODES[mode]).sentences
        assert len(sentences) == 30


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_no_special_token_is_ever_generated(system, mode):
    model = tiny_model(system)
    config = model.config
    special = [config.bos_token_id, config.bod_token_id, config.sos_token_id, config.mask_token_id]
    special += [config.pad_token_id, *config.separator_ids(), config.eos_token_id]
    model.final_logits_bias[0, special] = 30.0
    for document in translate(model, [[A, B, C]], min_sentence_tokens=2, num_beams=2, **MODES[mode]).sentences:
        assert all(len(sentence) == 2 for sentence in document) or MODES[mode] == {"decoding": "free"}
        assert not {token for sentence in document for token in sentence} & set(special)


def test_a_model_that_starts_with_padding_like_marian():
    model = tiny_model("sentence-level", pad_token_id=39, decoder_start_token_id=39, eos_token_id=0, bos_token_id=None)
    documents = [[A, B, C], [D]]
    output = translate(model, documents, num_beams=2)
    assert output.sequences[:, 0].tolist() == [39, 39]
    assert output.sentences[1] == translate(model, [[D]], num_beams=2).sentences[0]
    assert 39 not in sum(sum(output.sentences, []), [])


# windows and contexts


def test_blocks_of_a_system_with_context_windows():
    model = tiny_model("concat-adj", context_sentences=2)
    assert counted_windows(job_of(model, 0), model.config) == []
    assert counted_windows(job_of(model, 2), model.config) == [Window(first=0, last=2, current=0, bod=True)]
    assert counted_windows(job_of(model, 3), model.config) == [Window(first=0, last=3, current=0)]
    assert counted_windows(job_of(model, 7), model.config) == [
        Window(first=0, last=3, current=0),
        Window(first=3, last=6, current=3),
        Window(first=4, last=7, current=6),
    ]


def test_sequential_windows_slide_behind_begin_of_document():
    model = tiny_model("concat-adj", context_sentences=1)
    sep, eos, bod = model.config.sep_token_id, model.config.eos_token_id, model.config.bod_token_id
    job = job_of(model, 3)
    options = options_of(model, decoding="sequential")
    first = sequential_task(job, range(3), 0, model.config, options).request
    assert first.source == [bod, sep, FIRST_WORD, eos]
    assert first.target_prefix == [bod, sep]
    assert set(first.rules[0].closing_tokens) == {sep, eos}
    job.translations[0] = DocumentJob.from_sentences([A], [B], model.config, 1).translations[0]
    second = sequential_task(job, range(3), 1, model.config, options).request
    assert second.source == [FIRST_WORD, sep, FIRST_WORD + 1, eos]
    assert second.target_prefix == [*B, sep]


def test_full_and_growing_source_of_whole_parts():
    model = tiny_model("mr-doc2doc")
    sos, eos = model.config.sos_token_id, model.config.eos_token_id
    job = DocumentJob.from_sentences([A, B, C], [D], model.config, 1)
    full = sequential_task(job, range(3), 1, model.config, options_of(model, decoding="sequential")).request
    assert full.source == [sos, *A, 10, *B, 11, *C, eos]
    assert full.target_prefix == [*D, 10]
    assert full.rules[0].closing_tokens == (11,)
    options = options_of(model, decoding="sequential", source_context="prefix")
    growing = sequential_task(job, range(3), 1, model.config, options).request
    assert growing.source == [sos, *A, 10, *B, eos]
    assert set(growing.rules[0].closing_tokens) == {11, eos}
    options = options_of(
        model,
        decoding="sequential",
        source_context="prefix",
        source_context_sentences=1,
        target_context_sentences=0,
    )
    short = sequential_task(job, range(3), 1, model.config, options).request
    assert (short.source, short.target_prefix) == ([sos, *A, 10, *B, eos], [])
    assert short.rules[0].closing_tokens == (eos,)


def test_source_context_changes_the_translation_of_a_sentence():
    model = tiny_model("concat-document")
    alone, other = [translate(model, [[first, B]], decoding="sentence").sentences[0][1] for first in (A, C)]
    assert alone == other
    options = {"decoding": "sentence", "source_context_sentences": 1}
    documents = [[[word], B] for word in range(FIRST_WORD, 40)]
    seen = {tuple(sentences[1]) for sentences in translate(model, documents, **options).sentences}
    assert len(seen) > 1


# given translations


@pytest.mark.parametrize("mode", ["sentence", "counted", "sequential", "growing"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_given_translations_stay_and_the_rest_follows_them(system, mode):
    model = tiny_model(system)
    documents = [[A, B, C, D], [C, A], [D]]
    free = translate(model, documents, **MODES[mode])
    prefix = [free.sentences[0][:2], [], [A]]
    output = translate(model, documents, target_prefix=prefix, **MODES[mode])
    # the model's own words as prefix change nothing, a document without prefix neither
    if mode != "counted" or system not in SLIDING:
        assert output.sentences[0] == free.sentences[0]
    assert output.sentences[0][:2] == free.sentences[0][:2]
    assert output.sentences[1] == free.sentences[1]
    assert output.sentences[2] == [A]
    assert output.sentence_scores[2] == [0.0]


def test_other_given_translations_lead_to_other_translations():
    model = tiny_model("concat-document")
    prefixes = [[[word]] for word in range(FIRST_WORD, 40)]
    output = translate(model, [[A, B]] * len(prefixes), target_prefix=prefixes, decoding="sequential")
    assert len({tuple(sentences[1]) for sentences in output.sentences}) > 1


# bounds, statuses, scores


@pytest.mark.parametrize("mode", ["sentence", "counted", "sequential", "growing"])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_sentences_keep_to_their_bounds(mode, num_beams):
    documents = [[A, B], [C]]
    endless = tiny_model("concat-document", closing_bias=-20.0)
    output = translate(endless, documents, max_sentence_tokens=4, num_beams=num_beams, **MODES[mode])
    assert [[len(sentence) for sentence in sentences] for sentences in output.sentences] == [[4, 4], [4]]
    assert output.sentence_status == [["hit_length_limit"] * 2, ["hit_length_limit"]]
    terse = tiny_model("concat-document", closing_bias=20.0)
    output = translate(terse, documents, min_sentence_tokens=3, num_beams=num_beams, **MODES[mode])
    assert [[len(sentence) for sentence in sentences] for sentences in output.sentences] == [[3, 3], [3]]
    output = translate(terse, documents, min_sentence_tokens=0, num_beams=num_beams, **MODES[mode])
    assert output.sentences == [[[], []], [[]]]
    # nothing is said, but something was generated: the closing tokens
    assert all(score < 0 for scores in output.sentence_scores for score in scores)


def test_the_default_bound_follows_the_source():
    model = tiny_model("sentence-level", closing_bias=-20.0)
    [sentences] = translate(model, [[[FIRST_WORD], [FIRST_WORD] * 9]]).sentences
    # 1.2 (1 + 1) + 10 and 1.2 (9 + 1) + 10, rounded up
    assert [len(sentence) for sentence in sentences] == [13, 22]


def test_free_decoding_reports_what_is_missing_and_what_was_joined():
    model = tiny_model("concat-document", closing_bias=0.0)
    model.final_logits_bias[0, model.config.eos_token_id] = 20.0
    [status] = translate(model, [[A, B, C]], decoding="free").sentence_status
    assert status[1:] == ["missing", "missing"]
    model.final_logits_bias[0, model.config.eos_token_id] = -20.0
    model.final_logits_bias[0, model.config.sep_token_id] = 20.0
    output = translate(model, [[A, B, C]], decoding="free")
    assert output.sentence_status[0][2] == "joined"
    assert len(output.sentences[0][2]) > 1


def test_repetition_is_an_ngram_four_times_in_a_row():
    assert has_repetition([7, 7, 7, 7])
    assert not has_repetition([7, 7, 7, 8, 7])
    assert has_repetition([1, 2, 3, 4] * 4)
    assert has_repetition([9, *([1, 2, 3] * 4), 5])
    assert not has_repetition([1, 2, 3, 4] * 3 + [1, 2, 3])
    assert not has_repetition([1, 2, 3, 4, 5] * 4)
    assert not has_repetition([])


def test_a_repeated_word_has_the_status_repetition():
    model = tiny_model("sentence-level")
    model.final_logits_bias[0, FIRST_WORD] = 20.0
    model.final_logits_bias[0, model.config.eos_token_id] = 40.0
    output = translate(model, [[A, B]], min_sentence_tokens=5)
    assert output.sentences[0] == [[FIRST_WORD] * 5] * 2
    assert output.sentence_status[0] == ["repetition"] * 2
    assert translate(model, [[A]], min_sentence_tokens=3).sentence_status[0] == ["ok"]


def test_no_repeat_ngram_size_looks_at_one_sentence():
    model = tiny_model("concat-document", closing_bias=-20.0)
    model.final_logits_bias[0, FIRST_WORD] = 20.0
    for mode in ("counted", "sequential", "growing"):
        [sentences] = translate(
            model, [[A, A, A]], no_repeat_ngram_size=1, max_sentence_tokens=4, **MODES[mode]
        ).sentences
        for sentence in sentences:
            # the favourite word once in every sentence
            assert sentence.count(FIRST_WORD) == 1
            assert len(set(sentence)) == len(sentence)


def test_a_stopping_criterion_of_the_caller_loses_no_sentence():
    model = tiny_model("concat-document", closing_bias=-20.0)
    stop = StoppingCriteriaList([MaxLengthCriteria(3)])
    for options in ({"decoding": "counted"}, {"decoding": "sequential"}):
        output = translate(model, [[A, B, C]], stopping_criteria=stop, **options)
        assert len(output.sentences[0]) == 3
        assert "ok" not in output.sentence_status[0]


def test_scores_are_there_only_where_asked_for_and_cost_no_pass():
    model = tiny_model("concat-document")
    calls = []
    model.register_forward_hook(lambda *arguments: calls.append(1))
    options = {**batch([[A]], model.config), "decoding": "counted"}
    model.generate(**options)
    num_plain = len(calls)
    model.generate(**options, return_dict_in_generate=True)
    assert len(calls) == 2 * num_plain


# stock options


def test_decoding_none_is_the_stock_generate():
    model = tiny_model("sentence-level")
    source = torch.tensor([[*A, model.config.eos_token_id]])
    ids = model.generate(input_ids=source, decoding=None, max_new_tokens=5, eos_token_id=None)
    assert ids.shape == (1, 6)
    output = model.generate(
        input_ids=source,
        decoding=None,
        max_new_tokens=5,
        num_beams=2,
        return_dict_in_generate=True,
        output_scores=True,
    )
    assert output.sequences_scores.shape == (1,)


def test_sentence_decoding_is_the_stock_beam_search_on_each_sentence():
    model = tiny_model("sentence-level", closing_bias=3.0)
    [sentences] = translate(model, [[A, B, C]], num_beams=3).sentences
    config = model.config
    banned = [config.pad_token_id, config.bos_token_id, config.bod_token_id, config.sos_token_id]
    banned += [config.mask_token_id, *config.separator_ids()]
    for source, sentence in zip((A, B, C), sentences, strict=True):
        ids = model.generate(
            input_ids=torch.tensor([[*source, config.eos_token_id]]),
            decoding=None,
            num_beams=3,
            max_new_tokens=15,
            min_new_tokens=1,
            suppress_tokens=banned,
        )
        assert ids[0, 1 : 1 + len(sentence)].tolist() == sentence


def test_options_come_from_the_call_the_config_given_the_model_and_the_system(tmp_path):
    model = tiny_model("concat-document", closing_bias=-20.0)
    ids = batch([[A, B]], model.config)

    def lengths(**options):
        output = model.generate(**ids, return_dict_in_generate=True, **options)
        return [len(sentence) for sentence in output.sentences[0]]

    assert lengths() == [14, 14]
    special = {"eos_token_id": 3, "pad_token_id": 1, "bos_token_id": 2, "decoder_start_token_id": 2}
    model.generation_config = GenerationConfig(decoding="sequential", max_sentence_tokens=5, **special)
    assert lengths() == [5, 5]
    assert lengths(generation_config=GenerationConfig(max_sentence_tokens=6, **special)) == [6, 6]
    assert lengths(max_sentence_tokens=7) == [7, 7]
    model.save_pretrained(tmp_path)
    model = DocMTForConditionalGeneration.from_pretrained(tmp_path)
    assert model.generation_config.decoding == "sequential"
    assert lengths() == [5, 5]


def test_a_trainer_may_pass_labels_and_decoder_inputs():
    model = tiny_model("concat-document")
    inputs = batch([[A, B], [C]], model.config)
    plain = model.generate(**inputs, num_beams=2)
    as_trainer = model.generate(
        **inputs,
        labels=torch.full((2, 9), -100),
        decoder_input_ids=torch.ones((2, 9), dtype=torch.long),
        num_beams=2,
        synced_gpus=False,
    )
    assert torch.equal(plain, as_trainer)


def test_lengths_of_stock_generation_configs_cut_nothing():
    model = tiny_model("concat-document", closing_bias=-20.0)
    document = [A, B, C]
    expected = translate(model, [document]).sentences
    model.generation_config.max_length = 4
    model.generation_config.forced_eos_token_id = model.config.eos_token_id
    assert translate(model, [document]).sentences == expected


def test_hypotheses_of_one_document():
    model = tiny_model("concat-document")
    best = translate(model, [[A, B]], num_beams=3, decoding="counted")
    output = translate(model, [[A, B]], num_beams=3, num_return_sequences=3, decoding="counted")
    assert output.sequences.shape[0] == len(output.sentences) == 3
    assert output.sentences[0] == best.sentences[0]
    assert len({tuple(map(tuple, sentences)) for sentences in output.sentences}) == 3
    for mode in ("sentence", "sequential", "growing"):
        output = translate(model, [[A, B]], num_beams=3, num_return_sequences=2, **MODES[mode])
        assert [len(sentences) for sentences in output.sentences] == [2, 2]
        assert output.sentence_scores[0][0] >= output.sentence_scores[1][0]


def test_sampling_gives_independent_translations_and_follows_the_seed():
    model = tiny_model("concat-document")
    options = {"do_sample": True, "num_return_sequences": 4, "decoding": "sequential"}
    torch.manual_seed(1)
    first = translate(model, [[A, B, C]], **options)
    torch.manual_seed(1)
    again = translate(model, [[A, B, C]], **options)
    assert first.sentences == again.sentences
    assert len({tuple(map(tuple, sentences)) for sentences in first.sentences}) > 1


class RecordingStreamer(BaseStreamer):
    """Keeps what it receives."""

    def __init__(self):
        self.received, self.is_ended = [], False

    def put(self, value):
        self.received.append(value.tolist())

    def end(self):
        self.is_ended = True


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("system", ["sentence-level", "concat-adj", "concat-document"])
def test_a_streamer_receives_whole_sentences_in_order(system, mode):
    model = tiny_model(system, max_part_tokens=8)
    document = [[], A, B, [], C, []]
    streamer = RecordingStreamer()
    options = {"num_beams": 2, "max_sentence_tokens": 5, **MODES[mode]}
    output = model.generate(
        **batch([document], model.config), streamer=streamer, return_dict_in_generate=True, batch_rows=2, **options
    )
    sep, eos = model.config.sep_token_id, model.config.eos_token_id
    ends = [sep] * (len(document) - 1) + [eos]
    expected = [[*sentence, end] for sentence, end in zip(output.sentences[0], ends, strict=True)]
    assert streamer.received == [[model.config.decoder_start_token_id], *expected]
    assert streamer.is_ended
    assert output.sentences == translate(model, [document], **options).sentences


class Favour(LogitsProcessor):
    """Raises one token above all others."""

    def __init__(self, token: int):
        self.token = token

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        scores[:, self.token] = 0
        return scores


def test_processors_of_the_caller_run_before_the_rules():
    model = tiny_model("concat-document")
    for token, expected in ((FIRST_WORD, FIRST_WORD), (model.config.bod_token_id, None)):
        output = translate(
            model,
            [[A, B]],
            logits_processor=LogitsProcessorList([Favour(token)]),
            min_sentence_tokens=2,
            num_beams=2,
        )
        words = {token for sentence in output.sentences[0] for token in sentence}
        assert (expected in words) if expected is not None else (token not in words)


# errors


@pytest.mark.parametrize(
    ("system", "options", "message"),
    [
        ("sentence-level", {"decoding": "sentences"}, "`decoding` must be one of 'sentence', 'counted'"),
        ("concat-document", {"source_context": "all"}, "`source_context` must be one of 'full', 'prefix'"),
        (
            "concat-document",
            {"max_sentence_tokens": 0},
            "`max_sentence_tokens` must be an integer of at least 1, got 0",
        ),
        ("concat-document", {"min_sentence_tokens": -1}, "`min_sentence_tokens` must be an integer of at least 0"),
        ("concat-document", {"batch_rows": 2.5}, "`batch_rows` must be an integer of at least 1, got 2.5"),
        ("concat-document", {"min_sentence_tokens": 5, "max_sentence_tokens": 4}, "must not exceed"),
        ("concat-document", {"decoding": "counted", "source_context_sentences": 1}, "got decoding='counted'"),
        ("concat-document", {"decoding": "sentence", "target_context_sentences": 1}, "use decoding='sequential'"),
        ("concat-document", {"decoding": "sequential", "source_context_sentences": 1}, "source_context='prefix'"),
        (
            "concat-adj",
            {"decoding": "sequential", "source_context_sentences": 1, "target_context_sentences": 2},
            "must not exceed `source_context_sentences`",
        ),
        ("concat-document", {"decoding": "counted", "source_context": "prefix"}, "does nothing with decoding="),
        ("concat-document", {"decoding": None, "max_sentence_tokens": 2}, "`max_sentence_tokens=2` does nothing"),
        ("concat-document", {"decoding": None, "alignment": "one2one"}, "`alignment='one2one'` centres the windows"),
        ("concat-document", {"reuse_cache": "no"}, "`reuse_cache` must be True or False, got 'no'"),
        ("concat-document", {"encoder_repetition_penalty": 1.5}, "`encoder_repetition_penalty=1.5` is not there"),
        ("concat-document", {"stop_strings": ["x"]}, "pass decoding=None"),
        ("concat-document", {"output_attentions": True}, "is not an option of `generate(decoding='counted')`. Pass"),
        ("window-attn", {"prompt_lookup_num_tokens": 2}, "Assisted decoding (`prompt_lookup_num_tokens`) needs"),
        ("concat-document", {"max_sentence_token": 3}, "Did you mean `max_sentence_tokens`?"),
        ("concat-document", {"assistant_model": 1}, "`assistant_model` is not an option"),
        ("concat-document", {"num_return_sequences": 2, "num_beams": 2}, "is for one document a call, got 2"),
        ("concat-document", {"target_prefix": [[]]}, "one entry a document, got 1 for 2"),
        ("concat-document", {"target_prefix": [[A, A, A], []]}, "gives 3 sentences of document 0, which has 1"),
        ("concat-document", {"target_prefix": [[[4]], []]}, "document 0, sentence 0, holds the special tokens [4]"),
        ("concat-document", {"decoding": None, "target_prefix": [[], []]}, "with decoding=None pass"),
        ("concat-document", {"attention_mask": torch.ones(2, 1)}, "`attention_mask` must have the shape"),
        ("concat-document", {"inputs": torch.ones((1, 2), dtype=torch.long)}, "not as both"),
        ("concat-document", {"streamer": RecordingStreamer()}, "`streamer` is for one translation of one document"),
    ],
)
def test_what_cannot_be_meant_is_refused(system, options, message):
    model = tiny_model(system)
    inputs = {**batch([[A], [B]], model.config), **options}
    with pytest.raises(ValueError) as error:
        model.generate(**inputs)
    assert message in str(error.value)


def test_embeddings_are_refused_with_the_reason():
    model = tiny_model("concat-document")
    with pytest.raises(ValueError, match="have no sentences"):
        model.generate(inputs_embeds=torch.zeros(1, 3, 16, dtype=torch.float64))


def test_more_hypotheses_than_beams_are_refused():
    model = tiny_model("concat-document")
    with pytest.raises(ValueError, match="num_return_sequences"):
        model.generate(**batch([[A]], model.config), num_return_sequences=3, num_beams=2)


def test_ignored_lengths_are_named(monkeypatch):
    from modeling_docmt import decoding_options_docmt

    warnings = []
    monkeypatch.setattr(decoding_options_docmt.logger, "warning_once", warnings.append)
    model = tiny_model("sentence-level")
    inputs = batch([[A]], model.config)
    model.generate(**inputs, max_new_tokens=3)
    model.generate(**inputs, generation_config=GenerationConfig(min_length=3))
    model.generate(**inputs, output_scores=True, return_dict_in_generate=True)
    assert [text.split(" on ")[0] for text in warnings] == [
        "`max_new_tokens` has no effect",
        "`min_length` has no effect",
        "`output_scores` has no effect",
    ]


def test_prompt_lookup_finds_what_greedy_search_finds_one_sequence_at_a_time():
    model = tiny_model("concat-document", dtype=torch.float32)
    documents = [[A, B], [B], [A, A]]
    expected = translate(model, documents)
    assert translate(model, documents, prompt_lookup_num_tokens=2).sentences == expected.sentences
