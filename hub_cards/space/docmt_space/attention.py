"""
What a translated sentence attended to, word by word and sentence by sentence.

The model reads the finished translation in the sequence in which it was made, and returns its weights of attention.
Sequences and sentence numbers come from the code of the checkpoint, so that this works wherever a checkpoint loads.
Weights are means over heads and over the layers that see more than one sentence, as `training.plot attention` has
them; of attention with two views, local and global, it is the global one.
"""

import importlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


# number of the sentence that `<bod>`, the start of the document, stands for
START = -1
# weights of all heads and layers that one forward pass may return, 512 MiB in float32
MAX_WEIGHTS = 2**27


@dataclass(frozen=True)
class AttentionMap:
    """
    Attention of one sentence.

    Attributes:
        index (`int`): The sentence, from 0.
        source_words (`list[str]`): Of the whole sequence; `""` for the marks of start and end.
        source_sentences (`list[int]`): Sentence of each source word; `START` for the start of the document.
        target_words (`list[str]`): Of the sentence, `""` for its end.
        cross (`torch.Tensor` of shape `(target words, source words)`): From the translation; rows sum to 1.
        cross_by_sentence (`dict[int, float]`): Share of each source sentence, mean over the tokens of the translation.
        encoder_by_sentence (`dict[int, float]`): The same from the source sentence, while it is read.
    """

    index: int
    source_words: list[str]
    source_sentences: list[int]
    target_words: list[str]
    cross: torch.Tensor
    cross_by_sentence: dict[int, float]
    encoder_by_sentence: dict[int, float]


def read_attention(
    model: Any, tokenizer: Any, pairs: Sequence[tuple[str, str]], index: int, *, decoding: str
) -> AttentionMap:
    """
    Read the attention of one sentence of a document.

    Args:
        model (`DocMTForConditionalGeneration`): With the code of a checkpoint or of the package.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        pairs (`Sequence[tuple[str, str]]`): Source and translation of each sentence; with an empty side, not read.
        index (`int`): Which sentence, from 0.
        decoding (`str`): How it was translated.

    Raises:
        `ValueError`: if the sentence has an empty side, or its sequence is too long to look at.
    """
    encode = code_of(model, "documents_docmt").encode_sentences
    sides = [encode(tokenizer, [pair[0] for pair in pairs])]
    sides.append(encode(tokenizer, [pair[1] for pair in pairs], target=True))
    kept = [number for number, ids in enumerate(zip(*sides, strict=True)) if all(ids)]
    if index not in kept:
        raise ValueError(f"Sentence {index + 1} has no words that the model could read.")
    source, target = ([side[number] for number in kept] for side in sides)
    place = kept.index(index)
    window = next(w for w in windows(model, source, decoding) if w.current <= place < w.last)
    source_ids, labels = code_of(model, "formatting_docmt").format_window(source, target, window, model.config)
    _check_size(len(source_ids), len(labels), model.config)
    inputs = {
        "input_ids": torch.tensor([source_ids], device=model.device),
        "decoder_input_ids": torch.tensor([[model.config.decoder_start_token_id, *labels[:-1]]], device=model.device),
    }
    with torch.no_grad(), eager_attention(model):
        outputs = model(**inputs, output_attentions=True, use_cache=False)
    shown, asked = _sentence_numbers(model, window, inputs)
    heads = code_of(model, "attention_heads").AttentionHeads
    encoder_modules = [module for module in model.get_encoder().modules() if isinstance(module, heads)]
    cross_modules = [layer.encoder_attn for layer in model.get_decoder().layers]
    encoder = _mean_weights(model, encoder_modules, outputs.encoder_attentions)[shown == place]
    cross = _mean_weights(model, cross_modules, outputs.cross_attentions)[asked == place]
    numbers = [kept[number] if number >= 0 else START for number in shown.tolist()]

    decode = code_of(model, "documents_docmt").decode_sentences
    source_words, source_groups = _group_words(tokenizer, decode, source_ids, shown.tolist(), model.config)
    target_ids = [token for token, number in zip(labels, asked.tolist(), strict=True) if number == place]
    target_words, target_groups = _group_words(tokenizer, decode, target_ids, [0] * len(target_ids), model.config)
    # a word gets what its tokens get, and pays what they pay on average
    columns = torch.nn.functional.one_hot(torch.tensor(source_groups)).double()
    rows = torch.nn.functional.one_hot(torch.tensor(target_groups)).double()
    first_tokens = [source_groups.index(group) for group in range(len(source_words))]
    return AttentionMap(
        index=index,
        source_words=source_words,
        source_sentences=[numbers[token] for token in first_tokens],
        target_words=target_words,
        cross=(rows / rows.sum(dim=0)).T @ cross @ columns,
        cross_by_sentence=_by_sentence(cross, numbers),
        encoder_by_sentence=_by_sentence(encoder, numbers),
    )


