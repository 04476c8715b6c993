"""Probes of positions: what they are asked, what states they read, that they find what is there and nothing else."""

import itertools
import json
import sys

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import MarianConfig

from modeling_docmt.positions_docmt import sinusoids
from training.data import encode_corpus
from training.probe import ProbeArguments, main, model_names, parse_arguments, probe, read_splits
from training.probe_maps import TASKS, PositionProbes
from training.probe_pairs import order_class, relative_class, sample_partners, signed_distances
from training.probe_states import ProbeBatch, StateSource
from training.probe_training import evaluate_probes, fit_probes, update_probes


LENGTH, DISTANCE = 12, 3


def made_up_batch(state_of_position, draw=0, num_layers=1, num_sequences=20):
    """Sequences of `LENGTH` tokens whose states are given by their positions, with drawn pairs."""
    rng = np.random.default_rng(draw)
    starts = np.arange(num_sequences)[:, None] * LENGTH
    first = (starts + np.arange(LENGTH)).ravel()
    second = np.concatenate([start + sample_partners(LENGTH, DISTANCE, rng) for start in starts])
    states = state_of_position.repeat(num_sequences, 1).expand(num_layers, -1, -1)
    positions = torch.arange(1, LENGTH + 1).repeat(num_sequences)
    return ProbeBatch(states, positions, torch.from_numpy(first), torch.from_numpy(second))


def fit(state_of_position, combination="difference", epochs=60, num_layers=1):
    """Probes trained on states that are given by positions, and their scores on other pairs."""
    probes = PositionProbes(num_layers, state_of_position.shape[-1], LENGTH, DISTANCE, combination)
    fit_probes(
        probes,
        lambda epoch: [made_up_batch(state_of_position, epoch + 2, num_layers)],
        lambda: [made_up_batch(state_of_position, 1, num_layers)],
        epochs=epochs,
        learning_rate=0.05,
    )
    return probes, evaluate_probes(probes, [made_up_batch(state_of_position, 0, num_layers)])


def test_classes_of_signed_distances_are_numbered_without_zero():
    # fails if positive distances are not moved down by one
    distances = torch.tensor([-3, -2, -1, 1, 2, 3])
    assert relative_class(distances, 3).tolist() == [0, 1, 2, 3, 4, 5]
    assert signed_distances(3) == distances.tolist()
    assert order_class(distances).tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(("count", "max_distance"), [(2, 1), (2, 20), (5, 3), (30, 1), (30, 20), (45, 20)])
def test_a_partner_is_another_position_in_reach_and_each_is_as_likely(count, max_distance):
    # fails if a partner at the own position or above is not moved up, or if the last position in reach is left out
    rng = np.random.default_rng(0)
    draws = np.stack([sample_partners(count, max_distance, rng) for _ in range(3000)])
    for position in range(count):
        partners, times = np.unique(draws[:, position], return_counts=True)
        reach = range(max(0, position - max_distance), min(count, position + max_distance + 1))
        assert partners.tolist() == [partner for partner in reach if partner != position]
        # five standard deviations of a share of 1 / n
        assert times.max() - times.min() < 10 * (3000 / len(partners)) ** 0.5 + 1


def test_a_position_alone_has_no_partner():
    rng = np.random.default_rng(0)
    assert sample_partners(1, 20, rng).shape == sample_partners(0, 20, rng).shape == (0,)


def test_states_that_say_the_position_are_read_without_error():
    # fails if labels are those of the next position, or if pairs are read off other rows than items
    probes, scores = fit(torch.eye(LENGTH))
    assert probes.labels("absolute", made_up_batch(torch.eye(LENGTH))).tolist() == list(range(LENGTH)) * 20
    assert scores["absolute"].accuracy() == scores["absolute"].tolerance_accuracy() == [100]
    assert scores["order"].accuracy() == [100]


