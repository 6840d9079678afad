"""Checks whether a run's results are as good as those of the runs before the change."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from advisor.comparison.job_metrics import JobMetrics, MetricSettings
from advisor.comparison.quality import noise_of, quality_of_b
from advisor.proof.baseline import MissingFigureError
from advisor.proof.runs import CompleteRun


def check_results(before: Sequence[CompleteRun], run: CompleteRun, metrics: MetricSettings) -> None:
    """Raise MissingError if a user metric is worse than the median of the runs before by more than
    its noise, or moved in an unknown direction: cheaper but worse is no saving.

    Args:
        metrics: what people set about the job's metrics.
    """
    told = [each.results for each in before if each.results]
    usual = {
        name: median(results[name] for results in told if name in results)
        for name in {name for results in told for name in results}
    }
    quality = quality_of_b(usual, run.results, JobMetrics(metrics, noise_of(told)))
    if quality.worse:
        raise MissingFigureError(f"its results are worse: {', '.join(map(str, quality.worse))}")
    if quality.unclear:
        moved = ", ".join(map(str, quality.unclear))
        raise MissingFigureError(
            f"its results may be worse: {moved}, and which values are better is unset"
        )
