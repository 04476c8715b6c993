"""Pronoun F1 as a module of the library evaluate, loaded from its folder and without a network."""

import datasets
import evaluate

from training.metrics import score_pronouns


_DESCRIPTION = """
Pronoun F1 for English to German: of the sentences whose source holds "it", the pronouns of the translation by gender
against those of the reference.
"""

_INPUTS = """
Args:
    sources, predictions, references (`list[list[str]]`):
        Documents as lists of detokenised sentences; sentence i of each belongs to sentence i of the others.
    tagger (`str`, *optional*, defaults to "hanta"):
        "hanta" (`pip install HanTa`), "spacy" (with the small models of both languages) or "none".
    source_lang, target_lang (`str`, *optional*, default to "en" and "de"):
        Languages; others are refused.

Returns:
    `dict`: `score` (F1), `precision` and `recall` in percent, the same and the counts for each of `classes`,
    `sentences` that counted, the scores with `blonde_weights`, and `signature`.

Example:
    >>> metric = evaluate.load("training/metrics/pronoun_f1")
    >>> metric.compute(
    ...     sources=[["It is late."]], predictions=[["Er ist spät."]], references=[["Es ist spät."]]
    ... )["score"]
    0.0
"""

_CITATION = r"""
@inproceedings{herold-ney-2023-improving,
    title = "Improving Long Context Document-Level Machine Translation",
    author = "Herold, Christian and Ney, Hermann",
    booktitle = "Proceedings of the 4th Workshop on Computational Approaches to Discourse (CODI 2023)",
    year = "2023",
}
@inproceedings{jiang-etal-2022-blonde,
    title = "{B}lon{D}e: An Automatic Evaluation Metric for Document-level Machine Translation",
    author = "Jiang, Yuchen Eleanor and others",
    booktitle = "Proceedings of NAACL 2022",
    year = "2022",
}
"""


class PronounF1(evaluate.Metric):
    """`evaluate.load("training/metrics/pronoun_f1")`; see `training.metrics.pronouns` for the definition."""

    def _info(self) -> evaluate.MetricInfo:
        documents = datasets.Sequence(datasets.Value("string"))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features({"sources": documents, "predictions": documents, "references": documents}),
        )

    def _compute(self, sources, predictions, references, tagger="hanta", source_lang="en", target_lang="de"):
        return score_pronouns(
            sources, predictions, references, source_lang=source_lang, target_lang=target_lang, tagger=tagger
        )
