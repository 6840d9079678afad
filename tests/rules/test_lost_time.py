"""Lost steps, restarts, loads of checkpoints and compilation in the ledger of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rules.frame import NodeFrame
from rules.global_steps import node_steps
from rules.ledger import ledger
from rules.ledger_labels import LABELS
from rules.lost_steps import run_steps, shift_ranges
from rules.rule import Window
from rules.step_ranges import NEW, RESUMED
from rules.training_loop import phase_spans
from tests.rules import frames as f
from tests.rules.restarted import Events, gpu_node, process, restore, told
from webapp.analysis.selectors.ledger import MEANINGS


def seconds(*nodes: NodeFrame) -> dict[str, float]:
    return ledger(f.run(*nodes, duration=1000)).node_seconds()


def first_and_last(node: NodeFrame) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in node_steps(node).ranges]


def test_every_label_has_a_title_and_a_meaning() -> None:
    assert set(MEANINGS) == {*LABELS, "other_programs"}, "the last is in earlier ledgers"


def test_steps_are_counted_from_1_until_somebody_tells() -> None:
    node = gpu_node(f.steps(100))
    assert first_and_last(node) == [(1, 100)]
    assert node_steps(node).ranges[0].is_counted
    node = gpu_node(f.steps(100), events=told((49.9999, 1050)))
    assert first_and_last(node) == [(1001, 1100)]
    assert not node_steps(node).ranges[0].is_counted


def test_a_loaded_checkpoint_tells_where_the_steps_begin() -> None:
    assert first_and_last(gpu_node(f.steps(100, start=10), events=restore(8, 5, 700))) == [
        (701, 800)
    ]


def test_without_a_step_in_the_loaded_checkpoint_numbers_are_unknown() -> None:
    steps = node_steps(gpu_node(f.steps(100, start=10), events=restore(8, 5)))
    assert steps.ranges == ()
    assert steps.is_unknown


def test_weights_of_another_model_loaded_in_between_change_nothing() -> None:
    node = gpu_node(f.steps(50), f.steps(50, start=60), events=restore(58, 5))
    assert first_and_last(node) == [(1, 100)]


def test_a_checkpoint_loaded_in_between_is_a_restart() -> None:
    node = gpu_node(f.steps(100), f.steps(100, start=120), events=restore(115, 10, 80))
    assert first_and_last(node) == [(1, 100), (81, 180)]
    times = seconds(node)
    assert times["lost"] == pytest.approx(20)
    assert times["restore"] == pytest.approx(10)


def test_a_process_that_its_launcher_restarted() -> None:
    events = [
        process(0),
        process(300, restarts=1),
        *told((101, 1), (301 + 50, 81)),
        *restore(340, 20),
    ]
    node = gpu_node(f.steps(100, start=100), f.steps(200, start=350), events=events)
    assert first_and_last(node) == [(1, 100), (81, 280)]
    assert [each.begins for each in node_steps(node).ranges] == [RESUMED, RESUMED]
    times = seconds(node)
    assert times["lost"] == pytest.approx(20)
    assert times["restart"] == pytest.approx(100), "from the last step to the next process"
    assert times["restore"] == pytest.approx(20)
    assert times["initialise"] == pytest.approx(100 + 50 - 20)


def evaluation(began: float, ended: float | None = None) -> Events:
    data = {"rank": 0, "phase": "evaluate"}
    edges: Events = [(began, "phase_begin", data)]
    return edges if ended is None else [*edges, (ended, "phase_end", data)]


def test_an_evaluation_ends_with_its_process() -> None:
    """All that the next process did until its own evaluation was called evaluation, too."""
    processes = [process(0), process(300, restarts=1)]
    node = gpu_node(
        f.steps(100, start=100),
        f.steps(550, start=350),
        events=[*processes, *evaluation(200), *restore(340, 20, 100), *evaluation(900, 910)],
    )
    assert seconds(node)["evaluation"] == pytest.approx(10)
    assert phase_spans(node, "evaluate", 1000) == [Window(200, 300), Window(900, 910)]


@pytest.mark.parametrize("kind", ["process_exit", "session_end"])
def test_an_evaluation_ends_with_its_session(kind: str) -> None:
    events = [process(0), *evaluation(200), (250, kind, {"state": "failed"}), process(300)]
    node = gpu_node(f.steps(100, start=100), events=[*events, *evaluation(900, 910)])
    assert phase_spans(node, "evaluate", 1000) == [Window(200, 250), Window(900, 910)]


def test_an_evaluation_that_is_going_on_lasts_until_now() -> None:
    again = process(0)[2]  # told again by the same process, with its place in a group
    events = [process(0), *evaluation(200), (250, "rank", {**again, "world_size": 1})]
    node = gpu_node(f.steps(100, start=100), events=events)
    assert phase_spans(node, "evaluate", 1000) == [Window(200, 1000)]


def test_a_process_that_only_evaluates_starts_up_until_then() -> None:
    """The process's whole life was called start-up."""
    events = [process(0), process(300, restarts=1), *restore(340, 20, 50), *evaluation(350, 900)]
    times = seconds(gpu_node(f.steps(100, start=100), events=events))
    assert times["evaluation"] == pytest.approx(550)
    assert times["restart"] == pytest.approx(100)
    assert times["initialise"] == pytest.approx(100 + 50 - 20)


