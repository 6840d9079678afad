"""A bucket of moto's S3 server, for tests of the store and of the service on it."""

from __future__ import annotations

import os

import boto3
import pytest
from moto.server import ThreadedMotoServer


@pytest.fixture(scope="session")
def s3_endpoint():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket_url(s3_endpoint, monkeypatch) -> str:
    """Return the address of a prefix in a new bucket."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    bucket = f"trimtab-{os.urandom(4).hex()}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    return f"s3://{bucket}/some/prefix"
