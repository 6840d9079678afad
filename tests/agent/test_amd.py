"""AMD's GPUs, by a tree of files as the kernel's driver documents it."""

from __future__ import annotations

from pathlib import Path

import pytest
from trimtab.sources.amd import AmdGpus
from trimtab.wire import Gpu

GIB = 2**30
MI300X = {
    "vendor": "0x1002",
    "device": "0x74a1",
    "product_name": "AMD Instinct MI300X OAM",
    "unique_id": "4a2f0e9d3b8c1760",
    "gpu_busy_percent": "97",
    "mem_busy_percent": "41",
    "mem_info_vram_total": str(192 * GIB),
    "mem_info_vram_used": str(150 * GIB),
    "hwmon/hwmon3/name": "amdgpu",
    "hwmon/hwmon3/power1_input": "612000000",
    "hwmon/hwmon3/temp1_input": "51000",
    "hwmon/hwmon3/temp2_input": "64000",
    "hwmon/hwmon3/freq1_input": "2100000000",
}


def _card(drm: Path, number: int, address: str, files: dict[str, str]) -> None:
    device = drm.parent / "devices" / address
    for name, text in files.items():
        path = device / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (drm / f"card{number}").mkdir(parents=True)
    (drm / f"card{number}" / "device").symlink_to(device)


@pytest.fixture
def drm(tmp_path: Path) -> Path:
    """Return a server's own screen, and two cards whose names don't follow their addresses."""
    drm = tmp_path / "drm"
    _card(drm, 0, "0000:02:00.0", {"vendor": "0x1a03", "device": "0x2000"})
    _card(drm, 1, "0000:85:00.0", MI300X | {"unique_id": "22", "gpu_busy_percent": "3"})
    _card(drm, 2, "0000:05:00.0", MI300X)
    (drm / "card2-DP-1").mkdir()
    return drm


def test_a_card_shows_use_memory_power_temperature_and_model(drm):
    told: list[list[Gpu]] = []
    source = AmdGpus(print, told.append, {}, drm)
    reading = source.read()
    assert {name: value for name, value in reading.items() if name.startswith("gpu0.")} == {
        "gpu0.busy_pct": 97,
        "gpu0.memory_controller_busy_pct": 41,
        "gpu0.memory_used_bytes": 150 * GIB,
        "gpu0.power_watts": 612,
        "gpu0.sm_clock_mhz": 2100,
        "gpu0.temperature_celsius": 64,
    }
    assert reading["gpu1.busy_pct"] == 3
    ((first, second),) = told
    assert first == Gpu("AMD Instinct MI300X OAM", 192 * GIB, "GPU-4a2f0e9d3b8c1760", True)
    assert second.uuid == "GPU-22"


@pytest.mark.parametrize(
    ("variables", "ours"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, [False, True]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-4a2f0e9d3b8c1760"}, [True, False]),
        ({"ROCR_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0,1"}, [True, False]),
        ({}, [True, True]),
    ],
)
def test_the_cards_of_the_run_are_those_that_rocm_shows_it(drm, variables, ours):
    told: list[list[Gpu]] = []
    AmdGpus(print, told.append, variables, drm)
    assert [gpu.allocated for gpu in told[0]] == ours


def test_what_a_card_does_not_say_is_missing_and_never_zero(tmp_path):
    drm = tmp_path / "drm"
    known = ("vendor", "device", "mem_info_vram_total")
    _card(drm, 0, "0000:05:00.0", {name: MI300X[name] for name in known})
    told: list[list[Gpu]] = []
    assert AmdGpus(print, told.append, {}, drm).read() == {}
    assert told[0][0].model == "AMD Instinct MI300X"


def test_a_machine_without_such_cards_has_no_such_source(tmp_path):
    with pytest.raises(FileNotFoundError):
        AmdGpus(print, print, {}, tmp_path)
