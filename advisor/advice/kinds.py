"""The kinds of fixes: which finding each answers, what to change, and how."""

from __future__ import annotations

from types import MappingProxyType

from advisor.advice.fixes import Fix
from advisor.advice.recommendation import PRIOR

CHECKPOINTS = "fix_checkpoints"
UNUSED_GPUS = "use_all_gpus"
RAISE_BATCH = "raise_batch"
FULL_PRECISION = "full_precision"
"""The rule whose advice is to compute in shorter numbers, as `advice.precision` advises by what is
known of other trainings: the finding knows more."""

_IN_BACKGROUND = Fix(
    kind=CHECKPOINTS,
    title="Save checkpoints in the background",
    setting="checkpoints",
    value="saved in the background, less often",
    effort="medium",
    risk=0.8,
    risk_dimension="memory",
    risk_reason="Host memory may run out: a copy of the model stays there while it is written.",
    steps=(
        "PyTorch 2.3 and newer: from torch.distributed.checkpoint import async_save",
        "pending = async_save(state, checkpoint_id=path)  # pending.result() before the next one",
        "Lightning 1.7 and newer: Trainer(plugins=[AsyncCheckpointIO()])",
        "Hugging Face's Trainer waits for each checkpoint: save less often (a larger save_steps).",
        "Write to a local disk first, and upload from there.",
    ),
)
_INTERVAL = Fix(
    kind=CHECKPOINTS,
    title="Change how often checkpoints are saved",
    setting="checkpoint_interval",
    value="the interval that costs least",
    effort="very_low",
    risk=0.4,
    risk_dimension="lost work",
    risk_reason="After a failure, the work since the last checkpoint is repeated.",
    steps=(
        "if time.monotonic() - saved_at >= interval_seconds: save(); saved_at = time.monotonic()",
    ),
)
_RESTARTS = Fix(
    kind="speed_up_restarts",
    title="Prepare machines, so that restarts take a minute",
    setting="restarts",
    value="prepared beforehand",
    effort="medium",
    risk=0.4,
    risk_dimension="time",
    risk_reason="A cached image or data set may be out of date.",
    steps=(
        "Build packages into the image, and keep data on a volume that outlives the machine.",
        "torch.load(path, mmap=True, map_location=device)  # from a local copy",
        "torch.compile: keep TORCHINDUCTOR_CACHE_DIR on a volume that outlives the run.",
    ),
)
_MISSING = Fix(
    kind="save_checkpoints",
    title="Save checkpoints, so that a failure loses little",
    setting="checkpoint_interval",
    value="1800 s",
    effort="low",
    risk=0.4,
    risk_dimension="time",
    risk_reason="Saving takes time too: a few per cent, if the model is large.",
    steps=('torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)',),
)
_EVALUATION = Fix(
    kind="shorten_evaluation",
    title="Evaluate less often, or on part of the data",
    setting="evaluation",
    value="less often",
    effort="low",
    risk=1.2,
    risk_dimension="quality",
    risk_reason="The best epoch may be missed: fewer evaluations choose the model.",
    steps=("if epoch % 5 == 0: evaluate()", "with torch.inference_mode(): ...  # larger batches"),
)
_START_UP = Fix(
    kind="shorten_start_up",
    title="Shorten the start-up",
    setting="start_up",
    value="prepared beforehand",
    effort="medium",
    risk=0.6,
    risk_dimension="time",
    risk_reason="Data that is streamed may arrive too slowly for the training.",
    steps=(
        'SageMaker: TrainingInput(s3_data, input_mode="FastFile") streams instead of copying.',
        "Build packages into the image, instead of installing them at the start.",
        "torch.compile: keep TORCHINDUCTOR_CACHE_DIR on a volume that outlives the run.",
    ),
)
_IDLE_TAIL = Fix(
    kind="end_idle_tail",
    title="End the machines with the training",
    setting="end_of_run",
    value="with the training",
    effort="low",
    risk=0.4,
    risk_dimension="results",
    risk_reason="Results may be lost if the machine stops before they are uploaded.",
    steps=(
        "trimtab run -- python train.py && sudo shutdown -h now",
        "Slurm: end the batch script.",
    ),
)
_HUNG = Fix(
    kind="stop_hung_runs",
    title="Stop runs that hang",
    setting="stop",
    value="when hung",
    effort="low",
    risk=1.0,
    risk_dimension="results",
    risk_reason="A run that would have gone on may be stopped; its last checkpoint remains.",
    steps=(
        "In the job's settings, let Trimtab stop hung runs.",
        "torch.distributed.init_process_group(timeout=timedelta(minutes=10))",
    ),
)
_NOTEBOOK = Fix(
    kind="stop_idle_notebook",
    title="Stop idle notebooks",
    setting="stop",
    value="when idle",
    effort="very_low",
    risk=0.6,
    risk_dimension="results",
    risk_reason="What is only in the notebook's memory is lost.",
    steps=("c.MappingKernelManager.cull_idle_timeout = 3600  # jupyter_server_config.py",),
)
_NO_PROGRESS = Fix(
    kind="stop_early",
    title="End the training when it stops improving",
    setting="early_stopping",
    value="on",
    effort="low",
    risk=1.6,
    risk_dimension="quality",
    risk_reason="The metric may improve again later, as with a learning rate that is lowered.",
    steps=(
        'Lightning: EarlyStopping(monitor="val_loss", patience=5)',
        "Hugging Face: EarlyStoppingCallback(early_stopping_patience=5)",
    ),
)
_USE_GPUS = Fix(
    kind=UNUSED_GPUS,
    title="Give the unused GPUs work",
    setting="processes_per_node",
    value="one for each GPU",
    effort="medium",
    risk=1.6,
    risk_dimension="scaling",
    risk_reason="More GPUs may not speed the training up in proportion: they have to communicate.",
    steps=(
        "trimtab run -- torchrun --nproc-per-node=gpu train.py",
        "Slurm: #SBATCH --ntasks-per-node=N, one for each GPU",
        "model = torch.nn.parallel.DistributedDataParallel(model)",
    ),
)
_BALANCE = Fix(
    kind="balance_ranks",
    title="Give every rank the same work",
    setting="work_per_rank",
    value="equal",
    effort="medium",
    risk=1.0,
    risk_dimension="cause",
    risk_reason="If the machine itself is slow, equal work changes nothing: replace the machine.",
    steps=("DistributedSampler(dataset, shuffle=True, drop_last=True)",),
)
_LEAK = Fix(
    kind="fix_memory_leak",
    title="Stop the growth of memory",
    setting="memory",
    value="bounded",
    effort="medium",
    risk=0.4,
    risk_dimension="time",
    risk_reason="Looking for the cause takes time; the run itself isn't put at risk.",
    steps=("losses.append(loss.item())  # not the tensor", "@functools.lru_cache(maxsize=1000)"),
)
_BATCH = Fix(
    kind=RAISE_BATCH,
    title="Raise the batch size",
    setting="batch_size",
    value="larger",
    effort="low",
    risk=2.0,
    risk_dimension="quality",
    risk_reason="A larger batch may change the results: the learning rate has to be tuned again.",
    steps=("DataLoader(dataset, batch_size=...)", "Check the metric against the last run's."),
    # Nobody has measured this training with another batch.
    rung=PRIOR,
)
_RETRIES = Fix(
    kind="limit_retries",
    title="Limit how often a failing run is restarted",
    setting="restarts",
    value="limited",
    effort="low",
    risk=0.4,
    risk_dimension="results",
    risk_reason="A failure that a further start would have survived ends the run.",
    steps=("torchrun --max-restarts=1 train.py", "SageMaker: Estimator(max_retry_attempts=1)"),
)
_GAPS = Fix(
    kind="close_epoch_gaps",
    title="Keep the loader's workers between epochs",
    setting="persistent_workers",
    value="True",
    effort="low",
    risk=0.4,
    risk_dimension="memory",
    risk_reason="Workers that stay keep their memory between epochs.",
    steps=("DataLoader(dataset, num_workers=..., persistent_workers=True, prefetch_factor=4)",),
)
_LOADER = Fix(
    kind="tune_loader",
    title="Set the number of loader workers by the cores",
    setting="num_workers",
    value="one for each core of a rank",
    effort="very_low",
    risk=0.4,
    risk_dimension="memory",
    risk_reason="Each worker needs memory of its own.",
    steps=("DataLoader(dataset, num_workers=..., pin_memory=True, persistent_workers=True)",),
)
_CORES = Fix(
    kind="relieve_cores",
    title="Make the work on the cores cheaper, so that the GPUs don't wait",
    setting="cpu_work",
    value="cheaper",
    effort="medium",
    risk=1.0,
    risk_dimension="cause",
    risk_reason="The cores may be busy with something that the GPUs don't wait for.",
    steps=("Prepare the data once and store it.", "Move augmentation to the GPU (NVIDIA DALI)."),
)
_READING = Fix(
    kind="speed_up_reading",
    title="Read the data faster, so that the GPUs don't wait",
    setting="data_format",
    value="few large files on a local disk",
    effort="medium",
    risk=0.6,
    risk_dimension="cause",
    risk_reason="Another program on the machine may cause the disk's waits.",
    steps=("Copy the data to local NVMe first.", "Store samples in shards (WebDataset, TFRecord)."),
)
_CHANNELS_LAST = Fix(
    kind="channels_last",
    title="Store the model and its images in channels_last",
    setting="memory_format",
    value="channels_last",
    effort="very_low",
    risk=0.4,
    risk_dimension="speed",
    risk_reason="A layer without a kernel for this format changes it back and forth.",
    steps=(
        "model = model.to(memory_format=torch.channels_last)",
        "images = images.to(device, memory_format=torch.channels_last)",
    ),
    # What it gives differs from model to model, and nobody has measured this one.
    rung=PRIOR,
)
_SHORTER_NUMBERS = Fix(
    kind="shorter_numbers",
    title="Compute in TF32 or bfloat16",
    setting="precision",
    value="tf32 or bf16",
    effort="very_low",
    risk=1.6,
    risk_dimension="quality",
    risk_reason="The results may change: compare the metric of a whole run.",
    steps=(
        'torch.set_float32_matmul_precision("high")  # TF32',
        'with torch.autocast("cuda", dtype=torch.bfloat16): loss = model(batch)',
    ),
    rung=PRIOR,
)
_COOL = Fix(
    kind="cool_gpus",
    title="Train on GPUs that keep their clock",
    setting="node",
    value="another one",
    effort="low",
    risk=0.2,
    risk_dimension="time",
    risk_reason="Another node may be as hot, if the room is.",
    steps=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE", "Slurm: sbatch --exclude=NODE"),
)
_QUOTA = Fix(
    kind="raise_cpu_quota",
    title="Raise the container's quota of CPU time",
    setting="cpu_quota",
    value="higher",
    effort="very_low",
    risk=0.6,
    risk_dimension="neighbours",
    risk_reason="Other containers of the machine get less of its cores.",
    steps=(
        "Kubernetes: raise resources.limits.cpu, or leave it out and keep requests.cpu",
        "Docker: docker run --cpus=N",
        "OMP_NUM_THREADS=1 python train.py  # where threads only spin",
    ),
)

