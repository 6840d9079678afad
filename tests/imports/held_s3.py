"""moto's S3 behind a server that counts, holds and refuses requests for objects."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from moto.backends import get_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class HeldS3:
    """A bucket named `bucket` on a server of its own."""

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        self.got: list[str] = []
        """The keys of objects that were asked for."""
        self.open_for: int | None = None
        """The number of objects after which the others wait for `release`; None if none waits."""
        self.denies = False
        self.interrupted_after: int | None = None
        """The number of objects after which this process gets the signal SIGUSR1, once."""
        self._gate, self._lock = threading.Event(), threading.Lock()
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def client(self, service: str = "s3") -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            region_name="us-east-1",
        )

    def put(self, folder: Path, prefix: str) -> int:
        """Put all files of a folder as objects below the prefix. Returns how many."""
        client = self.client()
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        for path in paths:
            key = f"{prefix}/{path.relative_to(folder).as_posix()}"
            client.put_object(Bucket=self.bucket, Key=key, Body=path.read_bytes())
        return len(paths)

    def release(self) -> None:
        self.open_for = None
        self._gate.set()

    def stop(self) -> None:
        self.release()
        self._server.shutdown()
        get_backend("sagemaker").reset()

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
        key = path.removeprefix(f"/{self.bucket}/")
        if environ["REQUEST_METHOD"] == "GET" and key != path and "list-type" not in query:
            if self.denies:
                start("403 Forbidden", [("Content-Type", "application/xml")])
                return [DENIED]
            with self._lock:
                self.got.append(key)
                waits = self.open_for is not None and len(self.got) > self.open_for
                if self.interrupted_after is not None and len(self.got) > self.interrupted_after:
                    self.interrupted_after = None
                    os.kill(os.getpid(), signal.SIGUSR1)
                    time.sleep(0.2)
            if waits:
                self._gate.wait(120)
        answer: Iterable[bytes] = self._app(environ, start)
        return answer


@contextmanager
def held_s3(bucket: str) -> Iterator[HeldS3]:
    s3 = HeldS3(bucket)
    try:
        s3.client().create_bucket(Bucket=bucket)
        yield s3
    finally:
        s3.stop()