def windows(model: Any, source: Sequence[Sequence[int]], decoding: str) -> Iterator[Any]:
    """The sequences in which N source sentences of token ids are translated; each sentence is current in one."""
    config, formatting = model.config, code_of(model, "formatting_docmt")
    if decoding == "sentence" or config.sequence_format == "sentence":
        context = config.context_sentences if config.sequence_format == "source_context" else 0
        yield from (formatting.source_context_window(number, context) for number in range(len(source)))
    elif decoding == "sequential" and config.sequence_format == "context_window":
        yield from (formatting.context_window(number, config.context_sentences) for number in range(len(source)))
    else:
        job = code_of(model, "decoding_documents_docmt").DocumentJob(list(source), [], units=list(source))
        yield from code_of(model, "decoding_tasks_docmt").counted_windows(job, config)


def code_of(model: Any, name: str) -> Any:
    """A module that stands beside that of the model: in the checkpoint it was loaded with, or in the package."""
    package = type(model).__module__.rpartition(".")[0]
    return importlib.import_module(f"{package}.{name}")


@contextmanager
def eager_attention(model: Any) -> Iterator[None]:
    """Let the model compute attention in the one way that returns its weights."""
    usual = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(usual)


def _check_size(source: int, target: int, config: Any) -> None:
    layers, heads = config.encoder_layers + 2 * config.decoder_layers, config.encoder_attention_heads
    if layers * heads * max(source, target) ** 2 > MAX_WEIGHTS:
        raise ValueError(
            f"The sequence of this sentence has {source:,} source tokens, too many to show its attention here. "
            "Translate a shorter document to look inside."
        )


def _sentence_numbers(model: Any, window: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentence of each source token, and that which each query predicts; -1 for `<bod>`."""
    config, sentences = model.config, code_of(model, "sentences_docmt")
    first = window.first - window.bod
    # a target without context begins with the current sentence
    first_target = window.current if config.sequence_format == "source_context" else first
    return (
        sentences.source_sentence_ids(inputs["input_ids"], config)[0].cpu() + first,
        sentences.target_sentence_ids(inputs["decoder_input_ids"], config)[0].cpu() + first_target,
    )


def _mean_weights(model: Any, modules: Sequence[Any], attentions: Sequence[torch.Tensor]) -> torch.Tensor:
    """Mean over heads and layers, `(queries, keys)`."""
    sentence = code_of(model, "attention_sentence")
    two_views = (sentence.GatedSentenceAttention, code_of(model, "attention_long_short_term").LongShortTermAttention)
    everything, seeing = [], []
    # the global block of one sentence is skipped, and is the last one
    for module, weights in zip(modules, attentions, strict=False):
        views = weights[0].chunk(2)[1] if isinstance(module, two_views) else weights[0]
        everything.append(views.mean(dim=0).cpu().double())
        if not isinstance(module, sentence.SentenceAttention):
            seeing.append(everything[-1])
    return torch.stack(seeing or everything).mean(dim=0)


def _by_sentence(weights: torch.Tensor, numbers: Sequence[int]) -> dict[int, float]:
    """Mean over queries of the weights on each sentence, in their order."""
    shares = dict.fromkeys(numbers, 0.0)
    for number, weight in zip(numbers, weights.mean(dim=0).tolist(), strict=True):
        shares[number] += weight
    return shares


def _group_words(
    tokenizer: Any, decode: Callable, ids: Sequence[int], numbers: Sequence[int], config: Any
) -> tuple[list[str], list[int]]:
    """
    The words of token ids, and the word of each token.

    A word ends at a blank or with its sentence; the special tokens of an end or a start are a word `""`. Where a text
    has hardly any blanks, each token is a word.
    """
    special = {config.eos_token_id, config.bod_token_id, config.sos_token_id, *config.separator_ids()}
    words: list[str] = []
    groups: list[int] = []
    tokens = zip(ids, numbers, strict=True)
    for (_, is_special), run in itertools.groupby(tokens, key=lambda token: (token[1], token[0] in special)):
        stretch = [token for token, _ in run]
        if is_special:
            found, places = [""], [0] * len(stretch)
        else:
            prefixes = decode(tokenizer, [stretch[: count + 1] for count in range(len(stretch))])
            found, places = prefixes[-1].split(), [max(0, len(prefix.split()) - 1) for prefix in prefixes]
            if 6 * len(found) < len(stretch) or set(places) != set(range(len(found))):
                found = [text or "·" for text in decode(tokenizer, [[token] for token in stretch])]
                places = list(range(len(stretch)))
        groups += [len(words) + place for place in places]
        words += found
    return words, groups