KINDS = MappingProxyType(
    {
        "checkpoint_stalls": _IN_BACKGROUND,
        "checkpoint_interval": _INTERVAL,
        "checkpoint_missing": _MISSING,
        "evaluation_share": _EVALUATION,
        "startup_breakdown": _START_UP,
        "max_initialization_time": _START_UP,
        "idle_tail": _IDLE_TAIL,
        "hung": _HUNG,
        "idle_notebook": _NOTEBOOK,
        "no_progress": _NO_PROGRESS,
        "unused_gpus": _USE_GPUS,
        "stragglers": _BALANCE,
        "load_balancing": _BALANCE,
        "host_memory_leak": _LEAK,
        "gpu_memory_increase": _LEAK,
        "batch_size": _BATCH,
        "repeated_failures": _RETRIES,
        "restart_loop": _RETRIES,
        "slow_restart": _RESTARTS,
        "lost_work": _INTERVAL,
        "failed_late": _MISSING,
        "epoch_gaps": _GAPS,
        "dataloader": _LOADER,
        "cpu_bottleneck": _CORES,
        "io_bottleneck": _READING,
        "channels_last": _CHANNELS_LAST,
        "cpu_throttled": _QUOTA,
        "thermal_throttling": _COOL,
        FULL_PRECISION: _SHORTER_NUMBERS,
    }
)
"""Rule -> the fix of its finding. `input_bound` has a module of its own; findings about the size of
the machine are answered by another machine."""
