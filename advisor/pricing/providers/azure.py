"""Azure."""

from __future__ import annotations

from advisor.pricing.providers.provider import Provider, Service

VIRTUAL_MACHINES = "virtual_machines"
_PREFIXES = ("standard_", "basic_")


class Azure(Provider):
    name = "azure"
    title = "Azure"
    services = (Service(VIRTUAL_MACHINES, "Azure virtual machine"),)

    def service_of(self, instance_type: str) -> str:
        return VIRTUAL_MACHINES

    def priced_as(self, instance_type: str, gpus: int, gpu_key: str) -> str:
        """Return `Standard_NC6s_v3` for `NC6s_v3`."""
        is_full = instance_type.lower().startswith(_PREFIXES)
        return instance_type if is_full else f"Standard_{instance_type}"

    def short_name(self, instance_type: str) -> str:
        return instance_type.removeprefix("Standard_")


PROVIDER = Azure()
