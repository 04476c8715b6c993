"""The system `global-local` (Zheng et al.): one parallel pass against the recurrence, and what reaches what."""

import copy
import itertools

import pytest
import torch
from decoding_models import FIRST_WORD, tiny_model, translate
from plain_models import EOS, PATHS, SEP, padded, ragged, sentences_of, small_model
from recurrence_reference import GlobalLocalModel, assert_equals_recurrence

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.attention_recurrent import MemoryProjection, RecurrentPlan
from modeling_docmt.formatting_docmt import format_sequence
from modeling_docmt.interval_plan_docmt import IntervalPlan


# a document of four sentences, one of a single sentence, one whose second sentence is empty, and one with two target
# sentences more than its source
SOURCES = [
    [22, 23, SEP, 24, 25, 26, SEP, 27, SEP, 28, 29, EOS],
    [28, 30, EOS],
    [22, SEP, SEP, 23, 24, EOS],
    [31, SEP, 32, EOS],
]
TARGETS = [
    [30, SEP, 31, 32, SEP, 33, 34, 35, SEP, 36, EOS],
    [30, 31, EOS],
    [33, 34, SEP, SEP, 35, EOS],
    [36, SEP, 37, 38, SEP, 39, SEP, 22, EOS],
]
SENT2DOC = {"global_block": "none", "segment_embeddings": None}
SENTENCE_DECODER = {"decoder_self_attention": "sentence", "reset_decoder_positions": True}

VARIANTS = {
    "preset": {},
    "post-norm": {"normalize_before": False},
    "memory of two": {"memory_sentences": 2},
    "post-norm, memory of two": {"normalize_before": False, "memory_sentences": 2},
    "more memory than sentences": {"memory_sentences": 9},
    "attention alone": {"global_block": "attention"},
    "no gate": {"global_gate": False},
    "attention alone, no gate": {"global_block": "attention", "global_gate": False},
    "post-norm, no gate": {"normalize_before": False, "global_gate": False},
    "never skipped": {"skip_global_if_single": False},
    "more sentences than tables": {
        "max_part_sentences": None,
        "max_segment_distance": 1,
        "segment_embeddings": 2,
    },
    "one distance": {"max_segment_distance": 0},
    "biases in the decoder": {"decoder_attention_bias": True},
    "running positions": {"reset_encoder_positions": False, "segment_embeddings": None},
    "unlike stacks": {"encoder_layers": 1, "decoder_layers": 3, "encoder_attention_heads": 4},
    "recurrence alone": SENT2DOC,
    "recurrence alone, post-norm": SENT2DOC | {"normalize_before": False},
    "sentences in the decoder": SENTENCE_DECODER,
    "the whole source": {"cross_attention": "dense"},
    "behind a dense encoder": {"encoder_self_attention": "dense"},
    "behind windows": {"encoder_self_attention": "window", "window_size": 2},
    "a dense decoder": {"decoder_self_attention": "dense", "cross_attention": "dense"},
}


def model_of(**changes) -> DocMTForConditionalGeneration:
    return small_model("global-local", **changes)


def inputs_of(target: list) -> list:
    """What the decoder reads."""
    return [2, *target[:-1]]


def outputs_of(model, source: list, target: list, **options):
    """Outputs for one document."""
    return model(
        input_ids=torch.tensor([source]),
        decoder_input_ids=torch.tensor([inputs_of(target)]),
        use_cache=False,
        **options,
    )


# loss and gradients


