"""Claims of the papers: their file is checked, numbers are found with their recipes, and verdicts follow from them."""

import base64
import copy
import json
import re
from pathlib import Path

import pytest
import yaml
from test_report import Page, entry_of, evaluation, run_of, suite, training, write_results

from training.claims import CLAIMS, Claim, Compared, read_claim, read_claims, read_comparison
from training.claims_corrected import correct
from training.claims_values import Missing, ResultFiles, Value
from training.claims_verdict import HELD, NOT_HELD, NOT_RUN, UNCLEAR, judge, judge_all
from training.contrastive_paired import pack_decisions
from training.report import main
from training.report_claims import ClaimsView, html_claims, markdown_claims, readme_claims
from training.report_corrected import corrected_table
from training.report_results import read_results
from training.reproduce_queue import QUEUE, QueuedRun, read_queue


REPOSITORY = Path(__file__).resolve().parent.parent
PAPERS = ["one"]


def learned(system, seed, words, pronoun=(0.5, 0.5), parameters=1000):
    """A run of an experiment; `pronoun` is the accuracy at distances 1 and 3, of 10 and of 30 words."""
    near, far = pronoun
    distances = {"1": {"count": 10, "accuracy": near}, "3": {"count": 30, "accuracy": far}}
    read = {
        "words": {"count": 100, "accuracy": words},
        "pronoun": {"count": 40, "accuracy": (near + 3 * far) / 4, "by_distance": distances},
    }
    translated = {"words": {"count": 100, "accuracy": words / 2}}
    return {
        "setting": "default",
        "system": system,
        "seed": seed,
        "parameters": parameters,
        "cpu_seconds": 9.0,
        "final": {"read": read, "translated": translated},
        "run": run_of("python -m training.synthetic run small.yaml"),
    }


def experiment(*runs, file="small.json"):
    return {"kind": "synthetic", "task": "discourse", "summary": [], "runs": list(runs), "result_file": file}


def claim_of(numbers, *holds_when, **changes):
    entry = {"id": "c", "paper": "one", "where": "table 1", "claim": "It is so.", "values": numbers}
    return read_claim({**entry, "holds_when": list(holds_when), **changes}, PAPERS, "claim 'c'")


def words_of(first, second, *holds_when):
    """A claim on the words of systems `a` and `b`, judged by these accuracies, one a seed."""
    names = [name for name in "ab" if any(name in line.split() for line in holds_when)]
    claim = claim_of({name: {"system": name} for name in names}, *holds_when, each=WORDS)
    runs = [learned("a", 11 + index, share) for index, share in enumerate(first)]
    runs += [learned("b", 11 + index, share) for index, share in enumerate(second)]
    return judge(claim, ResultFiles([experiment(*runs)]))


WORDS = {"synthetic": "small", "measure": "words"}


@pytest.mark.parametrize(
    ("first", "second", "comparison", "verdict"),
    [
        ([0.8, 0.9], [0.2, 0.3], "a > b by 20", "held"),
        ([0.2, 0.3], [0.8, 0.9], "a > b by 20", "did not hold"),
        # the ranges meet
        ([0.3, 0.9], [0.2, 0.4], "a > b by 20", "cannot be told at this size"),
        # they do not, and the means are too near
        ([0.5, 0.5], [0.4, 0.4], "a > b by 20", "cannot be told at this size"),
        ([0.8], [0.5], "a > b by 20", "held (one seed)"),
        ([0.6], [0.5], "a > b by 20", "cannot be told at this size"),
        ([0.5], [0.8], "a > b by 20", "did not hold (one seed)"),
        # one system has one seed only
        ([0.8, 0.9], [0.5], "a > b by 20", "held (one seed)"),
        ([0.2, 0.3], [0.8, 0.9], "a < b by 20", "held"),
        ([0.78], [0.8], "a >= b within 5", "held (one seed)"),
        ([0.73], [0.8], "a >= b within 5", "cannot be told at this size"),
        ([0.69], [0.8], "a >= b within 5", "did not hold (one seed)"),
        ([0.7, 0.7], [0.8, 0.8], "a >= b within 5", "did not hold"),
        ([0.82], [0.8], "a <= b within 5", "held (one seed)"),
        ([0.9], [0.4], "a > 2 x b by 5", "held (one seed)"),
        ([0.8], [0.4], "a > 2 x b by 5", "cannot be told at this size"),
        ([0.9], [0.4], "a > b + 60 by 5", "did not hold (one seed)"),
        ([0.1, 0.2], [0.1], "a < 30 by 10", "held"),
        ([0.1, 0.35], [0.1], "a < 30 by 5", "cannot be told at this size"),
    ],
)
def test_what_is_clear_depends_on_the_seeds(first, second, comparison, verdict):
    assert words_of(first, second, comparison).text == verdict


