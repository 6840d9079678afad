"""Docker, Kubernetes and SageMaker: the files are valid, and what they start is measured."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.agent.conftest import TOKEN
from tests.ops.test_kubernetes import VERSIONS
from tests.recipes import pytorchjob_schema
from tests.recipes.conftest import EXAMPLES, STAND_INS, Place, states, steps

INSTRUCTIONS = {"FROM", "RUN", "ENV", "WORKDIR", "COPY", "ENTRYPOINT", "CMD"}
UID = "0e5d9f5c-6c39-4f0b-9f43-3c1a2f1f8a01"
LABELS = {
    "metadata.labels['batch.kubernetes.io/controller-uid']": UID,
    "metadata.labels['training.kubeflow.org/job-name']": "digits-x7k2p",
}
ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-job/digits-1"


# Docker


def instructions(recipe: str) -> dict[str, list[str]]:
    """Return the arguments of each instruction of a Dockerfile."""
    found: dict[str, list[str]] = {}
    for line in (EXAMPLES / recipe / "Dockerfile").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            found.setdefault(name, []).append(rest)
    assert found.keys() <= INSTRUCTIONS
    return found


def variables(recipe: str) -> dict[str, str]:
    words = [word for line in instructions(recipe)["ENV"] for word in shlex.split(line)]
    return dict(word.split("=", 1) for word in words)


@pytest.mark.parametrize("recipe", ["docker", "sagemaker"])
def test_no_layer_of_an_image_has_a_token(recipe):
    assert "TRIMTAB_TOKEN" not in str(instructions(recipe))
    copied = {name for line in instructions(recipe)["COPY"] for name in line.split()}
    assert copied <= {"--chmod=755", "train", "train.py", "trimtab_token.py", "./"}


def test_the_file_with_the_token_stays_out_of_the_build():
    first = (EXAMPLES / "docker" / "Dockerfile").read_text().splitlines()[:3]
    [token_file] = re.findall(r"--env-file (\S+)", first[1])
    left_out = (EXAMPLES / "docker" / ".dockerignore").read_text().splitlines()
    assert token_file in left_out
    assert token_file in first[2]


def test_the_volume_keeps_what_is_not_uploaded_yet():
    text = (EXAMPLES / "docker" / "Dockerfile").read_text()
    [(volume, folder)] = re.findall(r"-v (\w+):(\S+)", text)
    assert volume == "trimtab"
    assert variables("docker")["TRIMTAB_STATE_DIR"] == folder
    assert re.search(r"docker build -t (\S+)", text)[1] == text.splitlines()[1].split()[-1]


def test_the_image_measures_its_command(place: Place, online, service):
    place.copy("docker")
    [entry], [command] = instructions("docker")["ENTRYPOINT"], instructions("docker")["CMD"]
    own = {"TRIMTAB_JOB": variables("docker")["TRIMTAB_JOB"]}
    assert place.run(online | own, *json.loads(entry), *json.loads(command)) == 0
    assert {d.job for d in service.declarations} == {"digits"}
    assert steps(service) == {0: 10}


# Kubernetes


def manifest(name: str) -> dict[str, Any]:
    document = yaml.safe_load((EXAMPLES / "kubernetes" / f"{name}.yaml").read_text())
    assert isinstance(document, dict)
    return document


def templates() -> dict[str, dict[str, Any]]:
    replicas = manifest("pytorchjob")["spec"]["pytorchReplicaSpecs"]
    return {kind: spec["template"] for kind, spec in replicas.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_hold_to_the_schemas(version):
    kubernetes_validate.validate(manifest("job"), version, strict=True)
    for template in templates().values():
        pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "digits"}}
        kubernetes_validate.validate(pod | {"template": template}, version, strict=True)


def test_a_pytorchjob_has_what_the_operator_takes():
    job = manifest("pytorchjob")
    jsonschema.validate(job, pytorchjob_schema.SCHEMA)
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        # The operator looks for the container of this name, and refuses a job without one.
        assert [c["name"] for c in replica["template"]["spec"]["containers"]] == ["pytorch"]
    assert "name" not in job["metadata"]  # each start gets another one
    meta = {name: value for name, value in job["metadata"].items() if name != "generateName"}
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta | {"name": "digits"}}
    kubernetes_validate.validate(named, VERSIONS[-1], strict=True)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "nprocPerNode"), 2),
        (("spec", "pytorchReplicaSpecs", "Chief"), {}),
        (("spec", "pytorchReplicaSpecs", "Worker", "replica"), 2),
        (("spec", "pytorchReplicaSpecs", "Worker", "restartPolicy"), "Sometimes"),
        (("spec", "backoffLimit"), 3),
        (("apiVersion",), "kubeflow.org/v2"),
    ],
)
def test_a_wrong_pytorchjob_is_seen(path, value):
    job = manifest("pytorchjob")
    place = job
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job, pytorchjob_schema.SCHEMA)


def pod(place: Place, template: dict[str, Any], given: dict[str, str], failures: str = "") -> int:
    """Run the one container of a pod, with the variables that it asks for."""
    [container] = template["spec"]["containers"]
    own = {}
    for variable in container["env"]:
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            assert source["secretKeyRef"] == {"name": "trimtab", "key": "token"}
            own[variable["name"]] = TOKEN
        elif "fieldRef" in source:
            own[variable["name"]] = LABELS.get(source["fieldRef"]["fieldPath"], failures)
        else:
            own[variable["name"]] = variable["value"]
    own["TRIMTAB_URL"] = given["TRIMTAB_URL"]
    return place.run(given | own, *container["command"], *container["args"])


def test_a_replaced_pod_of_a_job_is_another_attempt_of_its_run(place: Place, online, service):
    template = manifest("job")["spec"]["template"]
    assert pod(place, template, online) == 0
    assert pod(place, template, online, failures="1") == 0
    assert {d.run_id for d in service.declarations} == {UUID(UID)}
    assert {d.attempt for d in service.declarations} == {0, 1}
    assert {d.job for d in service.declarations} == {"digits"}
    assert steps(service) == {0: 20}


def test_the_pods_of_a_pytorchjob_are_one_run(place: Place, online, service):
    place.stand_in("torchrun")
    for rank, template in enumerate(templates().values()):
        operator = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": str(rank)}
        own = {"RANK": str(rank), "WORLD_SIZE": "2", "TRIMTAB_MACHINE_ID": f"pod-{rank}"}
        assert pod(place, template, online | operator | own) == 0
    assert len({d.run_id for d in service.declarations}) == 1
    assert {d.node.machine_id for d in service.declarations} == {"pod-0", "pod-1"}
    assert steps(service) == dict.fromkeys(range(4), 10)


# SageMaker

AGENT = """\
#!{python}
import sys
from pathlib import Path
from trimtab.platforms import sagemaker

