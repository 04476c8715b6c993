"""Model cards: every number comes from a result file, nothing is left to fill in, the snippet is Python."""

import ast
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hub_card_results import (
    CONFIG,
    CONTEXT_USE,
    FACTS,
    LICENCES,
    MEASURES,
    MEMORY,
    RECOMMENDED,
    RUN,
    SUITE,
    TRAINING,
    check_filled,
)
from huggingface_hub import ModelCard

from hub_cards import build
from hub_cards.build import load_facts, main, read_config, readme_results, translate_documents
from hub_cards.card import FOLDER, build_card, find_system
from hub_cards.card_results import group_results, load_results
from hub_cards.context import context_answer
from hub_cards.context_examples import context_example_table
from hub_cards.sections import context_sentence, data_rows, example_rows
from modeling_docmt import SYSTEMS, DocMTConfig
from training.evaluate import EvaluationArguments, evaluate


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory, toy_corpus):
    """A real result of the evaluation command, as if a model had made the translations, and more that it may hold."""
    folder = tmp_path_factory.mktemp("evaluation")
    records = [json.loads(line) for line in toy_corpus.read_text(encoding="utf-8").splitlines()]
    halves = [{"id": r["id"], "tgt": [s[: len(s) * 2 // 3] for s in r["tgt"]]} for r in records]
    file = folder / "system.jsonl"
    file.write_text("".join(json.dumps(half) + "\n" for half in halves), encoding="utf-8")
    arguments = EvaluationArguments(
        data=[str(toy_corpus)],
        hypotheses=[str(file)],
        baseline="copy",
        measures=MEASURES,
        tagger="none",
        resamples=50,
    )
    result = evaluate(arguments)
    (entry,) = result["test_sets"]
    entry["context_use"] = CONTEXT_USE
    entry["attention_share"] = {"documents": 2, "queries": 50, "share": 77.7, "share_per_layer": [70.0, 85.4]}
    entry["status"] = {"ok": 29, "repetition": 1}
    entry |= {"seconds": 2.0, "target_tokens": 1234, "target_tokens_per_second": 617.0}
    return {
        **result,
        "model": {"path": "runs/m", "model_type": "docmt", "system": "concat-adj", "weights_sha256": "a" * 64},
        "decoding": {"decoding": "counted", "num_beams": 4, "batch_size": 16, "dtype": "float32"},
        "suites": [SUITE],
        "run": {**RUN, "dirty": True},
        "result_file": "eval.json",
    }


def other_system(evaluation, **changes):
    other = copy.deepcopy(evaluation)
    other["model"] = {"path": "runs/other", "model_type": "marian", "weights_sha256": "b" * 64}
    del other["suites"], other["test_sets"][0]["context_use"]
    return {**other, "name": "MarianMTModel", "result_file": "other.json", **changes}


def card_of(results, **changes):
    options = {"model_name": "docmt-tiny-en-de", "config": CONFIG, **changes}
    return build_card(options.pop("facts", FACTS), LICENCES, results, **options)


@pytest.fixture(scope="module")
def card(evaluation):
    facts = {name: value for name, value in FACTS.items() if name != "context_examples"}
    translations = ["Die Lampe.", "Es fiel.", "Mein Onkel.", "Die Bande."]
    return card_of([evaluation, TRAINING], facts=facts, translate=lambda documents: [translations])


def test_nothing_is_left_to_fill_in(card):
    check_filled(card)
    assert "\n# docmt-tiny-en-de\n" in str(card)


def test_metadata_parses_and_holds_the_scores(card, evaluation):
    metadata = yaml.safe_load(str(card).split("---\n")[1])
    assert metadata["language"] == ["en", "de"]
    assert metadata["library_name"] == "transformers"
    assert metadata["pipeline_tag"] == "translation"
    assert metadata["license"] == "other"
    assert metadata["license_link"] == "LICENSE.md"
    assert metadata["metrics"] == ["accuracy", "bleu", "chrf", "f1", "ter"]
    (model,) = metadata["model-index"]
    scores, suite = model["results"]
    expected = {name: round(s["score"], 2) for name, s in evaluation["test_sets"][0]["scores"].items()}
    assert {metric["name"]: metric["value"] for metric in scores["metrics"]} == expected
    assert list(expected) == MEASURES
    types = {metric["name"]: metric["type"] for metric in scores["metrics"]}
    assert types["s-BLEU"] == types["d-BLEU"] == "bleu"
    assert types["pronoun-F1"] == types["formality-F1"] == "f1"
    assert all("version:" in metric["args"]["signature"] for metric in scores["metrics"])
    interval = evaluation["test_sets"][0]["intervals"]["measures"]["chrF"]["interval"]
    assert scores["metrics"][2]["args"]["interval"] == [round(end, 2) for end in interval]
    assert (suite["dataset"]["name"], suite["dataset"]["type"]) == ("ContraPro", "contrapro.en-de")
    (accuracy,) = suite["metrics"]
    assert (accuracy["type"], accuracy["value"]) == ("accuracy", 36.01)
    assert accuracy["args"]["interval"] == [35.15, 36.87]
    reloaded: Any = ModelCard(str(card)).data
    assert len(reloaded.eval_results) == len(expected) + 1


def test_what_could_not_be_counted_is_no_score(evaluation):
    undefined = copy.deepcopy(evaluation)
    scores = undefined["test_sets"][0]["scores"]
    scores["pronoun-F1"] = {**scores["pronoun-F1"], "score": None}
    scores["COMET"] = {"score": 71.234, "signature": "comet|version:1"}
    card = card_of([undefined, TRAINING])
    found = {result.metric_name: result.metric_type for result in card.data.eval_results}
    assert "pronoun-F1" not in found
    assert found["COMET"] == "comet"
    assert "71.2" in str(card)
    check_filled(card)


def test_snippet_is_python_that_names_the_model(card):
    (snippet,) = re.findall(r"```python\n(.*?)```", str(card), flags=re.S)
    ast.parse(snippet)
    assert 'model="docmt-tiny-en-de", trust_remote_code=True' in snippet


def test_scores_stand_beside_copying_with_signatures_and_intervals(card, evaluation):
    text = str(card)
    entry = evaluation["test_sets"][0]
    for measures in (MEASURES[:4], MEASURES[4:]):
        copied = " | ".join(f"{entry['baselines']['copy']['scores'][name]['score']:.1f}" for name in measures)
        assert f"| copy of the source | {copied} |" in text
        cells = []
        for name in measures:
            low, high = entry["intervals"]["measures"][name]["interval"]
            cells.append(f"{entry['scores'][name]['score']:.1f} ({low:.1f} – {high:.1f})")
        assert f"| **docmt-tiny-en-de** | {' | '.join(cells)} |" in text
    for score in entry["scores"].values():
        assert f"`{score['signature']}`" in text
    found = entry["baselines"]["copy"]["bootstrap"]["measures"]["s-BLEU"]
    assert f"| copy of the source | {found['difference']:+.2f}\\* (" in text
    assert '`decoding="counted"` and beam search with 4 beams' in text
    assert "50 resamples" in text
    assert "`eval.json` (2026-01-02, commit `0123456789ab` with changes)" in text


def test_context_cost_licences_and_papers_are_there(card):
    text = str(card)
    assert "It sees the 2 sentences before" in text
    assert "400 tokens" in text
    assert "90 minutes, 3.0 CPU hours" in text
    assert "5,512,345 parameters" in text
    assert "GPL-2.0-or-later" in text
    assert "MPL-2.0" in text
    how = "counted, 4 beams; batch_size=16; Some CPU, 2 threads"
    assert f"toy.en-de: 1,234 target tokens, 617 a second ({how})" in text
    assert "toy.en-de: `ok` 29, `repetition` 1" in text
    # of the system, and of what it was measured with
    for paper in ("tiedemann-scherrer", "post", "herold-ney", "muller-etal", "fernandes-etal"):
        assert f"{{{paper}-20" in text
    assert "zheng-etal-2020" not in text


def test_suites_context_and_attention_are_told_with_their_numbers(card):
    text = str(card)
    sizes = "2 source, 2 target, 0 right"
    assert f"| contrapro.en-de | **docmt-tiny-en-de** | {sizes} | 36.0 | 35.2 – 36.9 | 33.3 | 12,000 | 7 |" in text
    assert "contrapro.en-de, by reference pronoun: er: 7.7, es: 82.6\n" in text
    assert "contrapro.en-de, by context sentences: 0: 33.0, 2: 35.0\n" in text
    assert "toy.en-de: **yes**; " in text
    assert "right less none +0.2500 (+0.2000 – +0.3000)" in text
    assert "right less another's +0.1250 (+0.1000 – +0.1500)" in text
    assert "toy.en-de: 77.7 % (by layer 70.0, 85.4; 2 documents)" in text
    assert "Sentence coverage" not in text


@pytest.mark.parametrize(
    ("less_none", "less_shuffled", "answer", "reason"),
    [
        ([0.1, 0.2], [0.1, 0.2], "yes", "than without it or with that of another"),
        ([0.1, 0.2], [-0.1, 0.2], "hardly", "another document does as well"),
        ([0.1, 0.2], [-0.2, -0.1], "no", "another document does better"),
        ([-0.1, 0.2], [0.1, 0.2], "not to its advantage", "no better than none"),
        ([-0.1, 0.2], [-0.1, 0.2], "no", "with or without"),
        ([0.0, 0.0], [0.0, 0.0], "no", "with or without"),
        ([0.0, 0.2], [-0.2, 0.0], "no", "with or without"),
        ([-0.1, 0.2], [-0.2, -0.1], "no", "worse than that of another document"),
        ([-0.2, -0.1], [0.1, 0.2], "it hurts", "most so with a wrong one"),
        ([-0.2, -0.1], [-0.1, 0.2], "it hurts", "be it right or wrong"),
        ([-0.2, -0.1], [-0.2, -0.1], "it hurts", "most so with the right one"),
    ],
)
def test_the_use_of_context_is_answered_as_the_intervals_say(less_none, less_shuffled, answer, reason):
    entry = {"right_less_none": {"interval": less_none}, "right_less_shuffled": {"interval": less_shuffled}}
    text = context_answer(entry)
    assert text.startswith(f"**{answer}**; ")
    assert reason in text
    assert context_answer({**entry, "note": "no context"}) == "**no**; the model sees no context."


def test_without_an_interval_there_is_no_answer():
    entry = {"right_less_none": {"interval": None}, "right_less_shuffled": {"interval": None}}
    assert context_answer(entry).startswith("no interval was computed")


def test_results_of_other_commands_join_the_model_by_its_weights(evaluation):
    bare = copy.deepcopy(evaluation)
    del bare["suites"], bare["test_sets"][0]["attention_share"], bare["test_sets"][0]["context_use"]
    free = {**bare, "decoding": {**bare["decoding"], "decoding": "free"}, "result_file": "free.json"}
    free["test_sets"] = [
        {
            **bare["test_sets"][0],
            "coverage": {
                "score": 75.0,
                "covered_documents": 3,
                "documents": 4,
                "missing_sentences_per_document": 0.25,
            },
        }
    ]
    suites = {"kind": "contrastive", "model": "elsewhere", "weights_sha256": "a" * 64, "suites": [SUITE], "run": RUN}
    strange = {**suites, "weights_sha256": "d" * 64, "suites": [{**SUITE, "accuracy": 99.9}]}
    named = [{**suites, "result_file": "s.json"}, {**strange, "model": "stranger", "result_file": "t.json"}]
    card = card_of([bare, *named, free, TRAINING])
    text = str(card)
    assert "| contrapro.en-de | **docmt-tiny-en-de** | 2 source, 2 target, 0 right | 36.0 |" in text
    assert "| contrapro.en-de | stranger | 2 source, 2 target, 0 right | 99.9 |" in text
    assert "toy.en-de: 75.0 % (3 of 4 documents), 0.25 missing sentences a document" in text
    assert "| **docmt-tiny-en-de** (free, 4 beams) |" in text
    (setting,) = {result.metric_config for result in card.data.eval_results} - {None}
    assert setting == "free, 4 beams"
    assert 99.9 not in {result.metric_value for result in card.data.eval_results}
    check_filled(card)


def test_other_systems_get_their_rows(evaluation):
    other = other_system(evaluation)
    stranger = other_system(evaluation, name="other test set", model={"path": "runs/x"}, result_file="x.json")
    stranger["test_sets"][0]["sha256"] = "0" * 64
    text = str(card_of([evaluation, other, stranger, TRAINING]))
    # with its numbers, and without intervals, which are for the model
    assert re.search(r"\| MarianMTModel \|( [\d.]+ \|)+\n", text)
    assert "other test set" not in text
    # their numbers are not those of the model
    assert len(card_of([evaluation, other]).data.eval_results) == len(MEASURES) + 1


def test_a_missing_number_leaves_out_its_line():
    training = {"kind": "training", "system": "concat-adj", "train_files": [], "result_file": "train.json"}
    text = str(card_of([training], config=None))
    assert "System `concat-adj`" in text
    for gone in (
        "parameters",
        "updates of",
        "CPU hours",
        "bootstrap",
        "| test set |",
        "was wanted",
        "## Results",
        "## Does it use",
        "## Memory",
        "What papers report",
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
    training = {**TRAINING, "train_files": [f"europarl/train.en-de.{name}.jsonl.gz"]}
    with pytest.raises(ValueError, match=f"no licence for the training file 'europarl/train.en-de.{name}.jsonl.gz'"):
        card_of([training])


def test_benchmarks_of_the_system_are_shown_and_others_refused(evaluation):
    marian = {"model": "MarianMTModel", "batch": "512", "tokens": 512, "seconds": 2.0, "peak_mib": 300.0}
    rates = {"reference": "MarianMTModel", "speed_up": 1.1, "memory_ratio": 0.9}
    ours = {**marian, **rates, "model": "window-attn", "seconds": 1.81, "peak_mib": 270.0}
    steps = {**MEMORY, "kind": "step-benchmark", "entries": [marian, ours], "result_file": "steps.json"}
    del steps["memory"]
    card = card_of([MEMORY, steps], facts={}, config=None, system="window-attn")
    assert "| 20,000 | 476 | 11.8 |" in str(card)
    setting = "random weights, d_model 256, 1 layer, vocabulary of 4,000, Some CPU, 2 threads"
    assert f"(`memory.json`; {setting}):" in str(card)
    assert "| 512 | 512 | 1.81 | 270 | MarianMTModel | 1.10 | 0.90 |" in str(card)
    check_filled(card)
    for result in (MEMORY, steps):
        with pytest.raises(ValueError, match=f"{result['result_file']}: has not measured 'concat-adj'"):
            card_of([evaluation, result])


def test_the_readme_begins_with_the_pair_that_was_chosen_for_it():
    example = [{"source": word} for word in ("one", "two", "three")]
    assert build.readme_document({"readme_example": ["a", "b"], "example": example}) == ["a", "b"]
    assert build.readme_document({"example": example}) == ["one", "two"]
    assert build.readme_document({}) == []


def test_command_writes_card_and_licence(tmp_path, evaluation, monkeypatch):
    for name, result in (("eval.json", evaluation), ("train.json", TRAINING)):
        (tmp_path / name).write_text(json.dumps(result), encoding="utf-8")
    folder = tmp_path / "docmt-tiny-en-de"
    folder.mkdir()
    DocMTConfig.from_system("concat-adj").save_pretrained(folder)
    monkeypatch.setattr(
        build, "translate_documents", lambda model_dir, documents, **options: [["Falsch."] * len(d) for d in documents]
    )
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
    written = (folder / "README.md").read_bytes()
    card = ModelCard.load(folder / "README.md")
    assert card.data.license_link == "LICENSE.md"
    assert "| Falsch. |" in card.text
    assert str(tmp_path) not in str(card)
    licence = (folder / "LICENSE.md").read_text(encoding="utf-8")
    assert "wesnoth" in licence
    assert FACTS["terms"].strip() in licence
    main([*results, "--model_dir", str(folder)])
    assert (folder / "README.md").read_bytes() == written


def test_readme_has_the_columns_that_matter_and_contrapro_below(evaluation):
    lines = readme_results("m", [evaluation, other_system(evaluation), TRAINING])
    assert lines[0] == "| test set | system | s-BLEU | d-BLEU | chrF | TER ↓ | pronoun-F1 | formality-F1 |"
    assert sum(line.startswith("| toy.en-de | ") for line in lines) == 3
    assert "| contrapro.en-de | **m** | 2 source, 2 target, 0 right | 36.0 |" in "\n".join(lines)
    assert "`other.json`" in lines[-1]
    assert "lexical-consistency" not in "\n".join(lines)


def test_a_file_that_is_no_result_of_a_model_is_named(tmp_path):
    file = tmp_path / "info.json"
    for content in ("{}", json.dumps({"kind": "attention-benchmark", "run": RUN})):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match="info.json: `kind` must be"):
            load_results([file])


def test_facts_that_no_card_has_a_place_for_are_refused(tmp_path):
    file = tmp_path / "facts.yaml"
    file.write_text("licence: mit\n", encoding="utf-8")
    with pytest.raises(ValueError, match="facts.yaml: facts must be of languages, .*, got 'licence'"):
        load_facts(file)


def test_shipped_card_is_complete():
    """Where the model is in the repository, its card is the rendered one."""
    file = FOLDER / "docmt-tiny-en-de" / "README.md"
    if not file.is_file():
        pytest.skip("hub_cards/docmt-tiny-en-de has no card yet: build it with python -m hub_cards.build")
    card = ModelCard.load(file)
    assert card.data.eval_results
    assert "{%" not in str(card)
    assert Path(file.parent / card.data.license_link).is_file()


def test_the_example_is_translated_by_the_model_in_the_folder(tmp_path, make_model, tokenizer):
    make_model("concat-adj", context_sentences=1).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    document = [sentence["source"] for sentence in FACTS["example"]]
    (translations,) = translate_documents(tmp_path, [document], max_sentence_tokens=5)
    assert len(translations) == len(document)
    alone, together = translate_documents(
        tmp_path, [document[1:2], document[:2]], decoding="sentence", max_sentence_tokens=5
    )
    assert together[1:] == alone


def test_examples_of_context_say_what_it_does_those_first_that_it_helps():
    """Fails if an effect is read from the wrong column, or from a part of a word."""
    examples = [
        {"context": "The key.", "source": "It is here.", "answer": "er"},
        {"context": "The lamp.", "source": "It is old.", "answer": "sie"},
    ]
    translated = {
        ("The key.", "It is here."): ["Der Schlüssel.", "Es ist aber hier."],
        ("It is here.",): ["Er ist hier."],
        ("The lamp.", "It is old."): ["Die Lampe.", "Sie ist alt."],
        ("It is old.",): ["Es ist alt."],
    }

    def translate(documents):
        return [translated[tuple(document)] for document in documents]

    header, _, first, second = context_example_table(examples, translate)
    assert header.endswith("| right | the context |")
    assert first == "| The lamp. | Die Lampe. | It is old. | Sie ist alt. | Es ist alt. | sie | helps |"
    assert second.endswith("| Es ist aber hier. | Er ist hier. | er | harms |")
    assert context_example_table(examples, translate, reads_context=False) == []
    with pytest.raises(ValueError, match="'answer' is missing"):
        context_example_table([{"context": "The key.", "source": "It."}], translate)


def test_a_card_shows_examples_of_context_where_the_model_reads_it(evaluation):
    facts = {**FACTS, "example": [], "context_examples": [{"context": "A key.", "source": "It.", "answer": "er"}]}

    def translate(documents):
        return [["Er."] * len(document) for document in documents]

    shown = "| A key. | Er. | It. | Er. | Er. | er | is not needed |"
    assert shown in str(card_of([evaluation, TRAINING], facts=facts, translate=translate))
    config = {**CONFIG, "system": "sentence-level", "sequence_format": "sentence"}
    assert shown not in str(card_of([evaluation, TRAINING], facts=facts, translate=translate, config=config))


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
    copies = sorted((FOLDER / "docmt-tiny-en-de").glob("*.py"))
    assert "modeling_docmt.py" in {path.name for path in copies}
    package = FOLDER.parent / "modeling_docmt"
    assert [path.name for path in copies if path.read_bytes() != (package / path.name).read_bytes()] == []


def test_a_configuration_is_read_with_what_its_file_leaves_out(tmp_path):
    DocMTConfig.from_system("sentence-level").save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    written.pop("max_part_tokens", None)
    file.write_text(json.dumps(written), encoding="utf-8")
    config = read_config(tmp_path)
    assert config is not None
    assert (config["sequence_format"], config["max_part_tokens"]) == ("sentence", DocMTConfig().max_part_tokens)
    assert read_config(tmp_path / "nothing") is None


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_model_sees_is_said_of_every_system(system):
    text = context_sentence(DocMTConfig.from_system(system).to_dict())
    assert text and text.endswith(".")
    assert len({context_sentence(DocMTConfig.from_system(name).to_dict()) for name in SYSTEMS}) >= 7


def test_a_model_of_another_kind_has_no_system(evaluation):
    found = group_results([other_system(evaluation), {**TRAINING, "architecture": "marian"}])
    assert find_system({"model_type": "marian"}, found) is None
    assert find_system(None, group_results([TRAINING])) == "concat-adj"
