"""The work of imports."""

from __future__ import annotations

from celery import shared_task

from webapp.imports import run_states, scratch
from webapp.imports.hosting import Host


def convert(artefact_id: int, **which: object) -> bool:
    """Convert one upload, if there is anything to do. Running it again changes nothing."""
    scratch.tidy()
    return Host().carry_out(artefact_id, **which)


@shared_task(name="imports.tidy")
def tidy() -> None:
    """Remove what killed workers have left on this machine's disk, and settle the runs of imports
    that they left.
    """
    scratch.tidy()
    run_states.settle_all()
