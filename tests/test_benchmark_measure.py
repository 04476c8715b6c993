import sys

import pytest
import torch

from training import measure
from training.measure import Panel, TensorMemory, format_table, interleave, peak_bytes, process_bytes, save_plot


def test_variants_take_turns_and_the_best_round_counts(monkeypatch):
    now, order = [0.0], []
    monkeypatch.setattr(measure, "clock_of", lambda device: lambda: now[0])
    costs = {"a": iter([3.0, 1.0, 2.0]), "b": iter([5.0, 9.0, 7.0])}

    def run(name):
        order.append(name)
        now[0] += next(costs[name])

    timings = interleave({name: lambda name=name: run(name) for name in costs}, 3)
    assert order == ["a", "b"] * 3
    assert timings["a"].rounds == (3.0, 1.0, 2.0)
    assert (timings["a"].best, timings["a"].median) == (1.0, 2.0)
    assert (timings["b"].best, timings["b"].median) == (5.0, 7.0)


def test_no_round_begins_when_time_is_up():
    calls = []
    timings = interleave({"a": lambda: calls.append(1)}, 5, most_seconds=0.0)
    assert len(timings["a"].rounds) == len(calls) == 1


def test_peak_is_the_largest_sum_of_tensors_at_one_time():
    x = torch.zeros(1000)

    def run():
        first = x + 1
        both = torch.cat((first, first))
        del first
        again = both + 1
        del both, again
        return x + 1

    # 4 kB, with 8 kB more, then 16 kB
    assert 16000 <= peak_bytes(run) < 17000


def test_memory_that_was_there_before_does_not_count():
    kept = [torch.zeros(1000)]
    assert peak_bytes(kept.clear) == 0


def test_cuts_change_nothing_in_the_sum():
    memory, kept = TensorMemory(), []
    memory.start()
    for _ in range(5):
        kept.append(torch.zeros(1000))
        torch.zeros(3000)
        memory.cut()
    kept.clear()
    memory.cut()
    assert 5 * 4000 + 12000 <= memory.stop() < 33000
    assert memory.held == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_process_memory_grows_with_what_is_written_to():
    before = process_bytes("VmHWM")
    block = torch.ones(30 * 2**20)
    assert process_bytes("VmHWM") >= max(before, block.nbytes)
    assert process_bytes("VmRSS") <= process_bytes("VmHWM")
    assert process_bytes("VmNothing") is None


def test_tables_align_text_left_and_numbers_right():
    rows = [{"a": "long name", "b": 1.5}, {"a": "x", "b": 100}, {"a": "y"}]
    assert format_table(rows, {"a": "name", "b": "n"}).splitlines() == [
        "name         n",
        "long name  1.5",
        "x          100",
        "y",
    ]


def test_plots_are_written(tmp_path):
    pytest.importorskip("matplotlib")
    panel = Panel("Title", "tokens", "seconds", {"a": ([1, 2], [3, 4])})
    save_plot(str(tmp_path / "folder" / "plot.png"), [panel, panel])
    assert (tmp_path / "folder" / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_plots_without_matplotlib_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install 'docmt"):
        save_plot(str(tmp_path / "plot.png"), [Panel("Title", "x", "y", {})])
