"""Small requests become one batch; the answers go out before it is digested."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch
from torch import Tensor

from aetta.serving.digesting import Answered
from aetta.serving.refusal import busy
from aetta.serving.served import Served, Stamp
from aetta.serving.settings import Settings

__all__ = ["Answer", "Batcher"]


@dataclass(frozen=True)
class Answer:
    """What a request is told.

    stamp: Which weights gave it.
    learns: Whether the batch will be learned from.
    """

    logits: Tensor
    stamp: Stamp
    learns: bool


@dataclass(frozen=True)
class _Waiting:
    images: Tensor
    request: str
    learns: bool
    answer: asyncio.Future[Answer]
    since: float = field(default_factory=time.perf_counter)


class Batcher:
    """A queue of requests, and a task that answers them, batch by batch, in the order they came.

    served: The copy of the model that answers.
    answered: Is given each answered batch, and whether it may be learned from; says whether it will be.
    """

    def __init__(self, served: Served, settings: Settings, answered: Callable[[Answered, bool], bool]) -> None:
        self._served, self._settings, self._answered = served, settings, answered
        self._queue: deque[_Waiting] = deque()
        self.waiting = 0  # images
        self._news = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, "aetta-serve", initializer=_set_threads, initargs=(settings.threads,))
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._pace = 0.0  # seconds an image takes, lately

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Answer what waits, and end."""
        self._closing = True
        self._news.set()
        if self._task is not None:
            await self._task
        self._pool.shutdown()

    async def submit(self, images: Tensor, request: str, *, learns: bool) -> Answer:
        """The answer for a request, when its turn has come."""
        if self._closing:
            raise busy(503, "the server is stopping", 5)
        if self.waiting + len(images) > self._settings.limits.queue:
            raise busy(429, f"{self.waiting} images are waiting already", self._pace * self.waiting)
        mine = _Waiting(images, request, learns, asyncio.get_running_loop().create_future())
        self._queue.append(mine)
        self.waiting += len(images)
        self._news.set()
        return await mine.answer

    async def _run(self) -> None:
        while True:
            while not self._queue:
                if self._closing:
                    return
                self._news.clear()
                await self._news.wait()
            await self._fill()
            group = self._take()
            if group:
                await self._answer(group)

    async def _fill(self) -> None:
        """Wait for more requests, until there is a batch of them or the first has waited long enough."""
        deadline = self._queue[0].since + self._settings.wait
        while not self._closing and self.waiting < self._settings.batch:
            left = deadline - time.perf_counter()
            if left <= 0:
                return
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except TimeoutError:
                return

    def _take(self) -> list[_Waiting]:
        """The next requests that go together: as many as fit, alike in whether they teach."""
        group: list[_Waiting] = []
        while self._queue:
            head = self._queue[0]
            size = sum(len(each.images) for each in group) + len(head.images)
            if group and (size > self._settings.batch or head.learns != group[0].learns):
                break
            self._queue.popleft()
            self.waiting -= len(head.images)
            if not head.answer.done():  # its client may have gone
                group.append(head)
        return group

    async def _answer(self, group: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        try:
            batch = await loop.run_in_executor(self._pool, self._forward, group)
        except Exception as error:  # each client hears of it, and the next batch is answered
            for each in group:
                if not each.answer.done():
                    each.answer.set_exception(error)
            return
        pace = batch.seconds / len(batch.images)
        self._pace = pace if self._pace == 0 else 0.9 * self._pace + 0.1 * pace
        learns = self._answered(batch, group[0].learns)
        first = 0
        for each in group:
            last = first + len(each.images)
            if not each.answer.done():
                each.answer.set_result(Answer(batch.logits[first:last], batch.stamp, learns))
            first = last
        if learns and self._settings.digest == "lockstep":
            await loop.run_in_executor(None, batch.done.wait)

    def _forward(self, group: list[_Waiting]) -> Answered:
        start = time.perf_counter()
        images = torch.cat([each.images for each in group]) if len(group) > 1 else group[0].images
        images = images.to(self._served.device)
        logits, stamp = self._served.predict(images)
        requests = [(each.request, len(each.images)) for each in group]
        return Answered(images, logits, requests, stamp, time.perf_counter() - start)


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        torch.set_num_threads(threads)
