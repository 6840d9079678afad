"""A job's measured speeds, and the price that a probe needs to know before it spends it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.conf import settings
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from ninja import Field, Query, Router, Schema
from trimtab.wire import NodeFacts

from advisor.machine import price_key
from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.api.amounts import money
from webapp.api.description import problem
from webapp.measurements.selectors.evidence import MeasurementEvidence, evidence_of
from webapp.prices.book import price_book
from webapp.runs import scope

router = Router(tags=["read"])


class RatioOut(Schema):
    low: float
    value: float
    high: float


class MeasurementOut(Schema):
    run: UUID
    number: int
    is_probe: bool
    instance_types: list[str]
    gpu: str = Field(description="Key of the GPU model; empty: no GPU seen, or several models.")
    gpus: int
    throughput: float = Field(description="`unit` per second of all processes together.")
    low: float = Field(description="Of an 80 % interval over the run's own steps.")
    high: float
    rel_sd: float
    unit: str = Field(description="`samples`, or `steps` where samples aren't known.")
    steps: int = Field(description="Steps measured, after `warmup_steps`.")
    warmup_steps: int
    batch: float | None = Field(description="Samples a step of all processes; null: not counted.")
    precision: str = Field(description="Empty: not known.")
    util_pct: float | None = Field(description="Mean utilisation of the GPUs used.")
    gpu_memory_bytes: int | None = Field(description="Peak of one GPU.")
    host_memory_bytes: int | None = Field(description="Peak of one node.")
    data_wait_share: float | None
    pace: str = Field(description="What set the pace: `loader`, `gpu`, `cpu` or `unknown`.")
    ratio: RatioOut | None = Field(
        description="Speed over that of the job's newest measured run; null: not comparable."
    )
    refused_because: str = Field(description="Why it isn't evidence for the job; empty: it is.")
    contradicts: str = Field(description="How it contradicts its prediction; empty: it doesn't.")
    url: str


class MeasurementsOut(Schema):
    measurements: list[MeasurementOut]


class PriceOut(Schema):
    instance_type: str
    usd_per_hour: str | None = Field(description="Of one machine now; null: no price.")


@router.get(
    "/jobs/{job_id}/measurements",
    response=MeasurementsOut,
    auth=Bearer(Token.READ),
    summary="Measured speeds of a job's runs and probes",
    openapi_extra={"responses": {404: problem(404)}},
)
def get_measurements(request: TokenRequest, job_id: UUID) -> dict[str, Any]:
    """Answers the newest 50 measurements, newest first."""
    job = get_object_or_404(scope.jobs_of(request.auth.workspace), uuid=job_id)
    return {"measurements": [_document(each) for each in evidence_of(job)]}


@router.get(
    "/price",
    response=PriceOut,
    auth=Bearer(Token.READ, Token.INGEST),
    summary="What a machine costs an hour",
)
def get_price(
    request: TokenRequest,
    instance_type: str = Query(max_length=120),  # type: ignore[type-arg]
    provider: str = Query("", max_length=120),  # type: ignore[type-arg]
    service: str = Query("", max_length=120),  # type: ignore[type-arg]
    region: str = Query("", max_length=120),  # type: ignore[type-arg]
    zone: str = Query("", max_length=120),  # type: ignore[type-arg]
    purchase_option: str = Query("on_demand", max_length=120),  # type: ignore[type-arg]
) -> dict[str, Any]:
    """Answers the price of a machine, named as agents name it. A token with the scope `read` gets
    the workspace's rate, another one the list price. A type without a price has null.
    """
    facts = NodeFacts(
        machine_id="",
        provider=provider,
        service=service,
        region=region,
        zone=zone,
        instance_type=instance_type,
        purchase_option=purchase_option,
    )
    book = price_book(request.auth.workspace, {region})
    priced = (book if request.auth.allows(Token.READ) else book.at_list()).price_at(
        price_key(facts), timezone.now()
    )
    usd = priced.row.usd_per_hour if priced else None
    return {"instance_type": instance_type, "usd_per_hour": money(usd)}


def _document(each: MeasurementEvidence) -> dict[str, Any]:
    row, run = each.row, each.row.run
    copied = {
        name: getattr(row, name) for name in MeasurementOut.model_fields if hasattr(row, name)
    }
    return copied | {
        "run": run.pk,
        "number": run.number,
        "is_probe": run.is_probe,
        "instance_types": run.summary.instance_types,
        "ratio": asdict(each.ratio) if each.ratio else None,
        "refused_because": each.refused_because,
        "contradicts": each.contradicts,
        "url": settings.BASE_URL + reverse("dashboard:run", args=[run.pk]),
    }
