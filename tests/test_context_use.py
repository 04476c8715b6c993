"""What context is worth to a model: known answers, plain forward passes, and nothing where there is no context."""

import json

import numpy as np
import pytest
import torch
from marian_models import write_opus_checkpoint

from modeling_docmt.documents_docmt import encode_sentences
from modeling_docmt.formatting_docmt import format_sequence
from training.context_use import context_use, differences, main
from training.context_use_items import CONTEXTS, context_items, text_pairs
from training.contrastive import System
from training.contrastive_scorer import ContrastiveScorer, score_here
from training.contrastive_sequences import ContextSizes, SentenceCache, SystemFormat, build_sequences


def numbered_documents(*lengths):
    """Documents whose pairs say where they stand."""
    return [
        [(f"s{document}.{index}", f"t{document}.{index}") for index in range(length)]
        for document, length in enumerate(lengths)
    ]


def as_records(documents):
    return [
        {"id": str(number), "src": [s for s, _ in document], "tgt": [t for _, t in document]}
        for number, document in enumerate(documents)
    ]


@pytest.fixture
def open_model(tokenizer):
    def open_here(model):
        score = score_here(ContrastiveScorer(model))
        return System(SystemFormat(model.config), SentenceCache(tokenizer), score)

    return open_here


@pytest.mark.parametrize("size", [1, 3])
def test_shuffled_context_is_pairs_of_other_documents_and_as_many(size):
    # fails if a document can be drawn for itself, or if source and target are drawn apart
    documents = numbered_documents(5, 1, 0, 2, 4)
    origins = set()
    for seed in range(30):
        items = context_items(documents, size, seed)
        assert len({len(items[name]) for name in CONTEXTS}) == 1
        for right, shuffled, alone in zip(*(items[name] for name in CONTEXTS), strict=True):
            assert right.source[-1] == shuffled.source[-1] == alone.source[-1]
            assert right.reference[-1] == shuffled.reference[-1] == alone.reference[-1]
            document, index = (int(number) for number in right.source[-1][1:].split("."))
            assert right.source == tuple(f"s{document}.{i}" for i in range(max(0, index - size), index + 1))
            assert len(shuffled.source) == len(right.source) > len(alone.source) == 1
            assert [s[1:] for s in shuffled.source] == [t[1:] for t in shuffled.reference]
            drawn = {int(s[1:].split(".")[0]) for s in shuffled.source[:-1]}
            assert document not in drawn
            origins |= {(document, other) for other in drawn}
    # every document draws from every other one that has text
    assert origins == {(a, b) for a in (0, 3, 4) for b in (0, 1, 3, 4) if a != b}


def test_the_seed_alone_decides_what_is_drawn():
    documents = numbered_documents(5, 6, 7)
    assert context_items(documents, 2, 1) == context_items(documents, 2, 1)
    assert context_items(documents, 2, 1)["shuffled"] != context_items(documents, 2, 2)["shuffled"]
    assert context_items(documents, 2, 1)["right"] == context_items(documents, 2, 2)["right"]


@pytest.mark.parametrize("system", ["concat-document", "concat-adj"])
def test_a_scorer_of_known_answers_gives_their_differences(make_model, tokenizer, system):
    """-1 a token with sentences of the own document, -1.5 without context, -2 with others. Fails for a wrong sign."""
    words = ["door", "house", "river"]
    records = [
        {"id": word, "src": [f"The {word}."] * length, "tgt": [f"Die {word}."] * length}
        for word, length in zip(words, (3, 2, 5), strict=True)
    ]

    def score(batches):
        for batch in batches:
            found = []
            for item in batch:
                text, (target,) = tokenizer.decode(item.source), (tokenizer.decode(labels) for labels in item.targets)
                word = next(word for word in words if word in target.rpartition("Die")[2])
                others = sum(text.count(other) for other in words if other != word)
                rate = 2 if others else 1 if text.count(word) > 1 else 1.5
                found.append([-rate * len(item.scored[0])] * len(item.candidates))
            yield found

    form = SystemFormat(make_model(system, context_sentences=2 if system == "concat-adj" else 0).config)
    found = context_use(records, System(form, SentenceCache(tokenizer), score), resamples=50)
    assert found["context"] == {"source": 4 if system == "concat-document" else 2, "target": 4, "right": 0} | (
        {"target": 2} if system == "concat-adj" else {}
    )
    assert found["log_probability"] == {"right": -1.0, "shuffled": -2.0, "none": -1.5}
    assert found["right_less_none"] == {"score": 0.5, "interval": [0.5, 0.5]}
    assert found["right_less_shuffled"] == {"score": 1.0, "interval": [1.0, 1.0]}
    assert (found["sentences"], found["sentences_without_context"], found["documents"]) == (7, 3, 3)
    lengths = [len(ids) + 1 for ids in encode_sentences(tokenizer, [f"Die {word}." for word in words], target=True)]
    assert found["target_tokens"] == 2 * lengths[0] + lengths[1] + 4 * lengths[2]
    assert "note" not in found


