"""The caveats of a comparison: what a person should know before trusting it, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.comparison.changes import Change
from advisor.comparison.quality import Quality
from advisor.comparison.refusals import describe_unfinished, is_unfinished, other_workload
from advisor.comparison.run_facts import RunFacts
from advisor.comparison.wording import write_setting
from advisor.comparison.work import WHOLE_RUN, SharedWork, quantity
from advisor.money import display_usd, plain_usd

MAY_CHANGE_RESULTS = ("batch", "precision", "dtype", "amp", "fp16", "bf16")
"""A setting with one of these words in its name may change what the model learns."""


def caveats(
    a: RunFacts, b: RunFacts, work: SharedWork, changes: Sequence[Change], quality: Quality
) -> Iterator[str]:
    yield from (_unfinished(run) for run in (a, b) if is_unfinished(run))
    yield from _prices(a, b)
    yield from (f"{reason[0].upper()}{reason[1:]}." for reason in other_workload(a, b))
    yield from _work(work)
    yield from _results(a, b, work, quality)
    for change in changes:
        if _may_change_results(change.name):
            before, after = write_setting(change.a), write_setting(change.b)
            yield (
                f"{change.name} changed from {before} to {after}, which may change results: "
                "compare the metrics too."
            )
    yield "One run each: run-to-run variation is unknown."


def _unfinished(run: RunFacts) -> str:
    start = f"R{describe_unfinished(run)[1:]}"
    if run.state in ("running", "lost") or run.incomplete_because:
        return f"{start}. Its cost is {display_usd(run.cost_usd)} so far: no saving is claimed."
    return f"{start}: no saving is claimed."


def _prices(a: RunFacts, b: RunFacts) -> Iterator[str]:
    yield from (f"Run #{run.number} has no price." for run in (a, b) if run.cost_usd is None)
    if a.basis != b.basis and a.cost_usd is not None and b.cost_usd is not None:
        bases = f"Run #{a.number} is priced at {_basis(a)} and run #{b.number} at {_basis(b)}"
        yield f"{bases}, so part of the difference comes from your negotiated rates."
    old, new = a.usd_per_hour, b.usd_per_hour
    if a.instance_types == b.instance_types and old is not None and new is not None and old != new:
        yield (
            f"An hour of the same machine cost ${plain_usd(old)} in run #{a.number} and "
            f"${plain_usd(new)} in run #{b.number}. That part of the difference isn't the "
            "training's."
        )


def _work(work: SharedWork) -> Iterator[str]:
    if work.unit != WHOLE_RUN and not work.is_equal:
        yield (
            f"The amount of work differs ({quantity(work.a)} and {quantity(work.b)} "
            f"{work.unit}). Start-up costs the same for any amount, so only the cost per "
            f"{work.unit.removesuffix('s')} without start-up compares."
        )
    yield from work.warnings


def _results(a: RunFacts, b: RunFacts, work: SharedWork, quality: Quality) -> Iterator[str]:
    """Yield what the comparison's sentence doesn't say of the results."""
    if quality.worse and not work.is_same:
        yield f"The results are worse: {', '.join(map(str, quality.worse))}."
    for moved in quality.unclear:
        yield (
            f"Whether a higher {moved.name} is better isn't known. Set it under Edit on the page "
            f"of the job, for example as “{moved.name}: higher”."
        )
    if a.quality is not None and b.quality is not None and not set(a.quality) & set(b.quality):
        yield "The runs have no metric in common, so their results are not compared."


def _basis(run: RunFacts) -> str:
    return "list price" if run.basis == "list" else run.basis


def _may_change_results(name: str) -> bool:
    words = name.lower().replace("-", "_").split("_")
    return any(word in words or name.lower().startswith(word) for word in MAY_CHANGE_RESULTS)
