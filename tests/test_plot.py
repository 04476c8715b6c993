"""Pictures of attention between sentences: what is summed for each system, and the command."""

import json
import sys

import pytest
import torch
from transformers import MarianConfig

from modeling_docmt.documents_docmt import encode_sentences
from modeling_docmt.formatting_docmt import format_sequence
from training.attention_share import attention_share
from training.plot import attention_by_place, main, sentence_attention


SYSTEMS = {
    "sentence-level": ("sentence-level", {}),
    "concat-adj": ("concat-adj", {}),
    "source-context": (
        "sentence-level",
        {"sequence_format": "source_context", "context_sentences": 1},
    ),
    "concat-document": ("concat-document", {}),
    "parts": ("concat-document", {"max_part_sentences": 2}),
    "lst-attn": ("lst-attn", {}),
    "lst-attn heads": ("lst-attn", {"lst_mode": "heads"}),
    "window-attn": ("window-attn", {"window_size": 9, "encoder_layers": 3}),
    "p-transformer": ("p-transformer", {"relative_distances": 4}),
    "g-transformer": ("g-transformer", {"global_layers": 1}),
    "g-transformer without gates": ("g-transformer", {"global_layers": 0}),
    "global-local": ("global-local", {}),
    "global attention": ("global-local", {"global_block": "attention"}),
    "groups": ("global-local", {"max_part_sentences": 3}),
    "mr-doc2doc": ("mr-doc2doc", {}),
}


@pytest.fixture
def document(tokenizer, toy_documents):
    """Token ids of four sentences, and of a fifth one, before the last, that has no translation."""
    [record] = [record for record in toy_documents if record["id"] == "lighthouse"]
    sides = [encode_sentences(tokenizer, record[side]) for side in ("src", "tgt")]
    return [*sides[0][:3], sides[0][0], sides[0][3]], [*sides[1][:3], [], sides[1][3]]


@pytest.fixture
def eager_model(make_model):
    def make(name, **more):
        system, changes = SYSTEMS[name]
        model = make_model(system, dtype=torch.float64, **{**changes, **more})
        model.set_attn_implementation("eager")
        return model

    return make


def matrix_of(weights: torch.Tensor, rows: list[int], columns: list[int]) -> list[list[float]]:
    """Of weights `(H, T, K)` and the sentences of queries and keys, word by word."""
    heads = len(weights)
    found = [[0.0] * (1 + max(columns)) for _ in range(1 + max(rows))]
    for head in weights.tolist():
        for row, line in zip(rows, head, strict=True):
            for column, weight in zip(columns, line, strict=True):
                found[row][column] += weight / heads / rows.count(row)
    return found


def sentences_of(sentences: list) -> list[int]:
    """Of each token and closing token."""
    return [number for number, sentence in enumerate(sentences) for _ in range(len(sentence) + 1)]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_sentence_has_all_of_its_attention_in_its_row(eager_model, document, name):
    """INV-D6, for every system: fails if `<bod>` is left out, or if a sentence counts from the start of its part."""
    found = sentence_attention(eager_model(name), *document)
    # the sentence without a translation is in no sequence
    assert found["rows"] == [1, 2, 3, 5]
    assert found["columns"] == ([0, 1, 2, 3, 5] if name == "concat-adj" else [1, 2, 3, 5])
    for place in ("encoder", "cross"):
        matrices = [layer["matrix"] for layer in found[place]["layers"]]
        for matrix in (*matrices, found[place]["mean"]):
            matrix = torch.tensor(matrix, dtype=torch.float64)
            assert matrix.shape == (4, len(found["columns"]))
            assert (matrix.sum(dim=-1) - 1).abs().max() <= 1e-12 and (matrix >= 0).all()


@pytest.mark.parametrize("name", ["concat-document", "window-attn", "p-transformer", "global-local"])
def test_a_matrix_is_the_sum_over_words_mean_over_heads_a_word(eager_model, document, name):
    """D11; fails if rows are divided by the words that are looked at, or if heads are added."""
    model = eager_model(name)
    source, target = (side[:2] for side in document)
    found = sentence_attention(model, source, target)
    ids = torch.tensor([format_sequence(source, model.config)])
    labels = format_sequence(target, model.config, source=False)
    inputs = torch.tensor([[model.config.decoder_start_token_id, *labels[:-1]]])
    outputs = model(input_ids=ids, decoder_input_ids=inputs, output_attentions=True, use_cache=False)
    of_source = [0] * model.config.use_sos + sentences_of(source)
    for place, attentions, rows in (
        ("encoder", outputs.encoder_attentions, of_source),
        ("cross", outputs.cross_attentions, sentences_of(target)),
    ):
        layers = found[place]["layers"]
        expected = [matrix_of(weights[0], rows, of_source) for weights in attentions]
        num_layers = {"encoder": model.config.encoder_layers + (name == "global-local"), "cross": 2}
        assert len(layers) == len(expected) == num_layers[place]
        for layer, matrix in zip(layers, expected, strict=True):
            assert (torch.tensor(layer["matrix"]) - torch.tensor(matrix)).abs().max() <= 1e-6
        seeing = [matrix for layer, matrix in zip(layers, expected, strict=True) if layer["sees_document"]]
        mean = torch.tensor(seeing or expected).mean(dim=0)
        assert (torch.tensor(found[place]["mean"]) - mean).abs().max() <= 1e-6


