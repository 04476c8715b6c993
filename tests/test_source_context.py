"""Decoding of systems whose context is on the source side alone (Doc2Sent)."""

import pytest
import torch
from decoding_models import random_documents, tiny_model, translate


FORMAT = {"sequence_format": "source_context", "context_sentences": 2, "default_decoding": "sentence"}
INDEXED = {"use_sos": True, "indexed_separators": True, "decoder_start_token_id": 6}


@pytest.mark.parametrize("changes", [{}, INDEXED], ids=["plain", "indexed"])
def test_context_of_the_format_is_the_default_of_decoding(changes):
    """As many sentences out as in, and those of a sentence model that is asked for the context; fails without it."""
    documents = random_documents(7, 5)
    doc2sent = tiny_model("sentence-level", **FORMAT, **changes)
    sentence = tiny_model("sentence-level", **changes)
    for ours, theirs in zip(doc2sent.parameters(), sentence.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    output = translate(doc2sent, documents, num_beams=2)
    assert [len(sentences) for sentences in output.sentences] == [len(document) for document in documents]
    expected = translate(sentence, documents, num_beams=2, source_context_sentences=2)
    assert output.sentences == expected.sentences
    assert output.sentence_scores == expected.sentence_scores
    alone = translate(sentence, documents, num_beams=2)
    assert output.sentences != alone.sentences
    assert translate(doc2sent, documents, num_beams=2, source_context_sentences=0).sentences == alone.sentences


@pytest.mark.parametrize("decoding", ["counted", "free", "sequential"])
def test_modes_that_put_several_sentences_into_a_target_are_refused(decoding):
    model = tiny_model("sentence-level", **FORMAT)
    with pytest.raises(
        ValueError, match=f"decoding='{decoding}' puts several target sentences .* decoding='sentence'"
    ):
        translate(model, [[[30], [31]]], decoding=decoding)


def test_more_context_than_indexed_separators_is_an_error_that_names_the_limit():
    model = tiny_model("sentence-level", **FORMAT, **INDEXED, num_indexed_separators=2)
    with pytest.raises(ValueError, match="at most 3 sentences"):
        translate(model, [[[30]] * 5], source_context_sentences=4)
