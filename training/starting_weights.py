"""The weights of an earlier model as the start of a new one: what is loaded, and what is fresh."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.utils import logging

from modeling_docmt import DocMTForConditionalGeneration


logger = logging.get_logger(__name__)

# what may be taken over, and how the names of its weights begin
INIT_PARTS = {"all": "", "encoder": "model.encoder."}


@dataclass(frozen=True)
class StartingWeights:
    """
    Which weights of a model came from another one. A weight that several modules share has one name, its first.

    Attributes:
        parts (`str`): What was asked for, a key of `INIT_PARTS`.
        loaded (`tuple[str, ...]`): Parameters and buffers whose values were loaded.
        fresh (`tuple[str, ...]`): Those whose values are random, or zeros.
        unused (`tuple[str, ...]`): What the other model has and this one does not take.
    """

    parts: str
    loaded: tuple[str, ...]
    fresh: tuple[str, ...]
    unused: tuple[str, ...]

    def summary(self, model: PreTrainedModel) -> dict[str, Any]:
        """For a results file: names, those of several layers as one, and how many parameters they have."""
        sizes = {name: weight.numel() for name, weight in model.named_parameters()}
        return {
            "parts": self.parts,
            "loaded_parameters": sum(sizes.get(name, 0) for name in self.loaded),
            "fresh_parameters": sum(sizes.get(name, 0) for name in self.fresh),
            "loaded": summarize_names(self.loaded),
            "fresh": summarize_names(self.fresh),
            "unused": summarize_names(self.unused),
        }


def load_starting_weights(
    model: DocMTForConditionalGeneration, path: str | Path, parts: str = "all"
) -> StartingWeights:
    """
    Load what two models have in common; the rest of the new one stays as it is.

    With `parts="encoder"`, embeddings and layers of the encoder are loaded, and the decoder stays fresh. Where
    embeddings are tied, the decoder's and the output layer are that same matrix, and have the loaded values, too.

    Args:
        model (`DocMTForConditionalGeneration`): The new model; changed in place.
        path (`str` or `Path`): Folder or Hub id of the other one.
        parts (`str`, *optional*, defaults to `"all"`): `"all"` or `"encoder"`.

    Raises:
        `ValueError`: if there is no such part.

    Source: Zheng et al. (2020), on transfer from sentence pairs: of the source side, or of both sides.
    """
    if parts not in INIT_PARTS:
        raise ValueError(f"`parts` must be one of {', '.join(map(repr, INIT_PARTS))}, got {parts!r}.")
    start = DocMTForConditionalGeneration.from_pretrained(path, dtype=torch.float32).state_dict()
    wanted = {name: weight for name, weight in start.items() if name.startswith(INIT_PARTS[parts])}
    # not by `from_pretrained`: what a system adds to dense attention is fresh, and some weights change their shape
    missing, unexpected = model.load_state_dict(wanted, strict=False)
    weights = model.state_dict(keep_vars=True)
    # a tied weight is loaded if one of its names is
    is_loaded: dict[int, bool] = {}
    first_names: dict[int, str] = {}
    for name, weight in weights.items():
        is_loaded[id(weight)] = is_loaded.get(id(weight), False) or name not in missing
        first_names.setdefault(id(weight), name)
    taken = {name for name, weight in weights.items() if is_loaded[id(weight)]}
    result = StartingWeights(
        parts=parts,
        loaded=tuple(name for key, name in first_names.items() if is_loaded[key]),
        fresh=tuple(name for key, name in first_names.items() if not is_loaded[key]),
        unused=tuple(name for name in start if name in unexpected or name not in taken),
    )
    if result.fresh or result.unused:
        logger.warning(
            f"Not from `init_from`, hence to be trained: {', '.join(summarize_names(result.fresh)) or 'nothing'}. In "
            f"it, but not taken: {', '.join(summarize_names(result.unused)) or 'nothing'}."
        )
    return result


@torch.no_grad()
def separator_from_eos(model: DocMTForConditionalGeneration) -> None:
    """
    Let `<sep>` begin as `<eos>`, in all embeddings and in the output layer.

    Raises:
        `ValueError`: for a format without separators, or with one for each number, which must differ.
    """
    config = model.config
    if config.sequence_format == "sentence" or config.indexed_separators:
        raise ValueError(
            "`separator_from_eos=True` is for formats with one separator: leave it out, got "
            f"`sequence_format={config.sequence_format!r}` and `indexed_separators={config.indexed_separators}`."
        )
    for name, weight in model.named_parameters():
        if name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight")):
            weight[config.sep_token_id] = weight[config.eos_token_id]


def summarize_names(names: Iterable[str]) -> list[str]:
    """Names of modules with weights, those that differ in the number of the layer alone as one: `layers.0-5.fc1`."""
    layers: dict[tuple[str, str], set[int]] = {}
    for name in names:
        module = name.removesuffix(".weight").removesuffix(".bias")
        found = re.fullmatch(r"(.*\.layers\.)(\d+)(\..*)", module)
        before, number, after = found.groups() if found else (module, "", "")
        layers.setdefault((before, after), set()).update([int(number)] if number else [])
    return [before + _ranges(numbers) + after for (before, after), numbers in layers.items()]


def _ranges(numbers: Iterable[int]) -> str:
    """Numbers as text, `0-3,5`; nothing for none."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
