import pytest
import torch

from modeling_docmt import DocMTConfig
from training.focus_words import FocusWords, read_weights, word_tokens


# words that are one token in the vocabulary of the toy documents
WEIGHTS = {"der": 8.0, "die": 3.0}


@pytest.fixture
def config(tokenizer):
    return DocMTConfig.from_system(
        "concat-document",
        vocab_size=len(tokenizer),
        sep_token_id=tokenizer.sep_token_id,
        first_separator_token_id=None,
    )


def row(tokenizer, text, target=False):
    """Ids of sentences with `|` between them, and the end."""
    ids = []
    for sentence in text.split(" | "):
        side = {"text_target" if target else "text": sentence}
        ids += [*tokenizer(**side, add_special_tokens=False)["input_ids"], tokenizer.sep_token_id]
    return torch.tensor([[*ids[:-1], tokenizer.eos_token_id]])


def test_words_count_more_in_sentences_whose_source_has_the_word_and_nowhere_else(tokenizer, config):
    """Fails if sentences are counted otherwise on one side, or a row is looked at as a whole."""
    source = row(tokenizer, "Is | The bo is | bo")
    labels = row(tokenizer, "der | die bo der | der", target=True)
    labels = torch.cat((labels, torch.tensor([[-100]])), dim=1)
    weights = FocusWords(WEIGHTS, ["the"], config, tokenizer)(source, labels)
    tokens = [tokenizer.convert_ids_to_tokens(int(token)) if token >= 0 else "" for token in labels[0]]
    separator = tokens.index("<sep>")
    expected = [1.0] * len(tokens)
    second = tokens.index("Ġdie")
    expected[second] = 3.0
    expected[second + 1 + tokens[second + 1 :].index("Ġder")] = 8.0
    assert separator < second and weights.tolist() == [expected]


def test_a_target_alone_is_that_of_the_last_source_sentence(tokenizer, config):
    """Fails if the first sentence of a source with context is looked at for the one target sentence."""
    config.sequence_format = "source_context"
    focus = FocusWords(WEIGHTS, ["the"], config, tokenizer)
    labels = row(tokenizer, "die bo", target=True).repeat(3, 1)
    sources = [row(tokenizer, text)[0] for text in ("bo | the", "the | bo", "the")]
    input_ids = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=config.pad_token_id)
    assert focus(input_ids, labels).amax(dim=1).tolist() == [3.0, 1.0, 3.0]


def test_without_source_words_they_count_more_everywhere(tokenizer, config):
    labels = row(tokenizer, "der | und der", target=True)
    weights = FocusWords(WEIGHTS, [], config, tokenizer)(row(tokenizer, "bo | bo"), labels)
    assert sorted(weights[0].tolist())[-3:] == [1.0, 8.0, 8.0]


def test_both_ways_of_writing_a_word_are_meant(tokenizer):
    found = word_tokens("the", tokenizer, target=False)
    assert sorted(tokenizer.convert_ids_to_tokens(found)) == sorted(["Ġthe", "ĠThe"])


@pytest.mark.parametrize(
    ("weights", "source_words", "message"),
    [
        ({"xylophon": 2.0}, [], "'xylophon' is no single token"),
        ({"der": 0.0}, [], "positive weights, got der=0.0"),
        ({"der": 2.0}, ["xylophon"], "'xylophon' is no single token"),
    ],
)
def test_words_that_cannot_be_found_and_weights_without_sense_are_refused(
    tokenizer, config, weights, source_words, message
):
    with pytest.raises(ValueError, match=message):
        FocusWords(weights, source_words, config, tokenizer)


def test_weights_are_read_from_one_line():
    assert read_weights("er=12, sie=6,es=2.5") == {"er": 12.0, "sie": 6.0, "es": 2.5}
    assert read_weights(None) == {}
    with pytest.raises(ValueError, match="word=weight.*got 'er'"):
        read_weights("er")
