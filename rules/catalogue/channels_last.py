"""The convolutions of a training in 16 bits are stored channel by channel, which tensor cores don't
read.

## What it checks
The weights of the model's convolutions, as the training hook sees them at the first steps: those
in `channels_last` (NHWC), and those in the usual format (NCHW). And how busy the GPUs are.

## Why it costs money
Tensor cores compute convolutions in NHWC. For a model in NCHW each convolution first changes the
order of its inputs, or runs on a slower kernel.

## When it fires
When the training computes in 16 bits, less than half of at least `least_convolutions` convolutions
are in channels_last, and a GPU is at least `busy_pct` busy in the mean of the work. It needs
`patience_seconds` of known samples, or `patience_share_pct` of a short run, and never less than
20 s.

## When it is wrong
What it gives back differs from model to model; a few layers have no kernel for NHWC, and then the
order changes back and forth. Depthwise convolutions, those of one place and those of one channel
look the same in both formats and don't count. `torch.compile` chooses the format by itself: a
compiled training isn't judged. Nor is one in float32, for which nobody has measured it here.

## How to fix it
`model.to(memory_format=torch.channels_last)` before the training, and the same for each batch of
images: `images.to(device, memory_format=torch.channels_last)`. The results are the same but for
rounding.

## Parameters
`least_convolutions`: a vision transformer has one, and gains nothing. `busy_pct`: a GPU that is
less busy mostly waits for something else. `patience_seconds` and `patience_share_pct` are the
evidence that is needed.

## Sources
What it gives back is 0.18 to 0.5 of the GPU's time, 1.22 to 2 times the speed: PyTorch's tutorial
on memory formats measured 1.22 times on ResNet-50, and 1.08 to 1.35 over a selection of models, on
a V100. On an H200 we measured 1.94 times (ResNet-50, bfloat16, batch 256: 2,419 and 4,695 images a
second). The other figures are ours.
"""

from __future__ import annotations

from rules.category import GPU
from rules.frame import RunFrame
from rules.gpu_work import (
    PARAMETERS,
    busy_gpus,
    claimed_seconds,
    describe_busy,
    told_numbers,
    work_numbers,
)
from rules.gpus import unfit
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict
from rules.wording import write_count

LABELS = ("effective",)
GIVEN_BACK = (0.18, 0.5)


def measure(frame: RunFrame, values: Values) -> Numbers:
    return Numbers(work_numbers(frame) | told_numbers(frame))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if reason := unfit(numbers) or _unjudged(numbers, values):
        return reason
    convolutions, last = numbers.get("convolutions") or 0.0, numbers.get("channels_last") or 0.0
    stored = f"{last:.0f} of {write_count(convolutions, 'convolution')} in channels_last"
    if 2 * last >= convolutions:
        return Verdict("passed", f"The model has {stored}.")
    busy = busy_gpus(numbers, values)
    if isinstance(busy, str):
        return Verdict("insufficient_data", busy)
    if not busy:
        limit = f"no GPU was {values['busy_pct']:g} % busy"
        return Verdict("passed", f"The model has {stored}, but {limit}.")
    return Verdict(
        "fired",
        f"{describe_busy(busy, numbers.get('gpus_count') or 0.0)}, and the model has {stored}: "
        "tensor cores compute convolutions in that format.",
        advice="Store the model and its images in channels_last: "
        "model.to(memory_format=torch.channels_last) before the training, and "
        "images.to(device, memory_format=torch.channels_last) for each batch.",
        claims=(Claim(LABELS, claimed_seconds(numbers, busy), *GIVEN_BACK),),
        severity="medium",
        dedupe_key="channels_last",
    )


def _unjudged(numbers: Numbers, values: Values) -> Verdict | None:
    """Return the verdict on a training for which it isn't known what the format gives back."""
    convolutions = numbers.get("convolutions")
    if convolutions is None:
        missing = "Missing: how the convolutions are stored, which the training hook tells."
        return Verdict("insufficient_data", missing)
    if convolutions < values["least_convolutions"]:
        few = write_count(convolutions, "convolution")
        return Verdict("not_applicable", f"The model has {few} of more than one place.")
    if numbers.get("is_compiled"):
        return Verdict("not_applicable", "torch.compile chooses the memory format by itself.")
    is_half = numbers.get("is_half")
    if is_half is None:
        return Verdict("insufficient_data", "Missing: in which numbers the training computes.")
    if not is_half:
        return Verdict("not_applicable", "The training doesn't compute in 16 bits.")
    return None


RULE = Rule(
    id="channels_last",
    title="Convolutions in a format that tensor cores don't read",
    category=GPU,
    version=1,
    needs=("gpu*.busy_pct",),
    claims_on=LABELS,
    directness=Directness.TOLD_CAUSE,
    parameters=(
        Parameter(
            name="least_convolutions",
            unit="convolutions",
            default=8,
            low=1,
            high=10_000,
            help="Judged from this number of convolutions on",
            source="ours",
            whole=True,
        ),
        *PARAMETERS,
    ),
    measure=measure,
    judge=judge,
)
