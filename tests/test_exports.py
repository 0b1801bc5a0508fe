"""The list of exports is sorted, and equals what can be imported."""

import importlib
import pkgutil
from importlib.util import find_spec
from types import ModuleType

import pytest

import aetta

PACKAGES = ["aetta", "aetta.adapters", "aetta.estimators", "aetta.models", "aetta.recorders", "aetta.recovery"]


@pytest.mark.parametrize("name", PACKAGES)
def test_exports_equal_what_is_importable(name):
    package = importlib.import_module(name)
    public = {
        key for key, value in vars(package).items() if not key.startswith("_") and not isinstance(value, ModuleType)
    }
    public |= {key for key in package.__all__ if isinstance(getattr(package, key), ModuleType)}
    assert sorted(package.__all__) == list(package.__all__), f"{name}.__all__ is not sorted"
    assert set(package.__all__) == public - {"annotations"}


def test_there_are_few_public_names():
    assert len(aetta.__all__) <= 60


def test_every_module_says_what_it_is_for():
    for info in pkgutil.walk_packages(aetta.__path__, "aetta."):
        if info.name.endswith("__main__") or (info.name == "aetta.nn.kernels" and find_spec("triton") is None):
            continue
        module = importlib.import_module(info.name)
        assert module.__doc__, f"{info.name} has no docstring"
        assert all(hasattr(module, key) for key in getattr(module, "__all__", ()))
