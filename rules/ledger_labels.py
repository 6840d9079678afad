"""The ledger's labels, and groups of them for the rules that explain more than one."""

from __future__ import annotations

LABELS = (
    "gap",
    "unused_gpu",
    "restore",
    "restart",
    "initialise",
    "idle_tail",
    "hung",
    "checkpoint",
    "evaluation",
    "epoch_gap",
    "compile",
    "lost",
    "data_stall",
    "communication",
    "throttled",
    "low_sm",
    "effective",
    "other_programs",
    "gpu_idle",
    "unused_cores",
    "unclassified",
)
"""By priority: if two apply at once, the first gets the time."""
NO_WASTE = frozenset({"gap", "effective", "unclassified"})
"""These are cost, but not waste: the use of a gap or of unclassified time is unknown."""
IDLE_GPUS = tuple(
    label
    for label in LABELS
    if label not in NO_WASTE and label not in ("other_programs", "unused_cores")
)
"""After warm-up, which a restart has again. A GPU also idles in time that has another label
first."""
IDLE_MACHINES = tuple(label for label in LABELS if label not in NO_WASTE)
