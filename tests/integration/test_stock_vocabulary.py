"""`resize_token_embeddings`: a vocabulary that grows or shrinks keeps logits, ties, output bias and translations."""

import pytest
import torch
from decoding_models import batch, tiny_model

from modeling_docmt import DocMTForConditionalGeneration


DOCUMENTS = [[[22, 23], [24]], [[25, 26, 27]], [[28], [29, 30], [31]]]
OLD = 40
NEVER = -1e4


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def tied(request) -> bool:
    return request.param


@pytest.mark.parametrize("system", ["sentence-level", "window-attn"])
@pytest.mark.parametrize(("arguments", "size"), [((48,), 48), ((33,), 33), ((41, 16), 48), ((None,), OLD)], ids=str)
def test_a_resized_vocabulary_keeps_logits_ties_and_translations(system, tied, arguments, size, tmp_path):
    """Without ties, source, target and output have a table each: none may become that of another."""
    model = tiny_model(system, dtype=torch.float32, tie_word_embeddings=tied)
    # tokens that only one of the two vocabularies has are never said
    common = min(OLD, size)
    model.final_logits_bias[:, common:] = NEVER
    inputs = batch(DOCUMENTS, model.config)
    decoder_ids = torch.tensor([[2, 24, 25]] * 3)
    with torch.no_grad():
        before = model(**inputs, decoder_input_ids=decoder_ids).logits
    translations = model.generate(**inputs, num_beams=2)

    embeddings = model.resize_token_embeddings(*arguments)
    model.final_logits_bias[:, common:] = NEVER
    stacks = (model.model.encoder, model.model.decoder)
    tables = [embeddings, model.model.shared, *(stack.embed_tokens for stack in stacks), model.lm_head]
    assert {table.weight.shape[0] for table in tables} == {size} == {model.config.vocab_size}
    assert model.lm_head.out_features == size == model.final_logits_bias.shape[-1]
    assert len({id(table.weight) for table in tables}) == (1 if tied else 4)
    with torch.no_grad():
        after = model(**inputs, decoder_input_ids=decoder_ids).logits
    torch.testing.assert_close(after[..., :common], before[..., :common], atol=1e-5, rtol=0)
    assert torch.equal(model.generate(**inputs, num_beams=2), translations)

    model.save_pretrained(tmp_path)
    loaded = DocMTForConditionalGeneration.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(**inputs, decoder_input_ids=decoder_ids).logits, after)
    assert loaded.config.vocab_size == size


def test_frozen_tables_stay_frozen(tied):
    model = tiny_model("sentence-level", dtype=torch.float32, tie_word_embeddings=tied)
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_tokens.requires_grad_(False)
    model.resize_token_embeddings(44)
    stacks = (model.model.encoder, model.model.decoder)
    assert not any(weight.requires_grad for stack in stacks for weight in stack.embed_tokens.parameters())


def test_appended_tokens_can_be_said(tied):
    model = tiny_model("concat-document", dtype=torch.float32, tie_word_embeddings=tied)
    model.resize_token_embeddings(OLD + 2)
    model.final_logits_bias[0, OLD + 1] = 50.0
    output = model.generate(**batch(DOCUMENTS, model.config), max_sentence_tokens=2, return_dict_in_generate=True)
    assert [len(document) for document in output.sentences] == [2, 1, 3]
    assert {token for document in output.sentences for sentence in document for token in sentence} == {OLD + 1}
