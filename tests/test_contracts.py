"""Every registered class keeps its contract; a new one is tested by existing."""

import pytest

from aetta import registry, testing
from aetta.errors import BadOption

CASES = [
    pytest.param(kind, check, id=f"{name}-{check.__name__.split('_', 2)[2]}")
    for family in ("adapter", "estimator", "recovery")
    for name in registry.names(family)
    for kind in [registry.find(family, name)]
    for check in testing.checks_for(kind)
]


@pytest.mark.parametrize(("kind", "check"), CASES)
def test_contract(kind, check):
    check(kind)


def test_what_is_no_method_is_refused():
    with pytest.raises(BadOption, match="no Adapter"):
        testing.checks_for(int)


def test_the_tiny_models_give_the_checks_something_to_see():
    for model in (testing.tiny_model(), testing.tiny_model("group"), testing.tiny_vit()):
        probabilities = model(testing.tiny_images(3, 64)).softmax(1)
        assert len(probabilities.argmax(1).unique()) >= 4
        assert (probabilities.amax(1) > 0.9).float().mean() > 0.2
