"""Formats a report as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from advisor.comparison.wording import display_seconds
from advisor.importers.conversion import Imported
from advisor.machine import price_key
from advisor.money import display_usd
from advisor.offline.analysis import Report
from rules.engine import Judgement
from rules.folding import places
from rules.registry import all_rules

_INDENT = "  "


def as_text(report: Report) -> str:
    """Run, cost, use of time, findings and recommendations, each under its heading."""
    sections = [
        "\n".join(_head(report)),
        _section("Cost", _cost(report)),
        _section("Where the time went", _ledger(report)),
        _section("Findings", _findings(report)),
        _section("Recommendations", _recommendations(report)),
    ]
    return "\n\n".join(sections) + "\n"


def import_text(imported: Imported) -> str:
    """What was imported, and what was skipped and why."""
    tally = imported.tally
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in tally.records.most_common())
    lines = [f"Imported from {imported.format}: {kinds}"]
    for each in sorted(tally.skipped.values(), key=lambda each: -each.count):
        first = f"; the first: {each.first}" if each.first else ""
        lines.append(f"Skipped {each.count:,} {each.what}: {each.why}{first}")
    return "\n".join([*lines, *tally.notes, ""])


def _section(heading: str, lines: Iterable[str]) -> str:
    return "\n".join([heading, *(f"{_INDENT}{line}" for line in lines)])


def _head(report: Report) -> Iterator[str]:
    timeline = report.timeline
    yield f"{report.run.job}: run {report.run.run_id}, {timeline.state}"
    times = f"{timeline.started_at:%Y-%m-%d %H:%M} to {timeline.ended_at:%Y-%m-%d %H:%M} UTC"
    yield f"{times}, {display_seconds(timeline.duration_seconds)}"
    if timeline.missing_segments:
        yield f"Incomplete: {timeline.missing_segments} segments of the run are not in the folder."


def _cost(report: Report) -> Iterator[str]:
    at_least = "at least " if report.timeline.state == "running" else ""
    yield f"{at_least}{display_usd(report.cost.total_usd)} at list prices, compute only"
    yield from _table(("node", "machine", "region", "time", "cost"), _node_rows(report))
    for name in _unpriced(report):
        yield f"No price for {name}. Name it with --instance-type, --provider and --region."
    yield from report.cost_notes
    if any(part.estimated or part.later_price for part in report.cost.parts):
        yield "A price is estimated, or from a later date."
    sources = {row.source for part in report.cost.parts for row in part.price_rows}
    yield from (f"Price: {source}" for source in sorted(sources))


def _node_rows(report: Report) -> Iterator[tuple[str, ...]]:
    for node in report.timeline.nodes:
        parts = [part for part in report.cost.parts if part.node_key == node.history.key]
        usd = None if node.history.key in report.cost.missing else sum(part.usd for part in parts)
        held = display_seconds(float(sum(part.seconds for part in parts)))
        what = price_key(node.facts).instance_type or "not declared"
        yield node.name, what, node.facts.region or "not declared", held, display_usd(usd or None)


def _unpriced(report: Report) -> list[str]:
    missing = [n for n in report.timeline.nodes if n.history.key in report.cost.missing]
    return [node.name for node in missing]


def _ledger(report: Report) -> Iterator[str]:
    if not report.ledger:
        yield "No samples of a node are known."
        return
    whole = sum(line.node_seconds for line in report.ledger)
    rows = [
        (
            line.label.replace("_", " "),
            display_seconds(line.node_seconds),
            f"{100 * line.node_seconds / whole:.0f} %",
            display_usd(line.usd),
        )
        for line in report.ledger
    ]
    yield from _table(("label", "node time", "share", "cost"), rows)


def _findings(report: Report) -> Iterator[str]:
    fired = {j.rule_id: j for j in report.judgements if j.verdict.state == "fired"}
    waste = {rule: judgement.verdict.waste_seconds_high for rule, judgement in fired.items()}
    placed = places(waste, report.timeline.duration_seconds)
    causes = [rule for rule, place in placed.items() if not place.explained_by]
    for cause in sorted(causes, key=lambda rule: -waste[rule] * placed[rule].counted_share):
        yield from _finding(fired[cause])
        explained = [rule for rule, place in placed.items() if place.explained_by == cause]
        yield from (f"{_INDENT}Explains {all_rules()[rule].title} ({rule})." for rule in explained)
    if not fired:
        yield "None."
    for state, words in (("passed", "Passed"), ("insufficient_data", "Too little data")):
        rules = [j.rule_id for j in report.judgements if j.verdict.state == state]
        if rules:
            yield f"{words}: {', '.join(rules)}"


def _finding(judgement: Judgement) -> Iterator[str]:
    verdict = judgement.verdict
    yield f"{all_rules()[judgement.rule_id].title} ({judgement.rule_id}, {verdict.severity})"
    yield f"{_INDENT}{verdict.summary}"
    if verdict.advice:
        yield f"{_INDENT}{verdict.advice}"


def _recommendations(report: Report) -> Iterator[str]:
    for number, advised in enumerate(report.recommendations, start=1):
        yield f"{number}. {advised.title}"
        if advised.saving_low_usd is not None:
            low, high = map(display_usd, (advised.saving_low_usd, advised.saving_high_usd))
            yield f"{_INDENT}Saves {low} to {high} of a run."
        risk = f"{advised.risk:.1f} of 4 ({advised.risk_dimension})"
        yield f"{_INDENT}Risk {risk}, effort {advised.effort.replace('_', ' ')}."
        yield from (f"{_INDENT}{line}" for line in (*advised.evidence, *advised.assumptions))
    if not report.recommendations:
        yield "None."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield _INDENT.join(cells).rstrip()
