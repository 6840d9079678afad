"""Every sentence of a verdict is a claim: its numbers and comparisons are those of the verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rules.checkpoints import best_interval_seconds
from rules.engine import rejudge
from rules.registry import all_rules
from rules.rule import Numbers, Rule, Values, Verdict
from rules.windows import needed_seconds
from tests.rules.any_numbers import ENTITIES, may_be_unknown, numbers_and_values, unit_of
from tests.rules.spoken import Quantity, quantities

EVERY_RULE = pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
MANY = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
"""Shrinking an example of so many numbers takes minutes, and the sentence says what is wrong."""
NAMES = [name for some in ENTITIES.values() for name in some]
WHOLES = ("run_seconds", "loop_seconds")
_PART = r"((?:[^.,:;]|\.(?=\d))*?)"
NEEDED = re.compile(rf"{_PART},? (?:but )?(?:more than |at least )?{_PART} (?:is |are )?needed")
PART_OF = re.compile(r"(?<![\w.,])(\d+) of (\d+)(?![\w.,%])")


def rendered(rule: Rule, numbers: Numbers, values: Values) -> Verdict:
    """Return the verdict without the floor below which waste isn't reported, which has its own
    text.
    """
    free = {name: 0.0 for name in rule.values() if name.startswith("least_waste_")}
    return rejudge(rule, numbers, {**values, **free}).verdict


@EVERY_RULE
@given(data=st.data())
@MANY
def test_what_it_says_is_true(rule: Rule, data: st.DataObject) -> None:
    numbers, values = data.draw(numbers_and_values(rule))
    verdict = rendered(rule, numbers, values)
    assert "rule failed" not in verdict.summary
    assert_only_known_numbers_are_spoken_of(rule, verdict, numbers, values)
    assert_comparisons_hold(rule, verdict, numbers, values)
    if verdict.state == "passed" and not quantities(verdict.summary, NAMES):
        assert any(re.search(phrase, verdict.summary) for phrase in PHRASES), verdict.summary


@EVERY_RULE
@given(data=st.data())
@MANY
def test_what_becomes_unknown_is_neither_a_reason_nor_fine(rule: Rule, data: st.DataObject) -> None:
    """A number that becomes unknown leaves the verdict as it is, or takes it away."""
    numbers, values = data.draw(numbers_and_values(rule))
    before = rendered(rule, numbers, values)
    for lost in numbers.values:
        if may_be_unknown(lost):
            after = rendered(rule, Numbers({**numbers.values, lost: None}), values)
            assert after.state in (before.state, "insufficient_data"), (lost, before, after)


def assert_only_known_numbers_are_spoken_of(
    rule: Rule, verdict: Verdict, numbers: Numbers, values: Values
) -> None:
    for text in (verdict.summary, verdict.advice):
        for quantity in quantities(text, NAMES):
            known = [*sources(rule, numbers, values, quantity.unit), *constants(rule, quantity)]
            assert any(quantity.may_be(value) for value in known), (quantity.text, text)


def assert_comparisons_hold(rule: Rule, verdict: Verdict, numbers: Numbers, values: Values) -> None:
    for match in NEEDED.finditer(verdict.summary):
        seen, needed = (quantities(part, NAMES) for part in match.groups())
        pairs = [(a, b) for a in seen for b in needed if a.unit == b.unit]
        assert any(a.value < b.value or is_strict(match[0], a, b) for a, b in pairs), match[0]
    for match in PART_OF.finditer(verdict.summary):
        assert int(match[1]) <= int(match[2]), verdict.summary
    for phrase, is_so in PHRASES.items():
        if re.search(phrase, verdict.summary):
            assert is_so(numbers, {**rule.values(), **values}), verdict.summary


def is_strict(text: str, seen: Quantity, needed: Quantity) -> bool:
    return "more than" in text and seen.value <= needed.value


def sources(rule: Rule, numbers: Numbers, values: Values, unit: str) -> Iterator[float]:
    """Yield what may be written in a unit: a number, a parameter, a share of a whole, or a count of
    the things that were measured.
    """
    known = {name: value for name in numbers.values if (value := numbers.get(name)) is not None}
    yield from (value for name, value in known.items() if unit_of(name) == unit)
    yield from _parameters(rule, values, unit)
    if unit == "%":
        spans = [value for name, value in known.items() if unit_of(name) == "s"]
        wholes = [known[name] for name in WHOLES if known.get(name, 0.0) > 0]
        yield from (100 * part / whole for part in spans for whole in wholes)
    if unit == "s" and "patience_seconds" in rule.values():
        yield needed_seconds({**rule.values(), **values}, numbers)
    if unit == "points":
        yield from sources(rule, numbers, values, "%")
    if not unit:
        bases = {name.partition("@")[0] for name in known if "@" in name}
        by_entity = [numbers.by_entity(base) for base in bases]
        yield from (float(n) for each in by_entity for n in range(1, len(each) + 1))
        yield from (sum(each.values()) for each in by_entity)
    if derived := DERIVED.get(rule.id):
        yield from derived(numbers, {**rule.values(), **values}, unit)


def _parameters(rule: Rule, values: Values, unit: str) -> Iterator[float]:
    sizes = {"h": (3600.0, "s"), "MiB": (2.0**20, "bytes"), "s": (1.0, "s"), "%": (1.0, "%")}
    for name, value in {**rule.values(), **values}.items():
        size, written = sizes.get(rule.parameter(name).unit, (1.0, rule.parameter(name).unit))
        if written == unit or (not unit and written not in ("s", "%", "bytes")):
            yield value * size


def constants(rule: Rule, quantity: Quantity) -> Iterator[float]:
    """Yield the rule's own constants, which its page names."""
    told = quantities(rule.documentation)
    yield from (each.value for each in told if each.unit == quantity.unit)


