"""The states of runs of which only files have arrived: importing, or failed to import.

The run of an import has no sessions until the first conversion succeeds; from then on its state is
that of its sessions (`webapp.runs.progress`).
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet

from webapp.background import conditions
from webapp.imports.models import WHOLE, Import
from webapp.runs.models import Run


def settle(runs: QuerySet[Run]) -> None:
    """Set the state of those of these runs that nothing was imported into yet.

    Call in no transaction that has locked the import's row: uploads lock the run first.
    """
    bare = runs.filter(started_at=None).order_by()
    imports = Import.objects.filter(artefact__run=OuterRef("pk"), artefact__kind=WHOLE)
    is_pending = Exists(imports.filter(conditions.is_open()))
    has_failed = Exists(imports.filter(conditions.has_news()).exclude(given_up_at=None))
    changes = (
        (Run.IMPORTING, bare.filter(is_pending)),
        (Run.IMPORT_FAILED, bare.filter(has_failed).exclude(is_pending)),
    )
    for state, those in changes:
        keys = list(those.exclude(state=state).values_list("pk", flat=True))
        Run.objects.filter(pk__in=keys, started_at=None).update(state=state)


def settle_all() -> None:
    """Settle the runs of imports that ended where nobody could settle them, as when too many
    workers died.
    """
    settle(Run.objects.filter(state__in=(Run.IMPORTING, Run.IMPORT_FAILED)))
