"""Notification channels. Each module here with a `CHANNEL` is registered automatically."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from webapp.notify.channels.channel import Channel


@cache
def channels() -> Mapping[str, Channel]:
    """Return every channel, by id."""
    modules = (
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    )
    every = [module.CHANNEL for module in modules if hasattr(module, "CHANNEL")]
    return MappingProxyType({each.id: each for each in every})
