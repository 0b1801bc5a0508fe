"""The loop: what a step holds, what an error leaves, what a checkpoint resumes."""

import logging
import threading

import pytest
import torch
from torch import nn

import aetta
from aetta import Aetta, BatchNorm, EstimateDrop, Monitor, Periodic, SoftmaxScore, Tent
from aetta.errors import BadInput, BadOption, CheckpointError, UnknownName, UnsuitableModel
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model, tiny_vit


def a_monitor(**options):
    return Monitor(Tent(tiny_model()), {"aetta": Aetta(samples=3), "softmax": SoftmaxScore()}, **options)


def test_one_line_is_enough():
    monitor = aetta.monitor(tiny_model(), adapter="tent", estimator="aetta", recovery="estimate_drop")
    step = monitor(tiny_images(), labels=torch.zeros(12, dtype=torch.long), domain="fog")
    assert step.logits.shape == (12, 5)
    assert 0 <= step.estimates["aetta"].low <= step.estimates["aetta"].high <= 1
    assert (step.index, step.domain, step.recovered) == (0, "fog", False)
    assert step.accuracy is not None


def test_serving_comes_first_and_changes_nothing():
    monitor = a_monitor()
    before = fingerprint(monitor.state_dict())
    logits = monitor.serve(tiny_images())
    assert fingerprint(monitor.state_dict()) == before
    assert torch.equal(monitor.digest(tiny_images(), logits).logits, logits)
    assert fingerprint(monitor.state_dict()) != before


def test_estimates_are_of_the_model_that_served():
    monitor, images = a_monitor(), tiny_images()
    probe = monitor.probe(images, monitor.serve(images))
    expected = Aetta(samples=3).observe(probe)
    assert monitor(images).estimates["aetta"] == expected


def test_any_number_of_estimators_changes_nothing():
    alone = Monitor(Tent(tiny_model()), {"aetta": Aetta(samples=3)})
    crowd = Monitor(
        Tent(tiny_model()),
        {
            "first": SoftmaxScore(),
            "wide": Aetta(samples=5),
            "aetta": Aetta(samples=3),
            "other": Aetta(samples=3, rate=0.2),
        },
    )
    for seed in range(4):
        left, right = alone(tiny_images(seed)), crowd(tiny_images(seed))
        assert torch.equal(left.logits, right.logits)
        assert left.estimates["aetta"] == right.estimates["aetta"]
        assert left.loss == right.loss


def test_a_resumed_run_goes_on_bit_for_bit(tmp_path):
    one, other = (a_monitor(recovery=EstimateDrop(window=2, floor=0.3)) for _ in range(2))
    for seed in range(4):
        one(tiny_images(seed))
    one.save(tmp_path / "run.safetensors")
    other.load(tmp_path / "run.safetensors")
    for seed in range(4, 8):
        left, right = one(tiny_images(seed)), other(tiny_images(seed))
        assert torch.equal(left.logits, right.logits)
        assert (left.estimates, left.loss, left.repair, left.index) == (
            right.estimates,
            right.loss,
            right.repair,
            right.index,
        )
    assert fingerprint(one.state_dict()) == fingerprint(other.state_dict())


class Broken(aetta.Recovery):
    STATE = ("seen",)

    def __init__(self):
        self.seen = 0

    def recover(self, adapter, step):
        self.seen += 1
        adapter.reset()
        raise RuntimeError("the recovery broke")


@pytest.mark.parametrize("steps", [0, 3])
def test_a_failed_digest_leaves_everything_as_it_was(steps):
    monitor = a_monitor()
    for seed in range(steps):
        monitor(tiny_images(seed))
    images = tiny_images(9)
    logits = monitor.serve(images)
    monitor.recovery = Broken()
    before, randomness = fingerprint(monitor.state_dict()), torch.get_rng_state()
    with pytest.raises(RuntimeError, match="the recovery broke"):
        monitor.digest(images, logits)
    assert fingerprint(monitor.state_dict()) == before
    assert torch.equal(torch.get_rng_state(), randomness)


BAD_BATCHES = {
    "empty": (torch.zeros(0, 3, 16, 16), "at least one image"),
    "NaN": (torch.full((2, 3, 16, 16), float("nan")), "NaN or infinite"),
    "infinite": (torch.full((2, 3, 16, 16), float("-inf")), "NaN or infinite"),
    "uint8": (torch.zeros(2, 3, 16, 16, dtype=torch.uint8), "floating point"),
    "out of range": (torch.full((2, 3, 16, 16), 255.0), "divide by 255"),
    "channels": (torch.zeros(2, 1, 16, 16), "the model takes 3"),
    "no tensor": (None, "torch tensor"),
}


