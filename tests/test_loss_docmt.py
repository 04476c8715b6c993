import pytest
import torch

from modeling_docmt import DocMTConfig
from modeling_docmt.loss_docmt import context_weights, translation_loss


LABELS = torch.tensor([[300, 4, 301, 3], [302, 303, 3, -100]])


def plain_loss(logits, labels, epsilon=0.0, weights=None):
    total = 0.0
    for b, t in (labels != -100).nonzero().tolist():
        log_probs = logits[b, t].log_softmax(-1)
        cost = -(1 - epsilon) * log_probs[labels[b, t]] - epsilon / logits.shape[-1] * log_probs.sum()
        total = total + cost * (1.0 if weights is None else weights[b][t])
    return total / (labels != -100).sum()


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_loss_and_gradient_equal_the_formula(epsilon):
    logits = torch.randn(2, 4, 310, dtype=torch.double, requires_grad=True)
    loss = translation_loss(logits.float(), LABELS, DocMTConfig(), label_smoothing=epsilon)
    (gradient,) = torch.autograd.grad(loss, logits)
    expected = plain_loss(logits, LABELS, epsilon)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(gradient, expected_gradient, atol=1e-7)


def test_context_sentences_count_by_their_weight():
    config = DocMTConfig.from_system("concat-adj", context_sentences=1, context_loss_weight=0.25)
    weights = [[0.25, 0.25, 1, 1], [1, 1, 1, 1]]
    assert context_weights(LABELS, config, 0.25)[0].tolist() == weights[0]
    logits = torch.randn(2, 4, 310)
    loss = translation_loss(logits, LABELS, config)
    assert loss.item() == pytest.approx(plain_loss(logits, LABELS, weights=weights).item(), rel=1e-5)


def test_accumulated_batches_give_the_loss_of_one_batch():
    logits = torch.randn(2, 4, 310)
    whole = translation_loss(logits, LABELS, DocMTConfig())
    count = (LABELS != -100).sum()
    parts = [
        translation_loss(logits[i : i + 1], LABELS[i : i + 1], DocMTConfig(), num_items_in_batch=count) for i in (0, 1)
    ]
    assert sum(parts).item() == pytest.approx(whole.item(), rel=1e-6)
