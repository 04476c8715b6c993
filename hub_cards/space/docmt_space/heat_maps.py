"""Attention of a sentence as HTML: bars for the source sentences, a heat map for the words."""

import itertools
from collections.abc import Sequence

import torch

from .attention import START, AttentionMap
from .pages import escape, sentence_numbers
from .translation import Translation


# words of a heat map, on each side; what is beyond is summed up in one column, or said to be left out
MAX_WORDS = 60
# source sentences in the list; the others are summed up
MAX_LISTED = 12
# owner of the column that sums up what is not shown
OTHERS = -2


def attention_view(translation: Translation, found: AttentionMap) -> str:
    """
    What a sentence attended to.

    Args:
        translation (`Translation`): The document.
        found (`AttentionMap`): Of one of its sentences.
    """
    row, number = translation.rows[found.index], sentence_numbers(translation.rows)[found.index]
    return (
        f'<section class="docmt-attention" aria-label="Attention of sentence {number}">'
        f"<h3>What sentence {number} attended to</h3>"
        f'<p class="docmt-pair"><span dir="auto">{escape(row.source)}</span> → '
        f'<strong dir="auto">{escape(row.translation)}</strong></p>'
        f"{sentence_bars(translation, found)}{word_map(translation, found)}</section>"
    )


def sentence_bars(translation: Translation, found: AttentionMap) -> str:
    """A table of the source sentences in sight, with the share that each gets from both sides."""
    numbers = sentence_numbers(translation.rows)
    places = list(found.cross_by_sentence)
    shares = {place: (found.cross_by_sentence[place], found.encoder_by_sentence[place]) for place in places}
    listed = sorted(sorted(places, key=lambda place: -sum(shares[place]))[:MAX_LISTED])
    lines = []
    for place in listed:
        text = "(start of the document)" if place == START else translation.rows[place].source
        name = "" if place == START else str(numbers[place])
        cells = f'<th scope="row">{name}</th><td dir="auto"><div>{escape(text)}</div></td>'
        lines.append(f"<tr{_own(place, found)}>{cells}{''.join(map(_bar, shares[place]))}</tr>")
    if len(listed) < len(places):
        rest = [sum(shares[place][side] for place in places if place not in listed) for side in (0, 1)]
        others = f"{len(places) - len(listed)} other sentences"
        lines.append(f'<tr><th scope="row"></th><td>{others}</td>{"".join(map(_bar, rest))}</tr>')
    return (
        '<table class="docmt-bars"><caption>Share of each source sentence; those that are not here were not in sight.'
        '</caption><thead><tr><th scope="col">#</th><th scope="col">Source sentence</th><th scope="col">while writing '
        'the translation</th><th scope="col">while reading the source</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _bar(share: float) -> str:
    return f'<td class="docmt-bar"><div style="--share: {share:.4f}"><span>{100 * share:.0f} %</span></div></td>'


def chosen_words(found: AttentionMap, most: int = MAX_WORDS) -> list[int]:
    """Source words that are shown, in order: those of the sentence itself, then of the sentences with most weight."""
    order = sorted(found.cross_by_sentence, key=lambda place: (place != found.index, -found.cross_by_sentence[place]))
    words = [word for place in order for word, owner in enumerate(found.source_sentences) if owner == place]
    return sorted(words[:most])


def word_map(translation: Translation, found: AttentionMap) -> str:
    """A heat map as a table: a row for each word of the translation, a column for each source word, in percent."""
    columns = chosen_words(found)
    weights = found.cross[:MAX_WORDS, columns]
    names = [_name(found.source_words[word], found.source_sentences[word]) for word in columns]
    owners = [found.source_sentences[word] for word in columns]
    if len(columns) < len(found.source_words):
        weights = torch.cat((weights, 1 - weights.sum(dim=1, keepdim=True)), dim=1)
        names.append("(all others)")
        owners.append(OTHERS)
    largest = max(float(weights.max()), 1e-9)
    groups = [(owner, len(list(run))) for owner, run in itertools.groupby(owners)]
    borders = set(itertools.accumulate(count for _, count in groups))
    lines = []
    for word, line in zip(found.target_words, weights.tolist(), strict=False):
        cells = "".join(
            _heat(weight, weight / largest, f"{_name(word)} → {name}", place in borders)
            for place, (weight, name) in enumerate(zip(line, names, strict=True))
        )
        lines.append(f'<tr><th scope="row" dir="auto">{escape(_name(word))}</th>{cells}</tr>')
    words = len(found.target_words)
    note = f" The first {len(lines)} of {words} words of the translation are shown." if len(lines) < words else ""
    return (
        '<p class="docmt-quiet" id="docmt-map-title">Attention of each word of the translation (rows) to the source '
        f"words (columns), in percent of its row.{note}</p>"
        '<div class="docmt-scroll docmt-map-scroll" tabindex="0" role="region" aria-labelledby="docmt-map-title">'
        '<table class="docmt-map" aria-labelledby="docmt-map-title">'
        f"{_map_head(groups, names, owners, translation, found)}<tbody>{''.join(lines)}</tbody></table></div>"
        f'<p class="docmt-scale" aria-hidden="true">0 % <span></span> {100 * largest:.0f} %</p>'
    )


def _map_head(
    groups: Sequence[tuple[int, int]],
    names: Sequence[str],
    owners: Sequence[int],
    translation: Translation,
    found: AttentionMap,
) -> str:
    numbers = sentence_numbers(translation.rows)
    titles = "".join(
        f'<th scope="colgroup" colspan="{count}"{_own(owner, found)}>'
        f"{f'Sentence {numbers[owner]}' if owner >= 0 else ''}</th>"
        for owner, count in groups
    )
    words = "".join(
        f'<th scope="col"{_own(owner, found)}><span>{escape(name)}</span></th>'
        for name, owner in zip(names, owners, strict=True)
    )
    return f"<thead><tr><td></td>{titles}</tr><tr><td></td>{words}</tr></thead>"


def _name(word: str, owner: int = 0) -> str:
    return word or ("(start)" if owner == START else "(end)")


def _own(owner: int, found: AttentionMap) -> str:
    return ' class="docmt-own"' if owner == found.index else ""


def _heat(weight: float, strength: float, title: str, starts_sentence: bool) -> str:
    kinds = " ".join(["docmt-strong"] * (strength > 0.55) + ["docmt-border"] * starts_sentence)
    percent = round(100 * weight)
    return (
        f'<td class="{kinds}" style="--heat: {strength:.3f}" title="{escape(title)}: {percent} %">{percent or ""}</td>'
    )
