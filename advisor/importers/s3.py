"""Reads `s3://BUCKET/PREFIX` into a folder: streamed, within bounds, and after a kill only what is
missing.

Error messages don't name the bucket: a service shows them to people who may not know it.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.importers.bounds import BOUNDS, Bounds, ensure_space, to_safe_path
from advisor.importers.recording import NotImportableError
from advisor.importers.sagemaker.layout import layout, training_jobs
from advisor.importers.source import Source
from advisor.importers.tally import Tally

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX_CHARS = 1024
INNER = frozenset(
    [
        "profiler-output",
        "rule-output",
        "system",
        "framework",
        "incremental",
        "pevents",
        "profiler-reports",
    ]
)
"""Folders within that of a training job."""
_THREADS, _BATCH = 8, 256
_TRIES = 3
_PIECE_BYTES = 1024 * 1024
_CONTENT, _PARTLY, _FETCHED = "content", "partly", "fetched"
_DENIED = {"AccessDenied", "AllAccessDisabled", "403", "Forbidden"}
_REFUSED = {
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}
_CHANGED = {"412", "PreconditionFailed", "NoSuchKey", "404"}

Progress = Callable[[int, int], object]
"""A function that takes how many files are there, and how many there are to be."""


class SourceAwayError(RuntimeError):
    """The bucket can't be read now, and may be later."""


@dataclass(frozen=True)
class Address:
    """A prefix of a bucket, as a folder.

    Attributes:
        prefix: without slashes at its ends; empty: the whole bucket.
    """

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read `s3://BUCKET/PREFIX`.

        Raises:
            NotImportableError: another form.
        """
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        prefix = prefix.strip("/")
        is_whole = url.startswith("s3://") and _BUCKET.fullmatch(bucket)
        # HTTP clients leave out `..`, and so would ask for another key.
        is_plain = prefix.isprintable() and not {"", ".", ".."} & set(f"{prefix or 'x'}".split("/"))
        if not is_whole or not is_plain or len(prefix) > _PREFIX_CHARS:
            raise NotImportableError("not an address of the form s3://BUCKET/PREFIX")
        return cls(bucket, prefix)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def job_folder(self) -> Address:
        """Return the folder of the training job, if this is a part of it."""
        parts = self.prefix.split("/")
        while len(parts) > 1 and parts[-1] in INNER:
            parts.pop()
        return Address(self.bucket, "/".join(parts))

    @property
    def name(self) -> str:
        """Return the name of that folder, or the bucket's if there is none."""
        return self.job_folder.prefix.rpartition("/")[2] or self.bucket

    def holds(self, other: Address) -> bool:
        """Return whether the other one is this folder, or within it."""
        return self.bucket == other.bucket and f"{other.prefix}/".startswith(
            f"{self.prefix}/" if self.prefix else ""
        )


@dataclass(frozen=True)
class _Object:
    key: str
    path: str
    """The path within the folder."""
    size_bytes: int
    etag: str


def connect_to_s3() -> Any:
    """Return a client of S3. Credentials, region and AWS_ENDPOINT_URL are as boto3 finds them."""
    # boto3 takes 30 MB, so only processes that query AWS import it.
    import boto3
    from botocore.config import Config

    retries: Any = {"mode": "standard", "max_attempts": 5}
    # A session of its own looks for credentials anew: those of a service may be renewed.
    return boto3.session.Session().client(
        "s3",
        config=Config(
            retries=retries,
            connect_timeout=10,
            read_timeout=30,
            max_pool_connections=_THREADS,
        ),
    )


