"""Prices and machines from AWS, page by page; a token in each page lets a refresh resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from advisor.pricing.machine import InstanceType
from advisor.pricing.price import PriceKey
from advisor.pricing.providers.aws.machines import read_machine
from advisor.pricing.providers.aws.offers import SERVICE_CODES, filters, offer
from advisor.pricing.providers.aws.services import EC2, NAME
from advisor.pricing.providers.provider import (
    Offer,
    PricePage,
    ProviderError,
    SpotPrice,
    TokenRefusedError,
)

PRICE_LIST_REGION = "us-east-1"
"""The Price List API runs in three regions and answers for all; this is the first."""
MOST_PRODUCTS = 100
MOST_SPOT_PRICES = 1000
SPOT_HISTORY = "AWS spot price history"
LINUX = "Linux/UNIX"
_RETRIES = Config(retries={"mode": "standard", "max_attempts": 10})
"""botocore retries throttling and lost connections with growing pauses."""
_STALE_TOKENS = ("ExpiredNextTokenException", "InvalidNextTokenException", "InvalidNextToken")


def has_credentials() -> bool:
    """Return whether boto3 finds credentials: in the environment, a profile, or an instance
    role.
    """
    return boto3.Session().get_credentials() is not None


def offers(service: str, region: str, token: str = "") -> Iterator[PricePage[Offer]]:
    """Yield the on-demand prices of one service in one region."""
    client: Any = boto3.client("pricing", region_name=PRICE_LIST_REGION, config=_RETRIES)
    question = {
        "ServiceCode": SERVICE_CODES[service],
        "Filters": filters(service, region),
        "FormatVersion": "aws_v1",
        "MaxResults": MOST_PRODUCTS,
    }
    for answer in _answers(client.get_products, question, token):
        read = (offer(service, entry) for entry in answer["PriceList"])
        yield PricePage(tuple(each for each in read if each), answer.get("NextToken") or "")


def spot_prices(
    region: str, instance_types: Sequence[str], since: datetime, token: str = ""
) -> Iterator[PricePage[SpotPrice]]:
    """Yield every change of spot prices since a time; AWS keeps 90 days of them."""
    question = {
        "InstanceTypes": list(instance_types),
        "ProductDescriptions": [LINUX],
        "StartTime": since,
        "MaxResults": MOST_SPOT_PRICES,
    }
    for answer in _answers(_ec2(region).describe_spot_price_history, question, token):
        read = (_spot(region, entry) for entry in answer["SpotPriceHistory"])
        yield PricePage(tuple(each for each in read if each), answer.get("NextToken") or "")


def machines(region: str, token: str = "") -> Iterator[PricePage[InstanceType]]:
    """Yield the instance types available in a region, with their hardware."""
    today = datetime.now(UTC).date()
    for answer in _answers(_ec2(region).describe_instance_types, {"MaxResults": 100}, token):
        types = tuple(read_machine(entry, today) for entry in answer["InstanceTypes"])
        yield PricePage(types, answer.get("NextToken") or "")


def _ec2(region: str) -> Any:
    return boto3.client("ec2", region_name=region, config=_RETRIES)


def _spot(region: str, entry: dict[str, Any]) -> SpotPrice | None:
    price = Decimal(entry["SpotPrice"])
    zone, name = entry.get("AvailabilityZone", ""), entry["InstanceType"]
    if price <= 0 or not zone:
        return None
    key = PriceKey(NAME, EC2, region, name, "spot", zone)
    return SpotPrice(key, price, entry["Timestamp"], SPOT_HISTORY)


def _answers(
    ask: Callable[..., dict[str, Any]], question: dict[str, Any], token: str
) -> Iterator[dict[str, Any]]:
    while True:
        try:
            answer = ask(**question, **({"NextToken": token} if token else {}))
        except ClientError as error:
            if token and error.response.get("Error", {}).get("Code") in _STALE_TOKENS:
                raise TokenRefusedError(token) from error
            raise ProviderError(str(error)) from error
        except BotoCoreError as error:
            raise ProviderError(str(error)) from error
        yield answer
        token = answer.get("NextToken") or ""
        if not token:
            return
