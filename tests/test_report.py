"""The report of results: which results belong together, what the tables say, and the command."""

import copy
import html.parser
import json
import re
from pathlib import Path

import pytest

from training.contrastive_paired import pack_decisions
from training.report import main
from training.report_cells import wilson_interval
from training.report_context import suite_differences_table
from training.report_markdown import fill_block, markdown_report, summary_lines
from training.report_page import build_report
from training.report_results import decoding_text, read_results, run_name
from training.report_systems import system_rows


REPOSITORY = Path(__file__).resolve().parent.parent
BLEU = "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
TER = "TER|nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0"


def run_of(command="python -m training.evaluate --model runs/m"):
    return {
        "command": command,
        "date": "2026-01-02T03:04:05+00:00",
        "commit": "0123456789abcdef",
        "dirty": False,
        "versions": {"torch": "2.13.0", "sacrebleu": "2.6.0"},
        "hardware": {"cpu": "a processor", "torch_threads": 1},
    }


def entry_of(name="test.en-de.tales", sha256="a" * 64, bleu=12.345, ter=70.0, **changes):
    difference = {
        "d-BLEU": {"difference": 1.5, "interval": [0.25, 2.5], "p_value": 0.012},
        "TER": {"difference": -2.0, "interval": [-3.0, -1.0], "p_value": 0.001},
    }
    return {
        "name": name,
        "file": f"{name}.jsonl.gz",
        "sha256": sha256,
        "source_lang": "en",
        "target_lang": "de",
        "documents": 3,
        "sentences": 30,
        "scores": {"d-BLEU": {"score": bleu, "signature": BLEU}, "TER": {"score": ter, "signature": TER}},
        "intervals": {
            "documents": 3,
            "resamples": 1000,
            "seed": 12345,
            "measures": {"d-BLEU": {"score": bleu, "interval": [10.111, 14.222]}},
        },
        "status": {"ok": 29, "repetition": 1},
        "baselines": {
            "copy": {
                "scores": {"d-BLEU": {"score": 0.5, "signature": BLEU}, "TER": {"score": 111.0, "signature": TER}},
                "bootstrap": {"measures": difference},
            }
        },
        **changes,
    }


def evaluation(name="little", file="tiny.little.eval.json", weights="w" * 64, test_sets=None, **changes):
    return {
        "kind": "evaluation",
        "name": name,
        "model": {
            "path": f"runs/{name}",
            "model_type": "docmt",
            "system": "concat-adj",
            "parameters": 5_000_000,
            "weights_sha256": weights,
        },
        "decoding": {"num_beams": 4, "decoding": "counted", "batch_size": 16, "dtype": "float32", "device": "cpu"},
        "test_sets": [entry_of()] if test_sets is None else test_sets,
        "run": run_of(),
        "result_file": file,
        **changes,
    }


def training(file="tiny.little.train.json", **changes):
    return {
        "kind": "training",
        "system": "concat-adj",
        "architecture": "docmt",
        "parameters": 5_000_000,
        "source_lang": "en",
        "target_lang": "de",
        "updates": 4321,
        "cpu_seconds": 5400.0,
        "init_from": "runs/start",
        "loss_curve": [{"step": 10, "loss": 5.0}, {"step": 20, "loss": 4.0}, {"step": 20, "eval_loss": 4.25}],
        "run": run_of("python -m training.train"),
        "result_file": file,
        **changes,
    }


def suite(path="suites/contrapro.en-de.jsonl.gz", **changes):
    counts = {
        "items": 10,
        "correct": 7,
        "accuracy": 70.0,
        "ties": 1,
        "first_minimum_accuracy": 80.0,
        "chance": 33.3333,
    }
    return {
        "suite": path,
        "sha256": {path: "c" * 64},
        **counts,
        "context": {"source": 1, "target": 1, "right": 0},
        "items_per_second": 21.44,
        "breakdowns": {"antecedent_distance": {"0": {**counts, "items": 4, "accuracy": 25.0}, ">3": counts}},
        "curve": [{"context_sentences": number, **counts, "accuracy": 40.0 + number} for number in (0, 1)],
        **changes,
    }


def contrastive(file="tiny.little.contrastive.json", weights="w" * 64, suites=None, **changes):
    return {
        "kind": "contrastive",
        "model": "runs/elsewhere",
        "weights_sha256": weights,
        "system": "concat-adj",
        "alignment": None,
        "suites": [suite()] if suites is None else suites,
        "run": run_of("python -m training.contrastive"),
        "result_file": file,
        **changes,
    }


