"""Files that others recorded and published: read as they were when they were first tried."""

from __future__ import annotations

from advisor.importers.stated_facts import StatedFacts
from advisor.offline.importing import import_path
from tests.imports.reported import reported


def test_an_offline_run_of_wandb_of_2021_is_read():
    imported = import_path(reported("reads/run-g9dvvkua.wandb"), StatedFacts()).imported
    assert imported.format == "W&B"
    assert imported.tally.records["samples"] == 2
    assert imported.nodes[0].stored.series == {
        "host.memory_used_pct",
        "host.memory_available_bytes",
    }


def test_an_event_file_of_tensorboard_of_2020_is_read():
    path = reported("reads/events.out.tfevents.1585769947.cvp")
    imported = import_path(path, StatedFacts()).imported
    assert imported.format == "TensorBoard"
    assert imported.tally.records["metrics"] == 102