@pytest.mark.parametrize(("images", "says"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
def test_bad_images_are_refused_and_change_nothing(images, says):
    monitor = a_monitor()
    monitor(tiny_images())
    before = fingerprint(monitor.state_dict())
    with pytest.raises(BadInput, match=says):
        monitor(images)
    with pytest.raises(BadInput, match=says):
        monitor.digest(images, torch.zeros(2, 5))
    assert fingerprint(monitor.state_dict()) == before


MISFITS = {
    "one image without a batch": (torch.zeros(3, 16, 16), r"images\[None\]"),
    "a batch too many": (torch.zeros(1, 2, 3, 16, 16), r"\[batch, 3, height, width\]"),
    "rows": (torch.zeros(2, 10), r"\[batch, 3, height, width\]"),
    "double precision": (torch.zeros(2, 3, 16, 16).double(), "float64, the weights of the model torch.float32"),
    "half precision": (torch.zeros(2, 3, 16, 16).half(), "float16, the weights of the model torch.float32"),
}


@pytest.mark.parametrize(("images", "says"), MISFITS.values(), ids=MISFITS.keys())
def test_images_the_model_fails_on_are_told_why_they_do_not_fit(images, says):
    monitor = a_monitor()
    before = fingerprint(monitor.state_dict())
    with pytest.raises(BadInput, match=says):
        monitor(images)
    assert fingerprint(monitor.state_dict()) == before


def test_an_error_of_the_model_itself_is_its_own():
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(3)

        def forward(self, images):
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        aetta.monitor(Failing())(tiny_images())


@pytest.mark.parametrize(
    ("labels", "says"), [(torch.full((12,), 5), "5 classes"), (torch.zeros(3, dtype=torch.long), "12 images")]
)
def test_bad_labels_are_refused_and_change_nothing(labels, says):
    monitor = a_monitor()
    before = fingerprint(monitor.state_dict())
    with pytest.raises(BadInput, match=says):
        monitor(tiny_images(), labels=labels)
    assert fingerprint(monitor.state_dict()) == before


def test_images_of_no_class_are_left_out_of_the_score():
    monitor, images = a_monitor(), tiny_images()
    labels = monitor.serve(images).argmax(1)
    labels[:6] = -1
    assert monitor(images, labels=labels).accuracy == 1.0
    assert monitor(images, labels=torch.full((12,), -1)).accuracy is None


def test_logits_of_another_batch_are_refused():
    monitor = a_monitor()
    with pytest.raises(BadInput, match="7 rows of logits for 12 images"):
        monitor.digest(tiny_images(), torch.zeros(7, 5))


def test_a_changing_class_count_is_refused():
    class Growing(nn.Module):
        classes = 5

        def __init__(self):
            super().__init__()
            self.model = tiny_model()

        def forward(self, images):
            return self.model(images)[:, : self.classes]

    monitor = Monitor(aetta.Source(Growing()))
    monitor(tiny_images())
    monitor.adapter.model.classes = 4
    with pytest.raises(BadInput, match="5 classes until now, and 4"):
        monitor(tiny_images())


def test_one_image_works():
    monitor = aetta.monitor(tiny_model())
    for seed in range(3):
        assert monitor(tiny_images(seed, 1)).logits.shape == (1, 5)


def test_other_inputs_than_images_work_when_their_range_is_open():
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    monitor = aetta.monitor(model, pixel_range=None)
    assert monitor(10 * torch.randn(6, 4)).logits.shape == (6, 3)


class Mapping(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return {"logits": self.model(images)}


class Object(Mapping):
    def forward(self, images):
        return type("Output", (), {"logits": self.model(images)})()


@pytest.mark.parametrize("wrap", [Mapping, Object])
def test_models_that_return_more_than_logits_work(wrap):
    plain, wrapped = aetta.monitor(tiny_model()), aetta.monitor(wrap(tiny_model()))
    for seed in range(2):
        assert torch.equal(plain(tiny_images(seed)).logits, wrapped(tiny_images(seed)).logits)


@pytest.mark.parametrize("build", [lambda: tiny_model("group"), tiny_vit], ids=["group norm", "layer norm"])
def test_other_norms_adapt(build):
    monitor = aetta.monitor(build(), recovery=None)
    first = monitor(tiny_images(0)).logits
    monitor(tiny_images(1))
    assert not torch.equal(monitor.serve(tiny_images(0)), first)


def test_a_model_nothing_of_which_can_adapt_is_refused():
    with pytest.raises(UnsuitableModel, match="nothing to adapt"):
        aetta.monitor(nn.Sequential(nn.Flatten(), nn.Linear(768, 5)))
    with pytest.raises(UnsuitableModel, match="no batch norm"):
        BatchNorm(tiny_vit())


def test_a_model_without_dropout_sites_is_refused_with_names():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = nn.BatchNorm2d(3), nn.Linear(3, 5)

        def forward(self, images):
            return self.head(self.norm(images).mean((2, 3)))

    with pytest.raises(UnsuitableModel, match=r"name them: sites=\[\.\.\.\]"):
        aetta.monitor(Odd())(tiny_images())
    assert aetta.monitor(Odd(), sites=["norm"])(tiny_images()).estimates["aetta"].accuracy >= 0


def test_unknown_names_are_answered_with_the_closest():
    with pytest.raises(UnknownName, match="did you mean 'tent'"):
        aetta.monitor(tiny_model(), adapter="tnt")
    with pytest.raises(UnknownName, match="did you mean 'aetta'"):
        aetta.monitor(tiny_model(), estimator="aeta")
    with pytest.raises(UnknownName, match="did you mean 'estimate_drop'"):
        aetta.monitor(tiny_model(), recovery="estimate-drop")


def test_what_is_no_model_is_refused():
    with pytest.raises(BadOption, match=r"torch\.nn\.Module"):
        aetta.monitor(lambda images: images)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"adapter": "torch.nn:Identity"}, "adapter= was given a Identity, which is no Adapter"),
        ({"estimator": "aetta:Periodic"}, "estimator= was given a Periodic, which is no Estimator"),
        ({"recovery": Aetta()}, "recovery= was given a Aetta, which is no Recovery"),
        ({"estimator": "src_valid"}, "it needs labelled held-out source images"),
    ],
)
def test_a_part_of_another_kind_is_refused(parts, says):
    with pytest.raises(BadOption, match=says):
        aetta.monitor(tiny_model(), **parts)


