"""The work of imports."""

from __future__ import annotations

from celery import shared_task

from webapp.imports import scratch
from webapp.imports.hosting import Host


def convert(artefact_id: int, **which: object) -> bool:
    """Convert one upload, if there is anything to do. Running it again changes nothing."""
    scratch.tidy()
    return Host().carry_out(artefact_id, **which)


@shared_task(name="imports.tidy")
def tidy() -> None:
    """Remove what killed workers have left on this machine's disk."""
    scratch.tidy()
