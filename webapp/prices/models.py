"""Price rows: the workspace's own, refreshed ones, and the bundled table."""

from __future__ import annotations

from django.db import models

from webapp.accounts.models import Workspace
from webapp.money import UsdField

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
    """A dated row. `workspace` None: everybody's; else this workspace's own rate."""

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
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(null=True, blank=True)
    source = models.CharField(max_length=200)
    precedence = models.IntegerField(default=0)
    estimated = models.BooleanField(default=False)

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
        indexes = [models.Index(fields=["instance_type", "region"])]

    def __str__(self) -> str:
        return f"{self.instance_type} {self.region} {self.usd_per_hour}/h"
