"""The hook that `trimtab run` puts into a Python that it starts, before any torch comes into
play.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from trimtab import hooks
from trimtab.ranks import ProcessRank, process_rank

PRINT_PATHS = (
    "import sys, os; print([p for p in sys.path if 'injected' in p], 'torch' in sys.modules,"
    " 'trimtab' in sys.modules, [type(f).__name__ for f in sys.meta_path][:1])"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


def test_a_script_finds_its_path_as_it_was_and_nothing_of_ours_loaded(trimtab, environment):
    done = trimtab(environment, "run", "--", sys.executable, "-c", PRINT_PATHS)
    assert (done.stdout, done.stderr) == ("[] False False ['_Watcher']\n", "")


def test_the_hidden_sitecustomize_still_runs(trimtab, environment, site):
    (site / "sitecustomize.py").write_text("import sys; sys.mine = __file__; GREETING = 'hello'\n")
    script = "import sys, sitecustomize; print(sys.mine, sitecustomize.GREETING)"
    environment = environment | {"PYTHONPATH": str(site)}
    done = trimtab(environment, "run", "--", sys.executable, "-c", script)
    assert done.stdout == f"{site / 'sitecustomize.py'} hello\n"


def test_the_errors_of_a_hidden_sitecustomize_are_reported_as_without_us(
    trimtab, environment, site
):
    (site / "sitecustomize.py").write_text("1 / 0\n")
    environment = environment | {"PYTHONPATH": str(site)}
    words = (sys.executable, "-c", "print('runs')")
    bare = subprocess.run(words, env=environment, capture_output=True, text=True)
    done = trimtab(environment, "run", "--", *words)
    assert (done.stdout, done.returncode) == (bare.stdout, 0)
    assert "division by zero" in bare.stderr
    assert done.stderr == bare.stderr * 2  # the agent's own Python has it as well


def test_a_script_may_import_the_sdk_where_trimtab_is_not_installed(trimtab, environment, tmp_path):
    """The agent's own Python and the training's are often two."""
    script = "import trimtab; trimtab.step(); print(trimtab.__file__)"
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    done = trimtab(environment, "run", "--", str(bare / "bin" / "python"), "-c", script)
    assert done.stdout == f"{Path(hooks.__file__).parents[1] / '__init__.py'}\n"
    assert done.stderr == ""


@pytest.mark.parametrize("more", [{"TRIMTAB_DISABLE": "1"}, {}])
def test_disabled_there_is_no_hook(trimtab, environment, more):
    words = ["env", "TRIMTAB_DISABLE=1"] if not more else []
    done = trimtab(environment | more, "run", "--", *words, sys.executable, "-c", PRINT_PATHS)
    assert "_Watcher" not in done.stdout
    assert done.returncode == 0


def test_the_path_of_the_user_follows_ours_and_an_empty_one_adds_no_working_folder():
    mine = hooks.environment({"PYTHONPATH": "/a:/b"}, Path("/run"))["PYTHONPATH"].split(":")
    assert mine[1:] == ["/a", "/b"]
    alone = hooks.environment({"PYTHONPATH": ""}, Path("/run"))["PYTHONPATH"]
    assert ":" not in alone
    again = hooks.environment({"PYTHONPATH": f"{alone}:/a"}, Path("/run"))["PYTHONPATH"]
    assert again == f"{alone}:/a"


def test_a_torch_that_is_not_what_we_know_is_left_alone(trimtab, environment, site):
    (site / "torch" / "optim").mkdir(parents=True)
    (site / "torch" / "__init__.py").write_text("")
    (site / "torch" / "optim" / "__init__.py").write_text("")
    (site / "torch" / "optim" / "optimizer.py").write_text("answer = 42\n")
    environment = environment | {"PYTHONPATH": str(site)}
    script = "import torch.optim.optimizer as o; print(o.answer, type(o.__loader__).__name__)"
    done = trimtab(environment, "run", "--", sys.executable, "-c", script)
    assert (done.stdout, done.stderr) == ("42 SourceFileLoader\n", "")


RANKS = [
    ({}, ProcessRank(0, 0, 1)),
    ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, ProcessRank(3, 1, 8)),
    ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16"}, ProcessRank(5, 1, 16)),
    (
        {
            "OMPI_COMM_WORLD_RANK": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            "OMPI_COMM_WORLD_SIZE": "4",
        },
        ProcessRank(2, 0, 4),
    ),
    ({"HOROVOD_RANK": "1", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_SIZE": "2"}, ProcessRank(1, 1, 2)),
    ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ProcessRank(1, 0, 2)),
    ({"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-2"}, ProcessRank(1, 0, 2)),
    ({"SM_HOSTS": "nonsense"}, ProcessRank(0, 0, 1)),
    ({"RANK": "x", "SLURM_PROCID": "2"}, ProcessRank(2, 0, 3)),
]


@pytest.mark.parametrize(("environment", "expected"), RANKS, ids=str)
def test_the_launcher_says_which_rank_a_process_is(environment, expected):
    assert process_rank(environment) == expected
