"""`--bind` and `--url`: valid values, and error messages for others."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.service.address import AddressError, Bind, checked_url

ports = st.integers(1, 65_535)


@given(st.ip_addresses(), ports)
def test_any_ip_address_and_port_can_be_written_and_read_back(address, port) -> None:
    bind = Bind(str(address), port)
    assert Bind.parse(str(bind)) == bind
    assert bind.is_loopback == address.is_loopback


@given(st.text(max_size=30))
def test_any_text_is_a_whole_address_or_refused(text: str) -> None:
    try:
        bind = Bind.parse(text)
    except AddressError:
        return
    assert bind.host
    assert 1 <= bind.port <= 65_535


@pytest.mark.parametrize("text", ["8000", "127.0.0.1", "127.0.0.1:0", "host:65536", ":8000", ""])
def test_half_an_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError, match="give HOST:PORT, for example"):
        Bind.parse(text)


def test_everywhere_is_reached_by_the_name_of_the_machine_from_outside_and_locally() -> None:
    bind = Bind.parse("0.0.0.0:8000")
    assert bind.default_url() == f"http://{socket.gethostname()}:8000"
    assert bind.local_host() == "127.0.0.1"
    assert not bind.is_loopback


@pytest.mark.parametrize("text", ["trimtab.example", "ftp://trimtab.example", "https://a/b", "//a"])
def test_a_public_address_needs_a_scheme_and_no_path(text: str) -> None:
    with pytest.raises(AddressError, match="without a path"):
        checked_url(text)


def test_a_public_address_loses_the_slash_at_its_end() -> None:
    assert checked_url("https://trimtab.example/") == "https://trimtab.example"


def test_a_free_port_is_free_and_a_taken_one_names_the_next() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        holder.listen()
        with pytest.raises(AddressError, match=f"--bind 127.0.0.1:{port + 1}"):
            Bind("127.0.0.1", port).ensure_free()
    Bind("127.0.0.1", port).ensure_free()


def test_a_host_that_is_not_this_machine_is_told_apart_from_a_taken_port() -> None:
    with pytest.raises(AddressError, match="Check --bind"):
        Bind("192.0.2.1", 8000).ensure_free()
