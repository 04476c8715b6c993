"""
Short English-German documents in which the sentence before decides how `it` is translated.

    python -m training.pronoun_corpus --input_file train.en-de.*.jsonl.gz --output_file runs/pronouns.en-de.jsonl

Corpora have few sentences in which a pronoun hangs on its context, and most of them have `es`. This command collects
those that are there, and makes more from sentences that begin with a noun ("The file is ...", "Die Datei ist ..."):

- `found`: a sentence with one `it` that has been translated by one of `er`, `sie`, `es`, behind its context.
- `repeated`: a sentence whose subject the sentence before names as well; the subject becomes a pronoun.
- `introduced`: any sentence with such a subject, behind a made-up sentence that names it; several times.
- `made`: both sentences made up, about the nouns of the others.

Input: document records. Output: records of two or more sentences (`domain` is the kind), as many of `er`, `sie` and
`es` of each kind but `found`. Gender is read from the article: no dictionary is needed, and a noun with two genders
counts by its use.

Source: replacing repeated nouns is ours; on training with examples made for pronouns see Stojanovski et al. (2020),
"ContraCAT".
"""

import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers.utils import logging

from .arguments import parse_arguments
from .command_line import run_command
from .documents import Record, load_corpus, write_documents
from .results import expand_path


logger = logging.get_logger(__name__)

PRONOUNS = ("er", "sie", "es")
GENDERS = {"der": "er", "dieser": "er", "die": "sie", "diese": "sie", "das": "es", "dieses": "es"}
# articles and endings of each gender, by the names that they have in `INTRODUCTIONS`
_FORM_NAMES = ("der", "den", "dem", "ein", "einen", "e", "en", "em", "es")
FORMS = {
    "er": dict(zip(_FORM_NAMES, ("der", "den", "dem", "ein", "einen", "", "en", "em", "en"), strict=True)),
    "sie": dict(zip(_FORM_NAMES, ("die", "die", "der", "eine", "eine", "e", "e", "er", "e"), strict=True)),
    "es": dict(zip(_FORM_NAMES, ("das", "das", "dem", "ein", "ein", "", "", "em", "es"), strict=True)),
}
OBJECTS = {"er": "ihn", "sie": "sie", "es": "es"}
INTRODUCTIONS = (
    ("Here is the {noun}.", "Hier ist {der} {Noun}."),
    ("This is a {noun}.", "Das ist {ein} {Noun}."),
    ("Do you see the {noun}?", "Siehst du {den} {Noun}?"),
    ("I have a {noun}.", "Ich habe {einen} {Noun}."),
    ("Where is my {noun}?", "Wo ist mein{e} {Noun}?"),
    ("Take your {noun} with you.", "Nimm dein{en} {Noun} mit."),
    ("There is no {noun} here.", "Hier gibt es kein{en} {Noun}."),
    ("What happened to the {noun}?", "Was ist mit {dem} {Noun} passiert?"),
    ("We talked about your {noun}.", "Wir haben von dein{em} {Noun} gesprochen."),
    ("I need that {noun}.", "Ich brauche {den} {Noun}."),
    ("They found a new {noun}.", "Man hat ein{en} neu{es} {Noun} gefunden."),
    ("And the {noun}?", "Und {der} {Noun}?"),
)
REMARKS = (
    ("It is beautiful.", "{Er} ist schön."),
    ("It is not here.", "{Er} ist nicht hier."),
    ("It was very old.", "{Er} war sehr alt."),
    ("Where is it?", "Wo ist {er}?"),
    ("Is it good?", "Ist {er} gut?"),
    ("I have never seen it.", "Ich habe {ihn} nie gesehen."),
    ("I think it is too big.", "Ich glaube, {er} ist zu groß."),
    ("Do you want it?", "Willst du {ihn}?"),
    ("It belongs to me.", "{Er} gehört mir."),
    ("Give it to me!", "Gib {ihn} mir!"),
    ("It will be ready tomorrow.", "Morgen ist {er} fertig."),
    ("It has to work.", "{Er} muss funktionieren."),
    ("I know that it is broken.", "Ich weiß, dass {er} kaputt ist."),
    ("How much does it cost?", "Was kostet {er}?"),
    ("It comes from my father.", "{Er} kommt von meinem Vater."),
    ("You can keep it.", "Du kannst {ihn} behalten."),
)
_ENGLISH_VERBS = (
    "is|are|was|has|can|will|would|must|should|does|may|could|might|also|only|shows|contains|allows|provides|uses|lets|"
    "appears|opens|displays|consists|supports|specifies|returns|offers|makes|takes|comes|gives|needs|had|did|shall|"
    "controls|determines|defines|works|reads|lists|sets"
)
_GERMAN_VERBS = (
    "ist|war|hat|kann|wird|würde|muss|soll|sollte|darf|könnte|zeigt|enthält|erlaubt|ermöglicht|bietet|verwendet|"
    "erscheint|öffnet|besteht|unterstützt|gibt|macht|nimmt|kommt|braucht|hatte|legt|bestimmt|definiert|funktioniert|"
    "liest|listet|setzt|stellt|steht|lässt|benötigt|wurde|befindet|benutzt|dient|liegt|beginnt"
)
# a subject that its verb follows at once, so that it ends where it seems to
_ENGLISH_SUBJECT = re.compile(rf"(?:The|This) ((?:[\w-]+ ){{0,2}}?[\w-]+)(?= (?:{_ENGLISH_VERBS})\b)")
_GERMAN_SUBJECT = re.compile(rf"(Der|Die|Das|Dieser|Diese|Dieses) ([A-ZÄÖÜ][\w-]+)(?= (?:{_GERMAN_VERBS})\b)")
_IT = re.compile(r"\bit\b", re.IGNORECASE)
_OTHER_PRONOUNS = re.compile(r"\b(?:he|she|they|them|her|him|his|you|your)\b", re.IGNORECASE)
_GERMAN_PRONOUN = re.compile(r"\b(?:er|sie|es)\b", re.IGNORECASE)


