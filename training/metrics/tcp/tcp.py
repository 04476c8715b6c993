"""TCP as a module of the library evaluate, loaded from its folder and without a network."""

import datasets
import evaluate

from training.metrics import score_tcp
from training.metrics.tcp_score import parse_labels


_DESCRIPTION = """
TCP: the geometric mean of the percentages of labelled tenses (TC), conjunctions (CP) and pronouns (PT) that a
translation into English has at their places, on the labelled test set of Sun et al.
"""

_INPUTS = """
Args:
    predictions (`list[list[str]]`):
        Translated documents as lists of sentences.
    references (`list[str]`):
        Tokenised reference documents; only their tokens are counted.
    phenomena (`list[str]`):
        What the labels of each document are: "tense", "conjunction" or "pronoun".
    labels (`list[str]`):
        Labels of each document as in the files of the test set, separated by tabs: the index of a token of the
        reference, a colon, and the candidates, separated by commas.
    is_tokenized (`bool`, *optional*, defaults to `False`):
        The predictions are tokenised like the references already.

Returns:
    `dict`: `score` (TCP; None where one of the three has no label), `TC`, `CP` and `PT` in percent, `hits` and
    `labels` of each, and `signature`.

Example:
    >>> metric = evaluate.load("training/metrics/tcp")
    >>> metric.compute(
    ...     predictions=[["He went home."]], references=["He left ."], phenomena=["tense"], labels=["1:left,went"]
    ... )["TC"]
    100.0
"""

_CITATION = r"""
@inproceedings{sun-etal-2022-rethinking,
    title = "Rethinking Document-level Neural Machine Translation",
    author = "Sun, Zewei and others",
    booktitle = "Findings of the Association for Computational Linguistics: ACL 2022",
    year = "2022",
}
"""


class TCP(evaluate.Metric):
    """`evaluate.load("training/metrics/tcp")`; see `training.metrics.tcp_score` for the definition."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": datasets.Sequence(datasets.Value("string")),
                    "references": datasets.Value("string"),
                    "phenomena": datasets.Value("string"),
                    "labels": datasets.Value("string"),
                }
            ),
        )

    def _compute(self, predictions, references, phenomena, labels, is_tokenized=False):
        documents = [
            {"tgt_tok": reference, "phenomenon": phenomenon, "labels": parse_labels(line)}
            for reference, phenomenon, line in zip(references, phenomena, labels, strict=True)
        ]
        return score_tcp(predictions, documents, is_tokenized=is_tokenized)
