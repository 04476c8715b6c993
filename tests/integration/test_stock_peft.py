"""PEFT's LoRA on the projections of attention: it trains, is merged and comes back from its folder."""

import copy

import pytest
import torch
from decoding_models import batch, tiny_model
from transformers import AutoModelForSeq2SeqLM

from modeling_docmt import DocMTForConditionalGeneration


peft = pytest.importorskip("peft")

DOCUMENTS = [[[22, 23], [24, 30], [31]], [[25, 26, 27]], [[28], [29, 30], [31, 23]]]
# every kind of attention: `recurrent` projects the states of earlier sentences a second time
SYSTEMS = ["sentence-level", "window-attn", "p-transformer", "global-local"]
SYSTEMS += [pytest.param(name, marks=pytest.mark.slow) for name in ("g-transformer", "lst-attn")]


@pytest.fixture(params=SYSTEMS)
def model(request) -> DocMTForConditionalGeneration:
    return tiny_model(request.param, dropout=0.0)


def adapted(model: DocMTForConditionalGeneration, **changes) -> "peft.PeftModel":
    settings = {"r": 4, "lora_alpha": 32, "target_modules": ["q_proj", "v_proj"], **changes}
    return peft.get_peft_model(model, peft.LoraConfig(task_type=peft.TaskType.SEQ_2_SEQ_LM, **settings))


def inputs_of(model: DocMTForConditionalGeneration) -> dict[str, torch.Tensor]:
    inputs = batch(DOCUMENTS, model.config)
    return {**inputs, "labels": inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)}


def adapters_of(model) -> dict[str, torch.nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def train(model, updates: int) -> list[float]:
    optimizer = torch.optim.Adam(adapters_of(model).values(), lr=0.02)
    losses = []
    model.train()
    for _ in range(updates):
        loss = model(**inputs_of(model)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


def test_adapters_alone_learn_are_merged_and_reloaded(model, tmp_path):
    start = copy.deepcopy(model)
    with_adapters = adapted(model)
    losses = train(with_adapters, updates=6)
    assert losses[-1] < losses[0]
    trained = adapters_of(with_adapters)
    assert trained and all("lora_" in name for name in trained)
    # an attention that reads the weights of a projection, and does not call it, would leave its adapter without
    assert not [name for name, parameter in trained.items() if parameter.grad is None or not parameter.grad.any()]
    assert all(parameter.grad is None for parameter in model.parameters() if not parameter.requires_grad)

    inputs = inputs_of(model)
    source = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        logits = with_adapters(**inputs).logits
        assert (logits - start(**inputs).logits).abs().max() > 0.1
    translations = [with_adapters.generate(**source, num_beams=beams) for beams in (1, 3)]

    with_adapters.save_pretrained(tmp_path / "adapter")
    assert {path.suffix for path in (tmp_path / "adapter").iterdir()} == {".json", ".safetensors", ".md"}
    merged = peft.PeftModel.from_pretrained(start, tmp_path / "adapter").merge_and_unload()
    assert type(merged) is DocMTForConditionalGeneration
    with torch.no_grad():
        torch.testing.assert_close(merged(**inputs).logits, logits, atol=1e-9, rtol=1e-9)
    for beams, expected in zip((1, 3), translations, strict=True):
        assert torch.equal(merged.generate(**source, num_beams=beams), expected)

    merged.save_pretrained(tmp_path / "merged")
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "merged")
    assert torch.equal(loaded.generate(**source, num_beams=3), translations[1])


def test_gradients_of_adapters_do_not_change_behind_checkpointing(model):
    with_adapters = adapted(model, init_lora_weights=False).train()
    gradients = []
    for is_checkpointed in (False, True):
        if is_checkpointed:
            model.activation_checkpointing_enable()
            model.enable_input_require_grads()
        with_adapters.zero_grad()
        with_adapters(**inputs_of(model)).loss.backward()
        gradients.append({name: parameter.grad.clone() for name, parameter in adapters_of(with_adapters).items()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-12, rtol=1e-9)


def test_memories_of_recurrent_attention_see_their_adapter():
    # with gradients and without, the pass over a document is that of the merged model
    model = tiny_model("global-local", dropout=0.0)
    with_adapters = adapted(model, init_lora_weights=False).eval()
    inputs = inputs_of(model)
    by_gradient = with_adapters(**inputs).logits.detach()
    with torch.no_grad():
        without = with_adapters(**inputs).logits
        merged = with_adapters.merge_and_unload()(**inputs).logits
    torch.testing.assert_close(by_gradient, merged, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(without, merged, atol=1e-9, rtol=1e-9)
