"""The machine's place: asked of metadata services that are small local copies of the real ones."""

from __future__ import annotations

import json
import time

import pytest
from trimtab import platforms
from trimtab.platforms import Instance, MetadataError, sagemaker, slurm
from trimtab.wire import NodeFacts

from tests.agent.metadata import Answer, ec2


def _google(preemptible: str) -> Answer:
    known = {
        "machine-type": "projects/1/machineTypes/a2-highgpu-1g",
        "zone": "projects/1/zones/europe-west4-a",
        "scheduling/preemptible": preemptible,
    }

    def answer(method: str, path: str, headers: dict[str, str]) -> str | None:
        if headers.get("Metadata-Flavor") != "Google":
            return None
        return known.get(path.removeprefix("/computeMetadata/v1/instance/"))

    return answer


def _azure(document: str) -> Answer:
    def answer(method: str, path: str, headers: dict[str, str]) -> str | None:
        asked_rightly = headers.get("Metadata") == "true" and "api-version=" in path
        return document if path.startswith("/metadata/instance") and asked_rightly else None

    return answer


def test_an_ec2_instance_is_known_by_version_2_of_its_service(stub):
    found = platforms.detect({"TRIMTAB_METADATA_URL": stub(ec2()).url})
    assert found == Instance(
        provider="aws",
        service="ec2",
        region="us-east-1",
        zone="us-east-1c",
        instance_type="g5.2xlarge",
        purchase_option="spot",
        instance_started_at_ns=1_795_162_530_000_000_000,
    )


def test_the_purchase_option_stays_unknown_if_ec2_does_not_report_it(stub):
    found = platforms.detect({"TRIMTAB_METADATA_URL": stub(ec2(life_cycle=None)).url})
    assert found is not None
    assert (found.instance_type, found.purchase_option) == ("g5.2xlarge", "")


@pytest.mark.parametrize(("preemptible", "bought"), [("TRUE", "spot"), ("FALSE", "on_demand")])
def test_a_google_machine_is_known(stub, preemptible, bought):
    found = platforms.detect({"TRIMTAB_METADATA_URL": stub(_google(preemptible)).url})
    assert found == Instance(
        provider="gcp",
        service="compute_engine",
        region="europe-west4",
        zone="europe-west4-a",
        instance_type="a2-highgpu-1g",
        purchase_option=bought,
    )


@pytest.mark.parametrize(
    ("priority", "bought"), [("Spot", "spot"), ("Regular", "on_demand"), ("", "on_demand")]
)
def test_an_azure_machine_is_known(stub, priority, bought):
    names = {"location": "westeurope", "zone": "1", "vmSize": "Standard_NC24ads_A100_v4"}
    document = json.dumps(names | {"priority": priority})
    found = platforms.detect({"TRIMTAB_METADATA_URL": stub(_azure(document)).url})
    assert found == Instance(
        provider="azure",
        service="virtual_machines",
        region="westeurope",
        zone="1",
        instance_type="Standard_NC24ads_A100_v4",
        purchase_option=bought,
    )


@pytest.mark.parametrize("body", ["", "[]", "{", "null", '{"vmSize": 7}'])
def test_an_answer_of_another_form_makes_nothing_up(stub, body):
    found = platforms.detect({"TRIMTAB_METADATA_URL": stub(_azure(body)).url})
    assert found is None or found.instance_type == ""


def test_a_proxy_is_never_asked(stub, monkeypatch):
    proxy = stub(lambda method, path, headers: None)
    monkeypatch.setenv("http_proxy", proxy.url)
    environment = {"TRIMTAB_METADATA_URL": stub(_google("FALSE")).url, "http_proxy": proxy.url}
    assert platforms.detect(environment) is not None
    assert proxy.asked == []


@pytest.mark.parametrize("word", ["off", "0", "False", "no"])
def test_no_metadata_service_is_queried_if_detection_is_off(stub, word):
    service = stub(ec2())
    environment = {"TRIMTAB_METADATA_URL": service.url, "TRIMTAB_METADATA": word}
    with pytest.raises(MetadataError, match="TRIMTAB_METADATA"):
        platforms.detect(environment)
    assert service.asked == []


def test_the_variable_of_amazons_own_tools_turns_detection_off_too(stub):
    service = stub(ec2())
    environment = {"TRIMTAB_METADATA_URL": service.url, "AWS_EC2_METADATA_DISABLED": "true"}
    assert platforms.detect(environment) is None
    assert not any(path.startswith("/latest") for _, path in service.asked)


def test_a_run_says_where_it_is_and_what_was_declared_stays(trimtab, online, service, stub):
    metadata = {"TRIMTAB_METADATA": "on", "TRIMTAB_METADATA_URL": stub(ec2()).url}
    trimtab(online | metadata, "run", "--zone", "us-east-1-lax-1a", "--", "sleep", "0.5")
    node = service.declarations[-1].node
    assert (node.provider, node.service, node.region) == ("aws", "ec2", "us-east-1")
    assert (node.instance_type, node.purchase_option) == ("g5.2xlarge", "spot")
    assert node.zone == "us-east-1-lax-1a"
    assert node.instance_started_at_ns == 1_795_162_530_000_000_000
    everything = b"".join(request.body for request in service.requests)
    assert b"123456789012" not in everything


