"""Converts entries of the AWS Price List to prices, from the query API and the bulk files.

The schema is that of `GetProducts` (botocore's service model `pricing/2017-10-15`) and of the bulk
offer files: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from advisor.pricing.price import PriceKey
from advisor.pricing.providers.aws.services import EC2, NAME, SAGEMAKER, SAGEMAKER_PREFIX
from advisor.pricing.providers.provider import Offer

SERVICE_CODES = {EC2: "AmazonEC2", SAGEMAKER: "AmazonSageMaker"}
PRICE_LIST = "AWS Price List"
_TRAINING = "training"
_SUFFIX = "-Training"
"""Older entries add this to the type."""

LINUX_ON_DEMAND = {
    "tenancy": "Shared",
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""Attributes that select one on-demand Linux price per instance type."""
_EC2_FAMILIES = ("Compute Instance", "Compute Instance (bare metal)")


def filters(service: str, region: str) -> list[dict[str, str]]:
    """Return the filters of `GetProducts`. One filter can't select both product families of EC2."""
    wanted = {"regionCode": region} | (LINUX_ON_DEMAND if service == EC2 else {})
    if service == SAGEMAKER:
        wanted["productFamily"] = "ML Instance"
    return [
        {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()
    ]


def offer(service: str, document: str | Mapping[str, Any]) -> Offer | None:
    """Return the on-demand price of a training machine; None if the entry is for something else.

    Args:
        document: `{product, terms}`, as text or parsed (the API returns either).
    """
    entry = json.loads(document) if isinstance(document, str) else document
    product = entry.get("product") or {}
    name = instance_type(service, product)
    terms = list(((entry.get("terms") or {}).get("OnDemand") or {}).values())
    priced = {price for term in terms for price in _hourly_prices(term)}
    if name is None or len(priced) != 1:
        return None
    key = PriceKey(NAME, service, product["attributes"]["regionCode"], name)
    return Offer(key, priced.pop(), max(_effective(term) for term in terms), PRICE_LIST)


def instance_type(service: str, product: Mapping[str, Any]) -> str | None:
    """Return the instance type of a product; None if it isn't a training machine."""
    attributes = product.get("attributes") or {}
    if not attributes.get("regionCode"):
        return None
    return (_ec2 if service == EC2 else _sagemaker)(product, attributes)


def _ec2(product: Mapping[str, Any], attributes: Mapping[str, str]) -> str | None:
    is_wanted = all(attributes.get(name) == value for name, value in LINUX_ON_DEMAND.items())
    if product.get("productFamily") not in _EC2_FAMILIES or not is_wanted:
        return None
    return attributes.get("instanceType") or None


def _sagemaker(_product: Mapping[str, Any], attributes: Mapping[str, str]) -> str | None:
    """Return the type for training. Hosting, notebooks and processing have their own prices with
    the same instance name.
    """
    if attributes.get("component", "").lower() != _TRAINING:
        return None
    name = attributes.get("instanceName") or attributes.get("instanceType") or ""
    return name.removesuffix(_SUFFIX) if name.startswith(SAGEMAKER_PREFIX) else None


def _hourly_prices(term: Mapping[str, Any]) -> Iterator[Decimal]:
    """Yield prices in USD and above 0: free tiers and reserved capacity are listed at 0."""
    for dimension in (term.get("priceDimensions") or {}).values():
        if dimension.get("unit", "").lower() not in ("hrs", "hours", "hour"):
            continue
        try:
            price = Decimal((dimension.get("pricePerUnit") or {}).get("USD", "0"))
        except InvalidOperation:
            continue
        if price.is_finite() and price > 0:
            yield price


def _effective(term: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(term["effectiveDate"]).astimezone(UTC)
