"""Facts that hold for the model of every system, the rows of `SYSTEMS`."""

import pytest
import torch
from transformers import AutoModel, AutoModelForSeq2SeqLM

from modeling_docmt import SYSTEMS, DocMTConfig, DocMTForConditionalGeneration, DocMTModel
from modeling_docmt.sentences_docmt import target_sentence_ids


every_system = pytest.mark.parametrize("system", list(SYSTEMS))
LENGTHS = [(9, 7), (5, 3), (7, 6)]
# what must be smaller than these lengths to matter
SMALL = {"window-attn": {"window_size": 2}, "p-transformer": {"relative_distances": 3}}


@pytest.fixture
def make_system(make_model):
    """`make_model` with windows and tables that the rows of `ragged_batch` reach beyond."""
    return lambda system, **changes: make_model(system, **SMALL.get(system, {}), **changes)


def ragged_batch(model, seed=0, separators=True):
    """Three rows of different lengths, with separators inside, padded on the right."""
    rng = torch.Generator().manual_seed(seed)
    config = model.config
    rows = []
    for lengths in LENGTHS:
        sides = [torch.randint(265, config.vocab_size, (n,), generator=rng).tolist() for n in lengths]
        for side in sides:
            if separators:
                side[len(side) // 2] = config.sep_token_id
            side[-1] = config.eos_token_id
        rows.append(sides)

    def padded(side, value):
        longest = max(len(row[side]) for row in rows)
        return torch.tensor([row[side] + [value] * (longest - len(row[side])) for row in rows])

    input_ids = padded(0, config.pad_token_id)
    return {
        "input_ids": input_ids,
        "attention_mask": input_ids.ne(config.pad_token_id).long(),
        "labels": padded(1, -100),
    }


@every_system
def test_base_shape_has_the_parameters_of_transformer_base(system):
    """INV-01: 44,138,496 beside the one matrix of embeddings; INV-B3, B12, C1 and E2: what a system adds."""
    with torch.device("meta"):
        model = DocMTForConditionalGeneration(DocMTConfig.from_system(system, vocab_size=15_000))
    model.tie_weights()
    added = {
        "lst-attn": 12 * 512**2,
        "window-attn": 6 * 41 * 512 + 6 * 21 * 512,
        "p-transformer": 65_600,
        "gated-adj": 9_452_544,
        "g-transformer": 9_452_544,
        # four layers on each side, pre-norm, and what D2 counts
        "global-local": 4_725_888 + 2 * 2 * 512 - 2 * (3_152_384 + 4_204_032),
    }
    assert model.num_parameters() == 44_138_496 + 15_000 * 512 + added.get(system, 0)


@every_system
@pytest.mark.parametrize("normalize_before", [False, True])
def test_a_row_alone_gives_the_logits_that_it_gives_in_a_batch(make_system, system, normalize_before):
    """INV-02."""
    model = make_system(system, dtype=torch.float64, normalize_before=normalize_before)
    batch = ragged_batch(model)
    logits = model(**batch).logits
    for row, (source_length, target_length) in enumerate(LENGTHS):
        alone = model(
            input_ids=batch["input_ids"][row : row + 1, :source_length],
            labels=batch["labels"][row : row + 1, :target_length],
        ).logits
        assert (alone[0] - logits[row, :target_length]).abs().max() <= 1e-10 * logits.abs().max()


@every_system
def test_the_embedding_of_padding_changes_nothing(make_system, system):
    """INV-03, exact."""
    model = make_system(system)
    batch = ragged_batch(model)
    before = model(**batch)
    with torch.no_grad():
        model.model.shared.weight[model.config.pad_token_id] += 3.0
    after = model(**batch)
    real = batch["labels"].ne(-100)
    columns = torch.arange(model.config.vocab_size) != model.config.pad_token_id
    assert torch.equal(before.logits[real][:, columns], after.logits[real][:, columns])


@every_system
def test_no_query_sees_a_later_target_token(make_system, system):
    """INV-04, by gradients: exactly zero to later inputs, not zero to earlier ones."""
    model = make_system(system, dtype=torch.float64)
    batch = ragged_batch(model)
    decoder_ids = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    embeds = model.model.shared(decoder_ids).detach().requires_grad_()
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    structure = {}
    sentences = target_sentence_ids(decoder_ids, model.config)[0]
    if model.config.knows_sentences:
        structure = {"decoder_input_ids": decoder_ids, "decoder_attention_mask": torch.ones_like(decoder_ids)}
    logits = model(**source, **structure, decoder_inputs_embeds=embeds).logits
    config, places = model.config, range(logits.shape[1])
    for position in places:
        (gradient,) = torch.autograd.grad(logits[0, position].sum(), embeds, retain_graph=True)
        reached = gradient[0].abs().sum(-1) > 0
        earlier = [p <= position for p in places]
        if config.decoder_self_attention == "window":
            # every layer reaches as far again
            earlier = [
                seen and position - p <= config.window * config.decoder_layers for p, seen in enumerate(earlier)
            ]
        elif config.decoder_self_attention == "recurrent":
            # the states of earlier sentences are held fixed
            earlier = [seen and bool(sentences[p] == sentences[position]) for p, seen in enumerate(earlier)]
        assert reached.tolist() == earlier


@pytest.mark.parametrize("system", ["sentence-level", "concat-adj", "concat-document"])
def test_steps_with_the_cache_give_the_logits_of_the_full_pass(make_model, system):
    model = make_model(system, dtype=torch.float64)
    batch = ragged_batch(model)
    decoder_ids = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    whole = model(**source, decoder_input_ids=decoder_ids).logits
    outputs = model(**source, decoder_input_ids=decoder_ids[:, :2], use_cache=True)
    steps = [outputs.logits]
    for position in range(2, decoder_ids.shape[1]):
        outputs = model(
            encoder_outputs=(outputs.encoder_last_hidden_state,),
            attention_mask=batch["attention_mask"],
            decoder_input_ids=decoder_ids[:, position : position + 1],
            cache=outputs.cache,
            use_cache=True,
        )
        steps.append(outputs.logits)
    real = batch["labels"].ne(-100)
    assert (torch.cat(steps, dim=1)[real] - whole[real]).abs().max() <= 1e-10 * whole.abs().max()


@every_system
def test_backends_agree_in_loss_and_gradients(make_system, system):
    model = make_system(system, dtype=torch.float64)
    results = []
    for backend in ("eager", "sdpa"):
        model.set_attn_implementation(backend)
        loss = model(**ragged_batch(model)).loss
        results.append([loss, *torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad])])
    for eager, sdpa in zip(*results, strict=True):
        assert (eager - sdpa).abs().max() <= 1e-10 * max(1e-3, eager.abs().max())


