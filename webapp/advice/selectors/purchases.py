"""Reads what advice on buying needs: what the workspace allows, prices elsewhere, use of
machines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from advisor.advice.buying import RESERVED, SPOT, Buying
from advisor.advice.commitment import MONTH, MachineUse, price_reservation
from advisor.advice.purchase import ON_DEMAND
from advisor.costing.cost import Interval
from advisor.pricing.book import PriceBook
from advisor.sizing.demand import Demand
from webapp.accounts.models import Workspace
from webapp.advice.selectors.interruptions import rate_of
from webapp.prices.book import rows_elsewhere
from webapp.prices.machines import catalogue_for
from webapp.runs.models import Node, Run, Session

MOST_SESSIONS = 20_000
"""The most sessions that are read of a machine's use, the newest first: with more, the use is at
least what they tell."""


def allowed_for(
    run: Run, demand: Demand | None, nodes: Sequence[Node], book: PriceBook, now: datetime
) -> Buying:
    """Return what the workspace allows for a run. The use of its machines is read only if it
    matters.
    """
    if demand is None:
        return Buying()
    workspace = run.workspace
    ways = frozenset(workspace.may_buy)
    may_spot = SPOT in ways and demand.purchase_option == ON_DEMAND
    may_commit = RESERVED in ways and price_reservation(demand, book, now) is not None
    return Buying(
        ways=ways,
        regions={
            name: catalogue_for(workspace, name, demand.provider)
            for name in _others(workspace, demand)
        },
        use=_use(workspace, nodes[0], now) if may_commit else None,
        spot=rate_of(workspace, replace(demand, purchase_option=SPOT), now) if may_spot else None,
    )


def book_for(workspace: Workspace, demand: Demand | None, book: PriceBook) -> PriceBook:
    """Return the run's book, with the prices of its machine in the other regions that are
    allowed.
    """
    others = _others(workspace, demand) if demand else []
    if demand is None or not others:
        return book
    key = demand.price_key(demand.instance_type)
    return book.with_rows(rows_elsewhere(workspace, others, key))


def _others(workspace: Workspace, demand: Demand) -> list[str]:
    return [name for name in workspace.other_regions if name != demand.region]


def _use(workspace: Workspace, like: Node, until: datetime) -> MachineUse:
    """Return the use of machines like `like`, by the whole workspace in the last month. Runs are
    taken to last at most a month, too.
    """
    since = until - MONTH
    sessions = Session.objects.filter(
        node__attempt__run__workspace=workspace,
        node__attempt__run__deleted_at=None,
        node__attempt__run__started_at__gte=since - MONTH,
        node__attempt__run__ended_at__gte=since,
        node__instance_type=like.instance_type,
        node__region=like.region,
        node__purchase_option=like.purchase_option,
    )
    intervals: dict[str, list[Interval]] = defaultdict(list)
    for session in sessions.select_related("node").order_by("-started_at")[:MOST_SESSIONS]:
        node = session.node
        intervals[str(node.pk) if node.owns_machine else node.machine_id].append(session.interval)
    return MachineUse(intervals, since, until)
