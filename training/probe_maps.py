"""
Probes of positions: linear maps and a softmax on frozen states, one for each layer and task, all trained at once.

Tasks, for states h_i of a layer and a pair of positions (i, j):

- `absolute`: which position i is, 1 to K for K tokens of the longest sequence; softmax(W_A h_i).
- `relative`: the signed distance i - j, from -K to K without 0; softmax(W_R z_ij).
- `order`: 0 where i > j, 1 where i < j; softmax(W_O z_ij).

Source: Li et al. (P-Transformer), on probing tasks. How two states become z_ij is ours: h_i - h_j, which fits W_R and
W_O in size, or with `combination="mlp"` tanh(W [h_i; h_j] + b). Without a bias, a map of differences tells which token
stands first, but hardly how far apart two are, even from sinusoids themselves.
"""

from collections.abc import Iterator

import torch
from torch import nn

from .probe_pairs import order_class, relative_class
from .probe_states import ProbeBatch


TASKS = ("absolute", "relative", "order")
COMBINATIONS = ("difference", "mlp")
# numbers in the largest tensor of scores, all layers together
MOST_SCORES = 2**25


class LayerProbes(nn.Module):
    """
    One task: a map without bias for each layer, which starts at zero.

    Args:
        num_layers (`int`): Layers whose states are probed, the embeddings included.
        d_model (`int`): Size of a state.
        num_classes (`int`): Answers.
        combination (`str`, *optional*, defaults to `"difference"`): How the states of a pair are joined.
    """

    def __init__(self, num_layers: int, d_model: int, num_classes: int, combination: str = "difference"):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_layers, num_classes, d_model))
        self.combination = combination
        if combination == "mlp":
            bound = (2 * d_model) ** -0.5
            self.mix = nn.Parameter(torch.empty(num_layers, 2 * d_model, d_model).uniform_(-bound, bound))
            self.mix_bias = nn.Parameter(torch.zeros(num_layers, 1, d_model))

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> torch.Tensor:
        """States `(layers, n, d_model)` of tokens, or of both sides of pairs, to scores `(layers, n, classes)`."""
        z = first
        if second is not None and self.combination == "mlp":
            z = torch.tanh(torch.baddbmm(self.mix_bias, torch.cat((first, second), dim=-1), self.mix))
        elif second is not None:
            z = first - second
        return torch.bmm(z, self.weight.mT)


class PositionProbes(nn.Module):
    """
    The probes of a model, of all tasks and layers.

    Args:
        num_layers (`int`): Layers whose states are probed, the embeddings included.
        d_model (`int`): Size of a state.
        num_positions (`int`): Tokens of the longest sequence.
        max_distance (`int`): Largest distance of a pair.
        combination (`str`, *optional*, defaults to `"difference"`): `"difference"` or `"mlp"`, see the module.
    """

    def __init__(
        self, num_layers: int, d_model: int, num_positions: int, max_distance: int, combination: str = "difference"
    ):
        super().__init__()
        self.num_layers, self.max_distance = num_layers, max_distance
        self.num_classes = {"absolute": num_positions, "relative": 2 * max_distance, "order": 2}
        self.tasks = nn.ModuleDict(
            {
                task: LayerProbes(num_layers, d_model, classes, combination if task != "absolute" else "difference")
                for task, classes in self.num_classes.items()
            }
        )

    def labels(self, task: str, batch: ProbeBatch) -> torch.LongTensor:
        """The right answer of each token, or pair."""
        if task == "absolute":
            return batch.positions - 1
        if task == "relative":
            return relative_class(batch.distances, self.max_distance)
        return order_class(batch.distances)

    def answers(self, task: str, batch: ProbeBatch) -> Iterator[tuple[torch.Tensor, slice]]:
        """Scores `(layers, n, classes)` of the tokens or pairs of a slice, slice by slice."""
        count = len(batch.positions if task == "absolute" else batch.first)
        size = max(1, MOST_SCORES // (self.num_layers * self.num_classes[task]))
        for start in range(0, count, size):
            part = slice(start, start + size)
            if task == "absolute":
                yield self.tasks[task](batch.states[:, part]), part
            else:
                sides = (batch.states[:, side[part]] for side in (batch.first, batch.second))
                yield self.tasks[task](*sides), part
