"""`trimtab import PATH`: uploads a folder or file to the service, as a file of a run."""

from __future__ import annotations

import argparse
import gzip
import os
import tarfile
import tempfile
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from trimtab import identity, options
from trimtab.cli.arguments import Commands, add_server_arguments, say
from trimtab.identity import Server
from trimtab.spool import MOST_ARTEFACT_BYTES, Spool, open_spool
from trimtab.uploader import Courier

KIND = "import"
_PATIENCE_SECONDS = 60.0
_EPILOG = """
The service stores the packed folder. It doesn't convert the files: the run gets no samples, cost or
findings from them. Files are sent as they are, without redaction. Importing the same folder again
adds nothing. At most 64 MiB, compressed. Exit code: 0 uploaded; 1 kept in the spool, or refused;
2 no such path.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "import",
        help="upload a folder or file to a run, for download from its page",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser)
    parser.add_argument("path", type=Path, metavar="PATH", help="a folder, or one file")
    parser.add_argument("--job", help="name of the job; default the folder's name")
    parser.add_argument("--run", help="run id, or any name; default derived from the content")
    parser.set_defaults(handler=import_)


def import_(arguments: argparse.Namespace) -> int:
    """Returns 0 if uploaded, 1 if kept in the spool or refused, 2 if the path doesn't exist."""
    source: Path = arguments.path.absolute()
    server = options.server(arguments.url, arguments.token, os.environ)
    if not source.exists():
        say(f"{source} doesn't exist. Name a folder or a file.")
        return 2
    spool = open_spool()
    with tempfile.TemporaryDirectory(prefix="trimtab-import-") as folder:
        packed = Path(folder) / f"{source.name}.tar.gz"
        _pack(source, packed)
        run = _run(server, packed, arguments.run)
        session = str(uuid4())
        spool.add_session(session, str(run), server.destination)
        job = identity.shortened(arguments.job or os.environ.get("TRIMTAB_JOB", "") or source.name)
        size_bytes = packed.stat().st_size
        if not spool.artefacts.add(session, KIND, packed, packed.name, job):
            say(_why_not(spool, size_bytes))
            return 1
    print(f"packed {size_bytes} bytes for run {run} of job {job}")
    return _sent(spool, server, session, run)


def _sent(spool: Spool, server: Server, session: str, run: UUID) -> int:
    if not server.url:
        say("kept in the spool, because no service is set. Set TRIMTAB_URL and run `trimtab sync`.")
        return 1
    courier = Courier(spool, server, say)
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until and courier.send_one([session]) is False:
        if courier.not_allowed:
            break
        time.sleep(max(0.0, min(courier.not_before, until) - time.monotonic()))
    spool.release(session)
    if spool.artefacts.count([session]):
        say(f"kept in the spool: {courier.problem}. Run `trimtab sync` later.")
        return 1
    if courier.refused:
        return 1
    print(server.page(run))
    return 0


def _why_not(spool: Spool, size_bytes: int) -> str:
    if size_bytes > MOST_ARTEFACT_BYTES:
        limit = MOST_ARTEFACT_BYTES // 2**20
        return f"{size_bytes} bytes compressed, more than {limit} MiB. Import a part of the folder."
    return f"there is no folder for the spool: {spool.problem}. Set TRIMTAB_STATE_DIR."


def _pack(source: Path, packed: Path) -> None:
    """Equal folders give equal bytes: sorted, without owners and without the time of packing."""
    with (
        packed.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        base = source if source.is_dir() else source.parent
        for path in files:
            if path.is_file() and not path.is_symlink():
                with suppress(FileNotFoundError):
                    _add(archive, path, str(path.relative_to(base)))


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    with path.open("rb") as file:
        info = archive.gettarinfo(fileobj=file, arcname=name)
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = int(info.mtime)
        archive.addfile(info, file)


def _run(server: Server, packed: Path, said: str | None) -> UUID:
    if said:
        return identity.run_id(server, {"TRIMTAB_RUN": said})
    content = sha256(packed.read_bytes()).hexdigest()
    return uuid5(NAMESPACE_URL, f"{server.destination}/import/{content}")
