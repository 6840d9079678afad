"""Decides whether a probe measured the job's own training, and whether it met its prediction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from advisor.probing.bootstrap import Rate

SAME_BATCH = 0.01
_MOST_NAMED = 2


@dataclass(frozen=True)
class Ran:
    """The program that ran, and how: the side of a measurement that must be equal."""

    entry_point: str
    arguments: Mapping[str, str]
    """The arguments as `arguments()` returns them."""
    unit: str
    batch: float | None
    """Samples a step of all GPUs together."""
    precision: str
    gpus: int


def arguments(command: Sequence[str], entry_point: str) -> dict[str, str]:
    """Return the arguments after the entry point: option -> value, and the other words by their
    place.

    What is before it (Python, torchrun and its processes) isn't the training's.
    """
    after = command.index(entry_point) + 1 if entry_point in command else 1
    words, found, place = list(command[after:]), {}, 0
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            place += 1
            found[f"argument {place}"] = word
        elif "=" in word:
            name, _, value = word.partition("=")
            found[name] = value
        else:
            found[word] = words.pop(0) if words and not words[0].startswith("-") else ""
    return found


def varying_arguments(runs: Sequence[Mapping[str, str]]) -> set[str]:
    """Return the arguments in which the runs of a job differ anyway, such as a name of an output
    folder.
    """
    names = {name for run in runs for name in run}
    return {name for name in names if len({run.get(name) for run in runs}) > 1}


def why_not(
    probe: Ran, reference: Ran, asked_gpus: int | None = None, free: Collection[str] = ()
) -> str:
    """Return why a probe is no evidence for the reference run's job; empty if it is.

    Args:
        asked_gpus: how many GPUs the probe was to use; None: as many as it likes.
        free: arguments that may differ.
    """
    if asked_gpus is not None and probe.gpus < asked_gpus:
        return f"not comparable: {probe.gpus} of {asked_gpus} GPUs"
    if probe.entry_point != reference.entry_point:
        return f"not comparable: {probe.entry_point} instead of {reference.entry_point}"
    if not _is_same_batch(probe, reference):
        return f"not comparable: batch {_batch(probe)} instead of {_batch(reference)}"
    if probe.precision != reference.precision and probe.precision and reference.precision:
        return f"not comparable: {probe.precision} instead of {reference.precision}"
    if probe.unit != reference.unit:
        return f"not comparable: {probe.unit} were counted instead of {reference.unit}"
    names = sorted({*probe.arguments, *reference.arguments} - {*free})
    differing = [
        f"{_argument(name, probe)} instead of {_argument(name, reference)}"
        for name in names
        if probe.arguments.get(name) != reference.arguments.get(name)
    ]
    return f"not comparable: {', '.join(differing[:_MOST_NAMED])}" if differing else ""


def contradiction(measured: Rate, predicted_low: float, predicted_high: float) -> str:
    """Return how a measured speed contradicts its prediction, both as ratios to the job's own run;
    empty if the intervals overlap.
    """
    if measured.low <= predicted_high and measured.high >= predicted_low:
        return ""
    than = "slower" if measured.value < predicted_low else "faster"
    return (
        f"{than} than predicted: {measured.value:.2f} times the speed of the job's run, not"
        f" {predicted_low:.2f} to {predicted_high:.2f} times"
    )


def _is_same_batch(probe: Ran, reference: Ran) -> bool:
    """Return whether the batches are the same in all, or, on another number of GPUs, on each of
    them.
    """
    if probe.batch is None or reference.batch is None:
        return probe.batch is reference.batch
    if _are_near(probe.batch, reference.batch):
        return True
    counts = probe.gpus, reference.gpus
    if counts[0] == counts[1] or not all(counts):
        return False
    return _are_near(probe.batch / counts[0], reference.batch / counts[1])


def _are_near(one: float, other: float) -> bool:
    return abs(one - other) <= SAME_BATCH * other


def _batch(ran: Ran) -> str:
    return "unknown" if ran.batch is None else f"{ran.batch:.4g}"


def _argument(name: str, ran: Ran) -> str:
    if name not in ran.arguments:
        return f"no {name}"
    value = ran.arguments[name]
    return value if name.startswith("argument ") else f"{name} {value}".strip()
