"""Word dropout: words of the source and of the decoder input that are hidden from the model while it trains."""

import torch
from transformers import PreTrainedTokenizerBase

from modeling_docmt.configuration_docmt import DocMTConfig


class WordDropout:
    """
    Replaces words by `<mask>`, each with some probability; special tokens, and with them the sentences, stay.

    It draws from torch's generator of the device, whose state is part of a checkpoint: a resumed run hides the words
    that the uninterrupted one would have hidden.

    Args:
        probability (`float`): From 0 to 1.
        config (`DocMTConfig`): Names the mask token, and special tokens.
        tokenizer (`PreTrainedTokenizerBase`): Names further special tokens.

    Raises:
        `ValueError`: if the vocabulary has no mask token.

    Source: G-Transformer (Bao et al. 2021), released training settings: 0.3 in the first 30 epochs, and 0.1 in the
    first 40 of a model that starts from a sentence-level one.
    """

    def __init__(self, probability: float, config: DocMTConfig, tokenizer: PreTrainedTokenizerBase):
        if config.mask_token_id is None:
            raise ValueError(
                f"`word_dropout={probability}` replaces words by `<mask>`, which the tokenizer does not have: add the "
                "token, train a tokenizer with `training.train_tokenizer`, or leave `word_dropout` out."
            )
        self.probability = probability
        self.mask_token_id = config.mask_token_id
        names = ("pad", "bos", "eos", "sep", "bod", "sos", "mask", "decoder_start")
        special = {getattr(config, f"{name}_token_id") for name in names}
        special |= {*config.separator_ids(), *tokenizer.all_special_ids}
        self.special_ids = torch.tensor(sorted(token for token in special if token is not None))

    def __call__(self, ids: torch.LongTensor) -> torch.LongTensor:
        """Ids of any shape with some of the words replaced; `ids` itself is left as it is."""
        is_word = torch.isin(ids, self.special_ids.to(ids.device), invert=True)
        is_hidden = torch.rand(ids.shape, device=ids.device) < self.probability
        return ids.masked_fill(is_word & is_hidden, self.mask_token_id)
