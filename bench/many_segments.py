"""Measures how queries on the rows of segments grow with their number, on a PostgreSQL server of
its own.

    python -m bench.many_segments                     100,000 and then 10 million rows
    python -m bench.many_segments --rows 1000000      another number
    python -m bench.many_segments --check             exits with 1 if a promise is broken

A service of 500 nodes gets four million segments a day. Each leaves a row, which says that it came;
its object and its samples are in chunks soon. The rows are written by SQL: of 500 nodes' sessions,
compacted but for the last minutes. Prints the median time of what the service does all the time, on
the clock, for both numbers of rows, and what a row takes on disk.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.figures import note
from bench.own_service import own_service
from tests.faults.postgres import Cluster

FEW, MANY, NODES, TIMES = 100_000, 10_000_000, 500, 7
MOST_GROWTH, AT_LEAST_SECONDS = 2.0, 0.05
"""The most growth, and the seconds below which a query is fast with any number of rows."""
HOT = 30
"""The newest rows of each session wait to be compacted."""
FILL = """
INSERT INTO runs_segment (session_id, seq, object_key, sha256, body_bytes, sample_count, start_ms,
    duration_ms, resolution_ms, refused, received_at, compacted_at)
SELECT session.id, seq,
    CASE WHEN is_hot THEN concat('runs/', attempt.run_id, '/', session.id, '/', seq) ELSE '' END,
    md5(seq::text) || md5(session.id::text), 5000, 2000, seq * 10000::bigint, 10000, 500, '[]',
    received_at, CASE WHEN is_hot THEN NULL ELSE received_at + interval '30 s' END
FROM runs_session session
    JOIN runs_node node ON node.id = session.node_id
    JOIN runs_attempt attempt ON attempt.id = node.attempt_id
    CROSS JOIN (
        SELECT seq, seq > %(last)s - {hot} is_hot,
            now() - make_interval(secs => (%(last)s - seq) * 10) received_at
        FROM generate_series(%(first)s, %(last)s) seq
    ) made
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=MANY)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-segments-") as folder:
        Path(folder).chmod(0o755)  # Its user has to reach it
        cluster = Cluster(Path(folder) / "postgres")
        try:
            with own_service("segments", cluster.url()):
                slow = list(_measured(options.rows))
        finally:
            cluster.stop()
    note("many_segments", "; ".join(slow) or f"{options.rows:,} rows", not slow)
    for line in slow:
        print(f"NOT KEPT: {line}")
    return 1 if options.check and slow else 0


def _measured(rows: int) -> Iterator[str]:
    """Prints the figures. Yields what grows too much."""
    asked = _questions()
    few = _filled(0, FEW, asked)
    many = _filled(FEW, rows, asked)
    print(f"{'':34}{FEW:>14,}{rows:>14,} rows")
    for name in asked:
        print(f"{name:34}{1000 * few[name]:11.1f} ms{1000 * many[name]:11.1f} ms")
        if many[name] > max(MOST_GROWTH * few[name], AT_LEAST_SECONDS):
            yield f"{name} takes {1000 * many[name]:.0f} ms"
    print(f"{_bytes_a_row():.0f} bytes a row, with its indexes")


def _filled(known: int, rows: int, asked: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the seconds of each question once there are so many rows."""
    from django.db import connection

    from webapp.runs.models import Run, Segment

    began = time.monotonic()
    with connection.cursor() as cursor:
        if known:
            # What was hot isn't any more.
            hot = Segment.objects.filter(compacted_at=None)
            hot.update(object_key="", compacted_at=_now() - timedelta(days=1))
        else:
            _make_sessions(Run)
        span = {"first": known // NODES + 1, "last": rows // NODES}
        cursor.execute(FILL.format(hot=HOT), span)
        cursor.execute("VACUUM ANALYZE runs_segment")
    print(f"{rows:,} rows after {time.monotonic() - began:.0f} s", flush=True)
    return {name: _median_seconds(ask) for name, ask in asked.items()}


def _make_sessions(runs: Any) -> None:
    from bench.run_rows import make_runs
    from webapp.accounts.models import Workspace
    from webapp.runs.models import Job

    workspace = Workspace.objects.create(name="Segments", keep_tiers_days=365, keep_raw_days=30)
    job = Job.objects.create(workspace=workspace, name="train.py")
    make_runs([job], NODES)
    runs.objects.update(state=runs.RUNNING, ended_at=None, last_received_at=_now())


def _questions() -> dict[str, Callable[[], object]]:
    from django.db import transaction

    from webapp.accounts.models import Workspace
    from webapp.analysis.samples import compaction
    from webapp.quotas import storage
    from webapp.retention import deletion, due
    from webapp.retention.plan import PlannedDeletion
    from webapp.runs.history import node_history
    from webapp.runs.models import Node, Run, Segment, Session

    def stored() -> None:
        """Store a row as an upload is: its session and number must be new."""
        session = Session.objects.order_by("pk")[0]
        last = Segment.objects.filter(session=session).order_by("-seq").first()
        assert last is not None
        last.pk, last.seq = None, last.seq + 1
        with transaction.atomic():
            last.save(force_insert=True)
            transaction.set_rollback(True)

    def expired() -> None:
        run = Run.objects.order_by("pk")[0]
        doomed = PlannedDeletion("artefact", f"runs/{run.pk}/artefacts/none", run_id=run.pk)
        deletion.delete_planned(run.workspace, [doomed], _now())

    return {
        "a segment is stored": stored,
        "what is to be compacted": lambda: compaction.due_nodes(_now()),
        "replaced objects are deleted": lambda: compaction.delete_replaced(_now()),
        "a node's history is read": lambda: node_history(Node.objects.order_by("pk")[0]),
        "stored bytes are counted": lambda: storage.count(_now()),
        "what has expired": lambda: list(due.left_segments(Workspace.objects.get(), _now())),
        "an expired object is deleted": expired,
    }


def _median_seconds(ask: Callable[[], object]) -> float:
    ask()
    seconds = []
    for _ in range(TIMES):
        began = time.monotonic()
        ask()
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds)


def _bytes_a_row() -> float:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_total_relation_size('runs_segment')::float / count(*) FROM runs_segment"
        )
        return float(cursor.fetchone()[0])


def _now() -> Any:
    from django.utils import timezone

    return timezone.now()


if __name__ == "__main__":
    sys.exit(main())
