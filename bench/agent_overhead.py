"""The agent's overhead compared with other monitors: CPU, memory, bytes per sample, late ticks.

    python -m bench.agent_overhead                       ten minutes, prints the figures
    python -m bench.agent_overhead --minutes 30 --check  exits with 1 if a promise is broken
    python -m bench.agent_overhead --no-peers            the agent only
    python -m bench.agent_overhead --hard-drivers        also 16 GPUs, and a slow driver
    python -m bench.agent_overhead --record 5            records bench/data/busy_trace.json.gz again

All monitors run at once, on the same busy machine and with the same interval, so that their ratios
hold on any machine. The agent measures a training-like load (`bench/busy_training.py`), a second
and a third agent also see one and eight GPUs of a scripted driver that takes the time of a real
one, others measure a training with many data loaders, or sample ten times a second; all upload
over HTTPS and trust the system's authorities, agents by its folder of them, as they do where
there is one.
MLflow's system metrics monitor sends to the same server; W&B writes offline; node_exporter is
scraped. Each peer gets its own environment; TRIMTAB_PEERS names a folder to keep them. The figures
count a monitor's processes from the end of their start to the end of the run.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psutil
from trimtab.wire import Block, Segment, SessionClock, decode_segment, encode_segment

from bench import overhead_peers as peers
from bench.figures import note
from bench.overhead_machine import RestedMemory
from bench.overhead_peers import RunningMonitor
from bench.overhead_server import SenderUploads, TakingServer

HERE = Path(__file__).resolve().parent
TRACE = HERE / "data" / "busy_trace.json.gz"
START_SECONDS = 15.0
SAMPLE_SECONDS = 1.0
MEMORY_EVERY = 60
LATE_MS = 100
HEADER_BYTES = 450
"""The overhead of one upload: request line, headers and token are 330, TLS records some more."""
AGENT, GPU, GPUS = "Trimtab", "Trimtab, 1 GPU", "Trimtab, 8 GPUs"
DRIVERS = {GPU: (1, 1.0), GPUS: (8, 1.0)}
HARD_DRIVERS = {"Trimtab, 16 GPUs": (16, 1.0), "Trimtab, slow GPU": (1, 10.0)}
"""The GPUs that the agent sees, and how much slower their driver is than the measured one."""
LOADED = "Trimtab, 200 loaders"
LOADERS = {"Trimtab, 72 loaders": 72, LOADED: 200}
OFTEN, OFTEN_SECONDS = "Trimtab, 0.1 s", 0.1
"""The agent that samples often. It is shown; its cost is promised nowhere."""
CPU_SECONDS_AN_HOUR = {
    AGENT: 10.0,
    GPU: 18.0,
    GPUS: 70.0,
    "Trimtab, 72 loaders": 15.0,
    "Trimtab, 200 loaders": 20.0,
}
RSS_MIB = {AGENT: 30.0, GPU: 46.0, GPUS: 50.0}
LATE_SHARE_PCT = 0.1
BYTES_A_SAMPLE = 3.2
"""The promises. The share of late ticks holds for each agent."""
COMPILERS = ("cc", "gcc", "clang")
NEEDS_COMPILER = f"not measured: its driver needs a C compiler ({', '.join(COMPILERS)})"
GPU_SCRIPT = """gpus {gpus}
gpu*.busy 70~30
gpu*.controller 30~20
gpu*.memory 40000~200
gpu*.power 500~150
gpu*.temperature 60~4
gpu*.sm_clock 1900~80
gpu*.sm_active 50~30
gpu*.other_activity 20~30
gpu*.pcie_received 2e9
gpu*.pcie_sent 1e8
gpu*.nvlink_sent_kib 3e7
gpu*.nvlink_received_kib 3e7
gpu*.power_cap_ns 1e8
init.memory_mib 18
"""
PRICES_MS = {
    "samples": 2.4,
    "energy": 3.3,
    "gpm": 0.2,
    "gpm_metrics": 2.0,
    "field269": 0.37,
    "field270": 0.37,
    "field271": 0.37,
    "field94": 0.55,
    "field197": 0.4,
    "field198": 0.4,
    "processes": 0.2,
    "memory": 0.1,
    "field74": 0.1,
    "field190": 0.1,
    "field138": 0.08,
    "field139": 0.08,
    "power": 0.07,
    "clocks": 0.06,
    "reasons": 0.06,
    "temperature": 0.06,
    "mps_processes": 0.05,
    "field3": 0.05,
    "field4": 0.05,
    "link": 0.05,
    "utilization": 0.01,
}
"""The ms of CPU that the driver takes for each kind of question: an H200 with driver 580, between
two ticks. The simulated driver takes as much."""


@dataclass
class Cost:
    """The figures of one monitor over the measured time."""

    name: str
    cpu_seconds_an_hour: float
    rss_mib: float
    series: int | None
    bytes_a_sample: float | None
    late_share_pct: float | None = None

    def line(self) -> str:
        known = [self.cpu_seconds_an_hour, self.rss_mib, self.series, self.bytes_a_sample]
        cells = [f"{value:.1f}" if isinstance(value, float) else str(value) for value in known]
        late = "" if self.late_share_pct is None else f"{self.late_share_pct:.2f}"
        shown = ["-" if cell == "None" else cell for cell in cells]
        return f"{self.name:22}" + "".join(f"{cell:>14}" for cell in [*shown, late or "-"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--interval", type=float, default=0.5, metavar="SECONDS")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--hard-drivers", action="store_true")
    parser.add_argument("--record", type=float, metavar="MINUTES")
    arguments = parser.parse_args()
    if arguments.record:
        return record(arguments.record * 60, arguments.interval)
    costs, missing = measure(
        arguments.minutes * 60,
        arguments.interval,
        with_peers=not arguments.no_peers,
        hard_drivers=arguments.hard_drivers,
    )
    trace = trace_bytes_a_sample()
    report(costs, missing, trace, arguments.minutes, arguments.interval)
    _note(costs, trace)
    broken = broken_promises(costs, trace)
    for line in broken if arguments.check else []:
        print(f"BROKEN: {line}")
    return 1 if broken and arguments.check else 0


def measure(
    seconds: float, interval: float, *, with_peers: bool, hard_drivers: bool
) -> tuple[list[Cost], list[str]]:
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        server = TakingServer(folder)
        started: list[RunningMonitor] = []
        missing: list[str] = []
        try:
            if with_peers:  # first, because installing them may take minutes
                started, missing = peers.start(folder, interval, server.url, server.bundle)
            lasts = seconds + START_SECONDS + 20
            started = [*agents(folder, lasts, interval, server, hard_drivers), *started]
            time.sleep(START_SECONDS)
            return measure_monitors(started, server, seconds), missing
        finally:
            for each in started:
                _end(each.process)
            server.close()


def agents(
    folder: Path, seconds: float, interval: float, server: TakingServer, hard_drivers: bool
) -> list[RunningMonitor]:
    """Start the agents for the CPU machine, with many loaders, often and, if there is a compiler,
    with GPUs.
    """
    busy = [str(HERE / "busy_training.py"), str(seconds)]
    started = [
        _agent(AGENT, folder, interval, server, busy),
        _agent(OFTEN, folder, OFTEN_SECONDS, server, busy),
    ]
    for name, loaders in LOADERS.items():
        waiting = [str(HERE / "many_loaders.py"), str(loaders), str(seconds)]
        started.append(_agent(name, folder, interval, server, waiting))
    drivers = DRIVERS | (HARD_DRIVERS if hard_drivers else {})
    for name, (gpus, slower) in drivers.items():
        if driver := simulated_driver(folder, gpus, slower):
            started.append(_agent(name, folder, interval, server, busy, driver))
    return started


def simulated_driver(folder: Path, gpus: int, slower: float) -> dict[str, str]:
    """Return the variables with which an agent sees these GPUs; none without a compiler."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return {}
    library = folder / "libnvidia-ml.so.1"
    script = folder / f"{gpus}-gpus-{slower:g}"
    prices = (f"gpu*.price.{kind} {slower * ms:g}\n" for kind, ms in PRICES_MS.items())
    script.write_text(GPU_SCRIPT.format(gpus=gpus) + "".join(prices))
    source = HERE.parent / "tests" / "agent" / "fake_nvml.c"
    if not library.exists():
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "TRIMTAB_FAKE_NVML": str(script)}


