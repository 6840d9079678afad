"""Runs on many nodes: which of them pages draw, and what they call them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse

from rules.node_names import distinct_names, name_nodes, nodes_named_in
from tests.web import clusters
from webapp.analysis.models import Judgement
from webapp.analysis.tasks import evaluate
from webapp.dashboard.selectors.charts import charted_nodes
from webapp.rulebook import rejudging
from webapp.runs.gpu_models import gpu_words
from webapp.runs.models import Node, Run


@pytest.fixture
def judged_cluster(owner):
    run = clusters.uploaded_cluster(owner.workspace, nodes=8, slow=8, minutes=5, has_counters=False)
    evaluate(str(run.pk))
    return run


def test_a_finding_calls_a_node_what_the_page_calls_it(owner, judged_cluster):
    row = Judgement.objects.get(run=judged_cluster, rule="load_balancing")

    assert row.state == "fired"
    assert "training-8/gpu0" in row.summary + row.advice
    assert "node-8" not in row.summary + row.advice
    assert any("node-8/gpu0" in key for key in row.numbers["values"])
    page = owner.page(reverse("dashboard:run", args=[judged_cluster.pk]))
    assert "node-8/gpu0 " not in page


def test_a_finding_that_is_judged_again_keeps_the_names_of_its_nodes(owner, judged_cluster):
    before = Judgement.objects.get(run=judged_cluster, rule="load_balancing")
    Judgement.objects.filter(pk=before.pk).update(values_hash="0" * 16, summary="")

    rejudging.queue_rejudging(judged_cluster.workspace)
    assert rejudging.rejudge_workspace(judged_cluster.workspace_id)

    after = Judgement.objects.get(pk=before.pk)
    assert after.summary == before.summary


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("node-1/gpu0, node-12/gpu3", "big/gpu0, node-12/gpu3"),
        ("Missing: cores of node node-1.", "Missing: cores of node big."),
        ("my-node-1 and node-1-b aren't nodes of the run", None),
    ],
)
def test_only_keys_of_nodes_are_named(text, named):
    assert name_nodes(text, {"node-1": "big"}) == (named or text)


def test_nodes_are_found_in_a_sentence_by_key_and_by_name():
    names = {"node-1": "ip-10.0.0.1", "node-2": "ip-10.0.0.12", "node-3": "c"}

    assert nodes_named_in(["ip-10.0.0.12/gpu1 is slow.", "So is node-3."], names) == {
        "node-2",
        "node-3",
    }
    assert nodes_named_in(["It was ip-10.0.0.1."], names) == {"node-1"}


def test_machines_with_one_hostname_have_different_names(owner):
    names = distinct_names(
        {"node-1": ("a", "m1"), "node-2": ("a", "m2"), "node-3": ("b", "m3"), "node-4": ("", "m4")}
    )

    assert names == {"node-1": "a-node-1", "node-2": "a-node-2", "node-3": "b", "node-4": "node-4"}
    assert distinct_names({"node-1": ("a", "m1"), "node-2": ("a", "m1")})["node-2"] == "a"


def _charts(person, run, **query):  # type: ignore[no-untyped-def]
    address = reverse("dashboard:run_charts", args=[run.pk])
    response = person.client.get(address, {"buckets": 60, **query})
    assert response.status_code == 200, response.content
    return response.json()


def _every_node(person, run):  # type: ignore[no-untyped-def]
    """Return the rows and ranks of all answers, one after the other."""
    rows, ranks, first, answers = [], [], 0, 0
    while first is not None:
        found = _charts(person, run, first=first)
        rows += found["heat"]["rows"]
        ranks += found["ranks"]
        first, answers = found["next"], answers + 1
    return rows, ranks, answers


def test_every_gpu_and_rank_of_a_cluster_is_answered_some_nodes_at_a_time(owner, monkeypatch):
    monkeypatch.setattr("webapp.dashboard.selectors.cluster.NODES_AT_ONCE", 3)
    run = clusters.uploaded_cluster(owner.workspace, nodes=8, gpus=2, slow=8, minutes=0.5)

    rows, ranks, answers = _every_node(owner, run)

    assert answers == 3
    assert [(row["node"], row["label"]) for row in rows] == [
        (f"node-{node}", f"GPU {gpu}") for node in range(1, 9) for gpu in range(2)
    ]
    busy = {row["node"]: max(value or 0 for value in row["values"]) for row in rows}
    assert busy.pop("node-8") < 40
    assert min(busy.values()) > 80
    slowest = sorted(ranks, key=lambda rank: -rank["mean"])[:2]
    assert {(rank["node"], rank["rank"]) for rank in slowest} == {("node-8", 14), ("node-8", 15)}


def test_nodes_without_gpus_have_a_row_of_their_cores(owner):
    run = clusters.uploaded_cluster(owner.workspace, nodes=7, gpus=0, minutes=0.5)

    rows, _, _ = _every_node(owner, run)

    assert [row["label"] for row in rows] == ["All cores"] * 7


def test_a_node_that_a_finding_names_is_charted_and_others_make_room(owner, judged_cluster):
    drawn = _charts(owner, judged_cluster)

    nodes = {node["node"] for node in drawn["nodes"]}
    assert "node-8" in nodes
    assert len(nodes) == 6
    facts = owner.page(reverse("dashboard:run", args=[judged_cluster.pk]))
    assert '"charted": ["node-1", "node-2", "node-3", "node-4", "node-5", "node-8"]' in facts


def test_the_charts_of_a_cluster_take_as_many_queries_as_those_of_seven_nodes(
    owner, django_assert_max_num_queries
):
    run = clusters.uploaded_cluster(owner.workspace, nodes=16, minutes=0.2)

    for query in ({}, {"first": 0}):
        with django_assert_max_num_queries(14):
            _charts(owner, run, **query)


def test_a_node_has_a_page_of_its_own(owner, judged_cluster):
    page = owner.page(reverse("dashboard:node", args=[judged_cluster.pk, 8]))

    assert "<h1>training-8</h1>" in page
    assert "Node 8 of 8" in page
    assert "1 × NVIDIA A10G" in page
    assert "training-8/gpu0" in page.partition('id="findings"')[2].partition("</section>")[0]
    texts = " ".join(Judgement.objects.filter(state="fired").values_list("summary", flat=True))
    unnamed = next(number for number in range(1, 8) if f"training-{number}" not in texts)
    other = owner.page(reverse("dashboard:node", args=[judged_cluster.pk, unnamed]))
    assert "No finding names this node." in other
    missing = reverse("dashboard:node", args=[judged_cluster.pk, 9])
    assert owner.client.get(missing).status_code == 404


def test_charts_and_csv_of_a_node_have_that_node_alone(owner):
    run = clusters.uploaded_cluster(owner.workspace, nodes=8, gpus=2, minutes=0.2)

    drawn = _charts(owner, run, node=7)

    assert {row["node"] for row in drawn["heat"]["rows"]} == {"node-7"}
    assert {rank["rank"] for rank in drawn["steps"]["ranks"]} == {12, 13}
    query = {"names": "gpu0.busy_pct", "node": 7}
    lines = owner.client.get(reverse("runs:series_csv", args=[run.pk]), query).content.decode()
    assert {line.split(",")[2] for line in lines.splitlines()[1:]} == {"node-7"}
    wrong = owner.client.get(reverse("runs:series_csv", args=[run.pk]), query | {"node": "x"})
    assert wrong.json()["field"] == "node"


def test_the_head_of_the_page_has_the_models_of_the_gpus(owner):
    run = clusters.uploaded_cluster(owner.workspace, nodes=2, gpus=4, minutes=0.2)

    head = owner.page(reverse("dashboard:run", args=[run.pk])).partition('class="anatomy"')[0]

    assert "8 × NVIDIA A10G" in head


def test_machines_of_several_attempts_count_once():
    gpus = [{"model": "H100"}, {"model": "H100", "allocated": False}, {"model": ""}]
    nodes = [Node(number=number, machine_id="m", gpus=gpus) for number in (1, 2)]

    assert gpu_words(nodes) == "1 × H100, 1 × GPU of an unknown model"
    assert gpu_words([]) == ""


def test_of_a_cluster_of_large_nodes_fewer_are_charted():
    nodes = [Node(number=number, gpus=[{}] * 8) for number in range(1, 65)]

    keys = [node.key for node in charted_nodes(nodes, {"node-58"})]

    assert keys == ["node-1", "node-2", "node-58"]
    assert len(charted_nodes(nodes[:6], set())) == 6
    assert len(charted_nodes([Node(number=n, gpus=[{}] * 32) for n in range(1, 9)], set())) == 1


def test_a_long_stretch_of_many_gpus_is_drawn_from_summaries(owner):
    run = clusters.uploaded_cluster(owner.workspace, nodes=3, gpus=8, minutes=0.2)
    Run.objects.filter(pk=run.pk).update(ended_at=run.started_at + timedelta(minutes=50))

    whole, part = _charts(owner, run, buckets=250), _charts(owner, run, buckets=250, to=300)

    assert whole["charts"]["gpu"]["lines"][0]["step"] == 20
    assert part["charts"]["gpu"]["lines"][0]["step"] < 2
