"""Files in S3 are imported as from a folder: whole, once, and no more than is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from advisor.__main__ import main
from advisor.importers import s3
from advisor.importers.bounds import Bounds
from advisor.importers.recording import NotImportableError
from advisor.importers.s3 import Address
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.offline.importing import import_path
from tests.imports.folders import TRAINING_JOB, sagemaker
from tests.imports.held_s3 import HeldS3, held_s3

PREFIX = f"jobs/{TRAINING_JOB}"


@pytest.fixture
def bucket(monkeypatch):
    with held_s3(f"sagemaker-{uuid4().hex[:8]}") as held:
        for name, value in held.variables.items():
            monkeypatch.setenv(name, value)
        yield held


@pytest.fixture
def job(bucket: HeldS3, tmp_path: Path) -> Path:
    """Return a folder whose files are in the bucket, with tensors beside them."""
    folder = sagemaker(tmp_path / "made")
    bucket.put(folder, PREFIX)
    tensors = f"{PREFIX}/debug-output/events/000000000000/000000000000_worker_0.tfevents"
    bucket.client().put_object(Bucket=bucket.bucket, Key=tensors, Body=b"x" * 1000)
    return folder


def fetched(bucket: HeldS3, folder: Path, prefix: str = PREFIX, **more: Any) -> Tally:
    tally = Tally()
    s3.fetch(Address.parse(f"s3://{bucket.bucket}/{prefix}"), folder, tally, **more)
    return tally


def offline(capsys, *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["import", *words, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out) if printed.out else {"error": printed.err}


def test_it_is_imported_without_a_service_as_from_a_folder(bucket, job, capsys):
    url = f"s3://{bucket.bucket}/{PREFIX}"
    flags = ["--instance-type", "ml.p3.2xlarge", "--region", "us-west-2", "--provider", "aws"]
    flags += ["--service", "sagemaker_training"]
    code, here = offline(capsys, url, *flags)
    assert code == 0
    _, there = offline(capsys, str(job), *flags)
    assert here["imported"]["records"] == there["imported"]["records"]
    assert (here["job"], here["cost_usd"]) == ("vision", there["cost_usd"])
    assert here["cost_usd"] is not None
    (skipped,) = here["imported"]["skipped"]
    assert (skipped["why"], skipped["count"]) == ("tensors aren't read", 1)
    assert not any("debug-output" in key for key in bucket.got), "not even fetched"


@pytest.mark.parametrize("part", ["profiler-output", "profiler-output/system/incremental"])
def test_a_part_of_a_job_is_imported_under_its_name(bucket, job, part, capsys):
    _, here = offline(capsys, f"s3://{bucket.bucket}/{PREFIX}/{part}/")
    assert here["job"] == "vision"
    assert here["imported"]["records"]["samples"] == 360 * 9


def test_one_object_is_imported(bucket, tmp_path, capsys):
    rows = "".join(f"{1_767_225_600 + n},{n}\n" for n in range(30))
    body = f"time,host.cpu_busy_pct\n{rows}".encode()
    bucket.client().put_object(Bucket=bucket.bucket, Key="csv/cpu.csv", Body=body)
    bucket.client().put_object(Bucket=bucket.bucket, Key="csv/cpu.csv.md5", Body=b"x")
    code, here = offline(capsys, f"s3://{bucket.bucket}/csv/cpu.csv")
    assert code == 0, here
    assert here["imported"]["records"] == {"samples": 30}
    assert bucket.got == ["csv/cpu.csv"]


def test_what_is_there_is_not_fetched_again(bucket, job, tmp_path):
    fetched(bucket, tmp_path / "kept")
    count = len(bucket.got)
    changed, cut = (next(k for k in bucket.got if part in k) for part in ("60.algo-1", "20.algo-1"))
    gone = next(key for key in bucket.got if key.endswith("training_job_end.ts"))
    bucket.got.clear()
    client = bucket.client()
    client.put_object(Bucket=bucket.bucket, Key=changed, Body=b"{}\n")
    client.delete_object(Bucket=bucket.bucket, Key=gone)
    (tmp_path / "kept" / "content" / Path(cut).relative_to(PREFIX)).write_bytes(b"cut")
    fetched(bucket, tmp_path / "kept")
    assert sorted(bucket.got) == sorted({changed, cut})
    files = [path for path in (tmp_path / "kept" / "content").rglob("*") if path.is_file()]
    assert len(files) == count - 1


def test_an_error_of_the_network_is_tried_again_and_said(bucket, job, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(s3.SourceAwayError, match="S3 doesn't answer: EndpointConnectionError"):
        fetched(bucket, tmp_path / "kept")


REFUSALS = {
    "empty": "no objects below this prefix. Name the folder of a training job",
    "bucket": "there is no such bucket",
    "denied": "access denied.*s3:ListBucket.*s3:GetObject",
    "anonymous": "no AWS credentials.*AWS_PROFILE",
    "jobs": "2 training jobs below this prefix. Name the folder of one, such as vision-2026-01-02",
    "files": "more than 3 files",
    "bytes": "more than 0 GiB",
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_read_says_what_to_do(bucket, job, tmp_path, case, monkeypatch):
    prefix, more = PREFIX, {}
    if case == "empty":
        prefix = "jobs/nothing"
    elif case == "bucket":
        bucket.bucket += "-gone"
    elif case == "denied":
        bucket.denies = True
    elif case == "anonymous":
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
            monkeypatch.setenv(name, str(tmp_path / "none"))
    elif case == "jobs":
        bucket.put(job, "jobs/vision-2026-01-02-00-00-00-000")
        prefix = "jobs"
    else:
        bounds = Bounds(files=3) if case == "files" else Bounds(unpacked_bytes=1000)
        more = {"bounds": bounds}
    with pytest.raises(NotImportableError, match=f"(?s){REFUSALS[case]}") as refused:
        fetched(bucket, tmp_path / "kept", prefix, **more)
    assert bucket.bucket not in str(refused.value)


def test_a_key_that_leaves_the_folder_is_skipped(bucket, tmp_path, job):
    client = bucket.client()
    for key in (f"{PREFIX}/a/../../../outside", f"{PREFIX}/{'x' * 300}"):
        client.put_object(Bucket=bucket.bucket, Key=key, Body=b"x")
    tally = fetched(bucket, tmp_path / "kept")
    (skipped,) = [each for each in tally.skipped.values() if "inside the folder" in each.why]
    assert skipped.count == 2
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize(
    "url", ["s3://", "s3:///x", "s3://B/x", "s3://b", "https://b/x", "x", "s3://bucket/a/../b"]
)
def test_another_address_is_refused(url):
    with pytest.raises(NotImportableError):
        Address.parse(url)


@pytest.mark.parametrize(
    ("grant", "asked", "holds"),
    [
        ("s3://bucket", "s3://bucket/any", True),
        ("s3://bucket/a", "s3://bucket/a", True),
        ("s3://bucket/a/", "s3://bucket/a/b", True),
        ("s3://bucket/a", "s3://bucket/ab", False),
        ("s3://bucket/a", "s3://bucket", False),
        ("s3://bucket/a", "s3://bucket-2/a", False),
    ],
)
def test_a_grant_holds_what_is_below_it(grant, asked, holds):
    assert Address.parse(grant).holds(Address.parse(asked)) == holds


def created(bucket: HeldS3, output: str) -> None:
    """Create the training job, as SageMaker knows it."""
    bucket.client("sagemaker").create_training_job(
        TrainingJobName=TRAINING_JOB,
        HyperParameters={"epochs": "7"},
        AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
        RoleArn="arn:aws:iam::123456789012:role/SageMaker",
        OutputDataConfig={"S3OutputPath": output},
        ProfilerConfig={"S3OutputPath": output},
        ResourceConfig={"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 600},
    )


def test_the_machine_is_asked_from_aws(bucket, job, capsys):
    created(bucket, f"s3://{bucket.bucket}/jobs/")
    _, here = offline(capsys, f"s3://{bucket.bucket}/{PREFIX}/profiler-output")
    (node,) = here["nodes"]
    assert node["instance_type"] == "ml.p3.2xlarge"
    assert here["cost_usd"] is not None


def test_a_job_that_wrote_elsewhere_says_nothing_of_these_files(bucket, job, capsys):
    created(bucket, "s3://another-bucket/jobs/")
    _, here = offline(capsys, f"s3://{bucket.bucket}/{PREFIX}")
    assert here["cost_usd"] is None
    assert "wrote to another place" in " ".join(here["imported"]["notes"])


def test_a_job_that_aws_doesn_t_know_has_no_machine_and_says_so(bucket, job, capsys):
    _, here = offline(capsys, f"s3://{bucket.bucket}/{PREFIX}")
    assert here["cost_usd"] is None
    assert "DescribeTrainingJob" in " ".join(here["imported"]["notes"])


def test_files_are_kept_for_a_second_call(bucket, job, tmp_path, capsys):
    words = (f"s3://{bucket.bucket}/{PREFIX}", "--keep", str(tmp_path / "kept"))
    _, first = offline(capsys, *words)
    bucket.got.clear()
    _, second = offline(capsys, *words)
    assert bucket.got == []
    assert first["imported"] == second["imported"]
    assert import_path(tmp_path / "kept" / "content", StatedFacts()).imported.tally.taken
