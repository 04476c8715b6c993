"""Documents of a report: source, reference and translations side by side, pronouns and forms of address marked."""

import dataclasses
from collections.abc import Mapping, Sequence

from .documents import Record
from .metrics import check_counts, load_tagger
from .metrics.pronouns import (
    ENGLISH,
    ENGLISH_FORMS,
    FORMALITY_F1,
    GERMAN_FORMS,
    PRONOUN_F1,
    check_languages,
)
from .metrics.taggers import Tagger, split_words
from .report_html import breakable, escape
from .report_results import Result, known_names


# width of a column of sentences, in the size of letters, below which it can hardly be read
COLUMN_REM = 11.5
# where nothing is wrong, nothing is said
QUIET_STATUSES = ("ok", "copied", "empty")
# by name of a class of words, what the legend says of it
LEGEND = {
    "it": "“it” in the source",
    "you": "“you” in the source",
    "masculine": "er, ihm, ihn",
    "feminine": "sie, ihr, …",
    "neuter": "es",
    "formal": "Sie, Ihr, …",
    "informal": "du, dein, …",
}


@dataclasses.dataclass(frozen=True)
class DocumentView:
    """
    The documents of one test set with the translations of several systems, to be shown side by side.

    Args:
        name (`str`):
            Name of the test set, as in `test_sets` of the results: `test.en-de.wesnoth`.
        records (`Sequence[dict]`):
            Its documents, with `id`, `src` and `tgt`.
        hypotheses (`Mapping[str, Sequence[Sequence[str]]]`):
            By name of the system, a list of sentences for each record. A system is named as in the results: the `name`
            of an evaluation, that of a baseline in it, or the file of the result without its endings.
        statuses (`Mapping[str, Sequence[Sequence[str]]]`, *optional*):
            By name of the system, the status of each sentence, where it is known.
    """

    name: str
    records: Sequence[Record]
    hypotheses: Mapping[str, Sequence[Sequence[str]]]
    statuses: Mapping[str, Sequence[Sequence[str]]] = dataclasses.field(default_factory=dict)


def check_view(view: DocumentView, results: Sequence[Result]) -> None:
    """
    Require that test set and systems are those of the results, and that sentences stand against each other.

    Raises:
        `ValueError`: naming what does not fit, and what would.
    """
    test_sets = {
        entry["name"] for result in results if result["kind"] == "evaluation" for entry in result["test_sets"]
    }
    if view.name not in test_sets:
        raise ValueError(
            f"no result is of the test set {view.name!r}: there are {', '.join(sorted(test_sets)) or 'none'}. Give "
            "the result of its evaluation too."
        )
    systems = known_names(results)
    unknown = [name for name in [*view.hypotheses, *view.statuses] if name not in systems]
    if unknown:
        raise ValueError(
            f"no result is of a system {unknown[0]!r}: there are {', '.join(sorted(systems))}. A system is named as "
            "in its result, or like the file of it."
        )
    names = [record["id"] for record in view.records]
    for system, documents in view.hypotheses.items():
        _check(documents, view, system, names)
    for system, documents in view.statuses.items():
        _check(documents, view, f"{system} (statuses)", names)


def _check(documents: Sequence[Sequence[str]], view: DocumentView, what: str, names: Sequence[str]) -> None:
    try:
        check_counts(documents, [record["src"] for record in view.records], names)
    except ValueError as error:
        raise ValueError(f"{view.name}, {what}: {error}") from error


def marks_pronouns(records: Sequence[Record]) -> bool:
    """Whether pronouns can be marked: all documents are English, translated to German."""
    try:
        for record in records:
            check_languages(PRONOUN_F1.name, record.get("src_lang"), record.get("tgt_lang"))
    except ValueError:
        return False
    return True