def layers_of(model, document) -> dict[str, list]:
    """Of each layer its name, whether it sees the document, and whether its matrix is the identity."""
    found = sentence_attention(model, *document)
    return {
        place: [
            (layer["name"], layer["sees_document"], torch.allclose(torch.tensor(layer["matrix"]), torch.eye(4)))
            for layer in found[place]["layers"]
        ]
        for place in ("encoder", "cross")
    }


def test_of_two_views_the_global_one_is_shown(eager_model, document):
    """Fails if the heads that see one sentence are in the mean: half of a row would be on the diagonal."""
    for name in ("lst-attn", "lst-attn heads", "g-transformer"):
        model = eager_model(name)
        attention = model.model.encoder.layers[1].self_attn
        other = attention.global_heads if name == "g-transformer" else attention
        # all keys alike: uniform over what is seen
        torch.nn.init.zeros_(other.q_proj.weight)
        torch.nn.init.zeros_(other.q_proj.bias)
        found = sentence_attention(model, *document)
        lengths = torch.tensor([len(document[0][place]) + 1 for place in (0, 1, 2, 4)], dtype=torch.float64)
        expected = (lengths / lengths.sum()).expand(4, 4)
        matrix = torch.tensor(found["encoder"]["layers"][1]["matrix"], dtype=torch.float64)
        assert (matrix - expected).abs().max() <= 1e-6


def test_layers_that_see_one_sentence_are_told_apart(eager_model, document):
    local, open_ = ("layer 1", False, True), ("layer 2", True, False)
    assert layers_of(eager_model("g-transformer"), document) == {"encoder": [local, open_], "cross": [local, open_]}
    closed = [local, ("layer 2", False, True)]
    assert layers_of(eager_model("g-transformer without gates"), document) == {"encoder": closed, "cross": closed}
    for name in ("global-local", "global attention"):
        found = layers_of(eager_model(name), document)
        assert found == {"encoder": [*closed, ("global block", True, False)], "cross": closed}


def test_a_group_of_one_sentence_that_skips_the_block_looks_at_itself(eager_model, document):
    """Fails if what is skipped is missing from the sums."""
    alone = sentence_attention(eager_model("global-local", max_part_sentences=1), *document)
    assert torch.allclose(torch.tensor(alone["encoder"]["mean"]), torch.eye(4))
    pairs = torch.tensor(
        sentence_attention(eager_model("global-local", max_part_sentences=2), *document)["encoder"]["mean"]
    )
    # nothing is seen beyond the group
    assert not pairs[:2, 2:].any() and not pairs[2:, :2].any() and (pairs[:2, :2] > 0).all()


@pytest.mark.parametrize("name", ["concat-adj", "concat-document", "window-attn", "p-transformer", "mr-doc2doc"])
def test_the_diagonal_is_the_share_on_the_aligned_sentence(eager_model, document, name):
    """Table 1 and figure 4 from one source; fails if either counts other queries."""
    model = eager_model(name)
    found, share = sentence_attention(model, *document), attention_share(model, [document])
    words = [len(document[1][number - 1]) + 1 for number in found["rows"]]
    assert share.queries == sum(words)
    for layer, percent in zip(found["cross"]["layers"], share.per_layer, strict=True):
        offset = len(found["columns"]) - 4
        own = sum(count * row[offset + k] for k, (count, row) in enumerate(zip(words, layer["matrix"], strict=True)))
        assert 100 * own / sum(words) == pytest.approx(percent, abs=1e-5)


