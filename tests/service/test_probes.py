"""Probes: measured, kept apart from the job's runs, refused where they ran something else."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from trimtab.wire import Block, Event, Gpu, NodeFacts, Probe, StepBlock

from advisor.pricing.price import OWN_RATE
from advisor.recommend import recommend
from advisor.sizing.other_gpus import SpeedEvidence
from tests.service.uploads import SEGMENT_MS, FakeAgent
from webapp.accounts.models import Token, Workspace
from webapp.advice.models import Recommendation
from webapp.analysis import queue
from webapp.analysis.models import Analysis
from webapp.analysis.tasks import evaluate
from webapp.measurements.models import Measurement
from webapp.measurements.selectors.evidence import (
    evidence_of,
    history_of,
    measurements_of,
)
from webapp.prices.models import Price
from webapp.runs.models import Job, Run

pytestmark = pytest.mark.django_db
T4 = ("g4dn.xlarge", "Tesla T4", 16 * 10**9)
L4 = ("g6.xlarge", "NVIDIA L4", 24 * 10**9)
OTHERS = {
    "g6.xlarge": L4,
    "g5.xlarge": ("g5.xlarge", "NVIDIA A10G", 24 * 10**9),
    "g6e.xlarge": ("g6e.xlarge", "NVIDIA L40S", 48 * 10**9),
}
COMMAND = ["python", "train.py", "--lr", "0.1"]


@dataclass
class Training:
    """One upload of a training whose steps take `step_ms`, with `batch` samples each."""

    agent: FakeAgent
    machine: tuple[str, str, int] = T4
    step_ms: int = 100
    batch: int = 128
    command: tuple[str, ...] = tuple(COMMAND)
    probe: Probe | None = None
    slow_steps: int = 0
    slow_every: int = 0
    """Every so many steps, one takes twice as long."""
    segments: int = 3
    segment_ms: int = SEGMENT_MS
    state: str = "finished"

    def upload(self) -> Run:
        self.send()
        evaluate(str(self.agent.run_id))
        return Run.objects.get(pk=self.agent.run_id)

    def send(self) -> None:
        self.agent.run_id, self.agent.session_id = uuid4(), uuid4()
        instance_type, model, memory = self.machine
        self.agent.instance_type = instance_type
        node = NodeFacts(
            machine_id=f"machine-{uuid4()}",
            provider="aws",
            service="ec2",
            region="us-east-1",
            instance_type=instance_type,
            vcpus=4,
            effective_cpus=4.0,
            memory_bytes=16 * 2**30,
            effective_memory_bytes=16 * 2**30,
            gpus=[Gpu(model, memory)] if model else [],
        )
        self.agent.machine_id = node.machine_id
        self.agent.declare(node=node, command=list(self.command), probe=self.probe)
        for seq in range(self.segments):
            is_last = seq == self.segments - 1
            segment = self.agent.segment(
                seq,
                start_ms=seq * self.segment_ms,
                duration_ms=self.segment_ms,
                resolution_ms=self._tick_ms,
                blocks=[self._block()],
                steps=[self._steps(seq)],
            )
            if is_last:
                end = {"state": self.state, "exit_code": 0, "final_seq": seq}
                segment.events.append(Event(self.segment_ms, "session_end", end))
            assert self.agent.put(segment).status_code == 200

    @property
    def _tick_ms(self) -> int:
        return self.segment_ms // 20

    def _block(self) -> Block:
        ticks = list(range(0, self.segment_ms, self._tick_ms))
        gpu = {
            "gpu0.busy_pct": [90.0] * len(ticks),
            "gpu0.tree_memory_used_bytes": [5 * 2**30] * len(ticks),
        }
        return Block(
            ticks,
            {
                **(gpu if self.machine[1] else {}),
                "tree.rss_bytes": [3 * 2**30] * len(ticks),
                "host.cpu_busy_pct": [25.0] * len(ticks),
                "host.memory_used_bytes": [4 * 2**30] * len(ticks),
            },
        )

    def _steps(self, seq: int) -> StepBlock:
        durations, starts, at = [], [], 0
        while True:
            is_slow = seq == 0 and len(durations) < self.slow_steps
            duration = self.step_ms * (4000 if is_slow else 1000)
            if self.slow_every and len(durations) % self.slow_every == 0:
                duration *= 2
            if at + duration > self.segment_ms * 1000:
                break
            starts.append(at)
            durations.append(duration)
            at += duration
        count = len(durations)
        return StepBlock(0, "train", starts, durations, [0] * count, [self.batch] * count)


def _probe(agent: FakeAgent, **changes: object) -> Training:
    asked = Probe(steps=100)
    return Training(agent, machine=L4, step_ms=50, probe=asked, state="stopped", **changes)  # type: ignore[arg-type]


def test_a_finished_run_and_a_probe_are_measured(agent: FakeAgent) -> None:
    Training(agent, slow_steps=6).upload()
    probe = _probe(agent).upload()
    ran, probed = Measurement.objects.order_by("run__number")
    assert (ran.gpu, ran.gpus, ran.batch, ran.unit) == ("T4", 1, 128, "samples")
    assert ran.throughput == pytest.approx(1280, rel=0.001)
    assert (ran.gpu_memory_bytes, ran.host_memory_bytes) == (5 * 2**30, 3 * 2**30)
    assert (ran.util_pct, ran.pace) == (pytest.approx(90), "gpu")
    assert ran.low <= ran.throughput <= ran.high
    assert (probed.run_id, probed.gpu, probed.steps) == (probe.pk, "L4", 100)
    assert probed.throughput == pytest.approx(2560, rel=0.001)


def test_the_speed_model_gets_the_run_first_and_then_the_probe(agent: FakeAgent) -> None:
    Training(agent).upload()
    _probe(agent).upload()
    job = Job.objects.get()
    present, probed = measurements_of(evidence_of(job))
    assert (present.gpu, present.batch, present.probe_steps) == ("T4", 128, None)
    assert (probed.gpu, probed.batch, probed.probe_steps) == ("L4", 128, 100)
    assert present.workload == probed.workload == str(job.uuid)
    assert probed.throughput / present.throughput == pytest.approx(2, rel=0.001)
    agent.job = "another"
    Training(agent).upload()
    another = Job.objects.get(name="another")
    assert history_of(job.workspace, without=job) == measurements_of(evidence_of(another))
    stranger = Workspace.objects.create(name="Theirs")
    assert history_of(stranger, without=job) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch": 64}, "not comparable: batch 64 instead of 128"),
        ({"command": ("python", "train.py", "--lr", "0.5")}, "--lr 0.5 instead of --lr 0.1"),
        ({"command": ("torchrun", "--nproc-per-node", "1", "train.py", "--lr", "0.1")}, ""),
    ],
)
def test_a_probe_of_something_else_is_kept_and_refused(
    agent: FakeAgent, changes: dict[str, object], reason: str
) -> None:
    Training(agent).upload()
    _probe(agent, **changes).upload()
    probed, _ = evidence_of(Job.objects.get())
    assert reason in probed.refused_because
    assert bool(reason) == bool(probed.refused_because)
    assert len(measurements_of(evidence_of(Job.objects.get()))) == (1 if reason else 2)


def test_fewer_gpus_than_asked_are_refused(agent: FakeAgent) -> None:
    Training(agent).upload()
    asked = _probe(agent)
    asked.probe = Probe(steps=100, gpus=2)
    asked.upload()
    assert evidence_of(Job.objects.get())[0].refused_because == "not comparable: 1 of 2 GPUs"


def test_two_probes_on_one_gpu_are_both_kept(agent: FakeAgent) -> None:
    Training(agent).upload()
    for step_ms in (50, 40):
        probe = _probe(agent)
        probe.step_ms = step_ms
        probe.upload()
    speeds = [speed.throughput for speed in measurements_of(evidence_of(Job.objects.get()))[1:]]
    assert sorted(speeds) == pytest.approx([2560, 3200], rel=0.001)


def test_a_probe_that_contradicts_its_prediction_says_so(agent: FakeAgent) -> None:
    Training(agent).upload()
    probe = _probe(agent)
    probe.step_ms = 5
    probe.upload()
    probed = evidence_of(Job.objects.get())[0]
    assert probed.row.predicted_low < probed.row.predicted_high < 20
    assert "faster than predicted: 20.00 times" in probed.contradicts


def test_a_second_probe_as_fast_as_the_first_contradicts_nothing(agent: FakeAgent) -> None:
    """The steps of one run don't show how much runs differ."""
    Training(agent).upload()
    _probe(agent).upload()
    again = _probe(agent)
    again.step_ms = 51
    again.upload()
    probed = evidence_of(Job.objects.get())[0]
    assert probed.row.predicted_low < 100 / 51 < probed.row.predicted_high
    assert probed.contradicts == ""


