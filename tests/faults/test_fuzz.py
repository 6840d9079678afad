"""A sample of `python -m bench.fuzz`."""

from __future__ import annotations

import math

import pytest

from bench import fuzz
from bench.fuzz import Decoder, try_inputs
from bench.fuzz_decoders import all_decoders
from bench.fuzz_http import tried_over_http

DECODERS = {decoder.name: decoder for decoder in all_decoders()}


@pytest.mark.parametrize("name", DECODERS)
def test_no_hostile_input_breaks_a_decoder(name):
    result = try_inputs(DECODERS[name], 150, seed=1)
    assert result.outcomes.total() == 150
    assert result.problems == []


@pytest.mark.long
@pytest.mark.parametrize("name", DECODERS)
def test_none_of_many_hostile_inputs_breaks_a_decoder(name):
    inputs = math.ceil(10_000 * DECODERS[name].share)
    assert try_inputs(DECODERS[name], inputs, seed=2).problems == []


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(1800)
def test_none_of_many_hostile_bodies_breaks_a_started_service():
    assert tried_over_http(10_000, seed=1).problems == []


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_no_hostile_request_breaks_a_started_service():
    result = tried_over_http(300, seed=3)
    assert result.problems == []
    assert result.outcomes.total() == 300
    assert result.outcomes["accepted"] > 20


def test_it_names_the_input_that_breaks_a_decoder():
    def decode(number: object) -> None:
        assert isinstance(number, int)
        if number < 50:
            raise KeyError(number)

    result = try_inputs(Decoder("numbers", lambda chance: chance.randrange(100), decode, ()), 40, 3)
    assert len(result.problems) == result.outcomes["failed"] > 0
    assert result.problems[0].startswith("seed 3, input ")
    assert "KeyError" in result.problems[0]


def test_it_ends_a_decoder_that_hangs(monkeypatch):
    def hang(_given: object) -> None:
        while True:
            pass

    monkeypatch.setattr(fuzz, "MOST_SECONDS", 0.05)
    result = try_inputs(Decoder("hanging", lambda chance: 0, hang, ()), 1, 0)
    assert result.outcomes == {"failed": 1}
    assert "HangError" in result.problems[0]
