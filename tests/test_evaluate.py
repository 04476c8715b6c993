"""The evaluation command: right numbers with their recipe, wrong files answered before anything is written."""

import gzip
import json
import re
from pathlib import Path

import pytest
from marian_models import write_opus_checkpoint
from transformers import MarianConfig, MarianMTModel

from modeling_docmt import DocMTForConditionalGeneration, DocumentTranslationPipeline
from training import context_use, contrastive
from training.attention_share import attention_share, encode_pairs, load_eager_model
from training.evaluate import evaluate, main, parse_arguments
from training.evaluate_arguments import EvaluationArguments
from training.evaluate_inputs import read_test_set
from training.hypotheses import PieceStatusPipeline, load_tokenizer, read_hypotheses
from training.metrics import score_documents


@pytest.fixture
def test_set(tmp_path, toy_documents):
    """The toy documents as a compressed test set."""
    path = tmp_path / "test.en-de.toy.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in toy_documents)
    return path


@pytest.fixture
def reference_lines(tmp_path, toy_documents):
    """The reference as plain lines, which is a perfect hypothesis."""
    path = tmp_path / "perfect.de"
    lines = [sentence for record in toy_documents for sentence in record["tgt"]]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="")
    return path


def write_records(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_perfect_hypothesis_beats_copying(test_set, reference_lines, tmp_path, capsys, toy_documents):
    output = tmp_path / "results" / "toy.json"
    main(
        ["--hypotheses", str(reference_lines), "--data", str(test_set), "--baseline", "copy", "--output", str(output)]
    )
    result = json.loads(output.read_text(encoding="utf-8"))
    (entry,) = result["test_sets"]
    assert entry["name"] == "test.en-de.toy"
    assert entry["documents"] == len(toy_documents)
    assert entry["sentences"] == sum(len(record["src"]) for record in toy_documents)
    assert (entry["source_lang"], entry["target_lang"]) == ("en", "de")
    assert entry["scores"]["s-BLEU"]["score"] == 100
    assert entry["scores"]["TER"]["score"] == 0
    copy = entry["baselines"]["copy"]
    sources, references = ([record[key] for record in toy_documents] for key in ("src", "tgt"))
    assert copy["scores"] == score_documents(sources, references, "de")
    assert copy["bootstrap"]["measures"]["s-BLEU"]["interval"][0] > 0
    table = capsys.readouterr().out
    assert "s-BLEU less copy" in table
    assert "100.00" in table
    assert "BLEU|nrefs:1" in table


def test_result_holds_the_recipe_and_no_folder(test_set, reference_lines, tmp_path):
    output = tmp_path / "toy.json"
    main(["--hypotheses", str(reference_lines), "--data", str(test_set), "--output", str(output)])
    text = output.read_text(encoding="utf-8")
    result = json.loads(text)
    assert str(tmp_path) not in text
    assert {"command", "date", "versions", "hardware"} <= set(result["run"])
    assert len(result["test_sets"][0]["sha256"]) == 64
    assert list(result["hypotheses"]) == ["perfect.de"]
    for score in result["test_sets"][0]["scores"].values():
        assert "version:" in score["signature"]


def test_second_system_is_compared_by_name(test_set, reference_lines, tmp_path, toy_documents):
    worse = [{"id": record["id"], "tgt": ["Die Tür." for _ in record["tgt"]]} for record in toy_documents]
    arguments = EvaluationArguments(
        data=[str(test_set)],
        hypotheses=[str(reference_lines)],
        baseline="copy",
        baseline_hypotheses=[str(write_records(tmp_path / "worse.jsonl", worse))],
        baseline_name="worse",
        resamples=50,
    )
    baselines = evaluate(arguments)["test_sets"][0]["baselines"]
    assert list(baselines) == ["copy", "worse"]
    assert baselines["worse"]["bootstrap"]["measures"]["chrF"]["wins"] == 50
    assert baselines["worse"]["bootstrap"]["resamples"] == 50


def test_discourse_measures_are_computed_where_they_are_asked_for(test_set, reference_lines, tmp_path, capsys):
    output = tmp_path / "toy.json"
    options = ["--hypotheses", str(reference_lines), "--data", str(test_set), "--output", str(output)]
    main([*options, "--measures", "s-BLEU", "--resamples", "20"])
    (entry,) = json.loads(output.read_text(encoding="utf-8"))["test_sets"]
    assert list(entry["scores"]) == ["s-BLEU"]
    capsys.readouterr()

    measures = ["pronoun-F1", "formality-F1", "lexical-consistency", "TER"]
    main([*options, "--measures", *measures, "--tagger", "none", "--baseline", "copy", "--resamples", "20"])
    (entry,) = json.loads(output.read_text(encoding="utf-8"))["test_sets"]
    assert list(entry["scores"]) == list(entry["intervals"]["measures"]) == measures
    assert list(entry["baselines"]["copy"]["bootstrap"]["measures"]) == measures
    assert entry["scores"]["pronoun-F1"]["score"] == 100
    assert "tagger:none" in entry["scores"]["pronoun-F1"]["signature"]
    assert entry["scores"]["lexical-consistency"] == {
        **entry["scores"]["lexical-consistency"],
        **entry["baselines"]["copy"]["scores"]["lexical-consistency"]["reference"],
    }
    table = capsys.readouterr().out
    assert "pronoun-F1 of perfect.de: P 100.00, R 100.00; masculine" in table
    assert "pronoun-F1 less copy: +100.00" in table
    assert "terms; 100.00 of the" in table


def test_undefined_scores_are_shown_as_such(tmp_path, capsys):
    """Fails if nothing to count is formatted as a number."""
    records = [
        {"id": name, "src_lang": "en", "tgt_lang": "de", "src": ["No."], "tgt": ["Nein."]} for name in ("a", "b")
    ]
    path = str(write_records(tmp_path / "records.jsonl", records))
    options = ["--tagger", "none", "--baseline", "copy", "--resamples", "5"]
    main(["--hypotheses", path, "--data", path, "--measures", "pronoun-F1", "lexical-consistency", *options])
    table = capsys.readouterr().out
    assert ["records.jsonl", "-", "-"] in [line.split() for line in table.splitlines()]
    assert "pronoun-F1 less copy: nothing to count" in table


def test_labelled_test_set_is_scored_with_tcp(tmp_path, capsys):
    records = [
        {
            **{"id": phenomenon, "src_lang": "zh", "tgt_lang": "en", "src": ["他走了。"], "tgt": ["He left."]},
            **{
                "phenomenon": phenomenon,
                "tgt_tok": "He left .",
                "labels": [{"pos": 1, "candidates": ["left", "went"]}],
            },
        }
        for phenomenon in ("tense", "conjunction", "pronoun")
    ]
    data = write_records(tmp_path / "tcp.jsonl", records)
    hypotheses = [{"id": record["id"], "tgt": ["He went."]} for record in records]
    arguments = ["--hypotheses", str(write_records(tmp_path / "h.jsonl", hypotheses)), "--data", str(data)]
    main([*arguments, "--measures", "TCP", "PT", "--resamples", "0"])
    assert "TCP of h.jsonl: TC 100.00 (1); CP 100.00 (1); PT 100.00 (1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "measure", "message"),
    [
        ({}, "TCP", "other.jsonl: document 'a' has no `phenomenon`: TCP, TC, CP, PT need the labelled test set"),
        ({"tgt_lang": "fr"}, "formality-F1", "other.jsonl: formality-F1 is defined for English .*target_lang='fr'"),
        ({"src_lang": "zh"}, "pronoun-F1", "other.jsonl: pronoun-F1 is defined for English .*source_lang='zh'"),
        ({"tgt_lang": "ja"}, "lexical-consistency", "other.jsonl: .*between blanks, which target_lang='ja'"),
    ],
)
def test_measures_that_do_not_fit_are_refused_before_the_model_is_loaded(tmp_path, changes, measure, message):
    record = {"id": "a", "src_lang": "en", "tgt_lang": "de", "src": ["No."], "tgt": ["Nein."], **changes}
    path = write_records(tmp_path / "other.jsonl", [record])
    with pytest.raises(SystemExit, match=message):
        main(["--model", str(tmp_path / "none"), "--data", str(path), "--measures", measure, "--tagger", "none"])


