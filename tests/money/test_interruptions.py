"""The rate at which machines are interrupted, and how often a fleet of spot machines should
save.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import gammaincinv

from advisor.advice.checkpointing import SAVE_INTERVAL
from advisor.advice.recommendation import Spending
from advisor.pricing.book import PriceBook
from advisor.pricing.catalogue import GIB, catalogue
from advisor.probing.bootstrap import Rate
from advisor.probing.loop_speed import LoopSpeed
from advisor.recommend import AdvisedRun, Market, Recommendation, recommend
from advisor.sizing.demand import Demand
from advisor.sizing.interruptions import InterruptionRate, SeenInterruptions, interruption_rate
from advisor.sizing.spot import Interruptions, best_interval_seconds
from rules.engine import Judgement
from rules.rule import Numbers, Verdict
from tests.money.recovered import claim, recovered

HOUR = 3600.0
LIKE = SeenInterruptions("aws", "us-east-1", "g5.xlarge", 0, 0.0)


def seen(
    count: int, hours: float, name: str = "g5.xlarge", region: str = "us-east-1"
) -> SeenInterruptions:
    return SeenInterruptions("aws", region, name, count, hours)


def rate(*rows: SeenInterruptions, assumed: float = 24.0) -> InterruptionRate:
    found = interruption_rate(rows, LIKE, assumed)
    assert found is not None
    return found


@given(count=st.integers(0, 500), hours=st.floats(72, 1e5))
def test_the_interval_is_that_of_the_posterior(count: int, hours: float) -> None:
    found, shape = rate(seen(count, hours)), 1 + count
    assert found.hours == pytest.approx((24 + hours) / shape)
    exact = [(24 + hours) / gammaincinv(shape, share) for share in (0.9, 0.1)]
    assert [found.worst_hours, found.best_hours] == pytest.approx(exact, rel=0.08)
    assert found.worst_hours < found.hours < found.best_hours


def test_it_holds_the_true_rate_in_eight_of_ten_workspaces() -> None:
    """The true rates are spread as assumed."""
    random = np.random.default_rng(5)
    true_hours = 1 / random.gamma(1.0, 1 / 24, 2000)
    held = 0
    for hours in true_hours:
        found = rate(seen(int(random.poisson(200 / hours)), 200.0))
        held += found.worst_hours <= hours <= found.best_hours
    assert held / 2000 == pytest.approx(0.8, abs=0.03)


def test_the_smallest_group_that_tells_enough_is_taken_and_named() -> None:
    rows = [seen(2, 10), seen(9, 90, "g4dn.xlarge"), seen(40, 400, region="eu-west-1")]
    assert interruption_rate([seen(2, 10)], LIKE, 24) is None
    region = rate(*rows)
    assert (region.interruptions, region.seen_hours) == (11, 100)
    assert "all machines of this kind in us-east-1" in region.words
    own = rate(seen(3, 10), *rows[1:])
    assert (own.interruptions, own.seen_hours) == (3, 10)
    assert "g5.xlarge in us-east-1 were interrupted 3 times in 10 node-hours" in own.words
    provider = rate(seen(2, 10), rows[2])
    assert (provider.interruptions, "at aws" in provider.words) == (42, True)
    quiet = rate(seen(0, 72))
    assert quiet.hours == 96, "hours without an interruption tell something, too"


def cost(interval: float, of: Interruptions, gaps: NDArray[np.float64]) -> float:
    """Return the machine time per second of work, with interruptions after these times: each takes
    a restart, and keeps what was saved before it.
    """
    working = np.clip(gaps - of.restart_seconds, 0, None)
    saved = np.floor(working / (interval + of.checkpoint_seconds))
    return float(gaps.sum() / (saved.sum() * interval))


def test_a_fleet_on_spot_saves_as_often_as_is_best() -> None:
    """50 trainings whose machines are interrupted every 3 to 60 h, which the advisor doesn't know:
    it has seen some hundred node-hours of each."""
    random = np.random.default_rng(20261123)
    advised = best = blind = 0.0
    for _ in range(50):
        hours = float(np.exp(random.uniform(np.log(3), np.log(60))))
        save_seconds = float(np.exp(random.uniform(np.log(10), np.log(300))))
        work, usd = random.uniform(20, 300), random.uniform(0.3, 30)
        past = float(random.uniform(100, 500))
        known = rate(seen(int(random.poisson(past / hours)), past))
        of = Interruptions(hours * HOUR, save_seconds)
        gaps = random.exponential(of.mean_seconds, 20_000)
        recommended = best_interval_seconds(Interruptions(known.hours * HOUR, save_seconds))
        tried = best_interval_seconds(of) * np.geomspace(0.2, 5, 60)
        advised += work * usd * cost(recommended, of, gaps)
        best += work * usd * min(cost(each, of, gaps) for each in tried)
        assumed = best_interval_seconds(Interruptions(720 * HOUR, save_seconds))
        blind += work * usd * cost(assumed, of, gaps)
    assert advised <= 1.02 * best
    assert blind > 1.02 * best, "by the rate that is assumed without evidence"


JOB = Demand(
    cores_busy_p95=7.5,
    memory_p99_bytes=14 * GIB,
    gpus=0,
    duration_seconds=36_000,
    instance_type="m5.2xlarge",
    region="us-east-1",
    purchase_option="spot",
    node_count=2,
)
SPEED = LoopSpeed(
    rate=Rate(60.0, 64.0, 68.0, 0.02),
    unit="samples",
    steps=1000,
    warmup_steps=5,
    batch=32.0,
    precision="fp32",
    gpu="",
    gpus=0,
    util_pct=None,
    gpu_memory_bytes=None,
    host_memory_bytes=None,
    data_wait_share=None,
    pace="cpu",
)


def saves(
    every: float,
    seconds: float,
    state: str = "passed",
    count: int = 8,
    loop_seconds: float = 36_000.0,
) -> Judgement:
    values = {
        "run_seconds": 36_000.0,
        "checkpoints_count": float(count),
        "interval_seconds": every - seconds,
        "checkpoint_seconds": seconds,
        "saving_seconds": count * seconds,
        "loop_seconds": loop_seconds,
    }
    waste = 900.0 if state == "fired" else 0.0
    verdict = Verdict(state, "", claims=claim("checkpoint_interval", waste / 2, waste))  # type: ignore[arg-type]
    return Judgement("checkpoint_interval", 1, {}, Numbers(values), verdict)


def advise(
    judged: Judgement,
    interrupted: InterruptionRate | None,
    speed: LoopSpeed | None = SPEED,
    usd: str | None = "8",
) -> dict[str, Recommendation]:
    cost_usd = None if usd is None else Decimal(usd)
    recent = () if cost_usd is None else (cost_usd,) * 3
    run = AdvisedRun(
        [judged],
        JOB,
        Spending(cost_usd, 36_000, recent),
        speed,
        interrupted,
        recovered([judged], cost_usd, 36_000),
    )
    market = Market(PriceBook([]), catalogue(), datetime(2026, 11, 1, tzinfo=UTC))
    found = recommend(run, market)
    return {each.kind: each for each in found}


def test_the_recommendation_names_setting_machines_and_money() -> None:
    known = rate(seen(11, 216))
    advised = advise(saves(6000, 60), known)[SAVE_INTERVAL]
    best = best_interval_seconds(Interruptions(10 * HOUR, 60))
    assert advised.change == {"save_steps": round(2 * best)}
    assert f"save_steps={round(2 * best)}" in advised.how_to_apply[0]
    assert known.words in advised.evidence
    # Daly: C/t + t/2M, at 6000 s and at the best, of the time with both.
    of = Interruptions(10 * HOUR, 60)
    excess = (60 / 5940 + 5940 / 72_000) - 2 * math.sqrt(60 / 72_000)
    assert float(advised.saving_usd or 0) == pytest.approx(8 * excess, rel=0.3)
    assert of.mean_seconds == 10 * HOUR
    assert advised.monthly_saving_usd == pytest.approx(3 * (advised.saving_usd or 0))
    low, high = advised.saving_low_usd, advised.saving_high_usd
    assert low is not None
    assert high is not None
    assert 0 <= low < (advised.saving_usd or 0) < high


def test_only_the_loop_saves_and_never_beyond_its_work() -> None:
    """A loop of a tenth of the run saves a tenth; one of half an hour saves once."""
    whole, tenth, short = (
        advise(saves(180, 60, count=3, loop_seconds=seconds), rate(seen(11, 216)))
        for seconds in (36_000.0, 3600.0, 1800.0)
    )
    usd = [float(each[SAVE_INTERVAL].saving_usd or 0) for each in (whole, tenth)]
    assert usd[1] == pytest.approx(usd[0] / 10, rel=0.1)
    assert short[SAVE_INTERVAL].change == {"save_steps": 2 * (1800 - 180)}


def test_without_a_pace_the_interval_is_told_in_seconds() -> None:
    advised = advise(saves(6000, 60), rate(seen(11, 216)), speed=None)[SAVE_INTERVAL]
    assert set(advised.change) == {"checkpoint_interval"}


def test_it_takes_the_place_of_the_finding_about_the_interval() -> None:
    fired = saves(6000, 60, "fired")
    assert list(advise(fired, None)) == ["fix_checkpoints"]
    advised = advise(fired, rate(seen(11, 216)))
    assert list(advised) == [SAVE_INTERVAL]
    assert advised[SAVE_INTERVAL].rules == ["checkpoint_interval"]


@pytest.mark.parametrize(
    ("judged", "interrupted", "usd"),
    [
        pytest.param(saves(6000, 60), None, "8", id="nothing was seen"),
        pytest.param(saves(2100, 60), rate(seen(11, 216)), "8", id="as often as is best"),
        pytest.param(saves(6000, 60, count=2), rate(seen(11, 216)), "8", id="too few saved"),
        pytest.param(saves(6000, 60), rate(seen(11, 216)), None, id="no price"),
    ],
)
def test_it_says_nothing(
    judged: Judgement, interrupted: InterruptionRate | None, usd: str | None
) -> None:
    assert SAVE_INTERVAL not in advise(judged, interrupted, usd=usd)