def marked_forms(source: str, tagger: Tagger) -> tuple[dict[str, str], dict[str, str]]:
    """
    Find what is to be marked in a sentence: what pronoun-F1 and formality-F1 count in it.

    Returns:
        `tuple[dict[str, str], dict[str, str]]`: classes of English and of German forms; empty where the source has no
        pronoun that counts.
    """
    in_source = tagger.pronouns(source, "en", ENGLISH_FORMS)
    german = {
        form: name
        for measure in (PRONOUN_F1, FORMALITY_F1)
        if not measure.triggers.isdisjoint(in_source)
        for name, forms in measure.classes.items()
        if name != measure.unreliable_class or measure.confusions.isdisjoint(in_source)
        for form in forms
    }
    english = {**dict.fromkeys(ENGLISH["neuter"], "it"), **dict.fromkeys(ENGLISH["second person"], "you")}
    return english, german


def mark(text: str, words: Sequence[str], classes: Mapping[str, str]) -> str:
    """
    Escape a sentence, and mark words of it.

    Args:
        text (`str`): The sentence.
        words (`Sequence[str]`):
            Pronouns in it, in order. Where a tagger takes only some of several equal words, it does not say which; the
            first of them are marked then.
        classes (`Mapping[str, str]`): Class of each form that is to be marked.
    """
    parts, rest, todo = [], text, list(words)
    for word in split_words(text):
        before, _, rest = rest.partition(word)
        parts.append(escape(before))
        is_pronoun = bool(todo) and todo[0] == word
        if is_pronoun:
            todo.pop(0)
        name = classes.get(word) if is_pronoun else None
        parts.append(f'<mark class="{name}" title="{name}">{word}</mark>' if name else escape(word))
    return "".join(parts) + escape(rest)


def _sentence_cells(source: str, targets: Sequence[str], tagger: Tagger | None) -> tuple[str, list[str], bool]:
    """Source and targets with their marks, and whether there are any in the source."""
    if tagger is None:
        return escape(source), [escape(target) for target in targets], False
    english, german = marked_forms(source, tagger)
    shown = mark(source, tagger.pronouns(source, "en", ENGLISH_FORMS), english)
    marked = [mark(target, tagger.pronouns(target, "de", GERMAN_FORMS), german) for target in targets]
    return shown, marked, bool(german)


def _status(status: str | None) -> str:
    return "" if status is None or status in QUIET_STATUSES else f' <span class="status">{escape(status)}</span>'


def _document(view: DocumentView, index: int, tagger: Tagger | None, *, is_open: bool) -> str:
    record, systems = view.records[index], list(view.hypotheses)
    rows, differing, with_marks = [], 0, 0
    references = record.get("tgt") or [""] * len(record["src"])
    for number, (source, reference) in enumerate(zip(record["src"], references, strict=True)):
        hypotheses = [view.hypotheses[system][index][number] for system in systems]
        statuses = [view.statuses[system][index][number] if system in view.statuses else None for system in systems]
        differs = len(set(hypotheses)) > 1
        shown, targets, has_marks = _sentence_cells(source, [reference, *hypotheses], tagger)
        differing, with_marks = differing + differs, with_marks + has_marks
        cells = [f'<td data-name="source" lang="{escape(record.get("src_lang", ""))}">{shown}</td>']
        lang = escape(record.get("tgt_lang", ""))
        cells.append(f'<td data-name="reference" class="reference" lang="{lang}">{targets[0]}</td>')
        for place, (system, target, status) in enumerate(zip(systems, targets[1:], statuses, strict=True)):
            text = target if target else '<i class="nothing">nothing</i>'
            cells.append(
                f'<td data-name="{escape(system)}" class="s{place}" lang="{lang}">{text}{_status(status)}</td>'
            )
        kinds = " ".join([*["differs"] * differs, *["marked"] * has_marks])
        sign = ' <abbr title="the systems differ">≠</abbr>' if differs else ""
        rows.append(f'<tr class="{kinds}"><th scope="row">{number + 1}{sign}</th>{"".join(cells)}</tr>')
    heads = ["source", "reference", *systems]
    classes = ["", "", *(f' class="s{place}"' for place in range(len(systems)))]
    head = "".join(f"<th scope=col{kind}>{breakable(name)}</th>" for name, kind in zip(heads, classes, strict=True))
    facts = [f"{len(rows)} sentence{'' if len(rows) == 1 else 's'}"]
    facts += [f"{differing} differ"] if len(systems) > 1 else []
    facts += [f"{with_marks} with pronouns"] if tagger is not None else []
    return (
        f'<details class="document"{" open" if is_open else ""}><summary><b>{breakable(record["id"])}</b> · '
        f'{" · ".join(facts)}</summary>\n<div class="scroll" tabindex="0">'
        f'<table class="sentences" style="min-width:{COLUMN_REM * len(heads):.1f}rem">\n'
        f"<thead><tr><th scope=col>#</th>{head}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>"
        "</details>\n"
    )


