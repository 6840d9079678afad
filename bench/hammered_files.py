"""Uploads that cost an importer as much as they can: for each format an honest and large one, and
hostile ones."""

from __future__ import annotations

import gzip
import io
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.imports import folders, messages, nsys_files, test_torch_trace, test_xspace

SECONDS, STEPS, EVENTS, LINES = 900, 50_000, 200_000, 300_000


def archives() -> dict[str, bytes]:
    """Return name -> tar.gz."""
    made = {name: _packed(write) for name, write in _FOLDERS.items()}
    return made | {"sparse": _sparse(), "folders": _folders(), "quiet": _zeros()}


def small_table() -> bytes:
    """Return an honest upload of sixty lines."""
    return _packed(lambda folder: _table(folder, 60))


def _packed(write: Callable[[Path], object]) -> bytes:
    body = io.BytesIO()
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        with tarfile.open(fileobj=body, mode="w:gz") as archive:
            archive.add(name, arcname=".")
    return body.getvalue()


def _table(folder: Path, lines: int) -> None:
    rows = (f"{1_767_225_600 + second},{second % 100}" for second in range(lines))
    (folder / "table.csv").write_text("\n".join(["time,host.cpu_busy_pct", *rows]))


def _smi(folder: Path) -> None:
    head = "timestamp, index, utilization.gpu [%], power.draw [W]"
    rows = (
        f"2026/01/{1 + n // 86_400:02} {n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}.000, "
        f"0, {n % 100} %, {n % 300}.00 W"
        for n in range(LINES)
    )
    (folder / "gpus.csv").write_text("\n".join([head, *rows]))


def _scalars(folder: Path) -> None:
    values = (messages.scalar("loss", 1 / (n + 1), n, n / 10) for n in range(STEPS))
    messages.event_file(folder, messages.session({"lr": 0.1}), *values)


def _wandb(folder: Path) -> None:
    records = (messages.wandb_history(n / 10, n, loss=1 / (n + 1)) for n in range(STEPS))
    messages.wandb_file(folder, [messages.wandb_run({"lr": 0.1}), *records])


def _trace(folder: Path) -> None:
    events = [test_torch_trace.event(f"op{n % 50}", n * 10.0, 9.0) for n in range(EVENTS)]
    test_torch_trace.written(folder, events)


def _xspace(folder: Path) -> None:
    events = [(f"op{n % 50}", n * 10, 9) for n in range(STEPS)]
    test_xspace.written(folder, test_xspace.threads(*events))  # type: ignore[arg-type]


def _export(folder: Path) -> None:
    export = nsys_files.Export(folder / "report.sqlite")
    for n in range(STEPS):
        export.kernel(f"kernel{n % 50}", n * 0.1, 0.09)
    export.saved()


def _view(folder: Path) -> None:
    """Make a view where a table is read: its rows are never all counted."""
    export = nsys_files.Export(folder / "report.sqlite")
    for n in range(300):
        export.kernel(f"kernel{n}", n * 10.0, 9.0)
    export.saved()
    with sqlite3.connect(folder / "report.sqlite") as database:
        name = "CUPTI_ACTIVITY_KIND_KERNEL"
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
        database.execute(f"ALTER TABLE {name} RENAME TO few")
        chosen = ", ".join(f"a.{column} AS {column}" for column in columns)
        joined = f"CREATE VIEW {name} AS SELECT {chosen} FROM few a, few b, few c, few d"  # noqa: S608
        database.execute(joined)


_FOLDERS: dict[str, Callable[[Path], object]] = {
    "sagemaker": lambda folder: folders.sagemaker(folder, seconds=SECONDS, nodes=4),
    "csv": lambda folder: _table(folder, LINES),
    "nvidia-smi": _smi,
    "tensorboard": _scalars,
    "wandb": _wandb,
    "torch trace": _trace,
    "xspace": _xspace,
    "nsys": _export,
    "nsys view": _view,
}


def _sparse() -> bytes:
    """Return one GNU sparse member of 1.5 GiB in some hundred bytes."""
    member = tarfile.TarInfo("sparse")
    member.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    block[483:495] = b"%011o " % (3 * 2**29)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return _gzipped(bytes(block))


def _folders() -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        for number in range(100_000):
            member = tarfile.TarInfo(f"{number}")
            member.type = tarfile.DIRTYPE
            archive.addfile(member)
    return body.getvalue()


def _zeros() -> bytes:
    """Return a file of 2 GiB of zeros in 2 MB."""
    member = tarfile.TarInfo("x.csv")
    member.size = 2 * 2**30
    body = io.BytesIO()
    with gzip.GzipFile(fileobj=body, mode="wb", compresslevel=1) as packed:
        packed.write(member.tobuf())
        for _ in range(2 * 2**30 // 2**24):
            packed.write(bytes(2**24))
    return body.getvalue()


def _gzipped(body: bytes) -> bytes:
    return gzip.compress(body + bytes(1024))