def is_zero(*names: str) -> Callable[[Numbers, Values], bool]:
    return lambda numbers, values: all(numbers.get(name) == 0 for name in names)


def is_batch_large(numbers: Numbers, values: Values) -> bool:
    """Return whether no GPU that is known for long enough is below all three limits."""
    seen, needed = numbers.by_entity("seen_seconds"), needed_seconds(values, numbers)
    cpu = numbers.by_entity("cpu_p95_pct")
    limits = {
        "gpu_p95_pct": values["gpu_threshold_p95"],
        "gpu_memory_p95_pct": values["gpu_memory_threshold_p95"],
    }
    return not any(
        seconds >= needed
        and cpu.get(gpu.partition("/")[0], math.inf) < values["cpu_threshold_p95"]
        and all(numbers.by_entity(n).get(gpu, math.inf) < limit for n, limit in limits.items())
        for gpu, seconds in seen.items()
    )


def is_fast_to_save(numbers: Numbers, values: Values) -> bool:
    return (numbers.get("checkpoint_seconds") or 0.0) < 1e-3


def has_every_gpu_measured(numbers: Numbers, values: Values) -> bool:
    return sum(numbers.by_entity("unknown_gpus_count").values()) == 0


def is_every_gpu_used(numbers: Numbers, values: Values) -> bool:
    told = numbers.by_entity("is_told")
    measured = numbers.by_entity("p99_pct").items()
    used = [gpu for gpu, pct in measured if pct > values["unused_pct"] or told.get(gpu)]
    return len(used) >= (numbers.get("gpus_count") or 0.0)


def does_not_grow(numbers: Numbers, values: Values) -> bool:
    return max(numbers.by_entity("bytes_per_second").values(), default=0.0) <= 0


def does_not_rise(numbers: Numbers, values: Values) -> bool:
    return max(numbers.by_entity("rise_points").values(), default=0.0) <= 0


def may_use_tf32(numbers: Numbers, values: Values) -> bool:
    convolves = (numbers.get("convolutions") or 0.0) >= 8 and numbers.get("is_cudnn_tf32") == 1
    return numbers.get("is_tf32") == 1 or convolves


def has_a_steady_clock(numbers: Numbers, values: Values) -> bool:
    run, slower = numbers.get("run_seconds") or 0.0, numbers.by_entity("slower_pct")
    least = max(values["least_seconds"], values["least_share_pct"] / 100 * run)
    slowed = numbers.by_entity("slowed_seconds")
    return all(slower[gpu] < 1 for gpu, seconds in slowed.items() if seconds >= least)


def has_no_gpu_error(numbers: Numbers, values: Values) -> bool:
    names = ("lasting_errors_count", "mended_errors_count", "memory_errors_count")
    return all(count == 0 for name in names for count in numbers.by_entity(name).values())


