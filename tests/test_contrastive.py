"""The command `contrastive`: what it counts, reports and writes, on small models and on the real suites."""

import gzip
import itertools
import json

import pytest
import torch
from marian_models import write_opus_checkpoint

from training.contrastive import main, read_items
from training.contrastive_arguments import ContrastiveArguments
from training.contrastive_items import aligned_item
from training.contrastive_readers import read_suite
from training.contrastive_report import breakdowns, count_scores
from training.contrastive_sequences import ContextSizes, PlainFormat, SentenceCache, build_sequences
from training.hypotheses import load_tokenizer
from training.results import sha256_of_file


def items_of(labels, candidates=3):
    return [
        aligned_item(id=str(i), source="a", candidates=[f"b{j}" for j in range(candidates)], labels=each)
        for i, each in enumerate(labels)
    ]


def test_ties_are_wrong_and_are_counted():
    # fails if `>=` stands for `>`, or if ties among wrong candidates count
    items = items_of([{}] * 8)
    scores = [
        [-1.0, -2.0, -3.0],  # right
        [-1.0, -1.0, -3.0],  # a tie, the right one first
        [-2.0, -1.0, -1.0],  # wrong, the others tie
        [-3.0, -1.0, -2.0],  # wrong
        [-1.0, -1.0, -1.0],  # constant
        [-1.0, -2.0, -2.0],  # right, the others tie
        [-2.0, -2.0, -1.0],  # wrong, and a tie of no account
        [-1.0, -2.0, -3.0],  # right
    ]
    assert count_scores(items, scores) == {
        "items": 8,
        "correct": 3,
        "accuracy": 37.5,
        "ties": 2,
        "first_minimum_correct": 5,
        "first_minimum_accuracy": 62.5,
        "chance": 33.3333,
    }


def test_the_right_candidate_need_not_be_the_first():
    # fails if the first candidate is taken for the right one
    (item,) = items_of([{}])
    item = type(item)(id="a", source=item.source, candidates=item.candidates, current=0, correct=2)
    assert count_scores([item], [[-3.0, -2.0, -1.0]])["correct"] == 1
    counts = count_scores([item], [[-1.0, -2.0, -1.0]])
    assert (counts["correct"], counts["ties"], counts["first_minimum_correct"]) == (0, 1, 0)


def test_constant_scores_are_never_right():
    """INV-G7. Fails if a tie counts as right."""
    counts = count_scores(items_of([{}] * 50), [[-5.0] * 3] * 50)
    assert (counts["accuracy"], counts["ties"], counts["first_minimum_accuracy"]) == (0.0, 50, 100.0)


def test_no_item_is_left_without_a_score():
    # fails if items and scores are zipped up to the shorter of them
    with pytest.raises(ValueError):
        count_scores(items_of([{}] * 2), [[-1.0, -2.0, -3.0]])
    with pytest.raises(ValueError, match=r"item '0' has 3 candidates and the scores \[-1.0, -2.0\]"):
        count_scores(items_of([{}]), [[-1.0, -2.0]])
    with pytest.raises(ValueError, match="item '0' has 3 candidates and the scores"):
        count_scores(items_of([{}]), [[float("nan"), -2.0, -3.0]])


def test_each_item_is_in_one_group_of_each_label():
    # fails if items without a label are left out
    labels = [
        {"d": "1", "same": "x"},
        {"d": ">3", "same": "x"},
        {"same": "x"},
        {"d": "0", "same": "x"},
        {"d": "1", "same": "x"},
    ]
    good, bad = [-1.0, -2.0, -3.0], [-1.0, -1.0, -3.0]
    found = breakdowns(items_of(labels), [good, bad, good, bad, bad])
    assert list(found) == ["d"]
    assert list(found["d"]) == ["0", "1", ">3", "unknown"]
    assert found["d"]["1"] == {"items": 2, "correct": 1, "accuracy": 50.0, "ties": 1}
    assert sum(group["items"] for group in found["d"].values()) == 5


@pytest.fixture
def save(make_model, tokenizer, tmp_path):
    def save_model(system, **changes):
        folder = tmp_path / "models" / system
        make_model(system, **changes).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return str(folder)

    return save_model


@pytest.fixture
def suite(toy_documents, tmp_path):
    """Items in two sentences of context, whose wrong candidate is another sentence; the first are at a start."""
    records = []
    for document in toy_documents:
        texts = [(s, t) for s, t in zip(document["src"], document["tgt"], strict=True) if s.strip() and t.strip()]
        for index, (source, target) in enumerate(texts[:4]):
            before = texts[max(0, index - 2) : index]
            records.append(
                {
                    "id": f"{document['id']}-{index}",
                    "src": [*(s for s, _ in before), source],
                    "tgt_context": [t for _, t in before],
                    "ref": target,
                    "contrastive": [target + " Nein.", "Ja, " + target],
                    "ante_distance": index,
                }
            )
    path = tmp_path / "toy.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path, records


