"""Objects in an S3 bucket, for any number of web and worker processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any, BinaryIO

import boto3
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from advisor.store.objects import ObjectMissingError, StoreAwayError, StoredObject, check_key

AT_ONCE = 10
"""Connections to the bucket; boto3 keeps as many."""
_MISSING = {"404", "NoSuchKey"}


class S3Store:
    """One prefix of one bucket. Credentials, region and AWS_ENDPOINT_URL as boto3 finds them.

    Every method raises `StoreAwayError` while the bucket can't be used.
    """

    def __init__(self, bucket: str, prefix: str = "") -> None:
        self.bucket = bucket
        self.prefix = f"{prefix}/" if prefix else ""
        self._client: Any = boto3.client("s3")

    def put(self, key: str, body: bytes) -> None:
        self._put(key, body)

    def is_new(self, key: str) -> bool:
        return True

    def put_all(self, bodies: Sequence[tuple[str, bytes]]) -> list[Exception | None]:
        failed: list[Exception] = []

        def tried(each: tuple[str, bytes]) -> Exception | None:
            if failed:
                return failed[0]
            try:
                self._put(*each)
            except StoreAwayError as error:
                failed.append(error)
                return error
            return None

        if len(bodies) < 2:
            return [tried(each) for each in bodies]
        # Nearly all of the time of each is waiting for the answer.
        with ThreadPoolExecutor(min(len(bodies), AT_ONCE)) as threads:
            return [*threads.map(tried, bodies)]

    def put_file(self, key: str, file: IO[bytes]) -> None:
        file.seek(0)
        self._put(key, file)

    def _put(self, key: str, body: bytes | IO[bytes]) -> None:
        name = self._name(key)
        with _answers(key):
            self._client.put_object(Bucket=self.bucket, Key=name, Body=body)

    def get(self, key: str) -> bytes:
        with self.open(key) as body, _answers(key):
            return body.read()

    def open(self, key: str) -> BinaryIO:
        name = self._name(key)
        with _answers(key):
            answer = self._client.get_object(Bucket=self.bucket, Key=name)
        body: BinaryIO = answer["Body"]
        return body

    def exists(self, key: str) -> bool:
        name = self._name(key)
        try:
            with _answers(key):
                self._client.head_object(Bucket=self.bucket, Key=name)
        except ObjectMissingError:
            return False
        return True

    def delete(self, key: str) -> None:
        name = self._name(key)
        with _answers(key):
            self._client.delete_object(Bucket=self.bucket, Key=name)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        pages = self._client.get_paginator("list_objects_v2")
        with _answers(prefix):
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix):
                for entry in page.get("Contents", ()):
                    key = entry["Key"].removeprefix(self.prefix)
                    yield StoredObject(key, entry["Size"], entry["LastModified"])

    def tidy(self, before: datetime) -> None:
        """Do nothing: a bucket has neither partial writes nor folders."""

    def _name(self, key: str) -> str:
        return self.prefix + check_key(key)


@contextmanager
def _answers(key: str) -> Iterator[None]:
    """Turn boto3's exceptions into `ObjectMissingError` and `StoreAwayError`."""
    try:
        yield
    except ParamValidationError:
        raise
    except ClientError as error:
        if error.response["Error"]["Code"] in _MISSING:
            raise ObjectMissingError(key) from None
        raise StoreAwayError(str(error)) from error
    except BotoCoreError as error:
        raise StoreAwayError(str(error)) from error
