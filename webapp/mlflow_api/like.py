"""Matches LIKE and ILIKE in a time that no pattern can make long.

A client's pattern never becomes a regular expression, whose engine would try each way to share a
text among several `%`. The first place where a piece between two `%` fits is as good as any later
one, so each piece is searched once, from the end of the piece before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from webapp.mlflow_api.errors import invalid_parameter

MOST_CHARS = 500
"""The most characters of a pattern. Each may take a step over the whole text."""
_Chars = list[str | None]
"""Characters of a pattern; None is any character."""


class Like:
    """A pattern. `%` stands for any text and `_` for any character; `\\` before one of them, or
    before another `\\`, takes that meaning away.

    MLflow's databases mind the case of LIKE, and not that of ILIKE. PostgreSQL and MySQL escape
    with `\\`.
    """

    def __init__(self, pattern: str, *, ignores_case: bool = False) -> None:
        """Parse a pattern. Raises MlflowError."""
        if len(pattern) > MOST_CHARS:
            raise invalid_parameter(f"A LIKE pattern has more than {MOST_CHARS} characters.")
        self._ignores_case = ignores_case
        first, *others = _between_wildcards(_folded(pattern) if ignores_case else pattern)
        self._first = _piece(first)
        self._middle = [_piece(chars) for chars in others[:-1] if chars]
        self._last = _piece(others[-1]) if others else None

    def matches(self, text: str) -> bool:
        text = _folded(text) if self._ignores_case else text
        if not self._first.is_at(text, 0):
            return False
        if self._last is None:
            return len(text) == self._first.length
        begin, end = self._first.length, len(text) - self._last.length
        if end < begin or not self._last.is_at(text, end):
            return False
        return self._has_middle(text, begin, end)

    def _has_middle(self, text: str, begin: int, end: int) -> bool:
        places: dict[str, int] = {}
        for piece in self._middle:
            at = piece.find(text, begin, end, places)
            if at < 0:
                return False
            begin = at + piece.length
        return True


@dataclass(frozen=True)
class _Piece:
    """Text that stands before, between or after `%`."""

    length: int
    words: tuple[tuple[int, str], ...]
    """The texts before, between and after `_`, each with its distance from the start."""

    def is_at(self, text: str, at: int) -> bool:
        return all(text.startswith(word, at + offset) for offset, word in self.words)

    def find(self, text: str, begin: int, end: int, places: dict[str, int]) -> int:
        """Return the first place between `begin` and `end`, or -1.

        Args:
            places: those of characters of the text, as far as they are known.
        """
        if self.words and len(self.words[0][1]) == self.length:
            return text.find(self.words[0][1], begin, end)
        tried = end - begin - self.length + 1
        if tried <= 0:
            return -1
        fits = ((1 << tried) - 1) << begin
        for offset, word in self.words:
            for at, char in enumerate(word, offset):
                if char not in places:
                    places[char] = _places(text, char)
                # All places are tried at once, a bit for each.
                fits &= places[char] >> at
        return (fits & -fits).bit_length() - 1


def _places(text: str, char: str) -> int:
    """Return a number whose bit N tells whether the text has the character at N."""
    bits = bytearray(len(text) // 8 + 1)
    at = text.find(char)
    while at >= 0:
        bits[at >> 3] |= 1 << (at & 7)
        at = text.find(char, at + 1)
    return int.from_bytes(bits, "little")


def _between_wildcards(pattern: str) -> list[_Chars]:
    found: list[_Chars] = [[]]
    chars = iter(pattern)
    for char in chars:
        if char == "%":
            found.append([])
        elif char == "_":
            found[-1].append(None)
        elif char == "\\":
            after = next(chars, "")
            found[-1].extend(after if after and after in "%_\\" else char + after)
        else:
            found[-1].append(char)
    return found


def _piece(chars: _Chars) -> _Piece:
    places = groupby(enumerate(chars), lambda place: place[1] is None)
    words = [list(word) for is_any, word in places if not is_any]
    texts = ((word[0][0], "".join(char for _, char in word if char)) for word in words)
    return _Piece(len(chars), tuple(texts))


def _folded(text: str) -> str:
    """Return the text in lower case, as long as it is: `_` counts characters.

    `str.lower` makes two characters of one letter only, and looks around one other letter.
    """
    return text.replace("İ", "i").lower().replace("ς", "σ")
