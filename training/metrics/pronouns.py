"""
Pronoun F1 and formality F1: does the translation use the pronouns that its reference uses?

English "it" becomes "er", "sie" or "es" with the gender of its antecedent, and "you" becomes "Sie" or "du" with the
speakers' relation; both are often to be found in another sentence only. For each sentence whose source holds such a
pronoun, the pronouns of hypothesis and reference are counted by class, and the counts that they have in common,
min(hypothesis, reference), are the matches of precision and recall over the whole test set.

Source: Herold and Ney (2023), "Improving Long Context Document-Level Machine Translation", appendix on pronoun and
formality translation evaluation, after BlonDe (Jiang et al., 2022). The lists of forms are those of their extension of
BlonDe; possessive "sein" is left out there, for it is masculine and neuter alike. The paper weighs all classes alike
and lets the lists handle case: this is the `score`. The released extension lowercases the text and weighs masculine,
feminine and neuter by 0.5, 0.5 and 0, formal and informal by 0.5 each: this is `blonde_weights`.

How many pronouns of the reference count depends on the tagger and its words. In the 12,000 correct sentences of
ContraPro (neuter, masculine, feminine):

    4820, 4793, 4049    `none`: all listed forms
    4796, 4778, 4039    `hanta`
    4816, 4793, 4045    spaCy 3.8.18: its words, all listed forms
    4816, 4793, 4071    spaCy 3.8.18: its words, English tags of its small model 3.8.0, all listed forms in German
    4565, 4688, 4001    the paper: spaCy, small models of both languages

HanTa takes away what stands in the 38 sentences whose only "it" it calls a noun (19, 13, 10), and 7 German forms that
it calls names, foreign or no words (5, 2, 0). spaCy's words differ in few places, such as "Sie's", and its English
model calls all 14,275 forms of "it" pronouns. So what the paper has less than these (5, 2, 2 %) is due to the German
tags or to other text. The German model could not be had to see which (PyPI does not have it); that the paper left
out repeated sentences is not it, for each sentence pair once gives 4528, 4598 and 3861, fewer of each than it has.
Where the counts differ, so do the scores a little: compare numbers of one signature only.
"""

import dataclasses
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from .documents import Documents, primary_language
from .taggers import Tagger


# raised whenever the same text would score otherwise
DEFINITION = 1

LANGUAGES = {"en": ("en", "eng"), "de": ("de", "deu", "ger")}

# of a variant: whether text is lowercased before it is tagged
_VARIANTS = (False, True)


def _forms(words: str) -> frozenset[str]:
    return frozenset(form for word in words.split() for form in (word, word.capitalize()))


ENGLISH = {
    "neuter": _forms("it its itself"),
    "feminine": _forms("she her hers herself"),
    "second person": _forms("you your yours yourself"),
    "third person plural": _forms("they them their theirs themselves"),
}
ENGLISH_FORMS = frozenset().union(*ENGLISH.values())


