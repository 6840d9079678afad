"""The manifests in kubernetes/: valid, and the same service as docker-compose.yml."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from django.conf import settings
from django.test import Client, override_settings
from trimtab.packing import PART_BYTES

from advisor.importers.bounds import Bounds
from tests.running_service import CHECKOUT
from webapp.imports import description, queue
from webapp.web_server import connections

FOLDER = CHECKOUT / "kubernetes"
VERSIONS = ("1.30", "1.37")
"""The oldest that clouds still run, and the newest that the schemas know."""
SET_ELSEWHERE = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
"""Read by boto3."""


def kustomization() -> Any:
    return yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))


def resources() -> Iterator[dict[str, Any]]:
    for name in kustomization()["resources"]:
        yield from yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))


def workloads() -> dict[str, dict[str, Any]]:
    """Return deployments and jobs by name."""
    kinds = ("Deployment", "Job")
    return {each["metadata"]["name"]: each for each in resources() if each["kind"] in kinds}


def container(name: str) -> dict[str, Any]:
    [found] = workloads()[name]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def environment(name: str) -> dict[str, str]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_holds_to_the_schemas(version: str) -> None:
    for manifest in resources():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_each_file_is_part_of_it() -> None:
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(kustomization()["resources"])


@pytest.mark.parametrize("name", ["web", "worker", "beat", "migrate"])
def test_a_process_runs_the_command_of_the_compose_file(name: str) -> None:
    compose = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert container(name)["command"] == shlex.split(compose["services"][name]["command"])
    image = compose["services"][name]["image"]
    [used] = kustomization()["images"]
    assert f"{used['name']}:{used['newTag']}" == image


def test_the_worker_processes_are_counted_as_they_are_started() -> None:
    worker = workloads()["worker"]["spec"]["replicas"]
    [concurrency] = re.findall(r"--concurrency=(\d+)", " ".join(container("worker")["command"]))
    stated = environment("trimtab.env")["TRIMTAB_WORKER_PROCESSES"]
    assert int(stated) == worker * int(concurrency)
    assert workloads()["beat"]["spec"]["replicas"] == 1


def test_workers_have_room_for_the_largest_imports() -> None:
    worker = container("worker")
    pod = workloads()["worker"]["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    places = {each["mountPath"]: volumes[each["name"]] for each in worker["volumeMounts"]}
    packed = description.MOST_PARTS * PART_BYTES
    volume = places[str(Path("/data", Path(settings.SCRATCH_DIR).name))]
    assert _bytes(volume) >= queue.SIDE_BY_SIDE * (Bounds().unpacked_bytes + packed)


def test_no_pod_can_fill_the_disk_of_its_machine() -> None:
    for name, workload in workloads().items():
        for volume in workload["spec"]["template"]["spec"]["volumes"]:
            assert "sizeLimit" in volume["emptyDir"], name


def test_web_servers_have_room_for_all_bodies_on_their_way() -> None:
    volumes = workloads()["web"]["spec"]["template"]["spec"]["volumes"]
    [data] = [each for each in volumes if each["name"] == "data"]
    assert _bytes(data) > connections.MOST_HELD_BYTES


def _bytes(volume: dict[str, Any]) -> int:
    return int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) * 2**30


def test_every_setting_is_one_that_the_documentation_lists() -> None:
    documented = (CHECKOUT / "docs" / "configuration.md").read_text(encoding="utf-8")
    names = environment("trimtab.env") | environment("trimtab.secret.env.example")
    for name in names.keys() - SET_ELSEWHERE:
        assert f"`{name}`" in documented, name


def test_selectors_find_the_pods_and_the_ingress_the_service() -> None:
    found = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in resources()
             if "spec" in each}  # fmt: skip
    for (kind, name), spec in found.items():
        if kind == "Deployment":
            labels = spec["template"]["metadata"]["labels"]
            assert spec["selector"]["matchLabels"].items() <= labels.items(), name
    pods = found["Deployment", "web"]["template"]["metadata"]["labels"]
    assert found["Service", "web"]["selector"].items() <= pods.items()
    ports = {port["name"] for port in container("web")["ports"]}
    assert {port["targetPort"] for port in found["Service", "web"]["ports"]} <= ports
    [rule] = found["Ingress", "trimtab"]["rules"]
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "web", "port": {"name": "http"}}
    assert environment("trimtab.env")["TRIMTAB_BASE_URL"] == f"https://{rule['host']}"


@pytest.mark.django_db
def test_the_probes_are_answered_without_tls_by_a_service_with_a_public_name() -> None:
    web = container("web")
    with override_settings(ALLOWED_HOSTS=["trimtab.example", "localhost"]):
        for probe in (web["readinessProbe"], web["livenessProbe"]):
            [header] = probe["httpGet"]["httpHeaders"]
            answer = Client().get(
                probe["httpGet"]["path"], headers={header["name"]: header["value"]}
            )
            assert answer.status_code == 200