def _switches(view: DocumentView, number: int, *, has_marks: bool) -> str:
    """Boxes to tick, which work by style alone: which systems are shown, and which sentences."""
    boxes, rules = [], []
    scope = f"#view-{number}"
    for place, system in enumerate(view.hypotheses):
        name = f"view-{number}-s{place}"
        boxes.append(f'<label><input type="checkbox" id="{name}" checked> {breakable(system)}</label>')
        rules.append(f"{scope}:has(#{name}:not(:checked)) .s{place}{{display:none}}")
    kinds = {"differs": "only sentences in which systems differ"} if len(view.hypotheses) > 1 else {}
    kinds |= {"marked": "only sentences with pronouns"} if has_marks else {}
    for kind, text in kinds.items():
        name = f"view-{number}-{kind}"
        boxes.append(f'<label class="filter"><input type="checkbox" id="{name}"> {text}</label>')
        rules.append(f"{scope}:has(#{name}:checked) tbody tr:not(.{kind}){{display:none}}")
    return f"<style>{''.join(rules)}</style><fieldset><legend>show</legend>{''.join(boxes)}</fieldset>\n"


def _legend() -> str:
    marks = "".join(f'<li><mark class="{name}">{name}</mark> <small>{LEGEND[name]}</small></li>' for name in LEGEND)
    return f'<ul class="legend">{marks}</ul>\n'


def render_view(view: DocumentView, number: int, *, tagger: str, max_documents: int | None) -> str:
    """
    Lay out the documents of a test set.

    Args:
        view (`DocumentView`): Documents and translations.
        number (`int`): Number of the view on the page.
        tagger (`str`): Name of the tagger that finds pronouns.
        max_documents (`int`, *optional*): Documents that are shown; None for all.
    """
    count = len(view.records) if max_documents is None else min(max_documents, len(view.records))
    has_marks = marks_pronouns(view.records)
    loaded = load_tagger(tagger) if has_marks else None
    notes = [f"{len(view.records)} documents, {sum(len(record['src']) for record in view.records):,} sentences."]
    if count < len(view.records):
        notes.append(
            f"The first {count} are shown; {len(view.records) - count} are left out (--max_documents shows more)."
        )
    if loaded is not None:
        notes.append(
            "Marked are the words that pronoun-F1 and formality-F1 count: translations of “it” and “you”, found by "
            f"the tagger {loaded.signature}."
        )
    else:
        notes.append("Pronouns are marked in documents from English to German only.")
    documents = [_document(view, index, loaded, is_open=index == 0) for index in range(count)]
    return (
        f'<section class="view" id="view-{number}"><h3>{breakable(view.name)}</h3>\n'
        f'<p class="note">{escape(" ".join(notes))}</p>\n'
        + (_legend() if has_marks else "")
        + _switches(view, number, has_marks=has_marks)
        + "".join(documents)
        + "</section>\n"
    )
