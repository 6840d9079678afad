"""The uploading thread: the newest segment first, then the backlog, with back-off in outages."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from trimtab.identity import ServiceAccess
from trimtab.spool import DeclarationUpload, Spool, WaitingSegment
from trimtab.spool.postponed import DECLARATION
from trimtab.together import SegmentBatcher, deciding_answer
from trimtab.transport import ServiceAnswer, ServiceConnection, UploadVerdict
from trimtab.wire import decode_declaration, encode_declaration, join_bodies

SEGMENTS_TYPE = "application/vnd.trimtab.segments"
SEGMENT_TYPE = "application/vnd.trimtab.segment+json"
DECLARATION_TYPE = "application/vnd.trimtab.declaration+json"
ANSWERED_HEADER = "X-Trimtab-Answered"
NOT_ALLOWED_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 60.0
_IDLE_SECONDS = 15.0
_CLAIM_SECONDS = 30.0
_TIDY_SECONDS = 60.0
_SETTLED = (UploadVerdict.TAKEN, UploadVerdict.REFUSED)
_JITTER = random.Random()  # noqa: S311 - spreads load, keeps no secret


_REFUSED = "the service refused {} and can't accept it later"


class Courier:
    """Uploads from the spool to the service, one upload per call of `send_one`."""

    def __init__(
        self,
        spool: Spool,
        server: ServiceAccess,
        say: Callable[[str], None],
        own: str = "",
        on_directives: Callable[[Any], None] = lambda directives: None,
    ) -> None:
        """Prepare uploads. `on_directives` gets the directives in responses to segments of the
        session `own`.
        """
        self._spool = spool
        self._own, self._on_directives = own, on_directives
        self._connection = ServiceConnection(server)
        self._together = SegmentBatcher()
        self._say = say
        self._said: set[str] = set()
        self._failures = 0
        self._declaration_failed = False
        self.taken = self.refused = 0
        self.problem = ""
        self.not_allowed = False
        self.not_before = 0.0
        """Monotonic seconds before which nothing should be sent."""

    def send_one(self, sessions: Iterable[str]) -> bool | None:
        """Send one upload. Returns True if it was sent (or set apart), False if it failed, None if
        nothing is waiting.
        """
        sessions = list(sessions)
        steps = [self._send_declaration, self._send_segment, self._send_artefact]
        if self._declaration_failed:  # one that always fails must not block the segments
            steps.append(steps.pop(0))
        self._declaration_failed = False
        for step in steps:
            if (sent := step(sessions)) is not None:
                return sent
        return None

    def _send_declaration(self, sessions: list[str]) -> bool | None:
        declared = next(iter(self._spool.waiting_declarations(sessions)), None)
        if declared is None:
            return None
        body = _with_expired(declared)
        answer = self._connection.put(f"runs/{declared.run}", body, DECLARATION_TYPE)
        if answer.verdict is UploadVerdict.TAKEN:
            self._spool.mark_declared(declared.session, declared.body)
        else:
            self._spool.postponed.note(declared.session, DECLARATION, answer.problem)
            self._set_aside(declared.session, DECLARATION, answer, "the declaration")
        self._declaration_failed = answer.verdict is not UploadVerdict.TAKEN
        return self._went(answer)

    def _send_segment(self, sessions: list[str]) -> bool | None:
        segment = self._spool.waiting(sessions)
        if segment is None:
            return None
        several = self._together.with_others(segment, self._spool)
        return self._send_several(several) if len(several) > 1 else self._send_single(segment)

    def _send_several(self, several: list[WaitingSegment]) -> bool:
        """Settle the segments that the service accepts. Each other one is sent by itself later."""
        newest = several[0]
        path = f"runs/{newest.run}/segments/{newest.session}"
        body = join_bodies([segment.body for segment in several])
        answer = self._connection.post(path, body, SEGMENTS_TYPE, self._answered(newest.session))
        rows = self._together.learn(several, answer)
        for segment, row in zip(several, rows):
            if row.verdict is UploadVerdict.TAKEN:
                self._take(segment)
        if rows:
            self._obey(newest.session, answer)
        deciding = deciding_answer(answer, rows)
        if deciding is None:
            return self._send_single(newest)
        if deciding.verdict is not UploadVerdict.TAKEN:
            self._spool.count_failure(newest.session, newest.seq, deciding.problem)
        return self._went(deciding)

    def _send_single(self, segment: WaitingSegment) -> bool:
        session, seq = segment.session, segment.seq
        path = f"runs/{segment.run}/segments/{session}/{seq}"
        answer = self._connection.put(path, segment.body, SEGMENT_TYPE, self._answered(session))
        if answer.verdict is UploadVerdict.TAKEN:
            self._take(segment)
            self._obey(session, answer)
        elif answer.verdict is UploadVerdict.TOO_LARGE and self._spool.split(session, seq):
            self.problem = answer.problem
            return True
        elif answer.verdict is UploadVerdict.REFUSED:
            self._spool.dead.bury(session, seq, answer.problem)
            self._say_once(f"{_REFUSED.format('a segment')}: {answer.problem}")
        else:
            self._spool.count_failure(session, seq, answer.problem)
            self._set_aside(session, str(seq), answer, "a segment")
        return self._went(answer)

    def _answered(self, session: str) -> dict[str, str]:
        ranges = _ranges(self._spool.accepted_numbers(session))
        return {ANSWERED_HEADER: ranges} if ranges else {}

    def _take(self, segment: WaitingSegment) -> None:
        self._spool.acknowledge(segment.session, segment.seq)
        self.taken += 1

    def _obey(self, session: str, answer: ServiceAnswer) -> None:
        self._resend(answer)
        if session == self._own:
            self._on_directives(answer.document.get("directives"))

    def _send_artefact(self, sessions: list[str]) -> bool | None:
        artefact = self._spool.artefacts.waiting(sessions)
        if artefact is None:
            return None
        path = f"runs/{artefact.run}/artefacts/{artefact.sha256}"
        headers = {
            "Content-Type": "application/octet-stream",
            "X-Trimtab-Kind": artefact.kind,
            "X-Trimtab-Name": quote(artefact.name),
            "X-Trimtab-Job": quote(artefact.job),
        }
        answer = self._connection.put_file(path, artefact.path, headers)
        if answer.verdict is UploadVerdict.TAKEN:
            self._spool.artefacts.delete_settled(artefact.session, artefact.sha256)
        else:
            self._spool.artefacts.count_failure(artefact.session, artefact.sha256)
            self._set_aside(artefact.session, artefact.sha256, answer, artefact.name)
        return self._went(answer)

    def _set_aside(self, session: str, item: str, answer: ServiceAnswer, what: str) -> None:
        """Set an upload aside that the service can't accept, now or ever, so that the others
        pass.
        """
        if answer.verdict is UploadVerdict.REFUSED:
            self._spool.postponed.refuse(session, item, answer.problem)
            self._say_once(f"{_REFUSED.format(what)}: {answer.problem}")
        elif answer.verdict in (UploadVerdict.POSTPONED, UploadVerdict.TOO_LARGE):
            self._spool.postponed.postpone(session, item, answer.problem)
            self._say_once(f"{what} can't be sent at present and is kept: {answer.problem}")

    def _resend(self, answer: ServiceAnswer) -> None:
        """Send segments again that a service that lost power had accepted and asks for."""
        again = answer.document.get("resend")
        for pair in again if isinstance(again, list) else []:
            if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], int):
                self._spool.asked_again(str(pair[0]), pair[1])

    def _went(self, answer: ServiceAnswer) -> bool:
        good = answer.verdict in _SETTLED
        self.problem = "" if good else answer.problem
        self.not_allowed = answer.verdict is UploadVerdict.NOT_ALLOWED
        self.refused += answer.verdict is UploadVerdict.REFUSED
        self._failures = 0 if good else self._failures + 1
        pause = 0.0
        if self.not_allowed:
            pause = NOT_ALLOWED_SECONDS
            self._say_once(
                f"{answer.problem.rstrip('.')}. Samples are kept until the token works; check "
                "TRIMTAB_TOKEN."
            )
        elif not good:
            pause = _JITTER.uniform(0, min(_LONGEST_PAUSE_SECONDS, 2.0 ** (self._failures - 1)))
        # Postponed uploads wait by themselves: the Retry-After of one is none for the others.
        wait = (
            0.0 if answer.verdict is UploadVerdict.POSTPONED else answer.retry_after_seconds or 0.0
        )
        # All agents may get the same retry_after; each one's own pause spreads them.
        self.not_before = time.monotonic() + pause + wait
        return good

    def _say_once(self, problem: str) -> None:
        if problem not in self._said:
            self._said.add(problem)
            self._say(problem)


class Uploader(threading.Thread):
    """Uploads a session's segments as they are sealed, and the backlog in between."""

    def __init__(
        self,
        spool: Spool,
        server: ServiceAccess,
        session: str,
        say: Callable[[str], None],
        on_directives: Callable[[Any], None] = lambda directives: None,
    ) -> None:
        super().__init__(name="trimtab-uploader", daemon=True)
        self._spool = spool
        self._own = session
        self._destination = server.destination
        self._courier = Courier(spool, server, say, session, on_directives)
        self._wake = threading.Event()
        self._flushing = False
        self._settled = threading.Event()
        self._backlog: list[str] = []
        self._claim_at = self._tidy_at = time.monotonic() + _JITTER.uniform(1, 5)

    @property
    def taken(self) -> int:
        """Return how many segments of this process the service accepted."""
        return self._courier.taken

    def wake(self) -> None:
        self._wake.set()

    def flush(self, at_most_seconds: float) -> None:
        """Send what is left of this session now, back-off or not; return at the first failure."""
        self._courier.not_before = 0.0
        self._flushing = True
        self._wake.set()
        self._settled.wait(at_most_seconds)

    def run(self) -> None:
        while True:
            flushing = self._flushing
            sent = self._safely_send()
            if flushing and not sent:
                self._settled.set()
            pause = self._courier.not_before - time.monotonic()
            if sent and pause <= 0:
                continue
            self._wait(pause if pause > 0 else _IDLE_SECONDS, deaf=pause > 0)

    def _wait(self, seconds: float, deaf: bool) -> None:
        """Wait until there is something to send; a back-off (`deaf`) ignores new segments."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self._wake.wait(left):
            self._wake.clear()
            if not deaf or (self._flushing and not self._settled.is_set()):
                return

    def _safely_send(self) -> bool | None:
        try:
            self._care()
            sent = self._courier.send_one([self._own])
            if sent is None and self._backlog and not self._flushing:
                sent = self._courier.send_one(self._backlog)
        except Exception as error:
            self._courier.problem = f"{type(error).__name__}: {error}"
            self._courier.not_before = time.monotonic() + 5.0
            return False
        return sent

    def _care(self) -> None:
        now = time.monotonic()
        if now >= self._claim_at and self._destination:
            self._claim_at = now + _CLAIM_SECONDS
            self._backlog = [s for s in self._spool.claim([self._destination]) if s != self._own]
        if now >= self._tidy_at:
            self._tidy_at = now + _TIDY_SECONDS
            self._spool.tidy()


def _ranges(answered: list[tuple[int, int]]) -> str:
    """Return `12-96,3`: what a service that lost data can ask for again."""
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in answered)


def _with_expired(declared: DeclarationUpload) -> bytes:
    if not declared.expired_uploads:
        return declared.body
    declaration = decode_declaration(declared.body)
    return encode_declaration(replace(declaration, expired_uploads=declared.expired_uploads))
