"""Says why files of no known format can't be imported, and the one step that helps.

Nothing is unpickled, unpacked or run: the names and the first bytes tell enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from advisor.importers.source import Source

_MOST_FILES = 1_000
"""The most files that are looked at."""
_HEAD_BYTES = 4096
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_ARCHIVES = (b"PK\x03\x04", b"7z\xbc\xaf", b"Rar!", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_PICKLED_MEMBERS = re.compile(rb"[^/]{1,200}/data\.pkl")
_TAR_MAGIC = slice(257, 262)
_RECORD = "`nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv -l 1`"

_JOB_FIELDS = {"jobid", "jobidraw", "timelimitraw", "alloctres", "alloccpus", "cputimeraw"}
_JOB_FIELDS |= {"jobname", "partition", "account", "state", "exitcode", "elapsed", "elapsedraw"}
_JOB_FIELDS |= {"nodelist", "reqmem", "maxrss", "timelimit", "reqtres", "reqcpus", "qos", "ncpus"}
_LEAST_JOB_FIELDS = 3
"""Names of sacct's columns, and how many of them a head has at least."""

Looks = Callable[[str, bytes], bool]
"""The test whether a file is of a kind, by its name in lower case and its first bytes."""


@dataclass(frozen=True)
class _Kind:
    looks: Looks
    why: str


def _named(*suffixes: str) -> Looks:
    return lambda name, head: name.endswith(suffixes)


def _says(*words: bytes) -> Looks:
    return lambda name, head: any(word in head for word in words)


def _is_pickle(name: str, head: bytes) -> bool:
    is_named = name.endswith((".pickle", ".pkl"))
    return is_named or bool(_PICKLE.match(head)) or bool(_PICKLED_MEMBERS.search(head[:300]))


def _is_archive(name: str, head: bytes) -> bool:
    return (
        head.startswith(_ARCHIVES)
        or head[_TAR_MAGIC] == b"ustar"
        or name.endswith((".zip", ".tar", ".tar.gz", ".tgz", ".7z", ".rar"))
    )


def lists_jobs(head: str) -> bool:
    """Return whether the first line is the head of what Slurm's `sacct` prints."""
    names = {name.strip().lower() for name in re.split(r"[|,;\s]+", head)}
    return len(names & _JOB_FIELDS) >= _LEAST_JOB_FIELDS


def _is_of_jobs(name: str, head: bytes) -> bool:
    first = next((line for line in head.decode(errors="replace").splitlines() if line.strip()), "")
    return lists_jobs(first)


_KINDS = (
    _Kind(
        _named(".pt", ".pth", ".ckpt", ".safetensors", ".h5", ".onnx"),
        "a model's weights, not a recording",
    ),
    _Kind(
        _is_pickle,
        "a pickle, as PyTorch's memory snapshots are: reading one may run any program, so it is "
        "never opened. Look at a snapshot with https://pytorch.org/memory_viz, and import a trace "
        "of torch.profiler",
    ),
    _Kind(
        _named(".nsys-rep", ".qdrep"),
        "a report that only Nsight Systems can read. Export it, and import the result: "
        "`nsys export --type sqlite -o profile.sqlite REPORT.nsys-rep`",
    ),
    _Kind(
        _named(".ncu-rep"),
        "a report of Nsight Compute, which measures single kernels. Record with `nsys profile`",
    ),
    _Kind(_is_archive, "a packed archive. Unpack it, and import the folder"),
    _Kind(
        _says(b"| NVIDIA-SMI "),
        f"the table that nvidia-smi prints for people. Record with {_RECORD}",
    ),
    _Kind(
        _says(b"==NVSMI LOG==", b"<nvidia_smi_log>"),
        f"what `nvidia-smi -q` prints for people. Record with {_RECORD}",
    ),
    _Kind(
        _says(b"ROCm System Management Interface", b"ROCm SMI Log", b"| AMD-SMI "),
        "the table that AMD's tools print for people. Record with "
        "`amd-smi monitor --csv --watch 1 --file gpus.csv`",
    ),
    _Kind(
        lambda name, head: bool(re.search(rb"^\[\d+\] [^|\n]+\|[^|\n]+\|", head, re.MULTILINE)),
        "what gpustat prints for people. Record with `gpustat --json --interval 1 >> gpus.json`",
    ),
    _Kind(
        _says(b"NVITOP "),
        "what nvitop prints for people. Collect with nvitop's ResourceMetricCollector into a CSV "
        f"file, or record with {_RECORD}",
    ),
    _Kind(
        _is_of_jobs,
        "what Slurm's sacct prints: when jobs ran, not what their machines did. Import what "
        "recorded the machines, and name the machine with --instance-type",
    ),
    _Kind(
        _named(".html", ".htm", ".ipynb", ".pdf", ".png"),
        "a report for people. Import the files that it was made of",
    ),
    _Kind(
        lambda name, head: name.rpartition("/")[2] in ("mlflow.db", "meta.yaml"),
        "MLflow's own storage. Start its server, and import the run by its address: "
        "mlflow+http://HOST/#/experiments/1/runs/RUN_ID",
    ),
    _Kind(
        lambda name, head: name.endswith(".wandb"),
        "W&B's, but no run file that can be read. Import the folder `wandb/run-...` or "
        "`wandb/offline-run-...` with its run-ID.wandb",
    ),
    _Kind(
        lambda name, head: (
            name.endswith(("debug.log", "debug-internal.log"))
            or re.search(r"(?:^|/)(?:offline-)?run-[^/]*/", name) is not None
        ),
        "a log of W&B; its run file run-ID.wandb is missing. Import the folder `wandb/run-...` or "
        "`wandb/offline-run-...` that has it",
    ),
    _Kind(
        lambda name, head: name.endswith((".sqlite", ".db")),
        "a database, but no export of Nsight Systems that can be read. Export it again: "
        "`nsys export --type sqlite`",
    ),
    _Kind(
        lambda name, head: re.search(rb'"tid"\s*:\s*"(?:worker|raylet|driver)', head) is not None,
        "a timeline of Ray: when its tasks ran, not what the GPUs did. Record the workers with "
        f"torch.profiler, or their machines with {_RECORD}",
    ),
    _Kind(
        lambda name, head: name.endswith(".gz"),
        "gzip'd, but what it has is no recording, or the file is damaged. Copy it again, and "
        "compare the sizes",
    ),
    _Kind(
        lambda name, head: name.endswith((".json", ".jsonl")),
        "JSON, but no trace of PyTorch's profiler, no recording of DCGM, gpustat or SageMaker, "
        "and no answer of Prometheus",
    ),
)
"""The first that a file looks like says why."""


def why_unrecognised(source: Source, known: Sequence[str]) -> str:
    """Return why nothing in the folder can be imported, without a full stop."""
    count = len(source.sizes)
    if not any(source.sizes.values()):
        return "the file is empty" if count == 1 else f"all of its {count:,} files are empty"
    for kind in _KINDS:
        path = next((path for path, head in _heads(source) if kind.looks(path.lower(), head)), None)
        if path is not None:
            return f"{path.rpartition('/')[2]} is {kind.why}"
    files = "1 file" if count == 1 else f"{count:,} files"
    return f"no known format in its {files}. Known formats: {', '.join(known)}"


def _heads(source: Source) -> Iterator[tuple[str, bytes]]:
    for path, size in islice(source.sizes.items(), _MOST_FILES):
        if size:
            yield path, source.beginning(path, _HEAD_BYTES) or source.head(path, _HEAD_BYTES)
