"""The description of a job whose files are in S3, from SageMaker's own DescribeTrainingJob."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from advisor.importers import formats, sagemaker
from advisor.importers.described_job import from_describe
from advisor.importers.recording import NotImportableError
from advisor.importers.s3 import Address, connect_to_s3
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally

_OUTPUTS = (
    ("ProfilerConfig", "S3OutputPath"),
    ("DebugHookConfig", "S3OutputPath"),
    ("OutputDataConfig", "S3OutputPath"),
)


def describe_job(address: Address, source: Source, tally: Tally) -> StatedFacts:
    """Return machine, region, billed times and hyperparameters of the job that the folder is named
    after. Empty, with a note, if AWS doesn't say; empty for other recordings than SageMaker's.

    Args:
        source: what was fetched from the address.

    A description counts only if the job wrote to this folder: anyone who may write to a bucket
    could name a folder after somebody else's job.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    name, found = address.name, formats.find_format(source)
    if found is None or found.FORMAT != sagemaker.FORMAT:
        return StatedFacts()
    try:
        document = _asked(address.bucket, name)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        tally.note(_without(f"SageMaker answers {code} to DescribeTrainingJob of {name}"))
        return StatedFacts()
    except BotoCoreError as error:
        tally.note(_without(f"SageMaker isn't reached: {type(error).__name__}"))
        return StatedFacts()
    if address.job_folder not in _folders(document, name):
        tally.note(_without(f"the training job {name} wrote to another place"))
        return StatedFacts()
    return from_describe(document)


def _without(why: str) -> str:
    return f"Machine and billed times aren't known from AWS: {why}."


def _asked(bucket: str, name: str) -> dict[str, Any]:
    """Return AWS's answer, with times as texts. Raises botocore's errors."""
    import boto3

    place = connect_to_s3().head_bucket(Bucket=bucket)
    headers = place["ResponseMetadata"]["HTTPHeaders"]
    region = place.get("BucketRegion") or headers.get("x-amz-bucket-region")
    # A job's output is in its own region.
    client = boto3.session.Session().client("sagemaker", region_name=region)
    answer = client.describe_training_job(TrainingJobName=name)
    document: dict[str, Any] = json.loads(json.dumps(answer, default=str))
    return document


def _folders(document: dict[str, Any], name: str) -> Iterator[Address]:
    for part, field in _OUTPUTS:
        said = document.get(part)
        path = said.get(field) if isinstance(said, dict) else None
        if isinstance(path, str):
            try:
                yield Address.parse(f"{path.rstrip('/')}/{name}")
            except NotImportableError:
                continue
