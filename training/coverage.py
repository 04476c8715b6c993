"""
Sentence coverage: how often a model that may stop where it likes gives one sentence for each.

A document is covered where the model, with no count to keep to, generates N - 1 separators for its N sentences, those
that are due, and then ends the output by itself. Coverage is the share of covered documents. It means something for
`decoding="free"` alone: the other modes make N sentences out of any model.

Source: Li et al. (P-Transformer), on sentence coverage. A document longer than a part, or than a block of context
windows, is covered where each of its sequences is.
"""

from collections.abc import Sequence
from typing import Any

from modeling_docmt.configuration_docmt import DocMTConfig, required_token
from modeling_docmt.formatting_docmt import separator_after


# formats whose sequences hold one sentence have nothing to cover
FORMATS_WITH_COVERAGE = ("context_window", "document")


def generated_separators(ids: Sequence[int], config: DocMTConfig) -> list[int]:
    """Separators of an output of token ids, in order, up to `<eos>`."""
    separators = set(config.separator_ids())
    end = ids.index(config.eos_token_id) if config.eos_token_id in ids else len(ids)
    return [token for token in ids[:end] if token in separators]


def is_covered(ids: Sequence[int], num_sentences: int, config: DocMTConfig) -> bool:
    """
    Whether an output holds one sentence for each, whatever decoded it.

    Args:
        ids (`Sequence[int]`):
            Generated token ids of one sequence, behind the decoder start token; padding may follow.
        num_sentences (`int`):
            Sentences of the source sequence, N.
        config (`DocMTConfig`):
            Says which separators are due: `<sep1>` to `<sepN-1>` in this order, or `<sep>` N - 1 times.

    Returns:
        `bool`: True where those are the separators of the output, no other, and it ends in `<eos>`.

    Raises:
        `ValueError`: if a sequence of so many sentences cannot exist.
    """
    due = due_separators(num_sentences, config)
    return required_token(config, "eos_token_id") in ids and generated_separators(ids, config) == due


def missing_sentences(ids: Sequence[int], num_sentences: int, config: DocMTConfig) -> int:
    """
    Sentences of a sequence that an output lacks.

    Args:
        ids, num_sentences, config: As in `is_covered`.

    Returns:
        `int`: the separators that are due and not generated; those out of turn or twice make up for none.
    """
    due, found = due_separators(num_sentences, config), generated_separators(ids, config)
    return sum(max(0, due.count(token) - found.count(token)) for token in set(due))


def due_separators(num_sentences: int, config: DocMTConfig) -> list[int]:
    """The separators of a sequence of N sentences, in order."""
    if num_sentences < 1:
        raise ValueError(f"`num_sentences` must be 1 or more, got {num_sentences}: nothing is generated for nothing.")
    return [separator_after(index, config) for index in range(num_sentences - 1)]


def coverage(documents: Sequence[Sequence[str]]) -> dict[str, Any]:
    """
    Count covered documents from what `generate(decoding="free")` says of their sentences.

    Args:
        documents (`Sequence[Sequence[str]]`):
            `sentence_status` of each document, with the pieces of a long sentence one by one; sentences that the model
            never got are left out. A document without any was never given to the model and does not count.

    Returns:
        `dict`: JSON-able. `score`, percent of covered documents, and `missing_sentences_per_document`, both None where
        no document counts; the numbers that they are made of; and why documents are not covered: `missing` and
        `surplus` sentences, those out of order among them, or `cut` at the length limit before the model ended the
        output.
    """
    counted = [set(statuses) for statuses in documents if statuses]
    missing = sum(list(statuses).count("missing") for statuses in documents)
    covered = sum(statuses.isdisjoint(("missing", "joined", "hit_length_limit")) for statuses in counted)
    return {
        "score": round(100 * covered / len(counted), 4) if counted else None,
        "documents": len(counted),
        "covered_documents": covered,
        "missing_sentences": missing,
        "missing_sentences_per_document": round(missing / len(counted), 4) if counted else None,
        "documents_with_missing": sum("missing" in statuses for statuses in counted),
        "documents_with_surplus": sum("joined" in statuses for statuses in counted),
        "documents_cut": sum("hit_length_limit" in statuses for statuses in counted),
        "documents_without_text": len(documents) - len(counted),
    }


def coverage_lines(result: dict[str, Any]) -> list[str]:
    """Lay out the coverage of a result file for reading, a line a test set that has it."""
    lines = []
    for test_set in result["test_sets"]:
        found = test_set.get("coverage")
        if found and found["documents"]:
            lines.append(
                f"coverage of {test_set['name']}: {found['score']:.2f} % ({found['covered_documents']} of "
                f"{found['documents']} documents), {found['missing_sentences_per_document']:.2f} missing sentences a "
                "document"
            )
    return lines
