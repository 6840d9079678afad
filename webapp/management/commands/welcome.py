"""`manage.py welcome`: address, new sign-in link and agent command of a running service."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from webapp.management.announcement import welcome
from webapp.service.stack import running_at


class Command(BaseCommand):
    help = "Prints the address, a new one-time sign-in link and the agent command."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(welcome(running_at() or settings.BASE_URL))