def test_a_layer_over_both_states_finds_distances_that_their_difference_hides():
    _, scores = fit(torch.eye(LENGTH), combination="mlp", epochs=150)
    assert scores["relative"].accuracy() == [100]
    _, by_difference = fit(torch.eye(LENGTH))
    assert by_difference["relative"].accuracy()[0] < 80


@pytest.mark.parametrize("combination", ["difference", "mlp"])
def test_states_that_say_nothing_are_read_at_chance(combination):
    # fails if a probe sees positions or labels beside the states
    _, scores = fit(torch.ones(LENGTH, 6), combination)
    assert scores["absolute"].accuracy() == [pytest.approx(100 / LENGTH, abs=1e-3)]
    assert scores["order"].accuracy() == [pytest.approx(50, abs=6)]
    shares = 100 * scores["relative"].total / scores["relative"].total.sum()
    assert scores["relative"].accuracy()[0] <= float(shares.max()) + 1e-3


def test_the_answer_about_order_turns_with_the_pair():
    # fails if a pair is joined by the sum of its states, or if the map has a bias
    probes = PositionProbes(2, 8, LENGTH, DISTANCE)
    torch.nn.init.normal_(probes.tasks["order"].weight)
    batch = made_up_batch(torch.randn(LENGTH, 8), num_layers=2)
    turned = ProbeBatch(batch.states, batch.positions, first=batch.second, second=batch.first)
    ((logits, _),), ((turned_logits, _),) = (list(probes.answers("order", b)) for b in (batch, turned))
    assert torch.equal(turned_logits, -logits)
    assert torch.equal(turned_logits.argmax(-1), 1 - logits.argmax(-1))
    assert torch.equal(probes.labels("order", turned), 1 - probes.labels("order", batch))


def test_layers_are_trained_as_if_each_were_alone():
    # fails if the loss is a mean over layers, or if a layer reads the states of another
    layers = torch.randn(3, LENGTH, 8)

    def batches(states):
        made = made_up_batch(states[0])
        states = states[:, made.positions - 1]
        return [ProbeBatch(states, made.positions, made.first, made.second)]

    def weights_of(states):
        probes = PositionProbes(len(states), 8, LENGTH, DISTANCE)
        fit_probes(probes, lambda epoch: batches(states), lambda: batches(states), epochs=5, learning_rate=0.01)
        return probes.state_dict()

    together = weights_of(layers)
    for layer in range(3):
        for name, weight in weights_of(layers[layer : layer + 1]).items():
            torch.testing.assert_close(together[name][layer : layer + 1], weight)


def test_slices_of_a_batch_change_nothing(monkeypatch):
    # fails if the loss is divided by the size of a slice
    def weights():
        probes = PositionProbes(1, LENGTH, LENGTH, DISTANCE)
        update_probes(probes, torch.optim.SGD(probes.parameters(), lr=1.0), made_up_batch(torch.eye(LENGTH)))
        return probes.state_dict()

    whole = weights()
    monkeypatch.setattr("training.probe_maps.MOST_SCORES", 100)
    for name, weight in weights().items():
        torch.testing.assert_close(weight, whole[name])


def test_weights_are_those_that_did_best_on_the_validation_data():
    # fails if the last weights are kept
    states = torch.eye(LENGTH)
    wrong = states.flip(0)

    def train(epoch):
        return [made_up_batch(wrong if epoch >= 5 else states, epoch)] * 3

    probes = PositionProbes(1, LENGTH, LENGTH, DISTANCE)
    validation = [made_up_batch(states, 99)]
    found = fit_probes(probes, train, lambda: validation, epochs=30, learning_rate=0.1)
    assert found.updates == 90
    assert all(found.picked_update[task][0] <= 15 for task in TASKS)
    scores = evaluate_probes(probes, validation)
    assert {task: scores[task].accuracy() for task in TASKS} == found.validation_accuracy
    assert scores["absolute"].accuracy() == [100]


