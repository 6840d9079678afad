"""Nobody learns from the time of an answer whether an account exists."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from django.test import Client

from tests.web.test_sign_in import PASSWORD
from webapp.accounts.models import User
from webapp.settings import PASSWORD_HASHERS

TRIES = 200
WARM_UP = 10

pytestmark = [pytest.mark.django_db, pytest.mark.long, pytest.mark.timeout(1800)]


def _address(n: int) -> str:
    return f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"


def _measured(path: str, form: Callable[[str], dict[str, str]], prefix: str) -> float:
    """Return the p-value that known and unknown people are answered in the same time; each tried
    once, in random order.
    """
    from scipy.stats import mannwhitneyu  # a second of CPU for each process that collects the tests

    tries = [(is_known, n) for is_known in (True, False) for n in range(TRIES)]
    random.Random(7).shuffle(tries)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    client = Client()
    for place, (is_known, n) in enumerate([*tries[:WARM_UP], *tries]):
        email = f"{prefix if is_known else 'nobody-'}{n}@example.org"
        began = time.perf_counter()
        answer = client.post(path, form(email), REMOTE_ADDR=_address(place))
        took = time.perf_counter() - began
        assert answer.status_code == 200
        if place >= WARM_UP:
            seconds[is_known].append(took)
    p = float(mannwhitneyu(seconds[True], seconds[False]).pvalue)
    medians = [sorted(each)[TRIES // 2] * 1000 for each in seconds.values()]
    print(f"{path}: p = {p:.3f}, medians {medians[0]:.2f} and {medians[1]:.2f} ms")  # noqa: T201
    return p


@pytest.mark.parametrize("path", ["/sign-in/", "/password/"])
def test_known_and_unknown_people_are_answered_in_the_same_time(path, settings):
    """Equal times fail once in a hundred at p = 0.01: then a second series decides."""
    settings.PASSWORD_HASHERS = PASSWORD_HASHERS
    some = User.objects.create_user("password@example.org", PASSWORD).password
    User.objects.bulk_create(
        User(email=f"{prefix}{n}@example.org", password=some)
        for prefix in ("first-", "second-")
        for n in range(TRIES)
    )

    def form(email: str) -> dict[str, str]:
        return {"email": email} | ({"password": "wrong"} if path == "/sign-in/" else {})

    assert _measured(path, form, "first-") > 0.01 or _measured(path, form, "second-") > 0.01