def test_a_probe_is_money_but_never_a_level_a_baseline_or_advice(agent: FakeAgent) -> None:
    for _ in range(4):
        last = Training(agent).upload()
    before = [run.summary.verdict for run in Run.objects.order_by("number")]
    cheap = _probe(agent)
    cheap.state = "finished"  # even one whose command ended by itself
    probe = cheap.upload()
    assert probe.cost_usd is not None
    assert probe.summary.verdict is None
    evaluate(str(last.pk))
    after = [run.summary.verdict for run in Run.objects.order_by("number") if not run.is_probe]
    assert after == before
    assert not Recommendation.objects.filter(run=probe).exists()
    following = Training(agent).upload()
    assert following.summary.verdict.status == "ok"
    assert following.summary.verdict.baseline_runs == 4


def test_a_probe_renews_the_advice_of_the_newest_finished_run(agent: FakeAgent) -> None:
    run = Training(agent).upload()
    wanted = Analysis.objects.get(run=run).wanted
    _probe(agent).upload()
    assert Analysis.objects.get(run=run).wanted > wanted


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("step_ms", "pays"), [(20, True), (110, False)])
def test_a_probe_turns_measure_first_into_a_switch_or_into_staying(
    agent: FakeAgent, step_ms: int, pays: bool
) -> None:
    """Five times as fast pays on any of them; slower doesn't, and isn't measured again."""
    Training(agent).upload()
    Run.objects.update(cost_usd=Decimal(900))
    run = Training(agent).upload()
    first = Recommendation.objects.get(kind="probe")
    assert (first.state, first.rung) == (Recommendation.ACTIVE, "prior")
    assert "trimtab probe --steps 200" in " ".join(first.how_to_apply)
    measured = first.change["probe"]
    assert 1 <= len(measured) <= 2
    for machine in measured:
        probe = _probe(agent)
        probe.machine, probe.step_ms = OTHERS[machine], step_ms
        probe.upload()
    evaluate(str(run.pk))
    active = Recommendation.objects.filter(state=Recommendation.ACTIVE)
    switch = active.filter(kind="change_instance_type").first()
    assert (switch is not None) is pays
    if switch is not None:
        assert (switch.rung, switch.run_id) == ("measured", run.pk)
        assert switch.change["instance_type"] in measured
        assert 0.05 < switch.saving_usd / run.cost_usd < 0.9
    for again in active.filter(kind="probe"):
        assert set(again.change["probe"]).isdisjoint(measured)


