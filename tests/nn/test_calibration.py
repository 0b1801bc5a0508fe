import pytest
import torch

from aetta.nn.calibration import fit_temperature


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_it_finds_the_temperature_labels_were_drawn_at(temperature):
    logits = 3 * torch.randn(20000, 10)
    labels = torch.multinomial((logits / temperature).softmax(1), 1).flatten()
    assert fit_temperature(logits, labels) == pytest.approx(temperature, rel=0.03)


def test_at_it_the_slope_of_the_loss_is_zero():
    logits = 3 * torch.randn(500, 4, dtype=torch.float64)
    labels = torch.randint(4, (500,))
    labels[:400] = logits[:400].argmax(1)
    temperature = torch.tensor(fit_temperature(logits, labels), dtype=torch.float64, requires_grad=True)
    torch.nn.functional.cross_entropy(logits / temperature, labels).backward()
    assert abs(float(temperature.grad)) < 1e-6
