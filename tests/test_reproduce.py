"""The queue of runs: order, needs, locks, and what happens to runs that fail or are killed."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from training.arguments import TrainingArguments
from training.checkpoints import whole_checkpoints
from training.reproduce import RunQueue, main
from training.reproduce_queue import QUEUE, QueuedRun, read_queue
from training.train import checkpoint_to_resume


def python(code: str) -> str:
    """A command that runs code: the queue starts modules, and this one of the standard library does so."""
    return f"timeit -n 1 -r 1 {shlex.quote(code)}"


@pytest.fixture
def entry(tmp_path):
    """Makes entries of a queue whose command writes the output."""

    def make(name, code="", **changes):
        output = str(tmp_path / f"{name}.json")
        code = code or f"open({output!r}, 'w').write('1')"
        return {"name": name, "command": python(code), "output": output, "hours": 0.5, "tells": "much", **changes}

    return make


@pytest.fixture
def queue_of(tmp_path):
    """Makes a queue of entries, through its file."""

    def make(*entries):
        path = tmp_path / "queue.yaml"
        path.write_text(yaml.safe_dump(list(entries)))
        return RunQueue(read_queue(path), tmp_path / "queue")

    return make


def test_runs_are_done_in_order_behind_what_they_need_and_once(entry, queue_of):
    queue = queue_of(entry("first"), entry("second", needs=["first"]))
    states = [queue.state(run) for run in queue.runs.values()]
    assert states == ["ready", "waits for first"]
    assert list(queue.work(["first", "second"]).items()) == [("first", True), ("second", True)]
    assert [queue.state(run) for run in queue.runs.values()] == ["done", "done"]
    assert queue.work(["first", "second"]) == {}


def test_two_workers_run_at_the_same_time(entry, queue_of, tmp_path):
    # each ends well only while the other is there
    code = (
        "import pathlib, time; pathlib.Path({own!r}).touch(); end = time.time() + 30\n"
        "while not pathlib.Path({other!r}).exists(): time.sleep(0.02); assert time.time() < end"
    )
    a, b = str(tmp_path / "a.json"), str(tmp_path / "b.json")
    queue = queue_of(entry("a", code.format(own=a, other=b)), entry("b", code.format(own=b, other=a)))
    assert queue.work(["a", "b"], workers=2) == {"a": True, "b": True}


def test_a_run_that_another_process_holds_is_left_to_it(entry, queue_of):
    queue = queue_of(entry("first"))
    run = queue.runs["first"]
    with queue.lock(run) as held:
        assert held is not None and queue.state(run) == "running"
        assert queue.work(["first"]) == {}
    assert queue.state(run) == "ready"


def test_the_lock_of_a_killed_process_is_gone(entry, queue_of, tmp_path):
    queue = queue_of(entry("first"))
    holder = (
        "import sys, time; from training.reproduce import RunQueue; from training.reproduce_queue import read_queue\n"
        "queue = RunQueue(read_queue(sys.argv[1]), sys.argv[2])\n"
        "with queue.lock(queue.runs['first']): print('held', flush=True); time.sleep(60)"
    )
    arguments = [sys.executable, "-c", holder, str(tmp_path / "queue.yaml"), str(queue.folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert queue.state(queue.runs["first"]) == "running"
        process.kill()
    assert queue.state(queue.runs["first"]) == "ready"


def test_a_run_holds_its_lock_where_only_the_queue_is_killed(entry, queue_of, tmp_path):
    """Fails if a training that goes on without its queue is started a second time beside it."""
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    queue = queue_of(entry("first", code))
    arguments = ["run", "--queue", str(tmp_path / "queue.yaml"), "--folder", str(queue.folder)]
    with subprocess.Popen([sys.executable, "-m", "training.reproduce", *arguments], stderr=subprocess.PIPE) as process:
        end = time.time() + 60
        while not (pid.is_file() and pid.read_text()):
            assert time.time() < end and process.poll() is None
            time.sleep(0.05)
        process.kill()
    try:
        assert queue.state(queue.runs["first"]) == "running"
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
    end = time.time() + 10
    while queue.state(queue.runs["first"]) == "running":
        assert time.time() < end
        time.sleep(0.05)


def test_a_failed_run_is_named_keeps_others_going_and_is_tried_again(entry, queue_of):
    queue = queue_of(
        entry("broken", "raise SystemExit"),
        entry("silent", "pass"),
        entry("later", needs=["broken"]),
        entry("free"),
    )
    names = list(queue.runs)
    assert queue.work(names) == {"broken": False, "silent": False, "free": True}
    assert [queue.state(run) for run in queue.runs.values()] == ["failed", "failed", "waits for broken", "done"]
    assert queue.mark(queue.runs["broken"]).read_text() == "exit status 1\n"
    assert "silent.json" in queue.mark(queue.runs["silent"]).read_text()
    assert queue.work(names) == {"broken": False, "silent": False}


def test_training_goes_on_from_its_last_whole_checkpoint(entry, tmp_path):
    """Fails if one that was cut off while it was written is taken for one, and the run can never go on."""
    folder = tmp_path / "train"
    run = QueuedRun(**entry("train", checkpoints=str(folder)))
    for step, state in ((1000, None), (1250, '{"global_'), (250, "{}"), (500, "{}")):
        assert ("--resume_from_checkpoint" in run.words()) == (step == 500)
        (folder / f"checkpoint-{step}").mkdir(parents=True)
        if state is not None:
            (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    assert run.words()[-2:] == ["--resume_from_checkpoint", "true"]
    assert [path.name for path in whole_checkpoints(folder)] == ["checkpoint-250", "checkpoint-500"]
    arguments = TrainingArguments(str(folder), resume_from_checkpoint="true", report_to="none", use_cpu=True)
    assert checkpoint_to_resume(arguments) == str(folder / "checkpoint-500")


def test_what_a_run_to_be_done_needs_is_done_again_where_its_weights_are_not_here(entry, queue_of, tmp_path):
    start, hypotheses = tmp_path / "start", tmp_path / "hypotheses"
    code = f"import pathlib; pathlib.Path({{leaf!r}}).touch(); open({str(tmp_path)!r} + '/{{name}}.json', 'w')"
    queue = queue_of(
        entry("start", code.format(leaf=str(start), name="start"), leaves=[str(start)]),
        entry("eval", code.format(leaf=str(hypotheses), name="eval"), needs=["start"], leaves=[str(hypotheses)]),
        entry("other", needs=["start"]),
        entry("new", f"open({str(start)!r}).close(); open({str(tmp_path / 'new.json')!r}, 'w')", needs=["start"]),
    )
    for name in ("start", "eval", "other"):
        (tmp_path / f"{name}.json").write_text("committed")
    assert [queue.state(run) for run in queue.runs.values()] == [
        "done elsewhere",
        "done elsewhere",
        "done",
        "waits for start",
    ]
    assert [run.name for run in queue.todo(["new"])] == ["start", "new"]
    assert "1 CPU hours are left" in queue.table(["new"])
    # its name alone is enough; nobody needs the others
    assert queue.work(["new"]) == {"start": True, "new": True}
    assert not hypotheses.exists() and (tmp_path / "eval.json").read_text() == "committed"
    assert queue.todo(list(queue.runs)) == []


def test_a_run_without_what_it_should_leave_has_failed(entry, queue_of, tmp_path):
    queue = queue_of(entry("first", leaves=[str(tmp_path / "weights")]))
    assert queue.work(["first"]) == {"first": False}
    assert "weights" in queue.mark(queue.runs["first"]).read_text()


def test_short_entries_stand_for_training_and_evaluation(tmp_path):
    path = tmp_path / "queue.yaml"
    path.write_text(
        """
        - {train: a, hours: 1, tells: x, leaves: [runs/a/checkpoint-3]}
        - {train: a.seed-2, config: a, options: --seed 2, needs: [a.train], hours: 1, tells: x}
        - {evaluate: a, config: sets, called: A, hours: 1, tells: x}
        - {evaluate: a.seed-2, config: sets, options: --flag, baselines: [a], hours: 1, tells: x}
        - {evaluate: b, model: hub/b, needs: [a.train], hours: 1, tells: x}
        """
    )
    first, second, scored, compared, moved = read_queue(path)
    assert first.command == "training.train training/configs/a.yaml --results_file training/results/a.train.json"
    assert first.leaves == ("runs/a/model.safetensors", "runs/a/checkpoint-3") and first.checkpoints == "runs/a"
    assert "training/configs/a.yaml --seed 2 --output_dir runs/a.seed-2 --results_file" in second.command
    assert (second.needs, second.output) == (("a.train",), "training/results/a.seed-2.train.json")
    assert scored.command == (
        "training.evaluate training/configs/sets.yaml --model runs/a --name A --save_hypotheses runs/hyp.a "
        "--output training/results/a.eval.json"
    )
    assert (scored.needs, scored.leaves) == (("a.train",), ("runs/hyp.a",))
    assert "--flag --baselines A=runs/hyp.a --save_hypotheses" in compared.command
    assert compared.needs == ("a.seed-2.train", "a.eval")
    assert moved.command.startswith("training.evaluate --model hub/b --name b ") and moved.needs == ("a.train",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{train: a, hours: 1, tells: x, output: y}", "'a' has a field 'output'. There are train, config"),
        ("{evaluate: a, hours: 1}", "'a' has no `tells`"),
        ("{evaluate: a, hours: 1, tells: x, model: b, needs: [], baselines: [b]}", "baseline 'b', which no entry"),
    ],
)
def test_a_faulty_short_entry_is_refused(tmp_path, text, message):
    path = tmp_path / "queue.yaml"
    path.write_text(f"- {text}")
    with pytest.raises(ValueError, match=message):
        read_queue(path)


def test_nothing_is_started_after_the_time_is_over(entry, queue_of):
    queue = queue_of(entry("first", "import time; time.sleep(0.3)"), entry("second"))
    start = time.time()
    assert list(queue.work(["first", "second"], hours=0.1 / 3600)) == ["first"]
    assert time.time() - start < 30


def test_an_unset_variable_is_an_error_that_names_it(entry, monkeypatch):
    monkeypatch.delenv("DOCMT_NOWHERE", raising=False)
    run = QueuedRun(**entry("first") | {"command": "json.tool $DOCMT_NOWHERE/in.json"})
    with pytest.raises(ValueError, match=r"first: \$DOCMT_NOWHERE/in.json: set the environment variable"):
        run.words()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outptu": "x"}, "'outptu'"),
        ({"needs": ["second"]}, "needs 'second', which no run before it is"),
        ({"name": "second"}, "'second' is there twice"),
    ],
)
def test_a_faulty_queue_is_refused(entry, queue_of, change, message):
    with pytest.raises(ValueError, match=message):
        queue_of(entry("first") | change, entry("second"))


def test_a_missing_field_and_an_unknown_run_are_errors(entry, queue_of, tmp_path):
    faulty = entry("first")
    del faulty["hours"]
    with pytest.raises(ValueError, match="'first' has no `hours`"):
        queue_of(faulty)
    queue_of(entry("first"))
    with pytest.raises(SystemExit, match="'third'"):
        main(["list", "--queue", str(tmp_path / "queue.yaml"), "--only", "third"])


def test_the_list_has_states_and_the_hours_that_are_left(entry, queue_of, tmp_path, capsys):
    queue_of(entry("first"), entry("second", hours=1.25))
    options = ["--queue", str(tmp_path / "queue.yaml"), "--folder", str(tmp_path / "queue")]
    main(["run", "--only", "first", *options])
    capsys.readouterr()
    main(["list", *options])
    table = capsys.readouterr().out
    assert "first" in table and "done" in table and "1.25 CPU hours are left" in table


def test_the_queue_of_the_project_can_be_read_and_names_real_files():
    root = Path(__file__).parent.parent
    runs = read_queue(root / QUEUE)
    modules = {run.command.split()[0] for run in runs}
    assert all((root / f"{module.replace('.', '/')}.py").is_file() for module in modules)
    configs = {word for run in runs for word in run.command.split() if word.endswith(".yaml")}
    assert all((root / config).is_file() for config in configs)
    assert len({run.output for run in runs}) == len(runs)
