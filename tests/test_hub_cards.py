"""Model cards: every number comes from a result file, nothing is left to fill in, the snippet is Python."""

import ast
import copy
import json
import re
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard

from hub_cards import build
from hub_cards.build import build_card, fill_block, load_results, load_yaml, main, translate_example
from hub_cards.sections import data_rows, example_rows
from training.evaluate import EvaluationArguments, evaluate


FACTS = load_yaml(build.FOLDER / "docmt-tiny-en-de.yaml")
LICENCES = load_yaml(build.FOLDER / "data_licences.yaml")
RECOMMENDED = (
    "libreoffice wesnoth gnome kde rustbook po-manuals debian-books gimp widelands opensource-guide literature".split()
)
CONFIG = {"sequence_format": "context_window", "context_sentences": 2, "max_part_tokens": 400}
TRAINING = {
    "kind": "training",
    "system": "concat-adj",
    "architecture": "docmt",
    "parameters": 5_512_345,
    "train_files": [f"$DOCMT_DATA/train.en-de.{name}.jsonl.gz" for name in RECOMMENDED],
    "train_sequences": 174_000,
    "train_target_tokens": 3_100_000,
    "updates": 4000,
    "train_batch_tokens": 1536,
    "epochs": 2.25,
    "seed": 42,
    "precision": "bfloat16 autocast",
    "cpu_seconds": 10_800.0,
    "metrics": {"train_runtime": 5400.0},
    "run": {
        "command": "python -m training.train config.yaml",
        "commit": "0123456789abcdef",
        "hardware": {"cpu": "Some CPU", "torch_threads": 2},
    },
    "result_file": "train.json",
}


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory, toy_corpus):
    """A real result of the evaluation command, as if a model had made the translations."""
    folder = tmp_path_factory.mktemp("evaluation")
    records = [json.loads(line) for line in toy_corpus.read_text(encoding="utf-8").splitlines()]
    halves = [{"id": r["id"], "tgt": [s[: len(s) * 2 // 3] for s in r["tgt"]]} for r in records]
    file = folder / "system.jsonl"
    file.write_text("".join(json.dumps(half) + "\n" for half in halves), encoding="utf-8")
    arguments = EvaluationArguments(data=[str(toy_corpus)], hypotheses=[str(file)], baseline="copy", resamples=50)
    result = evaluate(arguments)
    decoding = {"decoding": "counted", "num_beams": 4, "dtype": "float32", "context_sentences": 2}
    return {**result, "decoding": decoding, "result_file": "eval.json"}


@pytest.fixture
def card(evaluation):
    wrong = ["Die Lampe.", "Es fiel.", "Mein Onkel.", "Die Bande."]
    return build_card(
        FACTS,
        LICENCES,
        [evaluation],
        [TRAINING],
        model_name="docmt-tiny-en-de",
        config=CONFIG,
        translations=wrong,
    )


def test_nothing_is_left_to_fill_in(card):
    text = str(card)
    for rest in ("{{", "}}", "{%", "%}", "None", "nan", "TODO", "More Information Needed", "Undefined"):
        assert rest not in re.sub(r"author = \{\{.*?\}\}", "", text), rest
    assert "\n\n\n" not in text
    assert "\n# docmt-tiny-en-de\n" in text


def test_metadata_parses_and_holds_the_scores(card, evaluation):
    metadata = yaml.safe_load(str(card).split("---\n")[1])
    assert metadata["language"] == ["en", "de"]
    assert metadata["library_name"] == "transformers"
    assert metadata["pipeline_tag"] == "translation"
    assert metadata["license"] == "other"
    assert metadata["license_link"] == "LICENSE.md"
    (model,) = metadata["model-index"]
    metrics = [metric for result in model["results"] for metric in result["metrics"]]
    expected = {name: round(s["score"], 2) for name, s in evaluation["test_sets"][0]["scores"].items()}
    assert {metric["name"]: metric["value"] for metric in metrics} == expected
    assert all("version:" in metric["args"]["signature"] for metric in metrics)
    reloaded = ModelCard(str(card))
    assert len(reloaded.data.eval_results) == len(expected)


def test_snippet_is_python_that_names_the_model(card):
    (snippet,) = re.findall(r"```python\n(.*?)```", str(card), flags=re.S)
    ast.parse(snippet)
    assert 'model="docmt-tiny-en-de", trust_remote_code=True' in snippet


def test_scores_stand_beside_copying_with_signatures(card, evaluation):
    text = str(card)
    scores = evaluation["test_sets"][0]["scores"]
    copied = evaluation["test_sets"][0]["baselines"]["copy"]["scores"]
    for system, results in (("**docmt-tiny-en-de**", scores), ("copy of the source", copied)):
        row = " | ".join(f"{score['score']:.1f}" for score in results.values())
        assert f"| {system} | {row} |" in text
    for score in scores.values():
        assert f"`{score['signature']}`" in text
    assert '`decoding="counted"` and beam search with 4 beams' in text
    assert "50 resamples" in text
    assert "eval.json" in text


def test_context_cost_licences_and_papers_are_there(card):
    text = str(card)
    assert "It sees the 2 sentences before" in text
    assert "400 tokens" in text
    assert "90 minutes, 3.0 CPU hours" in text
    assert "5,512,345 parameters" in text
    assert "GPL-2.0-or-later" in text
    assert "MPL-2.0" in text
    for paper in ("herold2023improving", "li2023ptransformer", "zheng2020towards"):
        assert paper in text


def test_other_systems_get_their_rows(evaluation):
    other = {**copy.deepcopy(evaluation), "name": "MarianMTModel"}
    stranger = copy.deepcopy(other)
    stranger["name"] = "other test set"
    stranger["test_sets"][0]["sha256"] = "0" * 64
    text = str(build_card(FACTS, LICENCES, [evaluation, other, stranger], [TRAINING], model_name="m"))
    assert "| MarianMTModel |" in text
    assert "other test set" not in text


def test_a_missing_number_leaves_out_its_line():
    training = {"kind": "training", "system": "concat-adj", "train_files": [], "result_file": "train.json"}
    text = str(build_card(FACTS, LICENCES, [], [training], model_name="m"))
    assert "System `concat-adj`" in text
    for gone in (
        "parameters",
        "updates of",
        "CPU hours",
        "interval of a paired",
        "| test set |",
        "was wanted",
        "None",
    ):
        assert gone not in text
    assert "model-index" not in text


def test_example_shows_what_went_wrong_only():
    rows = example_rows(FACTS["example"], [sentence["wanted"] for sentence in FACTS["example"]])
    assert rows == []
    translations = ["irrelevant", "Es fiel | herunter.", *[s["wanted"] for s in FACTS["example"][2:]]]
    ((source, translation, wanted, why),) = example_rows(FACTS["example"], translations)
    assert source == FACTS["example"][1]["source"]
    assert translation == "Es fiel \\| herunter."
    assert wanted.startswith("Sie")
    assert "sentence before" in why


def test_every_recommended_file_has_its_licence():
    rows = data_rows([TRAINING], LICENCES)
    assert len(rows) == len(RECOMMENDED)
    assert all(licence for _, licence, _ in rows)


@pytest.mark.parametrize("name", ["progit", "contao", "ted"])
def test_texts_without_known_free_licence_stop_the_build(name):
    training = {**TRAINING, "train_files": [f"train.en-de.{name}.jsonl.gz"]}
    with pytest.raises(ValueError, match=f"no licence for the training file 'train.en-de.{name}.jsonl.gz'"):
        build_card(FACTS, LICENCES, [], [training], model_name="m")


def test_command_writes_card_and_licence(tmp_path, evaluation, monkeypatch):
    for name, result in (("eval.json", evaluation), ("train.json", TRAINING)):
        (tmp_path / name).write_text(json.dumps(result), encoding="utf-8")
    folder = tmp_path / "docmt-tiny-en-de"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    monkeypatch.setattr(build, "translate_example", lambda model_dir, example, **options: ["Falsch."] * len(example))
    readme = tmp_path / "README.md"
    blocks = "<!-- {0}:begin (made) -->\nold\n<!-- {0}:end -->\n"
    readme.write_text("before\n" + blocks.format("example") + blocks.format("results") + "after\n", encoding="utf-8")
    results = [str(tmp_path / "eval.json"), str(tmp_path / "train.json")]
    main([*results, "--model_dir", str(folder), "--readme", str(readme)])
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- example:begin (made) -->\n| ")
    assert text.endswith("<!-- results:end -->\nafter\n")
    assert "| each sentence alone | Falsch. Falsch. |" in text
    assert "| **docmt-tiny-en-de** | " in text
    assert "BLEU|nrefs:1" in text
    assert "old" not in text
    card = ModelCard.load(folder / "README.md")
    assert card.data.license_link == "LICENSE.md"
    assert "| Falsch. |" in card.text
    assert str(tmp_path) not in str(card)
    assert "wesnoth" in (folder / "LICENSE.md").read_text(encoding="utf-8")


def test_a_readme_without_the_block_is_refused():
    with pytest.raises(ValueError, match="there is no block 'results'"):
        fill_block("text", "results", ["| a |"])


def test_a_file_that_is_no_result_is_named(tmp_path):
    file = tmp_path / "info.json"
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="info.json: `kind` must be"):
        load_results([file])


def test_shipped_card_is_complete():
    """Where the model is in the repository, its card is the rendered one."""
    file = build.FOLDER / "docmt-tiny-en-de" / "README.md"
    if not file.is_file():
        pytest.skip("hub_cards/docmt-tiny-en-de has no card yet: build it with python -m hub_cards.build")
    card = ModelCard.load(file)
    assert card.data.eval_results
    assert "{%" not in str(card)
    assert Path(file.parent / card.data.license_link).is_file()


def test_the_example_is_translated_by_the_model_in_the_folder(tmp_path, make_model, tokenizer):
    make_model("concat-adj", context_sentences=1).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    translations = translate_example(tmp_path, FACTS["example"], max_sentence_tokens=5)
    assert len(translations) == len(FACTS["example"])
    alone = translate_example(tmp_path, FACTS["example"][1:2], decoding="sentence", max_sentence_tokens=5)
    together = translate_example(tmp_path, FACTS["example"][:2], decoding="sentence", max_sentence_tokens=5)
    assert together[1:] == alone


def test_snippet_runs_beside_the_model_folder(card, tmp_path, make_model, tokenizer, monkeypatch, capsys):
    folder = tmp_path / "docmt-tiny-en-de"
    make_model("sentence-level").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"```python\n(.*?)```", str(card), flags=re.S)
    exec(compile(snippet, "card", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(" -> ")[0] for line in printed] == ["The lighthouse is old.", "It was built by sailors."]


def test_the_published_checkpoint_carries_the_code_of_the_package():
    """A checkpoint has copies of our files: after a change of one, `training.export` writes them anew."""
    copies = sorted((build.FOLDER / "docmt-tiny-en-de").glob("*.py"))
    assert "modeling_docmt.py" in {path.name for path in copies}
    package = build.FOLDER.parent / "modeling_docmt"
    assert [path.name for path in copies if path.read_bytes() != (package / path.name).read_bytes()] == []