def test_a_claim_holds_when_all_comparisons_hold():
    assert words_of([0.8], [0.5], "a > b by 20", "b < a by 20").verdict == HELD
    assert words_of([0.8], [0.5], "a > b by 20", "a > b by 40").verdict == UNCLEAR
    # what fails weighs more than what is not clear
    assert words_of([0.8], [0.5], "a > b by 40", "b > a by 20").verdict == NOT_HELD


def test_numbers_of_parameters_do_not_depend_on_the_seed():
    values = {"with": {"system": "a"}, "without": {"system": "b"}}
    claim = claim_of(values, "with = without + 24", each={**WORDS, "measure": "parameters"})
    runs = [learned("a", 11, 0.5, parameters=1024), learned("b", 11, 0.5)]
    assert judge(claim, ResultFiles([experiment(*runs)])).text == "held"
    runs[0]["parameters"] = 1025
    assert judge(claim, ResultFiles([experiment(*runs)])).text == "did not hold"


def test_numbers_are_found_by_phenomenon_distance_and_way():
    result = experiment(learned("a", 11, 0.8, pronoun=(1.0, 0.2)))
    each = {"synthetic": "small", "system": "a"}

    def found(**fields):
        claim = claim_of({"a": {**each, **fields}}, "a > 0 by 1")
        return ResultFiles([result]).find(claim.values["a"], "")

    assert found(measure="pronoun").estimate == pytest.approx(40)
    assert found(measure="pronoun", distances=[1]).estimate == pytest.approx(100)
    assert found(measure="pronoun", distances=[1, 3]).estimate == pytest.approx(40)
    assert found(measure="translated_words").estimate == pytest.approx(40)
    assert found(measure="words").commands == ("python -m training.synthetic run small.yaml",)
    alone = {"words": {"count": 10, "accuracy": 0.7}}
    result["runs"][0]["single_sentences"] = {"read": alone, "translated": alone}
    assert found(measure="single_words").estimate == pytest.approx(70)
    missing = [found(measure="pronoun", distances=[2]), found(measure="words", setting="x")]
    assert [type(one) for one in missing] == [Missing] * 2
    assert "distances 2" in missing[0].reason and "'x'" in missing[1].reason
    with pytest.raises(ValueError, match="small.json has no measure 'wrods' of 'a'. There are .*words, pronoun"):
        found(measure="wrods")


def test_what_is_not_there_is_not_run_yet_and_the_queue_says_how():
    """A file that grows has some of the runs: those are shown, and the verdict waits."""
    queue = [QueuedRun("small", "training.synthetic run small.yaml", "training/results/small.png", 1.0, "tells")]
    claim = claim_of({"a": {"system": "a"}, "b": {"system": "b"}}, "a > b by 20", "a > 5 by 1", each=WORDS)
    judged = judge(claim, ResultFiles([experiment(learned("a", 11, 0.8))], queue))
    assert judged.verdict == NOT_RUN and list(judged.found) == ["a"]
    assert [outcome.comparison.text for outcome in judged.outcomes] == ["a > 5 by 1"]
    assert judged.missing["b"].command == "python -m training.synthetic run small.yaml"
    assert judge(claim, ResultFiles([], queue)).verdict == NOT_RUN
    assert judge(without_run(), ResultFiles([])).text == NOT_RUN


def without_run():
    entry = {"id": "n", "paper": "one", "where": "table 2", "claim": "It cannot be seen here.", "not_run": "no data."}
    return read_claim(entry, PAPERS, "claim 'n'")


