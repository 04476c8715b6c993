import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers.modeling_outputs import Seq2SeqLMOutput

from modeling_docmt import DocMTConfig, DocMTForConditionalGeneration
from modeling_docmt.configuration_docmt import SYSTEMS
from modeling_docmt.formatting_docmt import neutral_to_sentences
from modeling_docmt.generation_docmt import DocumentTranslationOutput
from training.documents import read_documents
from training.learning import LearningPlan, learn
from training.learning_scores import Examination
from training.synthetic import main
from training.synthetic_cipher import CipherTask
from training.synthetic_discourse import GREETINGS, PRONOUNS, RELATIVES, DiscourseTask
from training.synthetic_documents import Mark, WordVocabulary, as_record, make_documents
from training.synthetic_experiment import Experiment
from training.synthetic_reach import sentences_in_reach
from training.synthetic_report import RunFile, summarize


CONFIGS = Path(__file__).parent.parent / "training" / "configs"
RESULTS = CONFIGS.parent / "results"
TASKS = [CipherTask(sentences=6), DiscourseTask()]
TINY = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "dropout": 0.0,
    "max_part_tokens": None,
}


def tiny_config(system: str, vocabulary: WordVocabulary, **changes) -> DocMTConfig:
    return DocMTConfig.from_system(system, **{**TINY, **vocabulary.config_fields(), **changes})


# tasks


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_documents_depend_on_seed_split_and_index_alone(task):
    first = list(make_documents(task, "train", 5))
    assert first == list(make_documents(replace(task), "train", 8))[:5]
    assert first != list(make_documents(replace(task, seed=1), "train", 5))
    assert first != list(make_documents(task, "evaluation", 5))
    assert len({str(document) for document in first}) == 5


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_sentences_match_and_all_words_are_known(task):
    words = set(task.words())
    for document in make_documents(task, "train", 50):
        assert len(document.source) == len(document.target) == task.sentences
        assert [len(s) for s in document.source] == [len(t) for t in document.target]
        assert words.issuperset(word for side in (document.source, document.target) for s in side for word in s)


def test_a_cipher_is_a_permutation_with_neighbours_that_change_places():
    """Fails if a mover that has moved moves on."""
    task = CipherTask(vocabulary=20, movers=0.3)
    assert len(set(task.lexicon.values())) == 20 and len(task.moving) == 6
    mover, *others = *sorted(task.moving)[:1], *[word for word in task.lexicon if word not in task.moving]
    a, b = others[:2]
    translations = {word: task.lexicon[word] for word in (mover, a, b)}
    for source, order in (
        ([mover, a, b], [a, mover, b]),
        ([a, mover], [a, mover]),
        ([mover, mover, a], [mover, a, mover]),
        ([mover, a, mover, b], [a, mover, b, mover]),
    ):
        assert task.translate(source) == [translations[word] for word in order]


def test_words_of_a_cipher_come_back_within_a_document():
    document = CipherTask(vocabulary=64, document_words=12, sentences=16).document("train", 0)
    counts = Counter(word for sentence in document.source for word in sentence)
    assert len(counts) <= 12 and min(counts.values()) > 1


def test_answers_of_discourse_follow_from_the_sentences_before():
    """Solves each question from the source alone; fails if another noun may stand before a pronoun, or beside it."""
    task = DiscourseTask()
    seen = Counter()
    for document in make_documents(task, "train", 200):
        for mark in document.marks:
            at = mark.sentence - mark.distance
            before = document.source[: mark.sentence + (mark.phenomenon == "control")]
            answer = document.target[mark.sentence][mark.word]
            word = document.source[mark.sentence][mark.word]
            if mark.phenomenon == "pronoun":
                assert task.genders.keys().isdisjoint(document.source[mark.sentence])
            if mark.phenomenon in ("pronoun", "control"):
                index, noun = [(i, w) for i, s in enumerate(before) for w in s if w in task.genders][-1]
                expected = (PRONOUNS if mark.phenomenon == "pronoun" else RELATIVES)[task.genders[noun]]
            elif mark.phenomenon == "formality":
                index, expected = 0, next(GREETINGS[w][1] for w in document.source[0] if w in GREETINGS)
            else:
                index = next(i for i, s in enumerate(before) if word in s)
                expected = word.capitalize() + ("a" if "law" in document.source[index] else "b")
            assert (index, expected) == (at, answer)
            seen[mark.phenomenon] += 1
    assert set(seen) == set(task.without_context)


