"""System checks: what `manage.py check` finds wrong, each with the way to mend it."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register

from webapp import private_files
from webapp.service.browser_libraries import FILES


@register(Tags.files)
def data_directory_is_writable(**_: Any) -> list[CheckMessage]:
    if os.access(settings.DATA_DIR, os.W_OK):
        return []
    return [
        Error(
            f"The data directory {settings.DATA_DIR} can't be written.",
            hint="Set TRIMTAB_DATA_DIR to a folder that this user owns.",
            id="trimtab.E001",
        )
    ]


@register(Tags.security)
def files_are_private(**_: Any) -> list[CheckMessage]:
    exposed = private_files.find_exposed(private_files.service_paths())
    return [_readable_by_all(one) if one.is_open_to_all else _shared(one) for one in exposed]


def _readable_by_all(exposed: private_files.ExposedPath) -> CheckMessage:
    return Warning(
        f"{exposed.path} has mode {exposed.mode:04o}: every user of this machine has rights to it.",
        hint=f"Run `{exposed.remedy}`. `manage.py up` does so at its next start.",
        id="trimtab.W002",
    )


def _shared(exposed: private_files.ExposedPath) -> CheckMessage:
    return Info(
        f"{exposed.path} has mode {exposed.mode:04o}: its group has rights to it.",
        hint=f"If that isn't meant, run `{exposed.remedy}`.",
        id="trimtab.I001",
    )


@register(Tags.staticfiles)
def browser_libraries_are_installed(**_: Any) -> list[CheckMessage]:
    modules = settings.BASE_DIR / "node_modules"
    built = (settings.STATIC_ROOT / "vendor").is_dir()
    missing = [source for source in FILES.values() if not (modules / source).exists()]
    if built or not missing:
        return []
    return [
        Error(
            f"Browser libraries are missing: {', '.join(missing[:3])}.",
            hint="Run `npm ci` in the project folder, or start with `python3 manage.py up`.",
            id="trimtab.E002",
        )
    ]


@register(Tags.security)
def links_lead_outside(**_: Any) -> list[CheckMessage]:
    host = urlsplit(settings.BASE_URL).hostname or ""
    if settings.HTTPS or host in ("127.0.0.1", "localhost", "::1"):
        return []
    return [
        Warning(
            f"TRIMTAB_BASE_URL ({settings.BASE_URL}) is not https: tokens travel in the clear.",
            hint="Put a TLS proxy in front and set TRIMTAB_BASE_URL to its https address.",
            id="trimtab.W001",
        )
    ]


@register(Tags.caches)
def redis_is_named_whole(**_: Any) -> list[CheckMessage]:
    if settings.REDIS_URL.startswith(("redis://", "rediss://", "unix://")):
        return []
    return [
        Error(
            f"REDIS_URL ({settings.REDIS_URL.split(':', 1)[0]}:…) is not a Redis address.",
            hint="Use redis://host:6379/0, rediss://… or unix:///path/to/redis.sock.",
            id="trimtab.E003",
        )
    ]
