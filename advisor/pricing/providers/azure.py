"""Azure. None of its prices are bundled, because no dated ones were found."""

from __future__ import annotations

from advisor.pricing.providers.provider import Provider, Service


class Azure(Provider):
    name = "azure"
    title = "Azure"
    services = (Service("virtual_machines", "Azure virtual machine"),)


PROVIDER = Azure()