def plain_log_probability(model, tokenizer, documents, context):
    """Nats a token of the current sentences, one sequence at a time."""
    total, tokens = 0.0, 0
    for document in documents:
        sources, targets = (
            encode_sentences(tokenizer, [pair[side] for pair in document], target=bool(side)) for side in (0, 1)
        )
        for index in range(1, len(document)):
            first = max(0, index - context)
            source = format_sequence(sources[first : index + 1], model.config)
            labels = format_sequence(targets[first : index + 1], model.config, source=False)
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([source]), labels=torch.tensor([labels])).logits[0]
            found = logits.log_softmax(-1).gather(1, torch.tensor(labels)[:, None])[:, 0]
            total, tokens = total + float(found[-len(targets[index]) - 1 :].sum()), tokens + len(targets[index]) + 1
    return total / tokens


def test_log_probabilities_are_those_of_plain_forward_passes(make_model, tokenizer, open_model, toy_documents):
    # fails if context counts among the tokens, or if the current sentence is another one
    model = make_model("concat-document", init_std=0.2)
    found = context_use(toy_documents, open_model(model), context_sentences=2, resamples=0)
    documents = text_pairs(toy_documents)
    expected = [plain_log_probability(model, tokenizer, documents, context) for context in (2, 0)]
    assert [found["log_probability"][name] for name in ("right", "none")] == pytest.approx(expected, abs=1e-5)
    assert found["right_less_none"]["score"] == pytest.approx(expected[0] - expected[1], abs=1e-5)
    assert found["right_less_none"]["interval"] is None


def test_an_untrained_model_gains_next_to_nothing_but_not_exactly(make_model, open_model, toy_documents):
    # fails if the contexts do not reach the model
    found = context_use(toy_documents, open_model(make_model("concat-document")), resamples=20)
    for name in ("right_less_none", "right_less_shuffled"):
        assert 0 < abs(found[name]["score"]) < 0.05


def test_the_batch_changes_no_number(make_model, open_model, toy_documents):
    system = open_model(make_model("concat-document", init_std=0.1))
    alone, together = (context_use(toy_documents, system, batch_tokens=size, resamples=20) for size in (1, 10_000))
    assert alone["log_probability"] == pytest.approx(together["log_probability"], abs=1e-5)
    for name in ("right_less_none", "right_less_shuffled"):
        assert alone[name]["score"] == pytest.approx(together[name]["score"], abs=1e-5)
        assert alone[name]["interval"] == pytest.approx(together[name]["interval"], abs=1e-5)


def test_a_model_that_learned_to_look_back_gains_from_the_right_context(make_model, tokenizer, open_model):
    """The second sentence is the same in all documents, and its translation is the word of the first."""
    words = ["door", "house", "river", "lamp", "table", "cat", "bridge", "hall"]
    records = [{"id": word, "src": [word, "It."], "tgt": [word, word]} for word in words]
    small = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0, "context_sentences": 1}
    model = make_model("concat-adj", **small)
    system = open_model(model)
    items = context_items(text_pairs(records), 1)["right"]
    sequences = build_sequences(items, system.form, system.cache, ContextSizes(1, 1))
    batch = ContrastiveScorer(model)._collator(
        [{"input_ids": item.source, "labels": item.targets[0]} for item in sequences]
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(80):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    found = context_use(records, system, resamples=200)
    assert found["right_less_shuffled"]["score"] > 1
    assert found["right_less_shuffled"]["interval"][0] > 0
    assert found["right_less_none"]["interval"][0] > 0


@pytest.fixture
def data(toy_documents, tmp_path):
    path = tmp_path / "toy.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in toy_documents), encoding="utf-8")
    return path


@pytest.fixture
def save(make_model, tokenizer, tmp_path):
    def save_model(system, **changes):
        folder = tmp_path / "models" / system
        make_model(system, **changes).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)

    return save_model


def run(*arguments, tmp_path):
    output = tmp_path / "out.json"
    main([*map(str, arguments), "--output", str(output)])
    text = output.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    return json.loads(text)


@pytest.mark.parametrize("kind", ["sentence-level", "marian"])
def test_a_system_without_context_has_exactly_0_and_runs_once(
    kind, save, data, toy_documents, tmp_path, monkeypatch, capsys
):
    # fails if the three contexts are scored anyway, in batches that round differently
    folder = tmp_path / "opus"
    if kind == "marian":
        folder.mkdir()
        write_opus_checkpoint(folder, toy_documents, max_position_embeddings=512)
    scored = []
    plain = ContrastiveScorer.score
    monkeypatch.setattr(ContrastiveScorer, "score", lambda self, items: scored.extend(items) or plain(self, items))
    model = folder if kind == "marian" else save("sentence-level")
    (entry,) = run("--model", model, "--data", data, "--resamples", 20, tmp_path=tmp_path)["test_sets"]
    found = entry["context_use"]
    assert len(scored) == found["sentences"] == sum(max(len(pairs) - 1, 0) for pairs in text_pairs(toy_documents))
    assert len(set(found["log_probability"].values())) == 1
    for name in ("right_less_none", "right_less_shuffled"):
        assert found[name] == {"score": 0.0, "interval": [0.0, 0.0]}
    assert "sees no context" in found["note"]
    assert "+0.0000 [+0.0000, +0.0000]" in capsys.readouterr().out


