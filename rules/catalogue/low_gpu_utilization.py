"""GPUs have low or fluctuating utilisation, or are not used at all.

## What it checks
The utilisation of each allocated GPU on each node after warm-up, without the warm-up after each
restart, cut into windows of `window_seconds`. The medians over the windows of the 95th and the 5th
percentile count.
- **unused**: the 99th percentile of the whole run is at most 2 %.
- **low**: the 95th percentile is below `threshold_p95`.
- **fluctuating**: it is not low, and the 5th percentile is below `threshold_p5`.

## Why it costs money
A GPU costs the same busy or idle, and it is most of the machine's price.

## When it fires
When at least one GPU with enough evidence is unused, low or fluctuating. It needs
`patience_seconds` of known samples after warm-up (the start of the first step, or its end if it
takes 10 s and more; without steps the first use of a GPU), or `patience_share_pct` of a short run,
and never less than 20 s. A running run that reports no steps needs the whole `patience_seconds`,
because it may still be starting up. As long as it has used no GPU, nothing is judged. The windows
of evidence are those whose own percentiles are below 70 % or 10 %.

## When it is wrong
Utilisation is the share of time in which at least one kernel ran, not how full the GPU was: a high
figure doesn't prove good use. If the GPU is simply too fast for the step, low utilisation is
normal, and the answer is a smaller GPU. A GPU that another program uses looks busy. Gaps in the
samples are left out.

## How to fix it
Find out what the GPU waits for (data, the host, other GPUs). Use larger batches, fewer blocking
calls, more loader workers. Then use fewer or smaller GPUs: an unused GPU needs a process of its
own, or a machine without it.

## Parameters
`threshold_p95` and `threshold_p5` as in SageMaker. `window_seconds` and `patience_seconds` are
SageMaker's `window` and `patience`, but in **seconds**. SageMaker counts samples, at two samples a
second by default: its 500 and 1000 are always 250 s and 500 s here, and not 8.3 h and 16.7 h where
samples come once a minute. `patience_share_pct` lets short runs be judged.

## Sources
SageMaker Debugger's LowGPUUtilization: threshold_p95 70, threshold_p5 10, window 500, patience
1000. Differences: warm-up (the first step and before, or before the first use of a GPU) is left
out, where SageMaker counts it; a GPU that was never used is "unused", where SageMaker calls it low;
each window counts once, where SageMaker counts the last window again at each scan; utilisation that
can't be read (MIG) is unknown. "Unused" at 2 %: Princeton's GPU reports. What a fix gives back (0.3
to 0.7 of the idle time, 0.5 to 1 for an unused GPU) is our estimate.
"""

from __future__ import annotations

from rules.category import GPU
from rules.evidence import clamp_seconds
from rules.frame import UNUSED_PCT, NodeFrame, RunFrame
from rules.gpus import advice_on_unused, idle_seconds
from rules.intervals import merge_windows
from rules.ledger_labels import IDLE_GPUS
from rules.parameter import SAGEMAKER_SAMPLE_SECONDS
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.windows import Windows, gpu_windows, needed_seconds, series_while_working, start_up
from rules.wording import name_gpus, range_pct, sentence, some_gpus, was_or_were, write_shortage

EVIDENCE_P95_PCT, EVIDENCE_P5_PCT = 70.0, 10.0
USED, UNUSED = (0.3, 0.7), (0.5, 1.0)
"""The range of shares of the idle time of used and unused GPUs that can be given back."""


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers = start_up(frame) | {"run_seconds": frame.duration_seconds, "gpus_count": 0.0}
    windows: list[Window] = []
    for node in frame.nodes.values():
        gpus = node.allocated_gpus()
        numbers["gpus_count"] = (numbers["gpus_count"] or 0.0) + len(gpus)
        for number in gpus:
            entity = f"{node.key}/gpu{number}"
            cut = gpu_windows(node, number, values["window_seconds"])
            measured = _gpu_numbers(node, number, cut, frame.resolution_seconds)
            numbers |= {f"{name}@{entity}": value for name, value in measured.items()}
            windows += _evidence(cut, entity, frame.resolution_seconds)
    return Numbers(numbers, merge_windows(windows, slack_seconds=2 * frame.resolution_seconds))


