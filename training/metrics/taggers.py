"""
Which words of a sentence are pronouns: three taggers for English and German behind one method.

- `hanta`, the default: the Hanover Tagger (Wartena, 2019), `pip install 'docmt[discourse]'`, which brings its models
  along and needs no network. Its English tags are those of the BNC (C5), its German ones STTS. It unpickles its models
  from its own package: they are as trustworthy as the package that pip installed.
- `spacy`: the small models of spaCy, as the paper behind the measures has it, where they are installed.
- `none`: every word counts that looks like a pronoun. The lists of forms hold few words that can be anything else.

HanTa tags whole sentences, so only whole sentences can be remembered: each is tagged once a process, and not at all
where it holds no form that is asked for.
"""

import functools
import importlib.metadata
import re
from collections.abc import Iterable
from typing import Any


TAGGERS = ("hanta", "spacy", "none")

STTS_PRONOUNS = frozenset("PDAT PDS PIAT PIS PPER PPOSAT PPOSS PRELAT PRELS PRF PWAT PWAV PWS".split())
PENN_PRONOUNS = frozenset(("PRP", "PRP$", "WP", "WP$"))
C5_PRONOUNS = frozenset(("PNP", "DPS", "PNX", "PNQ", "DTQ"))

HANTA_MODELS = {"en": "morphmodel_en.pgz", "de": "morphmodel_ger.pgz"}
SPACY_MODELS = {"en": "en_core_web_sm", "de": "de_core_news_sm"}

# HanTa tries all ways to cut a word in pieces; what a runaway translation glues together must not take minutes
_MAX_HANTA_LETTERS = 100

_WORD = re.compile(r"\w+|[^\w\s]")


def split_words(sentence: str) -> list[str]:
    """Split a sentence into runs of letters, digits and underscores, and single other characters."""
    return _WORD.findall(sentence)


class Tagger:
    """
    The tagger `none`, and what the others share: which listed forms of a sentence are pronouns.

    Attributes:
        words (`str`):
            What counts as a word, for the signature: `words` for `split_words`, or the name of a tokenizer.
        signature (`str`):
            Name and version.
    """

    words = "words"
    signature = "none"

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, frozenset[str]], tuple[str, ...]] = {}

    def pronouns(self, sentence: str, language: str, forms: frozenset[str]) -> tuple[str, ...]:
        """
        Find the pronouns of a sentence among the forms of a list.

        Args:
            sentence (`str`):
                Detokenised text.
            language (`str`):
                `"en"` or `"de"`.
            forms (`frozenset[str]`):
                Word forms asked for, in the very case in which they count.

        Returns:
            `tuple[str, ...]`: each word of the sentence that is a form of the list and a pronoun, in order.
        """
        key = (sentence, language, forms)
        if key not in self._found:
            self._found[key] = tuple(self._find(sentence, language, forms))
        return self._found[key]

    def _find(self, sentence: str, language: str, forms: frozenset[str]) -> Iterable[str]:
        return [word for word in split_words(sentence) if word in forms]


class HanTaTagger(Tagger):
    """Pronouns by the tags of HanTa."""

    pronoun_tags = {"en": C5_PRONOUNS, "de": STTS_PRONOUNS}

    def __init__(self) -> None:
        super().__init__()
        try:
            from HanTa import HanoverTagger
        except ImportError as error:
            raise ValueError(
                "the tagger 'hanta' needs HanTa, which is not installed. Install it with "
                "`pip install 'docmt[discourse]'`, or take the tagger 'none', which counts every listed form."
            ) from error
        self.models = {language: HanoverTagger.HanoverTagger(file) for language, file in HANTA_MODELS.items()}
        for model in self.models.values():
            # all that is known of one word alone is the same in every sentence
            model._tag_word = functools.cache(model._tag_word)
        self.signature = f"hanta-{importlib.metadata.version('HanTa')}"

    def _find(self, sentence: str, language: str, forms: frozenset[str]) -> Iterable[str]:
        words = split_words(sentence)
        if forms.isdisjoint(words):
            return []
        shortened = [word[-_MAX_HANTA_LETTERS:] for word in words]
        tags = self.models[language].tag_sent(shortened, taglevel=0)
        pronoun_tags = self.pronoun_tags[language]
        return [word for word, tag in zip(words, tags, strict=True) if word in forms and tag in pronoun_tags]


class SpacyTagger(Tagger):
    """Pronouns by the fine-grained tags of spaCy's small models, on spaCy's own words."""

    words = "spacy"
    pronoun_tags = {"en": PENN_PRONOUNS, "de": STTS_PRONOUNS}

    def __init__(self) -> None:
        super().__init__()
        try:
            import spacy

            self.models: dict[str, Any] = {
                language: spacy.load(name, exclude=["parser", "ner", "lemmatizer"])
                for language, name in SPACY_MODELS.items()
            }
        # spaCy says OSError for a model that it does not find
        except (ImportError, OSError) as error:
            raise ValueError(
                f"the tagger 'spacy' needs spaCy with the models {' and '.join(SPACY_MODELS.values())} ({error}). "
                "Install them with `pip install spacy`, `python -m spacy download en_core_web_sm` and "
                "`python -m spacy download de_core_news_sm`, or take the tagger 'hanta' or 'none'."
            ) from error
        versions = (f"{name}-{self.models[language].meta['version']}" for language, name in SPACY_MODELS.items())
        self.signature = f"spacy-{spacy.__version__}+{'+'.join(versions)}"

    def _find(self, sentence: str, language: str, forms: frozenset[str]) -> Iterable[str]:
        # tagging reads the whole sentence, but where no form stands there is nothing to decide
        if not any(form in sentence for form in forms):
            return []
        pronoun_tags = self.pronoun_tags[language]
        return [
            word.text for word in self.models[language](sentence) if word.text in forms and word.tag_ in pronoun_tags
        ]


_CLASSES = {"hanta": HanTaTagger, "spacy": SpacyTagger, "none": Tagger}


@functools.cache
def load_tagger(name: str) -> Tagger:
    """
    Return a tagger, the same one at each call, with all that it remembers.

    Args:
        name (`str`):
            `"hanta"`, `"spacy"` or `"none"`.

    Raises:
        `ValueError`: for another name, and where the package or its models are not installed.
    """
    if name not in _CLASSES:
        raise ValueError(f"`tagger` must be one of {', '.join(map(repr, TAGGERS))}, got {name!r}.")
    return _CLASSES[name]()
