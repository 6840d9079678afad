"""The steps that a training script tells by `trimtab.step` and its siblings, through the real
command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trimtab as sdk
from trimtab import ring
from trimtab.loops import TrainingLoops
from trimtab.timeline import SessionTimeline
from trimtab.wire import LIMITS

WAITS_AND_STEPS = """
import time, trimtab
def loader():
    for i in range(6):
        time.sleep(0.03)
        yield [i] * 8
trimtab.epoch(1)
began = time.monotonic_ns()
for batch in trimtab.wrap(loader()):
    time.sleep(0.02)
    trimtab.step(samples=len(batch))
print((time.monotonic_ns() - began) // 1000)
trimtab.log(loss=0.25, step=6)
trimtab.log(loss=float("nan"))
"""


def _run(trimtab, environment, script: str):
    done = trimtab(environment, "run", "--", sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    return done


def test_steps_carry_duration_data_wait_and_samples(trimtab, online, service):
    whole_us = int(_run(trimtab, online, WAITS_AND_STEPS).stdout)
    (segment,) = service.segments
    assert segment.refused == []
    (steps,) = segment.steps
    assert (steps.rank, steps.phase, steps.samples) == (0, "train", [8] * 6)
    # The script's own clock and sleeps bound them on a machine of any speed.
    assert whole_us - 50_000 <= sum(steps.duration_us) <= whole_us
    for duration, wait in zip(steps.duration_us, steps.data_wait_us, strict=True):
        assert 30_000 <= wait <= duration - 20_000
    ends = [s + d for s, d in zip(steps.start_us, steps.duration_us, strict=True)]
    assert all(0 < end <= segment.duration_ms * 1000 for end in ends)
    assert all(b >= a for a, b in zip(ends, steps.start_us[1:], strict=False))


def test_epochs_and_metrics_are_events(trimtab, online, service):
    _run(trimtab, online, WAITS_AND_STEPS)
    assert service.events("epoch")[0].data == {"rank": 0, "number": 1}
    first, second = (event.data for event in service.events("metric"))
    assert first == {"rank": 0, "name": "loss", "value": 0.25, "step": 6}
    assert second["step"] is None
    assert second["value"] != second["value"]


def test_a_pause_is_no_part_of_the_step_around_it(trimtab, online, service):
    script = """
import time, trimtab
with trimtab.phase("train"):
    for i in range(3):
        time.sleep(0.02)
        if i == 1:
            with trimtab.phase("evaluate"):
                time.sleep(0.2)
                trimtab.step(samples=100)
        trimtab.step(samples=1)
"""
    _run(trimtab, online, script)
    by_phase = {steps.phase: steps for steps in service.segments[0].steps}
    assert by_phase["evaluate"].samples == [100]
    assert by_phase["evaluate"].duration_us[0] >= 200_000
    assert len(by_phase["train"].duration_us) == 3
    assert max(by_phase["train"].duration_us) < 100_000
    kinds = [
        (e.kind, e.data["phase"]) for s in service.segments for e in s.events if "phase" in e.data
    ]
    assert kinds == [
        ("phase_begin", "train"),
        ("phase_begin", "evaluate"),
        ("phase_end", "evaluate"),
        ("phase_end", "train"),
    ]


def test_a_first_step_without_a_known_beginning_keeps_its_samples_and_invents_no_duration(
    trimtab, online, service
):
    _run(trimtab, online, "import trimtab; trimtab.step(samples=7); trimtab.step(samples=7)")
    assert service.events("step_untimed")[0].data == {"rank": 0, "phase": "train", "samples": 7}
    (steps,) = service.segments[0].steps
    assert len(steps.duration_us) == 1
    assert steps.data_wait_us == [None]


def test_many_steps_are_summed_up_by_second(trimtab, online, service):
    script = """
import time, trimtab
with trimtab.phase("train"):
    for i in range(800):
        time.sleep(0.05 if i == 400 else 0.0005)
        trimtab.step(samples=2)
"""
    _run(trimtab, online, script)
    (segment,) = service.segments
    assert segment.steps == []
    assert sum(s.count for s in segment.step_summaries) == 800
    assert sum(s.samples for s in segment.step_summaries) == 1600
    slowest = max(segment.step_summaries, key=lambda s: s.duration_max_us)
    assert slowest.slowest_us[0] == slowest.duration_max_us >= 50_000
    for summary in segment.step_summaries:
        assert sum(summary.histogram.values()) == summary.count
        assert len(summary.slowest_us) <= 20
        assert summary.duration_min_us * summary.count <= summary.duration_sum_us
        assert summary.data_wait_sum_us is None


def test_steps_faster_than_the_ring_are_counted_as_lost(tmp_path):
    writer = ring.RingWriter(str(tmp_path), rank=3)
    timeline = SessionTimeline()
    loops = TrainingLoops(tmp_path, timeline)
    told = ring.CAPACITY + 5_000
    for _ in range(told):
        writer.write(ring.STEP, 1, timeline.started_mono_ns + 10**9, 1_000, -1, 1)
    sealed = loops.seal(0)
    (lost,) = [event.data for event in sealed.events if event.kind == "steps_lost"]
    assert lost["rank"] == 3
    assert sum(summary.count for summary in sealed.summaries) + lost["count"] == told


def test_two_ranks_and_a_fork_keep_their_own_steps(trimtab, online, service):
    script = """
import os, trimtab
with trimtab.phase("train"):
    trimtab.step(samples=1)
    if os.fork() == 0:
        os.environ["RANK"] = "1"
        with trimtab.phase("train"):
            trimtab.step(samples=50)
        os._exit(0)
    os.wait()
    trimtab.step(samples=1)
"""
    _run(trimtab, online, script)
    samples = {steps.rank: steps.samples for steps in service.segments[0].steps}
    assert samples == {0: [1, 1], 1: [50]}


def test_a_script_that_replaces_itself_keeps_the_steps_of_both_lives(trimtab, online, service):
    """A script does so to set a variable before a library is loaded."""
    script = """
import os, sys, trimtab
with trimtab.phase("train"):
    for number in range(10):
        trimtab.step(samples=int(os.environ.get("LIFE", 1)))
trimtab.sdk.attached.recorder.flush()
if "LIFE" not in os.environ:
    os.environ["LIFE"] = "2"
    os.execv(sys.executable, [sys.executable, "-c", os.environ["SCRIPT"]])
"""
    _run(trimtab, online | {"SCRIPT": script}, script)
    told = [n for s in service.segments for steps in s.steps for n in steps.samples]
    assert sorted(told) == [1] * 10 + [2] * 10


def test_communication_is_a_part_of_its_step(trimtab, online, service):
    script = """
import time, trimtab
with trimtab.phase("train"):
    for number in range(5):
        time.sleep(0.02)
        with trimtab.phase("communication"):
            time.sleep(0.03)
        trimtab.step()
"""
    _run(trimtab, online, script)
    (steps,) = service.segments[0].steps
    assert (steps.phase, len(steps.duration_us)) == ("train", 5)
    assert min(steps.duration_us) >= 50_000
    edges = [
        (event.time_ms, event.kind)
        for event in sorted(service.segments[0].events, key=lambda each: each.time_ms)
        if event.data.get("phase") == "communication"
    ]
    assert [kind for _, kind in edges] == ["phase_begin", "phase_end"] * 5
    spent = [ended - began for (began, _), (ended, _) in zip(edges[::2], edges[1::2], strict=True)]
    assert min(spent) >= 29


def test_too_many_phases_are_counted_and_left_out_as_a_whole(trimtab, online, service):
    """A segment with more events than the service takes would be lost with all its samples."""
    script = """
import trimtab
with trimtab.phase("evaluate"):
    for number in range(6000):
        with trimtab.phase("communication"): pass
"""
    _run(trimtab, online, script)
    assert max(len(segment.events) for segment in service.segments) <= LIMITS.events
    open_phases: list[str] = []
    for segment in service.segments:
        for event in segment.events:
            if event.kind == "phase_begin":
                open_phases.append(event.data["phase"])
            elif event.kind == "phase_end":
                assert open_phases.pop() == event.data["phase"]
    assert open_phases == []
    lost = sum(event.data["count"] for event in service.events("events_lost"))
    told = len(service.events("phase_begin")) + len(service.events("phase_end"))
    assert lost + told == 2 * 6001


def test_outside_of_a_run_the_calls_do_nothing():
    assert "TRIMTAB_RUN_DIR" not in os.environ
    loader = [1, 2, 3]
    assert sdk.wrap(loader) is loader
    sdk.step(samples="nonsense")
    sdk.log(loss="nonsense")
    sdk.epoch("nonsense")
    assert not sdk.run(anything=object())
    with sdk.phase("nonsense"):
        pass


def test_nonsense_never_raises_and_is_named_once(trimtab, online, service):
    script = """
import trimtab
for i in range(2):
    trimtab.step(samples="many")
    trimtab.step(samples=2**70)
    trimtab.step(samples=-5)
    trimtab.log(loss="low")
    with trimtab.phase("evaluation"):
        pass
"""
    done = _run(trimtab, online, script)
    assert done.stderr.count("evaluation") == 1
    assert done.stderr.count("samples='many'") == 1
    (segment,) = service.segments
    assert segment.refused == []
    assert segment.steps[0].samples == [None] * 5


@pytest.mark.parametrize("folder", ["/nowhere", "/proc"])
def test_a_run_folder_that_can_not_be_written_costs_the_steps_only(trimtab, environment, folder):
    script = "import trimtab; trimtab.step(); print(list(trimtab.wrap([1])))"
    done = trimtab(
        environment, "run", "--", "env", f"TRIMTAB_RUN_DIR={folder}", sys.executable, "-c", script
    )
    assert (done.stdout, done.stderr) == ("[1]\n", "")


def test_a_wrapped_loader_keeps_its_length_and_attributes(trimtab, online):
    script = """
import trimtab
class Loader(list):
    batch_size = 4
loader = Loader([1, 2])
wrapped = trimtab.wrap(loader)
assert wrapped is not loader
assert (len(wrapped), wrapped.batch_size, bool(wrapped), list(wrapped)) == (2, 4, True, [1, 2])
assert not trimtab.wrap(Loader())
assert list(wrapped) == [1, 2]
"""
    _run(trimtab, online, script)


def test_a_foreign_file_in_the_run_folder_is_ignored(tmp_path: Path):
    (tmp_path / "1.ring").write_bytes(b"x" * 100)
    (tmp_path / "2.ring").write_bytes(b"")
    (tmp_path / "3.ring").write_bytes(ring.MAGIC + b"\0" * 100)
    sealed = TrainingLoops(tmp_path, SessionTimeline()).seal(0)
    assert (sealed.steps, sealed.summaries, sealed.events) == ([], [], [])


def test_a_script_knows_its_run_and_declares_its_parameters(trimtab, online, service):
    script = """
import trimtab
run = trimtab.run(lr=0.1, model="vit", api_key="hunter2", sizes=[1, 2])
assert run and trimtab.run() == run
print(run.id, run.url)
"""
    done = _run(trimtab, online, script)
    declared = service.declarations[-1]
    assert declared.parameters == {
        "lr": 0.1,
        "model": "vit",
        "api_key": "[redacted]",
        "sizes": "[1, 2]",
    }
    assert done.stdout == f"{declared.run_id} {service.url}/runs/{declared.run_id}\n"


def test_parameters_that_can_not_be_written_are_named_and_cost_nothing(trimtab, online, service):
    script = "import trimtab; print(bool(trimtab.run(model=object())))"
    done = _run(trimtab, online, script)
    assert done.stdout == "False\n"
    assert "run() was not recorded" in done.stderr
