"""A conversion runs in a confined process: what a file does to its reader harms nobody else."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import textwrap
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from advisor.importers.process.ending import Ending
from advisor.importers.process.task import ConversionLimits, Places, Task
from advisor.importers.stated_facts import StatedFacts
from advisor.store.folder import FolderStore

LIMITS = ConversionLimits(memory_bytes=10**9, cpu_seconds=60, wall_seconds=60, unpacked_bytes=10**8)
READER = """
import os, socket, sqlite3, subprocess, sys, time
from pathlib import Path
from advisor.importers import formats
from advisor.importers.recording import NotImportableError

class Reader:
    FORMAT = "test"

    @staticmethod
    def recognises(source):
        return True

    @staticmethod
    def open_recording(source, stated, tally):
{body}
        raise NotImportableError("read to its end")

formats.FORMATS = (Reader,)
from advisor.importers.process import __main__ as process, reading
{before}
raise SystemExit(process.main())
"""


def convert(
    tmp_path: Path, body: str, limits: ConversionLimits = LIMITS, before: str = ""
) -> Ending:
    """Convert an archive of one file with a reader that does this.

    Args:
        before: what the process does first.
    """
    folder, objects = tmp_path / "folder", tmp_path / "objects"
    folder.mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("file.csv")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"0,1\n"))
    FolderStore(objects).put("archive", packed.getvalue())
    task = Task("archive", str(objects), uuid4(), "x", ("archive",), "", StatedFacts(), limits)
    code = READER.format(body=textwrap.indent(textwrap.dedent(body), " " * 8), before=before)
    ended = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(os.getpid())],
        input=task.to_json(),
        capture_output=True,
        check=False,
    )
    ending = Ending.read(Places(folder).ending)
    assert ending is not None, ended.stderr.decode()
    assert ended.returncode == 0
    return ending


def test_it_says_what_the_reader_says(tmp_path: Path) -> None:
    ending = convert(tmp_path, "assert (source.folder / 'file.csv').read_bytes() == b'0,1\\n'")
    assert (ending.how, ending.why) == ("refused", "read to its end")
    assert 0 < ending.cpu_seconds < 60
    assert ending.unpacked_bytes == 4096


def test_a_reader_that_never_ends_is_ended_by_its_cpu_seconds(tmp_path: Path) -> None:
    ending = convert(tmp_path, "while True: pass", replace(LIMITS, cpu_seconds=4))
    assert (ending.how, ending.why) == ("refused", "it takes more than 4 s of CPU time")
    assert 3 < ending.cpu_seconds < 7


def test_a_reader_that_waits_is_ended_by_the_clock(tmp_path: Path) -> None:
    ending = convert(tmp_path, "time.sleep(600)", replace(LIMITS, wall_seconds=8))
    assert (ending.how, ending.why) == ("refused", "it takes longer than 8 s")


def test_a_reader_that_takes_all_memory_gets_none(tmp_path: Path) -> None:
    body = "kept = []\nwhile True: kept.append(bytearray(10**7))"
    ending = convert(tmp_path, body, replace(LIMITS, memory_bytes=600 * 10**6))
    assert (ending.how, ending.why) == ("refused", "it needs more than 600 MB of memory")


def test_a_reader_that_crashes_takes_nobody_with_it(tmp_path: Path) -> None:
    ending = convert(tmp_path, "os.abort()")
    assert ending.how == "died"


def test_a_file_can_not_grow_beyond_the_limit(tmp_path: Path) -> None:
    body = "with open('grown', 'wb') as file:\n    while True: file.write(bytes(10**7))"
    convert(tmp_path, body)
    assert (tmp_path / "folder" / "grown").stat().st_size == LIMITS.unpacked_bytes


@pytest.mark.parametrize("half", ["process", "reading"])
def test_a_disk_that_is_nearly_full_is_a_reason_to_wait(tmp_path: Path, half: str) -> None:
    """The disk fills while the upload is fetched, and while it is unpacked."""
    before = f"{half}.BOUNDS = type({half}.BOUNDS)(free_bytes=2**60)"
    ending = convert(tmp_path, "pass", before=before)
    assert ending.how == "away"
    assert "the disk of the service is nearly full" in ending.why


REFUSED = {
    "a socket": "socket.socket()",
    "a name": "socket.getaddrinfo('localhost', 80)",
    "a program": "subprocess.run(['/bin/true'])",
    "a shell": "os.system('true')",
    "a fork": "os.fork()",
    "a signal": "os.kill(os.getppid(), 9)",
    "another file": "open('/etc/passwd').read()",
    "another file by its bytes": "os.open(b'/etc/passwd', os.O_RDONLY)",
    "another file by a link": "Path('/proc/self/root/etc/passwd').read_bytes()",
    "another folder": "os.listdir('/')",
    "a file above": "open('../objects/archive', 'rb')",
    "writing outside": "open('/tmp/trimtab-outside', 'w')",
    "writing into a library": "open(os.path.join(sys.prefix, 'trimtab-outside'), 'w')",
    "removing": "os.remove('../objects/archive')",
    "a link to outside": "os.symlink('/etc', '/tmp/trimtab-outside')",
    "moving out": "os.rename('archive', '/tmp/trimtab-outside')",
    "another database": "sqlite3.connect('file:/var/lib/trimtab%2Dx?mode=rwc', uri=True)",
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_reader_may_not_reach_what_is_not_its_own(tmp_path: Path, name: str) -> None:
    body = (
        f"try:\n    {REFUSED[name]}\n"
        "except PermissionError as error:\n"
        "    raise NotImportableError(f'kept from it: {error}')"
    )
    assert convert(tmp_path, body).why.startswith("kept from it: a conversion may not do this")


def test_its_network_is_another_one_where_the_kernel_allows_that(tmp_path: Path) -> None:
    """Beneath Python as well."""
    may = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    own = convert(tmp_path, "raise NotImportableError(os.readlink('/proc/self/ns/net'))").why
    assert own.startswith("net:")
    assert (own != str(Path("/proc/self/ns/net").readlink())) == (may.returncode == 0)
