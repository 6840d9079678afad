"""A workspace of many jobs, a long run and one on many nodes, as the service leaves them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bench.charts import GPUS, StoredRuns
from bench.cluster_run import make_cluster_run
from bench.run_rows import BATCH, make_runs, summary
from rules.registry import all_rules

TEAMS = ("vision", "speech", "language", "ranking")
OWNERS = tuple(f"person-{number}" for number in range(40))
LABELS = {"effective": 0.6, "data_stall": 0.2, "gpu_idle": 0.1, "initialise": 0.1}
"""The shares of each GPU's time."""
REGRESSED, FOLLOWED, FAILED, RUNNING, BUDGETS = 30, 60, 40, 20, 12
HOURS = 108.0
"""The time between two runs of a job: twenty in three months."""
LONG_HOURS, LONG_USD = 24, Decimal("786.48")
FIRED = ("input_bound", "low_gpu_utilization")
"""The rules that fire on the long run, on forty stretches each."""


class BusyWorkspace:
    """`jobs` jobs of `runs` runs each; the first has a long one, too."""

    def __init__(self, jobs: int, runs: int) -> None:
        from webapp.accounts.models import Membership, User, Workspace
        from webapp.database.tasks import optimise_database
        from webapp.runs.models import Job

        self.workspace = Workspace.objects.create(name="Busy", time_zone="Europe/Berlin")
        self.user = User.objects.create_user("ada@example.org")
        Membership.objects.create(workspace=self.workspace, user=self.user, role=Membership.OWNER)
        self.jobs = Job.objects.bulk_create(
            Job(
                workspace=self.workspace,
                name=f"team-{number % 4}/train-{number}.py",
                key=f"team-{number % 4}/train-{number}.py",
                owner=OWNERS[number % len(OWNERS)],
                tags={"team": TEAMS[number % len(TEAMS)]},
            )
            for number in range(jobs)
        )
        self.runs = make_runs(self.jobs, runs, HOURS)
        self.by_job = [self.runs[at : at + runs] for at in range(0, len(self.runs), runs)]
        self._label()
        self._advise()
        self._vary()
        self.long_run = self._long_run()
        self.cluster_run = make_cluster_run(self.jobs[0])
        optimise_database()

    def _label(self) -> None:
        from webapp.analysis.models import CostPart, LedgerEntry

        parts = CostPart.objects.filter(run__workspace=self.workspace).order_by("pk")
        LedgerEntry.objects.bulk_create(
            [
                LedgerEntry(
                    run_id=part.run_id,
                    node_id=part.node_id,
                    gpu=0,
                    label=label,
                    microseconds=round(share * part.microseconds),
                    usd=(part.usd * Decimal(str(share))).quantize(Decimal("1e-9")),
                )
                for part in parts
                for label, share in LABELS.items()
            ],
            batch_size=BATCH,
        )

    def _advise(self) -> None:
        """Make one open recommendation a job; the first ones are followed and verified, too."""
        from webapp.advice.models import RealisedSaving, Recommendation

        rows = [_recommendation(runs[-1], Recommendation.ACTIVE) for runs in self.by_job]
        followed = [
            _recommendation(runs[-3], Recommendation.VERIFIED, claimed_by=runs[-2])
            for runs in self.by_job[:FOLLOWED]
        ]
        Recommendation.objects.bulk_create([*rows, *followed], batch_size=BATCH)
        RealisedSaving.objects.bulk_create(
            RealisedSaving(
                recommendation=row,
                run=run,
                usd=Decimal("0.1"),
                low_usd=Decimal("0.05"),
                high_usd=Decimal("0.15"),
                baseline_usd=Decimal("0.6"),
            )
            for row, runs in zip(followed, self.by_job, strict=False)
            for run in runs[-2:]
        )

    def _vary(self) -> None:
        """Open regressions, failures, runs that go on, and budgets."""
        from webapp.analysis.models import Regression
        from webapp.runs.models import Run
        from webapp.spend.models import Budget

        Regression.objects.bulk_create(
            Regression(
                job=runs[0].job,
                since=runs[-3],
                confirmed_by=runs[-2],
                last=runs[-1],
                change=0.2,
                run_count=3,
                extra_usd=Decimal("0.3"),
            )
            for runs in self.by_job[:REGRESSED]
        )
        latest = [runs[-1] for runs in self.by_job]
        failed, running = latest[-FAILED:], latest[REGRESSED : REGRESSED + RUNNING]
        Run.objects.filter(pk__in=[run.pk for run in failed]).update(state=Run.FAILED)
        Run.objects.filter(pk__in=[run.pk for run in running]).update(
            state=Run.RUNNING, ended_at=None, last_received_at=datetime.now(UTC)
        )
        Budget.objects.bulk_create(
            Budget(workspace=self.workspace, job=job, amount_usd=Decimal(20 + number))
            for number, job in enumerate(self.jobs[:BUDGETS])
        )

    def _long_run(self) -> Any:
        """Make a run on eight GPUs for a day, with a sample every half second."""
        from advisor.run_summary import from_document
        from webapp.analysis.models import Analysis, CostPart, Judgement, LedgerEntry
        from webapp.runs.models import Node

        run = StoredRuns(self.jobs[0]).stored_run(LONG_HOURS)
        self.jobs[0].save()
        [node] = Node.objects.filter(attempt__run=run)
        run.cost_usd, run.summary = LONG_USD, from_document(summary())
        run.save()
        held = LONG_HOURS * 3600 * 10**6
        CostPart.objects.create(
            run=run, node=node, day=run.started_at.date(), microseconds=held, usd=LONG_USD
        )
        LedgerEntry.objects.bulk_create(
            LedgerEntry(
                run=run,
                node=node,
                gpu=gpu,
                label=label,
                microseconds=round(share * held),
                usd=LONG_USD * Decimal(str(share)) / GPUS,
            )
            for gpu in range(GPUS)
            for label, share in LABELS.items()
        )
        Judgement.objects.bulk_create(_judgement(run, rule) for rule in all_rules())
        Analysis.objects.create(run=run, wanted=9, done=9, is_final=True)
        return run


def _judgement(run: Any, rule: str) -> Any:
    from webapp.analysis.models import Judgement

    is_fired = rule in FIRED
    windows = [[600.0 * at, 600.0 * at + 300, "node1"] for at in range(40)] if is_fired else []
    return Judgement(
        run=run,
        rule=rule,
        rule_version=1,
        values_hash="0" * 16,
        values={},
        numbers={"values": {}, "windows": windows},
        state="fired" if is_fired else "passed",
        severity="medium",
        summary="So.",
    )


def _recommendation(run: Any, state: str, **more: Any) -> Any:
    from webapp.advice.models import Recommendation

    return Recommendation(
        job=run.job,
        run=run,
        state=state,
        dedupe_key=f"fix_input_pipeline-{state}",
        kind="fix_input_pipeline",
        title="Load data in parallel and ahead of the training loop",
        saving_low_usd=Decimal("0.05"),
        saving_usd=Decimal("0.1"),
        saving_high_usd=Decimal("0.15"),
        monthly_saving_usd=Decimal("2.5"),
        risk=1.2,
        risk_dimension="cores",
        effort="low",
        is_provisional=False,
        changed_at=datetime.now(UTC) - timedelta(hours=1),
        **more,
    )
