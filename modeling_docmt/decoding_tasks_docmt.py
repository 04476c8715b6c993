"""What the model is asked for: decoding requests for the units of documents, one kind for each way of decoding."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .configuration_docmt import DocMTConfig, required_token
from .decoding_documents_docmt import DocumentJob, UnitTranslation, decoding_parts
from .decoding_options_docmt import DocumentOptions
from .decoding_requests_docmt import DecodingRequest, GeneratedSentence
from .formatting_docmt import Window, context_window, format_sequence, separator_after, source_context_window
from .logits_docmt import SentenceRule


@dataclass(frozen=True)
class DecodingTask:
    """
    A request and the units that its sentences translate.

    Attributes:
        job (`DocumentJob`): The document.
        request (`DecodingRequest`): What the model is asked for.
        first (`int`): Unit of the first generated sentence.
        current (`int`): First unit whose translation is kept.
        last (`int`): One behind the last unit.
    """

    job: DocumentJob
    request: DecodingRequest
    first: int
    current: int
    last: int

    def store(self, hypotheses: Sequence[Sequence[GeneratedSentence]], config: DocMTConfig) -> None:
        """Hand the generated sentences to the units, exactly one to each."""
        for unit in range(self.current, self.last):
            self.job.translations[unit] = []
        for sentences in hypotheses:
            fitted = fit_sentences(sentences, self.request, self.last - self.first, config)
            for unit in range(self.current, self.last):
                self.job.translations[unit].append(fitted[unit - self.first])


def fit_sentences(
    sentences: Sequence[GeneratedSentence], request: DecodingRequest, count: int, config: DocMTConfig
) -> list[UnitTranslation]:
    """
    Exactly `count` translations from the generated sentences: missing ones are empty, surplus ones join the last.

    An indexed separator says which sentence follows it, wherever the model puts it.

    Source: Herold and Ney (2023), on decoding without a fixed count; the repair is ours.
    """
    slots: list[list[UnitTranslation]] = [[] for _ in range(count)]
    generated = 0
    places = _places(sentences, request, config)
    for index, sentence in enumerate(sentences):
        rule = request.rules[min(index, len(request.rules) - 1)]
        generated += len(sentence.tokens)
        was_cut = sentence.closing_token is None or len(sentence.ids) >= rule.max_tokens
        if request.is_free:
            was_cut = was_cut or generated >= request.max_new_tokens
        flag = "hit_length_limit" if was_cut else None
        if places[index] != index:
            flag = "joined"  # out of order
        translation = UnitTranslation(
            sentence.ids, log_prob=sentence.log_prob or 0.0, num_generated=len(sentence.tokens), flag=flag
        )
        slots[min(max(places[index], 0), count - 1)].append(translation)
    return [_joined(slot) for slot in slots]


def _places(sentences: Sequence[GeneratedSentence], request: DecodingRequest, config: DocMTConfig) -> Sequence[int]:
    """Which of the wanted sentences, from 0, each generated one is."""
    if not (request.is_free and config.indexed_separators):
        return range(len(sentences))
    separators = config.separator_ids()
    # number of the separator after which the first of them begins
    first = required_token(config, "first_separator_token_id") + sum(t in separators for t in request.target_prefix)
    closers = (sentence.closing_token for sentence in sentences[:-1])
    return [0, *(token - first + 1 if token in separators else index for index, token in enumerate(closers, start=1))]


def _joined(translations: list[UnitTranslation]) -> UnitTranslation:
    if not translations:
        return UnitTranslation([], flag="missing")
    if len(translations) == 1:
        return translations[0]
    return UnitTranslation(
        ids=[token for translation in translations for token in translation.ids],
        log_prob=sum(translation.log_prob for translation in translations),
        num_generated=sum(translation.num_generated for translation in translations),
        flag="joined",
    )


def document_tasks(job: DocumentJob, config: DocMTConfig, options: DocumentOptions) -> list[DecodingTask]:
    """Tasks of a document that do not depend on each other's results: all modes but `"sequential"`."""
    if options.decoding == "sentence" or config.sequence_format == "sentence":
        return [sentence_task(job, unit, config, options) for unit in range(job.num_given, len(job.units))]
    tasks = [window_task(job, window, config, options) for window in counted_windows(job, config)]
    return [task for task in tasks if task is not None]


