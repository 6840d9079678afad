"""The jobs of the sample workspace: what they train on, how often, and what happens to them.

Each is a list of stages: days on which it ran, and what was different from then on. What the
service concludes of them is not written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

from webapp.sample_data.machines import (
    C5_4XLARGE,
    G4DN_2XLARGE,
    G4DN_XLARGE,
    G5_12XLARGE,
    G5_XLARGE,
    P3_8XLARGE,
)
from webapp.sample_data.simulation import FINISHED, SimulatedEnding, SimulatedRun, sample_id
from webapp.sample_data.training import SimulatedTraining, deviation, simulated_nodes

SEGMENT_MS = 1_200_000
QUARTER_MINUTES = 15
LIVE_RESOLUTION_MS, LIVE_SEGMENT_MS = 5_000, 10_000
OUT_OF_MEMORY = SimulatedEnding(
    "failed",
    1,
    (
        '  File "pretrain.py", line 212, in step',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB. GPU 0 has a total "
        "capacity of 22.06 GiB of which 1.12 GiB is free.",
    ),
)


@dataclass(frozen=True)
class RunGroup:
    """Runs that are alike, on these days before the present one."""

    days_ago: tuple[int, ...]
    training: SimulatedTraining
    commit: str = "first"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    ending: SimulatedEnding = FINISHED


@dataclass(frozen=True)
class SampleJob:
    name: str
    team: str
    owner: str
    dataset: str
    model: str
    stages: tuple[RunGroup, ...]
    hour: int = 2
    """The hour (UTC) at which a day's first run starts; each further one starts a quarter of an
    hour later."""

    def runs(self, now: datetime, workspace: str) -> list[SimulatedRun]:
        """Return the runs, oldest first; they end before the day of `now` (UTC) does."""
        planned = [(days, stage) for stage in self.stages for days in stage.days_ago]
        planned.sort(key=lambda each: -each[0])
        runs: list[SimulatedRun] = []
        for number, (days, stage) in enumerate(planned, start=1):
            earlier = sum(before == days for before, _ in planned[: number - 1])
            hours = timedelta(hours=self.hour, minutes=QUARTER_MINUTES * earlier)
            started_at = _midnight(now) - timedelta(days=days) + hours
            runs.append(self._run(number, stage, started_at, workspace))
        return runs

    def running(self, started_at: datetime, workspace: str) -> SimulatedRun:
        """Return a further run, in small uploads, that can be stopped."""
        latest = self.stages[-1]
        number = sum(len(stage.days_ago) for stage in self.stages) + 1
        watched = replace(latest.training, resolution_ms=LIVE_RESOLUTION_MS)
        run = self._run(number, replace(latest, training=watched), started_at, workspace)
        run_id = sample_id(workspace, self.name, "live", started_at)
        return replace(run, run_id=run_id, segment_ms=LIVE_SEGMENT_MS, allow_stop=True)

    def _run(
        self, number: int, stage: RunGroup, started_at: datetime, workspace: str
    ) -> SimulatedRun:
        of = _varied(stage.training, number)
        return SimulatedRun(
            run_id=sample_id(workspace, self.name, started_at.date(), number),
            job=self.name,
            started_at=started_at,
            duration_ms=of.duration_ms,
            resolution_ms=of.resolution_ms,
            segment_ms=SEGMENT_MS,
            nodes=simulated_nodes(of, _seed(self.name, number), workspace, self.name),
            owner=self.owner,
            team=self.team,
            parameters=_parameters(of) | dict(stage.parameters),
            workload={"entry_point": "train.py", "dataset": self.dataset, "model": self.model},
            command=["python", self.name.rpartition("/")[2], "--epochs", str(of.epochs)],
            git_commit=sample_id("commit", self.name, stage.commit).hex,
            ending=stage.ending,
        )


def _midnight(now: datetime) -> datetime:
    return datetime.combine(now.astimezone(UTC).date(), time(), UTC)


def _varied(of: SimulatedTraining, number: int) -> SimulatedTraining:
    factor = deviation(number)
    return replace(
        of,
        compute_seconds=factor * of.compute_seconds,
        wait_seconds=factor * of.wait_seconds,
    )


def _seed(name: str, number: int) -> int:
    return 1000 * (sample_id(name).int % 10_000) + number


def _parameters(of: SimulatedTraining) -> dict[str, Any]:
    batch = of.batch * of.ranks_per_node * of.nodes
    return {"epochs": of.epochs, "batch_size": batch, "num_workers": of.workers, "lr": 0.001}


def _every(days: int, first: int, count: int) -> tuple[int, ...]:
    """Return days before the present one: `count` of them, the first so long ago."""
    return tuple(first - days * number for number in range(count))


PHOTOS = SimulatedTraining(G5_XLARGE)
SCENES = SimulatedTraining(
    G5_12XLARGE, nodes=2, gpus_used=4, steps_per_epoch=60, batch=16, workers=6,
    compute_seconds=2.3, wait_seconds=0.12, gpu_memory_gib=17.8, memory_gib=61, startup_seconds=80,
)  # fmt: skip
COMMANDS = SimulatedTraining(
    G4DN_2XLARGE, steps_per_epoch=200, compute_seconds=0.55, wait_seconds=0.35, workers=1,
    gpu_memory_gib=10.6, accuracy=0.96, saving_seconds=0.4,
)  # fmt: skip
CLICKS = replace(
    COMMANDS, machine=G5_XLARGE, compute_seconds=0.5, wait_seconds=0.28, batch=512, workers=4,
    accuracy=0.81,
)  # fmt: skip
DIALOGUE = SimulatedTraining(
    G5_12XLARGE, gpus_used=4, steps_per_epoch=50, batch=8, workers=4, compute_seconds=3.6,
    wait_seconds=0.1, gpu_memory_gib=20.9, memory_gib=88, startup_seconds=45, accuracy=0.71,
)  # fmt: skip
TRANSLATION = SimulatedTraining(
    P3_8XLARGE, epochs=6, steps_per_epoch=500, compute_seconds=2.2, wait_seconds=0.08, workers=4,
    gpu_memory_gib=12.6, memory_gib=34, startup_seconds=150, evaluation_seconds=60,
    resolution_ms=20_000, accuracy=0.68,
)  # fmt: skip
CAPTIONS = SimulatedTraining(
    G5_XLARGE, compute_seconds=0.9, wait_seconds=0.03, workers=4, gpu_memory_gib=18.9, accuracy=0.77
)
CHURN = SimulatedTraining(
    C5_4XLARGE, epochs=5, steps_per_epoch=200, batch=4096, compute_seconds=1.1, wait_seconds=0.02,
    workers=0, busy_pct=17.0, memory_gib=5.2, accuracy=0.88,
)  # fmt: skip
TRIAL = SimulatedTraining(
    G4DN_XLARGE, epochs=4, steps_per_epoch=100, compute_seconds=0.6, wait_seconds=0.02, workers=3,
    gpu_memory_gib=9.4, startup_seconds=25, saving_seconds=0.2,
)  # fmt: skip
TRANSCRIBE = SimulatedTraining(
    G5_XLARGE, epochs=12, steps_per_epoch=600, compute_seconds=0.95, wait_seconds=0.04, workers=4,
    gpu_memory_gib=17.2, accuracy=0.9, resolution_ms=10_000,
)  # fmt: skip
LEARNING_RATES = {1e-4: 0.71, 2e-4: 0.78, 5e-4: 0.84, 1e-3: 0.87, 2e-3: 0.88, 5e-3: 0.8}
"""The learning rates that the sweep tries, with the accuracy that each reaches."""

JOBS = (
    # A commit slowed its input pipeline down, and a later one mended it.
    SampleJob(
        "product-photos/train.py", "vision", "Mara", "product-photos", "resnet50",
        (
            RunGroup(_every(5, 88, 9), PHOTOS),
            RunGroup((42, 39, 36), replace(PHOTOS, wait_seconds=0.2), "slow"),
            RunGroup(_every(6, 32, 5), PHOTOS, "mended"),
        ),
    ),
    # Slower since its dataset moved to a bucket in another region; nobody has seen it yet.
    SampleJob(
        "street-scenes/train.py", "vision", "Jonas", "street-scenes", "mask2former",
        (
            RunGroup(_every(8, 81, 8), SCENES),
            RunGroup((15, 8, 1), replace(SCENES, wait_seconds=0.66), "moved"),
        ),
    ),
    # One process loaded its data; then three did, as advised.
    SampleJob(
        "speech-commands/train.py", "speech", "Aiko", "speech-commands", "conformer",
        (
            RunGroup(_every(7, 60, 4), COMMANDS),
            RunGroup(_every(8, 33, 5), replace(COMMANDS, wait_seconds=0.03, workers=3), "loaders"),
        ),
    ),
    # The cores were full. Decoding on the GPU, as advised, left less of that for the training.
    SampleJob(
        "click-ranking/train.py", "ranking", "Tomas", "clicks", "dlrm",
        (
            RunGroup(_every(7, 54, 4), CLICKS),
            RunGroup(
                _every(7, 24, 4),
                replace(CLICKS, compute_seconds=0.86, wait_seconds=0.02, workers=1),
                "decode-on-gpu",
            ),
        ),
    ),
    # The job runs out of GPU memory since sequences are longer.
    SampleJob(
        "dialogue/pretrain.py", "language", "Priya", "dialogues", "llama-1b",
        (
            RunGroup(_every(6, 40, 3), DIALOGUE),
            RunGroup(
                (9, 6, 3, 1),
                replace(DIALOGUE, fails_after=0.55, gpu_memory_gib=22.0),
                "longer",
                {"sequence_length": 4096},
                OUT_OF_MEMORY,
            ),
        ),
    ),
    # The dearest job of all: one of its machine's four GPUs trains.
    SampleJob(
        "translation/train.py", "language", "Priya", "parallel-text", "transformer",
        (RunGroup(_every(9, 74, 9), TRANSLATION),),
    ),
    # Nothing to do.
    SampleJob(
        "captions/train.py", "vision", "Mara", "captions", "blip",
        (RunGroup(_every(12, 66, 6), CAPTIONS),),
    ),
    # The job has no GPUs, and four times the cores that it keeps busy.
    SampleJob(
        "churn/train.py", "ranking", "Tomas", "customers", "gradient-boosting",
        (RunGroup(_every(10, 52, 6), CHURN),),
    ),
    # One run for each learning rate, on one day.
    SampleJob(
        "demand-forecast/sweep.py", "ranking", "Lena", "sales", "tft",
        tuple(
            RunGroup((11, 4), replace(TRIAL, accuracy=accuracy), parameters={"lr": rate})
            for rate, accuracy in LEARNING_RATES.items()
        ),
        hour=9,
    ),
)  # fmt: skip
LIVE_JOB = SampleJob(
    "transcripts/finetune.py", "speech", "Aiko", "transcripts", "whisper-small",
    (RunGroup(_every(10, 32, 4), TRANSCRIBE),),
)  # fmt: skip
"""The job that also has a run that is going on: see `live`."""