# those whose rows lie in memory in every way; the others, packed
IN_EVERY_PATH = [
    "preset",
    "post-norm, memory of two",
    "more memory than sentences",
    "attention alone",
    "more sentences than tables",
    "unlike stacks",
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_and_gradients_equal_the_recurrence(variant):
    """
    D1 to D7, for whole models, in double precision.

    Fails if keys and values of the memory are held fixed in place of its states, if the distance counts anything else
    than tokens, if gamma is read for kappa - k, if the gate gives its parts each other's share, if documents of one
    sentence are told apart by batch, or if a later sentence has another embedding than the last one of the table.
    """
    paths = PATHS if variant in IN_EVERY_PATH else {"packed": PATHS["packed"]}
    assert_equals_recurrence(model_of(**VARIANTS[variant]), SOURCES, TARGETS, paths, tolerance=1e-10)


@pytest.mark.parametrize("variant", ["preset", "post-norm", "memory of two"])
def test_single_precision_is_as_near_as_it_can_be(variant):
    """Fails if the sum over the keys of a memory is taken in less than float32."""
    precise = model_of(**VARIANTS[variant])
    single = copy.deepcopy(precise).float()
    assert_equals_recurrence(single, SOURCES, TARGETS, PATHS, tolerance=1e-5, reference=precise)


def test_checkpointed_layers_have_the_gradients_of_the_recurrence():
    """Fails if what layers share, the numbers of the sentences among it, is lost where a layer runs again."""
    model = model_of(dropout=0.0).train()
    model.activation_checkpointing_enable()
    assert_equals_recurrence(model, SOURCES, TARGETS, PATHS, tolerance=1e-10)


@pytest.mark.parametrize("backend", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["dropout", "attention_dropout", "activation_dropout"])
def test_dropout_is_active_in_training_alone(name, backend):
    off = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    model, batch = model_of(**off | {name: 0.3}), ragged(SOURCES, TARGETS)
    model.set_attn_implementation(backend)
    still = [model(**batch).loss for _ in range(2)]
    model.train()
    first, second = (model(**batch).loss for _ in range(2))
    assert still[0] == still[1] and first != second != still[0]
    first.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


def test_the_distances_of_the_decoder_are_dropped_out_too():
    """D6: P with dropout; fails if sinusoids reach W_R whole."""
    model = model_of(dropout=0.5).train()
    seen: list = []
    for layer in model.model.decoder.layers:
        layer.self_attn.distance_proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(**ragged(SOURCES, TARGETS))
    # cosines of distance 0 are 1
    assert set(seen[0][0, 8:].tolist()) == {0.0, 2.0}
    # once a batch, for all layers
    assert torch.equal(seen[0], seen[1])


def test_gradients_in_mixed_precision_are_those_of_single_precision_but_for_rounding():
    """Fails if the fusion or the projections of the memory cannot read two types at once."""
    model = model_of().float()
    batch = ragged(SOURCES, TARGETS)
    exact = torch.autograd.grad(model(**batch).loss, list(model.parameters()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**batch).loss
    found = torch.autograd.grad(loss, list(model.parameters()))
    assert {gradient.dtype for gradient in found} == {torch.float32}
    found, exact = (torch.cat([gradient.flatten() for gradient in one]) for one in (found, exact))
    assert (found - exact).norm() <= 0.2 * exact.norm()


# memory


def plan_of(lengths: list[int], memory: int) -> RecurrentPlan:
    """Keys of sentences of some lengths: those of their memory, then their own."""
    ends = list(itertools.accumulate(lengths))
    index, is_memory = [], []
    for number, end in enumerate(ends):
        start, first = end - lengths[number], ([0, *ends])[max(0, number - memory)]
        index += range(first, end)
        is_memory += [row < start for row in range(first, end)]
    return RecurrentPlan(IntervalPlan.build([], [], 0), torch.tensor(index), torch.tensor(is_memory))


@pytest.mark.parametrize("memory", [1, 2, 5])
@pytest.mark.parametrize("has_bias", [True, False])
def test_one_projection_for_two_has_their_values_and_gradients(has_bias, memory):
    """Fails if a gradient reaches the states by a memory, or if the weight learns from the own sentences alone."""
    plan = plan_of([3, 1, 4, 2], memory)
    states = torch.randn(10, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(5, dtype=torch.float64, requires_grad=True) if has_bias else None
    fixed_states = states.detach().clone().requires_grad_()
    variables = [states, fixed_states, weight] + ([bias] if has_bias else [])
    live, fixed = (torch.nn.functional.linear(x, weight, bias)[plan.index] for x in (states, fixed_states))
    twice = torch.where(plan.is_memory[:, None], fixed, live)
    once = MemoryProjection.apply(states, fixed_states, weight, bias, plan)
    assert torch.equal(once, twice)
    pull = torch.randn_like(once)
    for fast, plain in zip(
        *(torch.autograd.grad((keys * pull).sum(), variables) for keys in (once, twice)), strict=True
    ):
        assert (fast - plain).abs().max() <= 1e-13 * plain.abs().max()


def sentence_losses(model, source: list, target: list) -> list[torch.Tensor]:
    """Loss of each sentence of one document."""
    logits = outputs_of(model, source, target).logits[0]
    losses = torch.nn.functional.cross_entropy(logits, torch.tensor(target), reduction="none")
    sentences = torch.tensor(sentences_of(inputs_of(target), is_source=False))
    return [losses[sentences == k].sum() for k in range(int(sentences[-1]) + 1)]


@pytest.mark.parametrize("memory", [1, 2])
@pytest.mark.parametrize("is_pre_norm", [True, False])
@pytest.mark.parametrize("backend", ["sdpa", "eager"])
def test_no_gradient_crosses_the_border_of_a_target_sentence(backend, is_pre_norm, memory):
    """
    INV-D4, exact, in all layers; each sentence reaches all of the source.

    Fails if keys or values of the memory are made of live states.
    """
    model = model_of(decoder_layers=3, normalize_before=is_pre_norm, memory_sentences=memory)
    model.set_attn_implementation(backend)
    activations: list = []
    embedded: list = []
    for layer in model.model.decoder.layers:
        layer.register_forward_pre_hook(lambda _, inputs: activations.append(inputs[0]))
    model.model.encoder.embed_tokens.register_forward_hook(lambda *call: embedded.append(call[-1]))
    [source, *_], [target, *_] = SOURCES, TARGETS
    losses = sentence_losses(model, source, target)
    sentences = torch.tensor(sentences_of(inputs_of(target), is_source=False))
    assert len(losses) == 4 and len(activations) == 3
    for k, loss in enumerate(losses):
        *gradients, of_source = torch.autograd.grad(loss, [*activations, embedded[0]], retain_graph=True)
        for gradient in gradients:
            assert torch.equal(gradient[0].any(dim=-1), sentences == k)
        assert of_source[0].any(dim=-1).all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("layers", "memory"), [(1, 1), (3, 1), (2, 2)])
def test_a_sentence_is_seen_as_many_sentences_later_as_there_are_layers(layers, memory, path):
    """INV-D8, exact; fails if a memory reaches one sentence further, or back to the embeddings."""
    backend, options = PATHS[path]
    model = model_of(decoder_layers=layers, memory_sentences=memory)
    model.set_attn_implementation(backend)
    source = [token for _ in range(6) for token in (22, SEP)][:-1] + [EOS]
    target = [token for place in range(6) for token in (30 + place, 36, SEP)][:-1] + [EOS]
    changed = [39, *target[1:]]
    first, second = (outputs_of(model, source, one, **options).logits[0] for one in (target, changed))
    sentences = torch.tensor(sentences_of(inputs_of(target), is_source=False))
    for k in range(6):
        same = torch.equal(first[sentences == k], second[sentences == k])
        assert same == (k > layers * memory)


@pytest.mark.parametrize("memory", [1, 2, 9])
def test_weights_are_those_of_the_recurrence(memory):
    """
    INV-D6 among others: rows of the sentence-to-sentence matrix sum to 1.

    Fails if a key in two memories is counted for one of them, or if weights are in the order of the plan.
    """
    model = model_of(memory_sentences=memory)
    model.set_attn_implementation("eager")
    outputs = model(**ragged(SOURCES, TARGETS), output_attentions=True)
    plain = GlobalLocalModel(model)
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        plain.global_weights = []
        plain.logits(source, inputs_of(target))
        S, T = len(source), len(target)
        # local layers, and behind them the global block
        assert [weights.shape[1] for weights in outputs.encoder_attentions] == [2, 2, 2]
        found = outputs.encoder_attentions[2][row, :, :S, :S]
        if plain.global_weights:
            assert (found - torch.stack(plain.global_weights)).abs().max() <= 1e-12
        sentences = torch.tensor(sentences_of(source, is_source=True))
        one_hot = torch.nn.functional.one_hot(sentences).double()
        between = one_hot.T @ found.mean(dim=0) @ one_hot / one_hot.sum(dim=0)[:, None]
        assert (between.sum(dim=-1) - 1).abs().max() <= 1e-12
        numbers = torch.tensor(sentences_of(inputs_of(target), is_source=False))
        for layer, weights in enumerate(outputs.decoder_attentions):
            for k, heads in enumerate(plain.recurrent_weights[f"model.decoder.layers.{layer}.self_attn"]):
                rows = numbers == k
                seen = (numbers <= k) & (numbers >= k - memory)
                expected = torch.zeros(2, int(rows.sum()), T, dtype=torch.float64)
                expected[:, :, seen] = torch.stack(heads)
                assert (weights[row, :, :T, :T][:, rows] - expected).abs().max() <= 1e-12


@pytest.mark.parametrize("kind", ["full", "attention"])
def test_as_many_states_are_returned_whatever_the_block_and_the_batch(kind):
    """Fails if the layer in the block is recorded among the others, or if a bare block is not."""
    model = model_of(global_block=kind)
    model.set_attn_implementation("eager")
    for rows, blocks in ((slice(None), 1), (slice(1, 2), 0)):
        batch = ragged(SOURCES[rows], TARGETS[rows])
        outputs = model(**batch, output_hidden_states=True, output_attentions=True)
        # embeddings and layers; of documents of one sentence the block has no weights
        assert len(outputs.encoder_hidden_states) == 3 and len(outputs.encoder_attentions) == 2 + blocks
        assert torch.equal(outputs.encoder_hidden_states[-1], outputs.encoder_last_hidden_state)


# the encoder


def load_common(model, other) -> list[str]:
    """Weights of `other` into `model`; those that it has no place for."""
    missing, unexpected = model.load_state_dict(other.state_dict(), strict=False)
    assert not missing
    return unexpected


def global_parameters(model) -> dict[str, torch.nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if ".global_block." in name}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("changes", [{}, {"global_block": "attention"}, {"global_gate": False}])
def test_documents_of_one_sentence_take_the_local_path_exactly(changes, path):
    """INV-D1: fails if the block runs for them, be it with its output thrown away by a sum."""
    backend, options = PATHS[path]
    model = model_of(**changes)
    local = model_of(global_block="none")
    unused = load_common(local, model)
    parameters = global_parameters(model)
    assert set(unused) == set(parameters) and len(parameters) > 5
    for one in (model, local):
        one.set_attn_implementation(backend)
    batch = ragged([[22, 23, 24, EOS], [25, EOS]], [[30, EOS], [31, 32, 33, EOS]])
    outputs, expected = (one(**batch, **options) for one in (model, local))
    assert torch.equal(outputs.logits, expected.logits)
    gradients = torch.autograd.grad(outputs.loss, list(parameters.values()), allow_unused=True)
    assert all(gradient is None for gradient in gradients)
    with torch.no_grad():
        for parameter in parameters.values():
            parameter.add_(torch.randn_like(parameter))
    assert torch.equal(model(**batch, **options).logits, expected.logits)


@pytest.mark.parametrize("path", PATHS)
def test_a_batch_is_told_apart_document_by_document(path):
    """INV-D1 in mixed batches, exact zeros; fails if one document of several sentences decides for all."""
    backend, options = PATHS[path]
    model = model_of()
    model.set_attn_implementation(backend)
    parameters = global_parameters(model)
    batch = ragged(SOURCES, TARGETS)

    def logits() -> list:
        rows = model(**batch, **options).logits
        return [row[: len(target)] for row, target in zip(rows, TARGETS, strict=True)]

    before = logits()
    of_single = torch.autograd.grad(before[1].square().sum(), list(parameters.values()), retain_graph=True)
    of_others = torch.autograd.grad(before[0].square().sum(), list(parameters.values()))
    assert not any(gradient.any() for gradient in of_single)
    assert all(gradient.any() for gradient in of_others)
    with torch.no_grad():
        for parameter in parameters.values():
            parameter.add_(torch.randn_like(parameter))
    assert [torch.equal(*pair) for pair in zip(before, logits(), strict=True)] == [False, True, False, False]


def states_by_sentence(model, sentences: list[list[int]]) -> list[torch.Tensor]:
    """Source states of each sentence; the last one ends in `<eos>`."""
    ids = [token for sentence in sentences for token in (*sentence, SEP)][:-1] + [EOS]
    states = model.model.encoder(torch.tensor([ids])).last_hidden_state[0]
    return list(states.split([len(sentence) + 1 for sentence in sentences]))


ORDERS = [order for order in itertools.permutations(range(3)) if order != (0, 1, 2)]


@pytest.mark.parametrize("what", ["nothing", "gamma of keys", "gamma of values", "segment embeddings"])
def test_the_order_of_sentences_is_known_by_gamma_and_segment_embeddings_alone(what):
    """INV-D2: fails if positions run on over sentences."""
    model = model_of()
    block = model.model.encoder.global_block.block.self_attn
    tables = {
        "gamma of keys": block.segment_keys,
        "gamma of values": block.segment_values,
        "segment embeddings": model.model.encoder.embed_segments.weight,
    }
    for name, table in tables.items():
        if name != what:
            torch.nn.init.zeros_(table)
    sentences = [[22, 23], [24], [25, 26, 27], [28, 29]]
    before = states_by_sentence(model, sentences)
    for order in ORDERS:
        after = states_by_sentence(model, [*(sentences[place] for place in order), sentences[3]])
        for place, sentence in enumerate([*order, 3]):
            difference = (after[place] - before[sentence]).abs().max()
            if what == "nothing":
                assert difference <= 1e-12
            elif place == 3:
                # it stays where it is, behind others
                assert difference > 1e-6


@pytest.mark.parametrize("path", PATHS)
def test_words_reach_the_local_states_of_their_sentence_and_the_global_states_of_all(path):
    """INV-D3, exact; fails if a local layer sees its neighbours, or a separator the sentence behind it."""
    backend, options = PATHS[path]
    model = model_of()
    model.set_attn_implementation(backend)
    embedded, local = [], []
    encoder = model.model.encoder
    encoder.embed_tokens.register_forward_hook(lambda *call: embedded.append(call[-1]))
    encoder.layers[-1].register_forward_hook(lambda *call: local.append(call[-1]))
    source = SOURCES[0]
    states = encoder(torch.tensor([source]), **options).last_hidden_state
    sentences = torch.tensor(sentences_of(source, is_source=True))
    for k in range(4):
        pull = torch.randn_like(states[0][sentences == k])
        reached = [
            torch.autograd.grad((x[0][sentences == k] * pull).sum(), embedded[0], retain_graph=True)[0][0].any(dim=-1)
            for x in (local[0], states)
        ]
        assert torch.equal(reached[0], sentences == k) and reached[1].all()
    # by values: another word in the second sentence
    edited = [*source]
    edited[4] = 39
    after = encoder(torch.tensor([edited]), **options).last_hidden_state
    is_same = sentences != 1
    assert torch.equal(local[1][0][is_same], local[0][0][is_same])
    assert ((after - states)[0].abs().amax(dim=-1) > 1e-9).all()


@pytest.mark.parametrize("init_std", [None, 0.02])
def test_a_gate_that_starts_nearly_closed_leaves_the_model_without_the_block(init_std, tmp_path):
    """Fails if the bias is lost on the way to its module, or comes again when a trained model is loaded."""
    config = model_of(global_gate_bias=-30.0, init_std=init_std).config
    model = DocMTForConditionalGeneration(config).double().eval()
    gate = model.model.encoder.global_block.fusion.gate
    assert (gate.bias == -30).all() and (gate.weight != 0).any()
    plain = model_of(global_block="none")
    load_common(plain, model)
    batch = ragged(SOURCES[:1], TARGETS[:1])
    assert (model(**batch).logits - plain(**batch).logits).abs().max() <= 1e-9
    torch.nn.init.constant_(gate.bias, 2.0)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path).model.encoder.global_block.fusion.gate
    assert (loaded.bias == 2).all()


@pytest.mark.parametrize("bias", [-1e4, 1e4])
def test_the_gate_opens_to_the_global_states_and_closes_to_the_local_ones(bias):
    """Exact at both ends: g belongs to the global side; fails if the parts change places."""
    model, closed, open_ = model_of(), model_of(global_block="none"), model_of(global_gate=False)
    load_common(closed, model)
    load_common(open_, model)
    gate = model.model.encoder.global_block.fusion.gate
    torch.nn.init.constant_(gate.bias, bias)
    batch = ragged(SOURCES[:1], TARGETS[:1])
    expected = open_ if bias > 0 else closed
    assert (model(**batch).logits - expected(**batch).logits).abs().max() <= 1e-12


# padding


@pytest.mark.parametrize("path", PATHS)
def test_padding_changes_nothing_whatever_its_ids(path):
    """
    INV-D7, for padding as it may be: behind a document.

    Fails if separators in padding make sentences, so that a document of one has several, or if padding is a key of
    what follows it in the row.
    """
    backend, options = PATHS[path]
    model = model_of(memory_sentences=2)
    model.set_attn_implementation(backend)
    batch = ragged(SOURCES, TARGETS)
    labels = batch.pop("labels")
    batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels)
    batch["decoder_attention_mask"] = padded([[1] * len(target) for target in TARGETS], 0)
    is_token = labels != -100
    before = model(**batch, **options).logits[is_token]
    batch["input_ids"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, SEP)
    batch["decoder_input_ids"] = batch["decoder_input_ids"].masked_fill(~is_token, SEP)
    assert torch.equal(model(**batch, **options).logits[is_token], before)
    alone = [outputs_of(model, *pair, **options).logits[0] for pair in zip(SOURCES, TARGETS, strict=True)]
    assert (torch.cat(alone) - before).abs().max() <= 1e-12


