"""Fetches, has a confined child convert, and stores what it made. See the package."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from advisor.importers.bounds import BOUNDS, NoSpaceError, ensure_space
from advisor.importers.process import confinement, conversion_result, refusal
from advisor.importers.process.ending import Ending, How
from advisor.importers.process.reading import AWAY, CONVERTED, read_confined
from advisor.importers.process.task import Places, Task
from advisor.importers.recording import NotImportableError
from advisor.importers.s3 import SourceAwayError
from advisor.importers.tally import Tally
from advisor.store.folder import FolderStore
from advisor.store.objects import StoreAwayError
from advisor.store.opening import open_store

LOOK_SECONDS = 0.05
STAGE_EVERY_SECONDS = 2.0
_PIECE_BYTES = 1024 * 1024


def main() -> int:
    """Carry out the task of standard input in the folder that the arguments name."""
    folder, parent = sys.argv[1:]
    confinement.end_with_parent(int(parent))
    confinement.give_way()
    places = Places(Path(folder))
    os.chdir(folder)
    task = Task.from_json(sys.stdin.buffer.read())
    with _locked(places) as is_ours:
        if not is_ours:
            return 0
        for path in (places.ending, places.converted, places.refused):
            path.unlink(missing_ok=True)
        _carry_out(task, places).write(places.ending)
    return 0


@contextmanager
def _locked(places: Places) -> Iterator[bool]:
    """Yield whether this process alone works in the folder, until the block ends."""
    with places.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _carry_out(task: Task, places: Places) -> Ending:
    ends_at = time.monotonic() + task.limits.wall_seconds
    say = _Stage(places.stage)
    try:
        task, tally = _fetch(task, places, say)
        ending = _convert(task, places, tally, say, ends_at)
        if ending.how == "converted":
            say("Storing")
            _store(task, places)
    except (NoSpaceError, SourceAwayError) as error:
        return Ending("away", str(error))
    except NotImportableError as error:
        return Ending("refused", str(error))
    except (StoreAwayError, OSError) as error:
        return Ending("away", f"{type(error).__name__}: {error}")
    return ending


class _Stage:
    """Writes what is being done, for the process that started this one."""

    def __init__(self, path: Path) -> None:
        self._path, self._next = path, 0.0

    def __call__(self, stage: str, is_new: bool = True) -> None:
        """Tell the stage: at once if it is new, else at most every 2 s."""
        if is_new or time.monotonic() >= self._next:
            self._next = time.monotonic() + STAGE_EVERY_SECONDS
            self._path.write_text(stage, encoding="utf-8")


def _fetch(task: Task, places: Places, say: _Stage) -> tuple[Task, Tally]:
    """Copy what is to be read into the folder. Returns the task with what AWS says of it."""
    tally = Tally()
    if task.what == "s3":
        return _fetch_from_s3(task, places, tally, say), tally
    for path in (places.content, places.objects):
        shutil.rmtree(path, ignore_errors=True)
    say("Fetching")
    if task.what == "archive":
        target = places.archive
    else:
        places.content.mkdir()
        # Its name says whether it is compressed.
        target = places.content / (Path(task.name).name or "profile")
    store = open_store(task.objects_url)
    with target.open("wb") as file:
        for key in task.keys:
            ensure_space(places.folder, BOUNDS, 0)
            with closing(store.open(key)) as part:
                shutil.copyfileobj(part, file, _PIECE_BYTES)
    return task, tally


def _fetch_from_s3(task: Task, places: Places, tally: Tally, say: _Stage) -> Task:
    from advisor.importers import s3
    from advisor.importers.described_by_aws import describe_job

    def progress(done: int, of: int) -> None:
        say(f"Fetching: {done:,} of {of:,} files", is_new=done in (0, of))

    say("Listing")
    address = s3.Address.parse(task.source)
    source = s3.fetch(address, places.folder, tally, progress=progress)
    shutil.rmtree(places.objects, ignore_errors=True)
    stated = task.stated
    if not stated.training_job:
        stated = stated.fill_gaps_from(describe_job(address, source, tally))
    return replace(task, name=source.name, stated=stated)


def _convert(task: Task, places: Places, tally: Tally, say: _Stage, ends_at: float) -> Ending:
    """Have a confined child convert what was fetched, and wait for it."""
    parent = os.getpid()
    child = os.fork()
    if not child:
        confinement.end_with_parent(parent)
        os._exit(read_confined(task, places, tally, say))
    status, cpu_seconds = _waited(child, ends_at)
    used = Ending("died", "", cpu_seconds, _bytes_on_disk(places.content))
    if status is None:
        limit = f"{task.limits.wall_seconds:,} s"
        return replace(used, how="refused", why=f"it takes longer than {limit}")
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        limit = f"{task.limits.cpu_seconds:,} s of CPU time"
        return replace(used, how="refused", why=f"it takes more than {limit}")
    code = os.waitstatus_to_exitcode(status)
    if code not in (CONVERTED, AWAY):
        return replace(used, why=f"the conversion ended with status {code}")
    if places.refused.exists():
        how: How = "away" if code == AWAY else "refused"
        refused = refusal.read(places.refused)
        return replace(used, how=how, why=refused.why, left_out=refused.left_out)
    return replace(used, how="converted")


def _waited(child: int, ends_at: float) -> tuple[int | None, float]:
    """Wait for the child, and return its status (None if it was killed, because it took too long)
    and its CPU seconds.
    """
    is_late = False
    while True:
        pid, status, used = os.wait4(child, os.WNOHANG)
        if pid:
            return None if is_late else status, used.ru_utime + used.ru_stime
        if not is_late and time.monotonic() > ends_at:
            is_late = True
            os.kill(child, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


def _bytes_on_disk(folder: Path) -> int:
    """Return the room that a folder's files take."""
    sizes = (
        (Path(place) / name).lstat().st_blocks * 512
        for place, _, names in os.walk(folder)
        for name in names
    )
    return sum(sizes)


def _store(task: Task, places: Places) -> None:
    """Put the converted objects into the store."""
    made, store = FolderStore(places.objects), open_store(task.objects_url)
    for node in conversion_result.read(places.converted, task.run_id).nodes:
        for ref in node.chunks:
            store.put(ref.key, made.get(ref.key))


if __name__ == "__main__":
    sys.exit(main())
