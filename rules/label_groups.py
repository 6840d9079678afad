"""The ledger's labels in which GPUs or machines idle, for the rules that explain all of them."""

from __future__ import annotations

IDLE_GPUS = (
    "unused_gpu",
    "idle_tail",
    "hung",
    "checkpoint",
    "evaluation",
    "epoch_gap",
    "data_stall",
    "communication",
    "throttled",
    "low_sm",
    "gpu_idle",
)
"""After warm-up. A GPU also idles in time that has another label first."""
IDLE_MACHINES = (*IDLE_GPUS, "initialise", "other_programs", "unused_cores")