@dataclasses.dataclass(frozen=True)
class PronounMeasure:
    """
    One of the two measures.

    Args:
        name (`str`):
            Name of the measure.
        triggers (`frozenset[str]`):
            English forms, one of which the source must hold for its sentence to count.
        classes (`dict[str, frozenset[str]]`):
            German forms of each class.
        unreliable_class (`str`):
            The class that is left out of a sentence whose source holds a form of `confusions`, because its forms may
            translate those as well.
        confusions (`frozenset[str]`):
            English forms.
        blonde_weights (`tuple[float, ...]`):
            Weights of the classes in the released extension of BlonDe.
    """

    name: str
    triggers: frozenset[str]
    classes: dict[str, frozenset[str]]
    unreliable_class: str
    confusions: frozenset[str]
    blonde_weights: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of counts for one variant: sentences, then matches, hypothesis and reference for each class."""
        return 1 + 3 * len(self.classes)


PRONOUN_F1 = PronounMeasure(
    name="pronoun-F1",
    triggers=ENGLISH["neuter"],
    classes={
        "masculine": _forms("er ihm ihn"),
        "feminine": _forms("sie ihrer ihr ihre ihres ihrem"),
        "neuter": _forms("es"),
    },
    unreliable_class="feminine",
    confusions=ENGLISH["second person"] | ENGLISH["third person plural"],
    blonde_weights=(0.5, 0.5, 0.0),
)
FORMALITY_F1 = PronounMeasure(
    name="formality-F1",
    triggers=ENGLISH["second person"],
    classes={
        "formal": _forms("sie ihr ihrer ihnen ihre ihres"),
        "informal": _forms("du deiner dir dich deine dein deines deinem deinen"),
    },
    unreliable_class="formal",
    confusions=ENGLISH["third person plural"] | ENGLISH["neuter"] | ENGLISH["feminine"],
    blonde_weights=(0.5, 0.5),
)


# the lists of both measures, so that a sentence is tagged once for the two
GERMAN_FORMS = frozenset().union(*PRONOUN_F1.classes.values(), *FORMALITY_F1.classes.values())


def check_languages(measure: str, source_lang: str | None, target_lang: str | None) -> None:
    """
    Require English sources and German references.

    Raises:
        `ValueError`: for other languages, or unknown ones.
    """
    for side, language, known in (("source_lang", source_lang, "en"), ("target_lang", target_lang, "de")):
        if language is None or primary_language(language) not in LANGUAGES[known]:
            raise ValueError(
                f"{measure} is defined for English sources and German references, got {side}={language!r}. Leave it "
                "out for other languages; where the documents do not say theirs, add `src_lang` and `tgt_lang`."
            )


def count_sentence(
    measure: PronounMeasure, source: str, hypothesis: str, reference: str, tagger: Tagger
) -> list[tuple[int, int, int]] | None:
    """
    Count the pronouns of one sentence.

    Returns:
        `list[tuple[int, int, int]]`: matches, pronouns of the hypothesis and of the reference for each class; None for
        a sentence that does not count, its source being without such a pronoun.
    """
    in_source = tagger.pronouns(source, "en", ENGLISH_FORMS)
    if measure.triggers.isdisjoint(in_source):
        return None
    left_out = None if measure.confusions.isdisjoint(in_source) else measure.unreliable_class
    in_hypothesis, in_reference = (tagger.pronouns(text, "de", GERMAN_FORMS) for text in (hypothesis, reference))
    counts = []
    for name, forms in measure.classes.items():
        of_hypothesis, of_reference = (
            0 if name == left_out else sum(word in forms for word in words) for words in (in_hypothesis, in_reference)
        )
        counts.append((min(of_hypothesis, of_reference), of_hypothesis, of_reference))
    return counts


def pronoun_statistics(
    measure: PronounMeasure, sources: Documents, hypotheses: Documents, references: Documents, tagger: Tagger
) -> np.ndarray:
    """
    Count the pronouns of each document; the score of a set of documents depends on the sums alone.

    Args:
        measure (`PronounMeasure`):
            `PRONOUN_F1` or `FORMALITY_F1`.
        sources, hypotheses, references (`Sequence[Sequence[str]]`):
            D documents as lists of sentences, with equal counts.
        tagger (`Tagger`):
            Says which words are pronouns.

    Returns:
        `np.ndarray` of shape `(D, 2 * measure.size)`, int64: the counts for the text as it is, then for lowercased
        text; in each the number of sentences that count, and matches, hypothesis and reference for each class.
    """
    statistics = np.zeros((len(references), 2, measure.size), dtype=np.int64)
    sentences = tqdm(
        [
            (index, triple)
            for index, document in enumerate(zip(sources, hypotheses, references, strict=True))
            for triple in zip(*document, strict=True)
        ],
        desc=measure.name,
        unit="sentence",
        delay=2,
        leave=False,
    )
    for index, triple in sentences:
        for variant, is_lowercased in enumerate(_VARIANTS):
            source, hypothesis, reference = (text.lower() for text in triple) if is_lowercased else triple
            counts = count_sentence(measure, source, hypothesis, reference, tagger)
            if counts is not None:
                statistics[index, variant] += np.concatenate(([1], np.ravel(counts)))
    return statistics.reshape(len(references), -1)


def pronoun_scores(measure: PronounMeasure, sums: np.ndarray) -> np.ndarray:
    """
    Score R sets of documents from the sums of their `pronoun_statistics`.

    F1 = 2PR / (P + R) with P = matches / hypothesis and R = matches / reference is 2 matches / (hypothesis +
    reference), which needs no case of its own for a hypothesis without any pronoun.

    Args:
        sums (`np.ndarray` of shape `(R, 2 * measure.size)`):
            Sums over the documents of each set.

    Returns:
        `np.ndarray` of shape `(R,)`: F1 in percent over all classes alike; NaN where neither side has a pronoun.
    """
    totals = sums.reshape(len(sums), 2, -1)[:, 0, 1:].reshape(len(sums), -1, 3).sum(axis=1)  # (R, 3)
    return _percent(2 * totals[:, 0], totals[:, 1] + totals[:, 2])


def pronoun_entry(measure: PronounMeasure, sums: np.ndarray, tagger: Tagger) -> dict[str, Any]:
    """
    Report a measure on all documents.

    Args:
        sums (`np.ndarray` of shape `(2 * measure.size,)`):
            Sums of `pronoun_statistics`.

    Returns:
        `dict`: JSON-able: `score` (F1), `precision` and `recall` in percent, None where undefined; for each of
        `classes` the same and the counts they are made of; `sentences`, how many counted; the scores of
        `blonde_weights`; `signature`.
    """
    as_is, lowercased = sums.reshape(2, -1)
    counts, blonde_counts = as_is[1:].reshape(-1, 3), lowercased[1:].reshape(-1, 3)  # (classes, 3)
    weights = np.asarray(measure.blonde_weights)
    return {
        **_rates(counts.sum(axis=0)),
        "signature": f"{measure.name}|lang:en-de|case:mixed|weights:equal|tok:{tagger.words}|"
        f"tagger:{tagger.signature}|version:{DEFINITION}",
        "sentences": int(as_is[0]),
        "classes": {
            name: {**_rates(count), **dict(zip(("matches", "hypothesis", "reference"), count.tolist(), strict=True))}
            for name, count in zip(measure.classes, counts, strict=True)
        },
        "blonde_weights": {"weights": list(measure.blonde_weights), **_rates(weights @ blonde_counts)},
    }


def _rates(counts: np.ndarray) -> dict[str, float | None]:
    matches, of_hypothesis, of_reference = counts
    rates = {
        "score": (2 * matches, of_hypothesis + of_reference),
        "precision": (matches, of_hypothesis),
        "recall": (matches, of_reference),
    }
    return {name: round(100 * float(part / whole), 4) if whole else None for name, (part, whole) in rates.items()}


def _percent(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(100.0 * part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