def test_distances_are_those_asked_for():
    task = DiscourseTask(sentences=8, distances=[2, 6])
    found = defaultdict(Counter)
    for document in make_documents(task, "train", 300):
        for mark in document.marks:
            found[mark.phenomenon][mark.distance] += 1
    assert {name: set(counts) for name, counts in found.items()} == {
        "pronoun": {2, 6},
        "formality": {2, 6},
        "term": {2, 6},
        "control": {0},
    }
    for name in ("formality", "term"):
        assert 0.6 < found[name][2] / found[name][6] < 1.7


def test_the_same_sentence_needs_different_answers_but_for_the_control():
    """Sentences repeat, with hardly a word besides. Fails if a greeting says it all, or a control has no noun."""
    answers: dict[str, dict] = defaultdict(lambda: defaultdict(Counter))
    for document in make_documents(DiscourseTask(fillers=1, nouns=6, terms=2), "train", 1500):
        for mark in document.marks:
            sentence = document.source[mark.sentence]
            question = (tuple(sorted(sentence)), sentence[mark.word])
            answers[mark.phenomenon][question][document.target[mark.sentence][mark.word]] += 1
    for phenomenon, best in DiscourseTask.without_context.items():
        often = [counts for counts in answers[phenomenon].values() if counts.total() >= 100]
        assert often
        for counts in often:
            assert len(counts) == round(1 / best)
            assert max(counts.values()) / counts.total() < best + 0.12


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="`distances` must lie between 1 and `sentences` - 1"):
        DiscourseTask(sentences=5, distances=[5])
    with pytest.raises(ValueError, match="`document_words` must be at least 1 and at most `vocabulary`"):
        CipherTask(vocabulary=8, document_words=9)
    with pytest.raises(ValueError, match="must differ"):
        WordVocabulary(["a", "a"])
    with pytest.raises(ValueError, match="`updates` must be positive, got 0"):
        LearningPlan(updates=0)
    with pytest.raises(ValueError, match="`warmup_updates` are some of `updates`, got 100 and 50"):
        LearningPlan(updates=50)


def test_written_documents_are_records_of_the_project(tmp_path, capsys):
    path = tmp_path / "cipher.jsonl.gz"
    main(
        [
            "write",
            "--task",
            "cipher",
            "--options",
            "sentences=3",
            "vocabulary=9",
            "--count",
            "4",
            "--output",
            str(path),
        ]
    )
    task = CipherTask(sentences=3, vocabulary=9)
    expected = [as_record(d, f"cipher-train-{i}") for i, d in enumerate(make_documents(task, "train", 4))]
    assert list(read_documents(path)) == expected
    with pytest.raises(ValueError, match="Did you mean `sentences`"):
        main(["write", "--task", "cipher", "--options", "sentence=3", "--output", str(path)])


# examination


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_word_and_mark_is_asked_once_whatever_the_sequences(system):
    """Fails if context sentences of a window count, or all resolutions of a document do."""
    task = DiscourseTask(sentences=5, distances=[1, 3])
    documents = list(make_documents(task, "evaluation", 4))
    vocabulary = WordVocabulary(task.words())
    config = tiny_config(system, vocabulary)
    scores = Examination(documents, vocabulary, config).read(DocMTForConditionalGeneration(config)).in_detail()
    expected = Counter(mark.phenomenon for document in documents for mark in document.marks)
    expected["words"] = sum(len(sentence) for document in documents for sentence in document.target)
    assert {name: entry["count"] for name, entry in scores.items()} == dict(expected)


class Oracle(DocMTForConditionalGeneration):
    """Knows the word-by-word translation, but says `<unk>` in place of one target word."""

    def __init__(self, config: DocMTConfig, table: dict[int, int]):
        super().__init__(config)
        self.table = table

    def forward(self, input_ids, decoder_input_ids, **kwargs):
        logits = torch.zeros(*decoder_input_ids.shape, self.config.vocab_size)
        for row, ids in enumerate(input_ids.tolist()):
            answers = [self.table.get(token, token) for token in ids]
            logits[row, torch.arange(len(answers)), torch.tensor(answers)] = 1.0
        return Seq2SeqLMOutput(logits=logits)

    def generate(self, input_ids, **kwargs):
        documents = [neutral_to_sentences(ids, self.config) for ids in input_ids.tolist()]
        sentences = [[[self.table[word] for word in sentence] for sentence in document] for document in documents]
        status = [["ok"] * len(document) for document in documents]
        return DocumentTranslationOutput(sentences=sentences, sentence_status=status)


