"""`manage.py reset_two_factor`: for a person who lost the phone and all recovery codes."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.accounts import people, second_factor


class Command(BaseCommand):
    help = "Switches a person's two-factor sign-in off and signs them out everywhere."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email", help="email address of the account")

    def handle(self, *args: Any, **options: Any) -> None:
        user = people.find_user(options["email"])
        if user is None:
            raise CommandError(f"No account has the address {options['email']}.")
        if not second_factor.is_on(user):
            raise CommandError(f"{user.email} has no two-factor sign-in.")
        second_factor.reset(user)
        self.stdout.write(
            f"Two-factor sign-in of {user.email} is off, and all their sessions have ended. "
            "They sign in with their password and can set it up again."
        )
