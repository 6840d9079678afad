"""Any numbers that a rule's `measure` can return, and any values of its parameters."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from rules.parameter import Parameter
from rules.rule import Numbers, Rule
from tests.rules.scenarios.labelled import labelled
from tests.rules.scenarios.registry import SCENARIOS

ENTITIES = {
    "gpu": ("n1/gpu0", "n1/gpu1", "n2/gpu0"),
    "rank": ("n1/rank0", "n1/rank1", "n2/rank0"),
    "node": ("n1", "n2"),
    "metric": ("val_loss",),
}
AT_MOST = {
    "known_gpus_count": "gpus_count",
    "used_gpus_count": "known_gpus_count",
    "unknown_gpus_count": "gpus_count",
    "p5_pct": "p95_pct",
    "p95_pct": "whole_run_p99_pct",
    "outliers_count": "steps_count",
    "channels_last": "convolutions",
    "busy_seconds": "seen_seconds",
    "waited_seconds": "seen_seconds",
    "longest_seconds": "hung_seconds",
    "saving_seconds": "loop_seconds",
    "checkpoint_seconds": "saving_seconds",
    "interval_seconds": "loop_seconds",
    "restart_seconds": "all_seconds",
}
"""Numbers that are parts of others, after those; all seconds are part of the run's."""
FLAGS = ("is_", "has_", "may_", "gpu_in_use")
ALWAYS_TOLD = ("run_seconds", "needed_seconds", "initialisation_seconds")
"""The numbers that are always told. Without the last one, the training hasn't started."""
MORE_FLAGS = ("failed", "never_worked", "gpus_are_known", "steps_are_known")


def unit_of(name: str) -> str:
    """Return the unit in which a number is stored, by its name without the entity."""
    base = name.partition("@")[0]
    if base.endswith("_seconds") or base == "seconds_left":
        return "s"
    if base.endswith("bytes_per_second") or "bytes_per_second_" in base:
        return "bytes/s"
    for unit, mark in (("%", "_pct"), ("points", "_points"), ("bytes", "_bytes")):
        if base.endswith(mark) or f"{mark}_" in base:
            return unit
    return ""


@st.composite
def numbers_and_values(draw: st.DrawFn, rule: Rule) -> tuple[Numbers, dict[str, float]]:
    """Numbers of one run, of which some may be unknown, and allowed values of the parameters."""
    values = rule.values()
    if draw(st.booleans()):
        values |= {p.name: draw(_parameter_values(p)) for p in rule.parameters}
    names = {kind: draw(st.integers(1, len(some))) for kind, some in ENTITIES.items()}
    limits = list(values.values())
    run = max(draw(st.one_of(_near(limits), st.floats(20, 1e6))), 1.0)
    found: dict[str, float | None] = {"run_seconds": run}
    for base, kind in _names_of(rule):
        for entity in ENTITIES[kind][: names[kind]] if kind else ("",):
            key = f"{base}@{entity}" if entity else base
            if key != "run_seconds":
                found[key] = draw(_value(base, run, limits, names))
    _hold_to_wholes(found)
    may_lack = sorted(key for key in found if may_be_unknown(key))
    if may_lack and draw(st.booleans()):
        found |= dict.fromkeys(draw(st.sets(st.sampled_from(may_lack), max_size=3)))
    return Numbers(found), values


def may_be_unknown(name: str) -> bool:
    """Counts, flags and the length of the run are always told."""
    base = name.partition("@")[0]
    return not (base in ALWAYS_TOLD or base.endswith("_count") or is_flag(base))


def is_flag(base: str) -> bool:
    """Return whether a number is 0 or 1: no or yes."""
    return base.startswith(FLAGS) or base in MORE_FLAGS


@cache
def _names_of(rule: Rule) -> tuple[tuple[str, str], ...]:
    """Return each number's name without its entity, and the kind of the entity; empty: there is
    none.
    """
    own = [scenario for scenario in SCENARIOS if scenario.rule_id == rule.id] or SCENARIOS[:2]
    frames = [run.frame for scenario in own for run in labelled(scenario, 4, 1)][:2]
    measured = [rule.measure(frame, rule.values()) for frame in frames]
    kinds = {
        base: _kind(entity) if mark else ""
        for numbers in measured
        for base, mark, entity in (name.partition("@") for name in numbers.values)
    }
    wholes = [*AT_MOST.values(), *AT_MOST]
    order = {name: wholes.index(name) if name in wholes else -1 for name in kinds}
    return tuple(sorted(kinds.items(), key=lambda each: (order[each[0]], each[0])))


def _kind(entity: str) -> str:
    if "/gpu" in entity:
        return "gpu"
    if "/rank" in entity:
        return "rank"
    return "metric" if "loss" in entity or "acc" in entity else "node"


def _parameter_values(parameter: Parameter) -> st.SearchStrategy[float]:
    known = [parameter.low, parameter.default, parameter.high, parameter.save, parameter.safe]
    bounds = st.sampled_from([value for value in known if value is not None])
    if parameter.choices or parameter.whole:
        high = min(parameter.high, parameter.low + 1000)
        return st.one_of(bounds, st.integers(int(parameter.low), int(high)).map(float))
    return st.one_of(bounds, st.floats(parameter.low, min(parameter.high, 1e5)).map(_short))


def _short(value: float) -> float:
    """Return the value as people write values."""
    return float(f"{value:.4g}")


def _near(limits: list[float]) -> st.SearchStrategy[float]:
    """Return values at a limit of the rule, or a little below or above it."""
    factors = st.sampled_from([0.0, 0.5, 0.99, 0.9999, 1.0, 1.0001, 1.01, 2.0])
    return st.builds(lambda limit, f: limit * f, st.sampled_from(limits or [60.0]), factors)


def _value(
    base: str, run: float, limits: list[float], names: dict[str, int]
) -> st.SearchStrategy[float]:
    unit, most = unit_of(base), {"s": run, "%": 100.0, "points": 100.0}
    if unit in most:
        high = most[unit]
        near = _near(limits).map(lambda value: min(value, high))
        return st.one_of(st.sampled_from([0.0, high]), st.floats(0, high), near)
    if unit:
        return st.one_of(st.just(0.0), st.floats(1, 2.0**40))
    if is_flag(base):
        return st.sampled_from([0.0, 1.0])
    if base == "gpus_count":
        return st.integers(names["gpu"], names["gpu"] + 2).map(float)
    if base == "cause_number":
        return st.integers(0, 7).map(float)
    if base in ("steadiness", "distance") or base.endswith("_ratio"):
        return st.floats(0, 0.8)
    if base.startswith("cores"):
        return st.floats(0.5, 128)
    return st.one_of(_COUNTS, _near(limits).map(lambda value: float(round(min(value, 1e6)))))


_COUNTS = st.one_of(st.integers(0, 3), st.integers(4, 100_000)).map(float)


def _hold_to_wholes(found: dict[str, float | None]) -> None:
    for part, whole in AT_MOST.items():
        for key in [key for key in found if key.partition("@")[0] == part]:
            entity = key.partition("@")[2]
            most = found.get(f"{whole}@{entity}" if entity else whole)
            if most is not None and found[key] is not None:
                found[key] = min(found[key] or 0.0, most)