def run(*arguments, tmp_path):
    """The result file of the command, and its text."""
    output = tmp_path / "results" / "out.json"
    main([*map(str, arguments), "--output", str(output), "--threads", "1"])
    text = output.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    return json.loads(text)


def test_the_command_reports_accuracy_and_its_recipe(save, suite, tmp_path, capsys):
    path, records = suite
    plot, scores = tmp_path / "plots" / "curve.png", tmp_path / "scores.jsonl"
    folder = save("window-attn", window_size=3)
    result = run(
        *("--model", folder, "--suite", path, "--plot", plot, "--output_scores", scores, "--batch_tokens", 300),
        tmp_path=tmp_path,
    )
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert {"command", "date", "versions", "hardware"} <= set(result["run"])
    names = ("kind", "system", "preset", "score_span", "normalize_length", "alignment", "max_items", "dtype")
    assert [result[name] for name in names] == [
        *("contrastive", "window-attn", "standard", "all", False, "sent-align", None, "float32")
    ]
    (entry,) = result["suites"]
    assert entry["sha256"] == {"toy.jsonl": sha256_of_file(path)}
    assert (entry["items"], entry["sequences"], entry["chance"]) == (len(records), 3 * len(records), 33.3333)
    assert entry["context"] == {"source": 2, "target": 2, "right": 0}
    firsts = sum(len(record["src"]) < 3 for record in records)
    assert entry["items_with_missing_context"] == {"source": firsts, "target": firsts}
    assert entry["items_per_second"] > 0
    assert sum(group["items"] for group in entry["breakdowns"]["antecedent_distance"].values()) == len(records)
    assert [point["context_sentences"] for point in entry["curve"]] == [0, 1, 2]
    # the last point of the curve is what the entry says
    assert entry["curve"][2]["correct"] == entry["correct"]

    lines = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == [record["id"] for record in records]
    right = sum(line["scores"][0] > max(line["scores"][1:]) for line in lines)
    assert right == entry["correct"]
    table = capsys.readouterr().out
    assert "toy.jsonl, by antecedent distance" in table
    assert "toy.jsonl, by context sentences" in table


def test_context_changes_what_is_scored_where_the_system_reads_it(save, suite, tmp_path):
    # fails if all points of a curve get the same context
    path, _ = suite

    def scores(folder, *options):
        output = tmp_path / "scores.jsonl"
        main(["--model", folder, "--suite", str(path), "--output_scores", str(output), *options])
        return [json.loads(line)["scores"][0] for line in output.read_text(encoding="utf-8").splitlines()]

    document = save("concat-document")
    both = scores(document, "--score_span", "current")
    without_source = scores(document, "--score_span", "current", "--source_context_sentences", "0")
    without_target = scores(document, "--score_span", "current", "--target_context_sentences", "0")
    assert both != without_source != without_target != both
    window = save("concat-adj", context_sentences=2)
    assert scores(window) != scores(window, "--source_context_sentences", "1")


