"""The contracts of adapters, estimators and recoveries, as checks that anyone can run on their own class.

    aetta check my_package.my_method:MyMethod

or, in a test suite:

    @pytest.mark.parametrize("check", testing.checks_for(MyMethod), ids=lambda check: check.__name__)
    def test_contract(check): check(MyMethod)
"""

from __future__ import annotations

from collections.abc import Callable

from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.estimators.base import Estimator
from aetta.recovery.base import Recovery
from aetta.testing import adapters, estimators, recoveries
from aetta.testing.building import build
from aetta.testing.tiny import tiny_images, tiny_model, tiny_vit

__all__ = ["build", "checks_for", "run_checks", "tiny_images", "tiny_model", "tiny_vit"]

Check = Callable[[type], None]


def checks_for(kind: type) -> list[Check]:
    """The checks a class must pass, by what it is."""
    for base, checks in ((Adapter, adapters), (Estimator, estimators), (Recovery, recoveries)):
        if isinstance(kind, type) and issubclass(kind, base):
            return [check for name, check in vars(checks).items() if name.startswith("check_")]
    raise BadOption(f"{getattr(kind, '__name__', kind)} is no Adapter, Estimator or Recovery; subclass one of them")


def run_checks(kind: type) -> dict[str, BaseException | None]:
    """Every check by name, and what it raised."""
    results: dict[str, BaseException | None] = {}
    for check in checks_for(kind):
        try:
            check(kind)
        except Exception as error:  # whatever a stranger's class raises is the finding
            results[check.__name__] = error
        else:
            results[check.__name__] = None
    return results
