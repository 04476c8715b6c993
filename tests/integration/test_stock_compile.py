"""`torch.compile` of the forward pass: one compiled model for batches of all shapes, plans outside of its graphs."""

import pytest
import torch
import torch._dynamo
from decoding_models import batch, tiny_model

from modeling_docmt import SYSTEMS


BATCHES = [
    [[[22, 23], [24]], [[25, 26, 27]]],
    [[[28], [29, 30], [31, 32, 33]], [[22, 24]], [[23]]],
]


def inputs_of(documents, model):
    inputs = batch(documents, model.config)
    return {**inputs, "labels": inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)}


def test_a_compiled_model_has_the_logits_of_the_plain_one():
    # tracing is where plans of intervals would fail; the rest of the compiler takes longer
    torch._dynamo.reset()
    model = tiny_model("window-attn", encoder_layers=1, decoder_layers=1)
    compiled = torch.compile(model, backend="eager", dynamic=True)
    inputs = inputs_of(BATCHES[1], model)
    with torch.no_grad():
        torch.testing.assert_close(compiled(**inputs).logits, model(**inputs).logits, atol=1e-10, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("system", list(SYSTEMS))
def test_a_compiled_model_has_the_gradients_of_the_plain_one(system):
    torch._dynamo.reset()
    model = tiny_model(system, dropout=0.0, encoder_layers=1, decoder_layers=1)
    compiled = torch.compile(model, backend="aot_eager", dynamic=True)
    for documents in BATCHES:
        inputs = inputs_of(documents, model)
        results = []
        for run in (model, compiled):
            model.zero_grad()
            outputs = run(**inputs)
            outputs.loss.backward()
            results.append([outputs.logits.detach(), *(p.grad.clone() for p in model.parameters())])
        for plain, other in zip(*results, strict=True):
            torch.testing.assert_close(other, plain, atol=1e-10, rtol=1e-8)
    assert model._can_compile_fullgraph == (not model.config.has_intervals)