def test_some_items_are_drawn_from_the_whole_suite(suite):
    # fails if the first ones are taken, which in sorted suites have one pronoun
    path, records = suite
    names = [record["id"] for record in records]
    for count in (1, 2, 5, len(names), len(names) + 1):
        items = read_items(str(path), ContrastiveArguments(model="m", suite=[str(path)], max_items=count))
        places = [names.index(item.id) for item in items]
        assert len(set(places)) == min(count, len(names))
        assert places == sorted(places)
        assert len(names) - places[-1] <= -(-len(names) // count)


def test_several_suites_and_some_items_alone(save, suite, tmp_path):
    path, records = suite
    second = tmp_path / "blocks.jsonl"
    block = {"id": "b", "src": ["One.", "Two."], "candidates": [["Eins.", "Drei."], ["Eins.", "Zwei."]], "true_ind": 1}
    second.write_text(json.dumps(block) + "\n", encoding="utf-8")
    result = run("--model", save("sentence-level"), "--suite", path, second, "--max_items", 5, tmp_path=tmp_path)
    assert [entry["items"] for entry in result["suites"]] == [5, 1]
    assert [entry["context"]["source"] for entry in result["suites"]] == [0, 0]
    assert [entry["chance"] for entry in result["suites"]] == [33.3333, 50.0]
    assert [entry["curve"] for entry in result["suites"]] == [[], []]
    assert result["suites"][1]["breakdowns"] == {}


def test_a_marian_model_is_scored_sentence_by_sentence(suite, toy_documents, tmp_path):
    path, records = suite
    folder = tmp_path / "opus"
    folder.mkdir()
    write_opus_checkpoint(folder, toy_documents, max_position_embeddings=512)
    marian_tokenizer = load_tokenizer(str(folder))
    (found, *_) = build_sequences(
        read_suite(path), PlainFormat(marian_tokenizer), SentenceCache(marian_tokenizer), ContextSizes(0, 0)
    )
    # fails if `</s>` is missing, or if the target is encoded as a source
    assert found.source == marian_tokenizer(records[0]["src"][-1])["input_ids"]
    assert found.targets[0] == marian_tokenizer(text_target=records[0]["ref"])["input_ids"]
    result = run("--model", folder, "--suite", path, tmp_path=tmp_path)
    assert (result["system"], result["alignment"]) == ("marian", None)
    assert result["suites"][0]["context"] == {"source": 0, "target": 0, "right": 0}
    assert result["suites"][0]["items"] == len(records)
    joined = run("--model", folder, "--suite", path, "--separator", " ", "--curve", 0, 2, tmp_path=tmp_path)
    assert joined["separator"] == " "
    assert [point["context_sentences"] for point in joined["suites"][0]["curve"]] == [0, 2]
    assert joined["suites"][0]["curve"][0]["correct"] == result["suites"][0]["correct"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max_items", "0"], "`--max_items` must be 1 or more, got 0"),
        (["--candidates_per_item", "2"], "`--candidates_per_item` belongs to line files"),
        (["--alignment", "linear"], "`alignment` is for windows in cross-attention"),
        (["--separator", " "], "`--separator` is for models of another kind"),
        (["--curve", "1"], "`source_context_sentences` must be at most 0 for this model, got 1"),
        (["--documents", "folder"], "`documents`: there is no folder"),
    ],
)
def test_options_without_meaning_are_refused(save, suite, options, message):
    with pytest.raises(SystemExit, match=f"contrastive: .*{message}"):
        main(["--model", save("sentence-level"), "--suite", str(suite[0]), *options])


def test_a_suite_is_named_once():
    with pytest.raises(ValueError, match="`--suite` names a suite twice"):
        ContrastiveArguments(model="m", suite=["a", "a"])
    with pytest.raises(ValueError, match="`--target_file` is for one suite of line files, got 2 suites"):
        ContrastiveArguments(model="m", suite=["a", "b"], target_file="c")


def test_line_files_are_scored(save, tmp_path):
    source, target = tmp_path / "current.src", tmp_path / "current.trg"
    source.write_text("It is.\nIt is.\nThey are.\nThey are.\n", encoding="utf-8")
    target.write_text("Er ist.\nSie ist.\nSie sind.\nEr sind.\n", encoding="utf-8")
    result = run("--model", save("concat-adj"), "--suite", source, "--target_file", target, tmp_path=tmp_path)
    (entry,) = result["suites"]
    assert entry["items"] == 2
    assert list(entry["sha256"]) == ["current.src", "current.trg"]


def test_real_suites_are_scored_by_our_models_and_by_others(docmt_data, save, toy_documents, tmp_path):
    """A few items of each, by random models: what is counted is what was read."""
    suites = []
    for path in sorted(docmt_data.glob("suites/*.jsonl.gz")):
        if path.name.startswith(("contrapro", "discourse", "large", "voita")):
            suites.append(tmp_path / path.name.removesuffix(".gz"))
            with gzip.open(path, "rt", encoding="utf-8") as file:
                suites[-1].write_text("".join(itertools.islice(file, 5)), encoding="utf-8")
    opus = tmp_path / "opus"
    opus.mkdir()
    write_opus_checkpoint(opus, toy_documents, max_position_embeddings=512)
    torch.manual_seed(0)
    folders = [save(name) for name in ("concat-adj", "window-attn")]
    for folder in (*folders, str(opus)):
        result = run("--model", folder, "--suite", *suites, "--max_items", 3, tmp_path=tmp_path)
        assert len(result["suites"]) == 9
        for entry in result["suites"]:
            assert entry["items"] == 3
            assert entry["correct"] + entry["ties"] <= 3
            assert entry["items_over_part_limit"] == 0
        held = result["suites"][0]["suite_context"]
        assert (held["source_left"], held["target_left"], held["both_left"], held["both_right"]) == (3, 1, 1, 0)
    context = {entry["suite"]: entry["context"] for entry in result["suites"]}
    assert all(sizes == {"source": 0, "target": 0, "right": 0} for sizes in context.values())
