"""The recommendations of all jobs, filtered by the URL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import CharField, Count, F, Max, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, NullIf
from django.http import QueryDict

from advisor.advice.risk import RISKS
from webapp.advice.models import IS_OPEN, Recommendation
from webapp.advice.selectors.savings import Saving, risk_words, rung_words, saving_of

STATES: dict[str, Q] = {
    "open": IS_OPEN,
    "followed": Q(state__in=Recommendation.FOLLOWED),
    "snoozed": Q(state=Recommendation.SNOOZED),
    "dismissed": Q(state=Recommendation.DISMISSED),
}
"""The conditions of states. What is open again because the newest run went back is among the
followed ones, too."""
MOST_CHARACTERS = 200
MOST_OWNERS = 50
RISK_LIMITS = {words: most for most, words in RISKS[:-1]}
UNREAD = ("candidates", "evidence", "assumptions", "how_to_apply", "claimed_estimate")
"""Columns that a list doesn't show."""
_OWNER = Coalesce(NullIf("run__owner", Value("")), F("job__owner"), output_field=CharField())


@dataclass(frozen=True)
class InboxFilter:
    """Filter of the list:
    `?state=open|followed|snoozed|dismissed&q=TEXT&kind=&effort=&owner=&risk=`, the last one the
    highest risk. Unknown values of `state` and `risk` are ignored.
    """

    state: str = "open"
    text: str = ""
    kind: str = ""
    effort: str = ""
    owner: str = ""
    risk: str = ""

    @classmethod
    def from_query(cls, query: QueryDict) -> InboxFilter:
        state, risk = query.get("state", ""), query.get("risk", "")
        return cls(
            state=state if state in STATES else "open",
            text=_short(query.get("q", "")),
            kind=_short(query.get("kind", "")),
            effort=_short(query.get("effort", "")),
            owner=_short(query.get("owner", "")),
            risk=risk if risk in RISK_LIMITS else "",
        )

    @property
    def is_all(self) -> bool:
        """Return whether nothing is left out of the state."""
        return not (self.text or self.kind or self.effort or self.owner or self.risk)

    def rows(self, rows: QuerySet[Recommendation]) -> QuerySet[Recommendation]:
        """Return the filtered rows: open ones by their monthly saving, the others by when they
        changed.
        """
        chosen = rows.filter(STATES[self.state])
        if self.text:
            named = Q(title__icontains=self.text) | Q(job__name__icontains=self.text)
            chosen = chosen.filter(named)
        if self.kind:
            chosen = chosen.filter(kind=self.kind)
        if self.effort:
            chosen = chosen.filter(effort=self.effort)
        if self.owner:
            chosen = chosen.alias(whose=_OWNER).filter(whose=self.owner)
        if self.risk:
            chosen = chosen.filter(risk__lte=RISK_LIMITS[self.risk])
        if self.state != "open":
            return chosen.order_by("-changed_at", "-pk")
        largest = (F(name).desc(nulls_last=True) for name in ("monthly_saving_usd", "saving_usd"))
        return chosen.order_by(*largest, "-pk")


@dataclass(frozen=True)
class InboxLine:
    row: Recommendation
    saving: Saving
    risk: str
    rung: str
    """The basis of the estimate, in words."""


@dataclass(frozen=True)
class InboxChoices:
    """Values to filter by."""

    kinds: list[str]
    efforts: list[str]
    owners: list[str]
    risks: tuple[str, ...] = tuple(RISK_LIMITS)


def lines(rows: Iterable[Recommendation]) -> list[InboxLine]:
    return [InboxLine(row, saving_of(row), risk_words(row), rung_words(row)) for row in rows]


def inbox_choices(rows: QuerySet[Recommendation]) -> InboxChoices:
    plain = rows.exclude(state=Recommendation.EXPIRED).select_related(None).order_by()
    kinds, efforts, owners = set(), set(), set()
    for kind, effort, owner in plain.values_list("kind", "effort", _OWNER).distinct():
        kinds.add(kind)
        efforts.add(effort)
        owners.add(owner)
    return InboxChoices(sorted(kinds), sorted(efforts), sorted(owners - {""})[:MOST_OWNERS])


def counts(rows: QuerySet[Recommendation]) -> dict[str, int]:
    """Return the counts by the names in `STATES`."""
    plain = rows.select_related(None).order_by()
    return plain.aggregate(**{name: Count("pk", filter=chosen) for name, chosen in STATES.items()})


@dataclass(frozen=True)
class OpenSaving:
    """Possible saving a month: the best of each job, since several may exclude one another."""

    usd: Decimal | None
    """The amount; None without a price."""
    job_count: int
    """The number of jobs with a saving a month, or without a price; all if no job ran in the last
    month."""
    unpriced_count: int = 0
    """The number of these jobs that aren't in the sum."""


def open_saving(rows: QuerySet[Recommendation]) -> OpenSaving:
    """Return the possible saving of the open ones among `rows`."""
    active = rows.filter(IS_OPEN).select_related(None).order_by()
    best = active.values("job").annotate(best=Max("monthly_saving_usd"))
    sums = best.aggregate(
        jobs=Count("job"),
        unpriced=Count("job", filter=Q(best=None)),
        idle=Count("job", filter=Q(best=0)),
        usd=Sum("best"),
    )
    jobs, unpriced = sums["jobs"], sums["unpriced"]
    if sums["idle"] < jobs:
        jobs -= sums["idle"]
    usd = sums["usd"] if jobs > unpriced else None
    return OpenSaving(usd if jobs else Decimal(0), jobs, unpriced)


def _short(text: str) -> str:
    """Return the text without NUL, which PostgreSQL refuses, and not too long."""
    return text.replace("\0", "").strip()[:MOST_CHARACTERS]