def test_the_command_reports_its_recipe(save, data, toy_documents, tmp_path, capsys):
    model = save("window-attn", window_size=3)
    result = run("--model", model, "--data", data, "--resamples", 20, "--max_documents", 6, tmp_path=tmp_path)
    assert (result["kind"], result["max_documents"]) == ("context-use", 6)
    assert {"command", "date", "versions", "hardware"} <= set(result["run"])
    found = result["test_sets"][0]["context_use"]
    assert "source:4|target:4-reference|alignment:sent-align|" in found["signature"]
    counted = found["sentences"] + found["sentences_without_context"] + found["sentences_without_text"]
    assert counted == sum(len(record["src"]) for record in toy_documents[:6])
    assert "toy.jsonl" in capsys.readouterr().out


def test_the_number_of_context_sentences_can_be_chosen(save, data, tmp_path):
    model = save("concat-document", init_std=0.2)
    scores = []
    for options in ([], ["--context_sentences", 1]):
        result = run("--model", model, "--data", data, *options, "--resamples", 0, tmp_path=tmp_path)
        scores.append(result["test_sets"][0]["context_use"]["log_probability"])
    assert scores[0]["right"] != scores[1]["right"]
    assert scores[0]["none"] == scores[1]["none"]


def test_a_model_without_target_context_gets_source_context_alone(make_model, open_model, toy_documents):
    changes = {"sequence_format": "source_context", "context_sentences": 2, "default_decoding": "sentence"}
    model = make_model("concat-document", init_std=0.2, **changes)
    found = context_use(toy_documents, open_model(model), resamples=0)
    assert found["context"] == {"source": 2, "target": 0, "right": 0}
    assert found["right_less_none"]["score"] != 0


def test_pairs_without_text_are_no_context_and_are_counted(make_model, open_model):
    records = [
        {"id": "a", "src": ["One.", " ", "Two.", "Three."], "tgt": ["Eins.", "Nichts.", "", "Drei."]},
        {"id": "b", "src": ["Four."], "tgt": ["Vier."]},
    ]
    found = context_use(records, open_model(make_model("concat-document")), resamples=0)
    names = ("sentences", "sentences_without_context", "sentences_without_text", "documents")
    assert [found[name] for name in names] == [1, 2, 2, 2]


def test_draws_without_any_sentence_in_context_are_left_out_and_counted():
    # fails if 0 tokens are divided by
    sums = np.array([[-2.0, -6.0, -4.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    found = differences(sums, resamples=100)
    assert found["log_probability"] == {"right": -1.0, "shuffled": -3.0, "none": -2.0}
    assert found["right_less_none"]["interval"] == [1.0, 1.0]
    assert found["right_less_shuffled"]["score"] == 2.0
    assert 0 < found["right_less_none"]["undefined_draws"] < 100


@pytest.mark.parametrize(
    ("lengths", "options", "message"),
    [
        ((3,), [], "test.jsonl: shuffled context is drawn from other documents, and 1 of 1 documents have text"),
        ((3, 0), [], "and 1 of 2 documents have text"),
        ((1, 1), [], "test.jsonl: no sentence has context"),
        ((3, 3), ["--context_sentences", "3"], "`context_sentences` must be at most 1 for this model, got 3"),
        ((3, 3), ["--context_sentences", "0"], "`--context_sentences` must be 1 or more, got 0"),
        ((3, 3), ["--alignment", "linear"], "`alignment` is for windows in cross-attention"),
        ((3, 3), ["--separator", "|"], "`--separator` is for models of another kind"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_the_model_is_loaded(
    lengths, options, message, save, tmp_path, monkeypatch
):
    def load(self):
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("training.contrastive_scorer.ScorerSettings.load", load)
    path = tmp_path / "test.jsonl"
    records = as_records(numbered_documents(*lengths))
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    with pytest.raises(SystemExit, match=f"context_use: .*{message}"):
        main(["--model", save("concat-adj", context_sentences=1), "--data", str(path), *options])


@pytest.mark.slow
def test_processes_change_no_number(save, data, tmp_path):
    model = save("concat-adj", context_sentences=1, init_std=0.2)
    one, two = (
        run("--model", model, "--data", data, "--num_processes", count, tmp_path=tmp_path)["test_sets"][0]
        for count in (1, 2)
    )
    for entry in (one, two):
        del entry["context_use"]["seconds"]
    assert one == two
