"""The GPU catalogue, and the models that drivers and providers name."""

from __future__ import annotations

import pytest

from advisor.pricing.catalogue import catalogue
from advisor.pricing.gpus import GB, gpu_model, gpu_models


@pytest.mark.parametrize(
    ("name", "memory_gb", "key"),
    [
        ("NVIDIA A100-SXM4-40GB", 42.9, "A100-40-SXM"),
        ("NVIDIA A100-SXM4-80GB", 85.9, "A100-80-SXM"),
        ("NVIDIA H100 80GB HBM3", 85.5, "H100-SXM"),
        ("NVIDIA H100 PCIe", 85.5, "H100-PCIE"),
        ("NVIDIA H200", 150.0, "H200-SXM"),
        ("Tesla V100-SXM2-16GB", 16.9, "V100-SXM2-16"),
        ("Tesla T4", 15.8, "T4"),
        ("NVIDIA A10G", 24.1, "A10G"),
        ("NVIDIA RTX A6000", 51.5, "A6000"),
        ("NVIDIA RTX 6000 Ada Generation", 51.5, "RTX6000Ada"),
        ("NVIDIA GeForce RTX 3080", 10.7, "3080"),
        ("AMD Instinct MI300X", 205.0, "MI300X"),
        ("V100", 34.4, "V100-SXM2-32"),
        ("H100-SXM", 0, "H100-SXM"),
    ],
)
def test_it_knows_the_model_that_a_driver_or_provider_names(name, memory_gb, key):
    model = gpu_model(name, int(memory_gb * GB))
    assert model is not None
    assert model.key == key


@pytest.mark.parametrize(
    "name", ["NVIDIA GeForce RTX 3080 Ti", "NVIDIA RTX 4000 Ada Generation", "A100", "", "GPU"]
)
def test_it_doesnt_guess(name):
    assert gpu_model(name) is None


def test_each_model_has_its_figures_and_their_source():
    for model in gpu_models().values():
        assert model.source
        assert model.memory_bytes > 0
        assert model.fp32_tflops is None or model.fp32_tflops > 1
    a100 = gpu_models()["A100-40-SXM"]
    assert (a100.bf16_tflops, a100.bandwidth_gb_per_second, a100.tdp_watts) == (312, 1555, 400)
    assert a100.mig_profiles[0] == "1g.5gb"


def test_every_gpu_of_the_machine_catalogue_is_a_known_model():
    """The exceptions are a GPU of 2013 and an accelerator that only infers. Other clouds don't
    always tell their GPU's board.
    """
    accelerated = [machine for machine in catalogue().values() if machine.gpu_count]
    unknown = {m.gpu_model for m in accelerated if m.gpu_key not in gpu_models()}
    several = {"A100", "A100-80GB", "H100", "P100", "V100"}
    assert unknown == {"K520", "Qualcomm AI100", *several}
    of_aws = {m.gpu_model for m in accelerated if m.provider == "aws" and not m.gpu_key}
    assert of_aws.isdisjoint(several)


def test_a_machine_knows_its_networks_and_disks():
    p4d = catalogue()["ml.p4d.24xlarge"]
    assert (p4d.gpu_key, p4d.network_gbps, p4d.efa) == ("A100-40-SXM", 400.0, True)
    assert (p4d.local_nvme_bytes, p4d.ebs_baseline_mbps) == (8000 * GB, 19000)
    assert not catalogue()["c5.large"].efa