def test_a_machine_declared_to_be_elsewhere_stays_there(trimtab, online, service, stub):
    metadata = {"TRIMTAB_METADATA": "on", "TRIMTAB_METADATA_URL": stub(ec2()).url}
    trimtab(online | metadata, "run", "--provider", "on_premises", "--", "sleep", "0.5")
    node = service.declarations[-1].node
    assert (node.provider, node.instance_type, node.region) == ("on_premises", "", "")


def test_the_machine_of_another_provider_is_declared(trimtab, online, service):
    words = ("--provider", "Lambda", "--instance-type", "gpu_1x_a100", "--region", "us-west-2")
    assert trimtab(online, "run", *words, "--", "true").returncode == 0
    node = service.declarations[-1].node
    assert (node.provider, node.instance_type, node.region) == (
        "lambda",
        "gpu_1x_a100",
        "us-west-2",
    )


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--provider", "a cloud", "'a cloud' is no name of a provider"),
        ("--provider", "x" * 33, "is no name of a provider"),
        ("--instance-type", "8 x H100", "'8 x H100' is no instance type"),
        ("--instance-type", "x" * 65, "is no instance type"),
    ],
)
def test_a_name_that_no_provider_has_is_refused_before_the_command_runs(
    trimtab, online, option, value, why, tmp_path
):
    ran = trimtab(online, "run", option, value, "--", "touch", str(tmp_path / "ran"))
    assert ran.returncode == 2
    assert why in ran.stderr
    assert not (tmp_path / "ran").exists()


def test_a_metadata_service_that_hangs_delays_nothing(trimtab, online, service, stub):
    def hang(method: str, path: str, headers: dict[str, str]) -> str:
        time.sleep(30)
        return ""

    metadata = {"TRIMTAB_METADATA": "on", "TRIMTAB_METADATA_URL": stub(hang).url}
    began = time.monotonic()
    assert trimtab(online | metadata, "run", "--", "true").returncode == 0
    assert time.monotonic() - began < 5
    assert service.segments


def test_no_metadata_is_an_option_too(trimtab, online, service, stub):
    metadata = stub(ec2())
    online |= {"TRIMTAB_METADATA": "on", "TRIMTAB_METADATA_URL": metadata.url}
    trimtab(online, "run", "--no-metadata", "--", "sleep", "0.3")
    assert metadata.asked == []
    assert service.declarations[-1].node.instance_type == ""


def test_sagemaker_describes_the_instance_in_a_file(tmp_path):
    resources = tmp_path / "resourceconfig.json"
    resources.write_text(
        json.dumps({"current_host": "algo-1", "current_instance_type": "ml.p3.8xlarge"})
    )
    arn = {"TRAINING_JOB_ARN": "arn:aws:sagemaker:eu-west-1:1234:training-job/x"}
    assert sagemaker.instance(arn, resources) == Instance(
        provider="aws",
        service="sagemaker_training",
        region="eu-west-1",
        instance_type="ml.p3.8xlarge",
        owns_machine=True,
    )
    own = sagemaker.instance(arn | {"AWS_REGION": "us-west-2"}, resources)
    assert own is not None
    assert own.region == "us-west-2"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"current_instance_type": null}'])
def test_another_file_of_that_name_is_no_sagemaker(tmp_path, content):
    (tmp_path / "resourceconfig.json").write_text(content)
    assert sagemaker.instance({}, tmp_path / "resourceconfig.json") is None


def test_a_slurm_job_has_the_cores_and_memory_that_it_was_given():
    facts = NodeFacts("m", vcpus=64, effective_cpus=64.0, effective_memory_bytes=512 * 2**30)
    slurm.limit(facts, {"SLURM_CPUS_ON_NODE": "16", "SLURM_MEM_PER_CPU": "4096"})
    assert (facts.effective_cpus, facts.effective_memory_bytes) == (16.0, 64 * 2**30)
    slurm.limit(facts, {"SLURM_CPUS_ON_NODE": "x", "SLURM_MEM_PER_NODE": "0"})
    assert (facts.effective_cpus, facts.effective_memory_bytes) == (16.0, 64 * 2**30)


def test_partition_and_account_of_a_slurm_job_become_tags(trimtab, online, service):
    job = {"SLURM_JOB_PARTITION": "gpu-large", "SLURM_JOB_ACCOUNT": "vision"}
    trimtab(online | job, "run", "--tag", "slurm_account=ours", "--", "true")
    tags = service.declarations[-1].tags
    assert tags == {"slurm_partition": "gpu-large", "slurm_account": "ours"}