def test_training_stops_after_as_many_updates_as_wanted():
    probes = PositionProbes(1, LENGTH, LENGTH, DISTANCE)
    batches = [made_up_batch(torch.eye(LENGTH))]
    found = fit_probes(probes, lambda _: batches * 4, lambda: batches, epochs=3, learning_rate=0.1, max_updates=6)
    assert found.updates == 6


def test_answers_are_counted_for_the_distance_that_was_asked_for():
    # fails if right answers are counted by the class of the answer, or at another pair
    batch = made_up_batch(torch.eye(LENGTH))
    # fresh probes answer with the first class: position 1, distance -K, first token behind the second
    scores = evaluate_probes(PositionProbes(1, LENGTH, LENGTH, DISTANCE), [batch, batch])
    assert scores["absolute"].accuracy() == [pytest.approx(100 / LENGTH, abs=1e-3)]
    assert scores["absolute"].tolerance_accuracy() == [pytest.approx(400 / LENGTH, abs=1e-3)]
    assert scores["relative"].by_group() == [[100, 0, 0, 0, 0, 0]]
    assert scores["order"].by_group() == [[0, 0, 0, 100, 100, 100]]
    counts = [2 * int((batch.distances == distance).sum()) for distance in signed_distances(DISTANCE)]
    assert scores["relative"].total.tolist() == scores["order"].total.tolist() == counts
    assert scores["order"].accuracy() == [pytest.approx(100 * sum(counts[3:]) / sum(counts), abs=1e-3)]


def test_a_distance_that_no_pair_has_has_no_accuracy():
    batch = made_up_batch(torch.eye(LENGTH))
    scores = evaluate_probes(PositionProbes(2, LENGTH, LENGTH, LENGTH), [made_up_batch(torch.eye(LENGTH), 0, 2)])
    assert int(batch.distances.abs().max()) == DISTANCE
    for by_distance in scores["order"].by_group():
        assert [value is None for value in by_distance] == [abs(d) > DISTANCE for d in signed_distances(LENGTH)]


@pytest.fixture
def source_of(make_model, tokenizer, toy_documents):
    """A model and the states of the toy documents in its format."""

    def make(system, batch_tokens=200, **changes):
        model = make_model(system, **changes)
        sequences = encode_corpus(Dataset.from_list(toy_documents), tokenizer, model.config)
        return model, StateSource(model, sequences, max_distance=20, batch_tokens=batch_tokens)

    return make


SYSTEMS = {
    "sentence-level": {},
    "concat-adj": {},
    "lst-attn": {},
    "window-attn": {"window_size": 3},
    "mr-doc2doc": {"training_resolutions": "document", "normalize_before": True},
}


@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_states_are_those_of_the_model_on_each_sequence_alone(source_of, system):
    """
    Layer 0 is embedding and position; padding and neighbours in the batch change nothing.

    Fails if `<sos>` or `<eos>` are items, or if the rows of the batch are cut at the wrong places.
    """
    model, source = source_of(system, **SYSTEMS[system])
    config = model.config
    expected = []
    for ids in source.sequences["input_ids"]:
        whole = torch.tensor([ids])
        outputs = model(input_ids=whole, decoder_input_ids=whole[:, :1], output_hidden_states=True, use_cache=False)
        states = torch.stack(outputs.encoder_hidden_states)[:, 0]
        embedded = model.get_encoder().embed_tokens(whole)[0] * config.d_model**0.5
        if config.position_encoding == "sinusoidal":
            embedded = embedded + sinusoids(torch.arange(len(ids)), config.d_model, embedded.dtype)
        torch.testing.assert_close(states[0], embedded)
        torch.testing.assert_close(states[-1], outputs.encoder_last_hidden_state[0])
        kept = [place for place, token in enumerate(ids) if token not in (config.sos_token_id, config.eos_token_id)]
        assert len(kept) == len(ids) - 1 - config.use_sos
        expected += [(place + 1, states[:, place]) for place in kept]

    batches = list(source.batches())
    assert len(batches) > 1
    found = [
        (int(position), batch.states[:, index]) for batch in batches for index, position in enumerate(batch.positions)
    ]
    assert source.summary()["items"] == len(found) == len(expected)

    def in_order(items):
        # positions first, then by a state, whose rounding decides between equal tokens alone
        return sorted(items, key=lambda item: (item[0], [round(value, 3) for value in item[1][-1, :4].tolist()]))

    for (position, states), (wanted_position, wanted) in zip(in_order(found), in_order(expected), strict=True):
        assert position == wanted_position
        torch.testing.assert_close(states, wanted, atol=1e-4, rtol=1e-4)


