"""Saves what was converted: the run's nodes, their chunks and facts, in one transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from advisor.costing import billing
from advisor.importers.process.conversion_result import ConversionResult, ConvertedNode
from webapp.analysis import queue as analyses
from webapp.analysis.samples import chunk_rows
from webapp.background import claims
from webapp.imports.models import Import
from webapp.quotas import admission
from webapp.quotas.amounts import UploadAmounts
from webapp.runs import progress, registration
from webapp.runs.models import Chunk, Run, Session


def save(held: claims.WorkClaim[Import], made: ConversionResult) -> None:
    """Save it all, or nothing. Saving the same again changes nothing.

    Raises:
        Problem: 429 beyond a quota.
    """
    if not made.nodes:  # a profile: its run is another's
        claims.finish_work(held, stage="", **_result(made))
        return
    run = held.row.artefact.run
    stored_bytes = sum(ref.size_bytes or 0 for node in made.nodes for ref in node.chunks)
    taken = UploadAmounts(run.pk, is_new_run=False, body_bytes=0, stored_bytes=stored_bytes)
    with admission.count_while_written(run.workspace, None, taken), transaction.atomic():
        locked = registration.lock_run(run.workspace, run.pk, run.job.name)
        if not claims.finish_work(held, stage="", **_result(made)):
            return
        for node in made.nodes:
            _save_node(locked, node)
            registration.apply_declaration(locked, node.declaration)
        locked.last_received_at = timezone.now()
        progress.derive_state(locked)
        locked.save()
        analyses.queue_run(locked)
    analyses.enqueue_on_commit(locked)


def _result(made: ConversionResult) -> dict[str, Any]:
    return {"result": made.document, "operator_times": made.operator_times}


def _save_node(run: Run, made: ConvertedNode) -> None:
    declared = made.declaration
    place = run.pk, declared.attempt, declared.node.machine_id
    node = registration.make_nodes([place])[place]
    node.billing = billing.as_document(made.billing)
    node.save(update_fields=["billing"])
    length_ms = (made.ended_at - made.started_at) // timedelta(milliseconds=1)
    Session.objects.update_or_create(
        id=made.session_id,
        defaults={
            "node": node,
            "boot_id": "imported",
            "started_at": made.started_at,
            "last_ms": length_ms,
            "ended_ms": length_ms,
            "end_state": made.state,
        },
    )
    # These rows are what an earlier version of an importer made of the same files.
    own = Chunk.objects.filter(node__attempt__run=run)
    earlier = own.filter(object_key__startswith=f"{made.prefix}/")
    earlier.exclude(object_key__in=[ref.key for ref in made.chunks]).update(
        replaced_at=timezone.now()
    )
    for ref in made.chunks:
        chunk_rows.save(node, ref)