@pytest.mark.parametrize("side", ["attention_mask", "decoder_attention_mask"])
def test_padding_inside_of_documents_is_refused(side):
    model, batch = model_of(), ragged(SOURCES, TARGETS)
    batch["decoder_attention_mask"] = (batch["labels"] != -100).long()
    batch[side][0, 1] = 0
    with pytest.raises(ValueError, match="padded on the right alone"):
        model(**batch)


# parameters


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({}, 4_725_888),
        ({"global_gate": False}, 4_725_888 - 524_800),
        ({"segment_embeddings": None}, 4_725_888 - 20 * 512),
        ({"max_segment_distance": 3}, 4_725_888 - 2 * 34 * 64),
        # eight projections in each of four layers
        ({"decoder_attention_bias": True}, 4_725_888 + 32 * 512),
        # attention by itself: no feed-forward, and no norms of a layer
        ({"global_block": "attention"}, 4_725_888 - 2_099_712 - 2 * 1024),
        ({"global_block": "none", "segment_embeddings": None}, 4 * 512**2 + 2 * 512 - 32 * 512),
        # of post-norm encoders, the norm behind the fusion is one more
        ({"normalize_before": False}, 4_725_888 + 2 * 512),
    ],
)
def test_what_it_adds_to_a_transformer_of_as_many_layers(changes, more):
    """D2, as published (4.7 million); fails if heads have tables of their own, or if decoder layers have biases."""
    shape = {"vocab_size": 1000, "encoder_layers": 4, "decoder_layers": 4}
    shape["normalize_before"] = changes.get("normalize_before", True)
    with torch.device("meta"):
        base = DocMTForConditionalGeneration(DocMTConfig.from_system("concat-document", **shape))
        model = DocMTForConditionalGeneration(DocMTConfig.from_system("global-local", **shape | changes))
    assert model.num_parameters() - base.num_parameters() == more


