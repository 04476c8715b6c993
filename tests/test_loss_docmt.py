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


@pytest.mark.parametrize("with_weights", [False, True])
@pytest.mark.parametrize("context_loss_weight", [1.0, 0.25])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_logits_of_the_labels_alone_give_the_same_loss_and_gradient(epsilon, context_loss_weight, with_weights):
    # fails if weights or labels of other places than those of the logits are taken
    config = DocMTConfig.from_system("concat-adj", context_sentences=1, context_loss_weight=context_loss_weight)
    labels = torch.tensor([[300, -100, 4, 301, 3], [302, 303, 3, -100, -100]])
    logits = torch.randn(2, 5, 310, dtype=torch.double, requires_grad=True)
    options = {"label_smoothing": epsilon, "token_weights": torch.rand(2, 5) * 9 if with_weights else None}
    results = []
    for scores in (logits, logits[labels != -100]):
        loss = translation_loss(scores, labels, config, **options)
        results.append((loss, *torch.autograd.grad(loss, logits)))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


def test_logits_of_other_places_are_refused():
    for shape in ((6, 310), (2, 3, 310)):
        with pytest.raises(ValueError, match="one row a place of `labels`.*or one a label"):
            translation_loss(torch.randn(shape), LABELS, DocMTConfig())


def test_accumulated_batches_give_the_loss_of_one_batch():
    logits = torch.randn(2, 4, 310)
    whole = translation_loss(logits, LABELS, DocMTConfig())
    count = (LABELS != -100).sum()
    parts = [
        translation_loss(logits[i : i + 1], LABELS[i : i + 1], DocMTConfig(), num_items_in_batch=count) for i in (0, 1)
    ]
    assert sum(parts).item() == pytest.approx(whole.item(), rel=1e-6)