def test_pairs_stay_within_a_sequence_and_do_not_depend_on_the_batch(source_of):
    # fails if one random generator goes through all batches, or if the start of a sequence is not added
    def pairs(batch_tokens, epoch=None):
        _, source = source_of("concat-document", batch_tokens=batch_tokens)
        found = []
        for batch in source.batches(epoch):
            distances = batch.distances.abs()
            assert ((distances >= 1) & (distances <= 20)).all()
            # two places of the flat row are as far apart as their positions: they are of one sequence
            assert torch.equal(batch.first - batch.second, batch.distances)
            found += zip(batch.positions[batch.first].tolist(), batch.positions[batch.second].tolist(), strict=True)
        assert source.summary()["pairs"] == len(found)
        return sorted(found)

    assert pairs(100) == pairs(100) == pairs(4000)
    assert pairs(100, epoch=0) == pairs(4000, epoch=0)
    assert len({tuple(draw) for draw in (pairs(100), pairs(100, epoch=0), pairs(100, epoch=1))}) == 3


def test_each_epoch_has_an_order_of_its_own_and_evaluation_one_order(source_of):
    # fails if the epoch does not reach the sampler
    _, source = source_of("concat-document", batch_tokens=100)
    orders = [[len(batch.positions) for batch in source.batches(epoch)] for epoch in (None, None, 0, 1, 2)]
    assert orders[0] == orders[1]
    assert orders[2] != orders[3] != orders[4]


@pytest.fixture
def save(make_model, tokenizer, tmp_path):
    def save_model(system, **changes):
        folder = tmp_path / system
        make_model(system, **changes).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)

    return save_model


def test_the_command_compares_models_in_one_file_and_one_picture(save, toy_corpus, tmp_path, capsys):
    models = [save("concat-document"), save("window-attn", window_size=3)]
    output, plot = tmp_path / "results" / "probe.json", tmp_path / "results" / "probe.png"
    main(
        [
            *("--model", *models, "--train_file", str(toy_corpus), "--test_file", str(toy_corpus)),
            *("--output", str(output), "--plot", str(plot), "--epochs", "8", "--learning_rate", "0.02"),
            *("--batch_tokens", "300", "--max_test_documents", "8", "--part_tokens", "40"),
        ]
    )
    assert plot.read_bytes().startswith(b"\x89PNG")
    text = output.read_text(encoding="utf-8")
    result = json.loads(text)
    assert str(tmp_path) not in text
    assert (result["kind"], result["max_distance"], result["tolerance"], result["seed"]) == ("probe", 20, 3, 0)
    assert result["documents"] == {"train": 11, "validation": 1, "test": 8}
    assert [len(hashes) for hashes in result["sha256"].values()] == [1, 0, 1]
    assert {"command", "date", "versions", "hardware"} <= set(result["run"])
    assert [model["system"] for model in result["models"]] == ["concat-document", "window-attn"]
    for model in result["models"]:
        assert model["chance"] == {"absolute": pytest.approx(100 / model["num_positions"], abs=1e-3)} | {
            "relative": 2.5,
            "order": 50.0,
        }
        assert model["updates"] >= 8
        assert [layer["layer"] for layer in model["layers"]] == [0, 1, 2]
        assert model["data"]["test"]["pairs"] == sum(model["pairs_by_distance"])
        for layer, task in itertools.product(model["layers"], ("relative", "order")):
            assert len(layer[task]["by_distance"]) == len(model["distances"]) == 40
            assert 0 <= layer[task]["accuracy"] <= 100
    with_positions, without = ([layer["absolute"] for layer in model["layers"]] for model in result["models"])
    # embeddings without sinusoids know tokens alone
    assert with_positions[0]["tolerance_accuracy"] > 1.5 * without[0]["tolerance_accuracy"]
    table = capsys.readouterr().out
    assert "window-attn (window-attn)" in table
    assert "chance" in table