def judge(numbers: Numbers, values: Values) -> Verdict:
    count = numbers.get("gpus_count") or 0.0
    if count <= 0:
        return Verdict("not_applicable", "The run was given no GPU.")
    if numbers.get("has_begun") == 0:
        return Verdict("insufficient_data", "No GPU has been used so far.")
    kinds = _kinds(numbers, values)
    if bad := {gpu: kind for gpu, kind in kinds.items() if kind != "well used"}:
        return _fired(numbers, bad, count)
    if len(kinds) < count:
        unjudged = some_gpus(count - len(kinds), count)
        return Verdict("insufficient_data", _what_lacks(numbers, kinds, unjudged, values))
    lowest = min(numbers.by_entity("p95_pct").values(), default=0.0)
    if count == 1:
        return Verdict("passed", f"The only GPU was well used (p95 {lowest:.0f} %).")
    return Verdict("passed", f"All {count:.0f} GPUs were well used (p95 from {lowest:.0f} %).")


def _what_lacks(numbers: Numbers, kinds: dict[str, str], unjudged: str, values: Values) -> str:
    needed, seen = needed_seconds(values, numbers), numbers.by_entity("seen_seconds")
    short = [s for gpu, s in seen.items() if gpu not in kinds and s < needed]
    if not short:
        return f"Missing: the utilisation of {unjudged} after warm-up."
    known = write_shortage(max(short), needed, "after warm-up")
    return f"Not enough data: the utilisation of {unjudged} is known for {known}."


def _kinds(numbers: Numbers, values: Values) -> dict[str, str]:
    """Return how each GPU with enough evidence was used, by entity."""
    needed = needed_seconds(values, numbers)
    p99, p95 = numbers.by_entity("whole_run_p99_pct"), numbers.by_entity("p95_pct")
    p5, seen = numbers.by_entity("p5_pct"), numbers.by_entity("seen_seconds")
    kinds = {}
    for gpu in p99.keys() & p95.keys() & p5.keys():
        if seen.get(gpu, 0.0) >= needed:
            kinds[gpu] = _kind(p99[gpu], p95[gpu], p5[gpu], values)
    return dict(sorted(kinds.items()))


def _kind(whole_run_p99: float, p95: float, p5: float, values: Values) -> str:
    if whole_run_p99 <= UNUSED_PCT:
        return "unused"
    if p95 < values["threshold_p95"]:
        return "low"
    return "fluctuating" if p5 < values["threshold_p5"] else "well used"


def _fired(numbers: Numbers, bad: dict[str, str], count: float) -> Verdict:
    p95, p5 = numbers.by_entity("p95_pct"), numbers.by_entity("p5_pct")
    parts = []
    for kind in ("unused", "low", "fluctuating"):
        if gpus := [gpu for gpu, own in bad.items() if own == kind]:
            measured = [p95[gpu] for gpu in gpus], [p5[gpu] for gpu in gpus]
            words = _words(kind, *measured)
            parts.append(f"{some_gpus(len(gpus), count)} {words}: {name_gpus(gpus, p95)}")
    return Verdict(
        "fired",
        sentence("; ".join(parts)) + ".",
        advice=_advice(list(bad.values()), count),
        claims=_claims(numbers, bad, count),
        severity="high" if 2 * len(bad) >= count else "medium",
        dedupe_key="low_gpu_utilization:" + "+".join(sorted(set(bad.values()))),
    )


def _words(kind: str, p95: list[float], p5: list[float]) -> str:
    if kind == "unused":
        return f"{was_or_were(len(p95))} never used"
    if kind == "low":
        return f"had low utilisation (p95 {range_pct(p95)})"
    return f"had fluctuating utilisation (p95 {range_pct(p95)}, p5 {range_pct(p5)})"


