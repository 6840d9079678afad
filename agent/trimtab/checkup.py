"""Looks at a machine as the agent would, and judges what is missing by what it is good for."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from trimtab import hooks
from trimtab.answering import problem_with
from trimtab.hardware import node_facts
from trimtab.options import Options
from trimtab.spool import open_spool, state_folder
from trimtab.spool.filesystem import is_network

_HOOK_TEST = (
    "import sys, importlib.util as u; print(type(sys.meta_path[0]).__name__ == '_Watcher',"
    " u.find_spec('torch') is not None)"
)
_PYTHON_SECONDS = 20


class State(enum.Enum):
    FINE = "fine"
    PARTLY = "partly"
    MISSING = "missing"
    WRONG = "wrong"
    """It was set up, and doesn't work."""


@dataclass(frozen=True)
class Check:
    """`lost`: the insight that goes missing; `fix`: what a person can do; empty if all is well."""

    name: str
    state: State
    seen: str
    lost: str = ""
    fix: str = ""


def all_checks(options: Options) -> list[Check]:
    return [
        service(options),
        spool(),
        machine(options),
        cpu_and_memory(),
        pressure(),
        disks(),
        network(),
        processes(),
        gpus(),
        hook(),
    ]


def service(options: Options) -> Check:
    server = options.server
    if not server.url:
        return Check(
            "service",
            State.MISSING,
            "no address is known",
            "everything: samples stay on this machine until `trimtab sync`",
            "set TRIMTAB_URL and TRIMTAB_TOKEN, or call `trimtab init`",
        )
    if not server.token:
        fix = "set TRIMTAB_TOKEN, or call `trimtab init`"
        return Check("service", State.WRONG, f"no token for {server.url}", "every upload", fix)
    try:
        problem = problem_with(server)
    except ValueError as error:
        problem = str(error)
    if problem:
        fix = "check the address, the token, proxies and SSL_CERT_FILE"
        return Check("service", State.WRONG, problem, "uploads; samples are kept meanwhile", fix)
    return Check("service", State.FINE, f"{server.url} takes this token")


def spool() -> Check:
    opened = open_spool()
    held = opened.contents()
    if opened.path is None:
        lost = "what isn't uploaded when a run ends"
        fix = "name a local folder in TRIMTAB_STATE_DIR"
        return Check("spool", State.WRONG, f"in memory only: {opened.problem}", lost, fix)
    moved = " (the home is on the network)" if is_network(state_folder()) else ""
    return Check("spool", State.FINE, f"{opened.path}{moved}, {held.unsent} waiting")


def machine(options: Options) -> Check:
    instance_type = options.node.get("instance_type")
    if instance_type:
        where = options.node.get("region", "no region")
        return Check("price", State.FINE, f"{instance_type}, {where}")
    fix = "--instance-type, --region, --provider, or TRIMTAB_INSTANCE_TYPE and so on"
    lost = "the run's cost, unless the service knows this machine's price"
    return Check("price", State.MISSING, "the machine's type was not said", lost, fix)


def cpu_and_memory() -> Check:
    facts = node_facts("doctor")
    if not Path("/proc/stat").exists():
        return Check("cpu, memory", State.MISSING, "no /proc", "CPU and memory", "mount /proc")
    gib = 2**30
    seen = (
        f"{facts.effective_cpus:g} of {facts.vcpus} CPUs,"
        f" {facts.effective_memory_bytes / gib:.1f} of {facts.memory_bytes / gib:.1f} GiB"
    )
    return Check("cpu, memory", State.FINE, seen)


def pressure() -> Check:
    if _readable("/proc/pressure/cpu"):
        return Check("pressure", State.FINE, "/proc/pressure")
    return Check(
        "pressure",
        State.MISSING,
        "no /proc/pressure",
        "how long tasks stalled for CPU, memory and disk: bottlenecks are judged by load alone",
        "a kernel from 4.20 on, started with psi=1; sandboxed containers don't have it",
    )


def disks() -> Check:
    if _readable("/proc/diskstats") and Path("/proc/diskstats").read_text().strip():
        return Check("disks", State.FINE, "/proc/diskstats")
    lost = "disk throughput and queues; what processes read and write is seen all the same"
    return Check("disks", State.MISSING, "no disk in /proc/diskstats", lost, "run on the host")


def network() -> Check:
    names = [path.name for path in Path("/sys/class/net").glob("*") if path.name != "lo"]
    if not _readable("/proc/net/dev") or not names:
        return Check("network", State.MISSING, "no interface", "network traffic", "")
    fabric = sorted(path.name for path in Path("/sys/class/infiniband").glob("*"))
    seen = ", ".join(sorted(names)[:6]) + (f"; fabric {', '.join(fabric)}" if fabric else "")
    return Check("network", State.FINE, seen)


def processes() -> Check:
    pid = os.getpid()
    if not Path(f"/proc/{pid}/task/{pid}/children").exists():
        fix = "a kernel with CONFIG_PROC_CHILDREN"
        lost = "child processes, e.g. data-loader workers"
        return Check("processes", State.PARTLY, "only the command's own process", lost, fix)
    if not _readable(f"/proc/{pid}/io"):
        lost = "what the run's processes read and write"
        return Check("processes", State.PARTLY, "no /proc/PID/io", lost, "allow ptrace")
    return Check("processes", State.FINE, "the tree of the command, with its I/O")


def gpus() -> Check:
    lost = "GPU use, memory, power and throttling; rules about GPUs don't apply"
    try:
        count = _gpu_count()
    except Exception as error:
        there = any(Path("/dev").glob("nvidia[0-9]*"))
        fix = (
            "in a container: --gpus all and NVIDIA_DRIVER_CAPABILITIES=utility,compute"
            if there or Path("/proc/driver/nvidia").exists()
            else "if this machine has an NVIDIA GPU: install its driver"
        )
        return Check("gpus", State.MISSING, f"no NVML: {error}", lost, fix)
    if not count:
        fix = "in a container: --gpus all"
        return Check("gpus", State.MISSING, "a driver, but no GPU", lost, fix)
    return Check("gpus", State.FINE, f"{count} by NVML")


def _gpu_count() -> int:
    import pynvml

    pynvml.nvmlInit()
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()


def hook() -> Check:
    lost = "steps, data wait, loader settings, checkpoints, unless the script calls trimtab.step()"
    python = shutil.which("python") or shutil.which("python3")
    if python is None:
        fix = "activate the training's environment"
        return Check("hook", State.MISSING, "no python on PATH", lost, fix)
    if os.environ.get("TRIMTAB_DISABLE") == "1":
        return Check("hook", State.MISSING, "TRIMTAB_DISABLE=1", lost, "unset it")
    found = _hooked(python)
    if found is None or not found[0]:
        fix = "don't start Python with -I, -E or -S"
        return Check("hook", State.PARTLY, f"{python} doesn't load it", lost, fix)
    torch = "with torch" if found[1] else "without torch: Keras and others by callback or SDK"
    return Check("hook", State.FINE, f"{python}, {torch}")


def _hooked(python: str) -> tuple[bool, bool] | None:
    environment = hooks.environment(os.environ, Path("/nonexistent"))
    try:
        answer = subprocess.run(
            [python, "-c", _HOOK_TEST],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PYTHON_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    words = answer.stdout.split()
    return ("True" in words[:1], "True" in words[1:2])


def _readable(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            file.read(1)
        return True
    except OSError:
        return False
