"""Training and scoring of probes, see `probe_maps`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn

from .probe_maps import TASKS, PositionProbes
from .probe_pairs import relative_class
from .probe_states import ProbeBatch


# a position counts as nearly right up to this distance
TOLERANCE = 3


@dataclass
class Score:
    """
    Right answers of one task.

    Args:
        correct (`torch.LongTensor` of shape `(layers, groups)`):
            In each group: for pairs, those of a signed distance, as classes of `relative_class`; for tokens, all.
        near (`torch.LongTensor` of shape `(layers, groups)`): Answers at most `TOLERANCE` classes away.
        total (`torch.LongTensor` of shape `(groups,)`): Questions.
    """

    correct: torch.Tensor
    near: torch.Tensor
    total: torch.Tensor

    def accuracy(self) -> list[float]:
        """Percent of right answers of each layer."""
        return _percent(self.correct.sum(-1), self.total.sum())

    def tolerance_accuracy(self) -> list[float]:
        """Percent of right and nearly right answers of each layer."""
        return _percent(self.near.sum(-1), self.total.sum())

    def by_group(self) -> list[list[float | None]]:
        """Percent of right answers of each layer and group, None where there is no question."""
        columns = [_percent(self.correct[:, group], total) for group, total in enumerate(self.total)]
        has_any = self.total.tolist()
        rows = zip(*columns, strict=True)
        return [[value if any_ else None for value, any_ in zip(row, has_any, strict=True)] for row in rows]


def _percent(counts: torch.Tensor, total: torch.Tensor) -> list[float]:
    return [round(100 * count / max(int(total), 1), 4) for count in counts.tolist()]


@torch.no_grad()
def evaluate_probes(probes: PositionProbes, batches: Iterable[ProbeBatch]) -> dict[str, Score]:
    """Score all tasks and layers; the loss has no part in it."""
    groups = {"absolute": 1, "relative": 2 * probes.max_distance, "order": 2 * probes.max_distance}
    layers = probes.num_layers
    scores = {
        task: Score(*(torch.zeros(*shape, dtype=torch.long) for shape in ((layers, n), (layers, n), (n,))))
        for task, n in groups.items()
    }
    for batch in batches:
        for task, score in scores.items():
            labels = probes.labels(task, batch)
            is_pair = task != "absolute"
            group = relative_class(batch.distances, probes.max_distance) if is_pair else torch.zeros_like(labels)
            for logits, part in probes.answers(task, batch):
                error = (logits.argmax(dim=-1) - labels[part]).abs().cpu()
                place = group[part].cpu()
                score.correct.index_add_(1, place, (error == 0).long())
                score.near.index_add_(1, place, (error <= TOLERANCE).long())
                score.total += torch.bincount(place, minlength=groups[task])
    return scores


@dataclass
class Fit:
    """
    How probes were trained.

    Args:
        updates (`int`): Updates in all.
        picked_update (`dict[str, list[int]]`): For each task, the update whose weights each layer has now.
        validation_accuracy (`dict[str, list[float]]`): Their accuracy on the validation data, in percent.
    """

    updates: int
    picked_update: dict[str, list[int]]
    validation_accuracy: dict[str, list[float]]


def fit_probes(
    probes: PositionProbes,
    train: Callable[[int], Iterable[ProbeBatch]],
    validation: Callable[[], Iterable[ProbeBatch]],
    *,
    epochs: int,
    learning_rate: float,
    max_updates: int | None = None,
) -> Fit:
    """
    Train probes with cross-entropy and Adam, and keep for each task and layer what did best on the validation data.

    The loss is a sum over layers and tasks that share no weights, so that each is trained as if it were alone.

    Args:
        probes (`PositionProbes`): Changed in place.
        train (`Callable`): From an epoch, from 0, to its batches; an update a batch.
        validation (`Callable`): To the validation batches; read after each epoch, and at the end.
        epochs (`int`): Passes over the training data.
        learning_rate (`float`): Of Adam, constant.
        max_updates (`int`, *optional*): Stop after as many.
    """
    optimizer = torch.optim.Adam(probes.parameters(), lr=learning_rate)
    layers = range(probes.num_layers)
    fit = Fit(0, {task: [0 for _ in layers] for task in TASKS}, {task: [-1.0 for _ in layers] for task in TASKS})
    best = {name: weights.clone() for name, weights in probes.state_dict().items()}
    for epoch in range(epochs):
        for batch in train(epoch):
            update_probes(probes, optimizer, batch)
            fit.updates += 1
            if fit.updates == max_updates:
                break
        _keep_best(probes, evaluate_probes(probes, validation()), best, fit)
        if fit.updates == max_updates:
            break
    probes.load_state_dict(best)
    return fit


def update_probes(probes: PositionProbes, optimizer: torch.optim.Optimizer, batch: ProbeBatch) -> None:
    """One step on the cross-entropy of a batch, a mean over its tokens or pairs, summed over tasks and layers."""
    optimizer.zero_grad()
    for task in TASKS:
        labels = probes.labels(task, batch)
        for logits, part in probes.answers(task, batch):
            wanted = labels[part].expand(probes.num_layers, -1)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum")
            # slice by slice, so that the scores of one slice alone are kept
            (loss / len(labels)).backward()
    optimizer.step()


def _keep_best(probes: PositionProbes, scores: dict[str, Score], best: dict[str, torch.Tensor], fit: Fit) -> None:
    current = probes.state_dict()
    for task, score in scores.items():
        for layer, accuracy in enumerate(score.accuracy()):
            if accuracy > fit.validation_accuracy[task][layer]:
                fit.validation_accuracy[task][layer] = accuracy
                fit.picked_update[task][layer] = fit.updates
                for name in (name for name in best if name.startswith(f"tasks.{task}.")):
                    best[name][layer] = current[name][layer]
