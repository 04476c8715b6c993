"""
Sentence splitting without dependencies, and through `pysbd` where that is installed.

The splitter of this file is for running text in languages that end sentences with a mark: it knows abbreviations,
initials, numbered items, ordinals, quotes and brackets behind the mark, ellipses and the marks of CJK, Arabic and
Indic scripts. In doubt it does not split: two sentences in one cost context, half a sentence costs its meaning.
"""

import re


try:
    from pysbd import Segmenter
    from pysbd.languages import LANGUAGE_CODES
except ImportError:
    Segmenter, LANGUAGE_CODES = None, {}


SPLITTERS = ("auto", "builtin", "pysbd")

_OPENERS = "\"'“„‚‘«‹»([{「『【〈《（［¿¡*_"
_CLOSERS = "\"'”’“‘»«›)]}」』】〉》）］*_"

# Behind a mark: closing quotes and brackets (the French » may stand behind a blank), footnote numbers. The marks of
# CJK need no blank behind them.
_CLOSING = rf"(?:[{re.escape(_CLOSERS)}]|\[\d+\]|\s»(?=\s))*"
_MARK = re.compile(rf"(?:(?P<wide>[。！？｡]+)|(?P<mark>[.!?…‼⁇⁈⁉؟۔।॥։።]+))(?P<closing>{_CLOSING})(?P<blank>\s*)")
_ROMAN = re.compile(r"(?=.)x{0,3}(?:ix|iv|v?i{0,3})", re.IGNORECASE)
_ITEM_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,3})*|[^\W\d_]")
_WORD = re.compile(r"\w+(?:['’]\w+)?")


def _words(table: dict[str, str]) -> dict[str, frozenset[str]]:
    return {language: frozenset(words.split()) for language, words in table.items()}


# Abbreviations before which a sentence hardly ever ends. Those of "any" hold in every language.
_ABBREVIATIONS = _words(
    {
        "any": "dr prof mr mrs ms st dipl ing vs cf al vol ed eds fig figs approx tel bzw ca dott",
        "en": "messrs rev hon gen col maj capt cmdr lt sgt cpl gov sen rep pres supt mt ft dept univ assn est viz esp "
        "resp incl i.e e.g jan feb aug sept oct nov dec mon tue wed thu fri",
        "de": "hr hrn fr frl str sog evtl ggf inkl exkl geb gest verh zzgl vgl allg bes dgl einschl entspr etw gem "
        "ggü insb jew mind od orig rd s.o s.u u.a u.ä z.b z.t z.zt d.h i.d.r i.a v.a o.ä o.g v.chr n.chr jan febr "
        "aug sept okt nov dez mo di mi do abschn anm aufl ausg bd bde hg hrsg kap lfd phil röm griech engl franz dt "
        "geogr techn wiss hl vorm nachm",
        "fr": "m mm mme mmes mlle mlles me mgr p.ex c.-à-d env éd chap janv févr avr juil sept oct nov déc bd av",
        "it": "sig sigg sig.ra dott.ssa avv arch geom es pag pagg cap gen feb mar apr giu lug ago ott nov dic",
        "es": "sr sra sres srta ud ej pág págs núm",
        "ru": "г гг ул кв стр см т.е т.к им проф акад",
    }
)
# before a number only: "No. 5", but "He said no."
_BEFORE_NUMBERS = frozenset("no nos nr nrn p pp s ss art arts ch sec sect tab eq eqs vers zl ziff abs § п".split())
# may end a sentence: they do if a word follows that often starts one
_MAY_END = frozenset(
    "etc usw u.s.w ff ecc jr sr inc ltd co corp bros a.m p.m u.s u.s.a u.k d.c ph.d b.c a.d min max std mio mrd jh "
    "jhd руб тыс млн млрд т.д т.п".split()
)
_STARTERS = _words(
    {
        "en": "the a an i he she it we they you this that these those there here what when where why who how if but "
        "and so in on at as after before for from my his her its our their your no yes not then now once however "
        "although while since because all some many most one",
        "de": "der die das ein eine einer ich er sie es wir ihr dies diese dieser dieses dort hier was wann wo warum "
        "wer wie wenn aber und so im in am an auf nach vor für von mein sein kein nicht dann nun jetzt jedoch obwohl "
        "während weil alle einige viele man",
        "fr": "le la les un une des je il elle on nous vous ils elles ce cet cette ces mais et dans en pour si quand",
        "it": "il lo la i gli le un una io egli lei noi voi essi questo questa ma e in per se quando",
        "es": "el la los las un una yo él ella nosotros ellos este esta pero y en para si cuando",
        "ru": "я он она оно мы вы они это этот эта но и а в на с по для если когда как что",
    }
)
_ORDINAL_LANGUAGES = frozenset("de cs da et fi hr hu is lv nb nn no sk sl sr tr".split())


def language_of(code: str | None) -> str:
    """First subtag of a language code in lower case ("de" of "de_AT"), `"en"` where there is none."""
    return re.split(r"[-_]", code.lower())[0] if code else "en"


