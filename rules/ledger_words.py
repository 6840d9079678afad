"""Says what a run spent its time on, where it is too short for findings."""

from __future__ import annotations

from collections.abc import Mapping

from rules.ledger_labels import NO_WASTE

SHORT_SECONDS = 300.0
LEAST_SHARE = 0.05
WORDS = {
    "unused_gpu": "on GPUs that it never used",
    "starved": "waiting for a core",
    "restore": "loading checkpoints",
    "restart": "between restarts",
    "initialise": "in start-up",
    "idle_tail": "idle at the end",
    "hung": "hung",
    "checkpoint": "in checkpoints",
    "evaluation": "in evaluation",
    "epoch_gap": "between epochs",
    "compile": "in compilation",
    "first_steps": "in slow first steps",
    "lost": "in steps that were done again",
    "data_stall": "waiting for data",
    "communication": "in communication",
    "throttled": "slowed by heat or power",
    "low_sm": "with few of the GPU's cores active",
    "gpu_idle": "with an idle GPU",
    "unused_cores": "on idle cores",
}


def describe_short_run(shares: Mapping[str, float], run_seconds: float) -> str:
    """Say what a short run's time went to, the most first; empty: the run isn't short, or it wasted
    little.

    Args:
        shares: each label's share of the time, 0 to 1.
    """
    large = {
        label: share
        for label, share in shares.items()
        if label not in NO_WASTE and share >= LEAST_SHARE
    }
    if run_seconds >= SHORT_SECONDS or not large:
        return ""
    ordered = sorted(large, key=lambda label: (-large[label], label))
    parts = ", ".join(f"{100 * large[label]:.0f} % {WORDS[label]}" for label in ordered)
    return f"The run spent {parts}; it is too short for the rest."
