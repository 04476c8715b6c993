"""Packed rows: what is left out is padding, and nobody can tell."""

import pytest
import torch

from modeling_docmt.configuration_docmt import DocMTConfig
from modeling_docmt.packing_docmt import TokenLayout


CPU = torch.device("cpu")
LENGTHS = [(9, 7), (1, 1), (4, 8)]
WINDOWS = {"window_size": 2, "encoder_layers": 2}


def layout_of(lengths: list, width: int, is_packed: bool = True) -> TokenLayout:
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    return TokenLayout.from_mask(mask, (len(lengths), width), CPU, is_packed)


# the row


@pytest.mark.parametrize("is_packed", [True, False])
def test_the_row_has_the_tokens_in_order_and_knows_where_each_stands(is_packed):
    layout = layout_of([3, 0, 1], 4, is_packed)
    if is_packed:
        assert layout.starts.tolist() == [0, 3, 3]
        assert layout.documents.tolist() == [0, 0, 0, 2]
        assert layout.positions.tolist() == [0, 1, 2, 0]
        assert layout.is_token.all()
    else:
        assert layout.starts.tolist() == [0, 4, 8]
        assert layout.documents.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        assert layout.positions.tolist() == [0, 1, 2, 3] * 3
        assert layout.is_token.tolist() == [True] * 3 + [False] * 5 + [True] + [False] * 3


@pytest.mark.parametrize("lengths", [[5, 1, 4], [0, 3], [5, 5], [0, 0], [5]])
@pytest.mark.parametrize("is_packed", [True, False])
def test_unpacking_gives_back_tokens_and_zeros_at_padding(lengths, is_packed):
    # fails if rows are written to the columns of another sequence
    layout = layout_of(lengths, 5, is_packed)
    states = torch.randn(len(lengths), 5, 3, dtype=torch.float64, requires_grad=True)
    row = layout.pack(states)
    assert row.shape == (1, sum(lengths) if is_packed else 5 * len(lengths), 3)
    padded = layout.unpack(row)
    is_token = torch.arange(5) < torch.tensor(lengths)[:, None]
    assert padded.shape == states.shape
    assert torch.equal(padded[is_token], states[is_token])
    if is_packed:
        assert not padded[~is_token].any()
        (gradient,) = torch.autograd.grad(padded.sum(), states)
        assert torch.equal(gradient.any(dim=-1), is_token)
    numbers = torch.arange(5 * len(lengths)).view(-1, 5)
    assert layout.pack_array(numbers).tolist() == layout.pack(numbers[..., None])[0, :, 0].tolist()


@pytest.mark.parametrize("mask", [None, torch.ones(2, 4)])
def test_without_padding_nothing_is_copied(mask):
    # fails if an index is made where the row is the batch as it lies in memory
    layout = TokenLayout.from_mask(mask, (2, 4), CPU, is_packed=True)
    states = torch.randn(2, 4, 3)
    row = layout.pack(states)
    assert row.shape == (1, 8, 3)
    assert row.data_ptr() == states.data_ptr() == layout.unpack(row).data_ptr()


@pytest.mark.parametrize(
    "mask",
    [
        [[0, 1, 1], [1, 1, 1]],  # on the left
        [[1, 0, 1], [1, 1, 1]],  # a hole
        [[1, 1, 1, 1], [1, 1, 1, 0]],  # another width
        [[1, 1, 1]],  # another batch
    ],
)
@pytest.mark.parametrize("is_packed", [True, False])
def test_padding_elsewhere_than_on_the_right_is_refused(mask, is_packed):
    # fails if lengths are read off a mask that lengths do not describe
    with pytest.raises(ValueError, match="padded on the right alone.*`decoder_attention_mask`.*shape"):
        TokenLayout.from_mask(torch.tensor(mask), (2, 3), CPU, is_packed)


# the model


