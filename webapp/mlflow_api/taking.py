"""Takes what a request logs: the rows that clients read again, and the run's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.db import transaction
from trimtab.wire import Declaration

from advisor import mlflow_names
from webapp.accounts.models import Token
from webapp.ingest import declarations, uploaders
from webapp.mlflow_api import feeding, labels, machines, scope
from webapp.mlflow_api.feeding import Draft, Metric
from webapp.mlflow_api.models import Feed, TrackedRun
from webapp.quotas import admission
from webapp.quotas.amounts import UploadAmounts
from webapp.runs.history import facts
from webapp.runs.models import Node


def log_values(
    token: Token,
    tracked: TrackedRun,
    metrics: Sequence[Metric] = (),
    params: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Log metrics, parameters and tags. The same again changes nothing, and long values are cut.

    Raises:
        MlflowError: another value of a known parameter, or too many of something.
        Problem: 429 beyond a quota.
    """
    params, tags = labels.shorten(params or {}, tags or {})
    taken = UploadAmounts(tracked.pk, False, labels.size(params) + labels.size(tags))
    with admission.count_while_written(token.workspace, token, taken), transaction.atomic():
        held = scope.lock_run(tracked)
        tags = labels.name_earlier_cuts(held, tags)
        labels.add_params(held, params)
        labels.add_tags(held, tags)
        labels.add_latest(held, metrics)
        held.save()
        drafts, grown = _drafts(held, metrics)
    feeding.send(token, held, drafts)
    if machines.says_something(tags) and not held.agent:
        grown = list(held.feeds.all())
    for feed in grown:
        _declare_machine(token, held, feed)
    shown = mlflow_names.shown_parameters(params), mlflow_names.shown_tags(tags)
    if any(shown):
        declarations.add_labels(token.workspace, held.pk, *shown)
    uploaders.remember_uploader(token, held.pk)


def change(token: Token, tracked: TrackedRun, status: str, ended_ms: int | None) -> TrackedRun:
    """Set the run's status: an end ends its sessions, and a run that continues has a new one."""
    with transaction.atomic():
        held = scope.lock_run(tracked)
        going = [feed for feed in held.feeds.all() if not feed.is_ended]
        drafts = []
        if status in mlflow_names.STATES:
            held.ended_ms = ended_ms
            if not held.agent:
                drafts = [
                    feeding.end_session(feed, mlflow_names.STATES[status], ended_ms or 0)
                    for feed in going
                ]
        else:
            held.ended_ms = None
            if not going:
                drafts = [feeding.first_segment(feeding.open_feed(held, _machine_id(held)))]
        held.status = status
        held.save()
    feeding.send(token, held, drafts)
    for draft in drafts:
        # The agent of the machine may have declared it after the run began.
        _declare_machine(token, held, draft.feed)
    return held


def _drafts(held: TrackedRun, metrics: Sequence[Metric]) -> tuple[list[Draft], list[Feed]]:
    """Return the segments, and the feeds of which more GPUs than before are known."""
    by_node: dict[str, list[Metric]] = defaultdict(list)
    for metric in metrics:
        place = mlflow_names.place_of(metric.key)
        by_node[place.node if place else ""].append(metric)
    drafts: list[Draft] = []
    grown: list[Feed] = []
    for node, group in sorted(by_node.items()):
        feed = _feed(held, node)
        gpus = feed.gpus
        drafts += feeding.drafts(held, feed, group)
        if feed.gpus > gpus and not held.agent:
            grown.append(feed)
    return drafts, grown


def _feed(held: TrackedRun, node: str) -> Feed:
    """Return the feed of a node. What is logged after the end belongs to the session that has
    ended.
    """
    feeds = list(held.feeds.filter(node=node).order_by("pk")) or list(held.feeds.order_by("pk"))
    if feeds and all(feed.is_ended for feed in held.feeds.all()):
        return feeds[-1]
    return feeding.open_feed(held, _machine_id(held), node)


def _machine_id(held: TrackedRun) -> str:
    first = held.feeds.order_by("pk").first()
    return first.machine_id if first else f"mlflow-{held.pk.hex}"


def _declare_machine(token: Token, held: TrackedRun, feed: Feed) -> None:
    """Declare what tags and other runs say of the machine, and as many GPUs as were seen on it."""
    node = Node.objects.filter(attempt__run=held.run, machine_id=feed.machine_id).first()
    if node is None:
        return
    machine = facts(node)
    if not machine.instance_type:
        machine = machines.known_machine(token.workspace, feed.machine_id)
    machine = machines.with_gpus(machines.as_said(machine, held.tags), feed.gpus)
    said = Declaration(held.pk, held.run.job.key, feed.attempt, feed.session_id, machine)
    declarations.store_declaration(token.workspace, said, 0, token)
