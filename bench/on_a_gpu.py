"""Everything that only a GPU can show, in at most six minutes on one card.

    python -m bench.on_a_gpu                   prints the figures and rows for docs/figures.md
    python -m bench.on_a_gpu --out FOLDER      also keeps what the agents recorded there
    python -m bench.on_a_gpu --only prices     one part: prices, cost, truth, windows or hook

It needs a Python with psutil and torch (torchvision and transformers for two of the trainings).
Without a GPU it says so and exits with 0. Parts:

prices   what each of the agent's queries to the driver takes
cost     CPU and memory of the agent beside an idle and a busy GPU, where its modules are compiled
         and where they aren't, and its series beside an independent reader (`nvidia-smi`)
truth    six trainings of known truth beside what the agent recorded of them; a profile, a probe
windows  one training, with the agent attached and detached in turn
hook     turns of one training with and without the hook
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from trimtab import hooks
from trimtab.sources.gpu import nvml
from trimtab.sources.gpu.device import Device
from trimtab.wire import Segment, decode_segment

from bench import figures_page
from bench.figures import Figure, note
from bench.gpu_queries import price_queries
from bench.overhead_server import TakingServer
from bench.promises import PROMISES

HERE = Path(__file__).resolve().parent
TRAINING = HERE / "gpu_training.py"
START_SECONDS, COST_SECONDS = 15.0, 30.0
WINDOWS, WINDOW_SECONDS, SETTLE_SECONDS = 20, 2.4, 1.2
UPLOAD_SECONDS = 20.0
CPU_SECONDS_AN_HOUR, RSS_MIB, WINDOWS_PCT, HOOK_PCT = 18.0, 46.0, 0.3, 1.0
"""The promises."""


@dataclass
class Workplace:
    """The place where the agents run, and what takes their uploads."""

    folder: Path
    server: TakingServer
    seconds: float = 1.0
    """Factor for the length of trainings."""
    figures: list[Figure] = field(default_factory=list)
    """The figures for docs/figures.md."""

    def note(self, promise: str, measured: str, *, is_kept: bool) -> None:
        self.figures.append(Figure(promise, measured, is_kept))
        note(promise, measured, is_kept)

    def training(self, mode: str, seconds: float) -> list[str]:
        truth = self.folder / f"{mode}.json"
        return [sys.executable, str(TRAINING), mode, str(truth), f"{self.seconds * seconds:g}"]

    def truth(self, mode: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{mode}.json").read_text())
        return found

    def environment(self, name: str, *, compiled: bool = True) -> dict[str, str]:
        more = {
            "TRIMTAB_URL": f"{self.server.url}/{name}",
            "TRIMTAB_TOKEN": "tt_bench",
            "TRIMTAB_STATE_DIR": str(self.folder / "recorded" / name),
            "TRIMTAB_METADATA": "off",
            "SSL_CERT_DIR": str(self.server.authorities),
        }
        if not compiled:
            nowhere = str(self.folder / "no-bytecode")
            more |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": nowhere}
        kept = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
        return kept | more

    def start(
        self, name: str, words: list[str], *, compiled: bool = True, agent: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a command under the agent, by `trimtab run` or as `agent` says."""
        command = [sys.executable, "-m", "trimtab.cli", *(agent or ("run",)), "--", *words]
        log = (self.folder / f"{name}.log").open("wb")
        environment = self.environment(name, compiled=compiled)
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def segments(self, name: str) -> list[Segment]:
        """Return what the agent uploaded, once it has uploaded its last segment."""
        until = time.monotonic() + UPLOAD_SECONDS
        while True:
            found = [decode_segment(body) for body in list(self.server.taken[name].bodies)]
            kinds = {event.kind for segment in found for event in segment.events}
            if "session_end" in kinds or time.monotonic() > until:
                return [each for _, each in sorted({each.seq: each for each in found}.items())]
            time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=list(PARTS), action="append")
    parser.add_argument("--quick", type=float, default=1.0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    try:
        nvml.initialise()
        device = Device(0, pids=list, tell=lambda kind, data: None)
    except (OSError, nvml.NvmlError) as error:
        print(f"no GPU can be read here ({error}): nothing was measured")
        return 0
    print(
        f"{device.card.model}, {os.cpu_count()} cores, Python {sys.version.split()[0]}", flush=True
    )
    with tempfile.TemporaryDirectory(prefix="trimtab-gpu-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        server = TakingServer(folder)
        place = Workplace(folder, server, asked.quick)
        for part in asked.only or PARTS:
            _measure(part, place, device)
        server.close()
        _print_rows(place, device)
        if asked.out:
            shutil.make_archive(str(asked.out / "recorded"), "gztar", folder, "recorded")
            for truth in folder.glob("*.json"):
                shutil.copy(truth, asked.out)
    return 0


def _print_rows(place: Workplace, device: Device) -> None:
    promises = {promise.key: promise for promise in PROMISES}
    print("\nrows for docs/figures.md")
    for figure in place.figures:
        measured = replace(figure, measured=f"{figure.measured} ({device.card.model})")
        print(figures_page.row(promises[figure.promise], measured))


def _measure(part: str, place: Workplace, device: Device) -> None:
    """Measure one part. If it fails, that costs its own figures only."""
    began = time.monotonic()
    print(f"\n{part}", flush=True)
    try:
        for line in PARTS[part](place, device):
            print(f"  {line}", flush=True)
    except Exception as error:
        print(f"  failed: {type(error).__name__}: {error}")
    print(f"  ({time.monotonic() - began:.0f} s)", flush=True)


def _prices(place: Workplace, device: Device) -> Iterator[str]:
    yield from price_queries(device, 12)
    seen = nvml.busy_samples(device.handle, 0)
    lasts = (seen[-1][0] - seen[0][0]) / 1e6 if seen else 0.0
    yield f"the driver keeps {len(seen)} samples of utilisation, of {lasts:.1f} s"


# The agent's cost, and its series


def _cost(place: Workplace, device: Device) -> Iterator[str]:
    lasts = str(START_SECONDS + COST_SECONDS + 60)
    idle = place.start("idle", ["sleep", lasts])
    uncompiled = place.start("uncompiled", ["sleep", lasts], compiled=False)
    busy = None
    try:
        time.sleep(START_SECONDS)
        costs = _watched([idle, uncompiled])
        yield _cost_line("idle GPU, two agents", *costs[0])
        yield _cost_line("idle GPU, two agents, nothing compiled", *costs[1])
        _stop(uncompiled)
        _stop(idle)
        busy = place.start("busy", place.training("busy", 300))
        time.sleep(START_SECONDS)
        reader = Reader(device)
        (cost,) = _watched([busy])
        seen = reader.finish()
        yield _cost_line("busy GPU", *cost)
        costs.append(cost)
    finally:
        for agent in filter(None, (idle, uncompiled, busy)):
            _stop(agent)
    cpu, rss = (max(values) for values in zip(*costs, strict=True))
    is_kept = cpu <= CPU_SECONDS_AN_HOUR and rss <= RSS_MIB
    place.note("agent_real_gpu", f"{cpu:.1f} CPU-s/h, {rss:.1f} MiB", is_kept=is_kept)
    yield from _beside(place.segments("busy"), seen)
    yield from _steps_lines("busy", place)


def _cost_line(what: str, cpu: float, rss: float) -> str:
    is_kept = cpu <= CPU_SECONDS_AN_HOUR and rss <= RSS_MIB
    return f"{what}: {cpu:.1f} CPU-s/h, {rss:.1f} MiB{'' if is_kept else ' (broken)'}"


def _watched(
    agents: list[subprocess.Popen[bytes]], seconds: float = COST_SECONDS
) -> list[tuple[float, float]]:
    """Return the CPU seconds an hour and the most MiB of each agent, without its command."""
    processes = [psutil.Process(agent.pid) for agent in agents]
    before, began = [sum(each.cpu_times()[:2]) for each in processes], time.monotonic()
    most = [0.0] * len(processes)
    while time.monotonic() - began < seconds:
        most = [max(m, p.memory_info().rss / 2**20) for m, p in zip(most, processes, strict=True)]
        time.sleep(0.5)
    hours = (time.monotonic() - began) / 3600
    if any(agent.poll() is not None for agent in agents):
        raise RuntimeError("an agent ended before the time was up")
    used = [(sum(p.cpu_times()[:2]) - b) / hours for p, b in zip(processes, before, strict=True)]
    return list(zip(used, most, strict=True))


def _stop(agent: subprocess.Popen[bytes]) -> None:
    """End the agent's command, then the agent ends by itself."""
    if agent.poll() is None:
        with suppress(psutil.Error):
            for child in psutil.Process(agent.pid).children(recursive=True):
                child.terminate()
        try:
            agent.wait(20)
        except subprocess.TimeoutExpired:
            agent.kill()


class Reader:
    """Reads the GPU beside the agent by other means: `nvidia-smi` twice a second, and `pynvml`."""

    _NAMES = (
        ("busy_pct", "utilization.gpu"),
        ("power_watts", "power.draw"),
        ("memory_used_bytes", "memory.used"),
        ("sm_clock_mhz", "clocks.sm"),
        ("temperature_celsius", "temperature.gpu"),
    )

    def __init__(self, device: Device) -> None:
        self._device = device
        self._smi: subprocess.Popen[str] | None = None
        if program := shutil.which("nvidia-smi"):
            wanted = ",".join(name for _, name in self._NAMES)
            words = [program, "-i", "0", f"--query-gpu={wanted}", "-lms", "500"]
            self._smi = subprocess.Popen(
                [*words, "--format=csv,noheader,nounits"], stdout=subprocess.PIPE, text=True
            )
        self.began = time.time()
        self._joules = self._energy()
        self._before = self._gpm_sample()

    def finish(self) -> dict[str, float]:
        """Return the means since the beginning, and the energy in joules."""
        means = {"began": self.began, "ended": time.time()}
        if self._joules is not None:
            means["energy_joules_total"] = self._energy() - self._joules
        means |= self._activity()
        if self._smi:
            self._smi.send_signal(signal.SIGINT)
            lines = self._smi.communicate(timeout=10)[0].splitlines()
            rows = [[float(cell) for cell in line.split(",")] for line in lines if "," in line]
            for (name, _), column in zip(self._NAMES, zip(*rows, strict=True), strict=True):
                factor = 2**20 if name.endswith("_bytes") else 1
                means[name] = factor * statistics.fmean(column)
        return means

    def _energy(self) -> Any:
        with suppress(ImportError):
            import pynvml

            with suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                handle = pynvml.nvmlDeviceGetHandleByIndex(0)
                return pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000
        return None

    def _gpm_sample(self) -> Any:
        with suppress(ImportError):
            import pynvml

            with suppress(pynvml.NVMLError):
                sample = pynvml.nvmlGpmSampleAlloc()
                pynvml.nvmlGpmSampleGet(pynvml.nvmlDeviceGetHandleByIndex(0), sample)
                return sample
        return None

    def _activity(self) -> dict[str, float]:
        after = self._gpm_sample()
        if self._before is None or after is None:
            return {}
        import pynvml

        numbers = {"sm_active_pct": 2, "tensor_active_pct": 5, "dram_active_pct": 10}
        question = pynvml.c_nvmlGpmMetricsGet_t()
        question.version, question.numMetrics = 1, len(numbers)
        question.sample1, question.sample2 = self._before, after
        for metric, number in zip(question.metrics, numbers.values(), strict=False):
            metric.metricId = number
        pynvml.nvmlGpmMetricsGet(question)
        return {name: metric.value for name, metric in zip(numbers, question.metrics, strict=False)}


def _beside(segments: list[Segment], seen: dict[str, float]) -> Iterator[str]:
    """Yield each series' mean as the agent recorded it, beside the reader's."""
    for name, other in seen.items():
        if name in ("began", "ended"):
            continue
        ticks = _ticks(segments, f"gpu0.{name}", seen["began"], seen["ended"])
        if not ticks:
            yield f"{name}: not recorded, {other:.1f} by the reader"
            continue
        values = [value for _, value in ticks]
        if name.endswith("_total"):
            seconds = ticks[-1][0] - ticks[0][0]
            mean = (values[-1] - values[0]) / seconds
            other /= seen["ended"] - seen["began"]
        else:
            mean = statistics.fmean(values)
        share = f", {100 * (mean / other - 1):+.2f} %" if other else ""
        yield f"{name}: {mean:.1f} recorded, {other:.1f} by the reader{share}"


def _ticks(
    segments: list[Segment], name: str, began: float, ended: float
) -> list[tuple[float, float]]:
    """Return the wall times and values of a series between two wall times."""
    found = []
    for segment in segments:
        start = segment.clock.started_at_ns / 1e9 + segment.start_ms / 1000
        for block in segment.blocks:
            column = block.columns.get(name, [None] * len(block.times_ms))
            found += [
                (start + ms / 1000, float(value))
                for ms, value in zip(block.times_ms, column, strict=True)
                if value is not None
            ]
    return [(at, value) for at, value in found if began <= at <= ended]


# Trainings of known truth


def _truth(place: Workplace, device: Device) -> Iterator[str]:
    first = {
        mode: place.start(mode, place.training(mode, seconds))
        for mode, seconds in (("input", 15), ("tiny", 10), ("phases", 30))
    }
    yield from _finished(place, first)
    profile = place.training("synchronised", 12)
    probe = place.training("busy", 60)
    second = {
        "transformer": place.start("transformer", place.training("transformer", 10)),
        "profile": place.start("profile", profile, agent=("run", "--profile-steps", "50:54")),
    }
    yield from _finished(place, second)
    yield from _finished(place, {"memory": place.start("memory", place.training("memory", 1))})
    began = time.monotonic()
    place.start("probe", probe, agent=("probe", "--steps", "40")).wait(90)
    last = (place.folder / "probe.log").read_text(errors="replace").strip().splitlines()
    yield f"probe ({time.monotonic() - began:.0f} s): {' '.join(last[-4:])[:300]}"


def _finished(place: Workplace, started: dict[str, subprocess.Popen[bytes]]) -> Iterator[str]:
    for name, agent in started.items():
        try:
            code = agent.wait(120)
        except subprocess.TimeoutExpired:
            _stop(agent)
            yield f"{name}: took too long"
            continue
        if name == "profile":
            traces = sum(_events(place, name, "profile", "bytes"))
            yield f"profile: {traces:.0f} bytes of a trace, exit code {code}"
        elif name == "memory":
            yield f"memory: {_failure_words(place, name)}, exit code {code}"
        else:
            yield from _steps_lines(name, place)


def _steps_lines(name: str, place: Workplace) -> Iterator[str]:
    """Yield the recorded steps, waits, checkpoints and GPU time beside the script's own."""
    truth, segments = place.truth(name), place.segments(name)
    steps = truth.get("optimizer_steps") or len(truth["steps"])
    recorded = _recorded_steps(segments)
    yield f"{name}: {recorded} steps recorded, {steps} made"
    if truth["waits"]:
        waits = sum(
            wait for s in segments for block in s.steps for wait in block.data_wait_us if wait
        ) + sum(each.data_wait_sum_us or 0 for s in segments for each in s.step_summaries)
        yield f"{name}: {waits / 1e6:.2f} s of waits recorded, {sum(truth['waits']):.2f} s measured"
    if truth["checkpoints"]:
        saved = sum(_events(place, name, "checkpoint", "seconds"))
        yield f"{name}: {saved:.2f} s of checkpoints recorded, {sum(truth['checkpoints']):.2f} s"
    on_gpu = sum(_events(place, name, "gpu_steps", "steps"))
    if on_gpu:
        gpu = sum(_events(place, name, "gpu_steps", "gpu_seconds"))
        launch = sum(_events(place, name, "gpu_steps", "launch_seconds"))
        ms = (1000 * gpu / on_gpu, 1000 * launch / on_gpu)
        yield f"{name}: {ms[0]:.2f} ms a step on the GPU, {ms[1]:.2f} to launch, {on_gpu:.0f} steps"
    others = [v for s in segments for v in _column(s, "gpu0.other_processes_count")]
    yield f"{name}: at most {max(others, default=0):.0f} other processes on the GPU"


def _recorded_steps(segments: list[Segment]) -> int:
    exact = sum(len(b.start_us) for s in segments for b in s.steps if b.phase == "train")
    summed = sum(e.count for s in segments for e in s.step_summaries if e.phase == "train")
    untimed = sum(e.kind == "step_untimed" for s in segments for e in s.events)
    return exact + summed + untimed


def _column(segment: Segment, name: str) -> list[float]:
    return [float(v) for b in segment.blocks for v in b.columns.get(name, ()) if v is not None]


def _events(place: Workplace, name: str, kind: str, key: str) -> list[float]:
    return [
        float(event.data[key])
        for segment in place.segments(name)
        for event in segment.events
        if event.kind == kind
    ]


def _failure_words(place: Workplace, name: str) -> str:
    kind = "gpu_out_of_memory"
    asked, free = (_events(place, name, kind, key) for key in ("requested_bytes", "free_bytes"))
    if not asked:
        return "no error recorded"
    return f"asked for {asked[0] / 2**20:.0f} MiB, {free[0] / 2**20:.0f} MiB were free"


# With and without


def _windows(place: Workplace, device: Device) -> Iterator[str]:
    """Yield medians of step times while an agent is attached and while it isn't."""
    lasts = 30 + WINDOWS * (WINDOW_SECONDS + 2 * SETTLE_SECONDS)
    training = subprocess.Popen(place.training("synchronised", lasts / place.seconds))
    spans: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    try:
        time.sleep(12 * place.seconds)
        for number in range(WINDOWS):
            attached = number % 4 in (0, 3)
            agent = _attached(place, training.pid) if attached else None
            time.sleep(SETTLE_SECONDS)
            began = time.time()
            time.sleep(WINDOW_SECONDS)
            spans[attached].append((began, time.time()))
            if agent:
                agent.send_signal(signal.SIGINT)
                agent.wait(20)
    finally:
        training.terminate()
        training.wait()
    ends = place.truth("synchronised")["steps"]
    medians = {each: _median_step_ms(ends, spans[each]) for each in spans}
    added = 100 * (medians[True] / medians[False] - 1)
    broken = "" if added < WINDOWS_PCT else " (broken)"
    place.note("agent_attached", f"{added:+.2f} %", is_kept=added < WINDOWS_PCT)
    yield (
        f"{WINDOWS} windows: {medians[True]:.3f} ms a step attached, {medians[False]:.3f} detached:"
        f" {added:+.2f} %{broken}"
    )


def _attached(place: Workplace, pid: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "trimtab.cli", "attach", str(pid)]
    environment = place.environment("attached")
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, env=environment, stdout=quiet, stderr=quiet)


def _median_step_ms(ends: list[float], spans: list[tuple[float, float]]) -> float:
    steps = [
        after - before
        for began, ended in spans
        for before, after in pairwise(ends)
        if began <= before and after <= ended
    ]
    return 1000 * statistics.median(steps)


def _hook(place: Workplace, device: Device) -> Iterator[str]:
    """Turns in one process: only the hook differs."""
    folder = place.folder / "hook"
    folder.mkdir()
    environment = hooks.environment(os.environ, folder)
    subprocess.run(place.training("pairs", 1), env=environment, check=True, timeout=120)
    truth = place.truth("pairs")
    added = sorted(truth["added_pct"])
    middle = statistics.median(added)
    broken = "" if added[1] < HOOK_PCT else " (broken)"  # the interval's lower end, 96 % of 9 pairs
    yield (
        f"{len(added)} pairs of {truth['step_ms']:.2f} ms a step: {middle:+.2f} % with the hook,"
        f" from {added[0]:+.2f} to {added[-1]:+.2f}{broken}"
    )


PARTS: dict[str, Callable[[Workplace, Device], Iterator[str]]] = {
    "prices": _prices,
    "cost": _cost,
    "truth": _truth,
    "windows": _windows,
    "hook": _hook,
}

if __name__ == "__main__":
    sys.exit(main())
