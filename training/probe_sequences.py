"""The probes of one model, from its sequences to accuracies by layer: of documents in files, or made up in memory."""

from collections.abc import Mapping
from typing import Any

import torch
from datasets import Dataset

from modeling_docmt import DocMTForConditionalGeneration

from .probe_maps import PositionProbes
from .probe_pairs import signed_distances
from .probe_report import describe_layers
from .probe_states import StateSource
from .probe_training import evaluate_probes, fit_probes


SPLITS = ("train", "validation", "test")


def probe_sequences(
    model: DocMTForConditionalGeneration,
    sequences: Mapping[str, Dataset],
    *,
    max_distance: int,
    combination: str,
    epochs: int,
    max_updates: int | None,
    learning_rate: float,
    batch_tokens: int,
    seed: int,
    name: str = "",
) -> dict[str, Any]:
    """
    Train probes on the frozen states of a model, pick them by validation, and score them.

    Args:
        model (`DocMTForConditionalGeneration`): In evaluation mode.
        sequences (`Mapping[str, Dataset]`):
            For each of `SPLITS` its model sequences, with columns `input_ids` and `source_length`, in tokens.
        max_distance (`int`): Largest distance of a pair in tokens, K.
        combination (`str`): How the states of a pair are joined, see `probe_maps`.
        epochs (`int`): Passes over the training sequences.
        max_updates (`int`, *optional*): Stop after as many updates.
        learning_rate (`float`): Of Adam.
        batch_tokens (`int`): Source tokens of a batch, padding included.
        seed (`int`): Of pairs, order and weights.
        name (`str`, *optional*): What to call the model in progress bars.

    Returns:
        `dict`: `data` (counts of each split), `num_positions`, `updates`, `chance` and `constant_answer` in percent,
        `distances` with `pairs_by_distance` of the test split, and `layers`, see `describe_layers`.

    Source: Li et al. (P-Transformer), on probing tasks.
    """
    sources = {
        split: StateSource(
            model,
            sequences[split],
            max_distance=max_distance,
            batch_tokens=batch_tokens,
            seed=seed,
            label=f"{name}: {split}",
        )
        for split in SPLITS
    }
    data = {split: source.summary() for split, source in sources.items()}
    num_positions = max(entry["longest"] for entry in data.values())
    torch.manual_seed(seed)
    config = model.config
    probes = PositionProbes(config.encoder_layers + 1, config.d_model, num_positions, max_distance, combination)
    probes.to(model.device)
    fit = fit_probes(
        probes,
        sources["train"].batches,
        sources["validation"].batches,
        epochs=epochs,
        learning_rate=learning_rate,
        max_updates=max_updates,
    )
    scores = evaluate_probes(probes, sources["test"].batches())
    return {
        "data": data,
        "num_positions": num_positions,
        "updates": fit.updates,
        "chance": {
            "absolute": round(100 / num_positions, 4),
            "relative": round(50 / max_distance, 4),
            "order": 50.0,
        },
        # no position is more frequent than the first one, which each sequence has
        "constant_answer": {"absolute": round(100 * data["test"]["sequences"] / data["test"]["items"], 4)},
        "distances": signed_distances(max_distance),
        "pairs_by_distance": scores["relative"].total.tolist(),
        "layers": describe_layers(scores, fit),
    }
