"""
Scores of translated documents, each with its signature.

A hypothesis is a document, a list of sentences, and sentence i of the hypothesis stands against sentence i of the
reference. `MEASURES` (s-BLEU, d-BLEU, chrF and TER, through sacreBLEU) need hypotheses and references, and are
computed unless others are asked for; `DISCOURSE_MEASURES` read the source or labels beside them: pronoun-F1 and
formality-F1 (English to German), TCP with its parts TC, CP and PT (a labelled test set), and lexical-consistency.
COMET needs a checkpoint, and the package unbabel-comet in an environment of its own.

Every measure is made of counts of documents that can be summed, so that `training.bootstrap` resamples documents for
all of them. The folders `pronoun_f1`, `formality_f1`, `tcp` and `lexical_consistency` hold the discourse measures as
modules of the library evaluate: `evaluate.load("training/metrics/pronoun_f1")`.
"""

from .documents import Documents, bleu_tokenizer, check_counts, check_sources
from .measures import (
    ALL_MEASURES,
    DISCOURSE_MEASURES,
    LOWER_IS_BETTER,
    Measured,
    MeasureInputs,
    check_measure,
    document_statistics,
    measure_documents,
    score_documents,
    score_formality,
    score_lexical_consistency,
    score_pronouns,
    score_tcp,
    scores_from_sums,
)
from .surface import MEASURES, build_metric, metric_lines, signature
from .taggers import TAGGERS, load_tagger


__all__ = [
    "ALL_MEASURES",
    "DISCOURSE_MEASURES",
    "LOWER_IS_BETTER",
    "MEASURES",
    "TAGGERS",
    "Documents",
    "MeasureInputs",
    "Measured",
    "bleu_tokenizer",
    "build_metric",
    "check_counts",
    "check_measure",
    "check_sources",
    "document_statistics",
    "load_tagger",
    "measure_documents",
    "metric_lines",
    "score_documents",
    "score_formality",
    "score_lexical_consistency",
    "score_pronouns",
    "score_tcp",
    "scores_from_sums",
    "signature",
]
