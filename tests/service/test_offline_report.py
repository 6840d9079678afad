"""The offline report and the service give the same results for a run."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

import pytest
from django.test import Client

from tests.offline.folders import as_files, document, simulated
from webapp.analysis.models import LedgerEntry
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run
from webapp.sample_data.load import uploads_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("index", [0, 1])
def test_cost_findings_ledger_and_advice_are_those_of_the_service(token, tmp_path, index):
    simulation = simulated()[index]
    for upload in uploads_of(simulation):
        answer = Client().put(
            upload.path,
            upload.body,
            content_type=upload.content_type,
            headers={"Authorization": f"Bearer {token}", "Content-Encoding": "gzip"},
        )
        assert answer.status_code < 300, answer.content
    evaluate(str(simulation.run_id))
    run = Run.objects.get(pk=simulation.run_id)
    as_files(simulation, tmp_path)
    report = document(tmp_path)
    assert Decimal(report["cost_usd"]) == run.cost_usd
    assert report["state"] == run.state
    assert {each["rule"]: each["state"] for each in report["judgements"]} == dict(
        run.judgements.values_list("rule", "state")
    )
    assert {line["label"]: Decimal(line["usd"]) for line in report["ledger"]} == _by_label(run)
    assert [(each["kind"], each["saving_usd"]) for each in report["recommendations"]] == [
        (row.kind, f"{row.saving_usd:f}") for row in run.recommendations.order_by("pk")
    ]


def _by_label(run: Run) -> dict[str, Decimal]:
    usd: dict[str, Decimal] = defaultdict(Decimal)
    for entry in LedgerEntry.objects.filter(run=run):
        usd[entry.label] += entry.usd
    return usd