def test_right_words_are_counted_as_right_and_wrong_ones_as_wrong():
    """Fails if labels, words or marks are compared a place off."""
    task = CipherTask(sentences=3, movers=0.0, vocabulary=8, min_words=2, max_words=3)
    wrong, asked = task.lexicon["s0"], task.lexicon["s1"]
    documents = []
    for document in make_documents(task, "evaluation", 6):
        words = [(i, j, word) for i, sentence in enumerate(document.target) for j, word in enumerate(sentence)]
        marks = [
            Mark("never" if word == wrong else "always", i, i, j) for i, j, word in words if word in (wrong, asked)
        ]
        documents.append(replace(document, marks=marks))
    vocabulary = WordVocabulary(task.words())
    config = tiny_config("concat-document", vocabulary)
    ids = {word: vocabulary.encode([[word]])[0][0] for word in task.words()}
    table = {ids[source]: ids[target] if target != wrong else 0 for source, target in task.lexicon.items()}
    examination, model = Examination(documents, vocabulary, config), Oracle(config, table)
    words = [word for document in documents for sentence in document.target for word in sentence]
    read = examination.read(model).in_detail()
    assert read["words"] == {"count": len(words), "accuracy": round(1 - words.count(wrong) / len(words), 4)}
    for name, word, accuracy in (("never", wrong, 0.0), ("always", asked, 1.0)):
        assert (read[name]["count"], read[name]["accuracy"]) == (words.count(word), accuracy)
        assert set(read[name]["by_distance"]) <= {"0", "1", "2"}
    translated = examination.translate(model, 6)
    whole = [wrong not in sentence for document in documents for sentence in document.target]
    sentences = {"count": 18, "accuracy": round(sum(whole) / 18, 4), "status": {"ok": 18}}
    assert translated == {**read, "sentences": sentences}


# experiments