@every_system
def test_gradient_checkpointing_changes_no_gradient(make_system, system):
    model = make_system(system, dtype=torch.float64, dropout=0.0).train()
    batch = ragged_batch(model)
    gradients = []
    for on in (False, True):
        if on:
            model.activation_checkpointing_enable()
        model.zero_grad()
        model(**batch).loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for plain, checkpointed in zip(*gradients, strict=True):
        assert torch.allclose(plain, checkpointed, rtol=0, atol=1e-12)


def test_attentions_and_states_of_every_layer_are_returned(make_model):
    model = make_model("concat-document", encoder_layers=3)
    model.set_attn_implementation("eager")
    batch = ragged_batch(model)
    outputs = model(**batch, output_attentions=True, output_hidden_states=True)
    S, T = batch["input_ids"].shape[1], batch["labels"].shape[1]
    assert [a.shape for a in outputs.encoder_attentions] == [(3, 4, S, S)] * 3
    assert [a.shape for a in outputs.decoder_attentions] == [(3, 4, T, T)] * 2
    assert [a.shape for a in outputs.cross_attentions] == [(3, 4, T, S)] * 2
    assert len(outputs.encoder_hidden_states) == 4 and len(outputs.decoder_hidden_states) == 3
    assert torch.allclose(outputs.cross_attentions[0].sum(-1), torch.ones(3, 4, T))