def test_records_are_matched_by_id_in_any_order(test_set, tmp_path, toy_documents):
    shuffled = [{"id": record["id"], "tgt": record["tgt"]} for record in reversed(toy_documents)]
    path = write_records(tmp_path / "hypotheses.jsonl", shuffled)
    hypotheses = read_hypotheses(path, read_test_set(str(test_set)))
    assert hypotheses.documents == [record["tgt"] for record in toy_documents]


def test_a_hypothesis_beside_the_reference_is_what_counts(test_set, tmp_path, toy_documents):
    records = [{**record, "hypothesis": ["Nein."] * len(record["tgt"])} for record in toy_documents]
    hypotheses = read_hypotheses(write_records(tmp_path / "h.jsonl", records), read_test_set(str(test_set)))
    assert {sentence for document in hypotheses.documents for sentence in document} == {"Nein."}


def test_saved_hypotheses_can_be_scored_again(test_set, reference_lines, tmp_path):
    folder = tmp_path / "saved"
    arguments = {"data": [str(test_set)], "measures": ["s-BLEU"], "resamples": 0}
    first = evaluate(EvaluationArguments(hypotheses=[str(reference_lines)], save_hypotheses=str(folder), **arguments))
    saved = folder / "test.en-de.toy.jsonl"
    second = evaluate(EvaluationArguments(hypotheses=[str(saved)], **arguments))
    assert first["test_sets"][0]["scores"] == second["test_sets"][0]["scores"]