def ragged_batch(model) -> dict[str, torch.Tensor]:
    """Sequences of one token and more, separators inside, padded on the right."""
    generator = torch.Generator().manual_seed(0)
    config = model.config
    sides = []
    for side in (0, 1):
        ids = torch.randint(300, config.vocab_size, (3, max(row[side] for row in LENGTHS)), generator=generator)
        for row, lengths in enumerate(LENGTHS):
            ids[row, lengths[side] // 2] = config.sep_token_id
            ids[row, lengths[side] - 1] = config.eos_token_id
            ids[row, lengths[side] :] = config.pad_token_id if side == 0 else -100
        sides.append(ids)
    source, labels = sides
    return {"input_ids": source, "attention_mask": source.ne(config.pad_token_id).long(), "labels": labels}


@pytest.fixture
def window_model(make_model):
    def make(dtype=torch.float64, **changes):
        return make_model("window-attn", dtype=dtype, **{**WINDOWS, **changes})

    return make


def seen_widths(model) -> list:
    """Shapes of the states that the layers get, filled by the next pass."""
    shapes: list = []
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        layer.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(output.shape[:2])))
    return shapes


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("alignment", ["linear", "sent-align"])
@pytest.mark.parametrize("position_encoding", ["relative", "sinusoidal"])
def test_packed_and_padded_rows_give_the_same_logits_and_gradients(
    window_model, position_encoding, alignment, dtype, tolerance
):
    """INV-B9: fails if positions count on from one document to the next, or if windows reach over their border."""
    model = window_model(dtype, position_encoding=position_encoding, training_alignment=alignment)
    batch = ragged_batch(model)
    shapes = seen_widths(model)
    results = []
    # states in between are shown padded
    for shows in (False, True):
        shapes.clear()
        outputs = model(**batch, output_hidden_states=shows)
        row, width = {(1, 14), (1, 16)}, {(3, 9), (3, 8)}
        assert set(shapes) == (width if shows else row)
        parameters = [p for p in model.parameters() if p.requires_grad]
        results.append([outputs.logits[batch["labels"] != -100], *torch.autograd.grad(outputs.loss, parameters)])
    for packed, padded in zip(*results, strict=True):
        assert (packed - padded).abs().max() <= tolerance * max(1e-3, padded.abs().max())


@pytest.mark.parametrize("from_config", [False, True])
def test_states_of_every_layer_are_shown_padded_and_end_in_the_last_packed_one(window_model, from_config):
    model = window_model(decoder_layers=3)
    batch = ragged_batch(model)
    batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch["labels"])
    mask = batch.pop("labels").ne(-100).long()
    batch |= {"decoder_attention_mask": mask, "use_cache": False}
    packed = model.model(**batch)
    if from_config:
        model.config.output_hidden_states = True
    else:
        batch["output_hidden_states"] = True
    shown = model.model(**batch)
    assert [tuple(states.shape) for states in shown.encoder_hidden_states] == [(3, 9, 32)] * 3
    assert [tuple(states.shape) for states in shown.decoder_hidden_states] == [(3, 8, 32)] * 4
    for last, states, is_token in (
        (packed.encoder_last_hidden_state, shown.encoder_hidden_states[-1], batch["attention_mask"].bool()),
        (packed.last_hidden_state, shown.decoder_hidden_states[-1], mask.bool()),
    ):
        torch.testing.assert_close(last[is_token], states[is_token], rtol=0, atol=1e-12)
        # padding of a packed row was in no layer
        assert not last[~is_token].any()


def test_attentions_are_shown_padded_and_sum_to_one_at_tokens(window_model):
    # fails if the blocks of other documents are cut out of the dense weights
    model = window_model()
    model.set_attn_implementation("eager")
    batch = ragged_batch(model)
    outputs = model(**batch, output_attentions=True)
    assert [tuple(weights.shape) for weights in outputs.encoder_attentions] == [(3, 4, 9, 9)] * 2
    assert [tuple(weights.shape) for weights in outputs.decoder_attentions] == [(3, 4, 8, 8)] * 2
    assert [tuple(weights.shape) for weights in outputs.cross_attentions] == [(3, 4, 8, 9)] * 2
    source, target = batch["attention_mask"].bool(), batch["labels"] != -100
    for weights, queries, keys in (
        (outputs.encoder_attentions[1], source, source),
        (outputs.decoder_attentions[1], target, target),
        (outputs.cross_attentions[1], target, source),
    ):
        sums = weights.sum(dim=-1).transpose(1, 2)
        assert (sums[queries] - 1).abs().max() <= 1e-12
        assert not sums[~queries].any()
        assert not weights.transpose(1, 3)[~keys].any()
    assert (outputs.logits - model(**batch).logits).abs().max() <= 1e-12


def test_one_document_goes_through_as_it_is(window_model, monkeypatch):
    # fails if a document by itself is copied to a row that is the same
    copies: list = []

    def spied(method):
        def run(self, states):
            result = method(self, states)
            copies.append(result.data_ptr() != states.data_ptr())
            return result

        return run

    for name in ("pack", "unpack"):
        monkeypatch.setattr(TokenLayout, name, spied(getattr(TokenLayout, name)))
    model = window_model()
    batch = ragged_batch(model)
    model(**batch)
    assert copies == [True] * 5  # source and target in, both out, and the source to the decoder
    copies.clear()
    source_length, target_length = LENGTHS[0]
    model(input_ids=batch["input_ids"][:1, :source_length], labels=batch["labels"][:1, :target_length])
    assert copies == [False] * 5