def test_one_model_is_drawn_layer_by_layer_and_the_run_can_be_repeated(save, toy_corpus, tmp_path):
    folder, plot = save("sentence-level"), tmp_path / "probe.png"
    files = {"train_file": [str(toy_corpus)], "test_file": [str(toy_corpus)], "validation_file": [str(toy_corpus)]}
    options = {"combination": "mlp", "max_updates": 3, "batch_tokens": 200, **files}
    first, second = (probe(ProbeArguments(model=[folder], plot=path, **options), []) for path in (str(plot), None))
    assert first["models"][0]["layers"] == second["models"][0]["layers"]
    assert first["models"][0]["updates"] == 3
    assert plot.stat().st_size > 0


def test_checkpoints_of_the_same_name_are_told_apart():
    assert model_names(["runs/a/checkpoint-1", "runs/b/checkpoint-1", "runs/c"]) == [
        "a/checkpoint-1",
        "b/checkpoint-1",
        "c",
    ]


def test_every_tenth_training_document_is_kept_where_no_other_validates(toy_corpus, toy_documents):
    arguments = ProbeArguments(model=["m"], train_file=[str(toy_corpus)], test_file=[str(toy_corpus)])
    splits = read_splits(arguments)
    assert splits["validation"]["src"][0] == toy_documents[9]["src"]
    assert list(splits["train"]["src"]) == [doc["src"] for i, doc in enumerate(toy_documents) if i != 9]
    arguments.max_train_documents = 1
    with pytest.raises(ValueError, match="name documents for it as `--validation_file`"):
        read_splits(arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_distance": 0}, "`--max_distance` must be 1 or more, got 0"),
        ({"epochs": 0}, "`--epochs` must be 1 or more, got 0"),
        ({"max_updates": 0}, "`--max_updates` must be 1 or more, got 0"),
        ({"learning_rate": 0.0}, "`--learning_rate` must be above 0, got 0.0"),
    ],
)
def test_options_without_meaning_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ProbeArguments(model=["m"], train_file=["t"], test_file=["t"], **options)


def test_what_cannot_be_probed_is_answered_with_what_to_do(save, toy_corpus, tmp_path, monkeypatch):
    files = ["--train_file", str(toy_corpus), "--test_file", str(toy_corpus)]
    MarianConfig(vocab_size=32, d_model=16).save_pretrained(tmp_path / "marian")
    with pytest.raises(SystemExit, match="holds a 'marian', and states of DocMT models are probed"):
        main(["--model", str(tmp_path / "marian"), *files])
    folder = save("concat-adj")
    with pytest.raises(SystemExit, match="a sequence of system 'concat-adj' is of format 'context_window'"):
        main(["--model", folder, *files, "--part_tokens", "50"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"needs matplotlib: pip install 'docmt\[plot\]'"):
        main(["--model", folder, *files, "--plot", str(tmp_path / "probe.png")])


def test_options_can_stand_in_a_yaml_file(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCMT_DATA", "folder")
    path = tmp_path / "probe.yaml"
    path.write_text("model: [a, b]\ntrain_file: [$DOCMT_DATA/t.jsonl]\ntest_file: [u.jsonl]\n", encoding="utf-8")
    parsed = parse_arguments([str(path), "--seed", "5"])
    assert (parsed.model, parsed.train_file, parsed.seed) == (["a", "b"], ["folder/t.jsonl"], 5)