def sentence_task(job: DocumentJob, unit: int, config: DocMTConfig, options: DocumentOptions) -> DecodingTask:
    """One unit by itself, behind source context if wanted (Sun et al. and Li et al. call it Doc2Sent)."""
    window = source_context_window(unit, options.source_context_sentences or 0)
    source = format_sequence(job.units[window.first : window.last], config)
    rule = unit_rule(job, unit, (required_token(config, "eos_token_id"),), options)
    request = DecodingRequest(source, [], [rule], rule.max_tokens + 1)
    return DecodingTask(job, request, first=unit, current=unit, last=unit + 1)


def counted_windows(job: DocumentJob, config: DocMTConfig) -> list[Window]:
    """
    Windows of full-segment decoding: parts, or blocks as long as a training window for systems with context windows.

    The last block goes back to be as long as the others, and only its untranslated end is kept. A document shorter
    than a block is one block behind `<bod>`.

    Source: Herold and Ney (2023), on full-segment decoding; blocks of k + 1 sentences as in training, not k.
    """
    count = len(job.units)
    if config.sequence_format == "document":
        return [Window(first=part.start, last=part.stop, current=part.start) for part in decoding_parts(job, config)]
    size = config.context_sentences + 1
    if 0 < count < size:
        return [Window(first=0, last=count, current=0, bod=True)]
    windows = [Window(first=start, last=start + size, current=start) for start in range(0, count - size + 1, size)]
    if count % size:
        windows.append(Window(first=count - size, last=count, current=count - count % size))
    return windows


def window_task(
    job: DocumentJob, window: Window, config: DocMTConfig, options: DocumentOptions
) -> DecodingTask | None:
    """All sentences of a window in one sequence; `None` where all translations are given."""
    given = max(window.first, min(job.num_given, window.last))
    if max(given, window.current) == window.last:
        return None
    units = range(given, window.last)
    # place of the first generated sentence in the target sequence
    offset = given - window.first + window.bod
    eos = required_token(config, "eos_token_id")
    prefix = target_prefix_ids([job.best(unit) for unit in range(window.first, given)], config, bod=window.bod)
    source = format_sequence(job.units[window.first : window.last], config, bod=window.bod)
    if options.decoding == "free":
        request = _free_request(job, units, source, prefix, config, options)
    else:
        rules = [
            unit_rule(
                job, unit, (eos if unit == window.last - 1 else separator_after(offset + index, config),), options
            )
            for index, unit in enumerate(units)
        ]
        request = DecodingRequest(source, prefix, rules, sum(rule.max_tokens + 1 for rule in rules))
    return DecodingTask(job, request, first=given, current=max(given, window.current), last=window.last)


def _free_request(
    job: DocumentJob,
    units: range,
    source: list[int],
    prefix: list[int],
    config: DocMTConfig,
    options: DocumentOptions,
) -> DecodingRequest:
    """Any number of sentences in any order: `<eos>` is free from the start, the total length is bounded."""
    if options.max_sentence_tokens is None:
        # 1.2 J + 10 N, as for each sentence
        longest = math.ceil(1.2 * sum(len(job.units[unit]) + 1 for unit in units) + 10 * len(units))
    else:
        longest = (options.max_sentence_tokens + 1) * len(units)
    eos = required_token(config, "eos_token_id")
    separators = [required_token(config, "sep_token_id")]
    if config.indexed_separators:
        separators = [separator_after(index, config) for index in range(config.num_indexed_separators)]
    rule = SentenceRule(
        closing_tokens=(eos, *separators), min_tokens=min(options.min_sentence_tokens, longest), max_tokens=longest
    )
    return DecodingRequest(source, prefix, [rule], max_new_tokens=longest + 1, is_free=True)