def real(interval, *, baseline_score=12.0, trained=True, bleu=12.345):
    """Results of systems `little` and `other` on one test set; the first has the other as a baseline."""
    paired = {"d-BLEU": {"difference": 0.3, "interval": interval, "p_value": 0.02}}
    baseline = {"scores": {"d-BLEU": {"score": baseline_score, "signature": "s"}}, "bootstrap": {"measures": paired}}
    other_entry = entry_of(bleu=12.0)
    results = [
        evaluation(test_sets=[entry_of(bleu=bleu, baselines={"other": baseline})]),
        evaluation("other", "tiny.other.eval.json", "o" * 64, [other_entry]),
    ]
    if trained:
        results += [training(seed=42), training("tiny.other.train.json", seed=42)]
    return results


def real_claim(*holds_when):
    each = {"test_set": "test.en-de.tales", "measure": "d-BLEU"}
    values = {"a": {"evaluation": "tiny.little.eval"}, "b": {"evaluation": "tiny.other.eval"}}
    return claim_of(values, *holds_when, each=each)


@pytest.mark.parametrize(
    ("interval", "comparison", "verdict"),
    [
        ([0.1, 0.6], "a > b", "held (one seed)"),
        ([-0.1, 0.6], "a > b", "cannot be told at this size"),
        ([-0.6, -0.1], "a > b", "did not hold (one seed)"),
        ([-0.6, -0.1], "b > a", "held (one seed)"),
        ([-0.6, 0.2], "a >= b within 1", "held (one seed)"),
        ([-1.6, 0.2], "a >= b within 1", "cannot be told at this size"),
        ([-1.6, -1.2], "a >= b within 1", "did not hold (one seed)"),
    ],
)
def test_scores_are_compared_by_the_paired_interval(interval, comparison, verdict):
    """The intervals of both scores overlap, so that nothing would be clear without the paired one."""
    judged = judge(real_claim(comparison), ResultFiles(real(interval, bleu=12 + sum(interval) / 2)))
    assert judged.text == verdict
    assert judged.outcomes[0].basis == "paired bootstrap over documents"
    assert judged.values["a"].seeds == (42,)


def test_a_baseline_of_the_same_name_and_another_score_is_another_translation():
    judged = judge(real_claim("a > b"), ResultFiles(real([0.1, 0.6], baseline_score=11.0)))
    assert judged.verdict == UNCLEAR and judged.outcomes[0].basis == "intervals of both"


def test_a_number_without_seed_interval_or_command_is_none():
    missing = judge(real_claim("a > b"), ResultFiles(real([0.1, 0.6], trained=False)))
    assert missing.verdict == NOT_RUN and "no seed" in missing.values["a"].reason
    results = real([0.1, 0.6])
    results[1]["test_sets"][0]["intervals"]["measures"] = {}
    assert "no interval" in judge(real_claim("a > b"), ResultFiles(results)).values["b"].reason
    results[0]["run"] = {}
    assert "by which command" in judge(real_claim("a > b"), ResultFiles(results)).values["a"].reason


def test_scores_on_different_test_sets_are_refused():
    results = real([0.1, 0.6])
    results[1]["test_sets"][0]["sha256"] = "b" * 64
    with pytest.raises(ValueError, match="claim 'c': 'a > b' compares scores on different test sets"):
        judge(real_claim("a > b"), ResultFiles(results))


def accuracies(first, second):
    entries = [suite(decisions=pack_decisions(bits), correct=sum(bits), items=len(bits)) for bits in (first, second)]
    for entry in entries:
        entry["accuracy"] = 100 * entry["correct"] / entry["items"]
    results = real([-0.1, 0.6])
    return [{**results[0], "suites": [entries[0]]}, {**results[1], "suites": [entries[1]]}, *results[2:]]


def test_accuracies_are_compared_item_by_item():
    """Fails if the intervals of both accuracies decide: they overlap, while only one is ever right alone."""
    values = {"a": {"contrastive": "tiny.little.eval"}, "b": {"contrastive": "tiny.other.eval"}}
    claim = claim_of(values, "a > b", each={"suite": "contrapro.en-de"})
    judged = judge(claim, ResultFiles(accuracies([1] * 60 + [0] * 40, [1] * 50 + [0] * 50)))
    assert judged.text == "held (one seed)" and judged.outcomes[0].basis == "paired draws of items"
    assert judged.values["a"].ends[0] < judged.values["b"].ends[1]


