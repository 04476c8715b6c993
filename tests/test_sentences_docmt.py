import torch

from modeling_docmt import DocMTConfig
from modeling_docmt.formatting_docmt import format_sequence
from modeling_docmt.sentences_docmt import source_sentence_ids, target_sentence_ids


CONFIG = DocMTConfig()


def test_a_separator_belongs_to_the_sentence_that_it_closes():
    ids = torch.tensor([[300, 301, 4, 302, 10, 4, 303, 3]])
    assert source_sentence_ids(ids, CONFIG).tolist() == [[0, 0, 0, 1, 1, 2, 3, 3]]


def test_a_decoder_query_that_reads_a_separator_predicts_the_next_sentence():
    ids = torch.tensor([[2, 300, 4, 301, 11, 302]])
    assert target_sentence_ids(ids, CONFIG).tolist() == [[0, 0, 1, 1, 2, 2]]


def test_target_ids_of_the_input_equal_source_ids_of_the_labels():
    labels = torch.tensor([[300, 4, 301, 302, 4, 4, 303, 3]])
    decoder_input = torch.cat((torch.tensor([[2]]), labels[:, :-1]), dim=1)
    assert torch.equal(target_sentence_ids(decoder_input, CONFIG), source_sentence_ids(labels, CONFIG))


def test_separators_of_the_cached_past_are_counted():
    ids = torch.tensor([[2, 300, 4, 301, 4, 302], [2, 300, 301, 4, 4, 302]])
    whole = target_sentence_ids(ids, CONFIG)
    past = torch.tensor([1, 0])
    assert torch.equal(target_sentence_ids(ids[:, 3:], CONFIG, past), whole[:, 3:])


def test_sentence_lengths_with_separators_sum_to_the_sequence():
    """INV-A4: non-decreasing, every sentence once, sum J_n + o = J."""
    config = DocMTConfig(use_sos=True, indexed_separators=True, sequence_format="document")
    ids = torch.tensor([format_sequence([[300], [301, 302], [], [303]], config)])
    sentence_ids = source_sentence_ids(ids, config)[0]
    assert sentence_ids.tolist() == sorted(sentence_ids.tolist())
    assert sentence_ids.bincount().tolist() == [1 + 2, 3, 1, 2]
