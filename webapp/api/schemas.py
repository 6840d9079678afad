"""The answers of the read API, as its OpenAPI description shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Field, Schema

from advisor.comparison.job_metrics import MetricSetting
from advisor.run_summary import RunSummary
from webapp.api.ledger import LedgerLineOut
from webapp.api.run_money import RunMoneyOut


class TakenOut(Schema):
    rule: str
    seconds: float = Field(description="Of the run, at its price.")
    usd: str | None = Field(description="null: no price.")


class FindingOut(Schema):
    rule: str
    title: str
    severity: str
    summary: str
    advice: str
    waste_usd_low: str | None = Field(
        description="What a fix gives back, without what other findings claim: the sum is at most "
        "the cost. null: no price."
    )
    waste_usd_high: str | None
    explained_by: str = Field(
        description="The rule whose finding explains this one; empty: a cause of its own."
    )
    taken: list[TakenOut] = Field(
        description="The findings that explain parts of this one's time, the most first."
    )
    is_provisional: bool


class RecommendationOut(Schema):
    id: UUID
    title: str
    state: str
    saving_usd: str | None = Field(description="Per run; null: no price.")
    saving_low_usd: str | None
    saving_high_usd: str | None
    monthly_saving_usd: str | None
    realised_usd: str | None = Field(
        description="What later runs saved by following it, signed; null: not measured."
    )
    rung: str = Field(description="The evidence of the estimate: measured, same, history or prior.")
    risk: float
    effort: str
    is_provisional: bool


class JobRef(Schema):
    id: UUID
    name: str


class NodeOut(Schema):
    number: int
    machine_id: str
    hostname: str
    provider: str
    service: str
    region: str
    zone: str
    instance_type: str
    purchase_option: str
    owns_machine: bool = Field(description="The machine was started only for this run.")
    instance_started_at: datetime | None = Field(description="Of the machine; null: not known.")
    vcpus: int
    memory_bytes: int
    gpus: list[dict[str, Any]]


class FailureOut(Schema):
    node: str
    words: str = Field(description="In a sentence: exit code, signal, or memory.")
    exit_code: int | None
    signal: str = Field(description="The signal that ended the command; empty: none.")
    oom_kills: int | None = Field(
        description="Processes that the kernel killed for memory; null: not known."
    )
    memory_bytes: int | None
    memory_limit_bytes: int | None


class StageOut(Schema):
    node: str
    name: str
    start_seconds: float = Field(description="Since the start of the run.")
    seconds: float | None = Field(description="null: it runs, or its end is not known.")


class InputOut(Schema):
    name: str = Field(description="price, fit, speed or availability.")
    is_known: bool
    found: str = Field(description="What is known, or what is missing.")
    step: str = Field(description="What helps; empty: it is known.")


class CheckedOut(Schema):
    conclusion: str = Field(
        description="What may be said if nothing is recommended, and what isn't judged; empty: the "
        "run isn't analysed as a whole, or is a probe."
    )
    inputs: list[InputOut] = Field(
        description="What was known behind a statement about other machines."
    )


class RunOut(Schema):
    id: UUID
    job: JobRef
    number: int
    state: str
    stopped_by: str = Field(description="The rule that stopped the run; empty: none.")
    failure: FailureOut | None = Field(description="Why the run failed; null: it has not failed.")
    stderr: list[str] = Field(
        description="The last lines of standard error, redacted; empty without --keep-stderr."
    )
    stages: list[StageOut] = Field(description="The commands of a shell script, one by one.")
    owner: str
    tags: dict[str, Any]
    note: str
    is_excluded: bool = Field(description="No other run is compared with this run.")
    is_pinned: bool = Field(description="Later runs are compared only with pinned runs.")
    is_probe: bool = Field(description="It measured some steps. Runs aren't compared with it.")
    started_at: datetime | None
    ended_at: datetime | None
    duration_seconds: float | None
    cost_usd: str | None = Field(description="USD; null: no price, or not computed yet.")
    cost_is_at_least: bool = Field(
        description="True while the run is running or lost, and if its platform bills more "
        "than is known, as of machines without a recording."
    )
    billed_usd: str | None = Field(
        description="The amount that the provider billed; null: not entered."
    )
    missing_prices: list[str]
    nodes: list[NodeOut] = Field(description="The machines of all attempts.")
    machine_doubts: list[str] = Field(
        description="What contradicts the declared types. Then no other machine is recommended."
    )
    money: RunMoneyOut
    ledger: list[LedgerLineOut] = Field(description="Cost and time by label.")
    work: dict[str, Any]
    metrics: dict[str, Any]
    metric_progress: dict[str, Any] = Field(description="Curves: name to [[seconds, value], ...].")
    summary: RunSummary = Field(description="What the last analysis found.")
    analysis_is_final: bool
    analysis_error: str
    checked: CheckedOut
    findings: list[FindingOut]
    recommendations: list[RecommendationOut]
    url: str


class JobOut(Schema):
    id: UUID
    name: str
    owner: str
    tags: dict[str, Any]
    metrics: dict[str, MetricSetting] = Field(
        description="How metrics are judged in comparisons; others are judged by their names."
    )
    run_count: int
    last_run: UUID | None
    created_at: datetime
    url: str


class JobsOut(Schema):
    jobs: list[JobOut]
    next_cursor: str | None = Field(
        description="Send this value as `cursor` for the next page; null: this is the last page."
    )