@every_system
def test_saving_and_loading_keeps_logits_and_ties(make_system, system, tmp_path):
    model = make_system(system)
    model.save_pretrained(tmp_path)
    batch = ragged_batch(model)
    loaded = DocMTForConditionalGeneration.from_pretrained(tmp_path)
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)
    assert loaded.lm_head.weight is loaded.model.encoder.embed_tokens.weight is loaded.model.shared.weight
    assert loaded.generation_config.decoding == SYSTEMS[system]["default_decoding"]
    auto = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert isinstance(auto, DocMTForConditionalGeneration)
    base = AutoModel.from_pretrained(tmp_path)
    assert isinstance(base, DocMTModel)
    assert torch.equal(base.encoder(batch["input_ids"])[0], model.model.encoder(batch["input_ids"])[0])


def test_untied_weights_and_output_bias_survive_saving(make_model, tmp_path):
    model = make_model(tie_word_embeddings=False, use_final_logits_bias=True)
    with torch.no_grad():
        model.final_logits_bias.uniform_()
    model.save_pretrained(tmp_path)
    loaded = DocMTForConditionalGeneration.from_pretrained(tmp_path)
    assert torch.equal(loaded.final_logits_bias, model.final_logits_bias)
    assert loaded.lm_head.weight is not loaded.model.shared.weight
    batch = ragged_batch(model)
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)


@pytest.mark.parametrize("bias", [False, True])
def test_resizing_the_vocabulary_keeps_logits_ties_and_bias(make_model, bias):
    model = make_model(use_final_logits_bias=bias)
    batch = ragged_batch(model)
    old_size, before = model.config.vocab_size, model(**batch).logits
    model.resize_token_embeddings(old_size + 5)
    after = model(**batch).logits
    assert after.shape[-1] == old_size + 5
    assert torch.allclose(after[..., :old_size], before, atol=1e-5)
    assert model.lm_head.weight is model.model.shared.weight


def test_weights_start_as_in_fairseq(make_model):
    """Embeddings N(0, 1/d) with a zero pad row, Xavier in linear layers, zero biases."""
    model = make_model(d_model=64, vocab_size=2_000)
    weight = model.model.shared.weight
    assert weight.std().item() == pytest.approx(64**-0.5, rel=0.03)
    assert weight[model.config.pad_token_id].abs().max() == 0
    linear = model.model.encoder.layers[0].fc1
    assert linear.weight.abs().max().item() == pytest.approx((6 / (64 + 64)) ** 0.5, rel=0.03)
    assert linear.bias.abs().max() == 0
    # fails if the output layer, where it has weights of its own, starts like any linear layer
    untied = make_model(d_model=64, vocab_size=2_000, tie_word_embeddings=False).lm_head.weight
    assert untied.std().item() == pytest.approx(64**-0.5, rel=0.03)


def test_weights_start_as_in_marian_with_a_standard_deviation(make_model):
    model = make_model(d_model=64, vocab_size=2_000, init_std=0.02)
    for weight in (model.model.shared.weight, model.model.decoder.layers[1].encoder_attn.k_proj.weight):
        assert weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.model.shared.weight[model.config.pad_token_id].abs().max() == 0


def test_pre_norm_stacks_end_in_a_norm_and_post_norm_stacks_do_not(make_model):
    names = {name for name, _ in make_model(normalize_before=True).named_parameters()}
    assert {"model.encoder.layer_norm.weight", "model.decoder.layer_norm.weight"} <= names
    assert not any(name.startswith("model.encoder.layer_norm") for name, _ in make_model().named_parameters())


def test_ids_and_embeddings_together_are_an_error(make_model):
    model = make_model()
    ids = torch.tensor([[300, 3]])
    with pytest.raises(ValueError, match="exactly one of `input_ids` and `inputs_embeds`"):
        model(input_ids=ids, inputs_embeds=model.model.shared(ids), decoder_input_ids=ids)


def test_compiled_model_has_no_graph_break_and_the_same_logits(make_model):
    model = make_model(dtype=torch.float64)
    batch = ragged_batch(model)
    batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch.pop("labels"))
    expected = model(**batch).logits
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert (compiled(**batch, use_cache=False).logits - expected).abs().max() <= 1e-10 * expected.abs().max()
