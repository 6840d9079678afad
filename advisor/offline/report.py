"""Formats a report as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from advisor.advice.checked import MACHINE_SIZE
from advisor.advice.risk import describe_risk
from advisor.costing.recoverable import RecoverablePart, taken_words
from advisor.durations import display_seconds
from advisor.importers.conversion import ImportResult
from advisor.machine import price_key
from advisor.money import display_usd
from advisor.offline.analysis import OfflineReport
from advisor.sizing.doubt import doubts
from advisor.waste_words import describe_short_run
from rules.category import OVERVIEW
from rules.engine import Judgement
from rules.ledger_words import WORDS
from rules.registry import all_rules
from rules.wording import write_count

_INDENT = "  "


def as_text(report: OfflineReport) -> str:
    """Run, cost, use of time, findings and recommendations, each under its heading."""
    sections = [
        "\n".join(_head(report)),
        _section("Cost", _cost(report)),
        _section("Where the time went", _ledger(report)),
        *_computed(report),
        _section("Findings", _findings(report)),
        _section("Recommendations", _recommendations(report)),
    ]
    return "\n\n".join(sections) + "\n"


def import_text(imported: ImportResult) -> str:
    """Say what was imported, and what was skipped and why."""
    tally = imported.tally
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in tally.records.most_common())
    lines = [f"Imported from {imported.format}: {kinds}"]
    for each in sorted(tally.skipped.values(), key=lambda each: -each.count):
        first = f"; the first: {each.first}" if each.first else ""
        lines.append(f"Skipped {each.count:,} {each.what}: {each.why}{first}")
    return "\n".join([*lines, *tally.notes, ""])


def _section(heading: str, lines: Iterable[str]) -> str:
    return "\n".join([heading, *(f"{_INDENT}{line}" for line in lines)])


def _head(report: OfflineReport) -> Iterator[str]:
    timeline = report.timeline
    yield f"{report.run.job}: run {report.run.run_id}, {timeline.state}"
    times = f"{timeline.started_at:%Y-%m-%d %H:%M} to {timeline.ended_at:%Y-%m-%d %H:%M} UTC"
    yield f"{times}, {display_seconds(timeline.duration_seconds)}"
    if timeline.missing_segments:
        missing = write_count(timeline.missing_segments, "segment")
        yield f"Incomplete: the folder lacks {missing} of the run."
    yield from doubts([node.facts for node in timeline.nodes])


def _cost(report: OfflineReport) -> Iterator[str]:
    at_least = "at least " if report.cost_is_at_least and report.cost.total_usd is not None else ""
    yield f"{at_least}{display_usd(report.cost.total_usd)} at list prices, compute only"
    yield from _table(("node", "machine", "region", "time", "cost"), _node_rows(report))
    yield from _unpriced(report)
    yield from report.cost_notes
    if any(part.estimated or part.later_price for part in report.cost.parts):
        yield "A price is estimated, or from a later date."
    sources = {row.source for part in report.cost.parts for row in part.price_rows}
    yield from (f"Price: {source}" for source in sorted(sources))


def _node_rows(report: OfflineReport) -> Iterator[tuple[str, ...]]:
    for node in report.timeline.nodes:
        parts = [part for part in report.cost.parts if part.node_key == node.history.key]
        known_usd = sum((part.usd for part in parts), Decimal(0))
        usd = None if node.history.key in report.cost.missing else known_usd
        held = display_seconds(float(sum(part.seconds for part in parts)))
        what = price_key(node.facts).instance_type or "not declared"
        yield node.name, what, node.facts.region or "not declared", held, display_usd(usd)


def _unpriced(report: OfflineReport) -> Iterator[str]:
    """Yield why nodes have no price, and the options that could change it: those not given."""
    for node in report.timeline.nodes:
        if node.history.key not in report.cost.missing:
            continue
        key = price_key(node.facts)
        lacking = [] if node.facts.instance_type else ["--instance-type", "--provider"]
        lacking += [] if node.facts.region else ["--region"]
        if lacking:
            yield f"No price for {node.name}. Name its machine with {', '.join(lacking)}."
        else:
            option = key.purchase_option.replace("_", "-")
            yield (
                f"No price for {node.name}: no {option} price of {key.instance_type} in "
                f"{key.region} from {key.provider} ({key.service}) is bundled. Check these names, "
                "or import into a service that has a rate of yours for it."
            )


def _ledger(report: OfflineReport) -> Iterator[str]:
    if not report.ledger:
        yield "No samples of a node are known."
        return
    whole = sum(line.node_seconds for line in report.ledger)
    rows = [
        (
            WORDS.get(line.label, line.label.replace("_", " ")),
            display_seconds(line.node_seconds),
            f"{100 * line.node_seconds / whole:.0f} %",
            display_usd(line.usd),
        )
        for line in report.ledger
    ]
    yield from _table(("label", "node time", "share", "cost"), rows)


def _computed(report: OfflineReport) -> Iterator[str]:
    """Yield the section of what the run computed, if anything is known."""
    found = report.figures.model_flops
    if found is not None and found.lines:
        yield _section("What it computed", (f"{name}: {value}" for name, value in found.lines))


def _findings(report: OfflineReport) -> Iterator[str]:
    fired = {j.rule_id: j for j in report.judgements if j.verdict.state == "fired"}
    recovered = report.recovered
    for cause in sorted(fired, key=lambda rule: recovered[rule].weight, reverse=True):
        if recovered[cause].explained_by:
            continue
        yield from _finding(fired[cause], recovered[cause])
        explained = [rule for rule in fired if recovered[rule].explained_by == cause]
        yield from (f"{_INDENT}Explains {all_rules()[rule].title} ({rule})." for rule in explained)
    if not fired:
        yield f"None. {_short_words(report)}".strip()
    for state, words in (("passed", "Passed"), ("insufficient_data", "Too little data")):
        rules = [j.rule_id for j in report.judgements if j.verdict.state == state]
        if rules:
            yield f"{words}: {', '.join(rules)}"


def _short_words(report: OfflineReport) -> str:
    judged = [each for each in report.judgements if all_rules()[each.rule_id].category != OVERVIEW]
    states = Counter(each.verdict.state for each in judged)
    enough = states["fired"] + states["passed"]
    applicable = enough + states["insufficient_data"]
    length = report.timeline.duration_seconds
    return describe_short_run(report.ledger_parts, length, enough, applicable)


def _finding(judgement: Judgement, recovered: RecoverablePart) -> Iterator[str]:
    verdict = judgement.verdict
    yield f"{all_rules()[judgement.rule_id].title} ({judgement.rule_id}, {verdict.severity})"
    yield f"{_INDENT}{verdict.summary}"
    if taken := taken_words(recovered.taken):
        yield f"{_INDENT}{taken}"
    if verdict.advice:
        yield f"{_INDENT}{verdict.advice}"
    if recovered.seconds_high:
        low, high = (display_seconds(s) for s in (recovered.seconds_low, recovered.seconds_high))
        usd = (display_usd(usd) for usd in (recovered.usd_low, recovered.usd_high))
        price = "no price" if recovered.usd_high is None else " to ".join(usd)
        yield f"{_INDENT}Estimated waste: {low} to {high} of the run, {price}."


def _recommendations(report: OfflineReport) -> Iterator[str]:
    for number, advised in enumerate(report.recommendations, start=1):
        yield f"{number}. {advised.title}"
        if advised.saving_low_usd is not None:
            low, high = map(display_usd, (advised.saving_low_usd, advised.saving_high_usd))
            yield f"{_INDENT}Saves {low} to {high} of a run."
        risk = describe_risk(advised.risk)
        of = f" ({advised.risk_dimension.replace('_', ' ')})" if advised.risk_dimension else ""
        yield f"{_INDENT}Risk {risk}{of}, effort {advised.effort.replace('_', ' ')}."
        yield from (f"{_INDENT}{line}" for line in (*advised.evidence, *advised.assumptions))
    if not report.recommendations:
        yield f"None. {report.conclusion}"
        return
    unjudged = (line for line in report.checked if line.name == MACHINE_SIZE and not line.is_known)
    yield from (f"{MACHINE_SIZE}: {line.found}" for line in unjudged)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield _INDENT.join(cells).rstrip()