PHRASES: dict[str, Callable[[Numbers, Values], bool]] = {
    r"No sign of too small a batch": is_batch_large,
    r"took no time": is_fast_to_save,
    r"No checkpoint was seen to stop": is_zero("stalls_count"),
    r"No unexplained gap": is_zero("gaps_count"),
    r"No evaluation was seen": is_zero("evaluations_count"),
    r"didn't end in a failure": is_zero("failed"),
    r"No step was done again": is_zero("lost_steps_count"),
    r"No failure was seen": is_zero("failures_count"),
    r"No start failed": is_zero("failed_starts_count"),
    r"No restart reached a step": is_zero("restarts_count"),
    r"never without progress": is_zero("hung_seconds"),
    r"not idle at the end": is_zero("tail_seconds"),
    r"utilisation of (the GPU|all \d+ GPUs) is known": has_every_gpu_measured,
    r"(GPU was|GPUs were) used\.": is_every_gpu_used,
    r"No growth of memory without end\.": does_not_grow,
    r"No steady rise\.": does_not_rise,
    r"TF32 is allowed\.": may_use_tf32,
    r"doesn't compute in float32 alone": is_zero("is_float32"),
    r"clock, which stayed as high": has_a_steady_clock,
    r"No GPU reported an error": has_no_gpu_error,
}
"""The phrases without a number, and when each is so."""


def larger_batches(numbers: Numbers, values: Values, unit: str) -> Iterator[float]:
    """Yield how many times as large a batch may be until the memory is 90 % full, at most 8
    times.
    """
    if not unit:
        memory = numbers.by_entity("gpu_memory_p95_pct").values()
        yield from (min(90 / max(used, 1.0), 8.0) for used in memory)


def smaller_machines(numbers: Numbers, values: Values, unit: str) -> Iterator[float]:
    if not unit:
        cores = numbers.by_entity("cores_p95").values()
        yield from (math.ceil(max(each / values["cpu_target_pct"] * 100, 1)) for each in cores)
    if unit == "bytes":
        spare = 1 + values["memory_headroom_pct"] / 100
        yield from (used * spare for used in numbers.by_entity("memory_p99_bytes").values())


def workers_of_a_rank(numbers: Numbers, values: Values, unit: str) -> Iterator[float]:
    ranks = numbers.by_entity("ranks")
    for node, cores in numbers.by_entity("cores").items():
        yield max(cores / max(ranks.get(node, 1.0), 1.0), 1.0)


def best_intervals(numbers: Numbers, values: Values, unit: str) -> Iterator[float]:
    """Yield the best interval, and what it takes less than the run's own."""
    names = ("checkpoint_seconds", "saving_seconds", "loop_seconds", "interval_seconds")
    known = [value for name in names if (value := numbers.get(name)) is not None]
    if unit == "s" and len(known) == len(names):
        cost, saving, loop, interval = known
        between = values["mtbf_hours"] * 3600 / max(numbers.get("nodes_count") or 1.0, 1.0)
        work, best = max(loop - saving, 1e-3), best_interval_seconds(cost, between)
        best = min(best, work) if numbers.get("is_final") else best
        failures = min(work / between, 1.0)
        lost = failures * (min(interval, work) - min(best, work)) / 2
        yield from (best, saving + lost - cost * max(work / best, 1.0))


def work_at_risk(numbers: Numbers, values: Values, unit: str) -> Iterator[float]:
    """Yield half of the work times the chance of a failure, as far as the run lasted."""
    work, run = numbers.get("work_seconds") or 0.0, numbers.get("run_seconds") or 0.0
    for name in ("mtbf_hours", "spot_mtbf_hours"):
        failures = (numbers.get("nodes_count") or 1.0) * work / (3600 * values[name])
        yield min(work * min(failures / 2, 1.0), run)


DERIVED: dict[str, Callable[[Numbers, Values, str], Iterator[float]]] = {
    "batch_size": larger_batches,
    "checkpoint_interval": best_intervals,
    "checkpoint_missing": work_at_risk,
    "cpu_oversized": smaller_machines,
    "dataloader": workers_of_a_rank,
}
"""The numbers that a rule computes from its own for the advice."""
