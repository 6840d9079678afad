"""Rules that need a window only find in the last minutes what they find in the whole run so far."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from advisor.store.index import to_ms
from advisor.store.tail import RunTail
from rules.engine import Judgement, evaluate
from rules.frame import RunFrame
from rules.registry import all_rules
from tests.rules.scenarios.hang_kinds import HANGS
from tests.rules.scenarios.stored import START, Memory, Stored, uploaded
from tests.rules.test_hung import drawn

CELL_MS, SEGMENT_SECONDS = 5_000, 60.0
WINDOW_RULES = [rule for rule in all_rules().values() if rule.scope == "window"]


def last_minutes(run: Stored, until_seconds: float, length_seconds: float) -> RunFrame:
    """Return the last minutes as a look has them."""
    end_ms = to_ms(START) + round(1000 * until_seconds)
    start_ms = max(end_ms - round(1000 * length_seconds), to_ms(START)) // CELL_MS * CELL_MS
    nodes = {}
    for node in run.nodes:
        tail = RunTail(CELL_MS, round(1000 * length_seconds) // CELL_MS + 2)
        tail.move_to(start_ms)
        for ref in node.segments:
            if start_ms <= ref.start_us // 1000 + ref.duration_ms <= end_ms:
                tail.add(ref, run.store.get(ref.key))
        nodes[node.key] = tail.node_frame(node.key, node.hardware, (), end_ms)
    return RunFrame(CELL_MS / 1000, (end_ms - start_ms) / 1000, final=False, nodes=nodes)


def as_it_was(run: Stored, until_seconds: float) -> RunFrame:
    """Return the run with all that had come by then."""
    frame = RunFrame(0.5, until_seconds, final=False)
    nodes = tuple(
        type(node)(
            node.key,
            node.hardware,
            ((START, START + timedelta(seconds=until_seconds)),),
            tuple(r for r in node.segments if r.start_ms + r.duration_ms <= 1000 * until_seconds),
            (),
        )
        for node in run.nodes
    )
    return Stored(run.store, frame, nodes).read(1.0)


def findings(frame: RunFrame) -> dict[str, Judgement]:
    every = evaluate(frame, {}, WINDOW_RULES)
    return {each.rule_id: each for each in every if each.verdict.state == "fired"}


def first_news(run: Stored) -> Iterator[tuple[set[str], float]]:
    """Yield, minute by minute, what holds then of all that had come, and when that was."""
    for minutes in range(5, int(run.frame.duration_seconds // 60) + 1):
        found = findings(as_it_was(run, 60.0 * minutes))
        ends = {rule: judged.numbers.windows[-1].end_seconds for rule, judged in found.items()}
        yield {rule for rule, end in ends.items() if end >= 60 * minutes - 60}, 60.0 * minutes


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", HANGS)
def test_what_has_just_become_true_of_the_run_is_true_of_its_last_minutes(kind: str) -> None:
    frame = drawn(kind, 5).frame()
    run = uploaded(frame, Memory(), SEGMENT_SECONDS)
    whole, until = next(found for found in first_news(run) if found[0])
    lengths = [rule.window_seconds(rule.values()) for rule in WINDOW_RULES if rule.window_seconds]
    assert whole <= findings(last_minutes(run, until, max(lengths))).keys()


def test_a_rule_that_may_stop_runs_needs_a_window_only() -> None:
    assert {rule.id for rule in all_rules().values() if rule.may_stop} <= {
        rule.id for rule in WINDOW_RULES
    }
