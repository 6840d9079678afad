"""Money in rows: nothing is lost, and there are no floats."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.core.exceptions import ValidationError
from django.db.models import Sum
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.web import factories
from webapp.runs.models import Run

MOST_NANO_USD = 10**15

amounts = st.lists(st.integers(-MOST_NANO_USD, MOST_NANO_USD), min_size=1, max_size=30)


@pytest.mark.django_db
def test_the_databases_sum_is_exact_to_the_nano_dollar():
    """SQLite has no decimals, and PostgreSQL's would do: both sum whole numbers. This runs on
    both, and what it expects is Python's exact sum."""
    job = factories.job(factories.workspace())
    model = factories.run(job)

    @given(amounts)
    @settings(max_examples=30)
    def sums(nano: list[int]) -> None:
        Run.objects.filter(job=job).delete()
        Run.objects.bulk_create(_with_cost(model, number, usd) for number, usd in enumerate(nano))
        total = Run.objects.filter(job=job).aggregate(sum=Sum("cost_usd"))["sum"]
        assert isinstance(total, Decimal)
        assert total == Decimal(sum(nano)).scaleb(-9)
        assert sorted(Run.objects.values_list("cost_usd", flat=True)) == sorted(
            Decimal(each).scaleb(-9) for each in nano
        )

    sums()


def _with_cost(model: Run, number: int, nano_usd: int) -> Run:
    values = {"workspace": model.workspace, "job": model.job, "number": number}
    return Run(id=f"{number:032x}", cost_usd=Decimal(nano_usd).scaleb(-9), **values)


@pytest.mark.django_db
def test_a_float_is_refused_as_money():
    run = factories.run(factories.job(factories.workspace()))
    run.cost_usd = 0.1  # type: ignore[assignment]
    with pytest.raises(ValidationError, match="never a float"):
        run.save()
