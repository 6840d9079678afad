"""The uses of time by ledger label, in words that fit into a sentence."""

from __future__ import annotations

WORDS = {
    "unused_gpu": "unused GPUs",
    "starved": "waiting for a core",
    "restore": "loading checkpoints",
    "restart": "restarts",
    "initialise": "start-up",
    "idle_tail": "idle time at the end",
    "hung": "hanging",
    "checkpoint": "checkpoints",
    "evaluation": "evaluation",
    "epoch_gap": "gaps between epochs",
    "compile": "compilation",
    "first_steps": "slow first steps",
    "lost": "steps that were done again",
    "data_stall": "waiting for data",
    "communication": "communication",
    "throttled": "running slower for heat or power",
    "low_sm": "work on few of the GPU's cores",
    "gpu_idle": "an idle GPU",
    "unused_cores": "idle cores",
}
