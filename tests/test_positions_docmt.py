import math

import pytest
import torch

from modeling_docmt.positions_docmt import sinusoids


def test_sinusoids_follow_the_formula_in_halves_layout():
    d_model = 6
    states = sinusoids(torch.tensor([0, 1, 9_999]), d_model, torch.float64)
    for row, position in enumerate((0, 1, 9_999)):
        for t in range(d_model // 2):
            angle = position * 10_000 ** (-2 * t / d_model)
            assert states[row, t].item() == pytest.approx(math.sin(angle), abs=1e-9)
            assert states[row, d_model // 2 + t].item() == pytest.approx(math.cos(angle), abs=1e-9)


def test_float32_positions_stay_exact_at_any_length():
    far = torch.tensor([1_000_000])
    assert torch.allclose(sinusoids(far, 64, torch.float32).double(), sinusoids(far, 64, torch.float64), atol=1e-7)