def test_too_few_steps_and_runs_that_failed_are_no_measurement(agent: FakeAgent) -> None:
    Training(agent, step_ms=4000, segments=2).upload()
    Training(agent, state="failed").upload()
    assert not Measurement.objects.exists()


def test_an_older_agents_declaration_is_an_ordinary_run(agent: FakeAgent) -> None:
    assert Training(agent).upload().is_probe is False


def _ask(path: str, workspace: Workspace, *scopes: str):  # type: ignore[no-untyped-def]
    token = Token.make(workspace, "script", list(scopes))[1]
    return Client().get(path, headers={"Authorization": f"Bearer {token}"})


def test_the_api_gives_a_jobs_measurements_and_nobody_elses(agent: FakeAgent) -> None:
    Training(agent).upload()
    _probe(agent, batch=64).upload()
    job = Job.objects.get()
    path = f"/api/v1/jobs/{job.uuid}/measurements"
    probed, ran = _ask(path, job.workspace, "read").json()["measurements"]
    assert (probed["is_probe"], probed["gpu"], probed["ratio"]) == (True, "L4", None)
    assert probed["refused_because"] == "not comparable: batch 64 instead of 128"
    assert (ran["is_probe"], ran["refused_because"], ran["ratio"]["value"]) == (False, "", 1)
    assert ran["throughput"] == pytest.approx(1280, rel=0.001)
    assert _ask(path, Workspace.objects.create(name="Theirs"), "read").status_code == 404
    assert _ask(path, job.workspace, "ingest").status_code == 403


