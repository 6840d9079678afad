"""Price rows (own rates, refreshed and bundled prices), discounts, and the results of refreshes."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from webapp.accounts.models import Workspace
from webapp.background.models import Claimable
from webapp.database.money import UsdField

PRICE_IDENTITY = [
    "provider",
    "service",
    "region",
    "zone",
    "instance_type",
    "purchase_option",
    "operating_system",
    "precedence",
    "valid_from",
]


class Price(models.Model):
    """A dated price. `workspace` None: shared by all; else this workspace's own rate."""

    workspace = models.ForeignKey(
        Workspace, models.CASCADE, null=True, blank=True, related_name="prices"
    )
    provider = models.CharField(max_length=32)
    service = models.CharField(max_length=32)
    region = models.CharField(max_length=64)
    zone = models.CharField(max_length=64, blank=True)
    instance_type = models.CharField(max_length=64)
    purchase_option = models.CharField(max_length=32, default="on_demand")
    operating_system = models.CharField(max_length=32, default="linux")
    usd_per_hour = UsdField()
    usd_per_kwh = UsdField(null=True, blank=True)
    """The price of the electricity of own machines; None: not charged apart."""
    pue = models.DecimalField(max_digits=5, decimal_places=3, null=True, blank=True)
    """Power usage effectiveness, at least 1; None without `usd_per_kwh`."""
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, blank=True)
    source = models.CharField(max_length=200)
    precedence = models.IntegerField(default=0)
    estimated = models.BooleanField(default=False)
    seen_at = models.DateTimeField(null=True, blank=True)
    """The time at which the source last confirmed the price; None for an own rate."""
    note = models.CharField(max_length=300, blank=True)
    """The reason why the price ends, or the source that contradicts it."""

    class Meta:
        # Two, since NULLs are distinct in an SQLite index.
        constraints = [
            models.UniqueConstraint(
                fields=PRICE_IDENTITY,
                condition=models.Q(workspace=None),
                name="one_common_price_a_date",
            ),
            models.UniqueConstraint(
                fields=["workspace", *PRICE_IDENTITY],
                condition=models.Q(workspace__isnull=False),
                name="one_own_price_a_date",
            ),
        ]
        indexes = [
            models.Index(fields=["instance_type", "region"]),
            # Every analysis reads those of its regions.
            models.Index(fields=["region"], name="prices_of_a_region"),
        ]

    def __str__(self) -> str:
        return f"{self.instance_type} {self.region} {self.usd_per_hour}/h"


class Discount(models.Model):
    """A workspace's discount on list prices. An empty field means "any". Discounts are ended, never
    deleted."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="discounts")
    percent = models.DecimalField(max_digits=5, decimal_places=2)
    family = models.CharField(max_length=32, blank=True)
    service = models.CharField(max_length=32, blank=True)
    purchase_option = models.CharField(max_length=32, blank=True)
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(percent__gt=0, percent__lt=100), name="discount_is_a_part"
            )
        ]

    def __str__(self) -> str:
        return f"{self.percent.normalize():f} % off {self.family or 'everything'}"


class PriceRefresh(Claimable):
    """The refresh of one source for one region, with its position, so that it can resume."""

    name = models.CharField(max_length=64, unique=True)
    """The part's name: `ec2/us-east-1`, `spot/eu-west-1`, ..."""
    token = models.TextField(blank=True)
    """The token of the next page; empty for the beginning."""
    pages = models.PositiveIntegerField(default=0)
    rows_read = models.PositiveIntegerField(default=0)
    rows_new = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(null=True, blank=True)
    """The time at which the first page was requested."""

    def __str__(self) -> str:
        return self.name


class Machine(models.Model):
    """The availability of an instance type in a region, which is separate from its prices."""

    provider = models.CharField(max_length=32)
    region = models.CharField(max_length=64)
    instance_type = models.CharField(max_length=64)
    hardware = models.JSONField()
    """The fields of `advisor.pricing.catalogue.InstanceType`."""
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True, blank=True)
    """The time at which the type was first missing from a complete list of the region."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "region", "instance_type"], name="one_machine_a_region"
            )
        ]

    def __str__(self) -> str:
        return f"{self.instance_type} in {self.region}"