def test_a_recovery_that_follows_a_missing_estimate_says_so():
    monitor = Monitor(Tent(tiny_model()), SoftmaxScore(), recovery=EstimateDrop(on="aetta"))
    with pytest.raises(BadOption, match="this monitor has softmax_score"):
        monitor(tiny_images())


def test_two_estimators_of_one_kind_need_names():
    with pytest.raises(BadOption, match="give them names"):
        Monitor(Tent(tiny_model()), [Aetta(), Aetta(rate=0.2)])


def test_a_checkpoint_of_another_method_is_refused(tmp_path):
    monitor, other = a_monitor(), Monitor(BatchNorm(tiny_model()), {"aetta": Aetta(), "softmax": SoftmaxScore()})
    other.save(tmp_path / "other.safetensors")
    before = fingerprint(monitor.state_dict())
    with pytest.raises(CheckpointError, match="BatchNorm"):
        monitor.load(tmp_path / "other.safetensors")
    assert fingerprint(monitor.state_dict()) == before


@pytest.mark.parametrize("names", [["aetta"], ["aetta", "softmax_score", "gde"], []])
def test_a_checkpoint_of_other_estimators_is_refused(names):
    saved = aetta.monitor(tiny_model(), estimator=["aetta", "softmax_score"], recovery="none")
    saved(tiny_images())
    monitor = aetta.monitor(tiny_model(), estimator=names, recovery="none")
    monitor(tiny_images(1))
    before = fingerprint(monitor.state_dict())
    with pytest.raises(CheckpointError, match="this state is of aetta, softmax_score, here there is"):
        monitor.load_state_dict(saved.state_dict())
    assert fingerprint(monitor.state_dict()) == before
    monitor(tiny_images(2))


def test_a_recorder_that_fails_is_logged_and_passed_over(caplog):
    class Failing:
        def record(self, step):
            raise OSError("disk full")

    heard = []
    listener = type("Listener", (), {"record": lambda _self, step: heard.append(step.index)})()
    monitor = a_monitor(recorders=[Failing(), listener])
    with caplog.at_level(logging.ERROR):
        monitor(tiny_images())
    assert heard == [0]
    assert "disk full" in caplog.text


def test_a_reset_makes_estimators_forget():
    monitor = Monitor(Tent(tiny_model()), {"aetta": Aetta(samples=3)}, recovery=Periodic(every=2))
    first = monitor(tiny_images(0))
    assert monitor(tiny_images(1)).repair.action == "reset"
    assert monitor.estimators["aetta"].error is None
    assert torch.equal(monitor.serve(tiny_images(0)), first.logits)


def test_it_may_be_used_from_several_threads():
    monitor, failures = a_monitor(), []

    def work(seed):
        try:
            for _ in range(3):
                monitor(tiny_images(seed))
                monitor.serve(tiny_images(seed))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert monitor.index == 12
    assert not any(module.training for module in monitor.adapter.model.modules())


def test_it_explains_itself():
    text = a_monitor().explain()
    assert "layer1.0.bn1.weight" in text
    assert "layer1, layer2, layer3, layer4" in text
    assert "5 forward, 1 backward" in text