def test_accuracy_is_set_against_the_sentence_level_system_item_by_item():
    right = {"alone": [1, 1, 1, 0, 0, 0, 0, 0, 0, 0], "with": [1, 1, 0, 1, 1, 1, 1, 1, 1, 1]}
    entries = {name: suite(decisions=pack_decisions(bits), correct=sum(bits)) for name, bits in right.items()}
    results = [
        contrastive("alone.json", "a" * 64, [entries["alone"]], system="sentence-level"),
        contrastive("with.json", "b" * 64, [entries["with"]]),
        contrastive("other.json", "c" * 64, [suite()]),
    ]
    table = suite_differences_table(system_rows(results))
    ((name, lines),) = table.blocks
    assert name == "contrapro.en-de" and len(lines) == 1
    assert [cell.text for cell in lines[0][2:]] == ["+60.00", "7", "1"]
    assert lines[0][2].sign == "better"
    assert "+60.00" in build_report(results)


CONTEXT_USE = {
    "context": {"source": 1, "target": 1, "right": 0},
    "sentences": 27,
    "log_probability": {"right": -2.5, "shuffled": -2.625, "none": -2.75},
    "right_less_none": {"score": 0.25, "interval": [0.2, 0.3]},
    "right_less_shuffled": {"score": 0.125, "interval": [0.1, 0.15]},
    "signature": "context-use|version:1",
}
SHARE = {"documents": 2, "queries": 50, "share": 77.7, "share_per_layer": [70.0, 85.4]}
PRONOUN_F1 = {
    "score": 33.25,
    "precision": 30.0,
    "recall": 40.0,
    "signature": "pronoun-F1|version:1",
    "classes": {
        "masculine": {
            "score": 12.5,
            "precision": 10.0,
            "recall": 15.0,
            "matches": 3,
            "hypothesis": 30,
            "reference": 20,
        }
    },
}


def layers(accuracy):
    pair = {"accuracy": accuracy, "by_distance": [1.0, 1.0]}
    return [
        {"layer": 0, "absolute": {"accuracy": accuracy, "tolerance_accuracy": 99.5}, "relative": pair, "order": pair}
    ]


def others():
    """One small result of each kind that is no evaluation, training or suite."""
    probed = {"probe_order_layer_1": 61.5, "probe_order_layer_1_range": [60.0, 63.0]}
    synthetic_row = {"setting": "default", "system": "concat-adj", "seeds": 2, "parameters": 1000, "cpu_seconds": 9.0}
    return [
        {
            "kind": "attention-share",
            "system": "concat-adj",
            "alignment": None,
            "entries": [{"data": "test.en-de.tales.jsonl.gz", "data_sha256": "a" * 64, **SHARE}],
            "run": run_of("python -m training.attention_share"),
            "result_file": "tiny.little.share.json",
        },
        {
            "kind": "context-use",
            "model": "runs/little",
            "test_sets": [{"data": "test.en-de.tales.jsonl.gz", "sha256": "a" * 64, "context_use": CONTEXT_USE}],
            "run": run_of("python -m training.context_use"),
            "result_file": "tiny.little.context.json",
        },
        {
            "kind": "synthetic",
            "task": "cipher",
            "summary": [{**synthetic_row, "words": 87.5, "words_range": [80.25, 94.75], **probed}],
            "runs": [{"run": run_of("python -m training.synthetic run x.yaml")}],
            "result_file": "synthetic.cipher.json",
        },
        {
            "kind": "probe",
            "tolerance": 3,
            "models": [
                {
                    "name": "little",
                    "system": "concat-adj",
                    "layers": layers(62.5),
                    "chance": {"absolute": 1.0, "relative": 2.0, "order": 50.0},
                }
            ],
            "run": run_of("python -m training.probe"),
            "result_file": "tiny.little.probe.json",
        },
        {
            "kind": "step-benchmark",
            "goals": {"512: times faster": 1.125},
            "run": run_of("python -m training.benchmark steps"),
            "result_file": "benchmark.steps.json",
        },
    ]


def all_kinds():
    return [evaluation(), training(), contrastive(), *others()]


