"""Redacts secrets in a command before it is written anywhere: by name, by format, by entropy."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

REDACTED = "[redacted]"

_SECRET_NAME = re.compile(
    r"(token([-_.]|$)|passw|pwd|secret|credential|authorization|bearer|cookie|private|signature|dsn"
    r"|(^|[-_.])(auth|pass|key|pat|sas)([-_.]|$)|api[-_]?key|access[-_]?key|keyfile)",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(r"\A(?P<name>-{0,2}[A-Za-z_][\w.\-]*)(?P<sign>=|:)(?P<value>.+)\Z", re.S)
_URL_CREDENTIALS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.\-]{0,30}://)[^/@\s]+@", re.IGNORECASE)
"""The credentials in a URL. Without the limit of 30, a word of 100 000 letters takes a minute, as
each may begin a scheme."""
_KNOWN_SHAPES = re.compile(
    r"\b(?:sk|pk|ghp|gho|ghs|glpat|hf|tt|xox[bap]|AKIA|ASIA|eyJ)[-_A-Za-z0-9]{12,}"
)
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY")
_KEY_ENDS = re.compile(r"-----END [A-Z ]*PRIVATE KEY")
_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s]+|(?<![\w./])/root(?=/|\Z)")
_BETWEEN_WORDS = re.compile(r"(\s+|[\"'`;|&(){}\[\],<>]+)")
_SHORTEST_SECRET = 8
_OPAQUE = re.compile(r"[A-Za-z0-9+/=_\-]{20,}")
_SECRET_BITS_PER_CHARACTER = 3.8
"""Random base64 of 20 to 40 characters measures 3.9 to 4.9; paths and names stay below 3.8."""


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables that are named like secrets."""
    return [
        value
        for name, value in environment.items()
        if len(value) >= _SHORTEST_SECRET
        and not value.startswith("/")
        and not name.endswith(("PWD", "_SOCK"))
        and _SECRET_NAME.search(name.replace("_", "-"))
    ]


def redact_command(command: Sequence[str], secrets: Sequence[str] = ()) -> list[str]:
    """Return the words of a command, with all values replaced that are, or look like, secrets."""
    words: list[str] = []
    value_is_secret = False
    for word in command:
        for secret in secrets:
            word = word.replace(secret, REDACTED)
        words.append(REDACTED if value_is_secret and not _is_option(word) else _word(word))
        value_is_secret = _is_option(word) and "=" not in word and _names_secret(word)
    return words


def redacted_lines(lines: Sequence[str], secrets: Sequence[str] = ()) -> list[str]:
    """Redact lines of output: as words of a command, and also `password: x`, `Bearer x`, private
    keys and the names of people in paths of home folders.
    """
    parts = [part for secret in secrets for part in secret.split("\n")]
    known = sorted({p.strip() for p in parts if len(p.strip()) >= _SHORTEST_SECRET}, key=len)
    kept: list[str] = []
    in_key = False
    for line in lines:
        begins, ends = bool(_KEY_BEGINS.search(line)), bool(_KEY_ENDS.search(line))
        kept.append(REDACTED if in_key or begins else _line(line, known[::-1]))
        in_key = (in_key or begins) and not ends
    return kept


def _line(line: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        line = line.replace(secret, REDACTED)
    pieces = [_HOME.sub("~", piece) for piece in _BETWEEN_WORDS.split(line)]
    named = follows = False
    for number, piece in enumerate(pieces):
        if not piece or _BETWEEN_WORDS.fullmatch(piece) or piece == REDACTED:
            continue
        if piece in ("=", ":", "=>"):
            follows = named
            continue
        pieces[number] = REDACTED if follows else _piece(piece)
        named = _names_secret(piece)
        follows = _announces(piece, named, follows)
    return "".join(pieces)


def _announces(piece: str, named: bool, is_secret: bool) -> bool:
    """Return whether the next word is a secret: `--token x`, `password: x`, `Authorization: Basic
    x`.
    """
    if piece.lower() == "bearer" or (is_secret and piece.lower() == "basic"):
        return True
    is_whole = "=" not in piece[:-1] and ":" not in piece[:-1]
    return named and is_whole and (piece[0] == "-" or piece[-1] in ":=")


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word[1:2].isdigit()


def _names_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name.lstrip("-")))


def _word(word: str) -> str:
    if any(character.isspace() for character in word):
        return "".join(_piece(piece) for piece in re.split(r"(\s+|[\"';|&()]+)", word))
    return _piece(word)


def _piece(word: str) -> str:
    assignment = _ASSIGNMENT.match(word)
    if assignment is None:
        return _value(word)
    name, sign, value = assignment.groups()
    if "://" in name + sign + value[:2]:
        return _value(word)
    return name + sign + (REDACTED if _names_secret(name) else _value(value))


def _value(value: str) -> str:
    value = _URL_CREDENTIALS.sub(rf"\g<scheme>{REDACTED}@", value)
    value = _KNOWN_SHAPES.sub(REDACTED, value)
    return _OPAQUE.sub(lambda match: REDACTED if _is_opaque(match[0]) else match[0], value)


def _is_opaque(text: str) -> bool:
    """Return whether a text looks random: mixed kinds of characters and high entropy."""
    kinds = [any(map(test, text)) for test in (str.isdigit, str.isupper, str.islower)]
    if re.fullmatch(r"[0-9a-f]{32,}", text, re.IGNORECASE):
        return True
    words = re.split(r"[/_\-]", text)
    if sum(kinds) < 2 or max(map(len, words)) < 12:
        return False
    counts = Counter(text)
    bits = -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())
    return bits >= _SECRET_BITS_PER_CHARACTER