def test_first_documents_only(test_set, tmp_path, toy_documents):
    path = write_records(tmp_path / "all.jsonl", toy_documents)
    arguments = EvaluationArguments(
        data=[str(test_set)], hypotheses=[str(path)], max_documents=2, measures=["s-BLEU"], resamples=10
    )
    result = evaluate(arguments)
    assert result["max_documents"] == 2
    assert result["test_sets"][0]["documents"] == 2


def test_one_document_has_scores_but_no_bootstrap(test_set, tmp_path, toy_documents):
    path = write_records(tmp_path / "all.jsonl", toy_documents)
    arguments = EvaluationArguments(data=[str(test_set)], hypotheses=[str(path)], max_documents=1, baseline="copy")
    entry = evaluate(arguments)["test_sets"][0]
    assert "intervals" not in entry
    assert "bootstrap" not in entry["baselines"]["copy"]
    assert entry["scores"]["s-BLEU"]["score"] == 100


@pytest.mark.parametrize("change", [lambda lines: lines[:-1], lambda lines: [*lines, ""]])
def test_wrong_number_of_lines_is_named_and_nothing_written(test_set, reference_lines, tmp_path, change):
    lines = reference_lines.read_text(encoding="utf-8").split("\n")[:-1]
    changed = change(lines)
    reference_lines.write_text("".join(line + "\n" for line in changed), encoding="utf-8", newline="")
    output, folder = tmp_path / "toy.json", tmp_path / "saved"
    arguments = ["--hypotheses", str(reference_lines), "--data", str(test_set), "--output", str(output)]
    with pytest.raises(SystemExit, match=f"perfect.de: has {len(changed)} lines, but the test set has {len(lines)}"):
        main([*arguments, "--save_hypotheses", str(folder)])
    assert not output.exists()
    assert not folder.exists()


