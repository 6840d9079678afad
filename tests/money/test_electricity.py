"""Electricity in the cost of own machines: measured joules x PUE x USD per kWh."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from io import StringIO

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.cost import NodeUse, RunCost, cost_of_run, shares_on_machine
from advisor.costing.electricity import DayEnergy
from advisor.costing.measured_energy import measured_energy
from advisor.money import rounded_usd
from advisor.pricing import csv_rows
from advisor.pricing.book import PriceBook
from advisor.pricing.price import OWN_RATE, PriceKey, PriceRow
from rules.frame import EVENT_COLUMNS, STEP_COLUMNS, GpuHardware, Hardware, NodeFrame, RunFrame

KEY = PriceKey("on_premises", "gpu_hour", "", "H100-SXM")
START = datetime(2026, 11, 2, 20, tzinfo=UTC)
FIRST, NEXT = date(2026, 11, 2), date(2026, 11, 3)
HEADER = "provider,service,instance_type,usd_per_hour,valid_from,usd_per_kwh,pue\n"

amounts = st.decimals("0.000001", "99", places=6)
pues = st.decimals(1, 10, places=3)
joules = st.integers(0, 10**12)


def rate(usd_per_kwh: str | Decimal | None = "0.20", pue: str | Decimal = "1.5") -> PriceRow:
    kwh = None if usd_per_kwh is None else Decimal(usd_per_kwh)
    since = datetime(2026, 1, 1, tzinfo=UTC)
    own = PriceRow(KEY, Decimal(2), since, None, "your rate", OWN_RATE)
    return PriceRow(
        **vars(own) | {"usd_per_kwh": kwh, "pue": None if kwh is None else Decimal(pue)}
    )


def use(*energy: DayEnergy, hours: float = 2, key: str = "node-1", units: int = 8) -> NodeUse:
    held = ((START, START + timedelta(hours=hours)),)
    return NodeUse(key, KEY, held, units=units, energy=energy)


def cost(*uses: NodeUse, of: PriceRow | None = None) -> RunCost:
    return cost_of_run(uses, PriceBook([of or rate()]))


def test_a_kilowatt_hour_costs_its_rate_times_the_overhead() -> None:
    found = cost(use(DayEnergy(FIRST, 3_600_000, 7200.0)))
    assert found.electricity is not None
    assert found.electricity.usd == Decimal("0.30")
    assert found.total_usd == 2 * 8 * 2 + Decimal("0.30")
    assert found.electricity.words == (
        "1 kWh of the GPUs; $0.20 per kWh, PUE 1.5; the hosts' power isn't measured"
    )


@given(energy=joules, usd_per_kwh=amounts, pue=pues)
def test_the_formula_holds_to_the_nano_dollar(
    energy: int, usd_per_kwh: Decimal, pue: Decimal
) -> None:
    found = cost(use(DayEnergy(FIRST, energy, 7200.0)), of=rate(usd_per_kwh, pue))
    assert found.electricity is not None
    exact = Fraction(energy) / 3_600_000 * Fraction(pue) * Fraction(usd_per_kwh)
    assert found.electricity.usd == rounded_usd(exact)
    assert found.electricity.joules == energy
    assert found.total_usd == rounded_usd(exact + 2 * 8 * 2)


@given(first=joules, following=joules, hours=st.floats(4.01, 20))
def test_days_and_parts_of_a_day_add_up(first: int, following: int, hours: float) -> None:
    days = DayEnergy(FIRST, first, 14_400.0), DayEnergy(NEXT, following, 1.0)
    metered, plain = cost(use(*days, hours=hours)), cost(use(hours=hours), of=rate(None))
    assert metered.electricity is not None
    more = metered.known_usd - plain.known_usd
    assert abs(more - (metered.electricity.usd or 0)) <= Decimal("2e-9")
    noon = START + timedelta(hours=2)
    before = metered.parts[0].charges.usd_before(noon)
    assert before == pytest.approx(metered.parts[0].usd / 2, abs=Decimal("1e-9"))


@given(energy=joules)
def test_the_order_of_nodes_changes_nothing(energy: int) -> None:
    uses = [use(DayEnergy(FIRST, energy + n, 9.0), key=f"node-{n}") for n in range(3)]
    assert cost(*uses) == cost(*reversed(uses))


def test_what_was_not_measured_is_not_measured_and_never_nothing() -> None:
    found = cost(use())
    assert found.electricity is not None
    assert (found.electricity.usd, found.electricity.joules) == (None, None)
    assert "no power of a GPU was measured, so the cost lacks it" in found.electricity.words
    assert found.total_usd == 32


def test_a_rate_without_electricity_has_none() -> None:
    found = cost(use(DayEnergy(FIRST, 10**9, 7200.0)), of=rate(None))
    assert found.electricity is None
    assert found.total_usd == 32


def test_the_share_of_the_time_that_was_measured_is_told() -> None:
    half = use(DayEnergy(FIRST, 3_600_000, 3600.0))
    found = cost(half, use(key="node-2")).electricity
    assert found is not None
    assert found.measured_share == 0.25
    assert "1 kWh of the GPUs, measured for 25 % of the time" in found.words


def test_runs_on_one_gpu_at_once_pay_its_energy_once() -> None:
    """Each was held alone for an hour, and for an hour with the other one."""
    energy = DayEnergy(FIRST, 3_600_000, 7200.0)
    one = use(energy, units=1)
    later = START + timedelta(hours=1)
    other = NodeUse("other", KEY, ((later, later + timedelta(hours=2)),), energy=(energy,))
    scaled = shares_on_machine([one, other])
    for key in ("node-1", "other"):
        found = cost(*(each for each in scaled if each.node_key == key)).electricity
        assert found is not None
        assert found.joules == 2_700_000


def frame(*gpus: dict[str, list[float | None]], held: tuple[float, float] = (0, 40)) -> RunFrame:
    """Four cells of 10 s."""
    columns = {
        f"gpu{n}.{name}": values for n, gpu in enumerate(gpus) for name, values in gpu.items()
    }
    samples = pd.DataFrame(columns, index=[0.0, 10.0, 20.0, 30.0], dtype=float)
    hardware = Hardware(gpus=tuple(GpuHardware("NVIDIA H100", 80 * 10**9) for _ in gpus))
    steps, events = pd.DataFrame(columns=STEP_COLUMNS), pd.DataFrame(columns=EVENT_COLUMNS)
    node = NodeFrame("node-1", hardware, samples, steps, events, (held,))
    return RunFrame(10.0, 40.0, final=True, nodes={"node-1": node})


def test_the_counter_counts_before_the_power() -> None:
    gpu = {"energy_joules_total": [1000, 4000, None, 9000], "power_watts": [1, 1, 1, 1]}
    [found] = measured_energy(frame(gpu), START)["node-1"]
    assert found == DayEnergy(FIRST, 8000, 30.0)


def test_a_counter_that_begins_again_says_nothing_about_that_time() -> None:
    [found] = measured_energy(frame({"energy_joules_total": [1000, 4000, 50, 850]}), START)[
        "node-1"
    ]
    assert found == DayEnergy(FIRST, 3800, 20.0)


def test_power_counts_for_the_cells_in_which_it_is_known_and_the_node_was_held() -> None:
    gpu = {"power_watts": [300, None, 300, 500]}
    [found] = measured_energy(frame(gpu, held=(0, 35)), START)["node-1"]
    assert found == DayEnergy(FIRST, 300 * 10 + 300 * 10 + 500 * 5, 25.0)


def test_energy_is_of_its_day_and_seconds_are_a_mean_of_the_gpus() -> None:
    gpus = {"power_watts": [100, 100, 200, 200]}, {}
    midnight = datetime(2026, 11, 2, 23, 59, 40, tzinfo=UTC)
    found = measured_energy(frame(*gpus), midnight)["node-1"]
    assert found == (DayEnergy(FIRST, 2000, 10.0), DayEnergy(NEXT, 4000, 10.0))


def test_a_node_without_power_has_no_energy() -> None:
    assert measured_energy(frame({"busy_pct": [1, 2, 3, 4]}), START) == {"node-1": ()}


@given(usd_per_kwh=amounts, pue=pues)
def test_a_rate_survives_export_and_import(usd_per_kwh: Decimal, pue: Decimal) -> None:
    row = rate(usd_per_kwh, pue)
    read, refused = csv_rows.read(StringIO("".join(csv_rows.lines([row]))))
    assert (read, refused) == ([row], [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("on_premises,gpu_hour,h100,2,2026-01-01,0.2,0.9", "pue is 0.9; it must be between 1 and"),
        ("on_premises,gpu_hour,h100,2,2026-01-01,0.2,x", "pue is 'x'; write it as 1.4"),
        ("on_premises,gpu_hour,h100,2,2026-01-01,0.2,NaN", "pue is NaN; it must be between"),
        ("on_premises,gpu_hour,h100,2,2026-01-01,0.2,1.2345", "pue has more than three decimals"),
        ("on_premises,gpu_hour,h100,2,2026-01-01,,1.4", "pue needs usd_per_kwh"),
        ("on_premises,gpu_hour,h100,2,2026-01-01,-1,", "usd_per_kwh is -1; it must be between 0"),
        ("on_premises,gpu_hour,h100,2,2026-01-01,0,", "usd_per_kwh is 0; leave it empty if"),
        ("on_premises,gpu_hour,h100,2,2026-01-01,20 ct,", "usd_per_kwh is '20 ct'; write it"),
        ("aws,ec2,g5.xlarge,2,2026-01-01,0.2,", "usd_per_kwh is for your own machines; a cloud's"),
    ],
)  # fmt: skip
def test_what_is_no_rate_for_electricity_is_refused_with_the_reason(line: str, reason: str) -> None:
    read, [refused] = csv_rows.read(StringIO(HEADER + line))
    assert not read
    assert reason in str(refused)


def test_files_of_earlier_versions_are_read() -> None:
    header = HEADER.replace(",usd_per_kwh,pue", "")
    [row], refused = csv_rows.read(StringIO(header + "on_premises,gpu_hour,h100,2,2026-01-01"))
    assert not refused
    assert (row.usd_per_kwh, row.pue) == (None, None)
