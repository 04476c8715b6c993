import torch

from modeling_docmt import DocMTConfig, cache_docmt
from modeling_docmt.attention_decoding import attend_stretches
from modeling_docmt.attention_reference import reference_attention
from modeling_docmt.cache_docmt import DocumentCache, StepCache
from modeling_docmt.masking_search_docmt import SearchQueries


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


def empty_cache(num_beams: int, **config) -> DocumentCache:
    shape = {"d_model": 4, "decoder_layers": 1, "encoder_attention_heads": 1, "decoder_attention_heads": 1}
    return DocumentCache(DocMTConfig(**shape, **config), num_beams, torch.float32, torch.device("cpu"))


def step(cache: DocumentCache, values: list[list[float]]) -> StepCache:
    """A decoding step that writes `values[i][g]` in the place of sequence i and beam g."""
    new = torch.tensor(values)
    positions = (cache.committed_ends + cache.width - cache.starts)[:, None, None]
    view = cache.step(SearchQueries(positions, torch.zeros(*new.shape, 1, dtype=torch.long)))
    view.update(0, *[new[:, None, :, None, None].expand(-1, 1, -1, 1, 4)] * 2)
    return view


def visible_keys(cache: DocumentCache, view: StepCache) -> list[list[list[float]]]:
    """First numbers of the keys of the current stretch that each beam of each sequence sees."""
    keys = cache.current[0, 0, :, 0, : view.column.stop, 0]
    mask = view.masks("decoder", ["dense"])["dense"][-1]
    if mask is None:
        return [[row.tolist()] * cache.num_beams for row in keys]
    return [[row[shown].tolist() for shown in beams] for row, beams in zip(keys, mask[:, 0, :, 0] == 0, strict=True)]


def show_source(cache: DocumentCache, sequence: int, length: int) -> None:
    cache.set_source(sequence, torch.zeros(2, 1, 1, length, 4), torch.zeros(length, dtype=torch.long), offset=0)


def test_a_beam_sees_the_history_that_it_continues():
    # fails if keys are looked up by the beam that asks in place of the beam that computed them
    cache = empty_cache(num_beams=2)
    cache.admit(1)
    assert visible_keys(cache, step(cache, [[1, 2]])) == [[[1], [2]]]
    cache.reorder(torch.tensor([[1, 1]]))
    assert visible_keys(cache, step(cache, [[3, 4]])) == [[[2, 3], [2, 4]]]
    cache.reorder(torch.tensor([[1, 0]]))
    assert visible_keys(cache, step(cache, [[5, 6]])) == [[[2, 4, 5], [2, 3, 6]]]


def test_a_sequence_sees_nothing_of_those_that_were_there_before_it():
    # fails if the columns of a place stay visible when another sequence takes it
    cache = empty_cache(num_beams=1)
    cache.admit(2)
    show_source(cache, 0, 4)
    show_source(cache, 1, 2)
    for value in (1.0, 2.0):
        step(cache, [[value], [value]])
    cache.keep(torch.tensor([1]))
    cache.admit(1)
    show_source(cache, 1, 7)
    view = step(cache, [[3.0], [3.0]])
    assert visible_keys(cache, view) == [[[1, 2, 3]], [[3]]]
    [source_mask] = view.masks("cross", ["dense"])["dense"]
    assert (source_mask[:, 0, 0, 0] == 0).sum(dim=-1).tolist() == [2, 7]
    # the first leaves, and with it the columns that it alone had used
    cache.keep(torch.tensor([1]))
    cache.drop_columns(2)
    assert cache.width == 1 and cache.can_commit_current(0, length=1)
    cache.commit_current(0, length=1)
    cache.restart(torch.tensor([0]))
    assert cache.committed.lengths.tolist() == [1]
    assert cache.committed.states[0, 0, 0, 0, 0, 0] == 3.0


def test_windows_forget_columns_and_committed_keys_that_no_later_token_sees(monkeypatch):
    # fails if positions are counted from what is left
    monkeypatch.setattr(cache_docmt, "SURPLUS", 2)
    windows = {"encoder_self_attention": "window", "decoder_self_attention": "window", "window_size": 3}
    cache = empty_cache(num_beams=1, **windows)
    cache.admit(1)
    for value in range(9):
        view = step(cache, [[float(value)]])
    assert cache.current.shape[-2] < 9 + cache_docmt.GROWTH
    mask = view.masks("decoder", ["window"])["window"][-1]
    keys = cache.current[0, 0, 0, 0, : view.column.stop, 0]
    shown = keys if mask is None else keys[mask[0, 0, 0, 0] == 0]
    assert shown.tolist() == [5, 6, 7, 8]
    assert cache.can_commit_current(0, length=8) and not cache.can_commit_current(0, length=2)
    cache.commit_current(0, length=8)
    cache.forget()
    assert cache.committed.states[0, 0, 0, 0, :3, 0].tolist() == [5, 6, 7]
    assert cache.committed.offsets.tolist() == [5] and cache.committed_ends.tolist() == [8]
