"""Answers many requests at once: see `webapp.http.gathered`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from django.db import close_old_connections
from django.http import HttpResponse

from webapp.http.gathered import AnswerOrWork, Operation, WholeRequest, is_own_host
from webapp.web_server.application import PIECE_BYTES
from webapp.web_server.stream import RequestHead

WINDOW_SECONDS, BUSY_WINDOW_SECONDS = 0.2, 0.4
"""The least time between the starts of two groups. Requests that arrive meanwhile are answered
together and share a commit. So a request that comes alone waits for nobody, and agents don't notice
the rest."""
BUSY = 5
"""The size of a group after which the longer window is used: the next requests together cost a
tenth less."""
MOST_TOGETHER = 50
"""The most requests of a group. Groups don't wait for each other's answers."""


class Gathering:
    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._waiting: list[tuple[WholeRequest, asyncio.Future[AnswerOrWork]]] = []
        self._thread = ThreadPoolExecutor(1, "gathered")
        self._began_at, self._last_count = -math.inf, 0
        """The start and size of the last group."""
        self._turn: asyncio.Task[None] | None = None

    def takes(self, head: RequestHead) -> bool:
        """Return whether the request is gathered: only small ones are, which is the usual size."""
        headers = head.headers
        return (
            self._operation.takes(head.method, head.target)
            and int(headers.get("content-length") or 0) <= PIECE_BYTES
            and "transfer-encoding" not in headers
            and is_own_host(headers.get("host") or "")
        )

    async def answer(self, asked: WholeRequest) -> AnswerOrWork:
        """Answer a request together with others. Raises what the operation raises."""
        future: asyncio.Future[AnswerOrWork] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if self._turn is None:
            self._turn = asyncio.create_task(self._answer_waiting())
        return await future

    async def _answer_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            if len(self._waiting) < MOST_TOGETHER:
                await asyncio.sleep(self._begins_at() - loop.time())
            self._began_at = loop.time()
            batch = self._waiting[:MOST_TOGETHER]
            self._last_count = len(batch)
            del self._waiting[: len(batch)]
            asked = [each for each, _ in batch]
            said = await loop.run_in_executor(self._thread, self._answers, asked)
            for (_, future), answer in zip(batch, said, strict=True):
                if future.cancelled():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._turn = None

    def _begins_at(self) -> float:
        """Return the earliest start of the next group."""
        is_busy = self._last_count >= BUSY
        return self._began_at + (BUSY_WINDOW_SECONDS if is_busy else WINDOW_SECONDS)

    def _answers(self, asked: Sequence[WholeRequest]) -> list[AnswerOrWork | Exception]:
        """Return an answer for each request in turn. Raises nothing, because later requests wait
        for this call to end.
        """
        try:
            # Django does the same before a request: a connection that is too old or was lost is
            # opened again.
            close_old_connections()
            answers = self._operation.answers(asked)
        except Exception as error:
            return [error] * len(asked)
        if len(answers) != len(asked):
            return [RuntimeError("not an answer for each request")] * len(asked)
        return [partial(_done, each) if callable(each) else each for each in answers]


def _done(work: Callable[[], HttpResponse]) -> HttpResponse:
    """Do the work in a thread of its own, which has its own connections."""
    close_old_connections()
    return work()