def _agent(
    name: str,
    folder: Path,
    interval: float,
    server: TakingServer,
    load: list[str],
    more: dict[str, str] | None = None,
) -> RunningMonitor:
    """`load`: a script and its arguments."""
    sender = "".join(letter if letter.isalnum() else "-" for letter in name)
    environment = os.environ | {
        "TRIMTAB_URL": f"{server.url}/{sender}",
        "TRIMTAB_TOKEN": "tt_bench",
        "TRIMTAB_STATE_DIR": str(folder / f"{sender}-state"),
        "TRIMTAB_METADATA": "off",
        "SSL_CERT_DIR": str(server.authorities),
        **(more or {}),
    }
    environment.pop("SSL_CERT_FILE", None)  # A bundle would be read instead
    agent = [sys.executable, "-m", "trimtab.cli", "run", "--interval", str(interval)]
    words = [*agent, "--", sys.executable, *load]
    process = subprocess.Popen(
        words, env=environment, text=True, stdin=subprocess.DEVNULL, start_new_session=True
    )
    return RunningMonitor(name, process, sender=sender)


def measure_monitors(
    started: list[RunningMonitor], server: TakingServer, seconds: float
) -> list[Cost]:
    """Measure CPU time as the difference of the kernel's counts, memory as the peak."""
    watches = [_Watch(each, server.taken.get(each.sender)) for each in started]
    until = time.monotonic() + seconds
    memory, looks = RestedMemory(), 0
    while time.monotonic() < until:
        if looks % MEMORY_EVERY == 0:
            memory.look()
        for watch in watches:
            watch.look()
        looks += 1
        time.sleep(SAMPLE_SECONDS)
    ended = [each.name for each in started if each.process.poll() is not None]
    if ended:
        raise SystemExit(f"ended before the time was up: {', '.join(ended)}")
    print(memory.words())
    return [watch.cost(seconds) for watch in watches]


