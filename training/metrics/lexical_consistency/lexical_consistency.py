"""Lexical consistency as a module of the library evaluate, loaded from its folder and without a network."""

import datasets
import evaluate

from training.metrics import score_lexical_consistency


_DESCRIPTION = """
Lexical consistency: of the source terms that come back in a document, the percentage that one word translates
throughout. Translations are known from a table that is learned from the references.
"""

_INPUTS = """
Args:
    sources, predictions, references (`list[list[str]]`):
        Documents as lists of detokenised sentences; sentence i of each belongs to sentence i of the others.
    source_lang, target_lang (`str`, *optional*):
        Languages, to refuse those that are written without blanks.

Returns:
    `dict`: `score` in percent (None where no term comes back), `score_of_translated` among the terms that are
    translated throughout, the numbers of `terms`, `translated` and `consistent` ones, the same of the references in
    `reference`, and `signature`.

Example:
    >>> metric = evaluate.load("training/metrics/lexical_consistency")
    >>> document = ["The merman swims.", "A merman sleeps."]
    >>> translation = ["Der Wassermann schwimmt.", "Ein Wassermann schläft."]
    >>> metric.compute(sources=[document], predictions=[translation], references=[translation])["score"]
    100.0
"""

_CITATION = r"""
@inproceedings{guillou-2013-analysing,
    title = "Analysing Lexical Consistency in Translation",
    author = "Guillou, Liane",
    booktitle = "Proceedings of the Workshop on Discourse in Machine Translation",
    year = "2013",
}
"""


class LexicalConsistency(evaluate.Metric):
    """`evaluate.load("training/metrics/lexical_consistency")`; see `training.metrics.lexical` for the definition."""

    def _info(self) -> evaluate.MetricInfo:
        documents = datasets.Sequence(datasets.Value("string"))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features({"sources": documents, "predictions": documents, "references": documents}),
        )

    def _compute(self, sources, predictions, references, source_lang=None, target_lang=None):
        return score_lexical_consistency(
            sources, predictions, references, source_lang=source_lang, target_lang=target_lang
        )