@dataclass
class PronounArguments:
    """What is read and written."""

    input_file: list[str] = field(default_factory=list, metadata={"help": "English-German document records."})
    output_file: str = field(default="", metadata={"help": "JSON Lines file to write."})
    context_sentences: int = field(
        default=1, metadata={"help": "Sentences before the one in question, where there are."}
    )
    introductions: int = field(
        default=4, metadata={"help": f"Documents for each subject that is introduced, at most {len(INTRODUCTIONS)}."}
    )
    made: int = field(default=12000, metadata={"help": "How many documents are made up as a whole."})
    seed: int = field(default=42, metadata={"help": "Decides which sentences are made."})

    def __post_init__(self) -> None:
        if not self.input_file or not self.output_file:
            raise ValueError("`--input_file` and `--output_file` are needed: the corpora, and where the documents go.")
        if self.context_sentences < 1:
            raise ValueError(f"`--context_sentences` must be 1 or more, got {self.context_sentences}.")
        if not 0 <= self.introductions <= len(INTRODUCTIONS):
            raise ValueError(f"`--introductions` must be from 0 to {len(INTRODUCTIONS)}, got {self.introductions}.")
        if self.made < 0:
            raise ValueError(f"`--made` must be 0 or more, got {self.made}.")


@dataclass(frozen=True)
class Subject:
    """A subject at the start of a sentence pair: the nouns, the pronoun that stands for them, and the pair with it."""

    english: str
    german: str
    pronoun: str
    source: str
    target: str


def main(argv: list[str] | None = None) -> dict[str, dict[str, int]]:
    """Write the documents; returns how many there are by kind and pronoun."""
    (args,) = parse_arguments(sys.argv[1:] if argv is None else argv, [PronounArguments], description=__doc__)
    corpora = [load_corpus(expand_path(path)) for path in args.input_file]
    documents = (record for corpus in corpora for record in corpus)
    records = pronoun_records(documents, args)
    write_documents(args.output_file, records)
    counts: dict[str, Counter[str]] = {}
    for record in records:
        counts.setdefault(record["domain"], Counter())[record["pronoun"]] += 1
    logger.warning(f"{args.output_file}: {len(records)} documents, {counts}")
    return {kind: dict(count) for kind, count in counts.items()}


