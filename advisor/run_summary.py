"""The results of a run's last analysis, kept in its row for lists, headlines and the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter

from advisor.costing.electricity import Electricity
from advisor.costing.projection import Projection
from advisor.model_flops import ModelFlops

VERSION = 1
"""Version of the stored form. Older rows have no version, but the same form."""


@dataclass(frozen=True)
class SuccessiveVerdict:
    """The verdict on a run against the comparable runs before it. Ratios: 0.1 is 10 %."""

    status: str
    """`ok`, `suspected`, `confirmed`, `open` or `cleared`."""
    rung: str
    direction: str
    """`worse`, `better` or `same`."""
    since: int | None
    """Number of the first run with the change."""
    unit: str
    baseline_runs: int
    change: float | None
    detects: float | None
    """The smallest change that this history can detect."""
    sentence: str
    expected_seconds: float | None = None
    """Machine time of one unit of work, as are the bounds. None: the history is too short."""
    low_seconds: float | None = None
    high_seconds: float | None = None
    expected_usd: float | None = None
    """The same at the run's price of a machine; None: no price."""
    low_usd: float | None = None
    high_usd: float | None = None
    regression_since: int | None = None
    """The first run of the regression that is open after this run."""
    ended_since: int | None = None
    """The first run of the regression that this run ended."""
    causes: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    """The other things that changed the cost: price, share of the machine, start-up, amount of
    data."""
    noise: float | None = None
    """The run-to-run variation; `noise_freedom`: degrees of freedom that this job told of it."""
    noise_freedom: int = 0
    prior_spread: float | None = None
    """The variation that was assumed before the job told its own; `prior_jobs`: of how many."""
    prior_jobs: int = 0
    noise_words: str = ""
    machines: list[str] = field(default_factory=list)
    """Machines and times of the week at which runs take longer or less, in words."""


@dataclass(frozen=True)
class Trouble:
    """The first time of its kind on one GPU or node. `seconds` since the run's start; `node` is the
    node's key."""

    seconds: float
    words: str
    node: str


@dataclass(frozen=True)
class RunSummary:
    """The results of an analysis. None: not measured, or no price. A run that was not analysed yet
    has the defaults.
    """

    steps: int | None = None
    lost_steps: int | None = None
    """Steps that were done again later: no part of the run's work. None: not measured."""
    is_lost_unknown: bool = False
    """True if it loaded a checkpoint of an unknown step, so its work may include steps done
    again."""
    step_seconds_p50: float | None = None
    data_wait_share: float | None = None
    """Share of the step time, 0..1."""
    cpu_busy_p95_pct: float | None = None
    cores_busy_p95: float | None = None
    starved_share: float | None = None
    """The share of the time after warm-up, 0..1, in which the ranks waited for a core."""
    memory_p99_bytes: float | None = None
    disk_bytes_per_second_p95: float | None = None
    network_bytes_per_second_p95: float | None = None
    gpu_busy_p95_pct: float | None = None
    phase_seconds: dict[str, float] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)
    """GPU errors, throttling and kills for memory, each when it was first seen."""
    model_flops: ModelFlops | None = None
    unreadable: int | None = None
    """Stored objects that could not be read."""
    unsampled_seconds: float | None = None
    """The time of which nothing was ever stored, but for short gaps."""
    too_large: str = ""
    """The things of which the run has too much to be judged, in words; empty if it was judged."""
    ledger_version: int = 1
    """The version of the meaning of the ledger's labels; see docs/ledger.md."""
    speed_version: int = 0
    """The version of the measurement of the training loop's speed."""
    missing_segments: int | None = None
    """Segments that an agent announced but that didn't arrive."""
    usd_per_hour: Decimal | None = None
    """Price of one node, if all nodes are alike."""
    basis: str = "list"
    """`list` or `your rate`."""
    list_usd: Decimal | None = None
    phase_usd: dict[str, Decimal] = field(default_factory=dict)
    electricity: Electricity | None = None
    """The electricity in the cost; None: no rate of its machines has a price for it."""
    projected: Projection | None = None
    is_at_least: bool = False
    """The platform bills more than is known: the cost is at least this."""
    cost_notes: list[str] = field(default_factory=list)
    price_source: str = ""
    is_later_price: bool = False
    is_estimated: bool = False
    missing: list[str] = field(default_factory=list)
    """The reasons why there is no price, as `node: reason`."""
    node_count: int | None = None
    machine_seconds: float | None = None
    """The time for which its nodes were held, all together."""
    instance_types: list[str] = field(default_factory=list)
    workload_key: str = ""
    configuration_key: str = ""
    """Runs are compared if both keys are equal."""
    verdict: SuccessiveVerdict | None = None


_ADAPTER = TypeAdapter(RunSummary)


def to_document(summary: RunSummary) -> dict[str, Any]:
    """Return the summary for JSON, with money as text. `from_document` is the inverse."""
    return {"version": VERSION, **_ADAPTER.dump_python(summary, mode="json")}


def from_document(document: dict[str, Any]) -> RunSummary:
    """Accepts all versions up to this one. Raises ValueError for a later one or a wrong type."""
    version = document.get("version", VERSION)
    if version > VERSION:
        raise ValueError(f"This run's summary has version {version}; this service knows {VERSION}.")
    known = {name: value for name, value in document.items() if value is not None}
    return _ADAPTER.validate_python(known)
