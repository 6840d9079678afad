"""Passes the command's standard error on and keeps its last lines, for `--keep-stderr`.

Where standard error is a terminal, the command gets a pseudo-terminal of the same size, else a
pipe. The bytes that arrive are the bytes that it wrote.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import termios
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from trimtab.redaction import redacted_lines
from trimtab.wire import LIMITS

MOST_LINES = 50
MOST_BYTES = 64 * 1024
_LONGEST_LINE_BYTES = 16 * 1024
_CHUNK_BYTES = 64 * 1024
_STDERR = 2
_DRAIN_SECONDS = 0.5
"""The time that processes which outlive the command get: they may hold its standard error open as
long as they like."""
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
"""Escapes of ECMA-48: control sequences, strings (titles, links), others, and control
characters."""


def strip_escapes(text: str) -> str:
    return _ESCAPES.sub("", text)


class LastLines:
    """The last lines of a stream; of a line that was overwritten (`\\r`) the last state."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=MOST_LINES)
        self._partial = b""

    def add(self, chunk: bytes) -> None:
        *whole, self._partial = (self._partial + chunk).split(b"\n")
        self._lines.extend(_shown(line) for line in whole[-MOST_LINES:])
        _, returned, rest = self._partial.rpartition(b"\r")
        if returned and rest:
            self._partial = rest
        if len(self._partial) > 2 * _LONGEST_LINE_BYTES:
            self._partial = _cut(self._partial)

    def read_redacted(self, secrets: Sequence[str]) -> list[str]:
        """Return text without escape sequences and secrets, at most `MOST_BYTES` in all."""
        lines = [*self._lines, _shown(self._partial)] if self._partial else list(self._lines)
        texts = [strip_escapes(line.decode(errors="replace")) for line in lines[-MOST_LINES:]]
        kept: deque[str] = deque()
        room = MOST_BYTES
        for text in reversed(redacted_lines(texts, secrets)):
            text = text[: LIMITS.text_chars]
            room -= len(text.encode()) + 1
            if room < 0:
                break
            kept.appendleft(text)
        return list(kept)


def _shown(line: bytes) -> bytes:
    return _cut(line.rstrip(b"\r").rpartition(b"\r")[2])


def _cut(line: bytes) -> bytes:
    """Cut a line to whole words: half a secret isn't recognised."""
    if len(line) <= _LONGEST_LINE_BYTES:
        return line
    return line[-_LONGEST_LINE_BYTES:].partition(b" ")[2]


class KeptStderr:
    """Reads what the command writes to standard error, in a thread of its own."""

    def __init__(self) -> None:
        """Open the pipe or pseudo-terminal. Raises OSError."""
        self.is_terminal = os.isatty(_STDERR)
        self._source, self.target = os.openpty() if self.is_terminal else os.pipe()
        """`target` is for the command."""
        self._lines = LastLines()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        if self.is_terminal:
            _pass_unchanged(self.target)
            self.resize()

    def start(self) -> None:
        """Start to read. The command has its copy of `target`."""
        os.close(self.target)
        self._thread.start()

    def abandon(self) -> None:
        """Close everything, because the command couldn't be started."""
        os.close(self.target)
        os.close(self._source)

    def resize(self) -> None:
        """Note that the terminal's window has changed."""
        with suppress(OSError):
            size = fcntl.ioctl(_STDERR, termios.TIOCGWINSZ, struct.pack("4H", 0, 0, 0, 0))
            fcntl.ioctl(self._source, termios.TIOCSWINSZ, size)

    def finish(self, secrets: Sequence[str]) -> list[str]:
        """Return the last lines, once the command has ended."""
        self._thread.join(_DRAIN_SECONDS)
        return self._lines.read_redacted(secrets)

    def _pass_on(self) -> None:
        """Pass on what is read. A terminal without writers is an error (EIO). If nobody reads our
        standard error, the command is told so as without the agent: its next write fails.
        """
        with suppress(OSError):
            while chunk := os.read(self._source, _CHUNK_BYTES):
                self._lines.add(chunk)
                _write(chunk)
        with suppress(OSError):
            os.close(self._source)


def _write(chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        try:
            rest = rest[os.write(_STDERR, rest) :]
        except BlockingIOError:
            select.select([], [_STDERR], [])


def _pass_unchanged(terminal: int) -> None:
    """Turn off the pseudo-terminal's newline translation; the real terminal does it."""
    modes = termios.tcgetattr(terminal)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
