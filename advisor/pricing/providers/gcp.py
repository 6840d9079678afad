"""Google Cloud. An N1 machine with attached GPUs is priced as `n1-standard-8+1xT4`."""

from __future__ import annotations

import re

from advisor.pricing.providers.provider import Provider, Service

COMPUTE_ENGINE = "compute_engine"
_TAKES_GPUS = re.compile(r"n1-.+")


class GoogleCloud(Provider):
    name = "gcp"
    title = "Google Cloud"
    services = (Service(COMPUTE_ENGINE, "Compute Engine"),)

    def service_of(self, instance_type: str) -> str:
        return COMPUTE_ENGINE

    def priced_as(self, instance_type: str, gpus: int, gpu_key: str) -> str:
        if not gpus or not _TAKES_GPUS.fullmatch(instance_type):
            return instance_type
        return with_gpus(instance_type, gpus, gpu_key)

    def short_name(self, instance_type: str) -> str:
        return instance_type.partition("+")[0]


def with_gpus(host: str, gpus: int, gpu_key: str) -> str:
    """Return the name of a host with attached GPUs in price rows."""
    return f"{host}+{gpus}x{gpu_key}"


PROVIDER = GoogleCloud()
