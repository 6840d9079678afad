"""The reasons why the costs of two runs are not compared. Each names the run and the field."""

from __future__ import annotations

from advisor.comparison.run_facts import FINISHED, RunFacts
from advisor.comparison.work import OtherData, SharedWork, quantity

STATES = {
    "running": "is still running",
    "failed": "failed",
    "stopped": "was stopped",
    "lost": "was lost",
    "importing": "is still being imported",
    "import_failed": "failed to import",
}


def reasons(a: RunFacts, b: RunFacts, work: SharedWork) -> tuple[str, ...]:
    """Return the reasons; none if the costs of the same work are compared."""
    runs = (a, b)
    states = [describe_unfinished(run) for run in runs if is_unfinished(run)]
    prices = [f"run #{run.number} has no price{_missing(run)}" for run in runs if not _priced(run)]
    free = [f"run #{a.number} cost nothing"] if a.cost_usd == 0 else []
    return (*states, *prices, *free, *other_workload(a, b), *_other_work(a, b, work))


def is_unfinished(run: RunFacts) -> bool:
    """Return whether it didn't finish, or not all of it is known yet."""
    return run.state != FINISHED or bool(run.incomplete_because)


def describe_unfinished(run: RunFacts) -> str:
    """`run #5 is still running: node-2 hasn't reported its end`."""
    state = STATES.get(run.state, f"is {run.state}") if run.state != FINISHED else "is partial"
    missing = "; ".join(run.incomplete_because)
    return f"run #{run.number} {state}{f': {missing}' if missing else ''}"


def other_workload(a: RunFacts, b: RunFacts) -> list[str]:
    """Return the fields of the workload that differ. Those that only one run states are left
    out.
    """
    jobs = [("job", a.job, b.job)] if a.job != b.job else []
    stated = [name for name in a.workload if name in b.workload]
    both = [(name, a.workload[name], b.workload[name]) for name in stated]
    return [
        f"the {name.replace('_', ' ')} differs: run #{a.number} has {x} and run #{b.number} has {y}"
        for name, x, y in (*jobs, *both)
        if x != y
    ]


def other_data(data: OtherData, a: RunFacts, b: RunFacts) -> str:
    """`run #2 has twice the samples an epoch (100,000 instead of 50,000)`."""
    return (
        f"run #{b.number} has {_times(data.b / data.a)} the {data.unit} an epoch "
        f"({quantity(data.b)} instead of {quantity(data.a)} in run #{a.number})"
    )


def _other_work(a: RunFacts, b: RunFacts, work: SharedWork) -> list[str]:
    if work.other_data is not None:
        return [other_data(work.other_data, a, b)]
    unmeasured = [f"#{run.number}" for run in (a, b) if run.growing_share is None]
    if work.is_equal or not unmeasured:
        return []
    each = f"run{'s' if len(unmeasured) > 1 else ''} {' and '.join(unmeasured)}"
    return [
        f"the {work.unit} differ: run #{a.number} did {quantity(work.a)} and run #{b.number} "
        f"{quantity(work.b)}, and the start-up of {each} wasn't measured"
    ]


def _priced(run: RunFacts) -> bool:
    return run.cost_usd is not None


def _missing(run: RunFacts) -> str:
    missing = list(getattr(run.figures, "missing", None) or ())
    return f": {'; '.join(map(str, missing))}" if missing else ""


def _times(ratio: float) -> str:
    """Write `twice`, `half`, `1.3 times`."""
    words = {0.5: "half", 2.0: "twice"}
    return words.get(round(ratio, 2), f"{ratio:.2g} times")
