"""Parameters that change the configuration, the workload, or neither."""

from __future__ import annotations

import pytest

from advisor.successive.workload_keys import configuration_key, workload_key

KNOBS = (
    *("batch_size", "batchsize", "bs", "worker_count", "num_workers", "prefetch_factor"),
    *("pin_memory", "pinned", "persistent_workers", "persistent", "precision", "amp", "fp16"),
    *("bf16", "fp8", "allow_tf32", "dtype", "gpu_ids", "gpus", "device", "devices", "node_rank"),
    *("nodes", "nproc_per_host", "process_count", "processes", "world_size", "rank", "ranks"),
    *("strategy", "accumulate_grad", "accumulation", "compile", "instance_type"),
    *("purchase_option",),
)
BOOKKEEPING = (
    *("lr", "learning_rate", "seed", "momentum", "weight_decay", "beta", "beta1", "beta2", "eps"),
    *("epsilon", "warmup", "schedule", "scheduler", "patience", "epoch", "epochs", "step"),
    *("max_steps", "name", "id", "dir", "directory", "folder", "path", "file", "out", "output"),
    *("log", "logs", "logging", "logdir", "save", "resume", "checkpoint", "checkpoints", "wandb"),
    *("tag", "tags", "note", "notes", "verbose", "debug", "date", "time", "port", "host", "url"),
    *("project", "experiment", "commit", "version"),
)
SUBJECTS = (
    *("data_dir", "dataset_version", "datasets_path", "corpus_file", "model_name", "arch_id"),
    *("architecture_name", "task_name", "depth", "hidden"),
)
MACHINE = {"instance_type": "g5.xlarge", "depth": 50}


def changes(parameter: str) -> tuple[bool, bool]:
    """Whether another value makes another configuration, and another workload."""
    one, other = ({**MACHINE, parameter: value} for value in (1, 2))
    return (
        configuration_key(one) != configuration_key(other),
        workload_key({}, one) != workload_key({}, other),
    )


@pytest.mark.parametrize("parameter", KNOBS)
def test_how_the_work_is_done_makes_another_configuration(parameter):
    assert changes(parameter) == (True, False)


@pytest.mark.parametrize("parameter", BOOKKEEPING)
def test_bookkeeping_and_the_optimiser_make_neither(parameter):
    assert changes(parameter) == (False, False)


@pytest.mark.parametrize("parameter", SUBJECTS)
def test_what_is_worked_on_makes_another_workload_whatever_else_is_in_its_name(parameter):
    assert changes(parameter) == (False, True)


@pytest.mark.parametrize("name", ["--batch-size", "batchSize", "train.batch_size", "BATCH_SIZE"])
def test_a_name_is_known_however_it_is_written(name):
    assert changes(name) == (True, False)


def test_keys_depend_on_no_order_and_take_values_of_any_kind():
    one = {"depth": 50, "width": 2, "betas": (0.9, 0.99), "kind": object}
    other = dict(reversed(one.items()))
    assert workload_key({"a": 1, "b": 2}, one) == workload_key({"b": 2, "a": 1}, other)
    assert workload_key({"a": 1}, {}) != workload_key({}, {})
    assert len(workload_key({}, one)) == len(configuration_key(one)) == 16


def test_keys_stay_what_they_were():
    """The keys are stored with each run: computing them differently would separate old runs from
    new ones."""
    workload = {"entry_point": "train.py", "dataset": "imagenet"}
    assert workload_key(workload, {"depth": 50, "lr": 0.1}) == "d50a7fd1c88d006c"
    assert configuration_key({"instance_type": "g5.xlarge", "batch_size": 64}) == "57c92febbf7628d3"


def test_tuning_is_another_configuration_of_the_same_workload():
    workload = {"entry_point": "train.py", "dataset": "imagenet"}
    one = {"batch_size": 256, "num-workers": 2, "lr": 0.1, "depth": 50, "seed": 1}
    other = one | {"batch_size": 512, "num-workers": 8, "lr": 0.2, "seed": 2}
    assert workload_key(workload, one) == workload_key(workload, other)
    assert configuration_key(one) != configuration_key(other)
    assert configuration_key(one) == configuration_key(one | {"lr": 9, "seed": 9, "depth": 9})


@pytest.mark.parametrize(
    "change", [{"depth": 101}, {"hidden_size": 8}, {"data_dir": "coco"}, {"--model-name": "vit"}]
)
def test_another_model_or_dataset_is_another_workload(change):
    one = {"depth": 50, "data_dir": "imagenet", "--model-name": "resnet", "output_dir": "/a"}
    assert workload_key({}, one) == workload_key({}, one | {"output_dir": "/b"})
    assert workload_key({}, one) != workload_key({}, one | change)


@pytest.mark.parametrize(
    "machines", [{"instance_type": "g5.xlarge"}, {"node_count": 2}, {"purchase_option": "spot"}]
)
def test_other_machines_are_another_configuration(machines):
    one = {"instance_type": "p3.8xlarge", "node_count": 1, "purchase_option": "on_demand"}
    assert configuration_key(one) != configuration_key(one | machines)
