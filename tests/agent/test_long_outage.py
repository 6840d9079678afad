"""Two hours without a service that answers well, and fifty agents killed in them."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from uuid import UUID

import pytest
from trimtab.wire import FIRST_PIECE, Segment, decode_segment

from tests.agent.conftest import trimtab_command
from tests.agent.service import SEGMENT_PATH, Reply, Request

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

LANES = 20
OUTAGE_SECONDS = 360.0
KILLS = 50
SPOOL_MIB = 2
NARROW_BYTES = 1_800
UNSEALED_SECONDS = 10.0
LATE_SECONDS = 2.0
"""The seconds by which a busy machine may seal too late."""
START_SECONDS = 10.0
"""Twenty commands begin at once."""
STEP_SECONDS = 0.05
CONFLICT = Reply(status=409, problem="segment-conflict")

TRAINING = f"""
import sys, time, trimtab
until = time.time() + float(sys.argv[1])
number = 0
with open(sys.argv[2], "w", buffering=1) as told:
    while time.time() < until:
        time.sleep({STEP_SECONDS})
        number += 1
        trimtab.step(samples=number)
        print(number, file=told)
    print("trained", number, file=told)
sys.exit(3)
"""
"""Each step bears its number as its count of samples, so that every single one is known again."""
SHELL = 'trap "" PIPE; "$@"; code=$?; echo "exit $code" >> "{told}"; exit $code'


class Depot:
    """Keeps what was taken as the real service does, and is struck by all weathers before that.

    Half of the declarations get through: an agent that wasn't allowed one sends nothing else.
    """

    def __init__(self) -> None:
        self.is_out = True
        self.taken: dict[str, bytes] = {}
        self.seen: Counter[str] = Counter()
        self._of_session: dict[UUID, list[Segment]] = defaultdict(list)
        self._chance = random.Random(23)
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Reply:
        with self._lock:
            if not self.is_out:
                return self._take(request)
            if not SEGMENT_PATH.match(request.path) and self._chance.random() < 0.5:
                return Reply()
            weather = self._chance.choice(["500", "503", "429", "401", "413", "hang", "lost"])
            if weather == "413" and len(request.body) <= NARROW_BYTES:
                weather = "500"
            self.seen[weather] += 1
            if weather in ("hang", "lost"):
                return self._silence(request, is_kept=weather == "lost")
            headers = {"Retry-After": "2"} if weather == "429" else {}
            return Reply(status=int(weather), headers=headers)

    def _silence(self, request: Request, is_kept: bool) -> Reply:
        """Be silent for longer than any agent waits; perhaps what was sent has been taken all the
        same.
        """
        if is_kept:
            self._take(request)
        return Reply(status=503, delay_seconds=15)

    def _take(self, request: Request) -> Reply:
        if not SEGMENT_PATH.match(request.path):
            return Reply()
        known = self.taken.get(request.path)
        if known is not None:
            return Reply() if known == request.body else CONFLICT
        segment = decode_segment(request.body)
        if self._is_doubled(segment):
            return CONFLICT
        self._of_session[segment.clock.session_id].append(segment)
        self.taken[request.path] = request.body
        return Reply()

    def _is_doubled(self, segment: Segment) -> bool:
        """Return whether it is doubled by the service's own rule: the seconds of a session are
        taken once, whole or in pieces.
        """
        return any(
            max(segment.seq, other.seq) >= FIRST_PIECE
            and other.start_ms < segment.start_ms + segment.duration_ms
            and segment.start_ms < other.start_ms + other.duration_ms
            for other in self._of_session[segment.clock.session_id]
        )

    def segments(self) -> Iterator[Segment]:
        return chain.from_iterable(self._of_session.values())


@dataclass
class Life:
    """One agent, from its start to its end or its kill, and the training that it watched."""

    job: str
    told: Path
    agent: subprocess.Popen[bytes]
    began_ns: int
    killed_ns: int = 0

    def kill(self) -> None:
        self.agent.kill()
        self.killed_ns = time.time_ns()
        self.agent.wait()


class Host:
    """Many runs on one machine, all with one spool."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._environment, self._folder = environment, folder
        self.lives: list[Life] = []

    def begin(self, seconds: float) -> Life:
        job = f"life-{len(self.lives)}"
        told = self._folder / job
        training = (sys.executable, "-c", TRAINING, str(seconds), str(told))
        shell = ("bash", "-c", SHELL.format(told=told), "training", *training)
        agent = subprocess.Popen(
            trimtab_command("run", "--job", job, "--", *shell),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.lives.append(Life(job, told, agent, time.time_ns()))
        return self.lives[-1]


def _live_through(host: Host) -> None:
    """Kill fifty times at random moments, each in a random lane, where the next run begins at
    once.
    """
    chance = random.Random(4)
    moments = sorted(chance.uniform(3, OUTAGE_SECONDS - 3) for _ in range(KILLS))
    began = time.monotonic()
    lanes = [host.begin(OUTAGE_SECONDS) for _ in range(LANES)]
    for moment in moments:
        time.sleep(max(0.0, moment - (time.monotonic() - began)))
        lane = chance.randrange(LANES)
        lanes[lane].kill()
        lanes[lane] = host.begin(OUTAGE_SECONDS - moment)
    for life in lanes:
        life.agent.wait(OUTAGE_SECONDS)


def test_two_hours_of_outage_and_fifty_kills_lose_the_unsealed_seconds_and_nothing_else(
    trimtab, online, service, tmp_path
):
    """Two hours are simulated by 20 runs side by side, six minutes each.

    That is the amount of data (720 segments at the default interval) that one agent seals in a
    two-hour outage, in one spool that is far too small for it. The pauses between attempts are as
    they are: they stop growing at one minute, so that six minutes show what two hours would. All
    the rest is real: the command, its spool, the signals, the connections.
    """
    depot = Depot()
    service.answer = depot.answer
    host = Host(online | {"TRIMTAB_SPOOL_MIB": str(SPOOL_MIB)}, tmp_path)
    _live_through(host)
    depot.is_out = False
    host.begin(1.0).agent.wait(60)
    for _ in range(3):
        done = trimtab(online, "sync")
    assert done.returncode == 0, done.stdout
    assert set(depot.seen) == {"500", "503", "429", "401", "413", "hang", "lost"}

    by_job: dict[str, list[Segment]] = defaultdict(list)
    for segment in sorted(depot.segments(), key=lambda s: s.start_ms):
        by_job[segment.job].append(segment)
    assert sum(life.killed_ns > 0 for life in host.lives) == KILLS
    for life in host.lives:
        trained = _trained(life)
        segments = by_job[life.job]
        _check_time(life, segments)
        _check_steps(life, segments, trained)
    everything = [segment for segments in by_job.values() for segment in segments]
    assert sum(s.duration_ms for s in everything) / 3_600_000 > 1.8, "hours measured"
    assert any(s.seq >= FIRST_PIECE for s in everything), "the narrow way was met"
    assert any(_gap(s) for s in everything), "the spool was full"


def _trained(life: Life) -> int:
    """Return its steps, once the training has ended by itself, whole and with its own exit code."""
    until = time.monotonic() + 60
    while "exit" not in life.told.read_text() and time.monotonic() < until:
        time.sleep(0.2)
    *steps, trained, code = life.told.read_text().splitlines()
    assert [int(number) for number in steps] == list(range(1, len(steps) + 1)), life.job
    assert (trained, code) == (f"trained {len(steps)}", "exit 3"), life.job
    if not life.killed_ns:
        assert life.agent.returncode == 3
    return len(steps)


def _check_time(life: Life, segments: list[Segment]) -> None:
    """Check that each second is there once, from the start to at most 10 s before the kill."""
    if not segments:
        assert life.killed_ns - life.began_ns < (UNSEALED_SECONDS + START_SECONDS) * 1e9, life.job
        return
    assert len({s.clock.session_id for s in segments}) == 1
    numbers = sorted(s.seq for s in segments if s.seq < FIRST_PIECE)
    assert numbers == list(range(len(numbers))), life.job
    until_ms = 0
    for segment in segments:
        hole_ms = segment.start_ms - until_ms
        assert 0 <= hole_ms <= 1 + _late_ms(segment), f"{life.job}: {hole_ms} ms at {until_ms} ms"
        until_ms = segment.start_ms + segment.duration_ms
    clock = segments[0].clock
    assert clock.started_at_ns - life.began_ns < START_SECONDS * 1e9
    if life.killed_ns:
        lost_seconds = (life.killed_ns - clock.started_at_ns) / 1e9 - until_ms / 1000
        assert lost_seconds < UNSEALED_SECONDS + LATE_SECONDS, f"{life.job} lost {lost_seconds} s"
    ticks = [s.start_ms + t for s in segments for block in s.blocks for t in block.times_ms]
    assert len(ticks) == len(set(ticks)), f"{life.job}: a moment was sampled twice"


def _check_steps(life: Life, segments: list[Segment], trained: int) -> None:
    """Check that every step is there once, but for those after the last seal and those in a told
    gap.
    """
    numbers = [n for s in segments for block in s.steps for n in block.samples]
    numbers += [e.data["samples"] for s in segments for e in s.events if e.kind == "step_untimed"]
    assert len(numbers) == len(set(numbers)), f"{life.job}: a step was counted twice"
    assert set(numbers) <= set(range(1, trained + 1))
    gaps_ms = [s.duration_ms for s in segments if _gap(s)]
    empty = [s for s in segments if not s.blocks and not _gap(s)]
    assert all(s.duration_ms < 1000 for s in empty), f"{life.job}: silently empty"
    missing = (max(numbers) if life.killed_ns and numbers else trained) - len(numbers)
    if life.killed_ns and not numbers:
        return
    in_gaps = sum(gap_ms / 1000 / STEP_SECONDS + 10 for gap_ms in gaps_ms)
    assert missing <= in_gaps, f"{life.job}: {missing} steps vanished without a gap"


def _late_ms(segment: Segment) -> int:
    """Return the ms in which the agent told that it couldn't measure in time: the machine was too
    busy.
    """
    gaps = [e.data for e in segment.events if e.kind == "gap" and e.data["reason"] == "late"]
    return sum(gap["to_ms"] - gap["from_ms"] for gap in gaps)


def _gap(segment: Segment) -> bool:
    return any(e.kind == "gap" and e.data["reason"] == "spool_full" for e in segment.events)
