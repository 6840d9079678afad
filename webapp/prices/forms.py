"""The forms of a workspace's own rates and discounts."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

from django import forms

from advisor.pricing.csv_rows import own_rate
from advisor.pricing.price import PriceRow
from advisor.pricing.providers import machine_name, providers, services
from advisor.pricing.providers.on_premises import PROVIDER as ON_PREMISES
from advisor.pricing.providers.provider import MACHINE
from webapp.prices.models import Discount

_PROVIDERS = sorted(providers().values(), key=lambda each: (each is not ON_PREMISES, each.title))
_SERVICES = {
    service.name: services()[service.name].title for each in _PROVIDERS for service in each.services
}
"""The services, those of own machines first."""
_LISTED = {
    service.name: service.title
    for each in _PROVIDERS
    if each.needs_instance_type
    for service in each.services
}
"""Services that have list prices, from which a discount can be taken."""
_OPTIONS = {name: title for each in _PROVIDERS for name, title in each.purchase_options.items()}
_PROVIDER_OF = {
    service.name: each.name
    for each in _PROVIDERS
    for service in each.services
    if service.name != MACHINE
}
"""The provider of a service. For own machines the person chooses it."""
MOST_FILE_BYTES = 2_000_000


class RateForm(forms.Form):
    """The price of a machine or of a GPU-hour."""

    service = forms.ChoiceField(label="Service", choices=list(_SERVICES.items()), initial=MACHINE)
    provider = forms.ChoiceField(
        label="Provider", choices=[(p.name, p.title) for p in _PROVIDERS], required=False
    )
    instance_type = forms.CharField(label="Instance type or GPU model", required=False)
    region = forms.CharField(label="Region", required=False)
    purchase_option = forms.ChoiceField(label="Purchase option", choices=list(_OPTIONS.items()))
    usd_per_hour = forms.CharField(label="USD per hour")
    usd_per_kwh = forms.CharField(
        label="Electricity of your own machines, USD per kWh", required=False
    )
    pue = forms.CharField(label="PUE of the data centre, at least 1", required=False)
    valid_from = forms.DateField(label="From (UTC)")
    valid_to = forms.DateField(label="Until (UTC)", required=False)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        service = cleaned["service"]
        texts = {name: str(value or "") for name, value in cleaned.items()}
        texts["provider"] = _PROVIDER_OF.get(service) or texts["provider"]
        try:
            self.rate = own_rate(texts)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None
        return cleaned

    rate: PriceRow


class DiscountForm(forms.Form):
    """A discount on list prices, in percent."""

    percent = forms.DecimalField(
        label="Discount, %", min_value=0, max_value=100, max_digits=5, decimal_places=2
    )
    family = forms.CharField(label="Instance family", required=False, max_length=32)
    service = forms.ChoiceField(
        label="Service", required=False, choices=[("", "All services"), *_LISTED.items()]
    )
    purchase_option = forms.ChoiceField(
        label="Purchase option", required=False, choices=[("", "Any"), *_OPTIONS.items()]
    )
    valid_from = forms.DateField(label="From (UTC)")
    valid_to = forms.DateField(label="Until (UTC)", required=False)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        start, end = cleaned.get("valid_from"), cleaned.get("valid_to")
        if start and end and end <= start:
            self.add_error("valid_to", "Must be after the start date.")
        if cleaned.get("percent") in (0, 100):
            self.add_error("percent", "Must be between 0 and 100.")
        return cleaned

    def discount(self) -> Discount:
        values = self.cleaned_data
        return Discount(
            percent=values["percent"],
            family=machine_name(values["family"].strip().lower()).partition(".")[0],
            service=values["service"],
            purchase_option=values["purchase_option"],
            valid_from=_midnight(values["valid_from"]),
            valid_to=_midnight(values["valid_to"]) if values["valid_to"] else None,
        )


class ImportForm(forms.Form):
    """A CSV file of own rates."""

    file = forms.FileField(label="CSV file")

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file.size > MOST_FILE_BYTES:
            raise forms.ValidationError("The file is larger than 2 MB.")
        try:
            return file.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise forms.ValidationError("The file is not UTF-8 text.") from None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
