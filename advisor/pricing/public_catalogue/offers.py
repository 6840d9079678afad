"""Makes one price of each machine, region and purchase option from the lines of its zones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from statistics import median

from advisor.pricing.price import CATALOGUE, PriceKey
from advisor.pricing.providers import provider
from advisor.pricing.providers.provider import Offer
from advisor.pricing.public_catalogue.lines import CatalogueLine

SOURCE = "SkyPilot catalogue"
_LOW = Decimal("0.6")
"""A list price below this share of the median of all regions is doubtful: the
regions of one provider differ by up to 35 %, and the catalogue has prices of reservations among its
list prices."""
_LEAST_REGIONS = 3


def offers(lines: Iterable[CatalogueLine], provider_name: str, as_of: datetime) -> Iterator[Offer]:
    """Yield a price of each machine, region and purchase option.

    Zones that differ give the highest price, as an estimate, because the catalogue's zones aren't
    always those of the metadata services. A price that is too high promises no saving.

    Args:
        as_of: the day of the catalogue.
    """
    prices: dict[tuple[str, str], dict[str, set[Decimal]]] = defaultdict(lambda: defaultdict(set))
    for line in lines:
        for option, usd in (("on_demand", line.usd), ("spot", line.spot_usd)):
            if usd:
                prices[line.instance_type, option][line.region].add(usd)
    for (instance_type, option), by_region in prices.items():
        usual = _usual([max(zones) for zones in by_region.values()], option)
        for region, zones in by_region.items():
            key = _key(provider_name, region, instance_type, option)
            yield _offer(key, zones, usual, as_of)


def _usual(prices: Sequence[Decimal], option: str) -> Decimal | None:
    return median(prices) if option == "on_demand" and len(prices) >= _LEAST_REGIONS else None


def _offer(key: PriceKey, zones: set[Decimal], usual: Decimal | None, as_of: datetime) -> Offer:
    usd = max(zones)
    is_low = usual is not None and usd < usual * _LOW
    differing = f", highest of {len(zones)} prices in its zones" if len(zones) > 1 else ""
    return Offer(
        key=key,
        usd_per_hour=usd,
        effective_from=as_of,
        source=f"{SOURCE}{differing}",
        precedence=CATALOGUE,
        estimated=len(zones) > 1 or is_low,
        note=f"doubtful: other regions cost ${usual:.4f} at the median" if is_low else "",
    )


def _key(name: str, region: str, instance_type: str, option: str) -> PriceKey:
    return PriceKey(name, provider(name).service_of(instance_type), region, instance_type, option)
