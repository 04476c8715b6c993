"""Focus words: target words that count more in the loss, where a word of the source sentence makes them ambiguous."""

from collections.abc import Mapping, Sequence

import torch
from transformers import PreTrainedTokenizerBase

from modeling_docmt.configuration_docmt import DocMTConfig
from modeling_docmt.sentences_docmt import source_sentence_ids


class FocusWords:
    """
    Weights of the labels in the loss: of a few words the given ones, of all else 1.

    A pronoun such as `it` is a handful of tokens in a thousand, and the likeliest translation is right often enough
    that a model can do without the context which decides. Weights against the frequency of each translation take that
    way out from it.

    Args:
        weights (`Mapping[str, float]`): Weight by target word in small letters; with a capital it is meant as well.
        source_words (`Sequence[str]`):
            Words in small letters, one of which the source sentence must have; without any, weights hold everywhere.
        config (`DocMTConfig`): Names the separators.
        tokenizer (`PreTrainedTokenizerBase`): Vocabulary.

    Raises:
        `ValueError`: for a word that is more than one token, or a weight that is not positive.

    Source: weights against the frequency of tokens are those of Gu et al. (2020), "Token-level Adaptive Training for
    Neural Machine Translation"; the condition on the source is ours.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        source_words: Sequence[str],
        config: DocMTConfig,
        tokenizer: PreTrainedTokenizerBase,
    ):
        self.config = config
        table = torch.ones(config.vocab_size)
        for word, weight in weights.items():
            if weight <= 0:
                raise ValueError(f"`focus_words` must have positive weights, got {word}={weight}.")
            for token in word_tokens(word, tokenizer, target=True):
                table[token] = weight
        self.weights = table
        tokens = [token for word in source_words for token in word_tokens(word, tokenizer, target=False)]
        self.source_tokens = torch.tensor(sorted(tokens), dtype=torch.long)

    def __call__(self, input_ids: torch.LongTensor, labels: torch.LongTensor) -> torch.Tensor:
        """
        Weights of labels.

        Args:
            input_ids (`torch.LongTensor` of shape `(B, S)`): Source.
            labels (`torch.LongTensor` of shape `(B, T)`): Target, -100 at padding.

        Returns:
            `torch.Tensor` of shape `(B, T)`: 1 but for the focus words.
        """
        weights = self.weights.to(labels.device)[labels.clamp(min=0)]
        if len(self.source_tokens) == 0:
            return weights
        source_sentences = source_sentence_ids(input_ids, self.config)
        target_sentences = source_sentence_ids(labels, self.config)
        if self.config.sequence_format == "source_context":
            # the target is the last sentence of the source alone
            target_sentences = target_sentences + source_sentences.amax(dim=1, keepdim=True)
        count = 1 + int(max(source_sentences.max(), target_sentences.max()))
        found = torch.isin(input_ids, self.source_tokens.to(input_ids.device)).long()
        by_sentence = found.new_zeros(len(labels), count).scatter_add_(1, source_sentences, found)
        return torch.where(by_sentence.gather(1, target_sentences) > 0, weights, 1.0)


def word_tokens(word: str, tokenizer: PreTrainedTokenizerBase, *, target: bool) -> list[int]:
    """
    The tokens of a word, in small letters and with a capital.

    A form of several tokens is left out, as long as the other one is a single token.

    Raises:
        `ValueError`: if neither form is a token of the vocabulary.
    """
    sides = {"text_target": [word, word.capitalize()]} if target else {"text": [word, word.capitalize()]}
    encoded = tokenizer(**sides, add_special_tokens=False)["input_ids"]
    tokens = sorted({ids[0] for ids in encoded if len(ids) == 1 and ids[0] != tokenizer.unk_token_id})
    if not tokens:
        raise ValueError(
            f"{word!r} is no single token of the vocabulary, so it cannot be weighted or looked for: take another "
            "word, or train a tokenizer in which it is one."
        )
    return tokens


def read_weights(text: str | None) -> dict[str, float]:
    """
    Read `"er=12,sie=6,es=2"`.

    Raises:
        `ValueError`: for what is no list of word=number.
    """
    weights: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in (text or "").split(","))):
        word, _, number = item.partition("=")
        try:
            weights[word.strip()] = float(number)
        except ValueError:
            raise ValueError(f"`focus_words` must be word=weight, with commas between, got {item!r}.") from None
    return weights
