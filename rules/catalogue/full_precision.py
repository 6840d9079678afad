"""The training computes in float32 on a GPU whose tensor cores are made for shorter numbers.

## What it checks
The numbers in which the training computes, as the training hook sees them: autocast, the type of
the parameters, and whether products and convolutions of float32 may use TF32. And how busy the GPUs
and their tensor cores are.

## Why it costs money
Without TF32 the tensor cores stand still: on an A100 float32 products reach 19.5 TFLOP/s, in TF32
156, in bfloat16 312.

## When it fires
When autocast is off, the parameters are float32 and TF32 is off (for a model of at least 8
convolutions also for convolutions, which PyTorch allows by itself), the GPU's generation has TF32,
and a GPU is at least `busy_pct` busy in the mean of the work. It needs `patience_seconds` of known
samples, or `patience_share_pct` of a short run, and never less than 20 s.

## When it is wrong
Some work needs all digits of float32: solvers, some losses, inverses of matrices. A model whose
time goes to reading memory gains less. TF32 and 16 bits change the results a little: compare the
metric of a whole run. Kernels of the training's own may use tensor cores all the same: where their
activity is known, the finding names it.

## How to fix it
`torch.set_float32_matmul_precision("high")` allows TF32. bfloat16 is faster still, and halves the
memory of activations: `torch.autocast("cuda", dtype=torch.bfloat16)` around the forward pass and
the loss, `bf16=True` in Hugging Face's TrainingArguments, `precision="bf16-mixed"` in Lightning.

## Parameters
`busy_pct`: a GPU that is less busy mostly waits for something else. `patience_seconds` and
`patience_share_pct` are the evidence that is needed.

## Sources
Rates: NVIDIA's data sheet of the A100. On an H200 we measured 2.42 times the speed with TF32
(ResNet-50, batch 128: 879 and 2,125 images a second) and 2.27 (GPT-2, batch 16: 48,926 and 111,112
tokens), 2.63 and 2.82 with bfloat16; tensor cores were 0.3 and 1.5 % active without TF32, 9 and
22 % with it. That a fix gives back 0.25 to 0.65 of the GPU's time is our estimate around these.
"""

from __future__ import annotations

from rules.category import GPU
from rules.frame import NodeFrame, RunFrame
from rules.gpu_generations import has_tf32
from rules.gpu_work import (
    PARAMETERS,
    are_all_known,
    busy_gpus,
    claimed_seconds,
    describe_busy,
    told_numbers,
    work_numbers,
)
from rules.gpus import unfit
from rules.rule import Claim, Directness, Numbers, Rule, Values, Verdict
from rules.wording import range_pct

LABELS = ("effective",)
GIVEN_BACK = (0.25, 0.65)
LEAST_CONVOLUTIONS = 8


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers = work_numbers(frame) | told_numbers(frame)
    for node in frame.nodes.values():
        for number in node.used_gpus:
            known = has_tf32(_model(node, number))
            flag = None if known is None else float(known)
            numbers[f"has_tf32@{node.key}/gpu{number}"] = flag
    return Numbers(numbers)


def _model(node: NodeFrame, number: int) -> str:
    """Return the GPU's model; empty: only its samples are known."""
    gpus = node.hardware.gpus
    return gpus[number].model if number < len(gpus) else ""


def judge(numbers: Numbers, values: Values) -> Verdict:
    if reason := unfit(numbers) or _computes_otherwise(numbers):
        return reason
    generations = numbers.by_entity("has_tf32")
    able = {gpu for gpu, has in generations.items() if has}
    are_known = generations.keys() == numbers.entities("has_tf32")
    if not able:
        if are_known:
            no_tf32 = "The tensor cores of these GPUs don't compute in TF32."
            return Verdict("not_applicable", no_tf32)
        return Verdict("insufficient_data", "Missing: whether these GPUs compute in TF32.")
    busy = busy_gpus(numbers, values)
    if isinstance(busy, str):
        return Verdict("insufficient_data", busy)
    if plain := {gpu: pct for gpu, pct in busy.items() if gpu in able}:
        return _fired(numbers, plain, numbers.by_entity("tensor_pct"))
    if not are_known or not are_all_known(numbers, values):
        missing = "Missing: the utilisation of each GPU, and whether it computes in TF32."
        return Verdict("insufficient_data", missing)
    limit = f"no GPU that has TF32 was {values['busy_pct']:g} % busy"
    return Verdict("passed", f"{_IN_FLOAT32}, but {limit}.")


_IN_FLOAT32 = "The training computes in float32 without TF32"


def _computes_otherwise(numbers: Numbers) -> Verdict | None:
    """Return the verdict on a training that doesn't compute in float32 without TF32, or of which
    that isn't known.
    """
    is_float32, products = numbers.get("is_float32"), numbers.get("is_tf32")
    if is_float32 is None:
        return Verdict("insufficient_data", "Missing: in which numbers the training computes.")
    if not is_float32:
        return Verdict("passed", "The training doesn't compute in float32 alone.")
    if products is None:
        return Verdict("insufficient_data", "Missing: whether TF32 is allowed.")
    if products:
        return Verdict("passed", "The training computes in float32, and TF32 is allowed.")
    return _convolves_in_tf32(numbers)


def _convolves_in_tf32(numbers: Numbers) -> Verdict | None:
    """Return the verdict on a model whose convolutions compute in TF32, or may."""
    convolutions, allowed = numbers.get("convolutions"), numbers.get("is_cudnn_tf32")
    if allowed == 0 or (convolutions is not None and convolutions < LEAST_CONVOLUTIONS):
        return None
    if convolutions is None or allowed is None:
        missing = "Missing: whether the model's convolutions compute in TF32."
        return Verdict("insufficient_data", missing)
    return Verdict("passed", "The training computes in float32, and TF32 is allowed.")


def _fired(numbers: Numbers, gpus: dict[str, float], tensor: dict[str, float]) -> Verdict:
    known = [tensor[gpu] for gpu in gpus if gpu in tensor]
    idle = f" Tensor cores were {range_pct(known)} active." if known else ""
    return Verdict(
        "fired",
        f"{describe_busy(gpus, numbers.get('gpus_count') or 0.0)}, and the training computes in "
        f"float32 without TF32.{idle}",
        advice='Call torch.set_float32_matmul_precision("high") for TF32, or train in bfloat16: '
        'torch.autocast("cuda", dtype=torch.bfloat16). Compare the metric of a whole run: both may '
        "change the results a little.",
        claims=(Claim(LABELS, claimed_seconds(numbers, gpus), *GIVEN_BACK),),
        severity="high",
        dedupe_key="full_precision",
    )


RULE = Rule(
    id="full_precision",
    title="Computes in float32 without TF32",
    category=GPU,
    version=1,
    needs=("gpu*.busy_pct",),
    claims_on=LABELS,
    directness=Directness.TOLD_CAUSE,
    parameters=(*PARAMETERS,),
    measure=measure,
    judge=judge,
)
