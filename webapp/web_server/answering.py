"""Has threads answer whole requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from wsgiref.types import WSGIApplication

from webapp.http.gathered import Operation, WholeRequest, middleware_headers
from webapp.http.trouble import answer
from webapp.web_server.application import PIECE_BYTES, HttpAnswer, call_application, to_answer
from webapp.web_server.connections import Connection
from webapp.web_server.gathering import Gathering
from webapp.web_server.stream import GoneError

FILE_THREADS, THREADS_FOR_PAGES = 2, 2

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


class Answering:
    """Answers requests with an application, and those of one operation many at a time."""

    def __init__(
        self, application: WSGIApplication, threads: int, gathered: Operation, name: tuple[str, str]
    ) -> None:
        """Begin to answer. `gathered` is the operation whose requests are answered many at a time;
        `name` is the host and port that the application is told.
        """
        self._application, self.gathering, self.name = application, Gathering(gathered), name
        self._threads = ThreadPoolExecutor(threads, "web")
        # However many uploads are complete at the same moment, pages find a thread.
        self._uploads = asyncio.Semaphore(max(1, threads - THREADS_FOR_PAGES))
        self._file_threads = ThreadPoolExecutor(FILE_THREADS, "files")
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], connection: Connection) -> None:
        """Start work for a connection, which ends if the work fails."""
        task = asyncio.create_task(_delivered(work, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def answer_request(self, environ: dict[str, Any]) -> HttpAnswer:
        """Answer a request. An exception of the application becomes an answer, too."""
        work = partial(call_application, self._application, environ)
        has_body = environ.get("CONTENT_LENGTH", "0") != "0"
        try:
            return await (self._upload_done(work) if has_body else self._done(work))
        except Exception as error:
            return _instead(environ["PATH_INFO"], error)

    async def answer_gathered(self, asked: WholeRequest) -> HttpAnswer:
        """Answer a request together with others; an exception of the operation becomes an answer,
        too.
        """
        try:
            said = await self.gathering.answer(asked)
            answer = to_answer(await self._upload_done(said) if callable(said) else said)
        except Exception as error:
            answer = _instead(asked.target, error)
        proto = asked.headers.get("x-forwarded-proto") or ""
        answer.headers = [*middleware_headers(proto), *answer.headers]
        return answer

    async def _upload_done(self, work: Callable[[], Result]) -> Result:
        async with self._uploads:
            return await self._done(work)

    async def _done(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def read(self, answer: HttpAnswer) -> bytes:
        """Return the next piece of the content, b"" at the end."""
        rest = answer.rest
        if rest is None:
            return b""
        if not answer.is_foreign:
            return rest.read(PIECE_BYTES)
        return await self.in_file_thread(lambda: rest.read(PIECE_BYTES))

    async def in_file_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._file_threads, work)


async def _delivered(work: Coroutine[Any, Any, None], connection: Connection) -> None:
    try:
        await work
    except GoneError:
        pass
    except Exception:
        logger.exception("a request failed")
        connection.stream.close()


def _instead(path: str, error: Exception) -> HttpAnswer:
    """Return the answer to a request that raised an error."""
    if trouble := answer(path, error):
        return to_answer(trouble)
    logger.error("the application failed", exc_info=error)
    return HttpAnswer(500, "Internal Server Error", [("Content-Length", "0")], b"")
