"""Labels that come late: the true accuracy beside the estimate, and how far the estimate is off."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from aetta.serving.refusal import Refused

__all__ = ["Feedback"]

REQUESTS, IMAGES, STEPS = 4096, 200, 256
FEWEST = 8  # labelled images of a step before its estimate is compared with them


class Feedback:
    """Remembers what was predicted for recent requests, never the images, until their labels come.

    >>> feedback = Feedback()
    >>> feedback.remember("a", [3, 5])
    >>> feedback.label("a", [3, 4], classes=10)
    1
    >>> feedback.observed()
    0.5
    """

    def __init__(self) -> None:
        self._predicted: OrderedDict[str, list[int]] = OrderedDict()
        self._step_of: dict[str, int] = {}
        self._labelled: OrderedDict[str, list[int]] = OrderedDict()  # what came before its step was digested
        self._right: deque[int] = deque(maxlen=IMAGES)
        self._steps: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, request: str, predicted: Sequence[int]) -> None:
        """What was answered to a request; an id that is used again means the newer request."""
        with self._lock:
            self._forget(request)
            self._predicted[request] = list(predicted)
            while len(self._predicted) > REQUESTS:
                self._forget(next(iter(self._predicted)))

    def digested(self, requests: Sequence[str], step: int, estimates: Mapping[str, float]) -> None:
        """These requests were digested together, with these estimates of their accuracy."""
        with self._lock:
            self._steps[step] = {"right": 0, "images": 0, "estimates": dict(estimates)}
            while len(self._steps) > STEPS:
                self._steps.popitem(last=False)
            for request in requests:
                if request in self._predicted:
                    self._step_of[request] = step
                    if request in self._labelled:
                        self._count(step, self._labelled[request])

    def label(self, request: str, labels: Sequence[int], *, classes: int) -> int:
        """Score a request, and say how many of its images were right."""
        with self._lock:
            predicted = self._predicted.get(request)
            if predicted is None:
                raise Refused(404, "no recent request has this id")
            if request in self._labelled:
                raise Refused(409, "this request has its labels already")
            if len(labels) != len(predicted):
                raise Refused(400, f"the request had {len(predicted)} images, and these are {len(labels)} labels")
            if not all(0 <= label < classes for label in labels):
                raise Refused(400, f"labels must be 0 to {classes - 1}")
            right = [int(label == guess) for label, guess in zip(labels, predicted, strict=True)]
            self._labelled[request] = right
            self._right.extend(right)
            if request in self._step_of:
                self._count(self._step_of[request], right)
        return sum(right)

    def observed(self) -> float | None:
        """The true accuracy over recent labelled images."""
        with self._lock:
            return sum(self._right) / len(self._right) if self._right else None

    def errors(self) -> dict[str, float]:
        """The mean absolute error of each estimator over recent steps with enough labels."""
        with self._lock:
            known = [step for step in self._steps.values() if step["images"] >= FEWEST]
        found: dict[str, list[float]] = {}
        for step in known:
            for name, estimate in step["estimates"].items():
                found.setdefault(name, []).append(abs(estimate - step["right"] / step["images"]))
        return {name: sum(values) / len(values) for name, values in found.items()}

    @property
    def labelled(self) -> int:
        """How many images the observed accuracy is over."""
        return len(self._right)

    def state_dict(self) -> dict[str, Any]:
        with self._lock:
            return {
                "predicted": [[key, list(value)] for key, value in self._predicted.items()],
                "step_of": [[key, value] for key, value in self._step_of.items()],
                "labelled": [[key, list(value)] for key, value in self._labelled.items()],
                "right": list(self._right),
                "steps": [[key, dict(value)] for key, value in self._steps.items()],
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        with self._lock:
            self._predicted = OrderedDict((key, list(value)) for key, value in state["predicted"])
            self._step_of = dict(state["step_of"])
            self._labelled = OrderedDict((key, list(value)) for key, value in state["labelled"])
            self._right = deque(state["right"], maxlen=IMAGES)
            self._steps = OrderedDict((key, dict(value)) for key, value in state["steps"])

    def _forget(self, request: str) -> None:
        self._predicted.pop(request, None)
        self._step_of.pop(request, None)
        self._labelled.pop(request, None)

    def _count(self, step: int, right: Sequence[int]) -> None:
        if step in self._steps:
            self._steps[step]["right"] += sum(right)
            self._steps[step]["images"] += len(right)