def test_wrong_sentence_count_of_a_record_names_the_document(test_set, tmp_path, toy_documents):
    records = [{"id": record["id"], "tgt": record["tgt"]} for record in toy_documents]
    records[0]["tgt"] = [*records[0]["tgt"], "One too many."]
    path = write_records(tmp_path / "hypotheses.jsonl", records)
    with pytest.raises(ValueError, match=f"hypotheses.jsonl: document '{records[0]['id']}' has"):
        read_hypotheses(path, read_test_set(str(test_set)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no json", "hypotheses.jsonl:1: not a translated document"),
        ('{"id": "a"}', "KeyError: 'tgt'"),
        ('{"id": "a", "tgt": "text"}', "must be a list of texts"),
        ('{"id": "a", "tgt": []}\n{"id": "a", "tgt": []}', "hypotheses.jsonl:2: document 'a' is there twice"),
        ('{"id": "stranger", "tgt": []}', "no translation of document"),
    ],
)
def test_faulty_hypothesis_file_names_the_place(test_set, tmp_path, line, message):
    path = tmp_path / "hypotheses.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_hypotheses(path, read_test_set(str(test_set)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "either `--model` or `--hypotheses`"),
        ({"model": "m", "hypotheses": ["h"]}, "either `--model` or `--hypotheses`"),
        ({"hypotheses": ["a", "b"]}, "names 2 files for 1 test sets"),
        ({"model": "m", "baseline": "source"}, "`--baseline` must be 'copy', got 'source'"),
        ({"model": "m", "measures": ["BLEU"]}, "TER, pronoun-F1, .*, got 'BLEU'"),
        ({"model": "m", "tagger": "stanza"}, "`--tagger` must be one of hanta, spacy, none, got 'stanza'"),
        ({"model": "m", "num_beams": 0}, "`--num_beams` must be 1 or more, got 0"),
        ({"model": "m", "max_documents": 0}, "`--max_documents` must be 1 or more, got 0"),
        ({"model": "m", "num_processes": 0}, "`--num_processes` must be 1 or more, got 0"),
        ({"model": "m", "measures": ["all", "chrF"]}, "or `all`, got 'all'"),
        ({"model": "m", "measures": ["COMET"]}, "COMET needs a checkpoint: name it with `--comet`"),
        ({"model": "m", "comet_command": "c"}, "COMET needs a checkpoint: name it with `--comet`"),
        ({"model": "m", "data": []}, "nothing to score: name test sets with `--data`, or `--suites`"),
        ({"model": "m", "data": [], "suites": ["s"], "context_use": True}, "`--context_use` is of no use to suites"),
        ({"model": "m", "suites": ["s", "s"]}, "`--suites` names a suite twice"),
        ({"model": "m", "suite_curve": [1]}, "`--suite_curve` is a curve of contrastive suites"),
        ({"hypotheses": ["h"], "suites": ["s"]}, "`--suites` looks into a model"),
        ({"hypotheses": ["h"], "context_use": True}, "`--context_use` looks into a model"),
        ({"hypotheses": ["h"], "attention_share": True}, "`--attention_share` looks into a model"),
        ({"model": "m", "baselines": ["path"]}, "`--baselines` must be NAME=PATH, got 'path'"),
        ({"model": "m", "baselines": ["a=x", "a=y"]}, "two systems are called 'a'"),
        ({"model": "m", "baselines": ["m=x"]}, "two systems are called 'm'"),
        ({"model": "m", "baselines": ["copy=x"], "baseline": "copy"}, "two systems are called 'copy'"),
        ({"model": "m", "data": ["a/t.jsonl", "b/t.jsonl.gz"]}, "two test sets alike"),
        ({"model": "m", "data": [str(Path(__file__).parent)]}, "is a folder without documents.jsonl.gz"),
    ],
)
def test_arguments_without_meaning_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        EvaluationArguments(**{"data": ["test.jsonl"], **changes})


def test_mixed_target_languages_are_refused(tmp_path, toy_documents):
    records = [{**record, "tgt_lang": "de" if index else "fr"} for index, record in enumerate(toy_documents)]
    path = write_records(tmp_path / "mixed.jsonl", records)
    with pytest.raises(ValueError, match="holds documents in de, fr"):
        evaluate(EvaluationArguments(data=[str(path)], hypotheses=[str(path)]))


def test_shortened_options_are_not_guessed(test_set, reference_lines):
    with pytest.raises((SystemExit, ValueError)):
        parse_arguments(["--hypo", str(reference_lines), "--data", str(test_set)])


