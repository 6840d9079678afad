"""The grammar of filters of runs: `metrics.loss < 0.1 and tags.team = 'vision'`.

MLflow's clients and the list of runs share it; what names and values mean is theirs.
https://mlflow.org/docs/latest/search-runs/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_CONDITIONS = 50
IS_NULL, IS_NOT_NULL = "NULL", "NOT NULL"
"""The comparisons that have no value: `IS NULL` and `IS NOT NULL`."""
_QUOTED = r"""`[^`]+`|"[^"]+"|'[^']+'"""
NAME = rf"(?:(?P<group>\w+)\s*\.\s*)?(?P<key>{_QUOTED}|[\w.\-/]+)"
"""The pattern of a name: a group, if there is one, and a key."""
_OPERATOR = r">=|<=|!=|=|<|>|\bNOT\s+IN\b|\bIN\b|\bILIKE\b|\bLIKE\b"
_VALUE = r"""'[^']*'|"[^"]*"|\([^)]*\)|[^\s'"()=<>!]+"""
_NAMED = re.compile(rf"\s*{NAME}\s*", re.IGNORECASE)
_NULL = re.compile(r"IS\s+(?P<op>NOT\s+NULL|NULL)\b", re.IGNORECASE)
_COMPARED = re.compile(rf"(?P<op>{_OPERATOR})\s*", re.IGNORECASE)
_VALUED = re.compile(_VALUE)
_AND = re.compile(r"\s*AND\b", re.IGNORECASE)
_PLAIN = re.compile(r"[\w\-/]+(\.[\w\-/]+)*", re.ASCII)


class FilterError(ValueError):
    """A filter that can't be understood. The message says what to write.

    Attributes:
        place: the number of characters before what isn't understood.
    """

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class ParsedCondition:
    """One comparison as it is written."""

    group: str | None
    key: str
    op: str
    """The comparison in upper case, with single spaces."""
    value: str | None
    """The value with its quotes or brackets; None for `IS NULL` and `IS NOT NULL`."""
    place: int
    """The number of characters before it."""
    text: str
    """The comparison as the filter has it."""

    @property
    def is_quoted(self) -> bool:
        return self.value is not None and self.value[0] in "'\""

    @property
    def words(self) -> list[str]:
        """The value without its quotes; the values of a list without theirs."""
        value = self.value or ""
        listed = value[1:-1].split(",") if value[:1] == "(" else [value]
        return [unquote(each.strip()) for each in listed]


def parse_conditions(text: str) -> list[ParsedCondition]:
    """Return the comparisons, which all must hold. Raises FilterError."""
    return list(_conditions(text))


def _conditions(text: str) -> Iterator[ParsedCondition]:
    at, count = 0, 0
    while text[at:].strip():
        if count == MOST_CONDITIONS:
            raise FilterError(f"At most {MOST_CONDITIONS} conditions.", at)
        if count:
            at = _after_and(text, at)
        found, at = _condition(text, at)
        count += 1
        yield found


def _after_and(text: str, at: int) -> int:
    joined = _AND.match(text, at)
    if joined is None:
        raise FilterError("Write and between two conditions.", _next(text, at))
    return joined.end()


def _condition(text: str, at: int) -> tuple[ParsedCondition, int]:
    """Parse the condition at a place. Returns it, and where it ends."""
    named = _NAMED.match(text, at)
    if named is None:
        raise FilterError("Write a name here, as in lr = 0.1.", _next(text, at))
    begin, value = _next(text, at), None
    compared = _NULL.match(text, named.end())
    end = compared.end() if compared else named.end()
    if compared is None:
        compared = _COMPARED.match(text, named.end())
        if compared is None:
            fix = f"Write =, !=, <, <=, >, >=, LIKE, IN or IS NULL after {named['key']}."
            raise FilterError(fix, named.end())
        value, end = _value(text, compared.end())
    op = " ".join(compared["op"].upper().split())
    return ParsedCondition(
        named["group"], unquote(named["key"]), op, value, begin, text[begin:end]
    ), end


def _value(text: str, at: int) -> tuple[str, int]:
    valued = _VALUED.match(text, at)
    if valued is None:
        raise FilterError("Write a value here, text with spaces in quotes.", at)
    return valued[0], valued.end()


def _next(text: str, at: int) -> int:
    """Return the place of the next character that isn't a space."""
    return len(text) - len(text[at:].lstrip())


def unquote(text: str) -> str:
    """Return the text without the quotes or backticks around it, if there are any."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "`'\""
    return text[1:-1] if is_quoted else text


def quote_name(key: str) -> str:
    """Return a key as a filter has it, between backticks if it has other characters."""
    return key if _PLAIN.fullmatch(key) else f"`{key.replace('`', '')}`"


def quote_value(value: str) -> str:
    """Return a value as a filter has it: in quotes unless it is one plain word."""
    if re.fullmatch(r"[\w.+\-:/%$]+", value, re.ASCII):
        return value
    return f'"{value}"' if "'" in value else f"'{value}'"
