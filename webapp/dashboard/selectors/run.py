"""The page of a run, from its rows only. The charts read the samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from advisor.pricing.machine import DEFAULT_PROVIDER
from advisor.sizing.doubt import doubts, fitting_types
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.advice.selectors.candidates import RecommendationDetails, advice
from webapp.advice.selectors.checked import ChecksOfRun, checked_of
from webapp.advice.selectors.recommendations import advice_about
from webapp.advice.selectors.savings import saved_by
from webapp.analysis.models import Analysis, Judgement
from webapp.analysis.selectors.cost_lines import CostLine, cost_lines
from webapp.analysis.selectors.failures import FailureTable, failures_of_runs
from webapp.analysis.selectors.findings import analysis_of
from webapp.analysis.selectors.ledger import LedgerView, run_ledger
from webapp.analysis.selectors.run_money import RunMoney, run_money
from webapp.dashboard.selectors.baseline import baseline_of
from webapp.dashboard.selectors.charts import Chart, charted_nodes, charts
from webapp.dashboard.selectors.gpu_panels import gpu_panels
from webapp.dashboard.selectors.judgements import (
    RuleLine,
    in_state,
    nodes_named_by,
    rule_lines,
)
from webapp.dashboard.selectors.memory_failure import MemoryFailure, memory_failure
from webapp.dashboard.selectors.no_finding import NoFinding, no_finding
from webapp.dashboard.selectors.probes import ProbeLine, probe_line
from webapp.dashboard.selectors.run_events import RunEvent, run_events
from webapp.dashboard.selectors.run_time import RunTime, run_time
from webapp.directives.issue import allow_stop
from webapp.directives.selectors import AskedOfAgent, StopNotice, asked_of_agent, stop_notice
from webapp.imports.selectors import ImportLine, imports_of
from webapp.prices.machines import catalogue_in
from webapp.quotas.refusals import QuotaRefusal, last_refusal
from webapp.runs import scope
from webapp.runs.failure import FirstFailure, failure_of, stderr_of
from webapp.runs.gpu_models import gpu_words
from webapp.runs.history import facts
from webapp.runs.models import Artefact, Node, Run
from webapp.runs.node_names import names_of
from webapp.runs.stages import StageTime, stages_of

DAY_SECONDS = 86_400
MOST_DESCRIBED = 16
"""The most nodes of which the page of a run describes the hardware."""


@dataclass(frozen=True)
class RunPage:
    run: Run
    nodes: list[Node]
    judged: list[RuleLine]
    cost_lines: list[CostLine]
    recommendations: list[RecommendationDetails]
    checked: ChecksOfRun
    """The advisor's checks: what is well, and what couldn't be checked."""
    saved: list[RealisedSaving]
    """The savings by following recommendations from earlier runs."""
    not_followed: list[Recommendation]
    """The recommendations that earlier runs followed, and that this one went back from."""
    analysis: Analysis | None
    before: Run | None
    after: Run | None
    baseline: Run | None
    """The run that it is compared with."""
    money: RunMoney
    ledger: LedgerView | None
    time: RunTime
    stop: StopNotice
    artefacts: list[Artefact]
    may_ask: bool
    """The reader may send directives, and the agents are running."""
    asked: AskedOfAgent
    refusal: QuotaRefusal | None
    """The reason why the last upload was refused, if a quota was reached."""
    failure: FirstFailure | None
    stderr: list[str]
    memory: MemoryFailure | None
    """The memory that ran out, if the run failed for it."""
    failures: FailureTable | None
    """The cost of its failures; None if it didn't fail."""
    stages: list[StageTime]
    probe: ProbeLine | None
    """The probe; None for an ordinary run."""
    events: list[RunEvent]
    """The events in order of time."""
    imports: list[ImportLine]
    """The imports of what came from another tool."""
    profiles: list[ImportLine]
    """The imports of traces of some of its steps."""

    @property
    def findings(self) -> list[RuleLine]:
        """The causes that rules found, the most expensive first."""
        return in_state(self.judged, Judgement.FIRED)

    @property
    def rule_count(self) -> int:
        return sum(1 + len(item.explained) for item in self.judged)

    @property
    def fired_count(self) -> int:
        return sum(1 + len(item.explained) for item in self.findings)

    @property
    def passed(self) -> list[RuleLine]:
        return in_state(self.judged, Judgement.PASSED)

    @property
    def lacking(self) -> list[RuleLine]:
        """Rules without the data that they need."""
        return in_state(self.judged, Judgement.INSUFFICIENT)

    @property
    def no_finding(self) -> NoFinding:
        """Return what to say if no rule fired."""
        return no_finding(self.run, self.ledger, self.judged)

    @property
    def inapplicable(self) -> list[RuleLine]:
        """Rules that don't apply to this run, for example without a GPU."""
        return in_state(self.judged, Judgement.NOT_APPLICABLE)

    @property
    def first(self) -> RecommendationDetails | None:
        """The recommendation to follow first: the open one that saves most."""
        return next((each for each in self.recommendations if each.is_advised), None)

    @property
    def may_stop(self) -> bool:
        """The agents of the newest attempt were started with `--allow-stop`."""
        newest = max((node.attempt.number for node in self.nodes), default=0)
        return allow_stop(node for node in self.nodes if node.attempt.number == newest)

    @property
    def trace(self) -> Artefact | None:
        """The file that the latest profile directive brought; None if not yet."""
        asked = self.asked.profile
        since = [a for a in self.artefacts if asked and a.created_at > asked.row.created_at]
        return next((each for each in since if each.kind == "profile"), None)

    @property
    def has_attempts(self) -> bool:
        """Return whether the run is a part of a training, or was started several times."""
        numbers = {node.attempt.number for node in self.nodes}
        return self.run.training_id is not None or len(numbers) > 1

    @property
    def is_at_least(self) -> bool:
        """The run still costs money, or its end is unknown."""
        return self.run.state in (Run.RUNNING, Run.LOST)

    @property
    def is_bare(self) -> bool:
        """Return whether nothing but files has arrived, which wait for their conversion or can't be
        converted.
        """
        return self.run.state in (Run.IMPORTING, Run.IMPORT_FAILED)

    @property
    def is_imported(self) -> bool:
        """Return whether another tool recorded the run."""
        return bool(self.imports) and not self.run.agent_version

    @property
    def is_changing(self) -> bool:
        """More results may come, so the page refreshes."""
        pending = self.analysis is not None and self.analysis.done < self.analysis.wanted
        is_importing = any(not (each.is_done or each.has_failed) for each in self.traced)
        return self.run.state == Run.RUNNING or is_importing or (pending and not self.error)

    @property
    def asks_for_machine(self) -> bool:
        """The run was imported or logged by MLflow, and nobody said on which machine it ran."""
        if self.run.agent_version or not self.nodes:
            return False
        return not any(node.instance_type for node in self.nodes)

    @property
    def has_operators(self) -> bool:
        """Return whether a trace shows which operators took the time."""
        return any(each.operations for each in self.traced)

    @property
    def traced(self) -> list[ImportLine]:
        """Return the imports that may have operators."""
        return [*self.imports, *self.profiles]

    @property
    def is_cluster(self) -> bool:
        """Return whether the page only names its nodes, whose hardware is on their own pages."""
        return len(self.nodes) > MOST_DESCRIBED

    @property
    def gpus(self) -> str:
        """Return the run's GPUs, in words; empty without any."""
        return gpu_words(self.nodes)

    @cached_property
    def named(self) -> dict[str, list[str]]:
        """Return the titles of the findings that name a node, by its key."""
        findings = [line for cause in self.findings for line in (cause, *cause.explained)]
        return nodes_named_by(findings, self.nodes)

    @cached_property
    def charted(self) -> list[Node]:
        """Return the nodes that the charts read."""
        return charted_nodes(self.nodes, self.named)

    @property
    def error(self) -> str:
        return self.analysis.error if self.analysis is not None else ""

    @property
    def no_price_reasons(self) -> list[str]:
        """Return why there is no cost, as text, with the nodes' display names."""
        names = names_of(self.nodes)
        reasons = [reason.partition(": ") for reason in self.run.summary.missing]
        return [
            f"{names.get(key, key)}: {why}" if len(self.nodes) > 1 and why else why or key
            for key, _, why in reasons
        ]

    @property
    def missing_segments(self) -> int:
        return self.run.summary.missing_segments or 0

    @property
    def expired_uploads(self) -> int:
        """Return the number of uploads that the service refused, and that the training machine
        deleted after 30 days.
        """
        return sum(sum(node.expired_uploads.values()) for node in self.nodes)

    @property
    def unreadable(self) -> int:
        return self.run.summary.unreadable or 0

    @property
    def unsampled_seconds(self) -> float:
        """Long stretches without a sample; 0 if they are shorter than a day."""
        seconds = self.run.summary.unsampled_seconds or 0.0
        return seconds if seconds >= DAY_SECONDS else 0.0

    @property
    def too_large(self) -> str:
        return self.run.summary.too_large

    @property
    def machine_doubts(self) -> list[str]:
        """Return why the machines may not be what they are taken for."""
        return doubts([facts(node) for node in self.nodes])

    @property
    def fitting_types(self) -> list[str]:
        """Return what the first node may be instead of what was declared, by what was measured."""
        if not self.nodes:
            return []
        node = facts(self.nodes[0])
        types = catalogue_in(node.region, node.provider or DEFAULT_PROVIDER)
        return fitting_types(node, types.values())

    @property
    def _charts(self) -> list[Chart]:
        """Return the charts; that of memory that ran out isn't folded."""
        shown = self.memory.charts if self.memory else ()
        return [
            replace(chart, is_folded=False) if chart.key in shown else chart
            for chart in (*charts(self.nodes), *gpu_panels(self.charted))
        ]

    def chart_document(self) -> dict[str, Any]:
        """Return what the browser needs to draw: charts, nodes, evidence."""
        return {
            "length_seconds": self.run.duration.total_seconds() if self.run.duration else 0.0,
            "nodes": names_of(self.nodes),
            "charts": [chart.document() for chart in self._charts],
            "usd": float(self.run.cost_usd) if self.run.cost_usd else None,
            "epochs": self.run.work.get("epochs"),
            "cores": sum(node.vcpus or 0 for node in self.charted),
            "charted": [node.key for node in self.charted],
            "named": self.named,
            "events": [event.document() for event in self.events],
            "evidence": [
                {"rule": item.row.rule, "title": item.title, "windows": item.windows}
                for cause in self.findings
                for item in (cause, *cause.explained)
                if item.windows
            ],
        }


