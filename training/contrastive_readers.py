"""
Contrastive test suites from files: their original layouts, and records, into one form.

- `records`: JSON Lines, gzip or not, one item a line. Either `src` (context first, the sentence in question last),
  `ref`, `contrastive` (wrong translations of it) and, if there is any, `tgt_context`, `src_right` and `tgt_right`; or
  `src`, `candidates` (each with a translation of every sentence of `src`) and `true_ind`.
- `contrapro`: the JSON list of ContraPro (Müller et al. 2018) and of suites made like it. It holds no context: that is
  in a folder of documents, see `DocumentFolder`.
- `voita`: JSON lists of deixis, lexical cohesion and ellipsis (Voita et al. 2019), sentences joined by ` _eos `.
- `discourse-mt`: JSON objects of anaphora and lexical choice (Bawden et al. 2018).
- Line files of ContraPro and of the large EN-FR suite (Lopes et al. 2020): `contrastive_lines`.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transformers.utils import logging

from .contrastive_items import ContrastiveItem, aligned_item, check_ids, distance_label
from .contrastive_lines import DocumentFolder
from .corpus_lines import open_binary, read_lines


logger = logging.get_logger(__name__)

FORMATS = ("records", "contrapro", "voita", "discourse-mt")
# keys of records and of the JSON of ContraPro that become labels, and how they are called in reports
LABELS = {
    "phenomenon": "phenomenon",
    "status": "status",
    "type": "type",
    "ctx_dist": "context_distance",
    "intrasegmental": "intrasegmental",
}


def read_suite(
    path: str | Path, format: str = "auto", *, documents: DocumentFolder | None = None, context_sentences: int = 4
) -> list[ContrastiveItem]:
    """
    Read a contrastive test suite.

    Args:
        path (`str` or `Path`):
            The file.
        format (`str`, *optional*, defaults to `"auto"`):
            One of `FORMATS`, see the module; `"auto"` looks at the content.
        documents (`DocumentFolder`, *optional*):
            Where the context of `"contrapro"` is; without, its items have none.
        context_sentences (`int`, *optional*, defaults to 4):
            How many sentences on each side are taken from there.

    Returns:
        `list[ContrastiveItem]`: every item of the file, in its order.

    Raises:
        `ValueError`: naming file and item, for what is no such suite.
    """
    found = detect_format(path) if format == "auto" else format
    if found == "records":
        items = _read_records(path)
    elif found == "contrapro":
        items = _read_contrapro(path, documents, context_sentences)
    elif found == "voita":
        items = _read_voita(path)
    elif found == "discourse-mt":
        items = _read_discourse(path)
    else:
        raise ValueError(f"`format` must be 'auto' or one of {', '.join(map(repr, FORMATS))}, got {format!r}.")
    if documents is not None and found != "contrapro":
        raise ValueError(f"{path}: documents hold the context of format 'contrapro', and this one is {found!r}.")
    return check_ids(list(items), str(path))


def suite_languages(path: str | Path) -> tuple[str | None, str | None]:
    """
    Source and target language that a suite of records names; `None` where none is named, and in other layouts.

    Raises:
        `ValueError`: for items in several languages.
    """
    if detect_format(path) != "records":
        return None, None
    records = [json.loads(line) for _, line in read_lines(path) if line.strip()]
    found: list[str | None] = []
    for key in ("src_lang", "tgt_lang"):
        named = sorted({str(record[key]) for record in records if record.get(key) is not None})
        if len(named) > 1:
            raise ValueError(f"{path}: `{key}` is {', '.join(named)}. Make a suite of each language.")
        found.append(named[0] if named else None)
    return found[0], found[1]


def detect_format(path: str | Path) -> str:
    """
    Tell the format of a suite by its content.

    Raises:
        `ValueError`: for a file of another kind.
    """
    first_line = next((line.strip() for _, line in read_lines(path) if line.strip()), "")
    if first_line.startswith("{") and _is_record(first_line):
        return "records"
    if first_line.startswith(("[", "{")):
        content = _load_json(path)
        first = next(iter(content.values() if isinstance(content, dict) else content), None)
        for key, name in (("errors", "contrapro"), ("dst", "voita"), ("trg", "discourse-mt")):
            if isinstance(first, dict) and key in first:
                return name
    raise ValueError(
        f"{path}: not a contrastive suite that is known here. `python -m training.contrastive --help` names the "
        "formats; line files are read with `--target_file`."
    )


def _is_record(line: str) -> bool:
    try:
        return "src" in json.loads(line)
    except json.JSONDecodeError:
        return False


def _load_json(path: str | Path) -> Any:
    with open_binary(path) as file:
        try:
            return json.load(file)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not JSON ({error}).") from error


def _read_records(path: str | Path) -> Iterator[ContrastiveItem]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{where}: not JSON ({error}).") from error
        if not isinstance(record, dict):
            raise ValueError(f"{where}: an item must be a JSON object, got {type(record).__name__}.")
        yield _checked(_record_item, record, where)


def _record_item(record: dict[str, Any]) -> ContrastiveItem:
    if "candidates" in record:
        return ContrastiveItem(
            id=str(record["id"]),
            source=tuple(_texts(record["src"])),
            candidates=tuple(tuple(_texts(candidate)) for candidate in record["candidates"]),
            current=len(record["src"]) - 1,
            correct=int(record["true_ind"]),
            labels=_labels(record),
        )
    if "contrastive" not in record:
        raise ValueError("no contrastive item: it has neither `contrastive` nor `candidates`")
    source = _texts(record["src"])
    reference = record.get("ref_pronoun") or record.get("ref_token")
    return aligned_item(
        id=str(record["id"]),
        source=source[-1],
        candidates=_texts([record["ref"], *record["contrastive"]]),
        source_left=source[:-1],
        target_left=_texts(record.get("tgt_context") or []),
        source_right=_texts(record.get("src_right") or []),
        target_right=_texts(record.get("tgt_right") or []),
        labels=_labels(record) | _pronoun_labels(record.get("src_pronoun"), reference, record.get("ante_distance")),
    )


def _read_contrapro(
    path: str | Path, documents: DocumentFolder | None, context_sentences: int
) -> Iterator[ContrastiveItem]:
    if documents is None:
        logger.warning(
            f"{path}: its JSON holds no context. Name the folder of its documents with `--documents`, or items are "
            "scored without."
        )
    left_out = 0
    for index, entry in enumerate(_load_json(path)):
        where = f"{path}: item {index}"

        def read(entry: dict[str, Any], index: int = index) -> ContrastiveItem:
            reference = entry["ref segment"]
            wrong = [error["contrastive"] for error in entry["errors"]]
            context = {}
            if documents is not None:
                place = (entry["document id"], int(entry["segment id"]))
                context = documents.context(*place, entry["src segment"], context_sentences)
            labels = _pronoun_labels(entry.get("src pronoun"), entry.get("ref pronoun"), entry.get("ante distance"))
            return aligned_item(
                id=f"contrapro-{index:05d}",
                source=entry["src segment"],
                # a sentence that is the reference is no error, and nothing could be better than it
                candidates=[reference, *(text for text in wrong if text != reference)],
                labels=_labels(entry) | labels,
                **context,
            )

        item = _checked(read, entry, where)
        left_out += 1 + len(entry["errors"]) - len(item.candidates)
        yield item
    if left_out:
        logger.warning(f"{path}: left out {left_out} contrastive sentence(s) that are the reference itself.")


def _read_voita(path: str | Path) -> Iterator[ContrastiveItem]:
    def read(entry: dict[str, Any]) -> ContrastiveItem:
        source, *candidates = (
            [text.strip() for text in joined.split("_eos")] for joined in (entry["src"], *entry["dst"])
        )
        return ContrastiveItem(
            id=f"{name}-{index:05d}",
            source=tuple(source),
            candidates=tuple(map(tuple, candidates)),
            current=len(source) - 1,
            correct=int(entry["true_ind"]),
            labels=_labels(entry),
        )

    name = Path(path).name.partition(".")[0]
    for index, entry in enumerate(_load_json(path)):
        yield _checked(read, entry, f"{path}: item {index}")


def _read_discourse(path: str | Path) -> Iterator[ContrastiveItem]:
    def read(pair: dict[str, Any]) -> ContrastiveItem:
        # a translation that is merely consistent with a poor context is `semi-correct`
        status = "correct" if "correct" in pair else "semi-correct"
        return ContrastiveItem(
            id=f"{name}-{key}-{index}",
            source=tuple(_texts(group["src"])),
            candidates=tuple(tuple(_texts(pair[side])) for side in (status, "incorrect")),
            current=len(group["src"]) - 1,
            labels=_labels({"status": status, **pair}),
        )

    name = Path(path).name.partition(".")[0]
    for key, group in _load_json(path).items():
        for index, pair in enumerate(group["trg"]):
            yield _checked(read, pair, f"{path}: group {key!r}, pair {index}")


def _checked(read: Any, entry: Any, where: str) -> ContrastiveItem:
    """Read an entry, and say where it stands if that fails."""
    try:
        return read(entry)
    except KeyError as error:
        raise ValueError(f"{where}: `{error.args[0]}` is missing.") from error
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{where}: {error}") from error


def _texts(sentences: Any) -> list[str]:
    if not isinstance(sentences, Sequence) or isinstance(sentences, str):
        raise ValueError(f"a list of sentences is wanted, got {sentences!r:.60}.")
    for text in sentences:
        if not isinstance(text, str):
            raise ValueError(f"a sentence must be a text, got {text!r:.60}.")
    return list(sentences)


def _labels(entry: dict[str, Any]) -> dict[str, str]:
    """Labels that are taken as they are."""
    return {
        name: str(entry[key]).lower() if isinstance(entry[key], bool) else str(entry[key])
        for key, name in LABELS.items()
        if entry.get(key) is not None
    }


def _pronoun_labels(source: str | None, reference: str | None, distance: int | None) -> dict[str, str]:
    labels = {}
    if reference is not None:
        labels["reference_pronoun"] = reference.lower()
    if source is not None and reference is not None:
        labels["pronouns"] = f"{source.lower()}:{reference.lower()}"
    if distance is not None:
        labels["antecedent_distance"] = distance_label(int(distance))
    return labels