def _advice(kinds: list[str], count: float) -> str:
    unused = kinds.count("unused")
    more = advice_on_unused(unused, count) if unused else ""
    if unused == len(kinds):
        return more
    waits = "what the GPU waits for: data or the host"
    fewer = "use a smaller GPU"
    if count > 1:
        waits = "what the GPUs wait for: data, the host, or each other"
        fewer = "use fewer or smaller GPUs"
    return f"Find out {waits}. Then raise the batch size, or {fewer}. {more}".strip()


def _claims(numbers: Numbers, bad: dict[str, str], count: float) -> tuple[Claim, ...]:
    """Return claims on each bad GPU's idle share of the run; on all of one that was never used."""
    longest = numbers.get("run_seconds") or 0.0
    idle = numbers.by_entity("idle_seconds")
    unused = longest * sum(kind == "unused" for kind in bad.values())
    used = sum(
        clamp_seconds(idle.get(g, 0.0), longest) for g, kind in bad.items() if kind != "unused"
    )
    shares = (unused / count, ("unused_gpu",), UNUSED), (used / count, IDLE_GPUS, USED)
    return tuple(
        Claim(labels, clamp_seconds(seconds, longest), *recoverable)
        for seconds, labels, recoverable in shares
        if seconds > 0
    )


def _gpu_numbers(
    node: NodeFrame, number: int, windows: Windows, resolution_seconds: float
) -> dict[str, float | None]:
    """Return the GPU's percentiles, known and idle seconds; None if its utilisation is unknown."""
    busy = node.gpu_busy_pct(number)
    work = series_while_working(node, busy)
    if busy is None or work is None:
        names = ("p95_pct", "p5_pct", "whole_run_p99_pct", "seen_seconds", "idle_seconds")
        return dict.fromkeys(names)
    return {
        "p95_pct": windows.median("p95"),
        "p5_pct": windows.median("p5"),
        "whole_run_p99_pct": node.gpu_busy_p99_pct(number),
        "seen_seconds": len(work) * resolution_seconds,
        "idle_seconds": idle_seconds(work, resolution_seconds),
    }


def _evidence(windows: Windows, entity: str, resolution_seconds: float) -> list[Window]:
    p95, p5 = windows.percentiles["p95"], windows.percentiles["p5"]
    is_bad = (p95 < EVIDENCE_P95_PCT) | (p5 < EVIDENCE_P5_PCT)
    pairs = zip(windows.starts[is_bad], windows.ends[is_bad] + resolution_seconds, strict=True)
    return [Window(float(a), float(b), entity) for a, b in pairs]


RULE = Rule(
    id="low_gpu_utilization",
    title="Low GPU utilisation",
    category=GPU,
    version=4,
    needs=("gpu*.busy_pct",),
    claims_on=("unused_gpu", *IDLE_GPUS),
    directness=Directness.SYMPTOM,
    parameters=(
        Parameter(
            name="threshold_p95",
            unit="%",
            default=70,
            low=0,
            high=100,
            help="Low below this p95",
            source="SageMaker, 70",
            sagemaker_name="threshold_p95",
            save=80,
            safe=50,
        ),
        Parameter(
            name="threshold_p5",
            unit="%",
            default=10,
            low=0,
            high=100,
            help="Fluctuating below this p5",
            source="SageMaker, 10",
            sagemaker_name="threshold_p5",
        ),
        Parameter(
            name="window_seconds",
            unit="s",
            default=250,
            low=10,
            high=86_400,
            help="Window length",
            source="SageMaker, 500 samples at 0.5 s",
            sagemaker_name="window",
            sagemaker_factor=SAGEMAKER_SAMPLE_SECONDS,
            measured=True,
        ),
        Parameter(
            name="patience_seconds",
            unit="s",
            default=500,
            low=20,
            high=86_400,
            help="Known seconds after warm-up needed to judge",
            source="SageMaker, 1000 samples at 0.5 s",
            sagemaker_name="patience",
            sagemaker_factor=SAGEMAKER_SAMPLE_SECONDS,
        ),
        Parameter(
            name="patience_share_pct",
            unit="%",
            default=25,
            low=0,
            high=100,
            help="In a short run, this share of it is enough",
            source="ours",
        ),
    ),
    measure=measure,
    judge=judge,
    sagemaker_name="LowGPUUtilization",
)
