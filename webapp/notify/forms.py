"""The forms of the notification settings."""

from __future__ import annotations

from decimal import Decimal

from django import forms

MOST_USD = Decimal(1_000_000)


class LeastSavingForm(forms.Form):
    """The saving per month from which the workspace's recommendations are mailed."""

    least_mailed_usd = forms.DecimalField(
        label="Least saving a month that is mailed, USD",
        min_value=Decimal(0),
        max_value=MOST_USD,
        decimal_places=2,
    )