def test_the_learning_rate_rises_to_its_peak_and_falls_to_nothing():
    plan = LearningPlan(updates=10, warmup_updates=4, learning_rate=0.7)
    rates = [plan.rate(update) for update in range(1, 11)]
    assert rates == pytest.approx([0.175, 0.35, 0.525, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_learning_is_deterministic_and_its_curve_goes_down():
    task = CipherTask(vocabulary=4, sentences=1, movers=0.0, min_words=2, max_words=2)
    vocabulary = WordVocabulary(task.words(), indexed_separators=1)
    plan = LearningPlan(
        updates=40, warmup_updates=5, evaluate_every=20, batch_tokens=96, learning_rate=0.01, decoded_documents=1
    )
    documents = list(make_documents(task, "train", 200)), list(make_documents(task, "evaluation", 64))
    first, second = (
        learn(tiny_config("sentence-level", vocabulary), plan, vocabulary, *documents, seed=1) for _ in range(2)
    )
    assert first["curve"] == second["curve"] and first["final"] == second["final"]
    assert [point["updates"] for point in first["curve"]] == [20, 40]
    assert first["curve"][1]["loss"] < 0.7 * first["curve"][0]["loss"]
    assert first["curve"][1]["words"] > 0.5  # of four words
    assert 30 * 96 < first["target_tokens"] <= 40 * 96  # the last batch of a pass may be smaller


EXPERIMENT = """
task: discourse
output: {folder}/results.json
seeds: [1]
data: {{sentences: 4, distances: [1, 2]}}
settings:
  short:
  long: {{sentences: 6}}
systems:
  sentence-level:
  pairs: {{system: concat-adj, context_sentences: 1}}
model: {model}
training: {{updates: 2, warmup_updates: 1, evaluate_every: 1, batch_tokens: 64, training_words: 100,
  evaluation_documents: 4, decoded_documents: 1}}
"""


@pytest.mark.parametrize(
    ("system", "changes", "sentences"),
    [
        ("sentence-level", {}, 0),
        ("concat-adj", {"context_sentences": 2}, 2),
        ("gated-adj", {"context_sentences": 1}, 1),
        ("concat-document", {}, 11),
        # parts of four sentences each, the last of which sees three
        ("concat-document", {"max_part_tokens": None, "max_part_sentences": 4}, 3),
        # one sentence of memory for each layer of the decoder
        ("global-local", {"global_block": "none", "segment_embeddings": None, "decoder_layers": 2}, 2),
        ("p-transformer", {}, 11),
        ("mr-doc2doc", {}, 11),
    ],
)
def test_the_reach_of_a_system_is_found_in_its_model(system, changes, sentences):
    systems = {"it": {"system": system, **TINY, **changes}}
    (run,) = Experiment(task="discourse", output="unused.json", seeds=[3], systems=systems).runs()
    assert sentences_in_reach(run) == sentences


def test_the_reach_of_windows_is_the_sum_of_those_of_their_layers():
    """
    Fails if a layer or a stack is not counted: w for each decoder layer but the first, where cross-attention comes
    behind the window of the decoder, w for that cross-attention, and w for each encoder layer.
    """
    system = {"system": "window-attn", "encoder_layers": 2, "decoder_layers": 3, "alignment": "one2one"}
    systems = {f"w = {w}": {**TINY, **system, "window_size": w, "training_alignment": "one2one"} for w in (1, 4)}
    runs = list(Experiment(task="discourse", output="unused.json", seeds=[3], systems=systems).runs())
    source = runs[0].task.document("evaluation", 0).source
    for run, window in zip(runs, (1, 4), strict=True):
        # from the first word of the last sentence, separators between
        reached, separator, sentences = window * (3 - 1 + 1 + 2), 1, 0
        while reached > separator:
            sentences += 1
            separator += len(source[-1 - sentences]) + 1
        assert sentences_in_reach(run) == sentences


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT.format(folder=tmp_path, model=json.dumps(TINY)))
    return path


def test_an_experiment_in_pieces_is_the_experiment(experiment, tmp_path, capsys):
    """Fails if a finished run is done again, or forgotten."""
    output = tmp_path / "results.json"
    main(["run", str(experiment), "--settings", "long", "--most_runs", "1"])
    first = json.loads(output.read_text())["runs"]
    assert [(run["setting"], run["system"]) for run in first] == [("long", "sentence-level")]
    main(["run", str(experiment), "--plot", str(tmp_path / "curves.png")])
    results = json.loads(output.read_text())
    assert results["runs"][:1] == first
    keys = {(run["setting"], run["system"], run["seed"]) for run in results["runs"]}
    assert len(results["runs"]) == len(keys) == 4
    for run in results["runs"]:
        assert {"parameters", "updates", "target_tokens", "seconds", "cpu_seconds", "curve", "final", "run"} < set(run)
        assert [point["updates"] for point in run["curve"]] == [1, 2]
        assert set(run["final"]["read"]["pronoun"]) == {"count", "accuracy", "by_distance"}
        assert run["recipe"]["data"]["seed"] == run["seed"]
    assert [(row["setting"], row["system"], row["seeds"]) for row in results["summary"]] == [
        ("long", "sentence-level", 1),
        ("short", "sentence-level", 1),
        ("short", "pairs", 1),
        ("long", "pairs", 1),
    ]
    for picture in ("curves.png", "curves.distances.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    assert results["reach"] == [
        {"setting": setting, "system": system, "sentences": sentences}
        for setting in ("short", "long")
        for system, sentences in (("sentence-level", 0), ("pairs", 1))
    ]
    assert "pairs" in capsys.readouterr().out


def test_pieces_of_two_processes_are_joined_in_the_order_of_the_experiment(experiment, tmp_path):
    """Fails if runs are appended as they come, or twice."""
    pieces = [str(tmp_path / f"{name}.json") for name in ("long", "short")]
    for path, setting in zip(pieces, ("long", "short"), strict=True):
        main(["run", str(experiment), "--output", path, "--settings", setting])
    results = main(["run", str(experiment), "--most_runs", "0", "--merge", *pieces, pieces[0]])
    assert [(run["setting"], run["system"]) for run in results["runs"]] == [
        ("short", "sentence-level"),
        ("short", "pairs"),
        ("long", "sentence-level"),
        ("long", "pairs"),
    ]
    assert json.loads((tmp_path / "results.json").read_text()) == results
    with pytest.raises(ValueError, match="`merge` names 'nothing.json', which is no file"):
        main(["run", str(experiment), "--merge", "nothing.json"])


def test_results_of_other_options_are_not_mixed(experiment, tmp_path):
    main(["run", str(experiment), "--most_runs", "1"])
    experiment.write_text(experiment.read_text().replace("updates: 2", "updates: 1"))
    with pytest.raises(ValueError, match=r"results.json: .* was run with other options \(training\)"):
        main(["run", str(experiment), "--most_runs", "1"])
    (tmp_path / "results.json").write_text('{"kind": "training"}')
    with pytest.raises(ValueError, match="Name another `output`"):
        RunFile(tmp_path / "results.json", "discourse")


def test_mistakes_in_an_experiment_are_found_before_the_first_run(experiment, tmp_path):
    text = experiment.read_text()
    for right, wrong, message in (
        ("task: discourse", "task: cypher", "task must be one of 'cipher', 'discourse', got 'cypher'"),
        ("context_sentences: 1", "context_sentence: 1", "Did you mean `context_sentences`"),
        ("context_sentences: 1", "context_sentences: -1", "`context_sentences` must be 0 or more"),
        ("system: concat-adj", "system: concat", "system of `pairs` must be one of"),
        ("evaluate_every", "evaluate", "training: there is no option `evaluate`"),
        ("seeds: [1]", "seeds: []", "at least one"),
        ("output:", "outputs:", "Did you mean `output`"),
    ):
        experiment.write_text(text.replace(right, wrong))
        with pytest.raises(ValueError, match=message):
            main(["run", str(experiment)])
    assert not (tmp_path / "results.json").exists()
    experiment.write_text(text)
    with pytest.raises(ValueError, match="`systems` must be of the experiment"):
        main(["run", str(experiment), "--systems", "window-attn"])


def test_a_setting_may_change_the_training():
    settings = {"short": {"training": {"training_words": 50}}, "long": {}}
    task = {"task": "cipher", "output": "unused.json", "seeds": [1], "systems": {"concat-document": {}}}
    runs = Experiment(**task, settings=settings, training={"training_words": 500, "updates": 200}).runs()
    assert [(run.plan.training_words, run.plan.updates) for run in runs] == [(50, 200), (500, 200)]


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("synthetic.*.yaml")), ids=lambda path: path.stem)
def test_experiments_of_the_repository_are_valid(path):
    experiment = Experiment.from_file(path)
    assert experiment.plot == experiment.output.removesuffix(".json") + ".png"
    assert {run.config(WordVocabulary(run.task.words())).vocab_size for run in experiment.runs()}


