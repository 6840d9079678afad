"""A comparison as Markdown, for a pull request or an issue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from advisor.comparison.rows import MetricRow
from advisor.comparison.run_facts import RunFacts
from advisor.comparison.wording import write_setting


class _Changed(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def a(self) -> object: ...
    @property
    def b(self) -> object: ...


class _Compared(Protocol):
    @property
    def a(self) -> RunFacts: ...
    @property
    def b(self) -> RunFacts: ...
    @property
    def sentence(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def exactly(self) -> str: ...
    @property
    def configuration_changes(self) -> Sequence[_Changed]: ...
    @property
    def metrics(self) -> Sequence[MetricRow]: ...
    @property
    def warnings(self) -> Sequence[str]: ...


def markdown(comparison: _Compared) -> str:
    """Return the sentence, the causes, the changes, warnings, and collapsed figures."""
    runs = [f"#{comparison.a.number}", f"#{comparison.b.number}"]
    changes = [
        [c.name, write_setting(c.a), write_setting(c.b)] for c in comparison.configuration_changes
    ]
    figures = [[row.name, row.a, row.b, row.change] for row in comparison.metrics]
    blocks = [
        f"**{_text(comparison.sentence)}**",
        _text(comparison.why),
        _table(["changed", *runs], changes) if changes else "",
        "\n".join(f"- {_text(warning)}" for warning in comparison.warnings),
        "<details><summary>Figures</summary>",
        _text(comparison.exactly),
        _table(["figure", *runs, "change"], figures),
        "</details>",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_text(cell) for cell in line)} |" for line in lines)


def _text(words: str) -> str:
    """Escapes names chosen by users, so that they can't leave their cell or become markup."""
    for character in "\\|`*_<>[]":
        words = words.replace(character, f"\\{character}")
    return " ".join(words.split())
