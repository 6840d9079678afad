"""The stages of a shell command, as real shells run them."""

from __future__ import annotations

import shutil
from itertools import pairwise

import pytest

SLEEP = shutil.which("sleep")


@pytest.fixture
def stages(trimtab, online, service, tmp_path):
    """Runs a command in a folder with the programs `prepare`, `train` and `evaluate`, which sleep.
    Name, begin and length of each stage in seconds, in order of the begins."""
    place = tmp_path / "place"

    def run(*words: str, code: int = 0) -> list[tuple[str, float, float]]:
        for name in ("prepare", "train", "evaluate"):
            (place / name).symlink_to(SLEEP)
        done = trimtab(online, "run", "--", *words)
        assert done.returncode == code, done.stderr
        begun = {number: at - data["seconds"] for number, at, data in _events("stage_begin")}
        ended = {}
        for number, at, data in _events("stage_end"):
            ended[number] = (data["name"], begun[number], data["seconds"])
            assert at - data["ago_seconds"] - data["seconds"] == pytest.approx(begun[number], abs=1)
        assert ended.keys() == begun.keys()
        return sorted(ended.values(), key=lambda stage: stage[1])

    def _events(kind: str):
        for segment in service.segments:
            for event in segment.events:
                if event.kind == kind:
                    at = (segment.start_ms + event.time_ms) / 1000
                    yield event.data["number"], at, event.data

    return run


def _check(found: list[tuple[str, float, float]], *expected: tuple[str, float]) -> None:
    """Check names and lengths; each stage begins where the one before it ended."""
    assert [name for name, _, _ in found] == [name for name, _ in expected]
    for (_, _, seconds), (_, wanted) in zip(found, expected, strict=True):
        assert wanted - 0.05 <= seconds <= wanted + 1, found  # a busy machine starts them late
    for (_, began, seconds), (_, following, _) in pairwise(found):
        assert following == pytest.approx(began + seconds, abs=0.15), found


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("between", [" && ", "; ", "\n"], ids=["and", "semicolon", "lines"])
def test_the_commands_of_a_shell_are_stages(stages, shell, between):
    commands = ["./prepare 2", "mkdir -p made", "./train 3 | tee log", "true"]
    found = stages(shell, "-c", between.join([*commands, "./evaluate 3"]))
    _check(found[:2], ("prepare", 2), ("train", 3))
    assert found[2][0] == "evaluate"
    assert found[2][2] == pytest.approx(3, abs=1), "bash becomes its last command"


def test_scripts_that_call_scripts_have_the_stages_of_all(stages, tmp_path):
    (tmp_path / "place" / "inner.sh").write_text("./train 2\n./evaluate 2\ntrue\n")
    found = stages("bash", "-c", "./prepare 2; bash inner.sh; true")
    _check(found, ("prepare", 2), ("train", 2), ("evaluate", 2))


def test_commands_side_by_side_are_stages_that_overlap(stages):
    found = stages("bash", "-c", "./prepare 4 & ./train 2 & wait; wait")
    lengths = {name: seconds for name, _, seconds in found}
    assert lengths["prepare"] == pytest.approx(4, abs=1)
    assert lengths["train"] == pytest.approx(2, abs=1)


def test_a_stage_that_fails_ends_like_any_other(stages):
    found = stages("sh", "-c", "./prepare 2 && ./train x; exit 3", code=3)
    _check(found, ("prepare", 2))


def test_a_command_without_a_shell_has_no_stages(stages):
    assert stages("./train", "2") == []


def test_names_are_redacted(stages, tmp_path):
    secret = "hf_abcdefghijklmnopqrstuvwxyz012345"
    (tmp_path / "place" / secret).symlink_to(SLEEP)
    ((name, _, _),) = stages("sh", "-c", f"./{secret} 2; true")
    assert secret not in name