# decoding

DECODED = [(name, "sequential") for name in VARIANTS if name not in ("never skipped", "one distance")]
DECODED += [(name, "counted") for name in IN_EVERY_PATH]


def ending_model(variant: str) -> DocMTForConditionalGeneration:
    """A model whose sentences end."""
    model = model_of(use_final_logits_bias=True, **VARIANTS[variant])
    model.final_logits_bias[0, [EOS, SEP]] = 4.0
    return model


@pytest.mark.parametrize(("variant", "decoding"), DECODED)
def test_steps_of_decoding_have_the_logits_of_the_recurrence(variant, decoding):
    """INV-D5: fails if the cached memory is one sentence too long, or if distances count from its end."""
    model = ending_model(variant)
    document = [[22, 23, 24], [25], [26, 27]]
    steps: list = []
    hook = model.register_forward_hook(lambda *call: steps.append(call[-1].logits[0, -1]))
    options = {"min_sentence_tokens": 2, "max_sentence_tokens": 4}
    output = translate(model, [document], num_beams=1, decoding=decoding, **options)
    hook.remove()
    target = format_sequence(output.sentences[0], model.config, source=False)
    with torch.no_grad():
        expected = GlobalLocalModel(model).logits(format_sequence(document, model.config), inputs_of(target))
    found = torch.stack(steps)
    assert len(steps) > 8 and found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-10 * expected.abs().max()


