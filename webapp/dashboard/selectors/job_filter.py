"""Parses the URL of the list of jobs: filters, group and order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import QueryDict

from webapp.dashboard.selectors.facets import NONE, OWNER, TAG, Facet
from webapp.dashboard.selectors.job_columns import COLUMN_BY_KEY, JobColumn
from webapp.runs.models import Job, Run

MOST_TAGS = 10
MOST_CHARS = 200


@dataclass(frozen=True)
class JobFilter:
    """Filter by the URL:
    `?q=TEXT&owner=NAME&tag=KEY=VALUE&tag=...&group=owner|tag:KEY&sort=COLUMN`, or `-COLUMN` for the
    other order.
    """

    text: str
    owner: str
    tags: tuple[tuple[str, str], ...]
    group: Facet | None
    sort: str

    @classmethod
    def from_query(cls, query: QueryDict) -> JobFilter:
        """Parse the query. Invalid values are ignored."""
        pairs = [_short(word).partition("=") for word in query.getlist("tag")[:MOST_TAGS]]
        sort = query.get("sort", "last")
        return cls(
            text=_short(query.get("q", "")),
            owner=_short(query.get("owner", "")),
            tags=tuple((key, value) for key, _, value in pairs if key),
            group=Facet.by_name(_short(query.get("group", ""))),
            sort=sort if sort.removeprefix("-") in COLUMN_BY_KEY else "last",
        )

    @property
    def column(self) -> JobColumn:
        """The column that the list is sorted by."""
        return COLUMN_BY_KEY[self.sort.removeprefix("-")]

    @property
    def is_turned(self) -> bool:
        """Return whether the list has the other order than the column's own."""
        return self.sort.startswith("-")

    @property
    def tag_words(self) -> list[str]:
        """The parameters as in the URL."""
        return [f"{key}={value}" for key, value in self.tags]

    @property
    def filters_runs(self) -> bool:
        return bool(self.owner or self.tags)

    @property
    def is_all(self) -> bool:
        return not self.text and not self.filters_runs

    def runs(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        """Return the runs with the owner and all of the tags, of the selected jobs."""
        for place, (facet, value) in enumerate(self._values()):
            name = f"facet_{place}"
            runs = runs.alias(**{name: facet.value()}).filter(**{name: value})
        return runs.filter(_named(self.text, "job__")) if self.text else runs

    def jobs(self, jobs: QuerySet[Job], runs: QuerySet[Run]) -> QuerySet[Job]:
        """Return the selected jobs. If runs are filtered, only jobs with a selected run."""
        named = jobs.filter(_named(self.text)) if self.text else jobs
        return named.filter(Exists(runs.filter(job=OuterRef("pk")))) if self.filters_runs else named

    def _values(self) -> Iterator[tuple[Facet, str]]:
        if self.owner:
            yield Facet(OWNER), _meant(self.owner)
        for key, value in self.tags:
            yield Facet(f"{TAG}{key}"), _meant(value)


def _named(text: str, prefix: str = "") -> Q:
    wanted = {f"{prefix}name__icontains": text}, {f"{prefix}owner__icontains": text}
    return Q(**wanted[0]) | Q(**wanted[1])


def _meant(value: str) -> str:
    return "" if value == NONE else value


def _short(text: str) -> str:
    """Return the text without NUL, which PostgreSQL refuses, and not too long."""
    return text.replace("\0", "").strip()[:MOST_CHARS]
