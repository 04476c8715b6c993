"""
Lexical consistency: is a word that comes back in a document translated by the same word again?

The measure is counted without an aligner, with a table of translations learned from the references of the test set
itself, and needs no resource for a language. It is defined as follows.

- A word is a run of letters, its accents removed and its case folded. Source words have 4 letters or more; of target
  words with 3 letters or more, the first 5 letters stand for all forms of the word. Two such stems are one where they
  are equal, or where one has 4 letters and the other begins with it ("Dorf", "Dörfer").
- The table: with c(s), c(t) and c(s, t) the numbers of sentences that hold source word s, target stem t and both,
  Dice(s, t) = 2 c(s, t) / (c(s) + c(t)). In each sentence pair, words and stems that share 2 sentences or more are
  linked one to one, the highest Dice first (ties in alphabetical order). The candidates of s are the stems that are
  linked to it at least twice and in 10 % of its sentences, with Dice of 0.3 or more; of two that are one stem the
  shorter stays. s is a term where the best of its candidates has Dice of 0.5 or more: words without a translation of
  their own, function words most of all, drop out.
- A term is repeated in a document where 2 sentences or more hold it. It is consistent where some candidate stands in
  the translation of each of these sentences, and translated where each of them holds any candidate.

The score is the percentage of consistent ones among the repeated terms of all documents. A translation that is not in
the table counts like none, so that leaving words out does not pay; the share among the translated terms, which speaks
of consistency alone, is given beside it. Both are given for the references too: translators vary their words on
purpose, so that 100 is no aim, and a system can be more consistent than they are.

Limits: stems join some words that are not one and part some that are, and compounds count as their first part; a
candidate may stand in a sentence for another word; names that stay as they are count like words that are translated;
small test sets have small tables, and translations that only the system uses are unknown. The table depends on the
references, so compare systems on one test set only. Languages written without blanks are refused.

Source: the definition is ours. The question, and the finding that systems are at least as consistent as translators,
are those of Carpuat and Simard (2012), "The Trouble with SMT Consistency", and Guillou (2013), "Analysing Lexical
Consistency in Translation"; links one to one by the best association are the competitive linking of Melamed (2000),
"Models of Translational Equivalence among Words".
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from .documents import Documents, bleu_tokenizer, primary_language


# raised whenever the same text would score otherwise
DEFINITION = 1

MIN_SOURCE_LETTERS = 4
MIN_TARGET_LETTERS = 3
STEM_LETTERS = 5
# a shorter stem is too likely the beginning of another word
MIN_SHARED_LETTERS = 4
MIN_LINKS = 2
MIN_LINK_SHARE = 0.1
MIN_CANDIDATE_DICE = 0.3
MIN_TERM_DICE = 0.5

Lexicon = Mapping[str, tuple[str, ...]]

_WORD = re.compile(r"[^\W\d_]+")
_WITHOUT_BLANKS = ("th", "tha", "lo", "lao", "km", "khm", "my", "mya")


def check_blanks(source_lang: str | None, target_lang: str | None) -> None:
    """
    Require languages whose words stand between blanks.

    Raises:
        `ValueError`: for Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese on either side.
    """
    for side, language in (("source_lang", source_lang), ("target_lang", target_lang)):
        if language and (bleu_tokenizer(language) != "13a" or primary_language(language) in _WITHOUT_BLANKS):
            raise ValueError(
                f"lexical-consistency finds words between blanks, which {side}={language!r} does not have. Leave it "
                "out for this language pair."
            )


def _folded_words(sentence: str) -> Iterable[str]:
    text = unicodedata.normalize("NFKD", sentence.casefold())
    return _WORD.findall("".join(letter for letter in text if not unicodedata.combining(letter)))


def source_words(sentence: str) -> set[str]:
    """Return the words of a source sentence that may be terms."""
    return {word for word in _folded_words(sentence) if len(word) >= MIN_SOURCE_LETTERS}


def target_stems(sentence: str) -> set[str]:
    """Return what stands for the words of a target sentence, whatever their endings."""
    return {word[:STEM_LETTERS] for word in _folded_words(sentence) if len(word) >= MIN_TARGET_LETTERS}


def is_one_stem(stem: str, other: str) -> bool:
    """Whether two stems are taken for one word."""
    shorter, longer = sorted((stem, other), key=len)
    return shorter == longer or (len(shorter) >= MIN_SHARED_LETTERS and longer.startswith(shorter))


def learn_lexicon(sources: Documents, references: Documents) -> dict[str, tuple[str, ...]]:
    """
    Learn the translations of the terms of a test set.

    Args:
        sources, references (`Sequence[Sequence[str]]`):
            Documents as lists of sentences, with equal counts.

    Returns:
        `dict[str, tuple[str, ...]]`: the stems of the candidates of each term, in alphabetical order; the same for the
        same text in any order of the documents.
    """
    pairs = [
        (source_words(source), target_stems(reference))
        for document in zip(sources, references, strict=True)
        for source, reference in zip(*document, strict=True)
    ]
    of_source = Counter(word for words, _ in pairs for word in words)
    of_target = Counter(stem for _, stems in pairs for stem in stems)
    together = Counter((word, stem) for words, stems in pairs for word in words for stem in stems)
    dice = {
        (word, stem): 2 * count / (of_source[word] + of_target[stem])
        for (word, stem), count in together.items()
        if count >= MIN_LINKS
    }
    links = competitive_links(pairs, dice)
    lexicon = {}
    for word, counts in sorted(links.items()):
        least = max(MIN_LINKS, MIN_LINK_SHARE * of_source[word])
        stems = [stem for stem, count in counts.items() if count >= least and dice[word, stem] >= MIN_CANDIDATE_DICE]
        if any(dice[word, stem] >= MIN_TERM_DICE for stem in stems):
            lexicon[word] = tuple(sorted(_without_longer_forms(stems)))
    return lexicon


def competitive_links(
    pairs: Iterable[tuple[Collection[str], Collection[str]]], dice: Mapping[tuple[str, str], float]
) -> dict[str, Counter[str]]:
    """
    Link words and stems of each sentence pair one to one, the best association first.

    Args:
        pairs (`Iterable[tuple[Collection[str], Collection[str]]]`):
            Source words and target stems of each sentence pair, without repetitions.
        dice (`Mapping[tuple[str, str], float]`):
            Association of word and stem; pairs that are not in it are not linked.

    Returns:
        `dict[str, Counter[str]]`: how often each word was linked to each stem.
    """
    links: dict[str, Counter[str]] = defaultdict(Counter)
    for words, stems in pairs:
        known = [(word, stem) for word in words for stem in stems if (word, stem) in dice]
        free_words, free_stems = set(words), set(stems)
        for word, stem in sorted(known, key=lambda pair: (-dice[pair], *pair)):
            if word in free_words and stem in free_stems:
                links[word][stem] += 1
                free_words.remove(word)
                free_stems.remove(stem)
    return links


def _without_longer_forms(stems: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for stem in sorted(stems, key=len):
        if not any(is_one_stem(stem, other) for other in kept):
            kept.append(stem)
    return kept


def _document_counts(source: Iterable[str], translation: Iterable[str], lexicon: Lexicon) -> tuple[int, int, int]:
    found: dict[str, list[set[str]]] = defaultdict(list)
    for sentence, translated in zip(source, translation, strict=True):
        stems = target_stems(translated)
        for word in source_words(sentence) & lexicon.keys():
            found[word].append({c for c in lexicon[word] if any(is_one_stem(c, stem) for stem in stems)})
    repeated = [candidates for candidates in found.values() if len(candidates) > 1]
    translated_terms = sum(all(candidates) for candidates in repeated)
    consistent_terms = sum(bool(set.intersection(*candidates)) for candidates in repeated)
    return len(repeated), translated_terms, consistent_terms


def consistency_statistics(
    sources: Documents, hypotheses: Documents, references: Documents, lexicon: Lexicon | None = None
) -> np.ndarray:
    """
    Count the repeated terms of each document; the score of a set of documents depends on the sums alone.

    Args:
        sources, hypotheses, references (`Sequence[Sequence[str]]`):
            D documents as lists of sentences, with equal counts.
        lexicon (`Mapping[str, tuple[str, ...]]`, *optional*):
            Table of translations; that of the references by default.

    Returns:
        `np.ndarray` of shape `(D, 5)`, int64: repeated terms; those translated and those consistent in the hypothesis;
        the same two in the reference.
    """
    if lexicon is None:
        lexicon = learn_lexicon(sources, references)
    statistics = np.zeros((len(references), 5), dtype=np.int64)
    for row, source, hypothesis, reference in zip(statistics, sources, hypotheses, references, strict=True):
        terms, *of_hypothesis = _document_counts(source, hypothesis, lexicon)
        _, *of_reference = _document_counts(source, reference, lexicon)
        row[:] = (terms, *of_hypothesis, *of_reference)
    return statistics


def consistency_scores(sums: np.ndarray) -> np.ndarray:
    """
    Score R sets of documents from the sums of their `consistency_statistics`.

    Args:
        sums (`np.ndarray` of shape `(R, 5)`):
            Sums over the documents of each set.

    Returns:
        `np.ndarray` of shape `(R,)`: percent; NaN where no term is repeated.
    """
    terms, consistent = sums[:, 0], sums[:, 2]
    return np.divide(100.0 * consistent, terms, out=np.full(len(sums), np.nan), where=terms > 0)


def consistency_entry(sums: np.ndarray) -> dict[str, Any]:
    """
    Report the measure on all documents.

    Args:
        sums (`np.ndarray` of shape `(5,)`):
            Sums of `consistency_statistics`.

    Returns:
        `dict`: JSON-able: `score`, and `score_of_translated` among the terms that are translated everywhere, in
        percent, None where undefined; the numbers of `terms`, `translated` and `consistent` ones; the same of the
        references in `reference`; `signature`.
    """
    terms, *counts = sums.tolist()
    return {
        **_rates(terms, *counts[:2]),
        "signature": f"lexical-consistency|table:references|dice:{MIN_CANDIDATE_DICE}/{MIN_TERM_DICE}|"
        f"stem:{STEM_LETTERS}|case:folded|version:{DEFINITION}",
        "terms": terms,
        "reference": _rates(terms, *counts[2:]),
    }


def _rates(terms: int, translated: int, consistent: int) -> dict[str, Any]:
    return {
        "score": round(100 * consistent / terms, 4) if terms else None,
        "score_of_translated": round(100 * consistent / translated, 4) if translated else None,
        "translated": translated,
        "consistent": consistent,
    }
