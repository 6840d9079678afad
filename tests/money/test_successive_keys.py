"""Parameters that change the configuration, the workload, or neither."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.successive import comparability
from advisor.successive.comparability import (
    BY_HISTORY,
    BY_NAME,
    BY_PERSON,
    IGNORED,
    TUNING,
    WORK,
    Role,
    roles,
    strip_dates,
)

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
    *("project", "experiment", "commit", "version", "dropout", "timestamp", "run_id", "rng"),
    *("wd", "label_smoothing", "clip", "uuid", "outputs", "results", "ckpt", "cache", "tmp"),
    *("comment", "description", "hostname", "user", "trial", "attempt", "runid", "directory"),
)
SUBJECTS = (
    *("data_dir", "dataset_version", "datasets_path", "corpus_file", "model_name", "arch_id"),
    *("architecture_name", "task_name", "depth", "hidden"),
)


def workload_key(workload, parameters, known=None) -> str:  # type: ignore[no-untyped-def]
    return comparability.workload_key(workload, parameters, known or {})


def configuration_key(configuration, known=None) -> str:  # type: ignore[no-untyped-def]
    return comparability.configuration_key(configuration, known or {})


MACHINE = {"instance_type": "g5.xlarge", "depth": 50}


def changes(parameter: str) -> tuple[bool, bool]:
    """Return whether another value makes another configuration, and another workload."""
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


def history(name: str, *values: object) -> list[dict[str, object]]:
    return [{name: value, "depth": 50} for value in values]


@pytest.mark.parametrize("name", ["fold", "num_samples", "split-point", "label_noise"])
def test_what_differs_on_every_run_is_ignored_from_the_third_on(name):
    assert roles(history(name, 1, 2))[name].role == WORK
    assert roles(history(name, 1, 2, 3))[name] == Role(IGNORED, BY_HISTORY)
    assert roles(history(name, *range(20), 3, 3))[name].role == IGNORED
    assert roles(history(name, 1, 1, 2, 2, 3, 3))[name].role == WORK


@pytest.mark.parametrize("name", ["hidden_dim", "model_name", "data_dir", "image_size", "depth"])
def test_what_makes_the_work_is_never_learnt_away(name):
    assert roles([{name: value} for value in range(9)])[name].role == WORK


def test_people_have_the_last_word():
    known = roles(history("batch_size", 1, 2, 3), {"batch_size": IGNORED, "fold": TUNING})
    assert known["batch_size"] == Role(IGNORED, BY_PERSON)
    assert known["fold"] == Role(TUNING, BY_PERSON)
    assert known["depth"].role == WORK
    one, other = {"batch_size": 1, "fold": 1}, {"batch_size": 2, "fold": 1}
    assert configuration_key(one, known) == configuration_key(other, known)
    assert configuration_key(one, known) != configuration_key({"batch_size": 1, "fold": 2}, known)
    assert workload_key({}, one, known) == workload_key({}, {"batch_size": 9, "fold": 9}, known)


def test_a_name_tells_why():
    known = roles([{"lr": 1, "workers": 2, "data_dir": "x"}])
    assert {role.why for role in known.values()} == {BY_NAME}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/data/sales/2026-11-01", "/data/sales/2026-11-02"),
        ("s3://bucket/20261101/part", "s3://bucket/20261230/part"),
        ("data-2026-11-01T04:10:09Z", "data-2026-11-02T05:59:00Z"),
        ("snap_20261101_041009", "snap_20261101_235959"),
        ("x-1767225600", "x-1767312000"),
        ("7f9c24e8-3b12-4fef-91e0-5e1c0c9a8d11", "0a9c24e8-3b12-4fef-91e0-5e1c0c9a8d12"),
        (20261101, 20261102),
    ],
)
def test_the_data_of_another_day_is_the_same_work(one, other):
    assert workload_key({"dataset": one}, {}) == workload_key({"dataset": other}, {})
    assert workload_key({}, {"data_dir": one}) == workload_key({}, {"data_dir": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cifar10", "cifar100"),
        ("imagenet-2012", "imagenet-2021"),
        ("resnet50", "resnet101"),
        ("v1.2", "v1.3"),
        (1_600_000_000, 1_700_000_000),
        (64, 128),
        (True, False),
        (0.5, 0.25),
    ],
)
def test_other_numbers_are_other_work(one, other):
    assert workload_key({"dataset": one}, {}) != workload_key({"dataset": other}, {})


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_value_is_taken_and_only_once_shortened(value):
    assert strip_dates(strip_dates(value)) == strip_dates(value)


STRUCTURE = (
    *("hidden", "layer", "layers", "depth", "width", "dim", "dims", "size", "heads", "blocks"),
    *("channels", "filters", "units", "embed", "embedding", "vocab", "resolution", "image", "crop"),
    *("patch", "length", "seq", "sequence", "context", "backbone", "encoder", "decoder"),
)


@pytest.mark.parametrize("name", STRUCTURE)
def test_what_changes_the_cost_of_a_sample_is_work_even_if_it_differs_on_every_run(name):
    assert roles([{name: value} for value in range(9)])[name].role == WORK


def test_the_roles_are_kept_in_the_database_by_these_names():
    assert comparability.ROLES == ("work", "tuning", "ignored")
    known = roles([{"lr": 1, "fold": n, "kind": 1} for n in range(3)], {"x": "work"})
    whys = {name: role.why for name, role in known.items()}
    assert whys == {"lr": "name", "fold": "history", "kind": "usual", "x": "person"}