def test_options_can_stand_in_a_yaml_file(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCMT_DATA", "folder")
    path = tmp_path / "evaluate.yaml"
    path.write_text("data: [$DOCMT_DATA/test.jsonl]\nmodel: outputs/m\nnum_beams: 1\n", encoding="utf-8")
    parsed = parse_arguments([str(path)])
    assert (parsed.data, parsed.model, parsed.num_beams) == (["folder/test.jsonl"], "outputs/m", 1)


@pytest.fixture
def model_folder(tmp_path, make_model, tokenizer):
    folder = tmp_path / "tiny"
    make_model("concat-adj", context_sentences=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_model_translates_through_the_pipeline(test_set, model_folder, tmp_path, toy_documents):
    output, saved = tmp_path / "result.json", tmp_path / "saved"
    main(
        [
            *("--model", str(model_folder), "--data", str(test_set), "--output", str(output)),
            *("--num_beams", "1", "--max_documents", "4", "--batch_size", "3", "--resamples", "10"),
            *("--decoding", "counted", "--save_hypotheses", str(saved), "--measures", "s-BLEU", "chrF"),
        ]
    )
    result = json.loads(output.read_text(encoding="utf-8"))
    assert result["name"] == "tiny"
    assert result["model"]["system"] == "concat-adj"
    assert result["model"]["parameters"] > 0
    assert len(result["model"]["weights_sha256"]) == 64
    expected = {"decoding": "counted", "num_beams": 1, "batch_size": 3, "dtype": "float32", "context_sentences": 1}
    assert expected.items() <= result["decoding"].items()
    (entry,) = result["test_sets"]
    assert sum(entry["status"].values()) == sum(len(record["src"]) for record in toy_documents[:4])
    assert entry["target_tokens_per_second"] > 0
    records = read_test_set(str(saved / "test.en-de.toy.jsonl"))
    assert [record["id"] for record in records] == [record["id"] for record in toy_documents[:4]]
    pipe = DocumentTranslationPipeline(
        model=DocMTForConditionalGeneration.from_pretrained(model_folder), tokenizer=load_tokenizer(str(model_folder))
    )
    for record, source in zip(records, toy_documents, strict=False):
        (alone,) = pipe([source["src"]], num_beams=1, decoding="counted")
        assert record["tgt"] == [sentence["translation"] for sentence in alone["sentences"]]


@pytest.mark.parametrize("decoding", ["free", "counted", "sequential"])
def test_coverage_is_reported_where_the_model_is_free_in_the_number_of_sentences(
    test_set, make_model, tokenizer, tmp_path, decoding, capsys
):
    # fails if the other modes report a coverage, which is 100 by construction
    make_model("concat-document").save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    output = tmp_path / "result.json"
    main(
        [
            *("--model", str(tmp_path / "tiny"), "--data", str(test_set), "--output", str(output)),
            *("--num_beams", "1", "--resamples", "0", "--decoding", decoding, "--measures", "s-BLEU"),
            *("--max_documents", "5"),
        ]
    )
    (entry,) = json.loads(output.read_text(encoding="utf-8"))["test_sets"]
    table = capsys.readouterr().out
    if decoding != "free":
        assert "coverage" not in entry
        assert "coverage" not in table
        return
    found = entry["coverage"]
    assert found["documents"] == 5
    assert found["missing_sentences"] == entry["status"].get("missing", 0)
    assert 0 <= found["score"] <= 100
    assert f"coverage of test.en-de.toy: {found['score']:.2f} %" in table


def test_free_decoding_of_single_sentences_has_no_coverage(test_set, make_model, tokenizer, tmp_path):
    make_model("sentence-level").save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    options = {"num_beams": 1, "max_documents": 2, "measures": ["s-BLEU"], "resamples": 0, "decoding": "free"}
    result = evaluate(EvaluationArguments(data=[str(test_set)], model=str(tmp_path / "tiny"), **options))
    assert "coverage" not in result["test_sets"][0]


def test_a_long_sentence_is_covered_piece_by_piece(make_model, tokenizer, toy_documents):
    # fails if the status of the whole sentence is taken, which says of missing pieces no more than `source_split`
    (source,) = (record["src"] for record in toy_documents if record["id"] == "long-sentence")
    pipe = PieceStatusPipeline(model=make_model("concat-document", max_part_tokens=30), tokenizer=tokenizer)
    (result,) = pipe([source], num_beams=1, decoding="free")
    assert result["sentences"][0]["status"] == "source_split"
    assert len(result["piece_status"]) > len(source)
    assert "source_split" not in result["piece_status"]
    (nothing,) = pipe([["* * *"]], num_beams=1, decoding="free")
    assert nothing["piece_status"] == []


def test_stock_model_translates_sentence_by_sentence(test_set, tmp_path, tokenizer, toy_documents):
    """Peers are evaluated by the same command: a MarianMTModel decodes with the `generate()` of Transformers."""
    config = MarianConfig(
        **{"vocab_size": len(tokenizer), "d_model": 16, "encoder_layers": 1, "decoder_layers": 1},
        **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32},
        **{"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id},
        decoder_start_token_id=tokenizer.bos_token_id,
    )
    folder = tmp_path / "marian"
    model = MarianMTModel(config)
    model.generation_config.max_length = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    options = {"data": [str(test_set)], "model": str(folder), "max_documents": 3, "batch_size": 4, "num_beams": 2}
    result = evaluate(EvaluationArguments(**options, measures=["chrF"], resamples=0))
    assert result["model"]["model_type"] == "marian"
    assert result["decoding"]["decoding"] == "sentence"
    assert sum(result["test_sets"][0]["status"].values()) == sum(len(record["src"]) for record in toy_documents[:3])
    with pytest.raises(ValueError, match="`--decoding` is an option of DocMT models"):
        evaluate(EvaluationArguments(**options, decoding="sequential"))


@pytest.fixture
def suite(tmp_path):
    """A contrastive suite of English and German."""
    records = [
        {
            **{"id": str(number), "src_lang": "en", "tgt_lang": "de", "src": ["The door.", "It is open."]},
            **{"tgt_context": ["Die Tür."], "ref": "Sie ist offen.", "contrastive": ["Er ist offen.", wrong]},
        }
        for number, wrong in enumerate(["Es ist offen.", "Er offen.", "Sie ist offen. Nein."])
    ]
    return write_records(tmp_path / "suite.en-de.jsonl", records)


def without_times(entry):
    return {
        key: [without_times(point) for point in value] if key == "curve" else value
        for key, value in entry.items()
        if key not in ("seconds", "items_per_second")
    }


def test_one_command_gives_all_measures(test_set, suite, make_model, tokenizer, tmp_path, toy_documents, capsys):
    """Fails if a part is scored by another model, on other documents, or by other options than by its own command."""
    folder, output, page, saved = (tmp_path / name for name in ("tiny", "result.json", "page.html", "saved"))
    model = make_model("concat-adj", context_sentences=1, source_lang="en", target_lang="de", init_std=0.1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    other = tmp_path / "other"
    other.mkdir()
    write_records(other / "test.en-de.toy.jsonl", [{**record, "tgt": record["src"]} for record in toy_documents])
    main(
        [
            *("--model", str(folder), "--data", str(test_set), "--measures", "all", "--tagger", "none"),
            *("--suites", str(suite), "--suite_curve", "0", "1", "--context_use", "--attention_share"),
            *("--baseline", "copy", "--baselines", f"other={other}", f"second={other}", "--resamples", "20"),
            *("--num_beams", "1", "--decoding", "sentence", "--max_documents", "6"),
            *("--output", str(output), "--report", str(page), "--save_hypotheses", str(saved)),
        ]
    )
    text = output.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    result = json.loads(text)
    (entry,) = result["test_sets"]
    surface = ["s-BLEU", "d-BLEU", "chrF", "TER"]
    assert list(entry["scores"]) == [*surface, "pronoun-F1", "formality-F1", "lexical-consistency"]
    assert list(entry["measures_left_out"]) == ["TCP", "TC", "CP", "PT", "COMET"]
    assert "need the labelled test set" in entry["measures_left_out"]["TCP"]
    assert "`--comet`" in entry["measures_left_out"]["COMET"]
    assert list(entry["baselines"]) == ["copy", "other", "second"]
    assert entry["baselines"]["other"] == entry["baselines"]["copy"]

    arguments = ["--model", str(folder), "--suite", str(suite), "--curve", "0", "1"]
    contrastive.main([*arguments, "--output", str(tmp_path / "suite.json")])
    alone = json.loads((tmp_path / "suite.json").read_text(encoding="utf-8"))
    assert list(map(without_times, result["suites"])) == list(map(without_times, alone["suites"]))
    assert result["suites"][0]["context"] == {"source": 1, "target": 1, "right": 0}
    recipe = {name: alone[name] for name in ("alignment", *contrastive.RECIPE)}
    assert result["scoring"] == recipe

    arguments = ["--model", str(folder), "--data", str(test_set), "--max_documents", "6", "--resamples", "20"]
    context_use.main([*arguments, "--output", str(tmp_path / "use.json")])
    alone = json.loads((tmp_path / "use.json").read_text(encoding="utf-8"))["test_sets"][0]["context_use"]
    assert without_times(entry["context_use"]) == without_times(alone)
    assert entry["context_use"]["right_less_none"]["score"] != 0

    share = entry["attention_share"]
    assert (share["documents"], share["documents_that_read_the_reference"]) == (6, 0)
    eager = load_eager_model(str(folder))
    pairs, _ = encode_pairs(eager, tokenizer, read_test_set(str(saved / "test.en-de.toy.jsonl")), target="reference")
    assert share["share_per_layer"] == pytest.approx(attention_share(eager, pairs).per_layer, abs=1e-3)

    table = capsys.readouterr().out
    assert "measures that do not fit: TCP, TC, CP, PT, COMET" in table
    assert f"attention to the aligned sentence: {share['share']:.1f} %" in table
    assert re.search(r"suite\.en-de\.jsonl +1 source, 1 target, 0 right +3 ", table)
    assert "accuracy by context sentences: 0: " in table
    assert f"{entry['context_use']['right_less_none']['score']:+.4f}" in table
    shown = page.read_text(encoding="utf-8")
    assert shown.startswith("<!")
    for name in ("tiny", "copy", "other", "second"):
        assert name in shown


def test_suites_alone_need_no_test_set(suite, model_folder, tmp_path, capsys):
    output, page = tmp_path / "result.json", tmp_path / "page.html"
    options = ["--model", str(model_folder), "--suites", str(suite), "--output", str(output), "--report", str(page)]
    main(options)
    result = json.loads(output.read_text(encoding="utf-8"))
    assert result["test_sets"] == []
    assert result["model"]["system"] == "concat-adj"
    assert result["suites"][0]["items"] == 3
    assert "suite.en-de.jsonl" in capsys.readouterr().out
    assert page.is_file()


def test_all_measures_are_those_that_fit_the_languages(tmp_path, monkeypatch):
    """Fails if a measure that fits is left out since its software is not there."""
    for number, target in enumerate(("fr", "ja", "de")):
        record = {"id": "a", "src_lang": "en", "tgt_lang": target, "src": ["No."], "tgt": ["Non."]}
        write_records(tmp_path / f"{number}.jsonl", [record])
    paths = [str(tmp_path / f"{number}.jsonl") for number in range(3)]
    options = {"measures": ["all"], "resamples": 0}
    french = evaluate(EvaluationArguments(data=paths[:1], hypotheses=paths[:1], **options))["test_sets"][0]
    assert list(french["scores"]) == ["s-BLEU", "d-BLEU", "chrF", "TER", "lexical-consistency"]
    assert "English sources and German references" in french["measures_left_out"]["pronoun-F1"]
    monkeypatch.setattr("training.metrics.surface.bleu_tokenizer", lambda language: "13a")
    japanese = evaluate(EvaluationArguments(data=paths[1:2], hypotheses=paths[1:2], **options))["test_sets"][0]
    assert list(japanese["scores"]) == ["s-BLEU", "d-BLEU", "chrF", "TER"]

    def missing(name):
        if name == "hanta":
            raise ValueError("the tagger 'hanta' needs HanTa")

    monkeypatch.setattr("training.metrics.measures.load_tagger", missing)
    with pytest.raises(ValueError, match="2.jsonl: the tagger 'hanta' needs HanTa"):
        evaluate(EvaluationArguments(data=paths[2:], hypotheses=paths[2:], **options))


@pytest.fixture
def model_that_must_not_run(model_folder, monkeypatch):
    def fail(*arguments, **options):
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("training.evaluate.Translator", fail)
    monkeypatch.setattr("training.contrastive_scorer.ScorerSettings.load", fail)
    return model_folder


def set_languages(folder, **languages):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | languages), encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "none.jsonl"], "none.jsonl: there is no such file. Check the name"),
        (["--data", "empty.jsonl"], "empty.jsonl: there is no sentence to score"),
        (["--data", "one.jsonl", "--context_use"], "one.jsonl: shuffled context is drawn from other documents"),
        (["--data", "single.jsonl", "--context_use"], "single.jsonl: no sentence has context"),
        (["--suites", "none.jsonl"], "none.jsonl: there is no such file. Check the name"),
        (["--suites", "empty.jsonl"], "empty.jsonl: not a contrastive suite that is known here"),
        (["--suites", "one.jsonl"], "one.jsonl:1: no contrastive item"),
        (["--suites", "suite.en-de.jsonl", "--suite_curve", "2"], "must be at most 1 for this model, got 2"),
        (["--suites", "suite.en-de.jsonl", "--alignment", "ratio"], "`alignment` is for windows in cross-attention"),
        (["--data", "one.jsonl", "--baselines", "a=none"], "none: there is no such file or folder of translations"),
        (["--data", "one.jsonl", "--baselines", "a=folder"], "there is single.jsonl. Check the name"),
        (["--data", "one.jsonl", "--baselines", "a=empty.jsonl"], "empty.jsonl: no translation of document 'a'"),
        (["--data", "one.jsonl", "--baselines", "a=short.txt"], "short.txt: has 1 lines, but the test set has 2"),
        (["--data", "one.jsonl", "single.jsonl", "--baselines", "a=one.jsonl"], "is one file for several test sets"),
        (["--data", "one.jsonl", "--comet", "none.ckpt"], "one.jsonl: no COMET checkpoint at 'none.ckpt'"),
    ],
)
def test_files_are_checked_before_the_model_is_loaded(
    options, message, model_that_must_not_run, suite, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    languages = {"src_lang": "en", "tgt_lang": "de"}
    write_records(tmp_path / "empty.jsonl", [])
    write_records(tmp_path / "one.jsonl", [{"id": "a", **languages, "src": ["A.", "B."], "tgt": ["C.", "D."]}])
    singles = [{"id": name, **languages, "src": ["A."], "tgt": ["B."]} for name in "ab"]
    write_records(tmp_path / "single.jsonl", singles)
    (tmp_path / "folder").mkdir()
    write_records(tmp_path / "folder" / "single.jsonl", singles)
    (tmp_path / "short.txt").write_text("C.\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=f"docmt-evaluate: .*{message}"):
        main(["--model", str(model_that_must_not_run), *options])


def test_a_missing_model_is_said_to_be_missing(test_set, tmp_path):
    with pytest.raises(SystemExit, match="none is no model folder, which has a `config.json`"):
        main(["--model", str(tmp_path / "none"), "--data", str(test_set), "--measures", "s-BLEU"])


@pytest.mark.parametrize(
    ("of_model", "options", "message"),
    [
        (("en", "fr"), ["--data", "test"], "toy.jsonl.gz: the target language is 'de', but that of the model .* 'fr'"),
        (("de", "de"), ["--suites", "suite"], "suite.en-de.jsonl: the source language is 'en', but .* 'de'. Leave it"),
        ((None, None), ["--data", "test", "--suites", "french"], "french.jsonl: .*'fr', but that of .*toy.* is 'de'"),
        (
            ("eng", None),
            ["--suites", "suite", "french"],
            "french.jsonl: the target language is 'fr', but .*suite",
        ),
        ((None, None), ["--suites", "mixed"], "mixed.jsonl: `tgt_lang` is de, fr. Make a suite of each language"),
    ],
)
def test_languages_that_do_not_fit_are_refused(
    of_model, options, message, model_that_must_not_run, test_set, suite, tmp_path
):
    set_languages(model_that_must_not_run, source_lang=of_model[0], target_lang=of_model[1])
    german = [json.loads(line) for line in suite.read_text(encoding="utf-8").splitlines()]
    french = [{**record, "tgt_lang": "fr"} for record in german]
    names = {
        **{"test": test_set, "suite": suite, "french": write_records(tmp_path / "french.jsonl", french)},
        "mixed": write_records(tmp_path / "mixed.jsonl", [german[0], french[1]]),
    }
    with pytest.raises(SystemExit, match=message):
        main(["--model", str(model_that_must_not_run), *(str(names.get(option, option)) for option in options)])


def test_codes_of_other_lengths_are_not_compared(suite, model_folder):
    """Fails if "eng", which is English, or "roa", which is many languages, is told from codes of two letters."""
    set_languages(model_folder, source_lang="eng", target_lang="de-AT")
    assert evaluate(EvaluationArguments(model=str(model_folder), suites=[str(suite)]))["suites"][0]["items"] == 3


def test_the_languages_of_a_marian_model_are_those_of_its_tokenizer(test_set, tmp_path, toy_documents):
    write_opus_checkpoint(tmp_path, toy_documents, max_position_embeddings=512)
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(settings.read_text(encoding="utf-8").replace('"de"', '"it"'), encoding="utf-8")
    with pytest.raises(SystemExit, match="the target language is 'de', but that of the model .* is 'it'"):
        main(["--model", str(tmp_path), "--data", str(test_set)])
    with pytest.raises(SystemExit, match="`--attention_share` reads the attention of DocMT models"):
        main(["--model", str(tmp_path), "--data", str(test_set), "--target_lang", "it", "--attention_share"])
