"""A translation as files: the text in its layout, a table, and JSON."""

import csv
import io
import json

from .translation import Translation


def download_files(translation: Translation) -> dict[str, str]:
    """
    Contents of the files by name.

    Args:
        translation (`Translation`): The document.

    Returns:
        `dict[str, str]`: `.txt`, the translation in the layout of the document; `.tsv`, a row a sentence, blank lines
        included; `.json`, the same with how it was made.
    """
    name = f"translation.{translation.recipe['target_lang']}"
    return {
        f"{name}.txt": translation.text,
        f"{name}.tsv": as_table(translation),
        f"{name}.json": as_json(translation),
    }


def records(translation: Translation) -> list[dict[str, str]]:
    """The sentences as they are written: `source`, `translation`, `status` and, if compared, `without_context`."""
    found = []
    for row in translation.rows:
        record = {"source": row.source, "translation": row.translation, "status": row.status}
        if translation.has_comparison:
            record["without_context"] = row.alone or ""
        found.append(record)
    return found


def as_table(translation: Translation) -> str:
    """Tab-separated values with a header; a cell with a tab or a quotation mark is quoted."""
    rows, file = records(translation), io.StringIO()
    writer = csv.DictWriter(file, fieldnames=list(rows[0]), delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def as_json(translation: Translation) -> str:
    """A JSON object."""
    content = {
        **translation.recipe,
        "seconds": round(translation.seconds, 2),
        "translation_text": translation.text,
        "sentences": records(translation),
    }
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
