from aetta import Aetta, Monitor, Periodic, Tent
from aetta.testing import tiny_images, tiny_model


def errors(**options):
    estimator = Aetta()
    monitor = Monitor(Tent(tiny_model()), estimator, recovery=Periodic(every=2), **options)
    seen = []
    for seed in range(4):
        monitor(tiny_images(seed))
        seen.append(estimator.error)
    return seen


def test_a_reset_makes_estimators_forget_the_model_that_is_gone():
    assert [error is None for error in errors()] == [False, True, False, True]


def test_published_code_remembers():
    seen = errors(forget=False)
    assert None not in seen
    assert len(set(seen)) == 4
