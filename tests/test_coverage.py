"""Sentence coverage: what counts as a covered document, from token ids and from the status of sentences."""

import pytest

from modeling_docmt import DocMTConfig
from modeling_docmt.decoding_documents_docmt import DocumentJob
from modeling_docmt.decoding_options_docmt import DocumentOptions
from modeling_docmt.decoding_requests_docmt import Hypothesis, read_sentences
from modeling_docmt.decoding_tasks_docmt import document_tasks, fit_sentences
from training.coverage import coverage, coverage_lines, is_covered, missing_sentences


PAD, EOS, SEP = 1, 3, 4
SEP1, SEP2, SEP3 = 10, 11, 12
WORD = 300


def config_of(indexed):
    return DocMTConfig.from_system("concat-document", indexed_separators=indexed)


@pytest.mark.parametrize(
    ("ids", "covered", "missing"),
    [
        pytest.param([WORD, SEP1, WORD, SEP2, WORD, EOS], True, 0, id="all, in order"),
        pytest.param([WORD, SEP1, WORD, SEP2, WORD, EOS, PAD, SEP3], True, 0, id="nothing is read behind the end"),
        pytest.param([WORD, SEP1, WORD, EOS], False, 1, id="the last one missing"),
        pytest.param([WORD, EOS], False, 2, id="two missing"),
        pytest.param([WORD, SEP2, WORD, SEP1, WORD, EOS], False, 0, id="out of order"),
        pytest.param([WORD, SEP1, WORD, SEP3, WORD, EOS], False, 1, id="one skipped"),
        pytest.param([WORD, SEP1, WORD, SEP1, WORD, SEP2, EOS], False, 0, id="one twice"),
        pytest.param([WORD, SEP1, WORD, SEP2, WORD, SEP3, WORD, EOS], False, 0, id="one too many"),
        pytest.param([WORD, SEP, WORD, SEP, WORD, EOS], False, 2, id="without indices"),
        pytest.param([WORD, SEP1, WORD, SEP2, WORD], False, 0, id="no end"),
        pytest.param([], False, 2, id="nothing"),
    ],
)
def test_indexed_separators_must_be_those_that_are_due(ids, covered, missing):
    # fails if separators are compared as sets, if the end is not asked for, or if what follows it is read
    assert is_covered(ids, 3, config_of(indexed=True)) is covered
    assert missing_sentences(ids, 3, config_of(indexed=True)) == missing


@pytest.mark.parametrize(
    ("ids", "covered", "missing"),
    [
        ([WORD, SEP, WORD, SEP, WORD, EOS], True, 0),
        ([SEP, SEP, EOS], True, 0),
        ([WORD, SEP, WORD, EOS], False, 1),
        ([WORD, SEP, WORD, SEP, WORD, SEP, WORD, EOS], False, 0),
        ([WORD, SEP1, WORD, SEP2, WORD, EOS], False, 2),
    ],
)
def test_uniform_separators_are_counted(ids, covered, missing):
    assert is_covered(ids, 3, config_of(indexed=False)) is covered
    assert missing_sentences(ids, 3, config_of(indexed=False)) == missing


def test_one_sentence_needs_no_separator_and_none_cannot_be_covered():
    assert is_covered([WORD, EOS], 1, config_of(indexed=True))
    assert not is_covered([WORD, SEP1, EOS], 1, config_of(indexed=True))
    with pytest.raises(ValueError, match="`num_sentences` must be 1 or more, got 0"):
        is_covered([EOS], 0, config_of(indexed=True))


def test_documents_are_counted_once_and_sentences_each():
    # fails if documents that the model never got are taken for covered
    found = coverage(
        [
            ["ok", "ok", "repetition"],
            ["ok", "missing", "missing"],
            ["ok", "joined"],
            ["ok", "hit_length_limit"],
            ["source_split"],
            [],
        ]
    )
    assert found == {
        "score": 40.0,
        "documents": 5,
        "covered_documents": 2,
        "missing_sentences": 2,
        "missing_sentences_per_document": 0.4,
        "documents_with_missing": 1,
        "documents_with_surplus": 1,
        "documents_cut": 1,
        "documents_without_text": 1,
    }


def test_no_document_has_no_score_and_no_line():
    found = coverage([[], []])
    assert (found["score"], found["missing_sentences_per_document"], found["documents_without_text"]) == (
        None,
        None,
        2,
    )
    assert coverage_lines({"test_sets": [{"name": "t", "coverage": found}, {"name": "u"}]}) == []


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize("is_cut", [False, True])
def test_status_and_token_ids_agree(indexed, count, is_cut):
    """
    What `generate()` says of its sentences tells as much as the ids that it generated.

    Fails if an output that was ended by the length limit counts as one that the model ended.
    """
    config = config_of(indexed)
    sentences = [[WORD] * 2 for _ in range(4)]
    job = DocumentJob.from_sentences(sentences, [], config, 1)
    (task,) = document_tasks(job, config, DocumentOptions(decoding="free"))
    # `count` separators; the limit forces the end, which is no end of the model's own
    ids = [token for index in range(count) for token in (WORD, SEP1 + index if indexed else SEP)] + [WORD]
    ids += [WORD] * (task.request.max_new_tokens - 1 - len(ids)) if is_cut else []
    fitted = fit_sentences(
        read_sentences(Hypothesis([*ids, EOS]), task.request, config), task.request, len(sentences), config
    )
    found = coverage([[translation.flag or "ok" for translation in fitted]])
    assert found["covered_documents"] == is_covered(ids if is_cut else [*ids, EOS], len(sentences), config)
    assert found["missing_sentences"] == missing_sentences(ids, len(sentences), config)