def split_sentences(text: str, splitter: str = "auto", language: str | None = None) -> list[tuple[int, int]]:
    """
    Find the sentences of a paragraph.

    The sentences do not overlap, stand in order, begin and end with a character that is not blank, and all that lies
    between them is blank.

    Args:
        text (`str`):
            One line, or one paragraph whose line breaks count as blanks.
        splitter (`str`, *optional*, defaults to `"auto"`):
            `"builtin"`: the splitter of this file. `"pysbd"`: the package of that name. `"auto"`: `pysbd` where it is
            installed and knows the language, else the built-in one.
        language (`str`, *optional*):
            Code of the language, for its abbreviations and ordinals; English if not given.

    Returns:
        `list[tuple[int, int]]`: start and end of each sentence in `text`; none in a blank text.

    Raises:
        `ValueError`: on an unknown splitter, or `"pysbd"` where it is not installed or does not know the language.
    """
    code = language_of(language)
    check_splitter(splitter, language)
    if splitter == "pysbd" or (splitter == "auto" and Segmenter is not None and code in LANGUAGE_CODES):
        return _split_with_pysbd(text, code)
    return _split_builtin(text, code)


def check_splitter(splitter: str, language: str | None = None) -> None:
    """Raise `ValueError` if a splitter of this name cannot be used here."""
    if splitter not in SPLITTERS:
        raise ValueError(f"`splitter` must be one of {', '.join(map(repr, SPLITTERS))}, got {splitter!r}.")
    if splitter != "pysbd":
        return
    if Segmenter is None:
        raise ValueError("`splitter='pysbd'` needs the package pysbd: pip install pysbd, or take 'builtin'.")
    if language_of(language) not in LANGUAGE_CODES:
        known = ", ".join(sorted(LANGUAGE_CODES))
        raise ValueError(f"`splitter='pysbd'` knows the languages {known}, got {language!r}. Take 'builtin'.")


def _split_builtin(text: str, language: str) -> list[tuple[int, int]]:
    spans = []
    start = len(text) - len(text.lstrip())
    for match in _MARK.finditer(text):
        end = match.end("closing")
        if match.end() == len(text):
            continue
        following = text[match.end() : match.end() + 60]
        if match["wide"]:
            # 「…。」と: the sentence goes on behind the quotation
            is_border = not (match["closing"] and "\u3041" <= following[0] <= "\u309f")
        else:
            before = text[max(start, match.start() - 60) : match.start()]
            word = "" if not before or before[-1].isspace() else before.split()[-1]
            first = start + len(word) == match.start()
            is_border = match["blank"] != "" and _ends_sentence(match["mark"], word, first, following, language)
        if is_border:
            spans.append((start, end))
            start = match.end()
    end = len(text.rstrip())
    return [*spans, (start, end)] if start < end else spans


def _ends_sentence(mark: str, before: str, first: bool, following: str, language: str) -> bool:
    """
    Whether a mark with a blank behind it ends a sentence.

    Args:
        mark (`str`): The mark, or the run of marks.
        before (`str`): The word in front of it, up to the last blank.
        first (`bool`): Whether that word is the first of its sentence.
        following (`str`): The text behind the blank.
        language (`str`): First subtag of the language.
    """
    opened = following.lstrip(_OPENERS + "-–—− ")
    if not opened or opened[0].islower() or following[0] in ",;:)]}":
        return False
    if mark != ".":
        return True
    word = before.lstrip(_OPENERS).lower()
    next_word = _WORD.match(opened)
    next_text = next_word[0].lower() if next_word else ""
    is_start = next_text in _STARTERS.get(language, ()) and opened[len(next_text) : len(next_text) + 1] != "."
    if word == "":
        return True
    if first and (_ITEM_NUMBER.fullmatch(word) or _ROMAN.fullmatch(word)):
        return False
    if word in _BEFORE_NUMBERS:
        return not (next_text[:1].isdigit() or _ROMAN.fullmatch(next_text))
    if word in _MAY_END:
        return is_start
    last_part = word.rpartition(".")[2]
    if any({word, last_part} & _ABBREVIATIONS.get(key, frozenset()) for key in ("any", language)):
        return False
    if word.isdigit() and len(word) <= 2 and language in _ORDINAL_LANGUAGES:
        return is_start
    # initials and what is abbreviated letter by letter
    if all(len(part) == 1 and part.isalpha() for part in word.split(".")):
        return is_start or before == "I"
    return True


def _split_with_pysbd(text: str, language: str) -> list[tuple[int, int]]:
    # a line break would be a border to pysbd; blanks of equal length keep the positions
    flat = re.sub(r"\s", " ", text)
    spans, position = [], 0
    for sentence in Segmenter(language=language, clean=False).segment(flat):
        sentence = sentence.strip()
        start = flat.find(sentence, position)
        # it may change characters: what it returns must be found again, with nothing but blanks left out
        if start < 0 or flat[position:start].strip():
            return _split_builtin(text, language)
        if sentence:
            spans.append((start, start + len(sentence)))
            position = start + len(sentence)
    return spans if not flat[position:].strip() else _split_builtin(text, language)