def fetch(
    address: Address,
    folder: Path,
    tally: Tally,
    *,
    alive: Callable[[], object] = lambda: None,
    progress: Progress = lambda done, of: None,
    bounds: Bounds = BOUNDS,
) -> Source:
    """Copy the objects below an address into a folder. What an earlier call copied stays, if the
    object is still the same.

    Args:
        alive: called now and then.

    Raises:
        NotImportableError: it can't be read, has nothing, too much, or several training jobs.
        SourceAwayError: try again later.
    """
    with _explained():
        client = connect_to_s3()
        wanted = _wanted(list(_listed(client, address, tally, alive, bounds)), address, tally)
        if sum(each.size_bytes for each in wanted) > bounds.unpacked_bytes:
            most_gib = bounds.unpacked_bytes // 2**30
            raise NotImportableError(f"more than {most_gib} GiB. Import a part of the files.")
        content, known = folder / _CONTENT, _fetched(folder)
        shutil.rmtree(folder / _PARTLY, ignore_errors=True)
        for each in (content, folder / _PARTLY):
            each.mkdir(parents=True, exist_ok=True)
        _remove_others(content, {one.path for one in wanted})
        missing = [one for one in wanted if not _is_there(one, content, known)]
        ensure_space(content, bounds, sum(each.size_bytes for each in missing))
        done = len(wanted) - len(missing)
        progress(done, len(wanted))
        with (folder / _FETCHED).open("a", encoding="utf-8") as fetched:
            for copied in _copied(client, address.bucket, folder, missing):
                fetched.write(json.dumps([copied.path, copied.size_bytes, copied.etag]) + "\n")
                fetched.flush()
                done += 1
                alive()
                progress(done, len(wanted))
    return Source(content, address.name)


def _listed(
    client: Any,
    address: Address,
    tally: Tally,
    alive: Callable[[], object],
    bounds: Bounds,
) -> Iterator[_Object]:
    """Yield the objects below the address. Raises NotImportableError beyond the bounds, or without
    any object.
    """
    files, folders = 0, set[Path]()
    for entry in _entries(client, address):
        if entry["Key"].endswith("/"):
            continue
        files += 1
        if files + len(folders) > bounds.files:
            raise NotImportableError(
                f"more than {bounds.files:,} files and folders. Import a part of them."
            )
        name = entry["Key"].removeprefix(f"{address.prefix}/" if address.prefix else "")
        path = to_safe_path(
            name.rpartition("/")[2] if entry["Key"] == address.prefix else name, bounds
        )
        if path is None:
            tally.skip("files", "a path that isn't one inside the folder", 1, name)
        else:
            folders.update(list(path.parents)[:-1])
            yield _Object(entry["Key"], path.as_posix(), entry["Size"], entry["ETag"])
        if not files % 1000:
            alive()
    if not files:
        raise NotImportableError(
            "there are no objects below this prefix. Name the folder of a training job, which has "
            "profiler-output."
        )


def _entries(client: Any, address: Address) -> Iterator[dict[str, Any]]:
    """Yield the objects below the prefix, or the one that it names."""
    pages = client.get_paginator("list_objects_v2")
    below = f"{address.prefix}/" if address.prefix else ""
    found = False
    for page in pages.paginate(Bucket=address.bucket, Prefix=below):
        found = found or bool(page.get("Contents"))
        yield from page.get("Contents", ())
    if not found and address.prefix:
        one = client.list_objects_v2(Bucket=address.bucket, Prefix=address.prefix, MaxKeys=1)
        yield from (each for each in one.get("Contents", ()) if each["Key"] == address.prefix)


def _wanted(found: Sequence[_Object], address: Address, tally: Tally) -> list[_Object]:
    """Return the objects without the files of a training job that no importer reads, such as its
    tensors.
    """
    jobs = sorted(training_jobs(each.path for each in found))
    if len(jobs) > 1:
        raise NotImportableError(
            f"there are {len(jobs):,} training jobs below this prefix. Name the folder of one, "
            f"such as {jobs[-1]}."
        )
    sorted_out = layout([each.path for each in found], address.name)
    has_steps = any(each.kind != "trace" for each in sorted_out.timelines)
    unread: set[str] = set()
    if sorted_out.system or sorted_out.reports or has_steps:
        for why, paths in sorted_out.others.items():
            tally.skip("files", why, len(paths), paths[0])
            unread.update(paths)
    return [each for each in found if each.path not in unread]


