"""Changes what was uploaded before: each is in the workspace's history, as a change by a page is.

Each counts as an upload, too: otherwise a token could fill the history for free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from django.db import transaction
from django.db.models import QuerySet

from advisor import mlflow_names
from webapp.accounts import audit
from webapp.accounts.models import Token
from webapp.mlflow_api import labels, scope
from webapp.mlflow_api.errors import MlflowError
from webapp.mlflow_api.models import LoggedFile, TrackedRun
from webapp.quotas import admission
from webapp.quotas.amounts import UploadAmounts
from webapp.runs import locks
from webapp.runs.editing import runs

_ENTRY_BYTES = 1_000
"""The approximate size of an entry of the history."""


def mark(token: Token, tracked: TrackedRun, is_deleted: bool) -> None:
    """Hide the run from clients, or show it again. It still costs what it cost."""
    with _counted(token, tracked):
        held = scope.lock_run(tracked)
        if held.is_deleted == is_deleted:
            return
        held.is_deleted = is_deleted
        held.save(update_fields=["is_deleted"])
        action = "mlflow_run.deleted" if is_deleted else "mlflow_run.restored"
        audit.record(token.workspace, token, action, str(held.run))


def tag(token: Token, tracked: TrackedRun, tags: Mapping[str, str]) -> None:
    """Set tags of a run that others uploaded, as its page does: agents no longer change them."""
    _, tags = labels.shorten({}, tags)
    with _counted(token, tracked):
        held = scope.lock_run(tracked)
        tags = labels.name_earlier_cuts(held, tags)
        labels.add_tags(held, tags)
        held.save(update_fields=["tags", "name"])
        run = locks.run(held.pk)
        wanted = {**run.tags, **mlflow_names.shown_tags(tags)}
        labels.check_shown(wanted)
        runs.edit(run, token, {"tags": wanted})


def remove(token: Token, tracked: TrackedRun, files: QuerySet[LoggedFile]) -> None:
    """Forget these files of the run. Their content stays with the run until that goes.

    Raises:
        MlflowError: another token wrote one of them, and this one lacks the scope `write`.
    """
    is_own = not files.exclude(written_by=token).exists()
    if not (is_own or token.allows(Token.WRITE)):
        raise MlflowError(
            "PERMISSION_DENIED",
            "Another token uploaded some of these files. Delete them with a token with the scope "
            "write.",
        )
    with _counted(token, tracked):
        if paths := sorted(files.values_list("path", flat=True)):
            files.delete()
            change = {"files": (len(paths), 0), "first": (paths[0], None)}
            audit.record(token.workspace, token, "artefacts.deleted", str(tracked.run), change)


@contextmanager
def _counted(token: Token, tracked: TrackedRun) -> Iterator[None]:
    taken = UploadAmounts(tracked.pk, False, _ENTRY_BYTES)
    with admission.count_while_written(token.workspace, token, taken), transaction.atomic():
        yield