@pytest.mark.parametrize("path", sorted(RESULTS.glob("synthetic.*.json")), ids=lambda path: path.stem)
def test_finished_runs_of_the_repository_count_as_done(path):
    """Fails if an option that a run does not use is in its recipe, so that all results would have to be made again."""
    experiment = Experiment.from_file(CONFIGS / f"{path.stem}.yaml")
    results = RunFile(path, experiment.task)
    done = sum(results.has(run) for run in experiment.runs())
    assert done == len(results.runs) > 0
    # the queue takes an experiment that has its picture for done: where a system is added, the picture goes
    assert not Path(experiment.plot).is_file() or done == len(list(experiment.runs()))


def test_summaries_are_means_and_ranges_in_percent():
    def run(accuracy):
        entry = {"words": {"count": 2, "accuracy": accuracy}}
        final = {"read": entry, "translated": entry}
        return {"setting": "a", "system": "b", "parameters": 7, "cpu_seconds": 1.0, "final": final}

    (row,) = summarize([run(0.5), run(1.0)])
    assert (row["words"], row["words_range"], row["translated_words"], row["seeds"]) == (75.0, [50.0, 100.0], 75.0, 2)


def test_the_first_argument_is_a_command(capsys):
    for argv in ([], ["learn"]):
        with pytest.raises(SystemExit):
            main(argv)
    assert "training.synthetic write" in capsys.readouterr().out