class _Watch:
    """One monitor's processes. For an agent only the first: the others are the training's."""

    def __init__(self, started: RunningMonitor, taken: SenderUploads | None) -> None:
        self._started, self._taken = started, taken
        self._rss_bytes = 0
        self._cpu_before = self._cpu_seconds()
        self._before = self._sent()

    def look(self) -> None:
        self._rss_bytes = max(self._rss_bytes, sum(p.memory_info().rss for p in self._processes()))

    def cost(self, seconds: float) -> Cost:
        cpu = (self._cpu_seconds() - self._cpu_before) * 3600 / seconds
        sent, samples = (a - b for a, b in zip(self._sent(), self._before, strict=True))
        scraper = self._started.scraper
        series = scraper.series if scraper else len(self._taken.series) if self._taken else None
        late = self._taken.late_ms if self._taken and self._taken.late_ms else None
        return Cost(
            self._started.name,
            cpu,
            self._rss_bytes / 2**20,
            series,
            sent / samples if samples else None,
            None if late is None else 100 * sum(ms > LATE_MS for ms in late) / len(late),
        )

    def _sent(self) -> tuple[int, int]:
        if self._started.scraper:
            return self._started.scraper.received_bytes, self._started.scraper.samples
        return (self._taken.sent_bytes, self._taken.samples) if self._taken else (0, 0)

    def _cpu_seconds(self) -> float:
        times = [process.cpu_times() for process in self._processes()]
        return sum(t.user + t.system for t in times)

    def _processes(self) -> list[psutil.Process]:
        root = psutil.Process(self._started.process.pid)
        return [root] if self._started.name.startswith("Trimtab") else [root, *root.children(True)]


def report(
    costs: list[Cost], missing: list[str], trace: float | None, minutes: float, interval: float
) -> None:
    cores = os.cpu_count()
    print(f"{minutes:g} min at {interval:g} s on {cores} cores, Python {platform.python_version()}")
    columns = ("CPU-s/hour", "RSS MiB", "series", "bytes/sample", f"late>{LATE_MS}ms %")
    print(f"{'':22}" + "".join(f"{column:>14}" for column in columns))
    for cost in costs:
        print(cost.line())
    if GPUS not in {cost.name for cost in costs}:
        print(f"{GPUS:22}  {NEEDS_COMPILER}")
    for line in missing:
        print(line)
    own = costs[0]
    for cost in costs[1:]:
        if not cost.name.startswith("Trimtab"):
            cpu = cost.cpu_seconds_an_hour / own.cpu_seconds_an_hour
            print(
                f"{cost.name}: {cpu:.1f} x the CPU, {cost.rss_mib / own.rss_mib:.1f} x the memory"
            )
    if trace is not None:
        print(f"recorded busy trace: {trace:.2f} bytes a sample on the wire, headers counted")


