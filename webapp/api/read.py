"""The read API."""

from ninja import Router

router = Router(tags=["read"])
