"""The ledger of savings: each run's dollar once, whatever way its job goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.money import rounded_usd
from advisor.proof.proving import FAILED, VERIFIED, Proof, prove
from advisor.proof.runs import CandidateTable, CompleteRun, Promise, PromisedSaving
from advisor.proof.saving import RunSaving
from advisor.successive.machine_time import MachineWork
from bench.savings import count_job

BEGAN = datetime(2026, 1, 5, tzinfo=UTC)
LARGE, MEDIUM, SMALL, TINY = "g5.12xlarge", "g5.4xlarge", "g5.2xlarge", "g5.xlarge"
USD_PER_HOUR = {
    LARGE: Decimal("5.672"),
    MEDIUM: Decimal("1.624"),
    SMALL: Decimal("1.212"),
    TINY: Decimal("1.006"),
}
HOURS = 0.8552
"""The hours on any of them: one GPU of the same model works."""


def a_run(number: int, machine: str, *, fixed: bool = False, hours: float = HOURS) -> CompleteRun:
    seconds = round(3600 * hours * (0.8 if fixed else 1.0), 3)
    price = USD_PER_HOUR[machine]
    return CompleteRun(
        number=number,
        at=BEGAN + timedelta(days=number),
        workload_key="work",
        configuration_key=machine,
        configuration={
            "instance_type": machine,
            "node_count": 1,
            "purchase_option": "on_demand",
        },
        worked=MachineWork(seconds, seconds, {"samples": 10_000.0}, {}),
        cost_usd=rounded_usd(price * Decimal(str(seconds)) / 3600),
        usd_per_hour=price,
        rules={"input_bound": "passed" if fixed else "fired"},
    )


def in_order(*machines: str) -> list[CompleteRun]:
    return [a_run(number, machine) for number, machine in enumerate(machines, 1)]


def to_machine(
    evidence: CompleteRun, machine: str, shown: Sequence[str] = (LARGE, MEDIUM, SMALL)
) -> Promise:
    """Return the promise of a move to the machine, with a table that has it and others, dearer ones
    too.
    """
    assert evidence.worked.machine_seconds is not None
    rows: list[Mapping[str, Any]] = []
    for name in shown:
        usd = USD_PER_HOUR[name] * Decimal(str(evidence.worked.machine_seconds)) / 3600
        row: dict[str, Any] = {f"cost_{part}_usd": f"{usd:.9f}" for part in ("low", "mid", "high")}
        row |= {
            f"time_{p}_seconds": evidence.worked.machine_seconds for p in ("low", "mid", "high")
        }
        machines = {"instance_type": name, "node_count": 1, "purchase_option": "on_demand"}
        rows.append(row | machines)
    promise = _promise(evidence, f"{machine} instead of #{evidence.number}", "machine")
    change = {"instance_type": machine, "node_count": 1}
    return replace(promise, change=change, tables=[CandidateTable(evidence.cost_usd, rows)])


def to_loader(evidence: CompleteRun) -> Promise:
    return replace(_promise(evidence, "loader", "loader"), rules=["input_bound"])


def _promise(evidence: CompleteRun, key: str, kind: str) -> Promise:
    cost = evidence.cost_usd or Decimal(0)
    return Promise(
        key=key,
        number=evidence.number,
        at=evidence.at,
        workload_key=evidence.workload_key,
        configuration=evidence.configuration,
        change={},
        tables=[],
        rules=[],
        estimate=PromisedSaving(
            cost * Decimal("0.1"),
            cost * Decimal("0.2"),
            cost * Decimal("0.3"),
            cost,
            evidence.worked.duration_seconds,
        ),
        kind=kind,
    )


def saved_usd(proofs: Mapping[Any, Proof]) -> Decimal:
    return sum((each.usd for proof in proofs.values() for each in proof.savings), Decimal(0))


def cost_of(run: CompleteRun) -> Decimal:
    assert run.cost_usd is not None
    return run.cost_usd


def test_a_job_that_alternates_saves_on_the_runs_that_followed_and_on_no_others() -> None:
    runs = in_order(*[LARGE] * 8, *[SMALL, LARGE] * 5)
    proofs = prove([to_machine(runs[7], SMALL)], runs)
    (proof,) = proofs.values()
    assert float(saved_usd(proofs)) == pytest.approx(19.07, rel=0.02)
    assert [each.number for each in proof.savings] == [9, 11, 13, 15, 17]
    assert proof.gone_back == (10, 12, 14, 16, 18)
    assert (proof.state, proof.is_lapsed) == (VERIFIED, True)


def test_newer_advice_of_its_kind_takes_its_place_and_the_sum_stays() -> None:
    """An earlier version opened one at each relapse."""
    runs = in_order(*[LARGE] * 8, *[SMALL, LARGE] * 5)
    promises = [to_machine(run, SMALL) for run in runs[7:] if run.configuration_key == LARGE]
    proofs = prove(promises, runs)
    assert float(saved_usd(proofs)) == pytest.approx(19.07, rel=0.02)
    assert sum(len(proof.savings) for proof in proofs.values()) == 5
    assert FAILED not in {proof.state for proof in proofs.values()}


def test_going_back_follows_nothing_and_fails_nothing() -> None:
    hours = 0.4389
    machines = [*[LARGE] * 4, *[MEDIUM] * 3, *[LARGE] * 2]
    runs = [a_run(n, machine, hours=hours) for n, machine in enumerate(machines, 1)]
    first, second = to_machine(runs[3], SMALL), to_machine(runs[6], SMALL)
    proofs = prove([first, second], runs)
    assert proofs.keys() == {first.key}
    assert float(saved_usd(proofs)) == pytest.approx(5.33, rel=0.02)
    assert proofs[first.key].gone_back == (8, 9)


def test_four_runs_that_followed_and_four_that_went_back_keep_what_was_saved() -> None:
    runs = in_order(*[LARGE] * 4, *[SMALL] * 4, *[LARGE] * 4)
    proofs = prove([to_machine(runs[3], SMALL), to_machine(runs[7], TINY)], runs)
    assert saved_usd(proofs) == 4 * (cost_of(runs[0]) - cost_of(runs[4]))


def test_a_better_choice_than_ours_is_followed_in_its_own_way() -> None:
    runs = in_order(*[LARGE] * 4, *[SMALL] * 3)
    promise = to_machine(runs[3], MEDIUM, shown=[LARGE, MEDIUM])
    (proof,) = prove([promise], runs).values()
    assert saved_usd({1: proof}) == 3 * (cost_of(runs[0]) - cost_of(runs[4]))
    assert all(each.is_own_way and each.predicted_usd is None for each in proof.savings)
    assert (proof.state, proof.claimed_by, proof.candidate) == (VERIFIED, 5, None)


def test_one_recommendation_of_several_gets_what_was_chosen_in_its_own_way() -> None:
    runs = in_order(*[LARGE] * 4, *[SMALL] * 3)
    machine = to_machine(runs[3], MEDIUM, shown=[LARGE, MEDIUM])
    lesser = replace(
        machine,
        key="probe",
        kind="probe",
        estimate=replace(machine.estimate, usd=Decimal("0.01")),
    )
    assert prove([lesser, machine], runs).keys() == {machine.key}


@pytest.mark.parametrize("is_offered", [True, False])
def test_a_dearer_choice_follows_nothing(is_offered: bool) -> None:
    runs = in_order(*[MEDIUM] * 4, *[LARGE] * 3)
    shown = [LARGE, MEDIUM, SMALL] if is_offered else [MEDIUM, SMALL]
    assert prove([to_machine(runs[3], SMALL, shown)], runs) == {}


def test_a_candidate_that_was_rejected_follows_only_if_it_was_cheaper_indeed() -> None:
    runs = in_order(*[LARGE] * 4, *[SMALL] * 2)
    promise = to_machine(runs[3], MEDIUM)
    rows = [
        {**row, "rejected_because": "too slow"} if row["instance_type"] == SMALL else row
        for row in promise.tables[0].rows
    ]
    promise = replace(promise, tables=[CandidateTable(promise.estimate.cost_usd, rows)])
    (proof,) = prove([promise], runs).values()
    assert all(each.is_own_way for each in proof.savings)


def test_what_led_from_the_reference_to_a_run_shares_its_saving_in_order() -> None:
    runs = in_order(*[LARGE] * 3, *[MEDIUM] * 3, *[SMALL] * 3, *[LARGE] * 2, *[SMALL] * 2)
    first = to_machine(runs[2], MEDIUM, shown=[LARGE, MEDIUM])
    second = to_machine(runs[5], SMALL, shown=[MEDIUM, SMALL])
    proofs = prove([first, second], runs)
    large, medium, small = (cost_of(runs[at]) for at in (0, 3, 6))
    assert saved_usd({1: proofs[first.key]}) == 8 * (large - medium)
    assert saved_usd({1: proofs[second.key]}) == 5 * (medium - small)
    assert saved_usd(proofs) == 3 * (large - medium) + 5 * (large - small)


def test_a_detour_to_a_more_expensive_machine_and_back_saves_nothing() -> None:
    runs = in_order(*[MEDIUM] * 3, *[SMALL] * 2, LARGE, *[SMALL] * 2)
    first, back = to_machine(runs[2], SMALL), to_machine(runs[5], SMALL)
    proofs = prove([first, back], runs)
    assert proofs.keys() == {first.key}
    assert saved_usd(proofs) == 4 * (cost_of(runs[0]) - cost_of(runs[3]))


def test_advice_from_the_reference_machine_counts_whatever_else_was_set_there() -> None:
    """A loader that was fixed and broken again, and another parameter, change no machine."""
    runs = [a_run(1, LARGE), a_run(2, LARGE, fixed=True)]
    runs += [replace(a_run(n, LARGE), configuration_key="other") for n in (3, 4)]
    runs.append(a_run(5, SMALL))
    machine = to_machine(runs[3], SMALL)
    proofs = prove([to_loader(runs[0]), machine], runs)
    assert saved_usd({1: proofs[machine.key]}) == cost_of(runs[0]) - cost_of(runs[4])


def test_the_reference_is_the_configuration_before_the_first_change() -> None:
    """Runs that went back tell its level as well as those before."""
    before, later = (3.0, 2.9, 3.1), (3.05, 2.95, 3.0)
    runs = [a_run(n, LARGE, hours=hours) for n, hours in enumerate(before, 1)]
    runs.append(a_run(4, SMALL, hours=3.0))
    promise = to_machine(runs[2], SMALL)
    few = prove([promise], runs)[promise.key].savings[0]
    runs += [a_run(n, LARGE, hours=hours) for n, hours in enumerate(later, 5)]
    many = prove([promise], runs)[promise.key].savings[0]
    assert many.common_usd < few.common_usd
    assert float(many.baseline_usd) == pytest.approx(3.0 * 5.672, rel=0.01)


def test_a_run_after_a_year_is_not_counted() -> None:
    runs = in_order(LARGE, SMALL)
    late = replace(a_run(3, SMALL), at=BEGAN + timedelta(days=400))
    promise = to_machine(runs[0], SMALL)
    proof = prove([promise], [*runs, late])[promise.key]
    assert [each.number for each in proof.savings] == [2]


MACHINES = st.sampled_from([LARGE, MEDIUM, SMALL, TINY])
LATER = st.lists(st.tuples(MACHINES, st.booleans()), min_size=1, max_size=14)


def _job(later: Sequence[tuple[str, bool]]) -> tuple[list[CompleteRun], list[Promise]]:
    """Return two runs on the medium machine, and what a person makes of the advice: from the second
    run, and from each first run on a machine for which a cheaper one is offered.
    """
    runs = [a_run(1, MEDIUM), a_run(2, MEDIUM)]
    runs += [a_run(n, machine, fixed=fixed) for n, (machine, fixed) in enumerate(later, 3)]
    promises = [to_machine(runs[1], SMALL), to_loader(runs[1])]
    on_large = [run for run in runs if run.configuration_key == LARGE]
    on_small = [run for run in runs if run.configuration_key == SMALL]
    promises += [to_machine(run, SMALL) for run in on_large[:1]]
    promises += [to_machine(run, TINY, shown=[MEDIUM, SMALL, TINY]) for run in on_small[:1]]
    return runs, promises


@given(later=LATER)
def test_nobody_follows_on_a_machine_that_is_dearer_than_the_evidence(
    later: list[tuple[str, bool]],
) -> None:
    runs, promises = _job(later)
    machine = {run.number: run.configuration_key for run in runs}
    proofs = prove(promises, runs)
    for promise in promises:
        if promise.kind == "machine" and promise.key in proofs:
            before = USD_PER_HOUR[machine[promise.number]]
            for each in proofs[promise.key].savings:
                assert USD_PER_HOUR[machine[each.number]] < before


@given(later=LATER)
def test_the_rows_of_a_run_sum_to_the_reference_less_its_cost(
    later: list[tuple[str, bool]],
) -> None:
    runs, promises = _job(later)
    proofs = prove(promises, runs)
    rows: dict[int, list[RunSaving]] = defaultdict(list)
    for proof in sorted(proofs.values(), key=lambda each: each.claimed_by):
        for each in proof.savings:
            rows[each.number].append(each)
    references = set()
    for run in runs:
        if own := rows[run.number]:
            usd = sum((each.usd for each in own), Decimal(0))
            assert usd == own[0].baseline_usd - cost_of(run)
            # The fix may have come with a move to any other machine that nobody recommended.
            if run.configuration_key in (MEDIUM, SMALL):
                references.add(round(usd + cost_of(run), 6))
    machines = {round(cost_of(a_run(0, machine)), 6) for machine in (MEDIUM, LARGE)}
    assert len(references) <= 1
    assert references <= machines


@given(later=LATER, data=st.data())
def test_the_order_in_which_runs_arrive_changes_nothing(
    later: list[tuple[str, bool]], data: st.DataObject
) -> None:
    runs, promises = _job(later)
    shuffled = data.draw(st.permutations(runs))
    assert prove(data.draw(st.permutations(promises)), shuffled) == prove(promises, runs)


@pytest.mark.parametrize("seed", range(8))
def test_simulated_jobs_save_what_they_truly_did(seed: int) -> None:
    counted = count_job(seed)
    assert counted.is_near
    assert counted.is_signed
    assert counted.is_exact
    assert counted.is_same
    assert counted.is_below