def test_sources_padded_on_the_left_or_with_holes_are_refused(window_model):
    model = window_model()
    batch = ragged_batch(model)
    for mask in (batch["attention_mask"].flip(-1), batch["attention_mask"].index_fill(1, torch.tensor([2]), 0)):
        with pytest.raises(ValueError, match="padded on the right alone"):
            model(**{**batch, "attention_mask": mask})


def test_targets_with_padding_need_a_mask_where_there_are_no_labels(window_model):
    # fails if padding silently counts as the end of the document, which moves all windows of a linear alignment
    model = window_model()
    batch = ragged_batch(model)
    labels = batch.pop("labels")
    decoder_ids = model.prepare_decoder_input_ids_from_labels(labels)
    with pytest.raises(ValueError, match="`decoder_attention_mask` is needed .* made from `labels`"):
        model(**batch, decoder_input_ids=decoder_ids, use_cache=False)
    with pytest.raises(ValueError, match="padded on the right alone"):
        left = labels.ne(-100).long().flip(-1)
        model(**batch, decoder_input_ids=decoder_ids, decoder_attention_mask=left, use_cache=False)


@pytest.mark.parametrize("system", ["window-attn", "lst-attn"])
def test_the_mask_of_targets_is_made_from_the_labels(make_model, system):
    changes = {"window_size": 2} if system == "window-attn" else {}
    model = make_model(system, dtype=torch.float64, **changes)
    batch = ragged_batch(model)
    labels = batch.pop("labels")
    mask = labels.ne(-100).long()
    inputs = {**batch, "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(labels)}
    expected = model(
        **inputs, decoder_attention_mask=mask, alignment=model.config.training_alignment, use_cache=False
    ).logits
    assert torch.equal(model(**batch, labels=labels).logits, expected)
    # a label within the target that the loss leaves out is no padding: fails if the mask is that of the loss
    ignored = labels.clone()
    ignored[0, 2] = ignored[2, 3] = -100
    inputs["labels"] = ignored
    torch.testing.assert_close(model(**inputs).logits, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("system", ["window-attn", "concat-document"])
def test_logits_at_the_labels_alone_are_those_of_all_with_the_same_loss_and_gradients(make_model, system):
    # fails if rows are taken in another order, or if the output layer sees padding
    model = make_model(system, dtype=torch.float64, **({"window_size": 2} if system == "window-attn" else {}))
    batch = ragged_batch(model)
    batch["labels"][0, 2] = -100
    is_label = batch["labels"] != -100
    rows: list = []
    model.lm_head.register_forward_pre_hook(lambda module, inputs: rows.append(inputs[0].shape[:-1].numel()))
    everywhere, there = model(**batch), model(**batch, logits_at=is_label)
    assert rows == [is_label.numel(), is_label.sum()]
    assert everywhere.logits.shape == (*is_label.shape, model.config.vocab_size)
    torch.testing.assert_close(there.logits, everywhere.logits[is_label], rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(outputs.loss, list(model.parameters())) for outputs in (everywhere, there)]
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_places_of_logits_that_do_not_fit_are_refused(window_model):
    model = window_model()
    batch = ragged_batch(model)
    with pytest.raises(ValueError, match="`logits_at` must be `labels != -100`"):
        model(**batch, logits_at=torch.ones_like(batch["labels"], dtype=torch.bool))
    decoder_ids = model.prepare_decoder_input_ids_from_labels(batch.pop("labels"))
    with pytest.raises(ValueError, match=r"`logits_at` must be \(3, 8\), as the target, got \(3, 7\)"):
        places = torch.ones(3, 7, dtype=torch.bool)
        mask = torch.ones_like(decoder_ids)
        model(**batch, decoder_input_ids=decoder_ids, decoder_attention_mask=mask, logits_at=places, use_cache=False)


def test_dense_systems_are_not_packed_and_know_no_intervals(make_model):
    model = make_model("concat-document", dtype=torch.float64)
    shapes = seen_widths(model)
    model(**ragged_batch(model))
    assert set(shapes) == {(3, 9), (3, 8)}
    assert not model.config.has_intervals and DocMTConfig.from_system("lst-attn").has_intervals