class Page(html.parser.HTMLParser):
    """What a browser would see of a page: its tables as text, its elements, and what they point at."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.elements, self.pointers, self.ids = {}, [], [], []
        self._heading, self._cell, self._open = "", None, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.pointers += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action", "data")]
        if tag in ("h2", "h3"):
            self._heading, self._open = "", [*self._open, tag]
        if tag == "table":
            self.tables.setdefault(self._heading.strip(), []).append([])
        if tag == "tr":
            self.tables[self._heading.strip()][-1].append([])
        if tag in ("td", "th"):
            self._cell = ""
        if tag == "small" and self._cell is not None:
            self._cell += " "

    def handle_endtag(self, tag):
        if tag in ("h2", "h3"):
            self._open.pop()
        if tag in ("td", "th"):
            self.tables[self._heading.strip()][-1][-1].append(self._cell)
            self._cell = None

    def handle_data(self, data):
        if self._open:
            self._heading += data
        if self._cell is not None:
            self._cell += data

    def rows(self, heading, place=0):
        return self.tables[heading][place]


def test_a_system_has_one_row_for_each_pair_of_languages_and_way_of_decoding():
    # fails if the options of speed tell rows apart, or if decoding or languages do not
    other_pair = entry_of("test.en-fr.tales", "b" * 64, target_lang="fr")
    slow = evaluation(file="b.json", test_sets=[entry_of("dev.en-de.tales", "d" * 64), other_pair])
    slow["decoding"]["batch_size"] = 1
    greedy = evaluation(file="c.json")
    greedy["decoding"]["num_beams"] = 1
    rows = system_rows([evaluation(), slow, greedy])
    assert [(row.pair, row.setting, len(row.test_sets)) for row in rows] == [
        ("en-de", "counted, 4 beams", 2),
        ("en-fr", "counted, 4 beams", 1),
        ("en-de", "counted, greedy", 1),
    ]


def test_what_was_scored_twice_is_shown_twice():
    # fails if the second entry replaces the first
    rows = system_rows([evaluation(file="a.json"), evaluation(file="b.json", test_sets=[entry_of(bleu=13.0)])])
    assert [next(iter(row.test_sets.values()))["scores"]["d-BLEU"]["score"] for row in rows] == [12.345, 13.0]


def test_test_sets_of_one_name_and_other_content_are_told_apart():
    # fails if test sets are known by their names alone
    other = evaluation("other", "b.json", "v" * 64, [entry_of(sha256="f" * 64, bleu=99.9)])
    heads = Page(build_report([evaluation(), other])).rows("en-de")[1]
    assert heads[-2:] == ["test.tales (3 documents, aaaaaaaa)", "test.tales (3 documents, ffffffff)"]


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        ({}, True),
        ({"file": "tiny.train.json"}, True),  # a shorter name of the same run
        ({"file": "tiny.litt.train.json"}, False),  # the start of a word is none of a name
        ({"parameters": 4_000_000}, False),
        ({"system": "g-transformer"}, False),
        ({"architecture": "marian"}, False),
        ({"file": "else.json", "output_dir": "runs/little"}, True),
        ({"file": "else.json", "weights_sha256": "w" * 64}, True),
        ({"weights_sha256": "v" * 64}, False),  # the same name, and other weights
        ({"output_dir": "runs/little", "weights_sha256": "v" * 64}, False),
        ({"output_dir": "runs/before-export", "weights_sha256": "v" * 64}, True),  # export has rounded them
    ],
)
def test_training_goes_to_the_row_of_its_model_alone(changes, is_found):
    # each case fails if its rule is left out
    rows = system_rows([evaluation(), training(**changes)])
    assert (rows[0].training is not None) == is_found
    assert len(rows) == (1 if is_found else 2)  # what was trained and not scored has a row as well


def test_the_longest_name_of_a_run_wins():
    # fails if the first fitting training is taken
    rows = system_rows([evaluation(), training("tiny.train.json", updates=1), training()])
    assert rows[0].training["updates"] == 4321


def test_names_of_runs_lose_their_endings():
    names = ["tiny.little.eval.json", "tiny.little.sequential.eval.json", "eval.json", "tiny.little.json"]
    assert [run_name({"result_file": name}) for name in names] == [
        "tiny.little",
        "tiny.little.sequential",
        "eval",
        "tiny.little",
    ]
    assert run_name({}) is None


def test_the_summary_holds_cost_and_headline_scores():
    page = Page(build_report(all_kinds()))
    groups, heads, row = page.rows("en-de")
    assert [head for head in groups if head] == [
        "this run",
        "d-BLEU",
        "contrastive accuracy, %",
        "right less shuffled context, nats a token",
    ]
    found = dict(zip([head.split(" ")[0] for head in heads], row, strict=True))
    assert found["system"] == "little concat-adj"
    assert found["parameters"] == "5.00"
    assert found["updates"] == "4,321"
    assert found["CPU"] == "1.50"
    assert found["contrapro"] == "70.0 39.7 – 89.2"
    assert row[5] == "12.3 10.1 – 14.2"
    assert row[-1] == "+0.125 +0.100 – +0.150"


def test_scores_stand_beside_their_intervals_and_baselines_below():
    page = Page(build_report(all_kinds()))
    _, heads, block, row, baseline = page.rows("en-de", 1)
    assert heads == [
        "system",
        "decoding",
        "d-BLEU",
        "TER lower is better",
        "right less shuffled context",
        "right less no context",
        "attention, % on the aligned sentence",
    ]
    assert block == ["test.en-de.tales · 3 documents, 30 sentences"]
    contexts = ["+0.125 +0.100 – +0.150", "+0.250 +0.200 – +0.300"]
    assert row == ["little concat-adj", "counted, 4 beams", "12.3 10.1 – 14.2", "70.0", *contexts, "77.7 2 documents"]
    assert baseline == ["copy of the source baseline", "-", "0.5", "111.0", "-", "-", "-"]


def test_columns_without_numbers_are_left_out_and_single_gaps_are_dashes():
    # fails if a column is kept for nothing, or a gap becomes 0
    with_f1 = entry_of("dev.en-de.tales", "b" * 64)
    with_f1["scores"]["pronoun-F1"] = {**PRONOUN_F1, "score": None}
    with_f1["scores"]["COMET"] = {"score": 71.25, "signature": "COMET|x"}
    text = build_report([evaluation(test_sets=[entry_of(), with_f1])])
    rows = Page(text).rows("en-de", 1)
    assert rows[0] == ["system", "decoding", "d-BLEU", "TER lower is better", "COMET"]
    assert [row[-1] for row in rows if len(row) > 1][1:] == ["71.2", "-", "-", "-"]
    assert "coverage" not in text.split("<main>")[1]


def test_a_baseline_with_a_row_of_its_own_is_not_repeated():
    # fails if baselines are told apart by name and not by their scores
    little = evaluation()
    of_other = {"scores": entry_of(bleu=11.0)["scores"]}
    little["test_sets"][0]["baselines"] = {
        "another name": of_other,
        "lost": {"scores": entry_of(bleu=9.0)["scores"]},
    }
    rows = Page(build_report([little, evaluation("other", "b.json", "v" * 64, [entry_of(bleu=11.0)])])).rows(
        "en-de", 1
    )
    assert [row[0] for row in rows[2:]] == [
        "little concat-adj",
        "other concat-adj",
        "lost baseline",
        "copy of the source baseline",
    ]


def test_differences_are_marked_where_they_are_clear_of_zero():
    # fails if a lower TER counts as worse, or an interval over zero as clear
    unclear = evaluation("other", "b.json", "v" * 64)
    measures = unclear["test_sets"][0]["baselines"]["copy"]["bootstrap"]["measures"]
    measures["d-BLEU"] = {"difference": 0.5, "interval": [-0.1, 1.0], "p_value": 0.2}
    measures["TER"] = {"difference": 2.0, "interval": [1.0, 3.0], "p_value": 0.04}
    page = Page(build_report([evaluation(), unclear]))
    rows = page.rows("en-de", 2)
    assert rows[2][2:] == ["copy of the source", "+1.50 ▲ +0.25 – +2.50, p 0.012", "-2.00 ▲ -3.00 – -1.00, p 0.001"]
    assert rows[3][2:] == ["copy of the source", "+0.50 -0.10 – +1.00, p 0.200", "+2.00 ▼ +1.00 – +3.00, p 0.040"]


def test_wilson_intervals():
    """Values of Wilson's formula, worked out by hand for 7 of 10, and its limits."""
    assert wilson_interval(7, 10) == pytest.approx((39.678, 89.221), abs=1e-3)
    assert wilson_interval(0, 10)[0] == pytest.approx(0.0, abs=1e-9)
    assert wilson_interval(10, 10)[1] == pytest.approx(100.0, abs=1e-9)
    assert wilson_interval(0, 0) is None