def test_of_two_systems_in_all_measures_what_is_clear_is_clear_after_correction():
    """p = 0.02 for one measure of three: clear by itself, and not after Holm's correction. The named one stands."""
    results = accuracies([1] * 60 + [0] * 40, [1] * 50 + [0] * 50)
    measures = results[0]["test_sets"][0]["baselines"]["other"]["bootstrap"]["measures"]
    measures["d-BLEU"]["interval"] = [0.1, 0.6]
    measures["chrF"], measures["TER"] = ({**measures["d-BLEU"], "p_value": p_value} for p_value in (0.9, 0.4))
    correction = correct(results, Compared("tiny.little.eval", "tiny.other.eval", "contrapro.en-de"))
    assert correction.corrected[("d-BLEU", "test.en-de.tales")] == pytest.approx(0.06)
    judged = judge(real_claim("a > b"), ResultFiles(results), correction)
    assert judged.verdict == UNCLEAR and "p 0.060 after correction" in judged.outcomes[0].basis
    assert judge(real_claim("a > b"), ResultFiles(results)).verdict == HELD

    table = corrected_table(correction)
    (_, (named,)), (_, others) = table.blocks
    assert named[1].text == "contrapro.en-de" and named[-1].text == "as it is"
    p_values = [[cell.text for cell in line[-2:]] for line in others]
    assert p_values == [["0.020", "0.060"], ["0.900", "0.900"], ["0.400", "0.800"]]


def test_the_same_two_with_another_seed_stand_beside_them():
    # fails if a repeat takes part in the correction, or if its differences stand in the rows of other measures
    results = accuracies([1] * 60 + [0] * 40, [1] * 50 + [0] * 50)
    again = copy.deepcopy(accuracies([1] * 70 + [0] * 30, [1] * 50 + [0] * 50))
    for result in again:
        result["result_file"] = result["result_file"].replace("eval", "seed-2.eval")
    again[0]["test_sets"] = []
    pairs = (("tiny.little.seed-2.eval", "tiny.other.seed-2.eval"), ("tiny.little.seed-3.eval", "tiny.other.eval"))
    compared = Compared("tiny.little.eval", "tiny.other.eval", "contrapro.en-de", pairs)
    correction, alone = correct(results + again, compared), correct(results, compared)
    assert alone.repeats == [] and correction.corrected == alone.corrected and len(correction.repeats) == 1
    (_, (named,)), (_, (other, *_)) = corrected_table(correction).blocks
    assert named[2].text.startswith("+10.0") and named[-1].text.startswith("+20.0") and other[-1].text == "-"
    assert "another one with a seed of its own" in corrected_table(correction).note


def test_attention_by_place_is_found_with_the_seed_of_the_model():
    training = {"kind": "training", "system": "global-local", "output_dir": "runs/gl", "seed": 42}
    places = {"encoder": {"by_place": {"own": 4.0, "next": 30.0}}, "cross": {"by_place": {"own": 90.0}}}
    drawn = {"kind": "sentence-attention", "model": "runs/gl", "data": "test.en-de.x.jsonl", "run": run_of("plot")}
    results = [
        {**training, "run": run_of("train"), "result_file": "gl.train.json"},
        {**drawn, **places, "result_file": "gl.map.json"},
    ]

    def found(**fields):
        claim = claim_of({"a": {"attention_map": "gl.map", **fields}}, "a > 0 by 1")
        return ResultFiles(results).find(claim.values["a"], "claim 'c'")

    value = found(side="encoder", measure="next")
    assert (value.estimate, value.seeds, value.text) == (30.0, (42,), "30.0 %")
    assert found(side="cross", measure="own").estimate == 90.0
    assert "attention to the first sentence" in found(side="encoder", measure="first").reason
    with pytest.raises(ValueError, match="claim 'c': gl.map.json has no side 'decoder'. There are encoder, cross"):
        found(side="decoder", measure="own")


