"""A worker that hosts conversions: each in a process of its own, side by side for workspaces.

So a long conversion of one workspace delays no other one, and all of them together take one worker.
The worker itself reads no file. It renews the leases by its own clock, and saves what was made.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from advisor.importers.process import conversion_result
from advisor.importers.process.ending import Ending
from advisor.importers.process.task import ConversionLimits, Places
from advisor.importers.recording import NotImportableError
from webapp.background import claims, fairness
from webapp.background.time_limit import restart, time_limit
from webapp.http.problems import Problem
from webapp.imports import allowance, outcome, queue, run_states, scratch, waiting
from webapp.imports.child import ConversionProcess
from webapp.imports.converting import task_of
from webapp.imports.models import Import
from webapp.imports.saving import save
from webapp.runs.models import Run

LOOK_SECONDS, NEXT_EVERY_SECONDS, RENEWED_EVERY_SECONDS = 0.1, 1.0, 15.0
KILLED_AFTER = 60
"""Seconds after the limit that the process itself keeps."""
AGAIN_AFTER = timedelta(seconds=30)
"""The time after which a conversion is tried again whose folder another process still uses."""
_MOST_LISTED = 50

logger = logging.getLogger(__name__)


@dataclass
class Conversion:
    """One claimed import and its process."""

    held: claims.WorkClaim[Import]
    child: ConversionProcess
    began_at: float
    renewed_at: float
    stage: str = ""

    @property
    def workspace_id(self) -> int:
        return int(self.held.row.artefact.run.workspace_id)


@dataclass
class Host:
    """The conversions of one worker."""

    lease: uuid.UUID = field(default_factory=uuid.uuid4)
    going: list[Conversion] = field(default_factory=list)

    def carry_out(self, artefact_id: int, **which: object) -> bool:
        """Convert this upload, and beside it what becomes due for other workspaces meanwhile.

        Returns False if the upload couldn't be claimed.
        """
        if not self._begin(artefact_id, **which):
            return False
        try:
            with time_limit(queue.KIND.limits.longest):
                self._go_on()
        finally:
            for each in self.going:
                each.child.kill()
        return True

    def _go_on(self) -> None:
        """Look after the conversions until none is left."""
        next_at = time.monotonic() + NEXT_EVERY_SECONDS
        while self.going:
            restart(queue.KIND.limits.longest)
            for each in list(self.going):
                self._look_after(each)
            if time.monotonic() >= next_at:
                self._begin_next()
                next_at = time.monotonic() + NEXT_EVERY_SECONDS
            if self.going:
                time.sleep(LOOK_SECONDS)

    def _begin_next(self) -> None:
        """Begin what is due for workspaces that have nothing under way here."""
        if len(self.going) >= queue.SIDE_BY_SIDE:
            return
        for artefact_id, workspace_id in _due():
            if workspace_id not in {each.workspace_id for each in self.going}:
                self._begin(artefact_id, due_at__lte=timezone.now())
            if len(self.going) >= queue.SIDE_BY_SIDE:
                return

    def _begin(self, artefact_id: int, **which: object) -> bool:
        held = claims.claim_under(self.lease, queue.KIND, artefact_id, which)
        if held is None:
            return False
        # An owner's retry of background work leaves the run's state.
        run_states.settle(Run.objects.filter(pk=held.row.artefact.run_id))
        if waiting.wait_for_quota(held):
            return True
        try:
            child = ConversionProcess(
                task_of(held.row, _limits(held.row)), scratch.folder_of(held.row)
            )
        except waiting.PartsMissingError as error:
            waiting.wait_for_parts(held, error)
        except (NotImportableError, Problem) as error:
            outcome.mark_import_failed(held, str(error))
            scratch.remove(held.row)
        except Exception as error:
            logger.exception("import could not begin", extra={"artefact": artefact_id})
            outcome.retry_or_fail_import(held, error)
        else:
            now = time.monotonic()
            self.going.append(Conversion(held, child, began_at=now, renewed_at=now))
        return True

    def _look_after(self, each: Conversion) -> None:
        """Renew the lease, end what takes too long, and save what has ended."""
        ending = each.child.poll_ending()
        if ending is not None:
            self.going.remove(each)
            _conclude(each, ending)
            return
        now = time.monotonic()
        if now - each.began_at > queue.MOST_SECONDS + KILLED_AFTER:
            cpu_seconds = each.child.kill()
            self.going.remove(each)
            why = f"it takes longer than {queue.MOST_SECONDS:,} s"
            _conclude(each, Ending("refused", why, cpu_seconds))
        elif not _is_kept(each, now):
            logger.error("an import's lease was lost", extra={"import": each.held.pk})
            each.child.kill()
            self.going.remove(each)


def _due() -> Iterator[tuple[int, int]]:
    """Yield the due uploads in their turn, each with its workspace."""
    keys = fairness.in_turn(queue.KIND, _MOST_LISTED, timezone.now())
    rows = Import.objects.filter(artefact_id__in=keys)
    owners = dict(rows.values_list("artefact_id", "artefact__run__workspace_id"))
    yield from ((key, owners[key]) for key in keys if key in owners)


def _limits(row: Import) -> ConversionLimits:
    """Return the limits of one conversion, which are within what the workspace's quotas leave."""
    left = allowance.remaining_allowance(row.artefact.run.workspace)
    return ConversionLimits(
        memory_bytes=settings.IMPORT_MEMORY_MB * 10**6,
        cpu_seconds=math.ceil(min(queue.MOST_CPU_SECONDS, left.cpu_seconds)),
        wall_seconds=queue.MOST_SECONDS,
        unpacked_bytes=min(queue.MOST_UNPACKED_BYTES, left.unpacked_bytes),
    )


def _is_kept(each: Conversion, now: float) -> bool:
    """Renew the lease and write the stage, as often as needed. Returns False if it was lost."""
    stage = each.child.stage
    if stage == each.stage and now - each.renewed_at < RENEWED_EVERY_SECONDS:
        return True
    each.stage, each.renewed_at = stage, now
    return claims.renew(each.held, stage=stage)


def _conclude(each: Conversion, ending: Ending) -> None:
    """Save what was converted, or record why there is nothing."""
    held = each.held
    if ending.how != "busy":
        allowance.charge(held.row, ending.cpu_seconds, ending.unpacked_bytes)
    try:
        if ending.how == "converted":
            run_id = held.row.artefact.run_id
            save(
                held, conversion_result.read(Places(scratch.folder_of(held.row)).converted, run_id)
            )
        elif ending.how == "refused":
            outcome.mark_import_failed(held, ending.why, ending.left_out)
        elif ending.how == "busy":
            claims.release(held, timezone.now() + AGAIN_AFTER)
        else:
            logger.error("import failed: %s\n%s", ending.why, each.child.log)
            outcome.retry_or_fail_import(held, ending.why)
    except Problem as error:
        outcome.mark_import_failed(held, str(error))
    except Exception as error:
        logger.exception("import could not be saved", extra={"import": held.pk})
        outcome.retry_or_fail_import(held, error)
    if ending.how not in ("away", "busy"):
        scratch.remove(held.row)
