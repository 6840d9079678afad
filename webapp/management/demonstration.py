"""Two real training runs, measured by the agent against a running service: what the demo shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from webapp.advice.models import Recommendation
from webapp.analysis.models import Analysis, Judgement
from webapp.runs.models import Run

JOB = "digits"
EPOCHS = 60
"""The number of epochs, which is enough for a finding: the slow pipeline's take about half a
minute."""
PIPELINES = ("slow", "fast")
RULE = "input_bound"
# The machine as which the runs are priced, whatever this machine is.
DECLARED = {
    "--provider": "aws",
    "--service": "ec2",
    "--region": "us-east-1",
    "--instance-type": "c5.large",
}
ANALYSIS_SECONDS = 120
Progress = Callable[[float], None]
"""A function that is called with the share that is done, 0 to 1."""


class DemonstrationError(Exception):
    """Raised when something is missing that the demo promises."""


@dataclass(frozen=True)
class DemonstrationResult:
    """The two runs, slow first, and what is recommended, best first."""

    runs: tuple[Run, ...]
    recommendations: tuple[Recommendation, ...]


def measure(url: str, token: str, pipeline: str, progress: Progress) -> Run:
    """Train once under `trimtab run`. Raises DemonstrationError when it fails or leaves no run."""
    with tempfile.TemporaryDirectory(prefix="trimtab-demo-") as folder:
        result = Path(folder) / "result.json"
        process = subprocess.Popen(
            _command(pipeline, result),
            cwd=settings.BASE_DIR,
            env=_environment(url, token),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        output = _followed(process, progress)
        if process.wait() != 0:
            raise DemonstrationError(f"{output}\nThe training ended with {process.returncode}.")
        if not result.exists():
            raise DemonstrationError(f"{output}\nThe training was not measured.")
        run_id = json.loads(result.read_text(encoding="utf-8"))["run_id"]
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        raise DemonstrationError(f"{output}\nRun {run_id} did not arrive at {url}.")
    return run


def _environment(url: str, token: str) -> dict[str, str]:
    """Return our environment without what a surrounding launcher or agent has set.

    The spool is beside the data.
    """
    foreign = ("TRIMTAB_", "SLURM_", "TORCHELASTIC_", "TRAINING_JOB_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    state = str(settings.DATA_DIR / "agent")
    return kept | {"TRIMTAB_URL": url, "TRIMTAB_TOKEN": token, "TRIMTAB_STATE_DIR": state}


def _command(pipeline: str, result: Path) -> list[str]:
    trimtab = str(Path(sys.executable).with_name("trimtab"))
    declared = [word for option in DECLARED.items() for word in option]
    measured = ["run", "--job", JOB, "--result-file", str(result), *declared]
    training = ["examples/train_digits.py", "--pipeline", pipeline, "--epochs", str(EPOCHS)]
    return [trimtab, *measured, "--", sys.executable, *training]


def _followed(process: subprocess.Popen[str], progress: Progress) -> str:
    """Return all that the process printed; its epochs move the progress."""
    output = []
    for line in process.stdout or ():
        output.append(line)
        epoch = re.match(r"epoch +(\d+) ", line)
        if epoch:
            progress(int(epoch[1]) / EPOCHS)
    return "".join(output)


def wait_for_analysis(run: Run, progress: Progress) -> Run:
    """Return the run once its final analysis is saved. Raises DemonstrationError after two
    minutes.
    """
    started = time.monotonic()
    while (passed := time.monotonic() - started) < ANALYSIS_SECONDS:
        analysis = Analysis.objects.filter(run=run, is_final=True).first()
        run.refresh_from_db()
        if analysis is not None and analysis.done >= analysis.wanted and run.has_ended:
            return run
        progress(passed / ANALYSIS_SECONDS)
        time.sleep(0.5)
    error = Analysis.objects.filter(run=run).values_list("error", flat=True).first()
    why = error or "the analysis is still due; see the worker's log"
    raise DemonstrationError(f"{run} ({run.state}) was not analysed: {why}")


def outcome(runs: list[Run]) -> DemonstrationResult:
    """Return the runs with what was concluded from them. Raises DemonstrationError naming what
    lacks.
    """
    # The second run follows the first one's advice, which it claims and may prove.
    states = (Recommendation.ACTIVE, *Recommendation.FOLLOWED)
    given = Recommendation.objects.filter(job=runs[0].job, state__in=states)
    result = DemonstrationResult(tuple(runs), tuple(given.order_by("-saving_usd")))
    missing = list(_missing(result))
    if missing:
        raise DemonstrationError("The demo is incomplete:\n" + "\n".join(missing))
    return result


def _missing(outcome: DemonstrationResult) -> Iterator[str]:
    for run in outcome.runs:
        if run.state != Run.FINISHED:
            yield f"- {run} is {run.state}, not finished"
        if run.cost_usd is None:
            yield f"- {run} has no cost"
    slow, fast = (_state(run) for run in outcome.runs)
    if slow != Judgement.FIRED:
        yield f"- {RULE} on the slow pipeline: {slow}, expected {Judgement.FIRED}"
    if fast == Judgement.FIRED:
        yield f"- {RULE} also fired on the fast pipeline"
    if not outcome.recommendations:
        yield "- no recommendation"


def _state(run: Run) -> str:
    judged = Judgement.objects.filter(run=run, rule=RULE).first()
    return judged.state if judged else "not judged"
