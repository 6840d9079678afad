"""Own machines, priced per machine-hour or per GPU-hour in use."""

from __future__ import annotations

from advisor.pricing.providers.provider import MACHINE, Provider, Service

GPU_HOUR = "gpu_hour"


class OnPremises(Provider):
    name = "on_premises"
    title = "Your own machines"
    services = (
        Service(GPU_HOUR, "GPU-hour on your own machines"),
        Service(MACHINE, "Machine of your own, or of another cloud"),
    )


PROVIDER = OnPremises()