def _fetched(folder: Path) -> dict[str, tuple[int, str]]:
    """Return path -> size and ETag of what earlier calls copied."""
    known: dict[str, tuple[int, str]] = {}
    with suppress(FileNotFoundError), (folder / _FETCHED).open(encoding="utf-8") as lines:
        for line in lines:
            with suppress(ValueError):  # cut off by a kill
                path, size_bytes, etag = json.loads(line)
                known[path] = size_bytes, etag
    return known


def _is_there(each: _Object, content: Path, known: dict[str, tuple[int, str]]) -> bool:
    if known.get(each.path) != (each.size_bytes, each.etag):
        return False
    with suppress(OSError):
        return (content / each.path).stat().st_size == each.size_bytes
    return False


def _remove_others(content: Path, wanted: set[str]) -> None:
    """Remove what an earlier call copied, and is no longer there."""
    for path in content.rglob("*"):
        if path.is_file() and path.relative_to(content).as_posix() not in wanted:
            path.unlink()


def _copied(
    client: Any, bucket: str, folder: Path, missing: Sequence[_Object]
) -> Iterator[_Object]:
    """Yield each object once it is copied."""

    def copy(each: _Object) -> _Object:
        _copy(client, bucket, folder, each)
        return each

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="s3") as pool:
        # A future for each of 500,000 objects would be much memory.
        for first in range(0, len(missing), _BATCH):
            copies = [pool.submit(copy, each) for each in missing[first : first + _BATCH]]
            try:
                yield from (done.result() for done in as_completed(copies))
            finally:
                for each in copies:
                    each.cancel()


def _copy(client: Any, bucket: str, folder: Path, each: _Object) -> None:
    """Copy the whole object or nothing. Raises botocore's errors."""
    from botocore.exceptions import BotoCoreError

    target = folder / _CONTENT / each.path
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in reversed(range(_TRIES)):
        try:
            answer = client.get_object(Bucket=bucket, Key=each.key, IfMatch=each.etag)
            with tempfile.NamedTemporaryFile(dir=folder / _PARTLY, delete=False) as file:
                shutil.copyfileobj(answer["Body"], file, _PIECE_BYTES)
            Path(file.name).replace(target)
        except BotoCoreError:
            if not left:
                raise
        else:
            return


@contextmanager
def _explained() -> Iterator[None]:
    """Turn boto3's exceptions into NotImportableError and SourceAwayError."""
    from botocore import exceptions as boto

    no_credentials = (
        boto.NoCredentialsError,
        boto.PartialCredentialsError,
        boto.CredentialRetrievalError,
        boto.ProfileNotFound,
        boto.SSOError,
        boto.TokenRetrievalError,
    )
    try:
        yield
    except no_credentials as error:
        raise NotImportableError(
            f"no AWS credentials: {error}. Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY; for a service, where its worker runs."
        ) from None
    except boto.ClientError as error:
        raise _of_answer(error) from None
    except boto.BotoCoreError as error:
        raise SourceAwayError(f"S3 doesn't answer: {type(error).__name__}") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise NotImportableError(
            "an object has the name of a folder of others. Import a part of them."
        ) from None


def _of_answer(error: ClientError) -> Exception:
    code = str(error.response.get("Error", {}).get("Code", ""))
    operation = error.operation_name
    if code in _DENIED:
        return NotImportableError(
            f"access denied ({operation}). The AWS credentials need s3:ListBucket on the bucket, "
            "s3:GetObject on its objects, and kms:Decrypt if a key of yours encrypts them."
        )
    if code == "NoSuchBucket":
        return NotImportableError("there is no such bucket")
    if code in _REFUSED:
        return NotImportableError(f"AWS refuses the credentials ({code}). Renew them.")
    if code == "InvalidObjectState":
        return NotImportableError("some objects are archived. Restore them from Glacier first.")
    if code in _CHANGED:
        return SourceAwayError("an object was changed or deleted while it was read")
    return SourceAwayError(f"S3 answers {code or 'an error'} to {operation}")
