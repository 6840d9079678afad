"""Google Cloud. None of its prices are bundled, because no dated ones were found."""

from __future__ import annotations

from advisor.pricing.providers.provider import Provider, Service


class GoogleCloud(Provider):
    name = "gcp"
    title = "Google Cloud"
    services = (Service("compute_engine", "Compute Engine"),)


PROVIDER = GoogleCloud()