def recurrence_scores(model, source: list, sentences: list) -> list[float]:
    """Mean log-probability of each target sentence with its closing token."""
    target = format_sequence(sentences, model.config, source=False)
    plain = GlobalLocalModel(model)
    with torch.no_grad():
        log_probs = plain.logits(format_sequence(source, model.config), inputs_of(target)).log_softmax(dim=-1)
    chosen = log_probs.gather(1, torch.tensor(target)[:, None])[:, 0]
    return [part.mean().item() for part in chosen.split([len(sentence) + 1 for sentence in sentences])]


@pytest.mark.parametrize(
    ("variant", "decoding"),
    [
        ("preset", "sequential"),
        ("preset", "counted"),
        ("post-norm, memory of two", "sequential"),
        ("more memory than sentences", "counted"),
    ],
)
def test_beams_are_scored_as_the_recurrence_does_and_alike_in_any_batch(variant, decoding):
    """INV-D5, F4: fails if the memory is of other words than those of the best beam."""
    model = tiny_model("global-local", **{"closing_bias": 1.0, "normalize_before": True} | VARIANTS[variant])
    documents = [[[FIRST_WORD + 5 * row + place] * 2 for place in range(4 - row)] for row in range(3)]
    options = {"decoding": decoding, "num_beams": 4, "max_sentence_tokens": 5}
    output = translate(model, documents, **options)
    assert len({tuple(map(tuple, sentences)) for sentences in output.sentences}) == 3
    for source, sentences, scores in zip(documents, output.sentences, output.sentence_scores, strict=True):
        assert scores == pytest.approx(recurrence_scores(model, source, sentences), abs=1e-10)
    again = translate(model, documents, reuse_cache=False, **options)
    assert again.sentences == output.sentences
    assert translate(model, documents[:1], **options).sentences == output.sentences[:1]


