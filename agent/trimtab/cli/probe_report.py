"""Describes in words what a probe found."""

from __future__ import annotations

from trimtab.probe import Result, Watch
from trimtab.supervise import CommandEnding
from trimtab.throughput import Interval

_GIB = 1024**3
_PACE = {
    "loader": "the data loader set the pace: {share:.0%} of the step time waited for data",
    "gpu": "the GPU set the pace: {share:.0%} of the step time waited for data",
    "cpu": "the CPU set the pace, no GPU was seen: {share:.0%} of the step time waited for data",
}
_UNSEEN = (
    "no training step was seen{when}. The agent sees the steps of PyTorch optimizers and Keras."
    " For another loop, call `trimtab.step(samples=n)` at the end of each step."
)


def lines(result: Result, url: str) -> list[str]:
    rate = result.steps_per_second
    said = [
        f"{_rate(rate)} steps/s (80 % interval), over {result.steps} steps after"
        f" {result.warmup_steps} of warm-up"
    ]
    if result.samples_per_step is not None:
        per_step = result.samples_per_step
        scaled = Interval(rate.low * per_step, rate.value * per_step, rate.high * per_step)
        said.append(f"{_rate(scaled)} samples/s, {per_step:g} samples a step")
    memory = ((result.gpu_memory_bytes, "of one GPU"), (result.host_memory_bytes, "of the host"))
    peaks = [f"{size / _GIB:.2f} GiB {what}" for size, what in memory if size]
    if peaks:
        said.append(f"peak memory: {', '.join(peaks)}")
    said.append(_pace(result))
    return [*said, url] if url else said


def too_few(watch: Watch, ending: CommandEnding, has_timed_out: bool) -> str:
    if ending.state == "failed":
        return f"not measured: the command failed with exit code {ending.exit_code}"
    when = " before the time limit" if has_timed_out else ""
    if not watch.steps_seen:
        return "not measured: " + _UNSEEN.format(when=when)
    after = "at the time limit" if has_timed_out else "when the command ended"
    return (
        f"not measured: {watch.steps_seen} steps were seen {after}, too few for warm-up and"
        f" {watch.plan.steps} steps. Raise --max-seconds or lower --steps."
    )


def _pace(result: Result) -> str:
    if result.data_wait_share is None and result.pace == "gpu":
        return f"the GPU set the pace: it was busy for {result.gpu_busy_share:.0%} of the step time"
    if result.data_wait_share is None:
        return "what set the pace is unknown: the loop's waits for data weren't seen"
    return _PACE[result.pace].format(share=result.data_wait_share)


def _rate(rate: Interval) -> str:
    return f"{rate.value:.4g} ({rate.low:.4g} to {rate.high:.4g})"
