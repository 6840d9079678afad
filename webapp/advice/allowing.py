"""Settings of the ways to buy, and of the regions, that the advisor of a workspace may propose."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from webapp.accounts import audit
from webapp.accounts.models import Token, User, Workspace
from webapp.advice import life_cycle
from webapp.prices import scope as prices
from webapp.runs.models import Job, Run

MOST_REGIONS = 20
RECENT = timedelta(days=30)
MOST_JOBS = 500
"""The jobs that ran last are advised again at once; any other one with its next run."""


class RegionError(ValueError):
    """Raised when a region can't be allowed. `fix` says what to do."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


def checked_regions(workspace: Workspace, names: Iterable[str]) -> list[str]:
    """Return each region once, by name. Raises RegionError for one without prices, and for too
    many.
    """
    wanted = sorted(set(names))
    if len(wanted) > MOST_REGIONS:
        raise RegionError(f"These are more than {MOST_REGIONS} regions.", "Name fewer.")
    known = prices.regions_of(workspace) if wanted else []
    missing = [name for name in wanted if name not in known]
    if missing:
        listed = ", ".join(known)
        raise RegionError(
            f"There is no price in {missing[0]!r}.", f"Regions with prices: {listed}."
        )
    return wanted


@transaction.atomic
def save(
    workspace: Workspace, actor: User | Token, ways: Collection[str], regions: Collection[str]
) -> bool:
    """Allow these and no others, and advise again. Returns False if nothing changed.

    Args:
        ways: of `advisor.advice.buying.WAYS`.
        regions: as from `checked_regions`.
    """
    held = Workspace.objects.select_for_update().get(pk=workspace.pk)
    wanted = {"may_buy": sorted(set(ways)), "other_regions": list(regions)}
    change = {
        name: (getattr(held, name), value)
        for name, value in wanted.items()
        if getattr(held, name) != value
    }
    if not change:
        return False
    for name, value in wanted.items():
        setattr(held, name, value)
    held.save(update_fields=list(wanted))
    audit.record(held, actor, "advice.changed", "Advice", change)
    _advise_again(held)
    return True


def _advise_again(workspace: Workspace) -> None:
    recent = Run.objects.filter(workspace=workspace, started_at__gte=timezone.now() - RECENT)
    jobs = recent.present().ordinary().order_by().values("job").annotate(last=Max("started_at"))
    newest = [row["job"] for row in jobs.order_by("-last")[:MOST_JOBS]]
    for job in Job.objects.filter(pk__in=newest):
        life_cycle.queue_advice(job)