sagemaker.instance.__defaults__ = (Path("{resources}"),)
from trimtab.cli import main

sys.exit(main())
"""


def sagemaker(place: Place, host: str) -> dict[str, str]:
    """Return a training container of a job with two hosts, where `trimtab` finds its resource
    file.
    """
    place.copy("sagemaker")
    place.stand_in("call")
    (place.programs / "pip").unlink(missing_ok=True)
    (place.programs / "call").rename(place.programs / "pip")
    hosts = ["algo-1", "algo-2"]
    facts = {"current_host": host, "current_instance_type": "ml.g5.2xlarge", "hosts": hosts}
    resources = place.folder / "resourceconfig.json"
    resources.write_text(json.dumps(facts))
    place.program("trimtab", AGENT.format(python=sys.executable, resources=resources))
    return {
        "TRAINING_JOB_NAME": "digits-1",
        "TRAINING_JOB_ARN": ARN,
        "SM_HOSTS": json.dumps(hosts),
        "SM_CURRENT_HOST": host,
        "TRIMTAB_MACHINE_ID": host,
        "PYTHONPATH": str(STAND_INS / "packages"),
        "SECRET_STRING": TOKEN,
    }


@pytest.fixture
def unsigned(environment, service) -> dict[str, str]:
    """Return the service, but no token."""
    return environment | {"TRIMTAB_URL": service.url}


def launched(place: Place, environment: dict[str, str]) -> dict[str, Any]:
    """Return what the estimator was made with."""
    assert place.run(environment, "python", "launch.py") == 0
    options: dict[str, Any] = json.loads(place.calls.read_text().splitlines()[-1])
    return options


def test_a_script_mode_job_is_one_run_of_all_hosts(place: Place, unsigned, service):
    for host in ("algo-1", "algo-2"):
        container = unsigned | sagemaker(place, host)
        options = launched(place, container)
        own = options["environment"] | {"TRIMTAB_URL": service.url}
        words = " ".join(f"--{name} {value}" for name, value in options["hyperparameters"].items())
        # The toolkit makes an entry point that isn't Python executable, and starts it so.
        (place.folder / options["entry_point"]).chmod(0o777)
        command = f"./{options['entry_point']} {words}"
        assert place.run(container | own, "/bin/sh", "-c", command) == 0
    assert {d.run_id for d in service.declarations} == {service.declarations[0].run_id}
    assert {d.node.machine_id for d in service.declarations} == {"algo-1", "algo-2"}
    declared = service.declarations[-1]
    assert (declared.job, declared.requeue) == ("digits", f"sagemaker/{ARN}")
    assert declared.command[-2:] == ["--epochs", "10"]
    node = declared.node
    assert (node.provider, node.service) == ("aws", "sagemaker_training")
    assert (node.instance_type, node.region) == ("ml.g5.2xlarge", "us-east-1")
    assert (node.purchase_option, node.owns_machine) == ("spot", True)
    assert steps(service) == {0: 10, 1: 10}
    wheel = f"{service.url}/agent/trimtab-0.1.0-py3-none-any.whl"
    assert ["pip", "install", "--quiet", wheel] in place.called()


@pytest.mark.parametrize("missing", ["agent", "secret"])
def test_a_job_without_agent_or_secret_trains_unmeasured(place: Place, unsigned, service, missing):
    container = unsigned | sagemaker(place, "algo-1")
    own = {"SECRET_ID": "another" if missing == "secret" else "trimtab-token"}
    own |= {"CALL_FAILS": "1"} if missing == "agent" else {}
    (place.folder / "train.py").write_text("open('trained', 'w')")
    assert place.run(container | own, "/bin/sh", "-c", "./train.sh --epochs 10") == 0
    assert (place.folder / "trained").exists()
    assert service.declarations == []


def test_a_container_of_one_s_own_is_started_as_train(place: Place, unsigned, service):
    container = unsigned | sagemaker(place, "algo-1")
    own = variables("sagemaker")
    assert own.pop("PATH") == f"{instructions('sagemaker')['WORKDIR'][0]}:$PATH"
    (place.programs / "train").symlink_to(place.folder / "train")
    assert place.run(container | own | {"TRIMTAB_URL": service.url}, "train") == 0
    assert service.declarations[-1].node.instance_type == "ml.g5.2xlarge"
    assert states(service) == ["finished"]


# All recipes


def test_no_file_has_a_token_and_each_is_on_the_page_of_recipes():
    page = (EXAMPLES.parent / "docs" / "recipes.md").read_text()
    written = re.compile(r"TRIMTAB_TOKEN['\"]?\s*[=:]\s*['\"]?\w|tt_\w")
    files = [path for path in EXAMPLES.rglob("*") if path.is_file() and path.parent != EXAMPLES]
    assert len(files) > 10
    for path in files:
        assert not written.search(path.read_text()), path
        assert f"{path.relative_to(EXAMPLES)}" in page, path


def test_the_agent_s_file_has_its_current_version():
    from trimtab import __version__

    for path in Path(EXAMPLES).glob("*/*"):
        for version in re.findall(r"agent/trimtab-([\d.]+)-py3", path.read_text()):
            assert version == __version__, path
