"""The rules of a report: for each its verdict, parameters, evidence and advice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from rules.parameter import Parameter
from rules.registry import all_rules
from rules.rule import Numbers
from webapp.analysis.models import Judgement
from webapp.dashboard.report.figures import FRAMEWORK, USAGE
from webapp.dashboard.selectors.judgements import RuleLine
from webapp.rulebook.documentation import introduction, sections
from webapp.rulebook.forms import as_text
from webapp.templatetags import shown

MOST_NUMBERS, MOST_WINDOWS = 16, 12
FIX = "How to fix it"
JUDGED = (Judgement.FIRED, Judgement.PASSED)
UNITS = {
    "_pct": ("%", shown.number),
    "_seconds": ("", shown.seconds),
    "_bytes": ("", shown.binary_bytes),
    "_count": ("", shown.number),
}
"""The end of a number's name -> its unit, and how it is written; others are plain numbers."""
FLAGS = ("is_", "has_", "may_", "gpus_are_")
"""The beginnings of the names of what is true or not: no quantities."""


@dataclass(frozen=True)
class RuleReport:
    """Report of one rule on one run. `checks` says what it checks, and `advice` what to do if it
    fires.
    """

    line: RuleLine
    sagemaker_name: str
    checks: str
    advice: str
    parameters: list[tuple[str, str, str]]
    """Name, value with unit, and meaning."""
    numbers: Numbers
    names: Mapping[str, str]
    """The names of nodes by their keys."""

    @property
    def is_fired(self) -> bool:
        return bool(self.line.row.state == Judgement.FIRED)

    @property
    def is_judged(self) -> bool:
        return self.line.row.state in JUDGED

    @property
    def times_fired(self) -> int | None:
        """Return the stretches of time of its evidence, or None if it wasn't judged."""
        if not self.is_judged:
            return None
        return max(len(self.line.windows), 1) if self.is_fired else 0

    @property
    def spans(self) -> list[tuple[str, str, str]]:
        """The evidence of a finding: start, end and where."""
        if not self.is_fired:
            return []
        return [
            (
                shown.seconds(float(str(start))),
                shown.seconds(float(str(end))),
                self.name_entity(where),
            )
            for start, end, where in self.line.windows[:MOST_WINDOWS]
        ]

    @property
    def more_spans(self) -> int:
        return max(len(self.line.windows) - MOST_WINDOWS, 0) if self.is_fired else 0

    @property
    def seen_seconds(self) -> float | None:
        """Return the seconds of the samples that it judged; of several nodes or GPUs, their sum."""
        by_entity = self.numbers.by_entity("seen_seconds")
        if by_entity:
            return sum(by_entity.values())
        seen = self.numbers.get("seen_seconds")
        return self.numbers.get("run_seconds") if seen is None else seen

    @property
    def windows_analysed(self) -> int | None:
        """Return the number of windows, or None if the rule wasn't judged. A rule without windows
        judges the whole run as one.
        """
        length = self.line.row.values.get("window_seconds")
        if not self.is_judged:
            return None
        if not length:
            return 1
        seen = self.numbers.by_entity("seen_seconds").values() or [self.seen_seconds or 0.0]
        return sum(max(int(seconds // length), 1) for seconds in seen)

    @property
    def data_points(self) -> str:
        """Steps, or the time that was sampled."""
        if not self.is_judged:
            return shown.NOTHING
        steps = self.numbers.get("steps_count")
        return f"{steps:,.0f} steps" if steps else f"{shown.seconds(self.seen_seconds)} of samples"

    @property
    def measured(self) -> list[tuple[str, str]]:
        """Return what the rule measured, in words; of overviews, the report has tables."""
        return self._figures[:MOST_NUMBERS]

    @property
    def more_measured(self) -> int:
        return max(len(self._figures) - MOST_NUMBERS, 0)

    @property
    def _figures(self) -> list[tuple[str, str]]:
        if not self.is_judged or self.line.row.rule in (USAGE, FRAMEWORK):
            return []
        known = ((name, self.numbers.get(name)) for name in self.numbers.values)
        return [
            _figure(name, value, self.name_entity)
            for name, value in known
            if value is not None and not name.startswith(FLAGS)
        ]

    def name_entity(self, entity: object) -> str:
        """Return the entity with the name of its node."""
        node, slash, device = str(entity).partition("/")
        return f"{self.names.get(node, node)}{slash}{device}"


def rule_reports(judged: Iterable[RuleLine], names: Mapping[str, str]) -> list[RuleReport]:
    """Return the rules with the most evidence first, those that couldn't be judged last.

    Args:
        names: of nodes, by their keys.
    """
    found = [_report(line, names) for line in _every(judged)]
    return sorted(found, key=lambda each: (not each.is_judged, -(each.times_fired or 0)))


def _every(lines: Iterable[RuleLine]) -> Iterator[RuleLine]:
    for line in lines:
        yield line
        yield from _every(line.explained)


def _report(line: RuleLine, names: Mapping[str, str]) -> RuleReport:
    row, rule = line.row, all_rules().get(line.row.rule)
    numbers = Numbers.from_document(row.numbers)
    if rule is None:
        return RuleReport(line, "", "", row.advice, [], numbers, names)
    known = {each.name: each for each in rule.parameters}
    parameters = [
        _parameter(known[name], float(value))
        for name, value in sorted(row.values.items())
        if name in known
    ]
    advice = row.advice or next(
        (" ".join(s.blocks[0].lines) for s in sections(rule) if s.title == FIX and s.blocks), ""
    )
    about = introduction(rule)
    return RuleReport(line, rule.sagemaker_name, about, _plain(advice), parameters, numbers, names)


def _parameter(parameter: Parameter, value: float) -> tuple[str, str, str]:
    unit = "" if parameter.choices else f" {parameter.unit}"
    return parameter.name, f"{as_text(parameter, value)}{unit}", parameter.help


def _plain(text: str) -> str:
    """Return the text without the marks of code."""
    return text.replace("`", "")


def _figure(name: str, value: float, named: Callable[[str], str]) -> tuple[str, str]:
    title, _, entity = name.partition("@")
    ending = next((end for end in UNITS if title.endswith(end)), "")
    unit, write = UNITS.get(ending, ("", shown.number))
    words = shown.words(title.removesuffix(ending))
    where = f" {named(entity)}" if entity else ""
    return f"{words}{where}", f"{write(value)} {unit}".strip()