def pronoun_records(documents: Iterable[Record], args: PronounArguments) -> list[Record]:
    """The documents of all four kinds, made from records with `src` and `tgt`."""
    rng = random.Random(args.seed)
    found: list[Record] = []
    repeated: list[Record] = []
    subjects: list[Subject] = []
    for document in documents:
        source, target = document["src"], document["tgt"]
        for i in range(len(source)):
            context = slice(max(0, i - args.context_sentences), i)
            if i and (pronoun := found_pronoun(source[i], target[i])):
                found.append(_record("found", pronoun, [*source[context], source[i]], [*target[context], target[i]]))
            subject = read_subject(source[i], target[i])
            if subject is None:
                continue
            subjects.append(subject)
            if i and subject.german in target[i - 1] and subject.english.lower() in source[i - 1].lower():
                sides = [*source[context], subject.source], [*target[context], subject.target]
                repeated.append(_record("repeated", subject.pronoun, *sides))
    records = found + balanced(repeated, rng, lambda record: record["pronoun"])
    for subject in balanced(subjects, rng, lambda subject: subject.pronoun):
        for introduction in rng.sample(INTRODUCTIONS, args.introductions):
            source_line, target_line = introduce(subject, introduction)
            sides = [source_line, subject.source], [target_line, subject.target]
            records.append(_record("introduced", subject.pronoun, *sides))
    records += made_up(subjects, args.made, rng)
    for i, record in enumerate(records):
        record["id"] = f"pronoun-{i:05d}"
    return records


def made_up(subjects: Sequence[Subject], count: int, rng: random.Random) -> list[Record]:
    """Documents of an introduction and a remark about a noun of the subjects; as many of each pronoun."""
    nouns = {(subject.english, subject.german): subject for subject in subjects if " " not in subject.english}
    by_pronoun = [[s for s in nouns.values() if s.pronoun == pronoun] for pronoun in PRONOUNS]
    if count and not all(by_pronoun):
        raise ValueError(
            f"`--made {count}`: the corpora have no nouns of all genders to make sentences about; take 0."
        )
    records = []
    for i in range(count):
        subject = rng.choice(by_pronoun[i % len(PRONOUNS)])
        introduced = introduce(subject, rng.choice(INTRODUCTIONS))
        source, target = rng.choice(REMARKS)
        pronoun = subject.pronoun
        target = target.format(er=pronoun, Er=pronoun.capitalize(), ihn=OBJECTS[pronoun])
        records.append(_record("made", pronoun, [introduced[0], source], [introduced[1], target]))
    return records


def found_pronoun(source: str, target: str) -> str | None:
    """`er`, `sie` or `es`, where a pair has one `it` and one of them, and no other pronoun that it could belong to."""
    if len(_IT.findall(source)) != 1 or _OTHER_PRONOUNS.search(source):
        return None
    pronouns = _GERMAN_PRONOUN.findall(target)
    return pronouns[0].lower() if len(pronouns) == 1 else None


def read_subject(source: str, target: str) -> Subject | None:
    """The subject of a pair of which both sides begin with a noun in the singular and go on with a verb."""
    english, german = _ENGLISH_SUBJECT.match(source), _GERMAN_SUBJECT.match(target)
    if english is None or german is None or english[1].endswith("s"):
        return None
    pronoun = GENDERS[german[1].lower()]
    rest = source[english.end() :], target[german.end() :]
    return Subject(english[1], german[2], pronoun, "It" + rest[0], pronoun.capitalize() + rest[1])


def introduce(subject: Subject, introduction: tuple[str, str]) -> tuple[str, str]:
    """A sentence pair of `INTRODUCTIONS` about a subject."""
    source, target = introduction
    return source.format(noun=subject.english), target.format(Noun=subject.german, **FORMS[subject.pronoun])


def balanced(items: Sequence[Any], rng: random.Random, pronoun_of: Callable[[Any], str]) -> list[Any]:
    """As many items of each pronoun, those that are too many left out by lot; the order is kept."""
    places: dict[str, list[int]] = {pronoun: [] for pronoun in PRONOUNS}
    for i, item in enumerate(items):
        places[pronoun_of(item)].append(i)
    count = min(map(len, places.values()))
    return [items[i] for i in sorted(i for found in places.values() for i in rng.sample(found, count))]


def _record(kind: str, pronoun: str, source: list[str], target: list[str]) -> Record:
    return {
        "id": "",
        "src_lang": "en",
        "tgt_lang": "de",
        "domain": kind,
        "pronoun": pronoun,
        "src": source,
        "tgt": target,
    }


if __name__ == "__main__":
    run_command(main)
