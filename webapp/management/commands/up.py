"""`manage.py up`: the whole service on this machine, until Ctrl-C.

It works without Django's apps, whose loading takes as long as the rest of the start: the processes
that it starts load them, side by side.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandError

from webapp import checks, env, private_files  # noqa: F401 - registers the system checks
from webapp.management.preparation import prepare
from webapp.service import private_redis
from webapp.service.address import AddressError, Bind, checked_url
from webapp.service.stack import AlreadyRunningError, Stack, lock_data_folder, shorten_path

DEFAULT_BIND = "127.0.0.1:8000"


class Command(BaseCommand):
    help = "Starts web server, worker, beat and a private Redis, and keeps them running."
    requires_system_checks = (Tags.files, Tags.staticfiles, Tags.caches)
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_service_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            start(options, then=None, exit_after=False, command=self)
        except AlreadyRunningError as running:
            data = shorten_path(Path(settings.DATA_DIR))
            self.stdout.write(f"Trimtab is already running at {running} (data in {data}).")
            self.stdout.write(_welcome(str(running)))


def add_service_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--bind", default=DEFAULT_BIND, metavar="HOST:PORT", help="address to listen on, HOST:PORT"
    )
    parser.add_argument(
        "--url", help="public URL of the service; sets links, allowed hosts and CSRF origins"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print logs here, not into the data folder"
    )


def start(
    options: dict[str, Any], then: list[str] | None, exit_after: bool, command: BaseCommand
) -> None:
    """Prepare the data folder and become the supervisor; never returns.

    `then` runs once the service answers, with its local address as the last argument.
    Raises AlreadyRunningError, and CommandError if the address is in use or Redis is unavailable.
    """
    bind, url = _address(options)
    _settle_base_url(url)
    lock = lock_data_folder()
    _ensure_free(bind)
    if not bind.is_loopback and not url.startswith("https:"):
        command.stderr.write(command.style.WARNING(_no_tls_warning(bind)))
    _close_files(command)
    redis_server = None if env.text("REDIS_URL") else _redis_server()
    stack = Stack(bind, redis_server, is_verbose=options["verbose"])
    prepare()
    local = f"http://{Bind(bind.local_host(), bind.port)}"
    stack.hand_over(lock, [*then, local] if then else None, exit_after)


def _address(options: dict[str, Any]) -> tuple[Bind, str]:
    try:
        bind = Bind.parse(options["bind"])
        given = options["url"] or env.text("TRIMTAB_BASE_URL")
        return bind, checked_url(given) if given else bind.default_url()
    except AddressError as error:
        raise CommandError(str(error)) from None


def _settle_base_url(url: str) -> None:
    """Start again if the arguments name another address than the settings, which are read before
    them.
    """
    if url == settings.BASE_URL:
        return
    os.environ.pop("TRIMTAB_BASE_URL_FILE", None)
    os.environ["TRIMTAB_BASE_URL"] = url
    os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606


def _ensure_free(bind: Bind) -> None:
    try:
        bind.ensure_free()
    except AddressError as error:
        raise CommandError(str(error)) from None


def _close_files(command: BaseCommand) -> None:
    """Close what an earlier version or a copy left open to all users of the machine."""
    for exposed in private_files.find_exposed(private_files.service_paths()):
        if exposed.is_open_to_all:
            try:
                command.stdout.write(exposed.close())
            except OSError:  # Another user's
                command.stderr.write(command.style.WARNING(_open_warning(exposed)))


def _redis_server() -> str:
    server = private_redis.find_server()
    if server is None:
        raise CommandError(private_redis.MISSING)
    return server


def _welcome(url: str) -> str:
    """Return the welcome. It needs Django's apps, which this process does without otherwise."""
    import django

    django.setup()
    from webapp.management.announcement import welcome

    return welcome(url)


def _open_warning(exposed: private_files.ExposedPath) -> str:
    return (
        f"{exposed.path} has mode {exposed.mode:04o} and belongs to another user, so every user of "
        f"this machine has rights to it. Let its owner run `{exposed.remedy}`."
    )


def _no_tls_warning(bind: Bind) -> str:
    return (
        f"{bind} can be reached from other machines without TLS: sign-in links, sessions and "
        "tokens are sent unencrypted. Put a TLS proxy in front and set its URL: --url https://…"
    )
