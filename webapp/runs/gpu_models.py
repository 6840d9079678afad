"""The GPUs of nodes in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from webapp.runs.models import Node


def gpu_words(nodes: Iterable[Node]) -> str:
    """Return the GPUs that the run has: `8 × NVIDIA H100 80GB HBM3`, by model, most first; empty
    without any. Nodes of one machine, in several attempts, count once.
    """
    machines = {node.machine_id: node for node in nodes}
    models = Counter(
        gpu.get("model") or "GPU of an unknown model"
        for node in machines.values()
        for gpu in node.gpus
        if gpu.get("allocated", True)
    )
    return ", ".join(f"{count} × {model}" for model, count in models.most_common())