def test_the_next_command_of_a_script_is_no_restart() -> None:
    events = [process(0), process(300), *told((101, 1), (351, 1))]
    node = gpu_node(f.steps(100, start=100), f.steps(200, start=350), events=events)
    assert [each.begins for each in node_steps(node).ranges] == [RESUMED, NEW]
    assert "lost" not in seconds(node)
    assert "restart" not in seconds(node)


def test_an_attempt_on_another_machine_takes_steps_back() -> None:
    first = gpu_node(f.steps(100), key="n1", held=(0, 100), events=told((1, 1)))
    second = gpu_node(f.steps(500, start=400), key="n2", held=(300, 900), events=told((401, 51)))
    found = ledger(f.run(first, second, duration=1000))
    assert {e.label: e.microseconds for e in found.entries if e.node == "n1"} == {
        "lost": 50_000_000,
        "effective": 50_000_000,
    }
    assert not [e for e in found.entries if e.node == "n2" and e.label == "lost"]


def test_runs_of_one_training_take_steps_back_as_attempts_of_one_run_do() -> None:
    """Two attempts in one run, or in two runs that each know the other's steps."""
    first = gpu_node(f.steps(100), key="n1", held=(0, 100), events=told((1, 1)))
    second = gpu_node(f.steps(500, start=400), key="n2", held=(300, 900), events=told((401, 51)))
    together = ledger(f.run(first, second, duration=1000)).entries
    later = run_steps(f.run(second, duration=1000)).ranges
    earlier = run_steps(f.run(first, duration=1000)).ranges
    apart = [
        *ledger(replace(f.run(first, duration=1000), other_steps=tuple(later))).entries,
        *ledger(replace(f.run(second, duration=1000), other_steps=tuple(earlier))).entries,
    ]
    assert tuple(apart) == together


def test_ranges_move_to_another_clock() -> None:
    node = gpu_node(f.steps(10), events=told((1, 1)))
    moved = shift_ranges(node_steps(node).ranges, 5_000_000)
    assert [(each.began_us, each.ended_us) for each in moved] == [(5_000_000, 15_000_000)]


def test_summarised_steps_are_lost_in_part() -> None:
    """A row of 100 steps a second; numbers told once a second don't divide it."""
    table = f.steps(100, duration=0.01).assign(count=100)
    table["start_seconds"] = range(100)
    events = told(*((n + 0.4, 100 * n + 37) for n in range(100)), (300.5, 5050))
    again = f.steps(100, duration=0.01, start=300).assign(count=100)
    again["start_seconds"] = range(300, 400)
    node = gpu_node(table, again, events=[*events, *restore(299, 3, 5000)])
    ranges = node_steps(node).ranges
    assert len(ranges) == 2
    assert ranges[1].first == pytest.approx(5001, abs=60)
    assert seconds(node)["lost"] == pytest.approx(50, abs=2)


def test_slow_first_steps_are_no_compilation() -> None:
    slow = f.steps(1, duration=40, wait=0.25)
    node = gpu_node(slow, f.steps(900, start=40))
    times = seconds(node)
    assert times["first_steps"] == pytest.approx(40 * 0.75 - 1)
    assert "compile" not in times


def test_of_a_slow_first_step_only_what_is_told_is_compilation() -> None:
    told = [(35.0, "compile", {"rank": 0, "seconds": 20.0, "count": 3})]
    node = gpu_node(f.steps(1, duration=40), f.steps(900, start=40), events=told)
    times = seconds(node)
    assert times["compile"] == pytest.approx(20)
    assert times["first_steps"] == pytest.approx(40 - 1 - 20)


def test_slightly_slower_first_steps_are_noise() -> None:
    node = gpu_node(f.steps(3, duration=1.4), f.steps(900, start=4.2))
    assert "first_steps" not in seconds(node)


def test_recompilation_that_the_framework_tells() -> None:
    node = gpu_node(
        f.steps(500),
        f.steps(1, duration=21, start=500),
        f.steps(400, start=521),
        events=[(521.0, "compile", {"rank": 0, "seconds": 20.0, "count": 1})],
    )
    assert seconds(node)["compile"] == pytest.approx(20)