def broken_promises(costs: list[Cost], trace: float | None) -> list[str]:
    measured = {cost.name for cost in costs}
    broken = [] if GPUS in measured else [f"{GPUS}: {NEEDS_COMPILER}"]
    for cost in costs:
        cpu, rss = CPU_SECONDS_AN_HOUR.get(cost.name), RSS_MIB.get(cost.name)
        if cpu is not None and cost.cpu_seconds_an_hour > cpu:
            broken.append(f"{cost.name}: {cost.cpu_seconds_an_hour:.1f} CPU-s/h, over {cpu:g}")
        if rss is not None and cost.rss_mib > rss:
            broken.append(f"{cost.name}: {cost.rss_mib:.1f} MiB, over {rss:g}")
        if cost.late_share_pct is not None and cost.late_share_pct > LATE_SHARE_PCT:
            broken.append(f"{cost.name}: {cost.late_share_pct:.1f} % of ticks late")
    if trace is None or trace > BYTES_A_SAMPLE:
        broken.append(f"{trace} bytes a sample of the recorded trace, over {BYTES_A_SAMPLE}")
    return broken


def _note(costs: list[Cost], trace: float | None) -> None:
    """Note the figures for their page; each peer with what it needs."""
    peers = ", ".join(
        f"{cost.name} {_needs(cost)}" for cost in costs if not cost.name.startswith("Trimtab")
    )
    broken = broken_promises(costs, trace)
    keys = {
        "agent": AGENT,
        "agent_gpu": GPU,
        "agent_gpus": GPUS,
        "agent_loaders": "Trimtab, 200 loaders",
    }
    for key, name in keys.items():
        is_kept = not any(line.startswith(f"{name}: ") for line in broken)
        measured = [_needs(cost) for cost in costs if cost.name == name]
        words = measured[0] if measured else NEEDS_COMPILER
        note(key, words, is_kept, peers if key == "agent" else "")
    if trace is not None:
        note("wire", f"{trace:.2f} bytes a sample", trace <= BYTES_A_SAMPLE)


def _needs(cost: Cost) -> str:
    return f"{cost.cpu_seconds_an_hour:.1f} CPU-s/h, {cost.rss_mib:.1f} MiB"


# The recorded trace


def record(seconds: float, interval: float) -> int:
    """Record the agent's upload of the busy load here, without names of this machine."""
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as name:
        server = TakingServer(Path(name))
        load = [str(HERE / "busy_training.py"), str(seconds)]
        agent = _agent(AGENT, Path(name), interval, server, load)
        agent.process.wait()
        segments = [decode_segment(body) for body in server.taken[agent.sender].bodies]
        server.close()
    segments.sort(key=lambda segment: segment.start_ms)
    document = {
        "recorded": "the agent on bench/busy_training.py",
        "cores": os.cpu_count(),
        "system": platform.system(),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "interval_seconds": interval,
        "segments": [
            [[block.times_ms, block.columns] for block in segment.blocks] for segment in segments
        ],
    }
    packed = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 9, mtime=0)
    TRACE.write_bytes(packed)
    print(f"{len(segments)} segments, {len(packed)} bytes in {TRACE}")
    return 0


def trace_bytes_a_sample() -> float | None:
    """Return the bytes a sample of the recorded segments, encoded by this version of the codec."""
    if not TRACE.exists():
        return None
    document = json.loads(gzip.decompress(TRACE.read_bytes()))
    clock = SessionClock(UUID(int=1), "0" * 32, 1_767_000_000_000_000_000, 81_234_567_890)
    sent = samples = start_ms = 0
    for seq, blocks in enumerate(document["segments"]):
        decoded = [Block(times, columns) for times, columns in blocks]
        values = [v for block in decoded for column in block.columns.values() for v in column]
        samples += sum(value is not None for value in values)
        duration_ms = max((block.times_ms[-1] for block in decoded), default=0)
        segment = Segment(
            run_id=UUID(int=2),
            job="project/train.py",
            attempt=0,
            machine_id="0123456789abcdef0123456789abcdef",
            clock=clock,
            seq=seq,
            start_ms=start_ms,
            duration_ms=duration_ms,
            resolution_ms=round(document["interval_seconds"] * 1000),
            blocks=decoded,
        )
        sent += len(encode_segment(segment)) + HEADER_BYTES
        start_ms += duration_ms
    return sent / samples


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(psutil.Error):
        for each in [*psutil.Process(process.pid).children(True), psutil.Process(process.pid)]:
            with suppress(psutil.Error):
                each.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    raise SystemExit(main())
