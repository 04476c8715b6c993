"""The scores of a result file as a table for people."""

from typing import Any

from training.context_use import context_use_table
from training.contrastive_report import suite_table


def score_table(result: dict[str, Any]) -> str:
    """
    Lay out a result for reading: a row for each system, and beneath it how sure the difference is.

    Args:
        result (`dict`):
            The content of a result file.

    Returns:
        `str`: lines without trailing blanks; a `*` marks an interval clear of zero.
    """
    names = [result["name"]] + [name for test_set in result["test_sets"] for name in test_set["baselines"]]
    width = max(map(len, names)) + 2
    lines = []
    for test_set in result["test_sets"]:
        lines.append(f"{test_set['name']}: {test_set['documents']} documents, {test_set['sentences']} sentences")
        lines.append(" " * (width + 2) + "".join(f"{measure:>{_width(measure)}}" for measure in test_set["scores"]))
        lines.append(_score_row(result["name"], test_set["scores"], width))
        for name, baseline in test_set["baselines"].items():
            lines.append(_score_row(name, baseline["scores"], width))
        for name, baseline in test_set["baselines"].items():
            lines += _difference_rows(name, baseline)
        lines += _detail_rows(result["name"], test_set["scores"])
        for name, baseline in test_set["baselines"].items():
            lines += _detail_rows(name, baseline["scores"])
        if test_set.get("status"):
            lines.append("  status: " + ", ".join(f"{status} {count}" for status, count in test_set["status"].items()))
        if "target_tokens_per_second" in test_set:
            speed = test_set["target_tokens_per_second"]
            lines.append(f"  {test_set['seconds']:.1f} s, {speed:.0f} target tokens a second")
        if "attention_share" in test_set:
            layers = ", ".join(f"{share:.1f}" for share in test_set["attention_share"]["share_per_layer"])
            share = test_set["attention_share"]["share"]
            lines.append(f"  attention to the aligned sentence: {share:.1f} % (by layer {layers})")
        if "measures_left_out" in test_set:
            lines.append("  measures that do not fit: " + ", ".join(test_set["measures_left_out"]))
        lines.append("")
    lines += _model_tables(result)
    signatures: dict[str, str] = {}
    for test_set in result["test_sets"]:
        signatures |= {measure: score["signature"] for measure, score in test_set["scores"].items()}
        if "context_use" in test_set:
            signatures["context use"] = test_set["context_use"]["signature"]
    return "\n".join(lines + [f"{measure}: {signature}" for measure, signature in signatures.items()])


def _model_tables(result: dict[str, Any]) -> list[str]:
    """Contrastive suites and the use of context, each with an empty line behind it."""
    tables = []
    if result.get("suites"):
        tables += [suite_table(result["suites"]), ""]
        for entry in result["suites"]:
            if entry["curve"]:
                points = (f"{point['context_sentences']}: {_number(point['accuracy'])}" for point in entry["curve"])
                tables += [f"{entry['suite']}, accuracy by context sentences: {', '.join(points)}", ""]
    uses = [
        (test_set["name"], test_set["context_use"]) for test_set in result["test_sets"] if "context_use" in test_set
    ]
    if uses:
        tables += [context_use_table(uses), ""]
        tables += [f"{name}: {use['note']}\n" for name, use in uses if "note" in use]
    return tables


def _width(measure: str) -> int:
    return max(10, len(measure) + 2)


def _number(score: float | None) -> str:
    # nothing to count is no score of 0
    return "-" if score is None else f"{score:.2f}"


def _score_row(name: str, scores: dict[str, dict[str, Any]], width: int) -> str:
    cells = (f"{_number(score['score']):>{_width(measure)}}" for measure, score in scores.items())
    return f"  {name:<{width}}" + "".join(cells)


def _difference_rows(name: str, baseline: dict[str, Any]) -> list[str]:
    rows = []
    for measure, found in baseline.get("bootstrap", {}).get("measures", {}).items():
        if found["difference"] is None:
            rows.append(f"  {measure} less {name}: nothing to count")
            continue
        low, high = found["interval"]
        mark = " *" if low > 0 or high < 0 else ""
        interval = f"[{low:+.2f}, {high:+.2f}], p = {found['p_value']:.3f}{mark}"
        rows.append(f"  {measure} less {name}: {found['difference']:+.2f} {interval}")
    return rows


def _detail_rows(name: str, scores: dict[str, dict[str, Any]]) -> list[str]:
    rows = []
    for measure, score in scores.items():
        details = []
        if "classes" in score:
            details.append(f"P {_number(score['precision'])}, R {_number(score['recall'])}")
            details += [
                f"{kind} {_number(found['score'])} ({found['reference']})" for kind, found in score["classes"].items()
            ]
            details.append(f"BlonDe weights {_number(score['blonde_weights']['score'])}")
        elif measure == "TCP":
            details += [f"{part} {_number(score[part])} ({score['labels'][part]})" for part in score["labels"]]
        elif "score_of_translated" in score:
            details.append(f"{score['consistent']} of {score['terms']} terms")
            details.append(f"{_number(score['score_of_translated'])} of the {score['translated']} translated ones")
            details.append(f"references {_number(score['reference']['score'])}")
        if details:
            rows.append(f"  {measure} of {name}: {'; '.join(details)}")
    return rows
