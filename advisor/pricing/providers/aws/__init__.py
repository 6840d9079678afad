"""AWS: EC2 and SageMaker training, with prices and machines from AWS's own interfaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from advisor.pricing.machine import InstanceType
from advisor.pricing.price import PriceKey, PriceRow
from advisor.pricing.providers.aws import sagemaker
from advisor.pricing.providers.aws.services import (
    EC2,
    NAME,
    SAGEMAKER,
    SAGEMAKER_PREFIX,
    SERVICES,
)
from advisor.pricing.providers.provider import PricePage, PriceSource, Provider

MACHINES, SPOT = "machines", "spot"


class Aws(Provider):
    name = NAME
    title = "AWS"
    services = SERVICES
    needs_instance_type = True
    purchase_options = MappingProxyType(
        {**Provider.purchase_options, "capacity_block": "Capacity block"}
    )
    usual_regions = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1")
    sources = (
        PriceSource(EC2),
        PriceSource(SAGEMAKER),
        PriceSource(MACHINES, "machines"),
        PriceSource(SPOT, "spot"),
    )

    def service_of(self, instance_type: str) -> str:
        return SAGEMAKER if instance_type.startswith(SAGEMAKER_PREFIX) else EC2

    def priced_like(self, key: PriceKey) -> PriceKey | None:
        return sagemaker.ec2_key(key)

    def estimates(
        self, key: PriceKey, machine: InstanceType | None, rows: Iterable[PriceRow]
    ) -> Iterator[PriceRow]:
        return sagemaker.estimates(key, machine, rows)

    def has_credentials(self) -> bool:
        from advisor.pricing.providers.aws import pages

        return pages.has_credentials()

    def pages(
        self,
        source: str,
        region: str,
        token: str,
        since: datetime,
        instance_types: Sequence[str],
    ) -> Iterator[PricePage[Any]]:
        # boto3 takes 30 MB, so only processes that query AWS import it.
        from advisor.pricing.providers.aws import pages

        if source == MACHINES:
            return pages.machines(region, token)
        if source == SPOT:
            return pages.spot_prices(region, instance_types, since, token)
        return pages.offers(source, region, token)


PROVIDER = Aws()