def test_distances_go_on_beyond_what_the_search_has_begun_with():
    """Fails if the table of distances is not made anew when the target has grown; it begins with 129."""
    model = tiny_model("global-local", closing_bias=-9.0, memory_sentences=2, decoder_layers=1)
    document = [[FIRST_WORD + place] * 3 for place in range(3)]
    options = {"decoding": "sequential", "min_sentence_tokens": 48, "max_sentence_tokens": 48}
    output = translate(model, [document], **options)
    assert [len(sentence) for sentence in output.sentences[0]] == [48] * 3
    assert output.sentence_scores[0] == pytest.approx(
        recurrence_scores(model, document, output.sentences[0]), abs=1e-10
    )


def test_a_long_document_is_translated_in_groups_each_as_if_alone():
    """
    45 sentences make three groups of at most 20, and 45 translations.

    Fails if numbers of sentences run on over groups, or if a group is cut at 20.
    """
    model = tiny_model("global-local", closing_bias=1.0)
    document = [[FIRST_WORD + place % 18, FIRST_WORD + place // 3] for place in range(45)]
    options = {"decoding": "sequential", "num_beams": 2, "max_sentence_tokens": 3}
    output = translate(model, [document], **options)
    assert len(output.sentences[0]) == len(output.sentence_scores[0]) == 45
    groups = [document[start : start + 15] for start in (0, 15, 30)]
    parts = translate(model, groups, **options)
    assert output.sentences[0] == [sentence for part in parts.sentences for sentence in part]
    assert len({tuple(sentence) for sentence in output.sentences[0]}) > 15


def test_without_a_limit_further_sentences_have_the_last_rows_of_the_tables():
    """Fails if the number of a sentence is that of its group, or if a number beyond the table is an error."""
    model = tiny_model("global-local", closing_bias=1.0, max_part_sentences=None, segment_embeddings=4)
    document = [[FIRST_WORD + place] for place in range(8)]
    output = translate(model, [document], decoding="sequential", max_sentence_tokens=3)
    assert output.sentence_scores[0] == pytest.approx(
        recurrence_scores(model, document, output.sentences[0]), abs=1e-10
    )


# what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory_sentences": 0}, "`memory_sentences` must be 1 or more, got 0"),
        ({"max_segment_distance": -1}, "`max_segment_distance` must be 0 or more, got -1"),
        ({"segment_embeddings": 0}, "`segment_embeddings` must be 1 or more, or None, got 0"),
        ({"global_gate": False, "global_gate_bias": -4.0}, "`global_gate_bias` belongs to gates.* got .*-4.0"),
        ({"global_block": "gate"}, "`global_block` must be one of 'none', 'full', 'attention', got 'gate'"),
        ({"encoder_self_attention": "recurrent"}, "`encoder_self_attention` must be one of .* got 'recurrent'"),
        ({"cross_attention": "recurrent"}, "`cross_attention` must be one of .* got 'recurrent'"),
        ({"position_aware_decoder": True}, "'recurrent'` has relative positions of its own"),
    ],
)
def test_a_combination_without_meaning_is_refused_with_the_reason(changes, message):
    with pytest.raises(ValueError, match=message):
        DocMTConfig.from_system("global-local", **changes)


def test_embeddings_without_ids_are_refused_with_the_reason():
    # fails if sentences are read off ids that are not there
    model, ids = model_of(), torch.tensor([[22, SEP, 23, EOS]])
    embeddings = model.model.shared(ids)
    with pytest.raises(ValueError, match="`input_ids` are needed by system 'global-local'"):
        model(inputs_embeds=embeddings, labels=ids)
    beside = model(input_ids=ids, inputs_embeds=embeddings, labels=ids).logits
    assert torch.equal(beside, model(input_ids=ids, labels=ids).logits)
