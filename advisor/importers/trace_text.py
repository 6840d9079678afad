"""Reads the text of a Chrome trace event by event, so that a bad event costs only itself.

A stretch of events is decoded at once. Where that fails, its events are read one by one, and after
a broken one reading continues at the next event that is whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

from advisor.importers.recording import NotImportableError
from advisor.importers.tally import Tally
from advisor.importers.text_encoding import to_utf8

T = TypeVar("T")

MOST_EVENT_BYTES = 1024 * 1024
"""The most bytes of one event; a stack in its arguments has some thousand."""
BROKEN, NO_EVENT = "not a whole record of JSON", "not a trace event"
_STRETCH_BYTES = 2 * 1024 * 1024
_SIDE_BYTES = 64 * 1024
"""The bytes that are kept of what is before and after the events, and searched for the end of a
stretch."""
_TRIES_BYTES = 64 * 1024 * 1024
"""The bytes that tries to read broken events may parse in vain, and again as much as the file
has."""
_DEEP_BYTES = 10_000
"""The bytes that a try counts for that ends at the bound of nesting."""
_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE = re.compile(rb"\s*\[")
_BETWEEN_EVENTS = re.compile(rb"\}\s*,\s*(?=\{)")
_SEPARATORS, _SPACE = re.compile(r"[\s,]*"), re.compile(r"\s*")
_EVENT = re.compile(r'\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args|bp|s|cname)"\s*:')
_KIND = re.compile(r'"ph"\s*:')
_DECIMAL_COMMA = re.compile(r'("\s*:\s*-?\d+),(?=\d+(?:[eE][+-]?\d+)?\s*[,}])')
_SEPARATING = b", \t\r\n"
_READER = json.JSONDecoder(strict=False)


class EventReader(Generic[T]):
    """The events of one file.

    Attributes:
        head: what is before the events, as far as it is kept.
        tail: what is after them, as far as it is kept.
    """

    def __init__(
        self,
        pieces: Iterable[bytes],
        path: str,
        tally: Tally,
        decode: Callable[[bytes], list[T]],
        convert: Callable[[dict[str, Any]], T],
    ) -> None:
        """`decode`: a whole list, or ValueError; `convert`: one event that JSON has as this."""
        self.head, self.tail = b"", b""
        self._pieces, self._path, self._tally = to_utf8(pieces), path, tally
        self._decode, self._convert = decode, convert
        self._is_begun = self._is_ended = self._is_lost = False
        self._tries_left = _TRIES_BYTES
        self._seen = self._no_events = self._commas = 0

    def batches(self) -> Iterator[list[T]]:
        """Yield the events in the order of the file, some thousand at once."""
        stretches = self._stretches()
        body, after = b"", next(stretches, None)
        while after is not None and not self._is_ended:
            body, after = body + after, next(stretches, None)
            rest = yield from self._read(body, is_last=after is None)
            body = rest if after is not None else body
        if not self._is_ended:
            self.tail = body[-_SIDE_BYTES:]
        self.tail = (self.tail + (after or b""))[:_SIDE_BYTES]
        if not self._is_begun and not self._seen:
            self._tally.skip("files", "no trace events in it", 1, self._path)
        self._tally.skip("records", NO_EVENT, self._no_events, self._path)
        if self._commas:
            self._tally.note(
                f"Numbers with a decimal comma are read as if it were a point: {self._commas:,}."
            )

    def _stretches(self) -> Iterator[bytes]:
        """Yield the file in pieces of some length. One that is damaged ends there."""
        held: list[bytes] = []
        size = 0
        try:
            for piece in self._pieces:
                held.append(piece)
                size += len(piece)
                if size >= _STRETCH_BYTES:
                    yield b"".join(held)
                    held, size = [], 0
        except NotImportableError as error:
            why = f"can't be read to their end: {error}"
            self._tally.skip("files", why, 1, self._path)
        if held:
            yield b"".join(held)

    def _read(self, body: bytes, is_last: bool) -> Generator[list[T], None, bytes]:
        """Return, at last, what belongs to the next stretch."""
        self._tries_left += len(body)
        if not self._is_begun:
            body = self._begin(body)
        body = body.lstrip(_SEPARATING)
        if not self._is_lost:
            end = _last_boundary(body)
            events = self._at_once(body[:end])
            if events is not None:
                yield events
                body = body[end:].lstrip(_SEPARATING)
                if not is_last and len(body) < MOST_EVENT_BYTES:
                    return body
            if is_last and (events := self._to_the_end(body)) is not None:
                yield events
                return b""
        text, commas = _text(body)
        self._commas += commas
        single, end = self._one_by_one(text, is_last)
        yield single
        return text[end:].encode(errors="surrogateescape")

    def _begin(self, body: bytes) -> bytes:
        """Return what follows the head. Without one, the first whole event is looked for."""
        begin = _LIST.search(body) or (None if self.head else _BARE.match(body))
        self.head = self.head or body[: begin.start() if begin else None][:_SIDE_BYTES]
        self._is_begun, self._is_lost = begin is not None, begin is None
        return body[begin.end() :] if begin else body

    def _at_once(self, body: bytes) -> list[T] | None:
        """Return the events of a stretch; None: not all of it is JSON."""
        body = body.rstrip(_SEPARATING)
        try:
            events = self._decode(b"[" + body + b"]")
        except (ValueError, RecursionError):
            found = self._values(body + b"]")
            return found[0] if found else None
        self._seen += len(events)
        return events

    def _to_the_end(self, body: bytes) -> list[T] | None:
        """Return the events up to the end of their list; None: something in it is damaged."""
        found = self._values(body)
        if found is None:
            return None
        events, after = found
        self._is_ended, self.tail = True, after[:_SIDE_BYTES].encode(errors="surrogateescape")
        return events

    def _values(self, body: bytes) -> tuple[list[T], str] | None:
        """Return the events of what is JSON for Python, and what follows the end of their list.

        Numbers that are none, and what is no event, may be among them.
        """
        text, commas = _text(b"[" + body)
        try:
            values, end = _READER.raw_decode(text)
        except (ValueError, RecursionError):
            return None
        after = text[end:].lstrip()
        if after.startswith("{"):  # a bracket that is damage
            return None
        events = [self._convert(value) for value in values if isinstance(value, dict)]
        self._commas += commas
        self._seen += len(values)
        self._no_events += len(values) - len(events)
        return events, after

    def _one_by_one(self, text: str, is_last: bool) -> tuple[list[T], int]:
        """Return the events, and where what belongs to the next stretch begins."""
        found: list[T] = []
        at = self._found_again(text) if self._is_lost else 0
        while not self._is_lost and not self._is_ended:
            at = _after(_SEPARATORS, text, at)
            if at == len(text) or (text[at] == "]" and not self._goes_on(text, at)):
                break
            if text[at] == "]":
                at += 1
                continue
            value, end = self._value(text, at)
            if end:
                if isinstance(value, dict):
                    found.append(self._convert(value))
                else:
                    self._no_events += 1
                self._seen += 1
                at = end
                continue
            after = self._next_event(text, at + 1)
            if after is None and not is_last and len(text) - at < MOST_EVENT_BYTES:
                break
            self._leave_out(text[at:after])
            self._is_lost = after is None
            at = len(text) if after is None else after
        return found, at

    def _found_again(self, text: str) -> int:
        at = self._next_event(text, 0)
        self._is_lost = at is None
        self._is_begun = self._is_begun or at is not None
        return max(len(text) - _SIDE_BYTES, 0) if at is None else at

    def _goes_on(self, text: str, at: int) -> bool:
        """Return whether events follow a bracket, which only a damaged file has between them."""
        after = _after(_SPACE, text, at + 1)
        if text[after : after + 1] == "{":
            return True
        self._is_ended = after < len(text)
        self.tail = text[at : at + _SIDE_BYTES].encode(errors="surrogateescape")
        return False

    def _value(self, text: str, at: int) -> tuple[Any, int]:
        """Return the value, and its end; 0: there is none."""
        try:
            value, end = _READER.raw_decode(text, at)
        except RecursionError:
            self._tries_left -= _DEEP_BYTES
            return None, 0
        except ValueError as error:
            self._tries_left -= getattr(error, "pos", at) - at + 1
            return None, 0
        is_value = isinstance(value, dict) or text[end : end + 1] in (",", "]", "")
        return value, end if is_value else 0

    def _next_event(self, text: str, at: int) -> int | None:
        """Return where the next whole event begins; None: there is none here."""
        for start in _EVENT.finditer(text, at):
            if self._tries_left <= 0:
                self._is_ended = True
                why = "too damaged to be read to their end"
                self._tally.skip("files", why, 1, self._place())
                return None
            before = text[max(start.start() - 20, 0) : start.start()]
            if before.rstrip().endswith(":"):  # a part of an event
                continue
            value, _ = self._value(text, start.start())
            if isinstance(value, dict) and isinstance(value.get("ph"), str):
                return start.start()
        return None

    def _leave_out(self, broken: str) -> None:
        count = max(len(_KIND.findall(broken)), 1)
        self._tally.skip("records", BROKEN, count, self._place())
        self._seen += count

    def _place(self) -> str:
        return f"{self._path}, event {self._seen + 1:,}"


def _text(body: bytes) -> tuple[str, int]:
    """Return the text, with decimal points for decimal commas, and how many those were."""
    return _DECIMAL_COMMA.subn(r"\1.", body.decode(errors="surrogateescape"))


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where the longest run of what the pattern has ends."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _last_boundary(body: bytes) -> int:
    """Return where the last event begins that may go on in the next stretch."""
    for first in (max(len(body) - _SIDE_BYTES, 0), 0):
        starts = [found.start() for found in _BETWEEN_EVENTS.finditer(body, first)]
        if starts:
            return starts[-1] + 1
    return 0