def test_benchmarks_have_entries_and_no_seed():
    result = {
        "kind": "step-benchmark",
        "entries": [{"model": "x", "batch": "512", "seconds": 2.0}, {"model": "y", "batch": "512", "seconds": 2.5}],
        "run": run_of("python -m training.benchmark steps"),
        "result_file": "benchmark.steps.json",
    }
    each = {"benchmark": "benchmark.steps", "measure": "seconds"}
    claim = claim_of({"x": {"entry": {"model": "x"}}, "y": {"entry": {"model": "y"}}}, "y > x by 0.1", each=each)
    judged = judge(claim, ResultFiles([result]))
    assert judged.text == "held" and judged.values["x"].text == "2.00 s"
    vague = claim_of({"x": {"entry": {"batch": "512"}}}, "x > 1 by 0.1", each=each)
    with pytest.raises(ValueError, match="2 entries are"):
        judge(vague, ResultFiles([result]))


def test_a_file_of_another_kind_is_refused():
    claim = claim_of({"a": {"system": "a"}}, "a > 5 by 1", each={**WORDS, "synthetic": "tiny.little.eval"})
    with pytest.raises(ValueError, match="claim 'c', value 'a': tiny.little.eval.json is of kind 'evaluation'"):
        judge(claim, ResultFiles([evaluation()]))


GOOD = {"synthetic": "small", "system": "a", "measure": "words"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"paper": "two"}, "`paper` must be one of one, got 'two'"),
        ({"verdict": "held"}, "there is no `verdict`"),
        ({"values": {}}, "needs `values` and `holds_when`, or `not_run`"),
        ({"note": "It was 5."}, "`note` has a number"),
        ({"not_run": "no data."}, "has `not_run`, and so neither values"),
        ({"values": {"a": {"picture": "small"}}}, "must name one result file, as one of synthetic, evaluation"),
        ({"values": {"a": {**GOOD, "training": "x"}}}, "must name one result file"),
        ({"values": {"a": {**GOOD, "seed": 5}}}, "there is no `seed`, but synthetic, system, measure"),
        ({"values": {"a": {"synthetic": "small", "system": "a"}}}, "`measure` is missing"),
        ({"values": {"a": {**GOOD, "synthetic": "small.json"}}}, "without `.json`"),
        ({"values": {"a": {**GOOD, "synthetic": "synthetic.length"}}}, "synthetic.length.yaml has no system 'a'"),
        (
            {"values": {"a": {"evaluation": "x", "test_set": "t", "measure": "BLUE"}}},
            "`measure` must be one of s-BLEU, .*, got 'BLUE'",
        ),
        ({"values": {"a": GOOD, "b": GOOD}}, "no comparison uses the value 'b'"),
        ({"holds_when": ["a > c by 5"]}, "'a > c by 5' names 'c'. The values are 'a'"),
        ({"holds_when": ["a is good"]}, "a comparison reads `A > B by N`"),
        ({"holds_when": ["a > 5"]}, "needs `by N`"),
        ({"holds_when": ["a > 5 within 1"]}, "`>` takes `by N`"),
        ({"holds_when": ["a >= 5"]}, "`>=` takes `within N`"),
        ({"holds_when": ["a = 5 by 1"]}, "`=` takes nothing"),
    ],
)
def test_a_wrong_claim_is_named(changes, message):
    with pytest.raises(ValueError, match=f"claim 'c'.*{message}"):
        claim_of({"a": GOOD}, "a > 5 by 1", **changes)


def test_comparisons_are_read_with_names_that_have_blanks_and_numbers():
    found = read_comparison("4096 tokens <= 8 x 512 tokens within 40", ["4096 tokens", "512 tokens"], "")
    assert (found.left, found.sign, found.margin) == ("4096 tokens", "<=", 40)
    assert (found.right.name, found.right.factor, found.right.offset) == ("512 tokens", 8, 0)


def written(tmp_path, *claims):
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump({"papers": {"one": "The paper"}, "claims": list(claims)}), encoding="utf-8")
    return path


def test_a_claim_that_is_there_twice_is_refused(tmp_path):
    entry = {"id": "n", "paper": "one", "where": "table 2", "claim": "It is so.", "not_run": "no data."}
    with pytest.raises(ValueError, match="claims.yaml, claim 'n': is there twice"):
        read_claims(written(tmp_path, entry, entry))


def view_of(judged, **changes):
    return ClaimsView({"one": "The <paper>"}, judged, **changes)


