"""BibTeX of a card: the papers of its system and of what it was measured with, and this software."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from training.report_results import suite_name

from .card_results import CardResults


FOLDER = Path(__file__).resolve().parent
# fields of papers.yaml that are not fields of BibTeX
_OWN_FIELDS = ("type",)
PAPERS_OF_MEASURES = {
    "s-BLEU": "post-2018-call",
    "d-BLEU": "post-2018-call",
    "chrF": "post-2018-call",
    "TER": "post-2018-call",
    "COMET": "rei-etal-2020-comet",
    "pronoun-F1": "herold-ney-2023-improving",
    "formality-F1": "herold-ney-2023-improving",
    "TCP": "sun-etal-2022-rethinking",
    "TC": "sun-etal-2022-rethinking",
    "CP": "sun-etal-2022-rethinking",
    "PT": "sun-etal-2022-rethinking",
}
PAPER_OF_CONTEXT_USE = "fernandes-etal-2021-measuring"
# by the beginning of the name of a suite's file
PAPERS_OF_SUITES = {
    "contrapro": "muller-etal-2018-large",
    "voita": "voita-etal-2019-good",
    "discourse-mt": "bawden-etal-2018-evaluating",
}


def read_papers() -> dict[str, dict[str, Any]]:
    """The papers that cards cite, by key."""
    return yaml.safe_load((FOLDER / "papers.yaml").read_text(encoding="utf-8"))


def papers_of_measures(found: CardResults) -> list[str]:
    """Keys of the papers behind the measures and suites of the model's results."""
    keys: dict[str, None] = {}
    for row in found.model:
        for entry in row.test_sets.values():
            keys |= dict.fromkeys(PAPERS_OF_MEASURES[m] for m in entry["scores"] if m in PAPERS_OF_MEASURES)
        names = [suite_name(entry) for entry in row.suites]
        keys |= {key: None for start, key in PAPERS_OF_SUITES.items() if any(name.startswith(start) for name in names)}
        keys |= {PAPER_OF_CONTEXT_USE: None} if row.contexts else {}
    return list(keys)


def bibtex(key: str, paper: Mapping[str, Any]) -> str:
    """Write one entry."""
    fields = {name: value for name, value in paper.items() if name not in _OWN_FIELDS}
    fields["author"] = " and ".join(paper["author"])
    return f"@{paper['type']}{{{key},\n" + ",\n".join(f"  {k} = {{{v}}}" for k, v in fields.items()) + "\n}"


def bibtex_of_software(citation: Path = FOLDER.parent / "CITATION.cff") -> str:
    """Write the entry of this software, from `CITATION.cff`."""
    facts = yaml.safe_load(citation.read_text(encoding="utf-8"))
    # a name in braces is that of a group, which BibTeX must not take apart
    author = " and ".join(f"{{{author['name']}}}" for author in facts["authors"])
    fields = {"title": facts["title"], "author": author, "version": facts["version"]}
    return "@software{docmt,\n" + ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items()) + "\n}"


def citation_text(keys: Iterable[str]) -> str:
    """
    Write the entries of papers, each once, and of this software.

    Raises:
        `ValueError`: for a key that is not in `papers.yaml`.
    """
    papers = read_papers()
    entries = []
    for key in dict.fromkeys(keys):
        if key not in papers:
            raise ValueError(f"hub_cards/papers.yaml has no paper {key!r}. Add it, or name another.")
        entries.append(bibtex(key, papers[key]))
    return "\n".join([*entries, bibtex_of_software()])
