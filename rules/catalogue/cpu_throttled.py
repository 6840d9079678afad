"""The run's container used up its quota of CPU time, and was held back by it.

## What it checks
The periods of the container's CPU quota (`limits.cpu` in Kubernetes, `--cpus` in Docker), as the
kernel counts them, between the first and the last training step: in how many of them the quota was
used up before the period ended. And how long the training was ready to work and waited for a core.

## Why it costs money
Once the quota is used up, all processes of the container stand still until the next period, a
tenth of a second later, on a machine that may have idle cores. The GPUs wait with them.

## When it fires
When the quota was used up in at least `throttled_pct` of the periods on any node, with at least
`minimum_seconds` of known samples.

## When it is wrong
Threads that only spin (OpenMP, OpenBLAS) use a quota up without any harm to the steps; then the
training waits for little. The wait of data-loader workers isn't part of the claim: if they can't
keep up, the loop waits for data, and `input_bound` says how long. Where the wait isn't recorded,
nothing is claimed.

## How to fix it
Raise the quota, or leave it out and keep the request. Or start less at once: fewer loader workers
than cores in the quota, and `OMP_NUM_THREADS` set to what is left. Libraries count the cores of the
machine, and not those of the quota.

## Parameters
`throttled_pct` and `minimum_seconds`.

## Sources
kubernetes-mixin's alarm CPUThrottlingHigh: 25 % of the periods. That a higher quota gives back 0.5
to 0.9 of the wait, and the other level, are our estimates.
"""

from __future__ import annotations

from rules.activity import working
from rules.category import SIZING
from rules.evidence import clamp_seconds
from rules.frame import NodeFrame, RunFrame
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict
from rules.starvation import starved_at_work_seconds
from rules.wording import lasting, write_count, write_shortage

PERIODS, THROTTLED = "container.cpu_periods_total", "container.cpu_throttled_periods_total"
HELD_BACK = "container.cpu_throttled_seconds_total"
LABELS = ("starved",)
GIVEN_BACK = (0.5, 0.9)


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = {
        "run_seconds": frame.duration_seconds,
        "nodes_count": float(len(frame.nodes)),
    }
    for node in frame.nodes.values():
        resolution = frame.resolution_seconds
        periods, used_up = _total(node, PERIODS, resolution), _total(node, THROTTLED, resolution)
        if periods is None or used_up is None:
            continue
        known = working(node, node.rate(PERIODS, resolution))
        starved = starved_at_work_seconds(node, resolution)
        held_back = _total(node, HELD_BACK, resolution)
        waited = None if starved is None or held_back is None else min(starved, held_back)
        numbers |= {
            f"throttled_pct@{node.key}": min(100 * used_up / periods, 100.0) if periods else 0.0,
            f"seen_seconds@{node.key}": len(known) * resolution if known is not None else 0.0,
            f"waited_seconds@{node.key}": waited,
            f"cores@{node.key}": node.hardware.effective_cpus or None,
        }
    return Numbers(numbers)


def judge(numbers: Numbers, values: Values) -> Verdict:
    shares, seen = numbers.by_entity("throttled_pct"), numbers.by_entity("seen_seconds")
    if not numbers.entities("throttled_pct"):
        return Verdict("not_applicable", "No quota of CPU time was seen.")
    needed = values["minimum_seconds"]
    known = {node: pct for node, pct in shares.items() if seen.get(node, 0.0) >= needed}
    bad = {node: pct for node, pct in known.items() if pct >= values["throttled_pct"]}
    if bad:
        return _fired(numbers, bad)
    if known.keys() < numbers.entities("throttled_pct"):
        short = [seconds for node, seconds in seen.items() if node in shares.keys() - known.keys()]
        if not short:
            return Verdict("insufficient_data", "Missing: how often the quota was used up.")
        seen_for = write_shortage(max(short), needed, "of work")
        return Verdict("insufficient_data", f"Not enough data: the quota is known for {seen_for}.")
    most = max(known.values())
    return Verdict("passed", f"The quota of CPU time was used up in {most:.0f} % of its periods.")


def _fired(numbers: Numbers, bad: dict[str, float]) -> Verdict:
    worst = max(bad, key=lambda node: bad[node])
    quota = numbers.by_entity("cores").get(worst)
    of_cores = f" of {write_count(quota, 'core')}" if quota else ""
    waits = {n: s for n, s in numbers.by_entity("waited_seconds").items() if n in bad}
    waited = "how long the training waited for a core isn't known"
    if waits:
        waited = f"the training waited {lasting(max(waits.values()))} for a core"
    run, count = numbers.get("run_seconds") or 0.0, numbers.get("nodes_count") or 1.0
    seconds = clamp_seconds(sum(waits.values()) / count, run)
    return Verdict(
        "fired",
        f"{worst} used up its quota{of_cores} in {bad[worst]:.0f} % of the periods, and {waited}.",
        advice="Raise the container's CPU limit (limits.cpu in Kubernetes, --cpus in Docker), or "
        "start less at once: fewer loader workers, and OMP_NUM_THREADS below the quota.",
        claims=(Claim(LABELS, seconds, *GIVEN_BACK),) if seconds else (),
        severity="medium" if seconds else "low",
        dedupe_key="cpu_throttled",
    )


def _total(node: NodeFrame, counter: str, resolution_seconds: float) -> float | None:
    """Return by how much a counter grew while the training worked; None if it isn't known."""
    rate = working(node, node.rate(counter, resolution_seconds))
    return None if rate is None else float(rate.sum()) * resolution_seconds


RULE = Rule(
    id="cpu_throttled",
    title="Held back by the quota of CPU time",
    category=SIZING,
    version=1,
    needs=(),
    claims_on=LABELS,
    directness=Directness.MEASURED_CAUSE,
    parameters=(
        Parameter(
            "throttled_pct", "%", 25, 1, 100, "Share of periods in which it is used up", "mixin, 25"
        ),
        Parameter("minimum_seconds", "s", 60, 20, 86_400, "Known seconds of work needed", "ours"),
    ),
    measure=measure,
    judge=judge,
)
