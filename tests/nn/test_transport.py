import pytest
import torch

from aetta.nn.transport import shared_out

linprog = pytest.importorskip("scipy.optimize").linprog  # comes with scikit-learn


def exactly(scores, quotas):
    """The best score by linear programming."""
    images, classes = scores.shape
    rows = torch.kron(torch.eye(images), torch.ones(1, classes))
    columns = torch.kron(torch.ones(1, images), torch.eye(classes))[:-1]  # the last one follows from the others
    wanted = torch.cat([torch.ones(images).double(), quotas[:-1] * images])
    return -linprog(
        -scores.flatten().numpy(), A_eq=torch.cat([rows, columns]).numpy(), b_eq=wanted.numpy(), method="highs"
    ).fun


@pytest.mark.parametrize("images", [1, 4, 30])
@pytest.mark.parametrize("classes", [2, 5, 12])
@pytest.mark.parametrize("sharpness", [0.5, 5.0])
def test_it_is_the_optimum_of_the_linear_programme(images, classes, sharpness):
    scores = (sharpness * torch.randn(images, classes) + torch.randn(classes)).double().softmax(1)
    quotas = torch.rand(classes).double() + 0.1
    quotas /= quotas.sum()
    plan = shared_out(scores, quotas)
    torch.testing.assert_close(plan.sum(1), torch.ones(images).double())
    torch.testing.assert_close(plan.sum(0), quotas * images, atol=1e-7, rtol=0)
    assert float(plan.min()) > -1e-9
    assert float((plan * scores).sum()) == pytest.approx(exactly(scores, quotas), abs=1e-6)


def test_with_the_quotas_of_the_predictions_everyone_gets_the_best():
    scores = torch.randn(20, 4).double().softmax(1)
    best = torch.nn.functional.one_hot(scores.argmax(1), 4).double()
    assert torch.equal(shared_out(scores, best.mean(0)), best)


def test_images_that_are_all_the_same_are_shared_out_evenly():
    plan = shared_out(torch.tensor([[1.0, 0.0, 0.0]]).repeat(6, 1), torch.full((3,), 1 / 3).double())
    torch.testing.assert_close(plan.sum(0), torch.full((3,), 2.0).double())
