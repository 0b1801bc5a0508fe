"""What a server is made of, and how a batch travels through it. It knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from aetta.errors import BadInput, CheckpointError
from aetta.monitor import Monitor
from aetta.recorders.jsonl import as_row
from aetta.recorders.prometheus import Prometheus
from aetta.serving.batching import Answer, Batcher
from aetta.serving.control import Audit, Order, obey
from aetta.serving.courtesy import Courtesy
from aetta.serving.digesting import Answered, Digester
from aetta.serving.feedback import Feedback
from aetta.serving.history import Events, Log
from aetta.serving.journal import Journal, Progress
from aetta.serving.protocol import Query
from aetta.serving.refusal import Refused
from aetta.serving.served import Served
from aetta.serving.settings import Settings
from aetta.serving.store import Checkpoint, Store
from aetta.state import fingerprint

__all__ = ["Engine"]

log = logging.getLogger(__name__)
LATENCIES = 500
T = TypeVar("T")
PATIENCE = 60.0  # seconds for what waits to be digested, when the server stops


class Engine:
    """A monitor that is served: batches in, answers out, everything remembered.

    It resumes from the newest good checkpoint in its folder, if there is one.

    monitor: It belongs to the engine from now on.
    settings: How.
    """

    def __init__(self, monitor: Monitor, settings: Settings) -> None:
        self.monitor, self.settings = monitor, settings
        self._source = fingerprint(monitor.adapter._initial)
        self.store = Store(settings.state, settings.keep)
        self.progress = Progress(settings.state / "progress")
        self.events = Events(settings.limits.streams)
        self.history = Log(Journal(settings.state / "history.jsonl"), 2000)
        self.audit = Audit(Log(Journal(settings.state / "audit.jsonl"), 1000), self.events)
        self.feedback = Feedback()
        self.exporter = Prometheus(model=settings.name)
        monitor.recorders.append(self.exporter)
        self.served = Served(monitor)
        self.courtesy = Courtesy(self.served.busy)
        self.digester = Digester(self._digest, backlog=settings.backlog, threads=settings.threads)
        self.batcher = Batcher(self.served, settings, self._answered)
        self.ready = False
        self.classes = 0
        self._latencies: deque[float] = deque(maxlen=LATENCIES)
        self._estimated: dict[str, float | None] = {}  # of the weights that are there now; after a repair nothing is
        try:
            self._resume()
            self._warm_up()
        except BaseException:
            self.store.close()
            raise

    # From start to stop

    async def start(self) -> None:
        """Begin, on this event loop."""
        if self.served.device.type == "cpu":  # elsewhere the host only hands out work
            adapter = self.monitor.adapter
            self.courtesy.attend([adapter.model, adapter.predictor])
        if self.settings.threads is not None:
            torch.set_num_threads(1)  # of the loop's own thread: what it does is small
        self.events.open()
        self.digester.start()
        self.batcher.start()
        self.ready = True

    async def stop(self) -> None:
        """Answer and digest what waits, write a checkpoint, and end."""
        self.ready = False
        self.events.close()
        await self.batcher.stop()
        done = await asyncio.to_thread(self.digester.stop, PATIENCE)
        if done:  # otherwise the other thread still writes what a checkpoint would read
            self.audit.note("server", "stopped", "it was asked to", self.monitor.index)
            self._checkpoint("stop")
        self.store.close()

    def _resume(self) -> None:
        found = self._newest_good()
        reached = self.progress.read()
        if found is not None:
            checkpoint, tree = found
            self.monitor.load_state_dict(tree["monitor"])
            self.feedback.load_state_dict(tree["feedback"])
            self.audit.merge(tree["audit"])
            self._estimated = checkpoint.about.get("estimates", {})
            lost = max(0, reached - self.monitor.index)
            self.audit.note(
                "server",
                "resumed",
                f"from {checkpoint.name}, batch {self.monitor.index}"
                + (f"; {lost} batches digested after it are lost" if lost else "; nothing is lost"),
                self.monitor.index,
                lost=lost,
            )
        else:
            lost = reached
            why = "from the source" + (f"; {lost} batches are lost: there is no good checkpoint" if lost else "")
            self.audit.note("server", "started", why, 0, lost=lost)
        self.exporter.emit("lost_batches", lost)
        self.served.refresh()
        self.progress.write(self.monitor.index)

    def _newest_good(self) -> tuple[Checkpoint, dict[str, Any]] | None:
        for checkpoint, tree in list(self.store.good()):
            if isinstance(tree, CheckpointError):
                log.warning("%s", tree)
                self.store.forget(checkpoint.name)
                self.audit.note("server", "passed over", f"{checkpoint.name} is damaged, and was set aside", 0)
            elif tree["source"] != self._source:
                raise CheckpointError(
                    f"{checkpoint.path} belongs to another model, method or options; serve what it was made with, or "
                    "name another folder for the state"
                )
            else:
                return checkpoint, tree
        return None

    def _warm_up(self) -> None:
        """One prediction, so that the first client does not wait for it, and the number of classes is known."""
        with torch.no_grad():
            logits, _ = self.served.predict(torch.full((2, *self.settings.shape), 0.5, device=self.served.device))
        self.classes = logits.shape[1]

    # A request

    async def infer(self, query: Query, *, trusted: bool) -> tuple[str, Answer]:
        """The answer to a query, and the id it can be given feedback under.

        trusted: Whether it carried the token.
        """
        try:
            self.served.check(query.images)
        except BadInput as error:
            raise Refused(400, str(error)) from error
        request = query.id or uuid.uuid4().hex
        started = time.perf_counter()
        learns = trusted or self.settings.learn_from == "all"
        answer = await self.batcher.submit(query.images, request, learns=learns)
        spent = time.perf_counter() - started
        self._latencies.append(spent)
        self.exporter.emit("request_duration", spent)
        return request, answer

    def _answered(self, batch: Answered, learns: bool) -> bool:
        """On the event loop: remember an answered batch, and pass it on, unless digesting is behind."""
        self.exporter.emit("forwards", 1)
        self.exporter.emit("step_duration", batch.seconds, "predict")
        if self.settings.token is not None:
            labels = batch.logits.argmax(1).tolist()
            for request, count in batch.requests:
                self.feedback.remember(request, labels[:count])
                labels = labels[count:]
        if not learns:
            return False
        taken = self.digester.offer(batch)
        if not taken:
            self.exporter.emit("batches_skipped", 1)
        return taken and not self.monitor.frozen

    # On the digesting thread

    def _digest(self, batch: Answered) -> None:
        try:
            if batch.stamp.repairs != self.served.stamp.repairs:  # the model that served it is gone
                self.exporter.emit("batches_skipped", 1)
                return
            self.courtesy.begin()
            self._learn(batch)
        except Exception:
            self.exporter.emit("digest_failures", 1)
            raise
        finally:
            batch.done.set()

    def _learn(self, batch: Answered) -> None:
        step = self.monitor.digest(batch.images, batch.logits)
        if step.repair is not None:
            self.audit.note("recovery", step.repair.action, step.repair.reason, step.index)
        self.served.refresh(repaired=step.repair is not None)
        self.progress.write(self.monitor.index)
        estimates = {name: estimate.accuracy for name, estimate in step.estimates.items()}
        self.feedback.digested([request for request, _ in batch.requests], step.index, estimates)
        row = as_row(step)
        row["seconds"]["predict"] = round(batch.seconds, 6)
        self._estimated = {} if step.repair else {name: each["accuracy"] for name, each in row["estimates"].items()}
        self.events.tell("step", self.history.append({"time": round(time.time(), 3), **row, **self._now()}))
        if self.monitor.index % self.settings.every == 0:
            self._checkpoint("schedule")

    def _now(self) -> dict[str, Any]:
        latencies = sorted(self._latencies)
        at = (lambda share: round(latencies[int(share * (len(latencies) - 1))], 6)) if latencies else (lambda _: None)
        return {
            "frozen": self.monitor.frozen,
            "observed": self.feedback.observed(),
            "latency": {"median": at(0.5), "p99": at(0.99)},
        }

    def _obey(self, order: Order) -> dict[str, Any]:
        obey(order, self.monitor, self.store)
        repaired = order.verb in ("reset", "rollback")
        if repaired:
            self.exporter.emit("resets", 1, "operator", order.verb)
            self.exporter.emit("last_reset", time.time())
            self._estimated = {}
        self.served.refresh(repaired=repaired)
        details = {"snapshot": order.snapshot} if order.snapshot else {}
        entry = self.audit.note("operator", order.verb, order.reason, self.monitor.index, **details)
        return {**entry, "durable": self._checkpoint(order.verb) is not None, "frozen": self.monitor.frozen}

    def _checkpoint(self, why: str) -> Checkpoint | None:
        about = {"step": self.monitor.index, "why": why, "estimates": self._estimated}
        tree = {
            "source": self._source,
            "description": {"shape": list(self.settings.shape), **self.settings.description},
            "monitor": self.monitor.state_dict(),
            "feedback": self.feedback.state_dict(),
            "audit": self.audit.since(-1),
        }
        made = self.store.save(tree, about)
        if made is None:
            self.exporter.emit("checkpoint_failures", 1)
        else:
            self.exporter.emit("last_checkpoint", made.about["time"])
        return made

    def take_over(self, tree: Mapping[str, Any], who: str, why: str) -> dict[str, Any]:
        """Go on from a checkpoint of another engine; nothing changes when it was made with something else.

        Only the thread that owns the monitor may, or anyone before the engine is started. What was digested here stays
        counted, and what is frozen stays frozen.
        """
        if tree.get("source") != self._source:
            raise CheckpointError("this snapshot belongs to another model, method or options; nothing was changed")
        self.monitor.rollback(tree["monitor"])
        self.exporter.emit("resets", 1, who, "heal")
        self.exporter.emit("last_reset", time.time())
        self.served.refresh(repaired=True)
        entry = self.audit.note(who, "heal", why, self.monitor.index)
        return {**entry, "durable": self._checkpoint("heal") is not None, "frozen": self.monitor.frozen}

    # What can be asked

    async def order(self, order: Order) -> dict[str, Any]:
        """Do what an operator asks, before the next batch is digested."""
        return await self._commanded(lambda: self._obey(order))

    async def heal(self, tree: Mapping[str, Any], why: str) -> dict[str, Any]:
        """Do as `take_over` says, before the next batch is digested."""
        return await self._commanded(lambda: self.take_over(tree, "operator", why))

    async def checkpoint(self, why: str) -> Checkpoint | None:
        """Write a checkpoint before the next batch is digested; None when the disk refuses."""
        return await self._commanded(lambda: self._checkpoint(why))

    async def _commanded(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self.digester.command(work))

    def estimate(self) -> dict[str, Any]:
        """The newest estimates, and what is known of their truth."""
        newest = self.history.since(-1, 1)
        return {
            "model": self.settings.name,
            "step": newest[0]["step"] if newest else None,
            "digested": self.monitor.index,
            "estimates": newest[0]["estimates"] if newest else {},
            "frozen": self.monitor.frozen,
            "observed": {
                "accuracy": self.feedback.observed(),
                "images": self.feedback.labelled,
                "errors": self.feedback.errors(),
            },
        }

    def snapshots(self) -> list[dict[str, Any]]:
        """What can be rolled back to, the newest first."""
        return [{"name": each.name, **each.about} for each in self.store.newest_first()]

    def measure(self) -> None:
        """Bring the gauges that change by themselves up to date."""
        emit = self.exporter.emit
        emit("queue_images", self.batcher.waiting)
        emit("queue_batches", self.digester.waiting)
        emit("frozen", float(self.monitor.frozen))
        observed = self.feedback.observed()
        if observed is not None:
            emit("observed_accuracy", observed)
        for name, error in self.feedback.errors().items():
            emit("estimate_error", error, name)
