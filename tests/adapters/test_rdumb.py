"""RDumb is ETA with a clock."""

import pytest
import torch

from aetta.adapters import Eta, RDumb
from aetta.errors import BadOption
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model

OPTIONS = {"ceiling": 1.0, "similarity": 2.0}


def test_it_is_eta_until_the_clock_strikes_and_the_source_after():
    adapter, eta = RDumb(tiny_model(), every=3, **OPTIONS), Eta(tiny_model(), **OPTIONS)
    start, served = fingerprint(adapter.state_dict()), adapter.predict(tiny_images(9))
    for seed in range(3):
        assert adapter.adapt(tiny_images(seed)) == eta.adapt(tiny_images(seed))
        if seed < 2:
            assert torch.equal(adapter.predict(tiny_images(9)), eta.predict(tiny_images(9)))
    assert fingerprint(adapter.state_dict()) == start
    assert torch.equal(adapter.predict(tiny_images(9)), served)
    assert not torch.equal(eta.predict(tiny_images(9)), served)


def test_what_is_to_be_kept_survives_the_clock():
    adapter = RDumb(tiny_model(), every=1, keep_on_reset=("average",), **OPTIONS)
    adapter.adapt(tiny_images(0))
    assert adapter.average is not None
    assert adapter.drift() == 0.0
    assert adapter.count == 0


def test_the_clock_must_tick():
    with pytest.raises(BadOption, match="every"):
        RDumb(tiny_model(), every=0)
