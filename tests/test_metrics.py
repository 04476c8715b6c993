"""Scores: what sacreBLEU says for the same lines, with the recipe beside the number, and nothing for wrong counts."""

import gzip
import json

import pytest
import sacrebleu

from training.metrics import (
    MEASURES,
    bleu_tokenizer,
    build_metric,
    check_counts,
    check_sources,
    metric_lines,
    score_documents,
)


HYPOTHESES = [["The cat sat on the mat .", "It was very tired ."], ["Who rings the bell at night ?"]]
REFERENCES = [["The cat sat on a mat .", "It was so very tired ."], ["Who rings the bell at noon ?"]]


def test_reference_as_hypothesis_is_perfect():
    scores = score_documents(REFERENCES, REFERENCES)
    assert {measure: scores[measure]["score"] for measure in MEASURES} == {
        "s-BLEU": 100.0,
        "d-BLEU": 100.0,
        "chrF": 100.0,
        "TER": 0.0,
    }


def test_document_bleu_of_one_sentence_documents_is_sentence_bleu():
    hypotheses = [[sentence] for document in HYPOTHESES for sentence in document]
    references = [[sentence] for document in REFERENCES for sentence in document]
    scores = score_documents(hypotheses, references)
    assert scores["d-BLEU"] == scores["s-BLEU"]
    assert 0 < scores["s-BLEU"]["score"] < 100


def test_scores_are_those_of_sacrebleu():
    lines = [sentence for document in HYPOTHESES for sentence in document]
    references = [sentence for document in REFERENCES for sentence in document]
    scores = score_documents(HYPOTHESES, REFERENCES)
    assert scores["s-BLEU"]["score"] == pytest.approx(sacrebleu.corpus_bleu(lines, [references]).score, abs=1e-4)
    assert scores["chrF"]["score"] == pytest.approx(sacrebleu.corpus_chrf(lines, [references]).score, abs=1e-4)
    assert scores["TER"]["score"] == pytest.approx(sacrebleu.corpus_ter(lines, [references]).score, abs=1e-4)
    joined = [" ".join(document) for document in HYPOTHESES]
    joined_references = [" ".join(document) for document in REFERENCES]
    expected = sacrebleu.corpus_bleu(joined, [joined_references]).score
    assert scores["d-BLEU"]["score"] == pytest.approx(expected, abs=1e-4)
    assert scores["d-BLEU"]["score"] != scores["s-BLEU"]["score"]


def test_signatures_are_the_fixed_ones():
    scores = score_documents(HYPOTHESES, REFERENCES)
    version = f"version:{sacrebleu.__version__}"
    bleu = f"BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}"
    assert scores["s-BLEU"]["signature"] == scores["d-BLEU"]["signature"] == bleu
    assert scores["TER"]["signature"] == f"TER|nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|{version}"
    assert scores["chrF"]["signature"] == f"chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}"


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [(None, "13a"), ("de", "13a"), ("zh", "zh"), ("zh-TW", "zh"), ("zho_Hans", "zh"), ("ZH_cn", "zh"), ("zhx", "13a")],
)
def test_tokenizer_follows_the_language(language, tokenizer):
    assert bleu_tokenizer(language) == tokenizer


def test_chinese_is_scored_by_characters():
    hypothesis, reference = [["他今天没有来学校。"]], [["他昨天没有来学校。"]]
    scores = score_documents(hypothesis, reference, "zh")
    assert "tok:zh" in scores["s-BLEU"]["signature"]
    assert scores["s-BLEU"]["score"] > 50
    assert scores["TER"]["score"] < 20
    assert "asian:yes" in scores["TER"]["signature"]
    assert score_documents(hypothesis, reference, "de")["s-BLEU"]["score"] == 0


def test_ter_ignores_case_and_bleu_does_not():
    scores = score_documents([["THE CAT SAT ON A MAT"]], [["the cat sat on a mat"]])
    assert scores["TER"]["score"] == 0
    assert scores["s-BLEU"]["score"] == 0


def test_only_the_measures_asked_for_are_computed():
    assert list(score_documents(HYPOTHESES, REFERENCES, measures=("d-BLEU", "s-BLEU"))) == ["d-BLEU", "s-BLEU"]


def test_unknown_measure_names_the_known_ones():
    with pytest.raises(ValueError, match="'s-BLEU', 'd-BLEU', 'chrF', 'TER', got 'BLEU'"):
        build_metric("BLEU")


@pytest.mark.parametrize("measure", MEASURES)
def test_empty_sentences_and_documents_are_scored(measure):
    hypotheses = [["", "The cat sat on a mat ."], [], ["a"]]
    references = [["", "The cat sat on a mat ."], [], [""]]
    score = score_documents(hypotheses, references, measures=(measure,))[measure]["score"]
    assert 0 <= score <= 100


def test_empty_hypothesis_scores_nothing():
    scores = score_documents([["", ""]], [["The cat sat .", "It was tired ."]])
    assert scores["s-BLEU"]["score"] == scores["d-BLEU"]["score"] == scores["chrF"]["score"] == 0
    assert scores["TER"]["score"] == 100


def test_wrong_sentence_count_names_document_and_counts():
    with pytest.raises(ValueError, match="document 1 has 2 hypothesis sentences and 1 reference sentences"):
        score_documents([["a"], ["b", "c"]], [["a"], ["b"]])
    with pytest.raises(ValueError, match="document 'second'"):
        check_counts([["a"], ["b", "c"]], [["a"], ["b"]], names=["first", "second"])


def test_wrong_document_count_names_both_counts():
    with pytest.raises(ValueError, match="1 hypothesis documents and 2 reference documents"):
        score_documents([["a"]], [["a"], ["b"]])


def test_a_document_that_is_a_string_is_refused():
    with pytest.raises(TypeError, match="`hypotheses` must hold a list of sentences for each document"):
        score_documents(["abc"], [["a", "b", "c"]])
    with pytest.raises(TypeError, match="`sources` must hold a list of sentences for each document"):
        check_sources(["abc"], [["a", "b", "c"]])


def test_wrong_counts_of_the_source_name_document_and_counts():
    with pytest.raises(ValueError, match="1 source documents and 2 reference documents"):
        check_sources([["a"]], [["a"], ["b"]])
    with pytest.raises(ValueError, match="document 'x' has 2 source sentences and 1 reference sentences"):
        check_sources([["a", "b"]], [["a"]], names=["x"])


@pytest.mark.parametrize("documents", [[], [[]], [[], []]])
def test_nothing_to_score_is_said(documents):
    with pytest.raises(ValueError, match="nothing to score.*Check that the test set is the right file"):
        score_documents(documents, documents)


def test_document_lines_join_sentences_by_one_blank():
    assert metric_lines([["a b", "c"], ["d"]], "d-BLEU") == ["a b c", "d"]
    assert metric_lines([["a b", "c"], ["d"]], "s-BLEU") == ["a b", "c", "d"]


@pytest.mark.parametrize(("domain", "expected"), [("wesnoth", 1.4), ("libreoffice", 8.6), ("literature", 0.2)])
def test_copying_the_source_has_the_known_score(docmt_data, domain, expected):
    with gzip.open(docmt_data / f"test.en-de.{domain}.jsonl.gz", "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    sources, references = [record["src"] for record in records], [record["tgt"] for record in records]
    assert round(score_documents(sources, references, "de", measures=("s-BLEU",))["s-BLEU"]["score"], 1) == expected
