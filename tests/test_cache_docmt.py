import torch

from modeling_docmt.cache_docmt import empty_beam_cache


def test_only_self_attention_states_follow_the_beams():
    cache = empty_beam_cache()
    own, source = (torch.arange(4.0).view(4, 1, 1, 1).expand(4, 2, 3, 5).clone() for _ in range(2))
    cache.self_attention_cache.update(own, own, 0)
    cache.cross_attention_cache.update(source, source, 0)
    cache.reorder_cache(torch.tensor([1, 1, 2, 2]))
    assert cache.self_attention_cache.layers[0].keys[:, 0, 0, 0].tolist() == [1, 1, 2, 2]
    assert cache.cross_attention_cache.layers[0].keys[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
