"""Options of document decoding: where they come from, which values they may have."""

from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from transformers import GenerationConfig
from transformers.generation import GenerationMode
from transformers.utils import logging

from .configuration_docmt import DECODING_ALIGNMENTS, DECODING_MODES, DocMTConfig


logger = logging.get_logger(__name__)

SOURCE_CONTEXTS = ("full", "prefix")
# rows of an internal call, and rows times source tokens, where the caller sets no bound
DEFAULT_ROWS = 128
DEFAULT_ROW_TOKENS = 2**16
# lengths of one stock call; a document has a bound for each sentence instead
LENGTH_OPTIONS = ("max_length", "max_new_tokens", "min_length", "min_new_tokens")
# per token of one stock call; a document has `sentence_scores`
OUTPUT_OPTIONS = ("output_scores", "output_logits")
# what reads the source of a call, or its text, with the values that switch it off
REFUSED_OPTIONS = {
    "encoder_repetition_penalty": (None, 1.0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "stop_strings": (None,),
}


@dataclass(frozen=True)
class DocumentOptions:
    """
    The options of `generate()` that are ours, resolved and checked. `DocumentGenerationMixin` documents each.

    Each may be a keyword of the call or a plain field of a `GenerationConfig`; the call wins.
    """

    decoding: str | None = None
    source_context: str = "full"
    source_context_sentences: int | None = None
    target_context_sentences: int | None = None
    max_sentence_tokens: int | None = None
    min_sentence_tokens: int = 1
    alignment: str | None = None
    batch_rows: int | None = None
    reuse_cache: bool = True

    @classmethod
    def names(cls) -> list[str]:
        """Names of all options, as keywords and as fields of a generation config."""
        return [field.name for field in fields(cls)]

    @classmethod
    def resolve(
        cls, config: DocMTConfig, generation_config: GenerationConfig, given: dict[str, Any]
    ) -> "DocumentOptions":
        """
        Read the options, the only place that does: those of the call, else of the generation config, else the default.

        Raises:
            `ValueError`: if a value is not allowed, or does nothing together with the others.
        """
        values: dict[str, Any] = {}
        for field in fields(cls):
            value = given.get(field.name)
            if value is None and field.name not in given:
                value = getattr(generation_config, field.name, None)
            if value is not None:
                values[field.name] = value
        if "decoding" not in values and "decoding" not in given:
            values["decoding"] = config.default_decoding
        if config.sequence_format == "source_context":
            values.setdefault("source_context_sentences", config.context_sentences)
        options = cls(**values)
        if options.decoding is not None:
            options._check(config)
        options._check_alignment(config)
        options._check_given({name for name, value in given.items() if value is not None})
        return options

    def _check_given(self, given: set[str]) -> None:
        """Refuse options of the call that mean nothing; a generation config may hold some for other calls."""
        idle: set[str] = set()
        if self.decoding is None:
            idle = given - {"decoding", "alignment"}
        elif self.decoding != "sequential" and self.source_context != "full":
            idle = given & {"source_context"}
        for name in sorted(idle):
            raise ValueError(
                f"`{name}={getattr(self, name)!r}` does nothing with decoding={self.decoding!r}: leave it out, or "
                "choose another `decoding`."
            )

    def _check(self, config: DocMTConfig) -> None:
        for name, allowed in (("decoding", DECODING_MODES), ("source_context", SOURCE_CONTEXTS)):
            if getattr(self, name) not in allowed:
                choices = ", ".join(map(repr, allowed))
                hint = " (or None for the stock `generate()`)" if name == "decoding" else ""
                raise ValueError(f"`{name}` must be one of {choices}{hint}, got {getattr(self, name)!r}.")
        for name, least in (
            ("source_context_sentences", 0),
            ("target_context_sentences", 0),
            ("max_sentence_tokens", 1),
            ("min_sentence_tokens", 0),
            ("batch_rows", 1),
        ):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise ValueError(f"`{name}` must be an integer of at least {least}, got {value!r}.")
        if not isinstance(self.reuse_cache, bool):
            raise ValueError(f"`reuse_cache` must be True or False, got {self.reuse_cache!r}.")
        if self.max_sentence_tokens is not None and self.min_sentence_tokens > self.max_sentence_tokens:
            raise ValueError(
                f"`min_sentence_tokens` must not exceed `max_sentence_tokens`, got {self.min_sentence_tokens} and "
                f"{self.max_sentence_tokens}."
            )
        self._check_context(config)

    def _check_alignment(self, config: DocMTConfig) -> None:
        if self.alignment is not None:
            if config.cross_attention != "window":
                raise ValueError(
                    f"`alignment={self.alignment!r}` centres the windows of cross-attention, which is "
                    f"{config.cross_attention!r} in system {config.system!r}: leave it out."
                )
            if self.alignment not in DECODING_ALIGNMENTS:
                choices = ", ".join(map(repr, DECODING_ALIGNMENTS))
                raise ValueError(f"`alignment` must be one of {choices} in decoding, got {self.alignment!r}.")

    def _check_context(self, config: DocMTConfig) -> None:
        source, target = self.source_context_sentences, self.target_context_sentences
        if config.sequence_format == "source_context" and self.decoding != "sentence":
            raise ValueError(
                f"decoding={self.decoding!r} puts several target sentences into one sequence, which a model of "
                "`sequence_format='source_context'` has never seen: its context is on the source side alone. Use "
                "decoding='sentence'."
            )
        if self.decoding == "sentence":
            if target:
                raise ValueError(
                    f"`target_context_sentences={target}` does nothing with decoding='sentence', which translates "
                    "each sentence by itself: use decoding='sequential'."
                )
        elif self.decoding == "sequential":
            is_sliding = config.sequence_format == "context_window" or self.source_context == "prefix"
            if not is_sliding and (source is not None or target is not None):
                raise ValueError(
                    "`source_context_sentences` and `target_context_sentences` bound a source that grows: use them "
                    f"with source_context='prefix', got source_context={self.source_context!r}."
                )
            if source is not None and target is not None and target > source:
                raise ValueError(
                    "`target_context_sentences` must not exceed `source_context_sentences`, whose translations they "
                    f"are, got {target} and {source}."
                )
        elif source is not None or target is not None:
            raise ValueError(
                "`source_context_sentences` and `target_context_sentences` belong to decoding='sentence' and "
                f"'sequential', got decoding={self.decoding!r}."
            )


@dataclass(frozen=True)
class SearchSettings:
    """
    What a search needs to know.

    Attributes:
        stock (`dict`): Keyword arguments of the stock `generate()`: every field of the generation config, resolved.
        mode (`GenerationMode`): Kind of search that the options ask for.
        num_beams (`int`): Beams of a sequence.
        num_hypotheses (`int`): Hypotheses wanted of each sequence.
        length_penalty (`float`): Power of the length by which sentence scores are divided.
        no_repeat_ngram_size (`int`): See the stock option; 0 for off.
        has_scores (`bool`): Whether sentence scores are wanted.
        keep_order (`bool`): Whether documents are translated from front to back, for a streamer.
        batch_rows (`int`, *optional*): Bound of sequences times beams.
        alignment (`str`): Centre of the windows of cross-attention.
        logits_processor, stopping_criteria (`list`): Those of the caller.
    """

    stock: dict[str, Any]
    mode: GenerationMode
    num_beams: int
    num_hypotheses: int
    length_penalty: float
    no_repeat_ngram_size: int
    has_scores: bool
    keep_order: bool
    batch_rows: int | None
    alignment: str
    logits_processor: list
    stopping_criteria: list

    @classmethod
    def from_generation_config(cls, generation_config: GenerationConfig, **own) -> "SearchSettings":
        """Settings of the internal calls: lengths, n-grams and output are in our hands, all else is as resolved."""
        names = [name for name in GenerationConfig().to_dict() if hasattr(generation_config, name)]
        stock = {name: getattr(generation_config, name) for name in names if name != "transformers_version"}
        stock |= dict.fromkeys(LENGTH_OPTIONS)
        stock |= {
            # end of a sentence is forced by our rules, which keep the log-probability of the model
            "forced_eos_token_id": None,
            "no_repeat_ngram_size": None,
            "return_dict_in_generate": False,
            "output_scores": False,
            "output_logits": False,
            "output_attentions": False,
            "output_hidden_states": False,
            "num_return_sequences": own["num_hypotheses"],
        }
        return cls(
            stock=stock,
            mode=generation_config.get_generation_mode(),
            num_beams=generation_config.num_beams or 1,
            length_penalty=1.0 if generation_config.length_penalty is None else generation_config.length_penalty,
            no_repeat_ngram_size=generation_config.no_repeat_ngram_size or 0,
            **own,
        )

    def sequences_per_call(self, longest: int) -> int:
        """How many sequences of at most `longest` tokens go through the model together."""
        if self.mode == GenerationMode.ASSISTED_GENERATION:
            return 1  # more are refused by the stock search
        if self.batch_rows is not None:
            return max(1, self.batch_rows // self.num_beams)
        rows = min(DEFAULT_ROWS, DEFAULT_ROW_TOKENS // max(longest, 1))
        return max(1, rows // self.num_beams)


def check_stock_options(
    given: dict[str, Any],
    unused: dict[str, Any],
    options: DocumentOptions,
    resolved: GenerationConfig,
    is_interval: bool,
) -> None:
    """
    Refuse what document decoding does not know, and say which lengths and outputs it does not read.

    Args:
        given (`dict`): Stock options of the call, as keywords or in its `generation_config`.
        unused (`dict`): Keywords that are no option and no known input.
        options (`DocumentOptions`): Resolved options.
        resolved (`GenerationConfig`): All stock options.
        is_interval (`bool`): Whether the stock search keeps no states of the system.

    Raises:
        `ValueError`: if there is an unknown argument, or an option that document decoding cannot serve.
    """
    for name in unused:
        stock = vars(GenerationConfig())
        near = [] if name in stock else get_close_matches(name, [*DocumentOptions.names(), *stock], n=1)
        hint = (
            f"Did you mean `{near[0]}`?" if near else "Pass decoding=None if it is meant for the stock `generate()`."
        )
        raise ValueError(f"`{name}` is not an option of `generate(decoding={options.decoding!r})`. {hint}")
    for name, off in REFUSED_OPTIONS.items():
        value = getattr(resolved, name, None)
        if value not in off:
            raise ValueError(
                f"`{name}={value!r}` is not there in document decoding: leave it out, or pass decoding=None to have "
                "it from the stock `generate()`."
            )
    if is_interval and resolved.get_generation_mode() == GenerationMode.ASSISTED_GENERATION:
        raise ValueError(
            "Assisted decoding (`prompt_lookup_num_tokens`) needs the cache of the stock `generate()`, which systems "
            "with windows or sentence attention do not have: leave it out."
        )
    if outputs := [name for name in OUTPUT_OPTIONS if given.get(name)]:
        logger.warning_once(
            f"{', '.join(f'`{name}`' for name in outputs)} has no effect on document decoding: "
            "`return_dict_in_generate=True` gives `sentence_scores`."
        )
    ignored = [name for name in LENGTH_OPTIONS if given.get(name) is not None]
    if ignored:
        logger.warning_once(
            f"{', '.join(f'`{name}`' for name in ignored)} has no effect on document decoding, which bounds each "
            "sentence: use `max_sentence_tokens` and `min_sentence_tokens`."
        )
