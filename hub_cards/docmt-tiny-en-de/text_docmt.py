r"""
From the text of a document to the segments that are translated, and back with everything between them in place.

A document is `gap_0 segment_0 gap_1 ... segment_{N-1} gap_N`: the segments are what the model may see, the gaps are
blank lines, indentation, trailing blanks and line endings, which come back as they were.

A line ends where Unicode demands a break (UAX #14): at `\n`, `\r\n`, `\r`, `\v`, `\f`, U+0085, U+2028 and U+2029. A
line ending belongs to the line that it closes, so "a\n" is one line, "\n" is one blank line, and "" has none.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .splitter_docmt import check_splitter, split_sentences


SEGMENTATIONS = ("lines", "sentences", "paragraphs")

_LINE_ENDING = re.compile("\r\n|[\n\v\f\r\x85\u2028\u2029]")
_LINE = re.compile("[^\n\v\f\r\x85\u2028\u2029]*(?:\r\n|[\n\v\f\r\x85\u2028\u2029]|\\Z)")
_LINE_BREAK_RUN = re.compile(r"(?<!\s)\s*[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]\s*")
_PARAGRAPH_ENDING = re.compile("[\f\u2029]")
# what str.isspace() knows, and the byte order mark that may stand in front of a file
_BLANKS = "".join(character for character in map(chr, range(0x3001)) if character.isspace()) + "\ufeff"
# a list item, a heading or a quotation starts a paragraph of its own
_ITEM = re.compile(r"(?:[-*+•◦‣▪]|\d{1,3}[.)]|[A-Za-z][.)]|#{1,6}|>)(?=\s)")


@dataclass(frozen=True)
class SegmentedDocument:
    """
    The segments of a document and what stands between them.

    Attributes:
        segments (`tuple[str, ...]`): N segments, each on one line; `""` for a blank line.
        gaps (`tuple[str, ...]`): N + 1 stretches of the text: before, between and behind the segments.
    """

    segments: tuple[str, ...]
    gaps: tuple[str, ...]

    def restore(self, translations: Sequence[str]) -> str:
        """
        Rebuild the document with other segments.

        Args:
            translations (`Sequence[str]`):
                N texts; `restore(segments)` is the text that was segmented, to the last character (but for
                `segmentation="paragraphs"`, which joins the lines of a paragraph).

        Raises:
            `ValueError`: if there are not N of them.
        """
        if len(translations) != len(self.segments):
            raise ValueError(
                f"`translations` must have one text for each of the {len(self.segments)} segments, "
                f"got {len(translations)}."
            )
        pieces = [self.gaps[0]]
        for segment, translation, gap in zip(self.segments, translations, self.gaps[1:], strict=True):
            # with nothing between them, the endings of two lines, "\r" and "\n", would become one
            merges = segment and not translation and pieces[-1].endswith("\r") and gap.startswith("\n")
            pieces += [" " if merges else translation, gap]
        return "".join(pieces)


def split_lines(text: str) -> list[str]:
    """Cut a text into its lines, each with the line ending that closes it; joined, they are the text."""
    return [line for line in _LINE.findall(text) if line]


def single_line(text: str) -> str:
    """Replace every line break, and the blanks around it, by one space, so that the text is one line."""
    return _LINE_BREAK_RUN.sub(" ", text)


def segment_text(
    text: str, segmentation: str = "lines", splitter: str = "auto", language: str | None = None
) -> SegmentedDocument:
    """
    Cut the text of a document into segments.

    A blank line is one empty segment in every segmentation, so that lines are counted the same on both sides.

    Args:
        text (`str`):
            The document.
        segmentation (`str`, *optional*, defaults to `"lines"`):
            `"lines"`: each line is a segment. `"sentences"`: each line is split into sentences. `"paragraphs"`: the
            wrapped lines of a paragraph are joined, then split into sentences; the paragraph comes back as one line. A
            paragraph ends at a blank line, before a list item, a heading or a quotation mark (`>`), and before a line
            that is indented further than the one above it.
        splitter (`str`, *optional*, defaults to `"auto"`):
            Sentence splitter, see `split_sentences`. Not used for `"lines"`.
        language (`str`, *optional*):
            Code of the language of the text, for the splitter.

    Returns:
        `SegmentedDocument`: segments without blanks around them, and the gaps.

    Raises:
        `ValueError`: on an unknown segmentation or a splitter that cannot be used.
    """
    check_segmentation(segmentation, splitter, language)
    joins_lines = segmentation == "paragraphs"
    # (start, end, whether the blanks before it lie inside a paragraph whose lines are joined)
    spans: list[tuple[int, int, bool]] = []
    units = _paragraphs(text) if joins_lines else [line[1:] for line in _lines(text)]
    for start, end in units:
        if start == end or segmentation == "lines":
            spans.append((start, end, False))
            continue
        sentences = split_sentences(_LINE_ENDING.sub(_blanks_of_equal_length, text[start:end]), splitter, language)
        trimmed = [_margins(text, start + a, start + b) for a, b in sentences]
        spans += [(a, b, joins_lines and index > 0) for index, (a, b) in enumerate(trimmed) if a < b]
    segments, gaps, position = [], [], 0
    for start, end, is_inside in spans:
        gap, segment = text[position:start], text[start:end]
        gaps.append(single_line(gap) if is_inside else gap)
        segments.append(single_line(segment) if joins_lines else segment)
        position = end
    return SegmentedDocument(segments=tuple(segments), gaps=(*gaps, text[position:]))


def segment_sentences(sentences: Sequence[str]) -> SegmentedDocument:
    """
    Take a document that is given as a list of sentences: one segment each, restored one a line.

    Blanks around a sentence go to the gaps, line breaks inside it become a space.
    """
    segments, gaps = [], [""]
    for index, sentence in enumerate(sentences):
        line = single_line(sentence)
        start, end = _margins(line, 0, len(line))
        gaps[-1] += line[:start]
        segments.append(line[start:end])
        gaps.append(line[end:] + ("\n" if index + 1 < len(sentences) else ""))
    return SegmentedDocument(segments=tuple(segments), gaps=tuple(gaps))


def check_segmentation(segmentation: str, splitter: str = "auto", language: str | None = None) -> None:
    """Raise `ValueError` if a text cannot be segmented with these options here."""
    if segmentation not in SEGMENTATIONS:
        raise ValueError(f"`segmentation` must be one of {', '.join(map(repr, SEGMENTATIONS))}, got {segmentation!r}.")
    check_splitter(splitter, language)


def split_long_sentence(
    sentence: str, max_tokens: int, count_tokens: Callable[[str], int]
) -> tuple[list[str], list[str]]:
    """
    Cut a sentence into pieces of at most `max_tokens` tokens and of similar length.

    Pieces end at white space where there is some, else between two graphemes. A single grapheme of more than
    `max_tokens` tokens stays whole.

    Args:
        sentence (`str`): Without blanks around it.
        max_tokens (`int`): Upper bound of a piece in tokens.
        count_tokens (`Callable[[str], int]`): Number of tokens of a text.

    Returns:
        `tuple[list[str], list[str]]`: the pieces, and what joins their translations: `" "` or `""` before each piece
        but the first.
    """
    parts = -(-count_tokens(sentence) // max_tokens)
    if parts <= 1:
        return [sentence], []
    middle = len(sentence) * (parts // 2) // parts
    cut, joiner = _nearest(sentence, middle, _is_white_space), " "
    if cut is None:
        cut, joiner = _nearest(sentence, middle, is_grapheme_border), ""
    if cut is None:
        return [sentence], []
    left, left_joiners = split_long_sentence(sentence[:cut].rstrip(), max_tokens, count_tokens)
    right, right_joiners = split_long_sentence(sentence[cut:].lstrip(), max_tokens, count_tokens)
    return left + right, [*left_joiners, joiner, *right_joiners]


def is_grapheme_border(text: str, index: int) -> bool:
    """
    Whether a reader sees two characters at `text[index - 1 : index + 1]`.

    An approximation of the extended grapheme clusters of Unicode (UAX #29) that keeps together combining marks, Indic
    conjuncts, emoji sequences, flags, Hangul syllables and halves of a surrogate pair.
    """
    before, behind = text[index - 1], text[index]
    if "\u200d" in (before, behind) or before + behind == "\r\n" or unicodedata.category(behind).startswith("M"):
        return False
    # skin tones and the letters of subdivision flags
    if "\U0001f3fb" <= behind <= "\U0001f3ff" or "\U000e0020" <= behind <= "\U000e007f":
        return False
    if "\ud800" <= before <= "\udbff" and "\udc00" <= behind <= "\udfff":
        return False
    # a virama ties the next consonant to it
    if unicodedata.combining(before) == 9 and unicodedata.category(behind).startswith("L"):
        return False
    if "\u1160" <= behind <= "\u11ff":
        return False
    if "\u1100" <= before <= "\u115f" and ("\u1100" <= behind <= "\u115f" or "\uac00" <= behind <= "\ud7a3"):
        return False
    if _is_regional_indicator(before) and _is_regional_indicator(behind):
        # flags are pairs: a border after an even number of indicators only
        start = index
        while start and _is_regional_indicator(text[start - 1]):
            start -= 1
        return (index - start) % 2 == 0
    return True


def _lines(text: str) -> list[tuple[int, int, int]]:
    """For each line: where it starts, and the span without the blanks around it, empty at the end of a blank line."""
    lines, start = [], 0
    for line in split_lines(text):
        ending = _LINE_ENDING.search(line)
        lines.append((start, *_margins(text, start, start + (ending.start() if ending else len(line)))))
        start += len(line)
    return lines


def _paragraphs(text: str) -> list[tuple[int, int]]:
    """Span of each paragraph; blank lines are empty spans."""
    spans: list[tuple[int, int]] = []
    is_open = is_item = False
    indentation_above = 0
    for line_start, start, end in _lines(text):
        if start == end:
            spans.append((start, end))
            is_open = False
            continue
        indentation = start - line_start
        item = _ITEM.match(text, start)
        # the later lines of a list item hang, other paragraphs may be told by their indented first line
        goes_on = is_open and item is None and (is_item or indentation <= indentation_above)
        if goes_on and not _PARAGRAPH_ENDING.search(text, spans[-1][1], line_start):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
            is_item = item is not None
        # a heading has one line
        is_open = item is None or not item[0].startswith("#")
        indentation_above = indentation
    return spans


def _margins(text: str, start: int, end: int) -> tuple[int, int]:
    """The span `start:end` without the blanks around it; empty, at its end, if there is nothing else."""
    line = text[start:end]
    if not line.strip(_BLANKS):
        return end, end
    return start + len(line) - len(line.lstrip(_BLANKS)), end - len(line) + len(line.rstrip(_BLANKS))


def _blanks_of_equal_length(match: re.Match) -> str:
    return " " * len(match[0])


def _nearest(text: str, middle: int, is_border: Callable[[str, int], bool]) -> int | None:
    """The border nearest to `middle`, strictly inside the text."""
    for distance in range(len(text)):
        for index in (middle - distance, middle + distance):
            if 0 < index < len(text) and is_border(text, index):
                return index
    return None


def _is_white_space(text: str, index: int) -> bool:
    return text[index].isspace() and text[index] not in "\u00a0\u2007\u202f"  # not where a break is forbidden


def _is_regional_indicator(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
