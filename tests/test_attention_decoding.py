import torch

from modeling_docmt.attention_decoding import attend_stretches
from modeling_docmt.attention_reference import reference_attention
from modeling_docmt.cache_docmt import DocumentCache


def test_stretches_are_attended_as_one_run_of_keys():
    # fails if a stretch has a softmax of its own, or if beams are mixed up
    n, H, G, T, D = 2, 3, 4, 2, 5
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(n, H, G, T, D, generator=generator, dtype=torch.float64)
    stretches = [
        tuple(torch.randn(2, n, H, K, D, generator=generator, dtype=torch.float64).unbind()) for K in (6, 1, 3)
    ]
    hidden = torch.rand(n, G, T, 10, generator=generator) < 0.4
    hidden[..., 6] = False
    mask = torch.zeros(hidden.shape, dtype=torch.float64).masked_fill(hidden, -torch.inf)[:, None]
    masks = [mask[..., :6], None, mask[..., 7:]]
    output = attend_stretches(query, stretches, masks, scaling=0.3)
    key, value = (torch.cat(side, dim=2) for side in zip(*stretches, strict=True))
    for beam in range(G):
        expected = reference_attention(query[:, :, beam], key, value, ~hidden[:, beam], scaling=0.3)
        torch.testing.assert_close(output[:, :, beam].transpose(1, 2), expected, rtol=0, atol=1e-12)


def visible_keys(cache: DocumentCache, mask: torch.Tensor | None) -> list[list[list[float]]]:
    """First numbers of the keys of the current stretch that each beam of each sequence sees."""
    keys = cache.current[0, 0, :, 0, : cache.width * cache.num_beams, 0]
    if mask is None:
        return [[row.tolist()] * cache.num_beams for row in keys]
    return [[row[shown].tolist() for shown in beams] for row, beams in zip(keys, mask[:, 0, :, 0] == 0, strict=True)]


def test_a_beam_sees_the_history_that_it_continues():
    # fails if keys are looked up by the beam that asks in place of the beam that computed them
    cache = DocumentCache(num_beams=2)
    cache.admit(torch.zeros(2, 1, 1, 1, 4, 3), torch.tensor([4]))

    def step(first: float, second: float):
        view = cache.step()
        key = torch.tensor([first, second]).view(1, 1, 2, 1, 1).expand(1, 1, 2, 1, 3)
        view.update(0, key, key)
        return visible_keys(cache, view.masks("decoder")["dense"][-1])[0]

    assert step(1, 2) == [[1], [2]]
    cache.reorder(torch.tensor([[1, 1]]))
    assert step(3, 4) == [[2, 3], [2, 4]]
    cache.reorder(torch.tensor([[1, 0]]))
    assert step(5, 6) == [[2, 4, 5], [2, 3, 6]]


def test_a_sequence_sees_nothing_of_those_that_were_there_before_it():
    cache = DocumentCache(num_beams=1)
    cache.admit(torch.zeros(2, 1, 2, 1, 4, 3), torch.tensor([4, 2]))
    for value in (1.0, 2.0):
        cache.step().update(0, *[torch.full((2, 1, 1, 1, 3), value)] * 2)
    cache.keep(torch.tensor([1]))
    cache.admit(torch.zeros(2, 1, 1, 1, 7, 3), torch.tensor([7]))
    view = cache.step()
    view.update(0, *[torch.full((2, 1, 1, 1, 3), 3.0)] * 2)
    masks = view.masks("decoder")["dense"]
    assert visible_keys(cache, masks[-1]) == [[[1, 2, 3]], [[3]]]
    [source_mask] = view.masks("cross")["dense"]
    assert (source_mask[:, 0, 0, 0] == 0).sum(dim=-1).tolist() == [2, 7]
    # the first leaves, and with it the columns that it alone had used
    cache.keep(torch.tensor([1]))
    assert cache.width == 1
    cache.commit_current(0, length=1)
    cache.restart(torch.tensor([0]))
    assert cache.committed_lengths.tolist() == [1]
    assert cache.committed[0, 0, 0, 0, 0, 0] == 3.0
