import pytest
import torch

from modeling_docmt import DocMTConfig
from training.word_dropout import WordDropout


def test_words_are_masked_with_the_probability_and_special_tokens_never(tokenizer):
    """Fails if separators, the start, the end or padding are taken for words, or if the ids are changed in place."""
    config = DocMTConfig.from_system("p-transformer", vocab_size=len(tokenizer))
    special = [1, 2, 3, 4, 5, 6, 7, 10, 11, 10 + config.num_indexed_separators - 1]
    words = torch.arange(300, 500)
    ids = torch.cat((torch.tensor(special), words)).repeat(50, 1)
    before = ids.clone()
    masked = WordDropout(0.3, config, tokenizer)(ids)
    assert torch.equal(ids, before)
    assert torch.equal(masked[:, : len(special)], ids[:, : len(special)])
    hidden = masked[:, len(special) :] == config.mask_token_id
    assert 0.28 < hidden.float().mean() < 0.32
    assert torch.equal(masked[:, len(special) :][~hidden], ids[:, len(special) :][~hidden])


def test_the_state_of_the_generator_decides_which_words(tokenizer):
    dropout = WordDropout(0.5, DocMTConfig(), tokenizer)
    ids = torch.arange(300, 400)[None]
    state = torch.get_rng_state()
    first, second = dropout(ids), dropout(ids)
    torch.set_rng_state(state)
    assert torch.equal(dropout(ids), first) and not torch.equal(first, second)


def test_a_vocabulary_without_mask_token_is_refused_with_the_way_out(tokenizer):
    with pytest.raises(ValueError, match="`word_dropout=0.3`.*train_tokenizer"):
        WordDropout(0.3, DocMTConfig(mask_token_id=None), tokenizer)
