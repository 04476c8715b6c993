"""The card of a corpus: what lies in its folder, for people and for the dataset viewer of the Hub."""

from collections.abc import Sequence
from typing import Any

from huggingface_hub import DatasetCardData


_COUNTS = {
    "documents_out": "documents",
    "sentences_out": "sentences",
    "source_words": "source words",
    "target_words": "target words",
}


def corpus_card(
    name: str,
    info: dict[str, Any],
    *,
    documents: str,
    source_languages: Sequence[str],
    target_languages: Sequence[str],
    license: str | None = None,
) -> str:
    """
    Write the card.

    Args:
        name (`str`): Name of the corpus.
        info (`dict`): What `training.prepare_corpus` counted: the content of `info.json`.
        documents (`str`): File of the documents in the folder. The viewer and `load_dataset` read it alone, since the
            others of the folder are the same documents again, or no data.
        source_languages, target_languages (`Sequence[str]`): Codes; no target for documents without translation.
        license (`str`, *optional*): Terms of the texts as the Hub writes them, such as `"cc-by-4.0"`.

    Returns:
        `str`: Markdown with metadata in front. The same corpus gives the same text.
    """
    counts = {label: info["counts"][key] for key, label in _COUNTS.items() if info["counts"][key]}
    data = DatasetCardData(
        language=list(dict.fromkeys([*source_languages, *target_languages])) or None,
        license=license or "unknown",
        pretty_name=name,
        task_categories=["translation"],
        size_categories=[_size_category(info["counts"]["documents_out"])],
        tags=["document-level", "docmt"],
        configs=[{"config_name": "default", "data_files": documents}],
    )
    direction = " to ".join(filter(None, ["/".join(source_languages), "/".join(target_languages)]))
    lines = [
        *("---", data.to_yaml().rstrip(), "---", "", f"# {name}", ""),
        f"Documents{f', {direction}' if direction else ''}: one a row, as lists of sentences.",
        "",
        *("|  |  |", "|---|--:|", *(f"| {label} | {count:,} |" for label, count in counts.items()), ""),
        "`id` names a document. `src` and `tgt` are its sentences in their order, as many on both sides; `src_lang`",
        "and `tgt_lang` are their languages, where the source says them. Further fields are those of the source.",
        "",
        "## How it was made",
        "",
        *("```text", info["command"], "```", ""),
        *_dropped("documents", info["dropped_documents"], info["counts"]["documents_in"]),
        *_dropped("pairs of sentences", info["faulty_pairs"], info["counts"]["sentences_in"]),
        "`info.json` has versions and checksums.",
    ]
    return "\n".join(lines) + "\n"


def _dropped(what: str, reasons: dict[str, dict[str, float]], total: int) -> list[str]:
    if not reasons:
        return []
    found = ", ".join(f"{entry['count']:,} {reason.replace('_', ' ')}" for reason, entry in reasons.items())
    return [f"Of {total:,} {what} these were at fault: {found}.", ""]


def _size_category(documents: int) -> str:
    """The category of the Hub for a number of rows."""
    bounds = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M", 10_000_000: "1M<n<10M"}
    return next((name for bound, name in bounds.items() if documents < bound), "10M<n<100M")
