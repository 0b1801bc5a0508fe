"""Names become classes; wrong ones are answered with the closest right one."""

import pytest

from aetta import registry
from aetta.errors import BadOption, UnknownName


@pytest.mark.parametrize("kind", registry.BUILT_IN)
def test_every_built_in_name_can_be_found(kind):
    for name in registry.names(kind):
        assert callable(registry.find(kind, name))


def test_a_class_by_its_path():
    assert registry.find("adapter", "aetta.adapters.tent:Tent").__name__ == "Tent"


def test_the_closest_name_is_suggested():
    with pytest.raises(UnknownName, match="did you mean 'tent'"):
        registry.find("adapter", "tnet")


@pytest.mark.parametrize("path", ["no.such.module:Thing", "aetta.adapters.tent:Nothing"])
def test_a_path_that_leads_nowhere_is_told(path):
    with pytest.raises(UnknownName, match="cannot be imported"):
        registry.find("adapter", path)


def test_an_unknown_option_is_told_with_the_known_ones():
    with pytest.raises(BadOption, match=r"no option 'evry' \(it has: every\)"):
        registry.create("recovery", "periodic", evry=3)


def test_an_unknown_kind_is_told():
    with pytest.raises(UnknownName, match="did you mean 'adapter'"):
        registry.names("adaptor")