def sequential_task(
    job: DocumentJob, part: range, unit: int, config: DocMTConfig, options: DocumentOptions
) -> DecodingTask:
    """
    The next sentence behind the translations of those before it.

    With `source_context="full"` the source is the whole part, and the sentence ends in the separator that is due, in
    `<eos>` at the end of the part. Otherwise the source ends with this sentence, and both may end its translation.

    Source: Herold and Ney (2023), on sequential decoding.
    """
    if config.sequence_format == "document" and options.source_context == "full":
        window = Window(first=part.start, last=part.stop, current=unit)
        prefix_units, target_bod = range(part.start, unit), False
        closing = _due_closer(part, unit, config)
    else:
        window, prefix_units, target_bod = _sliding_window(part, unit, config, options)
        closing = _sliding_closers(len(prefix_units) + target_bod, config, options)
    rule = unit_rule(job, unit, closing, options)
    request = DecodingRequest(
        source=format_sequence(job.units[window.first : window.last], config, bod=window.bod),
        target_prefix=target_prefix_ids([job.best(index) for index in prefix_units], config, bod=target_bod),
        rules=[rule],
        max_new_tokens=rule.max_tokens + 1,
    )
    return DecodingTask(job, request, first=unit, current=unit, last=unit + 1)


def continued_task(
    job: DocumentJob, part: range, unit: int, config: DocMTConfig, options: DocumentOptions
) -> DecodingTask:
    """The next sentence of a part whose source and earlier translations the search holds already."""
    rule = unit_rule(job, unit, _due_closer(part, unit, config), options)
    request = DecodingRequest([], [], [rule], rule.max_tokens + 1)
    return DecodingTask(job, request, first=unit, current=unit, last=unit + 1)


def _due_closer(part: range, unit: int, config: DocMTConfig) -> tuple[int, ...]:
    if unit == part.stop - 1:
        return (required_token(config, "eos_token_id"),)
    return (separator_after(unit - part.start, config),)


def _sliding_window(
    part: range, unit: int, config: DocMTConfig, options: DocumentOptions
) -> tuple[Window, range, bool]:
    """Source window of a unit, the units whose translations are given, and whether `<bod>` stands before those."""
    reach = options.source_context_sentences
    if config.sequence_format == "context_window":
        window = context_window(unit, config.context_sentences if reach is None else reach)
    else:
        window = Window(
            first=part.start if reach is None else max(part.start, unit - reach), last=unit + 1, current=unit
        )
    target_reach = options.target_context_sentences
    if target_reach is None:
        return window, range(window.first, unit), window.bod
    first = max(window.first, unit - target_reach)
    return window, range(first, unit), window.bod and target_reach > unit


def _sliding_closers(place: int, config: DocMTConfig, options: DocumentOptions) -> tuple[int, ...]:
    """Where the source ends with the sentence, both may end its translation; without target context, `<eos>` alone."""
    eos = required_token(config, "eos_token_id")
    has_separator = not config.indexed_separators or place < config.num_indexed_separators
    if options.target_context_sentences == 0 or not has_separator:
        return (eos,)
    return (eos, separator_after(place, config))


def target_prefix_ids(translations: Sequence[Sequence[int]], config: DocMTConfig, *, bod: bool = False) -> list[int]:
    """Given target sentences, each closed by its separator, behind `<bod>` where the window has it."""
    pieces = [[required_token(config, "bod_token_id")], *translations] if bod else translations
    ids: list[int] = []
    for index, piece in enumerate(pieces):
        ids += [*piece, separator_after(index, config)]
    return ids


def unit_rule(job: DocumentJob, unit: int, closing_tokens: tuple[int, ...], options: DocumentOptions) -> SentenceRule:
    """Bounds of the translation of a unit: 1.2 J + 10 tokens, J with the separator, where the caller sets none."""
    longest = options.max_sentence_tokens
    if longest is None:
        longest = math.ceil(1.2 * (len(job.units[unit]) + 1) + 10)
    return SentenceRule(closing_tokens, min(options.min_sentence_tokens, longest), longest)
