"""Does what is left of many requests at once: see `webapp.http.postponed`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections
from django.http import HttpResponse

from webapp.http.postponed import Postponed

WINDOW_SECONDS = 0.2
"""From one beginning to the next, at least: what comes meanwhile shares the next one's commit. So
one that comes alone waits for nobody, and agents don't notice the rest."""


class Gathering:
    def __init__(self) -> None:
        self._waiting: list[tuple[Postponed, asyncio.Future[HttpResponse]]] = []
        self._thread = ThreadPoolExecutor(1, "gathered")
        self._began_at = -math.inf
        self._turn: asyncio.Task[None] | None = None

    async def answered(self, left: Postponed) -> HttpResponse:
        """Its answer, once its part is done. Raises what its `answer` raises."""
        future: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
        self._waiting.append((left, future))
        if self._turn is None:
            self._turn = asyncio.create_task(self._do_waiting())
        return await future

    async def _do_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(self._began_at + WINDOW_SECONDS - loop.time())
            self._began_at = loop.time()
            batch, self._waiting = self._waiting, []
            parts = [left for left, _ in batch]
            said = await loop.run_in_executor(self._thread, _answers, parts)
            for (_, future), answer in zip(batch, said, strict=True):
                if future.cancelled():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._turn = None


def _answers(left: Sequence[Postponed]) -> list[HttpResponse | Exception]:
    """For each in turn. Raises nothing: those that come later wait for this one's end."""
    try:
        # As before a request: a connection that is too old or was lost is opened again.
        close_old_connections()
        answers: dict[int, HttpResponse | Exception] = {}
        for write in {each.write for each in left}:
            own = [each for each in left if each.write == write]
            for each, result in zip(own, write([one.part for one in own]), strict=True):
                answers[id(each)] = _answer(each, result)
        return [answers[id(each)] for each in left]
    except Exception as error:
        return [error] * len(left)


def _answer(left: Postponed, result: Any) -> HttpResponse | Exception:
    try:
        return left.answer(result)
    except Exception as error:
        return error