def run_page(run: Run, *, may_change: bool) -> RunPage:
    """Return the page. `may_change` says whether the reader may change things in this workspace."""
    sessions = scope.sessions_of(run)
    artefacts = list(scope.artefacts_of(run))
    nodes = list(Node.objects.filter(attempt__run=run).select_related("attempt"))
    judged, about = rule_lines(run), advice_about(run)
    siblings, may_ask = run.job.present_runs, may_change and run.state == Run.RUNNING
    baseline, stop = baseline_of(run), stop_notice(run)
    ledger = run_ledger(run)
    failure, stderr = failure_of(run, sessions), stderr_of(sessions)
    asked = asked_of_agent(run, may_ask=may_ask)
    requests = [each for each in (stop.asked, asked.profile, asked.interval) if each is not None]
    fired = in_state(judged, Judgement.FIRED)
    read = imports_of(run, artefacts)
    return RunPage(
        run=run,
        nodes=nodes,
        judged=judged,
        cost_lines=cost_lines(run),
        recommendations=advice(about.advised, run.summary.instance_types),
        checked=checked_of(run, nodes, [line.row for line in judged], about.advised, ledger),
        saved=saved_by(run),
        not_followed=about.not_followed,
        analysis=analysis_of(run),
        before=siblings.began_before(run).newest_first().first(),
        after=siblings.began_after(run).newest_first().last(),
        baseline=baseline,
        money=run_money(run),
        ledger=ledger,
        time=run_time(run, baseline),
        stop=stop,
        artefacts=artefacts,
        may_ask=may_ask,
        asked=asked,
        refusal=last_refusal(run),
        failure=failure,
        stderr=stderr,
        memory=memory_failure(run, failure, stderr, nodes, judged),
        failures=failures_of_runs([run]) if run.state == Run.FAILED else None,
        stages=stages_of(run, sessions),
        probe=probe_line(run),
        events=run_events(run, sessions, fired, requests, artefacts),
        imports=[line for line in read if not line.is_profile],
        profiles=[line for line in read if line.is_profile],
    )