def test_suites_are_listed_with_items_ties_and_speed():
    page = Page(build_report(all_kinds()))
    heads, block, row = page.rows("Contrastive suites")
    assert block == ["contrapro.en-de"]
    assert row == [
        "little concat-adj",
        "1 source, 1 target, 0 right",
        "70.0 39.7 – 89.2",
        "10",
        "7",
        "1",
        "80.0",
        "33.3",
        "21.4",
    ]
    assert page.rows("contrapro.en-de, by antecedent distance")[1:] == [
        ["little 1 source, 1 target, 0 right", "25.0 4 items", "70.0 10 items"]
    ]
    assert page.rows("contrapro.en-de, by context sentences")[0] == ["system", "0", "1"]


def test_rows_of_one_model_share_its_suites_and_list_them_once():
    # fails if a suite is given to one way of decoding, or is listed for each
    greedy = evaluation(file="c.json")
    greedy["decoding"]["num_beams"] = 1
    results = [evaluation(), greedy, contrastive()]
    assert [len(row.suites) for row in system_rows(results)] == [1, 1]
    assert len(Page(build_report(results)).rows("Contrastive suites")) == 3


def test_suites_stay_in_their_languages():
    # fails if the suite of another pair goes to a row
    results = [evaluation(), contrastive(suites=[suite("voita.en-ru.jsonl.gz")])]
    assert [(row.pair, len(row.suites)) for row in system_rows(results)] == [("en-de", 0), ("en-ru", 1)]


