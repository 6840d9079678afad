"""Facets by which jobs and runs are filtered and grouped: the owner, or the value of a tag.

A run's own value overrides its job's. A run without a value has the empty value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, F, QuerySet, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, NullIf

from webapp.runs.models import Run
from webapp.runs.tag_value import TagValue

OWNER, TAG = "owner", "tag:"
NONE = "(none)"
"""The empty value in URLs."""
LOOKED_AT = 1000
"""The number of latest runs whose values are offered. Older values are rarely needed."""
MOST_OWNERS, MOST_KEYS, MOST_VALUES = 50, 20, 30
_SHOWN = ("owner", "tags", "job__tags", "job__owner")


@dataclass(frozen=True)
class Facet:
    """Facet of runs. `name` is `owner`, or `tag:` and a key."""

    name: str

    @classmethod
    def by_name(cls, name: str) -> Facet | None:
        """Return the facet, or None if there is no such facet."""
        return cls(name) if name == OWNER or name.removeprefix(TAG) not in ("", name) else None

    @property
    def title(self) -> str:
        return self.name.removeprefix(TAG) if self.is_tag else "Owner"

    @property
    def is_tag(self) -> bool:
        return self.name != OWNER

    def value(self) -> Combinable:
        """Return a run's value, as a database expression."""
        if not self.is_tag:
            return Coalesce(NullIf("owner", Value("")), F("job__owner"))
        key = self.name.removeprefix(TAG)
        return Coalesce(TagValue("tags", key), TagValue("job__tags", key), Value(""))


@dataclass(frozen=True)
class FacetChoices:
    """The values to choose from: the most common ones of the latest runs, sorted."""

    owners: list[str]
    tags: dict[str, list[str]]


def facet_choices(runs: QuerySet[Run]) -> FacetChoices:
    """Return the facets of the latest runs of a workspace."""
    latest = runs.order_by("-created_at").values("pk")[:LOOKED_AT]
    alike = Run.objects.filter(pk__in=latest).order_by().values_list(*_SHOWN)
    owners: Counter[str] = Counter()
    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for owner, own, of_job, job_owner, count in alike.annotate(Count("pk")):
        owners[owner or job_owner] += count
        for key, value in {**of_job, **own}.items():
            tags[key][value] += count
    keys = sorted(tags, key=lambda key: -tags[key].total())[:MOST_KEYS]
    return FacetChoices(
        _commonest(owners, MOST_OWNERS),
        {key: _commonest(tags[key], MOST_VALUES) for key in sorted(keys)},
    )


def _commonest(counted: Counter[str], most: int) -> list[str]:
    named: Iterable[str] = (value for value, _ in counted.most_common(most + 1) if value)
    return sorted(list(named)[:most])