def test_places_are_counted_from_the_sentence_itself():
    # fails if the column of <bod> is taken for the first sentence
    matrix = [[0.4, 0.6, 0.0, 0.0], [0.0, 0.5, 0.3, 0.2], [0.0, 0.1, 0.2, 0.7]]
    three = {"rows": [1, 2, 3], "columns": [0, 1, 2, 3], "cross": {"mean": matrix}}
    expected = {"own": 53.33, "previous": 35.0, "next": 10.0, "first": 40.0, "second": 16.67}
    assert attention_by_place([three], "cross") == expected
    one = {"rows": [4], "columns": [4], "cross": {"mean": [[1.0]]}}
    assert attention_by_place([one], "cross") == {"own": 100.0, "first": 100.0}
    # a mean over sentences, not over documents
    assert attention_by_place([three, one], "cross") == {**expected, "own": 65.0, "first": 55.0}


def test_a_document_without_pairs_is_refused(eager_model):
    with pytest.raises(ValueError, match="no sentence with words on both sides"):
        sentence_attention(eager_model("concat-document"), [[300], []], [[], [301]])


@pytest.fixture
def save(make_model, tokenizer, tmp_path):
    def save_model(system, **changes):
        make_model(system, **changes).save_pretrained(tmp_path / "model")
        tokenizer.save_pretrained(tmp_path / "model")
        return str(tmp_path / "model")

    return save_model


@pytest.mark.parametrize("system", ["global-local", "concat-adj"])
def test_the_command_writes_a_picture_and_its_data(save, toy_corpus, tmp_path, capsys, system):
    picture = tmp_path / "plots" / "attention.png"
    flags = ["--model", save(system), "--data", str(toy_corpus), "--output", str(picture)]
    main(["attention", *flags, "--max_sentences", "3", "--target", "reference"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = picture.with_suffix(".json").read_text(encoding="utf-8")
    results = json.loads(text)
    assert str(tmp_path) not in text and sorted(path.name for path in picture.parent.iterdir()) == [
        "attention.json",
        "attention.png",
    ]
    names = {"kind": "sentence-attention", "system": system, "document": 0, "document_id": "lighthouse"}
    assert names.items() <= results.items() and results["target"] == "reference"
    assert results["rows"] == [1, 2, 3]
    assert {"command", "date", "versions", "hardware"} <= set(results["run"])
    assert results["run"]["command"].endswith("--max_sentences 3 --target reference")
    assert "source to source" in capsys.readouterr().out


def test_the_own_translation_is_read_where_it_has_as_many_sentences(save, toy_corpus, tmp_path):
    flags = ["--model", save("global-local"), "--data", str(toy_corpus), "--output", str(tmp_path / "a.svg")]
    results = main(["attention", *flags, "--document", "1"])
    assert (results["target"], results["document_id"], results["rows"]) == ("own", "one-sentence", [1])
    assert results["encoder"]["mean"] == [[1.0]]
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_attention_by_place_is_over_as_many_documents_as_asked_for(save, toy_corpus, tmp_path):
    flags = ["--model", save("global-local"), "--data", str(toy_corpus), "--target", "reference"]
    flags += ["--output", str(tmp_path / "a.svg"), "--documents"]
    one, two = (main(["attention", *flags, number]) for number in "12")
    assert (one["documents"], two["documents"]) == (1, 2)
    assert one["encoder"]["mean"] == two["encoder"]["mean"]
    # the second document has one sentence, which looks at itself
    count = len(one["rows"])
    own = (count * one["encoder"]["by_place"]["own"] + 100) / (count + 1)
    assert two["encoder"]["by_place"]["own"] == pytest.approx(own, abs=0.02)


def test_what_cannot_be_drawn_is_answered_with_what_to_do(save, toy_corpus, tmp_path, monkeypatch):
    MarianConfig(vocab_size=32, d_model=16).save_pretrained(tmp_path / "marian")
    folder, picture = save("concat-document"), str(tmp_path / "a.png")
    files = ["--data", str(toy_corpus), "--output", picture]
    for flags, message in (
        (["--model", str(tmp_path / "marian"), *files], "holds a 'marian', and attention of DocMT models is read"),
        (["--model", folder, *files, "--document", "99"], "has no document 99, counted from 0"),
        (["--model", folder, *files, "--document", "-1"], "`--document` must be 0 or more, got -1"),
        (["--model", folder, *files, "--documents", "0"], "`--documents` must be 1 or more, got 0"),
        (["--model", folder, *files, "--documents", "99"], "has 12 from 0 on, not 99"),
        (["--model", folder, *files, "--max_sentences", "0"], "`--max_sentences` must be 1 or more, got 0"),
        (["--model", folder, "--data", str(toy_corpus), "--output", "a.json"], "must end in .png .* got 'a.json'"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(["attention", *flags])
    for first in ([], ["attentions"]):
        with pytest.raises(SystemExit, match="attention"):
            main(first)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"needs matplotlib: pip install 'docmt\[plot\]'"):
        main(["attention", "--model", folder, *files])
