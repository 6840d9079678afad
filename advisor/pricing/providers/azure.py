"""Azure."""

from __future__ import annotations

from advisor.pricing.providers.provider import Provider, Service

VIRTUAL_MACHINES = "virtual_machines"


class Azure(Provider):
    name = "azure"
    title = "Azure"
    services = (Service(VIRTUAL_MACHINES, "Azure virtual machine"),)

    def service_of(self, instance_type: str) -> str:
        return VIRTUAL_MACHINES


PROVIDER = Azure()
