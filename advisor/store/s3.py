"""Objects in an S3 bucket, for any number of web and worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import IO, Any, BinaryIO

import boto3
from botocore.exceptions import ClientError

from advisor.store.objects import ObjectMissingError, StoredObject, checked

_MISSING = {"404", "NoSuchKey"}


class S3Store:
    """One prefix of one bucket. Credentials, region and AWS_ENDPOINT_URL as boto3 finds them."""

    def __init__(self, bucket: str, prefix: str = "") -> None:
        self.bucket = bucket
        self.prefix = f"{prefix}/" if prefix else ""
        self._client: Any = boto3.client("s3")

    def put(self, key: str, body: bytes) -> None:
        self._client.put_object(Bucket=self.bucket, Key=self._name(key), Body=body)

    def put_file(self, key: str, file: IO[bytes]) -> None:
        file.seek(0)
        self._client.put_object(Bucket=self.bucket, Key=self._name(key), Body=file)

    def get(self, key: str) -> bytes:
        with self.open(key) as body:
            return body.read()

    def open(self, key: str) -> BinaryIO:
        try:
            answer = self._client.get_object(Bucket=self.bucket, Key=self._name(key))
        except ClientError as error:
            raise self._missing_or(error, key) from None
        body: BinaryIO = answer["Body"]
        return body

    def exists(self, key: str) -> bool:
        try:
            self._client.head_object(Bucket=self.bucket, Key=self._name(key))
        except ClientError as error:
            if isinstance(self._missing_or(error, key), ObjectMissingError):
                return False
            raise
        return True

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.bucket, Key=self._name(key))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        pages = self._client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix):
            for entry in page.get("Contents", ()):
                key = entry["Key"].removeprefix(self.prefix)
                yield StoredObject(key, entry["Size"], entry["LastModified"])

    def tidy(self, before: datetime) -> None:
        """A bucket has neither partial writes nor folders."""

    def _name(self, key: str) -> str:
        return self.prefix + checked(key)

    @staticmethod
    def _missing_or(error: ClientError, key: str) -> Exception:
        return ObjectMissingError(key) if error.response["Error"]["Code"] in _MISSING else error
