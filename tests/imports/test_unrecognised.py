"""Refusals of files that are no recording: the true cause, one step, and nothing is opened."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from advisor.__main__ import main
from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import StatedFacts
from advisor.offline.importing import import_path

NVIDIA_TABLE = b"""Sat Nov 28 12:00:00 2026
+---------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15     Driver Version: 550.54.15     CUDA Version: 12.4 |
"""
ROCM_TABLE = b"""
========================= ROCm System Management Interface =========================
Device  [Model : Revision]    Temp        Power     SCLK    MCLK    Fan  Perf  VRAM%  GPU%
"""
GPUSTAT_TABLE = """node-1  Tue Nov 24 08:00:00 2026  550.54.15
[0] NVIDIA A100 | 35°C,  12 % |  1000 / 40960 MB | ada(900M)
""".encode()
SACCT = b"""JobID|JobName|State|ExitCode|Start|End|Elapsed|AllocTRES|NodeList
123|train|COMPLETED|0:0|2026-11-24T08:00:00|2026-11-24T09:00:00|01:00:00|gres/gpu=2|node1
"""
SACCT_COLUMNS = b"""       JobID    JobName  Partition    Account  AllocCPUS      State ExitCode
------------ ---------- ---------- ---------- ---------- ---------- --------
1933171      train        RM-shared    mr4s95p         28    RUNNING      0:0
"""
SACCT_RAW = b"""CPUTimeRAW|ReqCPUS|ReqMem|Submit|Timelimit|TimelimitRaw|Partition|QOS|State
158517504|1|100Mc|2024-06-24T12:33:26|7-04:00:00|10320|nu-long|normal|TIMEOUT
"""
SACCT_TABS = b"""Account\tAllocCPUS\tElapsed\tElapsedRaw\tEnd\tJobID\tStart\tState
routine\t1\t00:12:58\t778\t2026-01-15T19:46:34\t33979\t2026-01-15T19:33:36\tCOMPLETED
"""
RAY = b"""[{"cat": "ray.wait", "name": "ray.wait", "pid": "", "tid": "worker:80d6d4ac18c5",
"ts": 1563916765634768.0, "dur": 108795.2, "ph": "X", "cname": "good", "args": {}}]"""


class Harmful:
    """A pickle that would write a file when it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._path),)


def zipped() -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("gpus.csv", "time,gpu0.busy_pct\n1,2\n")
    return body.getvalue()


def tarred() -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("gpus.csv"))
    return body.getvalue()


CASES = [
    ("report.nsys-rep", b"\x01\x02", r"nsys export --type sqlite -o profile\.sqlite"),
    ("model.zip", zipped(), r"a packed archive\. Unpack it"),
    ("traces.tgz", tarred(), r"a packed archive\. Unpack it"),
    ("profile.sqlite", b"\x07" * 900, "no export of Nsight Systems that can be read"),
    ("trace.json.gz", os.urandom(900), "the file is damaged. Copy it again"),
    ("trace.json.gz", gzip.compress(b"hello"), "what it has is no recording"),
    ("settings.json", b'{"a": 1}', "JSON, but no trace of PyTorch's profiler"),
    ("empty.csv", b"", "the file is empty"),
    ("gpus.txt", NVIDIA_TABLE, "--query-gpu=timestamp,index,.* --format=csv -l 1"),
    ("gpus.log", b"==NVSMI LOG==\nTimestamp : x\n", "--query-gpu=timestamp,index"),
    ("gpus.txt", ROCM_TABLE, "amd-smi monitor --csv --watch 1 --file gpus.csv"),
    ("gpus.txt", GPUSTAT_TABLE, "gpustat --json --interval 1"),
    ("jobs.txt", SACCT, "what Slurm's sacct prints: when jobs ran"),
    ("jobs.txt", SACCT_COLUMNS, "what Slurm's sacct prints: when jobs ran"),
    ("jobs.csv", SACCT_RAW, "what Slurm's sacct prints: when jobs ran"),
    ("jobs.csv", SACCT_TABS, "what Slurm's sacct prints: when jobs ran"),
    ("timeline.json", RAY, "a timeline of Ray: when its tasks ran"),
    ("timeline.json.gz", gzip.compress(RAY), "a timeline of Ray: when its tasks ran"),
    ("use.csv", b"elapsed_sec,gpu_util_pct\n0.1,2\n", "--column 'elapsed_sec=time'. Columns: "),
    ("use.csv", b"Time,GPU_Usage\n1686584907,0\n", "--column 'GPU_Usage=gpu0.busy_pct'"),
    ("wandb/offline-run-1/files/output.log", b"x", "its run file run-ID.wandb is missing"),
    ("run-abc.wandb", b"W", "no run file that can be read"),
    ("mlruns/0/meta.yaml", b"name: x", r"mlflow\+http://HOST"),
    ("model.pt", zipped(), "a model's weights, not a recording"),
    ("report.html", b"<html>", "a report for people"),
    ("notes.txt", b"hello", "no known format in its 1 file. Known formats: "),
    ("gpus.csv", b"0, 98 %, 1000 MiB\n0, 97 %, 1000 MiB\n", "Record without `noheader`"),
]


@pytest.mark.parametrize(("name", "body", "why"), CASES, ids=[f"{c[0]}-{c[2][:20]}" for c in CASES])
def test_what_is_no_recording_is_named_with_one_step(name, body, why, tmp_path, capsys):
    """`python -m advisor import FOLDER`; `tests/agent/test_commands.py` has those of the agent."""
    path = tmp_path / "given" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(body)
    assert main(["import", str(tmp_path / "given")]) == 2
    assert re.search(why, capsys.readouterr().err)


@pytest.mark.parametrize("name", ["snapshot.pickle", "snapshot.pkl", "snapshot", "memory.bin"])
@pytest.mark.parametrize("protocol", [2, 5])
def test_a_memory_snapshot_is_refused_and_never_unpickled(name, protocol, tmp_path):
    harm = tmp_path / "harm"
    (tmp_path / name).write_bytes(pickle.dumps(Harmful(harm), protocol=protocol))
    with pytest.raises(NotImportableError, match="a pickle, as PyTorch's memory snapshots are"):
        import_path(tmp_path / name, StatedFacts())
    assert not harm.exists()
