"""Clouds whose prices come from the public catalogue.

The agent can't detect them: `trimtab run --provider lambda --instance-type gpu_1x_a100`.
"""

from __future__ import annotations

from advisor.pricing.providers.provider import Provider

_TITLES = {
    "cudo": "Cudo Compute",
    "do": "DigitalOcean",
    "fluidstack": "FluidStack",
    "hyperbolic": "Hyperbolic",
    "lambda": "Lambda",
    "nebius": "Nebius",
    "oci": "Oracle Cloud",
    "paperspace": "Paperspace",
    "runpod": "RunPod",
    "vast": "Vast.ai",
}


class GpuCloud(Provider):
    def __init__(self, name: str, title: str) -> None:
        self.name, self.title = name, title


PROVIDERS = tuple(GpuCloud(name, title) for name, title in _TITLES.items())
