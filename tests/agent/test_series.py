"""docs/series.md names every series that the agent can send, and no other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from trimtab.sources.container import ContainerCpu, ContainerMemory
from trimtab.sources.fabric import Fabric
from trimtab.sources.pressure import Pressure
from trimtab.sources.remote import Lustre, Nfs

from tests.agent import test_sources
from tests.agent.conftest import trimtab_command

DOCUMENT = Path(__file__).parents[2] / "docs" / "series.md"
_ROW = re.compile(r"\| `([a-z0-9_.<>NM]+)` \| (\S.*) \| (\S.*) \| .*\|")
_TRAINING = """
import multiprocessing, os, time
if __name__ == "__main__":
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3,), daemon=True)
    worker.start()
    with open(os.environ["TRIMTAB_FAKE_NVML"], "a") as script:
        script.write(f"gpu0.pid {os.getpid()}\\n")
    time.sleep(6.5)
"""


def test_every_series_is_in_the_document_and_none_that_is_not_sent(
    online, service, driver, tmp_path, tmp_path_factory
):
    driver.says("gpus 2", "gpu1.mig 1")
    (tmp_path / "train.py").write_text(_TRAINING)
    words = ["run", "--", sys.executable, str(tmp_path / "train.py")]
    subprocess.run(trimtab_command(*words), env=online | driver.environment, check=True)
    sent = {name for s in service.segments for block in s.blocks for name in block.columns}
    sent |= _of_other_machines(tmp_path_factory)
    documented = set(_rows())
    assert {_pattern(name) for name in sent} == documented


def test_every_series_has_a_unit_and_a_source():
    rows = _rows()
    assert len(rows) > 100
    assert all(unit and source for unit, source in rows.values())


def _rows() -> dict[str, tuple[str, str]]:
    lines = DOCUMENT.read_text().splitlines()
    matches = [_ROW.fullmatch(line) for line in lines if line.startswith("| `")]
    assert all(matches)
    return {match[1]: (match[2], match[3]) for match in matches if match}


def _pattern(name: str) -> str:
    name = re.sub(r"^cpu\d+\.", "cpu<N>.", name)
    return re.sub(r"^gpu\d+\.", "gpu<N>.", re.sub(r"\.mig\d+\.", ".mig<M>.", name))


def _of_other_machines(make: pytest.TempPathFactory) -> set[str]:
    """Return what this machine may lack, from recorded files."""
    groups = test_sources.version_2_group(make.mktemp("group"))
    nfs = make.mktemp("nfs") / "mountstats"
    nfs.write_text(test_sources.MOUNTSTATS)
    pressure = test_sources.pressure_files(make.mktemp("pressure"))
    lustre = test_sources.lustre_mounts(make.mktemp("lustre"))
    fabric = test_sources.fabric_ports(make.mktemp("fabric"))
    sources = [
        ContainerCpu(groups),
        ContainerMemory(groups),
        Pressure(str(pressure), groups),
        Nfs(str(nfs)),
        Lustre((f"{lustre}/*/stats",)),
        Fabric(str(fabric)),
    ]
    return {name for source in sources for name in source.read()}
