"""`trimtab probe` with real trainings: measured, stopped, limited, refused."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.throughput import COMPARED_STEPS, steps_per_second, warmup_steps

from tests.agent.service import Reply

ENDLESS = """
import time, trimtab
def loader():
    while True:
        if {wait}:
            time.sleep({wait})
        yield [0] * 8
for batch in trimtab.wrap(loader()):
    time.sleep({work})
    trimtab.step(samples=len(batch))
"""
TRAINING = ENDLESS.format(wait=0, work=0.006)

BEGINS_A_CHILD = """
import pathlib, subprocess, sys
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", stubborn])
pathlib.Path({place!r}).write_text(str(child.pid))
"""


def _lives(pid: int) -> bool:
    """Return whether it lives: a container without an init keeps ended orphans as zombies."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _probe(trimtab, environment, script: str, *options: str):
    return trimtab(environment, "probe", *options, "--", sys.executable, "-c", script)


def test_it_measures_so_many_steps_and_stops_the_training(trimtab, online, service):
    done = _probe(trimtab, online, TRAINING, "--steps", "60")
    assert done.returncode == 0, done.stderr
    declared = service.declarations[-1].probe
    assert (declared.steps, declared.warmup_steps, declared.gpus) == (60, None, None)
    ended = service.events("session_end")[0].data
    assert ended["state"] == "stopped"
    assert ended["warmup_steps"] >= COMPARED_STEPS
    steps = [us for s in service.segments for block in s.steps for us in block.duration_us]
    assert len(steps) >= 60 + ended["warmup_steps"]
    measured = steps[ended["warmup_steps"] : ended["warmup_steps"] + 60]
    rate = 1e6 / statistics.fmean(measured)
    said = done.stderr.split(" steps/s")[0].split()[-4:]
    assert float(said[0]) == pytest.approx(rate, rel=0.01)
    assert float(said[1].strip("(")) <= rate * 1.01
    assert "8 samples a step" in done.stderr
    assert "the CPU set the pace" in done.stderr
    assert f"{service.url}/runs/{service.declarations[0].run_id}" in done.stderr


def test_a_loader_that_sets_the_pace_is_named(trimtab, online):
    done = _probe(trimtab, online, ENDLESS.format(wait=0.004, work=0.001), "--steps", "20")
    assert "the data loader set the pace" in done.stderr


def test_its_children_are_gone_even_if_they_ignore_the_signal(trimtab, environment, tmp_path):
    """A process that the probe didn't start lives on."""
    place = tmp_path / "child"
    script = BEGINS_A_CHILD.format(place=str(place)) + TRAINING
    neighbour = psutil.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    done = _probe(trimtab, environment, script, "--steps", "20")
    assert done.returncode == 0, done.stderr
    assert not _lives(int(place.read_text()))
    assert neighbour.is_running()
    neighbour.kill()
    neighbour.wait()


def test_without_visible_steps_it_ends_at_the_time_limit_and_says_how_to_mark_them(
    trimtab, online, service
):
    began = time.monotonic()
    done = _probe(trimtab, online, "import time; time.sleep(60)", "--max-seconds", "1.5")
    assert time.monotonic() - began < 20
    assert done.returncode == 3
    assert "no training step was seen before the time limit" in done.stderr
    assert "trimtab.step(" in done.stderr
    assert service.events("session_end")[0].data["state"] == "stopped"


def test_a_training_that_ends_too_early_is_not_measured(trimtab, online, service):
    script = "import time, trimtab\nfor i in range(12):\n    time.sleep(0.01)\n    trimtab.step()"
    done = _probe(trimtab, online, script, "--steps", "50")
    assert done.returncode == 3
    assert "11 steps were seen when the command ended" in done.stderr
    assert service.events("session_end")[0].data["state"] == "finished"


def test_a_command_that_fails_by_itself_has_its_own_exit_code(trimtab, environment):
    done = _probe(trimtab, environment, "import sys; sys.exit(9)")
    assert done.returncode == 4
    assert "exit code 9" in done.stderr
    assert trimtab(environment, "probe", "--", "no-such-command").returncode == 127


def test_the_most_that_it_can_cost_is_said_before_the_command_begins(trimtab, environment):
    options = ("--steps", "10", "--warmup", "0", "--max-seconds", "350", "--usd-per-hour", "3.6")
    done = _probe(trimtab, environment, "print('began', file=__import__('sys').stderr)", *options)
    said, began = done.stderr.index("at most $0.3600"), done.stderr.index("began")
    assert said < began
    assert "360 s" in done.stderr


