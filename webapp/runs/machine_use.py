"""Reads on which days a workspace's runs used which types of machines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date

from django.db.models import Max
from django.db.models.functions import Coalesce

from webapp.accounts.models import Workspace
from webapp.runs.models import Node


@dataclass(frozen=True)
class NewestUse:
    """The newest use of a type in a region."""

    instance_type: str
    region: str
    day: date
    """The UTC day on which the newest run there began."""


def last_uses(
    workspace: Workspace, regions: Collection[str], instance_types: Collection[str]
) -> list[NewestUse]:
    """Return the newest use of each of the types in each region, by the workspace's runs in any
    state; deleted runs don't count.
    """
    used = Node.objects.filter(
        instance_type__in=instance_types,
        region__in=regions,
        attempt__run__workspace=workspace,
        attempt__run__deleted_at=None,
    )
    began = Max(Coalesce("attempt__run__started_at", "attempt__run__created_at"))
    newest = used.order_by().values_list("instance_type", "region").annotate(began=began)
    return [NewestUse(name, region, at.astimezone(UTC).date()) for name, region, at in newest]
