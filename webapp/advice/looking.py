"""Records which recommendations people have seen, and what these promised then."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Case, JSONField, Value, When
from django.utils import timezone

from webapp.advice import estimates
from webapp.advice.models import Recommendation


def freeze_seen(rows: Iterable[Recommendation]) -> None:
    """Freeze what a person sees for the first time. Provisional advice isn't frozen."""
    new = {row.pk: row for row in rows if row.seen_at is None and not row.is_provisional}
    if not new:
        return
    promised = (
        When(pk=pk, then=Value(estimates.document(row), JSONField())) for pk, row in new.items()
    )
    unseen = Recommendation.objects.filter(pk__in=new, seen_at=None)
    unseen.update(seen_at=timezone.now(), seen_estimate=Case(*promised, output_field=JSONField()))
