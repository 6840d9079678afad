"""Names of training jobs, which agent and service must read alike."""

from __future__ import annotations

import re

_TIME_SUFFIX = re.compile(r"-\d{4}(?:-\d{2}){5}-\d{3}\Z")
"""`-2026-07-10-03-21-06-061`, which SageMaker's SDK adds."""


def job_of_training(name: str) -> str:
    """Return the job of a training job: its name without the time of the run."""
    return _TIME_SUFFIX.sub("", name) or name