def test_each_number_of_a_report_stands_beside_its_recipe():
    held = words_of([0.8, 0.9], [0.2, 0.3], "a > b by 20")
    waits = judge(without_run(), ResultFiles([]))
    view = view_of([held, waits], pictures=["small.png"])
    page = html_claims(view)
    rows = Page(page).rows("The <paper>")
    assert [row[1] for row in rows] == ["verdict", "▲ held", "- not run yet"]
    for text in (page, "\n".join(markdown_claims(view))):
        plain = re.sub(r"<wbr>|\\", "", text)
        for part in ("a: 85.0 % (80.0 – 90.0), 2 seeds", "seeds 11, 12", "small.json", "small.png", "no data."):
            assert part in plain, part
        assert "python -m training.synthetic run small.yaml" in plain
    lines = readme_claims(view, "report.md")
    assert lines[:4] == [
        "| paper | held | did not hold | cannot be told at this size | not run yet |",
        "|---|--:|--:|--:|--:|",
        "| The &lt;paper&gt; | 1 | 0 | 0 | 1 |",
        "| all | 1 | 0 | 0 | 1 |",
    ]
    assert "- table 1: It is so. **held**" in lines and "`report.md`" in lines[-1]


def test_the_command_judges_claims_and_takes_pictures_along(tmp_path):
    paths = write_results(tmp_path, [experiment(learned("a", 11, 0.8), learned("b", 11, 0.2)), evaluation()])
    content = base64.b64decode("iVBORw0KGgo=")
    (tmp_path / "small.png").write_bytes(content)
    entry = {"id": "c", "paper": "one", "where": "table 1", "claim": "It is so.", "each": WORDS}
    entry |= {"values": {"a": {"system": "a"}, "b": {"system": "b"}}, "holds_when": ["a > b by 20"]}
    claims = written(tmp_path, entry)
    queue = tmp_path / "queue.yaml"
    queue.write_text("[]", encoding="utf-8")
    readme = tmp_path / "README.md"
    readme.write_text("<!-- claims:begin -->\n<!-- claims:end -->\n", encoding="utf-8")
    outputs = ["--output", str(tmp_path / "report.html"), "--markdown", str(tmp_path / "report.md")]
    options = ["--claims", str(claims), "--queue", str(queue), "--readme", str(readme)]
    main([*paths, *outputs, *options, "--blocks", "claims"])
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.rows("The paper")[1][1] == "▲ held (one seed)"
    pictures = [pointer for pointer in page.pointers if not pointer.startswith("#")]
    assert pictures == ["data:image/png;base64," + base64.b64encode(content).decode()]
    assert "#picture-small" in page.pointers and "picture-small" in page.ids
    assert "[small.png](small.png)" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "It is so. **held (one seed)**" in readme.read_text(encoding="utf-8")
    # without a word about blocks, a README needs the block of systems
    with pytest.raises(SystemExit, match="no block 'systems'"):
        main([*paths, *options])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--readme", "README.md", "--blocks", "claims"], "the block 'claims' needs a file of claims"),
        (["--readme", "README.md", "--blocks", "scores"], "`--blocks` must be of systems, claims, got 'scores'"),
        (["--output", "x.html", "--blocks", "systems"], "name it with `--readme`"),
    ],
)
def test_wrong_blocks_are_answered_with_what_to_do(arguments, message):
    with pytest.raises(SystemExit, match=re.escape(message)):
        main(["r.json", *arguments])


def test_the_claims_of_this_repository_can_be_judged():
    """No number and no verdict is in the file, every paper has claims, and every found number has its recipe."""
    claims = read_claims(REPOSITORY / CLAIMS)
    results = read_results(sorted((REPOSITORY / "training" / "results").glob("*.json")))
    correction = correct(results, claims.compared)
    judged = judge_all(claims.claims, ResultFiles(results, read_queue(REPOSITORY / QUEUE)), correction)
    assert {one.claim.paper for one in judged} == set(claims.papers)
    assert all(isinstance(one.claim, Claim) for one in judged) and any(one.verdict == HELD for one in judged)
    for one in judged:
        for value in one.found.values():
            assert isinstance(value, Value) and value.commands, one.claim.id
            assert value.seeds or value.selector.kind == "benchmark", one.claim.id
    assert correction is not None and len(correction.corrected) == len(correction.others) > 10
    assert json.dumps([one.text for one in judged])
