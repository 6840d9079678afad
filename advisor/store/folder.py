"""Objects as files: the default, for one machine."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, BinaryIO

from advisor.store.objects import ObjectMissingError, StoredObject, check_key

_TEMPORARY = ".tmp-"
_PIECE_BYTES = 1024 * 1024


class FolderStore:
    """Objects as files below one folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def put(self, key: str, body: bytes) -> None:
        self.put_file(key, io.BytesIO(body))

    def is_new(self, key: str) -> bool:
        return not self.exists(key)

    def put_all(self, bodies: Sequence[tuple[str, bytes]]) -> list[Exception | None]:
        for place, (key, body) in enumerate(bodies):
            try:
                self.put(key, body)
            except OSError as error:
                return [None] * place + [error] * (len(bodies) - place)
        return [None] * len(bodies)

    def put_file(self, key: str, file: IO[bytes]) -> None:
        folder, _, name = f"{self.folder}/{check_key(key)}".rpartition("/")
        try:
            self._write(folder, name, file)
        except FileNotFoundError:  # `tidy` has just removed the empty folder, or it is new
            self._make_folder(Path(folder))
            self._write(folder, name, file)

    def _write(self, folder: str, name: str, source: IO[bytes]) -> None:
        """Write the object whole, with paths as text: each upload comes here. Raises
        FileNotFoundError if there is no such folder.
        """
        source.seek(0)
        temporary = f"{folder}/{_TEMPORARY}{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - it is open
                shutil.copyfileobj(source, file, _PIECE_BYTES)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, f"{folder}/{name}")  # noqa: PTH105
        except OSError:  # A full disk should not keep the incomplete file.
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(folder)

    def _make_folder(self, path: Path) -> None:
        """Make the folder with mode 0700 down from the store's own folder: the mode of `parents` is
        the umask's.

        Each folder is durable before something is put into it.
        """
        if path.is_dir():
            return
        if path == self.folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        else:
            self._make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        _sync_folder(path.parent)

    def get(self, key: str) -> bytes:
        try:
            return (self.folder / check_key(key)).read_bytes()
        except FileNotFoundError:
            raise ObjectMissingError(key) from None

    def open(self, key: str) -> BinaryIO:
        try:
            return (self.folder / check_key(key)).open("rb")
        except FileNotFoundError:
            raise ObjectMissingError(key) from None

    def exists(self, key: str) -> bool:
        try:
            return stat.S_ISREG(os.stat(f"{self.folder}/{check_key(key)}").st_mode)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return False

    def delete(self, key: str) -> None:
        (self.folder / check_key(key)).unlink(missing_ok=True)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        top = self.folder / prefix.rpartition("/")[0]
        for path in sorted(top.rglob("*")):
            key = path.relative_to(self.folder).as_posix()
            if key.startswith(prefix) and not path.name.startswith(_TEMPORARY):
                yield from _described(path, key)

    def tidy(self, before: datetime) -> None:
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if _changed_at(path) >= before:
                continue
            if path.name.startswith(_TEMPORARY):
                path.unlink(missing_ok=True)
            elif path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def _described(path: Path, key: str) -> Iterator[StoredObject]:
    """Yield the object; nothing for a folder, or for an object that is being deleted."""
    try:
        if path.is_file():
            yield StoredObject(key, path.stat().st_size, _changed_at(path))
    except FileNotFoundError:
        return


def _changed_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _sync_folder(folder: Path | str) -> None:
    """Make the new name durable, too: a power loss may undo a rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