def test_an_agent_may_ask_for_the_list_price_before_it_spends(workspace: Workspace) -> None:
    """The price that the workspace pays is for those who may read."""
    path = "/api/v1/price?region=us-east-1&provider=aws&service=ec2&instance_type=g9.unheard"
    assert _ask(path, workspace, "ingest").json()["usd_per_hour"] is None
    key = {"provider": "aws", "service": "ec2", "region": "us-east-1"}
    made = {"instance_type": "g9.unheard", "valid_from": timezone.now(), **key}
    Price.objects.create(workspace=None, usd_per_hour="2", **made)
    Price.objects.create(workspace=workspace, usd_per_hour="1.25", precedence=OWN_RATE, **made)
    assert _ask(path, workspace, "ingest").json()["usd_per_hour"] == "2.000000000"
    assert _ask(path, workspace, "read").json()["usd_per_hour"] == "1.250000000"
    stranger = Workspace.objects.create(name="Theirs")
    assert _ask(path, stranger, "read").json()["usd_per_hour"] == "2.000000000"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[SpeedEvidence]:
    """Return the evidence of each recommendation."""
    seen = []

    def spy(run, market, evidence, preset):
        seen.append(evidence)
        return recommend(run, market, evidence, preset)

    monkeypatch.setattr("webapp.advice.advising.recommend", spy)
    return seen


def test_a_machine_without_gpus_that_was_probed_is_evidence_by_its_name(agent, told):
    run = Training(agent, machine=("m5.xlarge", "", 0)).upload()
    probed = Training(agent, machine=("m7i.xlarge", "", 0), probe=Probe(steps=20), step_ms=400)
    probed.upload()
    evaluate(str(run.pk))
    assert told[0].machines == {}
    [(name, ratio)] = told[-1].machines.items()
    assert name == "m7i.xlarge"
    assert ratio.mid == pytest.approx(0.25, rel=0.01)
    assert 0.2 < ratio.low < ratio.mid < ratio.high < 0.3
    probed.step_ms = 200
    probed.upload()
    evaluate(str(run.pk))
    both = told[-1].machines[name]
    assert both.low == pytest.approx(ratio.low, rel=0.01)
    assert both.mid == pytest.approx(0.375, rel=0.01)
    assert both.high > 0.5


def test_how_much_steps_vary_is_measured_while_they_are_kept_one_by_one(agent, monkeypatch):
    speeds = []

    def spy(run, market, evidence, preset):
        speeds.append(run.speed)
        return recommend(run, market, evidence, preset)

    monkeypatch.setattr("webapp.advice.advising.recommend", spy)
    Training(agent).upload()
    assert speeds[0].step_variation == pytest.approx(0, abs=1e-6)
    Training(agent, slow_every=2).upload()
    assert speeds[1].step_variation == pytest.approx(0.333, abs=0.02)


def test_the_first_analysis_of_a_run_knows_its_own_measurement(agent, told):
    """The first analysis does as every later one does."""
    run = Training(agent).upload()
    with transaction.atomic():
        queue.requeue_run(run)
    evaluate(str(run.pk))
    first, second = told
    assert first.measured == second.measured
    assert len(first.measured) == 1
