"""Accelerators that the agent doesn't measure. A run on them is shown, and nothing is advised."""

from __future__ import annotations

from trimtab.wire import NodeFacts

from advisor.pricing.catalogue import catalogue

_MEASURED_VENDORS = ("NVIDIA", "AMD", "")
"""Some clouds don't state the vendor of their GPUs."""


def unmeasured_accelerator(node: NodeFacts) -> str:
    """Return the name of the node's accelerators if the agent can't measure them, else ""."""
    declared = catalogue().get(node.instance_type)
    if declared is None or not declared.gpu_count or node.gpus:
        return ""
    return "" if declared.gpu_vendor in _MEASURED_VENDORS else declared.gpu_model
