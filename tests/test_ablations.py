"""The ablation ladder of `global-local`: what each step sees, what it adds, and that it trains and translates."""

import pytest
import torch
from datasets import Dataset

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.documents_docmt import encode_sentences
from modeling_docmt.formatting_docmt import format_sequence
from modeling_docmt.sentences_docmt import target_sentence_ids
from training.ablations import ABLATION_LADDER, ablation_config, main, training_options
from training.arguments import parse_config_overrides
from training.data import TranslationCollator, encode_corpus
from training.trainer import translate_records


every_step = pytest.mark.parametrize("name", ABLATION_LADDER)


@pytest.fixture
def make_step(make_model):
    """A small model of a step, with all its layers."""

    def make(name, **changes):
        system, own = ABLATION_LADDER[name]
        return make_model(system, **{**own, "d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, **changes})

    return make


@every_step
def test_a_step_trains_and_translates_sentence_by_sentence(make_step, name, tokenizer, toy_documents):
    """Updates lower the loss, and N sentences give N; fails if a part of the model, such as its block, is not used."""
    model = make_step(name, dropout=0.0)
    config = model.config
    sequences = encode_corpus(Dataset.from_list(toy_documents[:3]), tokenizer, config)
    collate = TranslationCollator(
        config.pad_token_id, config.decoder_start_token_id, masks_decoder=config.has_intervals
    )
    batch = collate(list(sequences.select_columns(["input_ids", "labels"])))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    model.train()
    for _ in range(3):
        loss = model(**batch).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[0] > losses[1] > losses[2]
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    model.eval()
    [record] = [record for record in toy_documents if record["id"] == "lighthouse"]
    [translation] = translate_records(model, tokenizer, [record], max_sentence_tokens=4)
    assert len(translation) == len(record["src"]) == 4


# of a document of three sentences: those of the source and of the target that the second translation depends on
REACH = {
    "docnmt": ({0, 1, 2}, {0, 1}),
    "doc2sent": ({0, 1, 2}, {1}),
    "doc2sent-reset": ({0, 1, 2}, {1}),
    "doc2sent-segments": ({0, 1, 2}, {1}),
    "doc2sent-global": ({0, 1, 2}, {1}),
    "doc2sent-gate": ({0, 1, 2}, {1}),
    # what the sentence before has read of the source is remembered with it
    "sent2doc": ({0, 1}, {0, 1}),
    "global-local": ({0, 1, 2}, {0, 1}),
}


@pytest.mark.parametrize("name", REACH)
def test_a_step_sees_the_sentences_that_the_paper_shows_it(make_step, name, tokenizer):
    """Fails if a step of the source side has context in the decoder, or `sent2doc` in the encoder."""
    model = make_step(name, dtype=torch.float64)
    source, target = (
        encode_sentences(tokenizer, sentences)
        for sentences in (["The door is open.", "It was calm.", "He lit the lamp."], ["Die Tür.", "Es war.", "Er."])
    )

    def second_logits(source, target) -> torch.Tensor:
        source_ids = format_sequence(source, model.config)
        labels = format_sequence(target, model.config, source=False)
        inputs = torch.tensor([[model.config.decoder_start_token_id, *labels[:-1]]])
        outputs = model(input_ids=torch.tensor([source_ids]), decoder_input_ids=inputs, use_cache=False)
        return outputs.logits[0, target_sentence_ids(inputs, model.config)[0] == 1]

    def edited(sentences, place) -> list:
        other = [*sentences]
        # another first word
        other[place] = [sentences[place][0] + 1, *sentences[place][1:]]
        return other

    before = second_logits(source, target)
    found = (
        {place for place in range(3) if not torch.equal(second_logits(edited(source, place), target), before)},
        {place for place in range(3) if not torch.equal(second_logits(source, edited(target, place)), before)},
    )
    assert found == REACH[name]


# of base size, with four layers on each side
GLOBAL_LAYER, GATE, SEGMENTS, GAMMA = 3_152_384, 524_800, 20 * 512, 2 * 41 * 64
RECURRENCE = 4 * 512**2 + 2 * 512 - 32 * 512
ADDED = {
    "sentnmt": 0,
    "docnmt": 0,
    "doc2sent": 0,
    "doc2sent-reset": 0,
    "doc2sent-segments": SEGMENTS,
    "doc2sent-global": SEGMENTS + GLOBAL_LAYER + GAMMA,
    "doc2sent-gate": SEGMENTS + GLOBAL_LAYER + GAMMA + GATE,
    "sent2doc": RECURRENCE,
    "global-local": 4_725_888,
}


@every_step
def test_a_step_adds_the_parameters_that_it_names(name):
    """Fails if `sent2doc` keeps the global block, or if a decoder of sentences has no biases."""
    counts = []
    for step in ("sentnmt", name):
        with torch.device("meta"):
            counts.append(DocMTForConditionalGeneration(ablation_config(step, vocab_size=1000)).num_parameters())
    assert counts[1] - counts[0] == ADDED[name]


def test_the_encoder_differs_in_one_thing_from_step_to_step():
    fields = ("reset_encoder_positions", "segment_embeddings", "global_block", "global_gate", "encoder_self_attention")
    steps = [name for name in ABLATION_LADDER if name.startswith("doc2sent")]
    rows = [tuple(getattr(ablation_config(name), field) for field in fields) for name in steps]
    assert rows == [
        (False, None, "none", True, "dense"),
        (True, None, "none", True, "dense"),
        (True, 20, "none", True, "dense"),
        (True, 20, "full", False, "sentence"),
        (True, 20, "full", True, "sentence"),
    ]


@every_step
def test_the_options_of_training_are_those_of_the_step(name, capsys):
    """Fails if a value is not written as the command reads it."""
    _, system, *overrides = training_options(name)
    changes = parse_config_overrides(overrides[1] if overrides else None)
    assert (system, changes) == ABLATION_LADDER[name]
    assert DocMTConfig.from_system(system, **changes).to_dict() == ablation_config(name).to_dict()
    main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(ABLATION_LADDER)
    assert lines[list(ABLATION_LADDER).index(name)].endswith(" ".join(training_options(name)))


def test_a_step_that_is_none_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="`name` must be one of 'sentnmt', .*, got 'doc2doc'"):
        ablation_config("doc2doc")