def test_an_evaluation_of_suites_alone_has_a_row():
    # fails if rows come from test sets alone
    alone = evaluation(test_sets=[], suites=[suite()])
    del alone["decoding"]
    (row,) = system_rows([alone])
    assert (row.name, row.pair, row.setting, len(row.suites)) == ("little", "en-de", "-", 1)
    assert Page(build_report([alone])).rows("en-de")[-1][0] == "little concat-adj"


def test_shares_and_contexts_inside_an_evaluation_are_those_of_its_test_set():
    found = evaluation(test_sets=[entry_of(context_use=CONTEXT_USE, attention_share=SHARE)])
    page = Page(build_report([found]))
    assert page.rows("What context is worth")[-1][2:] == [
        "27",
        "-2.500",
        "-2.625",
        "-2.750",
        "+0.125 +0.100 – +0.150",
        "+0.250 +0.200 – +0.300",
    ]
    assert page.rows("Attention on the aligned source sentence")[-1] == [
        "little concat-adj",
        "2",
        "50",
        "77.7",
        "70.0",
        "85.4",
    ]
    from_files = Page(build_report(all_kinds()))
    for table in ("What context is worth", "Attention on the aligned source sentence"):
        assert from_files.rows(table) == page.rows(table)


def test_other_kinds_have_tables():
    page = Page(build_report(all_kinds()))
    assert page.rows("Synthetic task: cipher")[-1][-1] == "87.5 80.2 – 94.8"
    assert page.rows("Probes of the encoder: cipher")[-1] == ["default", "concat-adj", "1", "61.5"]
    assert page.rows("Probes of positions, tiny.little")[-2] == ["embeddings", "62.5", "99.5", "62.5", "62.5"]
    assert page.rows("Time and memory")[-1] == ["512: times faster", "1.125"]
    assert page.rows("Runs")[-1][-2:] == ["4.000", "4.250"]


def test_classes_of_pronouns_are_listed():
    entry = entry_of()
    entry["scores"]["pronoun-F1"] = PRONOUN_F1
    row = Page(build_report([evaluation(test_sets=[entry])])).rows("Pronouns by class")[-1]
    assert row == ["tiny.little", "pronoun-F1", "masculine", "12.5", "10.0", "15.0", "30", "20"]


def test_each_number_has_its_recipe():
    # fails if a result is left out of the recipes, or a link leads nowhere
    text = build_report(all_kinds())
    page = Page(text)
    for result in all_kinds():
        for run in [result["run"]] if "run" in result else [run["run"] for run in result["runs"]]:
            assert f"<pre>{run['command']}</pre>" in text
    for word in (
        "cpu_<wbr>seconds: 5400.0",
        "0123456789abcdef",
        "2026-01-02T03:04:05+00:00",
        "torch 2.13.0",
        "w" * 64,
        "a processor",
    ):
        assert word in text
    signatures = [row[:2] for row in page.rows("Signatures")[1:]]
    assert signatures == [["d-BLEU", BLEU], ["TER", TER]]
    anchors = [pointer.removeprefix("#") for pointer in page.pointers if pointer.startswith("#recipe")]
    assert anchors and set(anchors) <= set(page.ids)