def test_without_a_price_it_says_so_and_refuses_a_limit_in_dollars(trimtab, environment):
    done = _probe(trimtab, environment, "pass")
    assert "at most 910 s; no price is known" in done.stderr
    done = _probe(trimtab, environment, "print('began')", "--max-usd", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--usd-per-hour" in done.stderr


def test_a_limit_in_dollars_shortens_the_time(trimtab, environment):
    options = ("--max-usd", "0.01", "--usd-per-hour", "1.8")
    done = _probe(trimtab, environment, "pass", *options)
    assert "at most 20 s and costs at most $0.0100" in done.stderr
    done = _probe(trimtab, environment, "print('began')", "--max-usd", "0.001", *options[2:])
    assert (done.returncode, done.stdout) == (2, "")


def test_the_service_gives_the_price_of_the_machine(trimtab, online, service):
    service.answer = lambda request: Reply(
        document={"usd_per_hour": "7.2"}
        if "/price?instance_type=g6.xlarge&" in request.path
        else None
    )
    machine = ("--instance-type", "g6.xlarge", "--region", "eu-west-1", "--max-seconds", "490")
    done = _probe(trimtab, online, "pass", *machine)
    assert "costs at most $1.00, at $7.2 an hour" in done.stderr
    asked = next(r.path for r in service.requests if "/price?" in r.path)
    assert "region=eu-west-1" in asked


def test_it_can_be_limited_to_some_gpus(trimtab, online, service):
    script = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    given_two = online | {"CUDA_VISIBLE_DEVICES": "2,5"}
    assert _probe(trimtab, given_two, script, "--gpus", "1").stdout == "2\n"
    assert service.declarations[-1].probe.gpus == 1
    done = _probe(trimtab, given_two, script, "--gpus", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert "2 GPUs" in done.stderr


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RANK": "0", "WORLD_SIZE": "4"}, "in front of the launcher"),
        ({"TRIMTAB_DISABLE": "1"}, "TRIMTAB_DISABLE"),
        ({"TRIMTAB_RUN_DIR": "."}, "by itself"),
    ],
)
def test_it_starts_nothing_where_it_can_not_measure(trimtab, environment, variables, words):
    done = _probe(trimtab, environment | variables, "print('began')")
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_each_probe_is_a_run_of_its_own_even_within_one_slurm_job(trimtab, online, service):
    within = online | {"SLURM_JOB_ID": "77"}
    for _ in range(2):
        _probe(trimtab, within, "pass")
    assert len({declared.run_id for declared in service.declarations}) == 2


def test_a_result_file_has_the_run(trimtab, online, tmp_path: Path):
    place = tmp_path / "result.json"
    _probe(trimtab, online, "pass", "--result-file", str(place))
    assert json.loads(place.read_text())["exit_code"] == 0


# The figures

seconds = st.floats(0.001, 10)


@given(seconds, st.integers(10, 300))
def test_equal_steps_have_no_spread(each, count):
    rate = steps_per_second([each] * count)
    assert rate.low == pytest.approx(1 / each) == rate.high


@given(st.lists(seconds, min_size=10, max_size=80), st.floats(0.01, 100))
def test_the_unit_of_time_changes_nothing_else(steps, factor):
    rate, scaled = steps_per_second(steps), steps_per_second([s * factor for s in steps])
    for name in ("low", "value", "high"):
        assert getattr(scaled, name) * factor == pytest.approx(getattr(rate, name))
    assert rate.low <= len(steps) / sum(steps) * (1 + 1e-9)
    assert rate.high >= len(steps) / sum(steps) * (1 - 1e-9)


@given(st.integers(0, 15), seconds)
def test_slow_first_steps_are_warm_up_and_later_steps_decide_nothing(slow, each):
    steps = [each * 5] * slow + [each] * 200
    warmup = warmup_steps(steps, at_most=200)
    assert warmup is not None
    assert warmup >= slow
    assert warmup_steps([*steps, each * 9, each / 9], at_most=200) == warmup


def test_a_loop_without_a_level_ends_its_warm_up_at_the_most():
    falling = [1.5**-at for at in range(100)]
    assert warmup_steps(falling, at_most=40) == 40
    assert warmup_steps(falling[:39], at_most=40) is None
