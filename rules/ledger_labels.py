"""The ledger's labels, and groups of them for the rules that explain more than one."""

from __future__ import annotations

LABELS = (
    "gap",
    "unused_gpu",
    "starved",
    "restore",
    "restart",
    "initialise",
    "idle_tail",
    "hung",
    "checkpoint",
    "evaluation",
    "epoch_gap",
    "compile",
    "first_steps",
    "lost",
    "data_stall",
    "communication",
    "throttled",
    "low_sm",
    "effective",
    "gpu_idle",
    "unused_cores",
    "unclassified",
)
"""The labels by priority: if two apply at once, the first gets the time."""
NO_WASTE = frozenset({"gap", "effective", "unclassified"})
"""The labels that are cost, but not waste: the use of a gap or of unclassified time is unknown."""
LEFT_TO_SYMPTOMS = frozenset(
    {"unused_gpu", "lost", "low_sm", "effective", "gpu_idle", "unused_cores"}
)
"""The labels that don't tell by themselves why the time was spent. A symptom may have what no cause
claims of them; a wait, an evaluation or a checkpoint explains itself, large enough to be a finding
or not."""
IDLE_GPUS = (
    "gpu_idle",
    "low_sm",
    "data_stall",
    "starved",
    "epoch_gap",
    "checkpoint",
    "communication",
    "hung",
    "idle_tail",
    "evaluation",
    "compile",
    "first_steps",
    "restart",
    "restore",
    "lost",
)
"""The labels where used GPUs idle after warm-up, which a restart has again. The likeliest first."""
IDLE_MACHINES = (
    "unused_cores",
    *IDLE_GPUS,
    "unused_gpu",
    "initialise",
    "throttled",
)
"""The labels where machines have too little to do."""
WORK = ("effective", "gpu_idle", "low_sm", "unused_cores", "data_stall", "communication")
"""The labels where the training loop works."""
LIVES = ("restart", "lost", "restore", "initialise", "compile", "first_steps", *WORK)
"""The labels that starts of the run consist of; those that only failures cause come first."""