def test_the_page_needs_nothing_from_elsewhere():
    # fails for a style sheet, a font, a picture or a script that is loaded
    text = build_report(all_kinds())
    page = Page(text)
    assert page.pointers and all(pointer.startswith("#") for pointer in page.pointers)
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & set(page.elements)
    assert not re.search(r"@import|url\((?!#)", text)


def test_curves_are_drawn_in_the_page_and_take_its_colours():
    pytest.importorskip("matplotlib")
    text = build_report(all_kinds())
    assert text.count("<svg") == 3  # accuracy by context, training and validation loss
    assert "currentColor" in text and "#010203" not in text
    assert "<metadata>" not in text
    assert build_report([evaluation()]).count("<svg") == 0


def test_two_curves_of_one_name_are_two_lines():
    # fails if lines are kept by name
    pytest.importorskip("matplotlib")
    point = {"items": 10, "correct": 4, "accuracy": 40.0}
    other = suite(curve=[{"context_sentences": number, **point} for number in (0, 1)])
    text = build_report([evaluation(), contrastive(), contrastive("b.json", suites=[other])])
    assert "little (1 source, 1 target, 0 right) again" in text


def test_names_with_dollars_are_no_formulas():
    pytest.importorskip("matplotlib")
    assert "$\\broken{$" in build_report([training("$\\broken{$.train.json")])


def test_the_same_input_gives_the_same_bytes():
    # fails for a date, for random names of parts of pictures, and for changed input
    results = all_kinds()
    before = copy.deepcopy(results)
    first = build_report(results), markdown_report(results)
    assert first == (build_report(results), markdown_report(copy.deepcopy(before)))
    assert results == before


def test_text_from_files_cannot_become_part_of_the_page():
    evil = '<script>alert("x")</script>'
    found = evaluation(evil, f"{evil}.json", test_sets=[entry_of(evil)], run=run_of(evil))
    found["decoding"]["decoding"] = evil
    text = build_report([found, contrastive(suites=[suite(f"{evil}.en-de")]), training(f"{evil}.train.json")])
    assert "script" not in Page(text).elements
    assert "&lt;script&gt;" in text


def test_markdown_holds_the_same_tables():
    lines = markdown_report(all_kinds()).splitlines()
    rows = [line for line in lines if line.startswith("| little (concat-adj) |")]
    assert rows[0].startswith(
        "| little (concat-adj) | counted, 4 beams | 5.00 | 4,321 | 1.50 | 12.3 (10.1 – 14.2) | 70.0 (39.7 – 89.2)"
    )
    assert any("+1.50 ▲ (+0.25 – +2.50, p 0.012) | -2.00 ▲ (-3.00 – -1.00, p 0.001)" in row for row in rows)
    assert any(line.startswith("- `tiny.little.eval.json`: `python -m training.evaluate") for line in lines)
    for heading in ("## Scores", "## Differences", "## Use of context", "## Signatures", "## Recipes"):
        assert heading in lines
    widths = {}
    for number, line in enumerate(lines):
        if line.startswith("|"):
            above = widths.get(number - 1)
            widths[number] = len(re.findall(r"(?<!\\)\|", line))
            assert above in (None, widths[number]), line


def test_pipes_and_tags_in_names_do_not_break_markdown():
    text = "\n".join(summary_lines([evaluation("a|b <i>*c*")]))
    assert "a\\|b &lt;i&gt;\\*c\\*" in text


def test_a_block_is_filled_and_the_rest_stays():
    text = "before\n<!-- systems:begin (made by x) -->\nold\n<!-- systems:end -->\nafter\n"
    filled = fill_block(text, "systems", ["a \\1", "b"])
    assert filled == "before\n<!-- systems:begin (made by x) -->\na \\1\nb\n<!-- systems:end -->\nafter\n"
    assert fill_block(filled, "systems", ["old"]) == text
    with pytest.raises(ValueError, match="no block 'systems'"):
        fill_block("nothing", "systems", [])


