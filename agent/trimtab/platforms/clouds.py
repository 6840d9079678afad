"""The metadata of EC2, Google Compute Engine and Azure virtual machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from trimtab.platforms.instance import Instance
from trimtab.platforms.metadata_service import MetadataError, MetadataService

_TOKEN_SECONDS = "60"  # noqa: S105 - how long it is valid
_AZURE = "/metadata/instance/compute?api-version=2021-02-01"
_GOOGLE = "/computeMetadata/v1/instance"

Ask = Callable[[MetadataService, Mapping[str, str]], Instance]


def ec2(service: MetadataService, environment: Mapping[str, str]) -> Instance:
    """Ask EC2 by IMDSv2. A container needs a hop limit of 2 to get an answer."""
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise MetadataError("switched off by AWS_EC2_METADATA_DISABLED")
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": _TOKEN_SECONDS}
    token = service.text("/latest/api/token", lifetime, "PUT")
    headers = {"X-aws-ec2-metadata-token": token}
    document = _object(service.text("/latest/dynamic/instance-identity/document", headers))
    purchase = ""
    with suppress(MetadataError):
        purchase = service.text("/latest/meta-data/instance-life-cycle", headers)
    return Instance(
        provider="aws",
        service="ec2",
        region=_text(document, "region"),
        zone=_text(document, "availabilityZone"),
        instance_type=_text(document, "instanceType"),
        purchase_option=purchase.replace("-", "_"),
        instance_started_at_ns=_time_ns(_text(document, "pendingTime")),
    )


def google(service: MetadataService, environment: Mapping[str, str]) -> Instance:
    headers = {"Metadata-Flavor": "Google"}
    machine_type = service.text(f"{_GOOGLE}/machine-type", headers)
    zone = service.text(f"{_GOOGLE}/zone", headers).rpartition("/")[2]
    preemptible = service.text(f"{_GOOGLE}/scheduling/preemptible", headers)
    return Instance(
        provider="gcp",
        service="compute_engine",
        region=zone.rpartition("-")[0],
        zone=zone,
        instance_type=machine_type.rpartition("/")[2],
        purchase_option="spot" if preemptible.upper() == "TRUE" else "on_demand",
    )


def azure(service: MetadataService, environment: Mapping[str, str]) -> Instance:
    document = _object(service.text(_AZURE, {"Metadata": "true"}))
    return Instance(
        provider="azure",
        service="virtual_machines",
        region=_text(document, "location"),
        zone=_text(document, "zone"),
        instance_type=_text(document, "vmSize"),
        purchase_option="spot" if _text(document, "priority").lower() == "spot" else "on_demand",
    )


ALL: Mapping[str, Ask] = {"amazon": ec2, "google": google, "microsoft": azure}
"""The clouds by a word in the firmware's names."""


def _object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise MetadataError("the metadata service's answer is not a JSON object")
    return document


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    return value.strip() if isinstance(value, str) else ""


def _time_ns(text: str) -> int:
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        return int(moment.timestamp()) * 1_000_000_000 if moment.tzinfo else 0
    return 0
