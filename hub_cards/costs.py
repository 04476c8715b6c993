"""Memory and time on a card: how fast the model translated its test sets, and benchmarks of its system."""

from collections.abc import Mapping
from typing import Any

from training.report_cells import number

from .card_results import CardResults, Json
from .scores import table


# the benchmark of documents measures this system where it does not say which
WINDOWS = "window-attn"


def hardware_text(run: Mapping[str, Any]) -> str:
    """Name the processor or graphics card of a run, and its threads."""
    hardware = run.get("hardware", {})
    if "gpu" in hardware:
        return hardware["gpu"]
    threads = hardware.get("torch_threads")
    return ", ".join(filter(None, [hardware.get("cpu"), f"{threads} thread{'s' * (threads != 1)}" if threads else ""]))


def speed_lines(found: CardResults) -> list[str]:
    """How fast the model translated its test sets, one line each."""
    lines = []
    for row in found.model:
        for test_set, entry in row.test_sets.items():
            if "target_tokens_per_second" in entry:
                (run,) = (
                    result["run"]
                    for result in row.results
                    if any(entry is other for other in result.get("test_sets", []))
                )
                batch = row.results[0].get("decoding", {}).get("batch_size")
                facts = [row.setting, f"batch_size={batch}" if batch else "", hardware_text(run)]
                how = "; ".join(filter(None, facts))
                tokens, speed = f"{entry['target_tokens']:,}", number(entry["target_tokens_per_second"], 0)
                lines.append(f"{test_set.name}: {tokens} target tokens, {speed} a second ({how})")
    return lines


def benchmark_blocks(benchmarks: list[Json], system: str | None) -> list[tuple[str, list[str]]]:
    """
    Lay out benchmarks of a system.

    Args:
        benchmarks (`list[dict]`): Results of `training.benchmark`.
        system (`str`, *optional*): Row of `SYSTEMS`.

    Returns:
        `list[tuple[str, list[str]]]`: titles and tables.

    Raises:
        `ValueError`: for a benchmark that has not measured the system.
    """
    blocks = []
    for result in benchmarks:
        found = {
            "document-decoding-benchmark": _document_blocks,
            "step-benchmark": _step_blocks,
            "decoding-benchmark": _batch_blocks,
        }[result["kind"]](result, system)
        if not found:
            raise ValueError(f"{result['result_file']}: has not measured {system!r}. Leave it out of this card.")
        blocks += [(f"{title} (`{result['result_file']}`; {_setting(result)}):", lines) for title, lines in found]
    return blocks


def _setting(result: Json) -> str:
    shape = ["random weights", f"d_model {result['d_model']}"] if "d_model" in result else []
    shape += [f"{result['layers']} layers", f"vocabulary of {result['vocabulary']:,}"] if shape else []
    if "memory" in result:
        # these models may have fewer layers than those of the other parts
        layers = sorted({entry["layers"] for entry in result["memory"]})
        shape[2] = f"{', '.join(map(str, layers))} layer{'s' * (layers != [1])}"
    return ", ".join([*shape, hardware_text(result["run"])])


def _document_blocks(result: Json, system: str | None) -> list[tuple[str, list[str]]]:
    blocks = []
    if system == WINDOWS and "memory" in result:
        rows = [[f"{e['tokens']:,}", number(e["process_mib"], 0), number(e["tensor_mib"])] for e in result["memory"]]
        header = ["tokens of the document", "peak of the process, MiB", "of it tensors of decoding, MiB"]
        blocks.append(("Peak memory of decoding, in one part", table(header, rows, texts=0)))
    if system == WINDOWS and "steps" in result:
        rows = [[f"{e['documents']}", f"{e['position']:,}", number(e["median_milliseconds"])] for e in result["steps"]]
        header = ["documents at once", "target position", "milliseconds a step"]
        blocks.append(("Time of one step of decoding, far behind the start too", table(header, rows, texts=0)))
    documents = result.get("documents", [])
    if any(entry["model"] == system for entry in documents):
        rows = [
            [entry["model"], f"{entry['documents']}", f"{entry['tokens']:,}", number(entry["seconds"])]
            for entry in documents
        ]
        header = ["system", "documents", "target tokens in all", "seconds"]
        blocks.append(("Decoding of whole documents", table(header, rows, texts=1)))
    return blocks


def _step_blocks(result: Json, system: str | None) -> list[tuple[str, list[str]]]:
    entries = [entry for entry in result["entries"] if entry["model"] == system]
    rows = [
        [
            entry["batch"],
            f"{entry['tokens']:,}",
            number(entry["seconds"], 2),
            number(entry["peak_mib"], 0),
            entry["reference"],
            number(entry["speed_up"], 2),
            number(entry["memory_ratio"], 2),
        ]
        for entry in entries
    ]
    header = ["batch", "tokens", "seconds", "peak, MiB", "beside", "times as fast", "times its memory"]
    return [("A step of training", table(header, rows, texts=1))] if rows else []


def _batch_blocks(result: Json, system: str | None) -> list[tuple[str, list[str]]]:
    if result["system"] != system:
        return []
    rows = [
        [entry["decoding"], f"{entry['batch_size']}", number(entry["tokens_per_second"], 0), number(entry["speed_up"])]
        for entry in result["entries"]
    ]
    header = ["decoding", "sequences at once", "tokens a second", "times as fast as one by one"]
    return [(f"Decoding of {result['documents']} documents with {result['num_beams']} beams", table(header, rows, 1))]
