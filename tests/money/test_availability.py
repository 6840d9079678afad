"""A machine can or can't be started any more, by the dates of what is known."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from advisor.pricing.availability import availability
from advisor.pricing.catalogue import catalogue
from advisor.pricing.machine import InstanceType

P3, G5 = catalogue()["p3.2xlarge"], catalogue()["g5.xlarge"]
TODAY = date(2026, 11, 1)
days = st.dates(date(2020, 1, 1), date(2027, 1, 1))


def test_only_an_announced_end_retires_and_says_who_announced_it() -> None:
    gone = catalogue()["Standard_NC6s_v3"]
    known = availability(gone, TODAY, priced_on=TODAY, ran_on=TODAY)
    assert "2025-09-30" in known.why_not
    assert "ncv3-nc6s-nc12s-nc24s-retirement" in known.why_not
    assert availability(gone, date(2025, 9, 29)).is_offered


def test_a_listed_machine_has_nothing_to_check() -> None:
    assert availability(G5, TODAY) == availability(P3, date(2026, 4, 1))
    assert not availability(G5, TODAY).to_check
    assert "not offered yet" in availability(G5, date(2019, 1, 1)).why_not


@given(days, days)
def test_a_missing_entry_counts_until_something_later_is_known(priced: date, ran: date) -> None:
    known = availability(P3, TODAY, priced, ran)
    assert known.is_offered is (max(priced, ran) > P3.last_seen)
    assert bool(known.to_check) is known.is_offered
    assert (str(ran) in known.evidence) is (ran > P3.last_seen) or priced == ran


def test_what_earlier_versions_stored_of_a_machine_is_read() -> None:
    document = replace(P3, ended=TODAY).to_document() | {"retired": True}
    assert InstanceType.from_document(document) == replace(P3, ended=TODAY)
    old = {k: v for k, v in document.items() if k not in ("ended", "end_source", "is_unlisted")}
    assert InstanceType.from_document(old).ended is None