def write_results(folder, results):
    paths = []
    for result in results:
        paths.append(folder / result["result_file"])
        paths[-1].write_text(json.dumps({k: v for k, v in result.items() if k != "result_file"}), encoding="utf-8")
    return [str(path) for path in paths]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"bad.json: holds no JSON"),
        ("[1]", r"bad.json: `kind` must be one of evaluation, .*, got None"),
        ('{"kind": "recipe"}', r"bad.json: `kind` must be one of .*, got 'recipe'"),
        ('{"kind": "evaluation", "name": "x", "run": {}}', r"bad.json: .*'evaluation' must hold `test_sets`"),
        ('{"kind": "step-benchmark"}', r"bad.json: .*'step-benchmark' must hold `run`"),
    ],
)
def test_a_faulty_result_is_named(tmp_path, content, message):
    (tmp_path / "bad.json").write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit, match=message):
        main([str(tmp_path / "bad.json"), "--output", str(tmp_path / "report.html")])
    assert not (tmp_path / "report.html").exists()


def test_a_result_that_is_given_twice_is_refused(tmp_path):
    (path,) = write_results(tmp_path, [evaluation()])
    with pytest.raises(ValueError, match="tiny.little.eval.json: is given twice"):
        read_results([path, path])


def test_the_command_writes_page_markdown_and_block(tmp_path):
    paths = write_results(tmp_path, all_kinds())
    readme = tmp_path / "README.md"
    readme.write_text("# A\n<!-- systems:begin -->\n<!-- systems:end -->\nB\n", encoding="utf-8")
    outputs = ["--output", str(tmp_path / "out" / "report.html"), "--markdown", str(tmp_path / "report.md")]
    main([*paths, *outputs, "--readme", str(readme)])
    results = read_results(paths)
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == build_report(results)
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == markdown_report(results)
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("# A\n<!-- systems:begin -->\n#### en-de\n") and text.endswith("<!-- systems:end -->\nB\n")
    assert "`report.md`" in text
    main([*paths, "--markdown", str(tmp_path / "report.md"), "--readme", str(readme)])
    assert readme.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "x.html"], "name the result files"),
        (["r.json"], "name what to write"),
        (["missing.json", "--output", "x.html"], "missing.json"),
        (["r.json", "--output", "x.html", "--data", "d.jsonl"], "`--data` and `--hypotheses` go together"),
        (["r.json", "--markdown", "x.md", "--data", "d", "--hypotheses", "a=b"], "name it with `--output`"),
        (["r.json", "--output", "x.html", "--max_documents", "0"], "`--max_documents` must be 1 or more, got 0"),
        (["r.json", "--output", "x.html", "--tagger", "no"], "`--tagger` must be one of .*, got 'no'"),
    ],
)
def test_wrong_arguments_are_answered_with_what_to_do(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=message):
        main(arguments)
    assert not list(tmp_path.iterdir())


def test_a_readme_without_the_block_is_left_alone(tmp_path):
    paths = write_results(tmp_path, [evaluation()])
    (tmp_path / "README.md").write_text("nothing\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no block 'systems'"):
        main([*paths, "--output", str(tmp_path / "a.html"), "--readme", str(tmp_path / "README.md")])
    assert not (tmp_path / "a.html").exists()


def test_the_results_of_this_repository_can_be_reported():
    """Every evaluation is in the tables, and every training run has found its row or has one."""
    paths = sorted((REPOSITORY / "training" / "results").glob("*.json"))
    results = read_results(paths)
    text = build_report(results)
    for result in results:
        assert result["result_file"] in re.sub("<wbr>", "", text)
    rows = system_rows(results)
    trained = [result for result in results if result["kind"] == "training"]
    assert all(any(row.training is result for row in rows) for result in trained)
    scored = sum(len(result["test_sets"]) for result in results if result["kind"] == "evaluation")
    assert sum(len(row.test_sets) for row in rows) == scored


def test_a_growing_source_is_named_and_the_whole_one_is_the_default():
    """Fails if two settings of decoding are taken for one, or one for two."""
    decoding = {"decoding": "sequential", "num_beams": 4}
    assert decoding_text(decoding) == decoding_text({**decoding, "source_context": "full"}) == "sequential, 4 beams"
    assert decoding_text({**decoding, "source_context": "prefix"}) == "sequential, growing source, 4 beams"
