"""Quotas: what is beyond them is refused before it is written, and nothing of it is lost."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from redis import RedisError
from trimtab.wire import FIRST_PIECE, Block, Segment, encode_segment

from tests.service.uploads import SEGMENT_MS, FakeAgent, together
from webapp.accounts.models import AuditEntry, Token, Workspace
from webapp.analysis.samples import compaction
from webapp.analysis.tasks import evaluate
from webapp.quotas import counters, refusals
from webapp.quotas import storage as counting
from webapp.quotas.kinds import OF_IMPORTS, UPLOADED
from webapp.quotas.usage import lines
from webapp.retention import deletion
from webapp.runs.models import Artefact, Chunk, Node, Run
from webapp.runs.models import Segment as Row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("both_ways")]
HOUR = 3600
NOON = 1_700_049_600
"""2023-11-15 12:00 UTC, Unix seconds."""


@pytest.fixture(autouse=True)
def _forget(settings, monkeypatch):
    """Forget all that was counted or remembered before."""
    caches = {"default": {**settings.CACHES["default"], "KEY_PREFIX": secrets.token_hex(8)}}
    monkeypatch.setattr(settings, "CACHES", caches)
    monkeypatch.setattr("webapp.quotas.admission._seen", {})
    monkeypatch.setattr(counters, "_outage", counters.Outage("quotas are off"))


@dataclass
class Clock:
    """Unix seconds that the service reads from its clock."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("webapp.quotas.counters.time.time", clock)
    return clock


def _another(agent: FakeAgent, **more: object) -> FakeAgent:
    return FakeAgent(agent.client, agent.token, **more)  # type: ignore[arg-type]


def _named(agent: FakeAgent, seq: int, names: list[str]) -> Segment:
    times = list(range(0, SEGMENT_MS, 500))
    columns = {name: [1.0] * len(times) for name in names}
    return agent.segment(seq, blocks=[Block(times, columns)], steps=[])  # type: ignore[arg-type]


def _size(agent: FakeAgent, seq: int) -> int:
    return len(encode_segment(agent.segment(seq)))


def _is_refused(answer, about: str) -> int:  # type: ignore[no-untyped-def]
    """Returns the seconds to wait."""
    assert answer.status_code == 429
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"].endswith("/problems/#quota")
    assert about in problem["detail"]
    assert "Nothing is lost" in problem["fix"]
    return int(answer.headers["Retry-After"])


def _objects(settings) -> int:  # type: ignore[no-untyped-def]
    return sum(path.is_file() for path in Path(settings.OBJECTS_URL).rglob("*"))


# What is counted


def test_bytes_beyond_the_workspaces_day_are_refused_before_anything_is_written(agent, settings):
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY = _size(agent, 0) + 100
    assert agent.put(agent.segment(0)).status_code == 200
    wait_seconds = _is_refused(agent.put(agent.segment(1)), "The workspace may upload")
    assert 60 <= wait_seconds <= HOUR
    assert (_objects(settings), Row.objects.count()) == (1, 1)
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY *= 10
    assert agent.put(agent.segment(1)).status_code == 200


def test_a_tokens_limit_stops_that_token_only(agent, workspace, settings):
    settings.TOKEN_UPLOAD_BYTES_A_DAY = _size(agent, 0) + 100
    assert agent.put(agent.segment(0)).status_code == 200
    _is_refused(agent.put(agent.segment(1)), "This token may upload")
    other = FakeAgent(agent.client, Token.make(workspace, "other", ["ingest"])[1])
    assert other.put(other.segment(0)).status_code == 200


def test_tokens_that_upload_by_turns_ask_redis_once_a_second(
    agent, workspace, settings, monkeypatch
):
    """A fleet's uploads of many tokens are counted by the process as well as those of one."""
    agents = [agent]
    for number in range(3):
        token = Token.make(workspace, f"other {number}", ["ingest"])[1]
        agents.append(FakeAgent(agent.client, token))
    for each in agents:
        assert each.put(each.segment(0)).status_code == 200
    known, asked = counters._counters(settings.REDIS_URL), []
    charge = known.charge
    monkeypatch.setattr(known, "charge", lambda *said: asked.append(said) or charge(*said))
    monkeypatch.setattr("webapp.quotas.deferral.SECONDS", 3600.0)
    for seq in range(1, 6):
        for each in agents:
            assert each.put(each.segment(seq)).status_code == 200
    assert len(asked) <= len(agents)
    uploaded = next(line for line in lines(workspace) if line.quota is UPLOADED)
    assert uploaded.used == sum(_size(each, seq) for each in agents for seq in range(6))


def test_declarations_and_artefacts_count_as_well(agent, settings):
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY = 5_000
    assert agent.declare().status_code == 200
    _is_refused(agent.put_artefact(b"a" * 5_000), "The workspace may upload")
    assert (_objects(settings), Artefact.objects.count()) == (0, 0)
    assert agent.put_artefact(b"a" * 2_000).status_code == 200
    codes = [agent.declare().status_code for _ in range(20)]
    assert codes[0] == 200
    assert codes[-1] == 429


def test_new_runs_beyond_the_day_are_refused_and_others_go_on(agent, settings):
    settings.WORKSPACE_RUNS_A_DAY = 2
    second, third = _another(agent), _another(agent)
    assert agent.declare().status_code == 200
    assert agent.put(agent.segment(0)).status_code == 200
    assert second.put(second.segment(0)).status_code == 200
    _is_refused(third.declare(), "may begin 2 runs")
    _is_refused(third.put(third.segment(0)), "may begin 2 runs")
    _is_refused(third.put_artefact(b"a"), "may begin 2 runs")
    assert Run.objects.count() == 2
    assert agent.put(agent.segment(1)).status_code == 200


def test_new_runs_are_counted_by_token_too(agent, workspace, settings):
    settings.TOKEN_RUNS_A_DAY = 1
    assert agent.declare().status_code == 200
    second = _another(agent)
    _is_refused(second.declare(), "This token may begin 1 run")
    second.token = Token.make(workspace, "other", ["ingest"])[1]
    assert second.declare().status_code == 200


def test_a_client_that_renames_its_series_is_stopped_and_the_steady_one_goes_on(agent, settings):
    settings.WORKSPACE_SERIES_A_DAY = 60
    steady = _another(agent, machine_id="steady")
    assert steady.put(steady.segment(0)).status_code == 200
    answers = [
        agent.put(_named(agent, seq, [f"user.loss_{seq}_{n}" for n in range(20)]))
        for seq in range(6)
    ]
    codes = [answer.status_code for answer in answers]
    assert codes[:2] == [200, 200]
    assert codes[-2:] == [429, 429]
    _is_refused(answers[-1], "may send 60 series")
    assert "names of series" in answers[-1].json()["fix"]
    assert steady.put(steady.segment(1)).status_code == 200
    assert agent.put(_named(agent, 9, [f"user.loss_0_{n}" for n in range(20)])).status_code == 200


def test_the_same_names_on_another_node_are_other_series(agent, settings):
    settings.WORKSPACE_SERIES_A_DAY = 7
    nodes = [_another(agent, machine_id=f"machine-{n}", run_id=agent.run_id) for n in range(3)]
    codes = [node.put(node.segment(0)).status_code for node in nodes]
    assert codes == [200, 200, 429]


def test_storage_is_refused_before_the_object_is_written(agent, settings):
    settings.WORKSPACE_STORAGE_BYTES = _size(agent, 0) + 100
    assert agent.put(agent.segment(0)).status_code == 200
    assert _is_refused(agent.put(agent.segment(1)), "The workspace may store") == HOUR
    _is_refused(agent.put_artefact(b"a" * 200), "The workspace may store")
    assert _objects(settings) == 1
    assert agent.declare().status_code == 200


def test_zero_is_no_limit(agent, settings):
    for name in (
        "WORKSPACE_UPLOAD_BYTES_A_DAY",
        "TOKEN_UPLOAD_BYTES_A_DAY",
        "WORKSPACE_RUNS_A_DAY",
        "TOKEN_RUNS_A_DAY",
        "WORKSPACE_SERIES_A_DAY",
        "WORKSPACE_STORAGE_BYTES",
    ):
        setattr(settings, name, 0)
    assert agent.declare().status_code == 200
    assert agent.put(agent.segment(0)).status_code == 200


def test_the_defaults_are_far_above_a_large_honest_fleet(settings):
    """500 nodes with 100 series at 2 Hz, 3.2 bytes a sample on the wire, each with 48 runs a day;
    stored as uploaded for 30 days, and a tenth of it for a year."""
    bytes_a_day = 500 * 100 * 2 * 3.2 * 86_400
    assert bytes_a_day * 3 <= settings.TOKEN_UPLOAD_BYTES_A_DAY
    assert settings.TOKEN_UPLOAD_BYTES_A_DAY <= settings.WORKSPACE_UPLOAD_BYTES_A_DAY
    assert settings.TOKEN_RUNS_A_DAY >= 500 * 48
    assert settings.TOKEN_RUNS_A_DAY <= settings.WORKSPACE_RUNS_A_DAY
    assert settings.WORKSPACE_SERIES_A_DAY >= 500 * 100 * 48
    assert bytes_a_day * (30 + 36) <= settings.WORKSPACE_STORAGE_BYTES


def test_what_is_never_accepted_is_told_even_beyond_a_quota(agent, stranger, settings):
    """An agent is told so that it doesn't keep sending it."""
    agent.put(agent.segment(0))
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY = settings.WORKSPACE_STORAGE_BYTES = 1
    too_late = agent.segment(1, start_ms=1_200 * 86_400_000)
    assert agent.put(too_late).status_code == 400
    assert agent.put(agent.segment(0, duration_ms=9_000)).status_code == 409
    stranger.run_id = agent.run_id
    assert stranger.put(stranger.segment(0)).status_code == 404
    _is_refused(agent.put(agent.segment(1)), "may upload")


# What isn't counted


def test_what_is_stored_already_is_neither_refused_nor_counted_again(agent, workspace, settings):
    agent.declare()
    bodies = {seq: encode_segment(agent.segment(seq)) for seq in range(2)}
    for seq, body in bodies.items():
        assert agent.put_body(seq, body).status_code == 200
    assert agent.put_artefact(b"trace").status_code == 200
    _counted(workspace)
    used = _used(workspace)
    for _ in range(2):
        for seq, body in bodies.items():
            assert agent.put_body(seq, body).json()["duplicate"] is True
        assert agent.put_artefact(b"trace").json()["duplicate"] is True
    assert _used(workspace) == used
    for name in ("WORKSPACE_UPLOAD_BYTES_A_DAY", "WORKSPACE_STORAGE_BYTES"):
        setattr(settings, name, 1)
    assert agent.put_body(0, bodies[0]).json()["duplicate"] is True
    assert agent.put_artefact(b"trace").json()["duplicate"] is True


def test_an_upload_that_fails_is_not_counted(agent, workspace, settings):
    """The series may be counted: an estimate can't forget."""
    agent.declare()
    assert agent.put(agent.segment(0)).status_code == 200
    _counted(workspace)
    used = _used(workspace)
    conflicting = agent.put(agent.segment(0, duration_ms=9_000))
    overlapping = agent.put(agent.segment(FIRST_PIECE, start_ms=0))
    assert (conflicting.status_code, overlapping.status_code) == (409, 409)
    stranger = _another(agent, session_id=agent.session_id)
    assert stranger.put(stranger.segment(5)).status_code == 409
    assert _used(workspace) | {"series": 3} == used


def test_a_refused_upload_is_not_counted_and_passes_later(agent, workspace, settings):
    agent.put(agent.segment(0))
    used = _used(workspace)
    settings.WORKSPACE_STORAGE_BYTES = 1
    for _ in range(3):
        _is_refused(agent.put(agent.segment(1)), "may store")
    assert _used(workspace) == used
    settings.WORKSPACE_STORAGE_BYTES = 0
    assert agent.put(agent.segment(1)).json()["duplicate"] is False


def test_a_run_whose_nodes_begin_at_once_counts_once(agent, workspace, settings):
    """Each of them finds no run: the first one isn't committed yet."""
    from webapp.quotas.admission import count_while_written
    from webapp.quotas.amounts import UploadAmounts

    settings.WORKSPACE_RUNS_A_DAY = 1
    token = Token.objects.get(workspace=workspace)
    with count_while_written(
        workspace, token, UploadAmounts(agent.run_id, is_new_run=True, body_bytes=10)
    ):
        assert agent.put(agent.segment(0)).status_code == 200
    assert _used(workspace)["runs"] == 1


def test_nodes_that_are_written_together_count_their_run_once(agent, workspace, settings):
    """The first one's rows are there when those of the others are written."""
    settings.WORKSPACE_RUNS_A_DAY = 2
    nodes = [replace(agent, session_id=uuid4(), machine_id=f"m-{n}") for n in range(3)]
    nodes.append(_another(agent))
    asked = [node.asked(0, encode_segment(node.segment(0))) for node in nodes]
    assert [answer.status_code for answer in together(asked)] == [200] * 4
    assert _used(workspace)["runs"] == 2
    late = _another(agent)
    _is_refused(late.put(late.segment(0)), "may begin 2 runs")


# Time


@pytest.mark.parametrize("begin", [NOON, NOON - 12 * HOUR - 60, NOON + 11 * HOUR + 3_599])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/Los_Angeles"])
def test_the_last_24_hours_count_whatever_the_time_of_day_and_zone(
    agent, workspace, settings, clock, begin, zone
):
    Workspace.objects.filter(pk=workspace.pk).update(time_zone=zone)
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY = _size(agent, 0) + 100
    clock.now = begin
    assert agent.put(agent.segment(0)).status_code == 200
    for hours in (1, 6, 12, 22.9):
        clock.now = begin + hours * HOUR
        _is_refused(agent.put(agent.segment(1)), "may upload")
    clock.now = begin + 24 * HOUR
    assert agent.put(agent.segment(1)).status_code == 200


def test_what_a_clock_that_ran_ahead_counted_is_forgotten(agent, settings, clock):
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY = _size(agent, 0) + 200
    clock.now = NOON + 40 * 24 * HOUR
    assert agent.put(agent.segment(0)).status_code == 200
    clock.now = NOON
    assert agent.put(agent.segment(1)).status_code == 200
    _is_refused(agent.put(agent.segment(2)), "may upload")


def test_it_says_when_there_is_room_again(agent, settings, clock):
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY = _size(agent, 0) + 100
    clock.now = NOON + 600
    agent.put(agent.segment(0))
    clock.now = NOON + 23 * HOUR + 1_800
    assert _is_refused(agent.put(agent.segment(1)), "may upload") == 1_800
    clock.now = NOON + 24 * HOUR - 5
    assert _is_refused(agent.put(agent.segment(1)), "may upload") == 60
    clock.now = NOON + 24 * HOUR
    assert agent.put(agent.segment(1)).status_code == 200


def test_series_of_yesterday_count_no_longer(agent, settings, clock):
    settings.WORKSPACE_SERIES_A_DAY = 3
    assert agent.put(agent.segment(0)).status_code == 200
    clock.now += 23 * HOUR
    _is_refused(agent.put(_named(agent, 1, ["user.a", "user.b", "user.c"])), "may send 3 series")
    clock.now += HOUR
    assert agent.put(_named(agent, 1, ["user.a", "user.b", "user.c"])).status_code == 200


# Redis


def test_without_redis_nobody_is_refused(agent, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY = settings.WORKSPACE_SERIES_A_DAY = 1
    settings.WORKSPACE_RUNS_A_DAY = settings.WORKSPACE_STORAGE_BYTES = 1
    assert agent.declare().status_code == 200
    assert agent.put(agent.segment(0)).status_code == 200


def test_a_redis_that_is_lost_between_two_uploads_costs_no_upload(agent, settings, monkeypatch):
    redis_url = settings.REDIS_URL
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY = _size(agent, 0) + 100
    assert agent.put(agent.segment(0)).status_code == 200
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert agent.put(agent.segment(1)).status_code == 200
    settings.REDIS_URL = redis_url
    monkeypatch.setattr(counters, "_outage", counters.Outage("quotas are off"))
    _is_refused(agent.put(agent.segment(2)), "may upload")


def test_a_redis_that_is_lost_during_an_upload_costs_that_upload_nothing(
    agent, settings, monkeypatch
):
    """The upload is counted, then refused for another reason: taking it back finds nobody."""
    agent.put(agent.segment(0))

    def dies(*_: object, **__: object) -> None:
        raise RedisError("gone")

    monkeypatch.setattr("redis.client.Pipeline.execute", dies)
    overlapping = agent.put(agent.segment(FIRST_PIECE, start_ms=0))
    assert overlapping.status_code == 409
    assert agent.put(agent.segment(1)).status_code == 200


# Storage


def _counted(workspace: Workspace, days: float = 0) -> int:
    counting.count(timezone.now() + timedelta(days=days))
    return Workspace.objects.get(pk=workspace.pk).storage_use.size_bytes


def _stored(settings, run: Run | None = None) -> int:  # type: ignore[no-untyped-def]
    folder = Path(settings.OBJECTS_URL) / "runs"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_count_finds_every_object_whatever_it_was_counted_before(agent, workspace, settings):
    agent.declare()
    for segment in agent.segments(3):
        agent.put(segment)
    agent.put_artefact(b"a" * 1_000)
    assert _counted(workspace) == _stored(settings)
    counters.ask_redis(lambda known: known.redis.delete(counters.storage(workspace.pk)), None)
    assert _counted(workspace) == _stored(settings) == _used(workspace)["storage_bytes"]


def test_storage_has_room_again_after_retention_deleted_samples(agent, workspace, settings):
    agent.declare()
    for segment in agent.segments(3):
        agent.put(segment)
    evaluate(str(agent.run_id))
    compaction.compact_node(Node.objects.get().pk)
    compaction.delete_replaced(timezone.now() + timedelta(days=1))
    settings.WORKSPACE_STORAGE_BYTES = _counted(workspace)
    late = _another(agent)
    _is_refused(late.put(late.segment(0)), "may store")
    deletion.delete_all_expired(timezone.now() + timedelta(days=400))
    assert _counted(workspace) == _stored(settings) < settings.WORKSPACE_STORAGE_BYTES
    assert late.put(late.segment(0)).status_code == 200


def test_what_is_accepted_after_a_count_is_added_until_the_next_one(agent, workspace, settings):
    agent.put(agent.segment(0))
    before = _counted(workspace)
    settings.WORKSPACE_STORAGE_BYTES = before + _size(agent, 1) + 100
    assert agent.put(agent.segment(1)).status_code == 200
    _is_refused(agent.put(agent.segment(2)), "may store")
    assert _counted(workspace) == _stored(settings) == before + _size(agent, 1)
    _is_refused(agent.put(agent.segment(2)), "may store")


def test_chunks_of_an_earlier_version_are_measured_once(agent, workspace, settings):
    agent.declare()
    for segment in agent.segments(3):
        agent.put(segment)
    compaction.compact_node(Node.objects.get().pk)
    compaction.delete_replaced(timezone.now() + timedelta(days=1))
    Chunk.objects.update(size_bytes=None)
    assert _counted(workspace) == _stored(settings) > 0
    assert not Chunk.objects.filter(size_bytes=None).exists()


def test_a_workspace_counts_only_what_is_its_own(agent, stranger, workspace, settings):
    settings.WORKSPACE_UPLOAD_BYTES_A_DAY = _size(agent, 0) + 100
    agent.put(agent.segment(0))
    _is_refused(agent.put(agent.segment(1)), "may upload")
    assert stranger.put(stranger.segment(0)).status_code == 200
    counting.count(timezone.now())
    sizes = {each.workspace.name: each.size_bytes for each in _uses()}
    assert sizes == {"Ours": _size(agent, 0), "Theirs": _size(stranger, 0)}


def _uses():  # type: ignore[no-untyped-def]
    from webapp.quotas.models import StorageUse

    return StorageUse.objects.select_related("workspace")


# The operator


def _quota(*words: str) -> str:
    out = StringIO()
    call_command("quota", *words, stdout=out)
    return out.getvalue()


def test_the_operator_sets_a_limit_for_one_workspace_at_once(agent, stranger, workspace):
    agent.put(agent.segment(0))
    told = _quota("Ours", "upload_bytes=100", "runs=0")
    assert "upload_bytes        100 bytes               set for this workspace" in told
    assert "runs                no limit                set for this workspace" in told
    _is_refused(agent.put(agent.segment(1)), "may upload 100 bytes")
    assert stranger.put(stranger.segment(0)).status_code == 200
    assert "default" in _quota(str(workspace.uuid), "upload_bytes=default").splitlines()[0]
    assert agent.put(agent.segment(1)).status_code == 200
    entries = AuditEntry.objects.filter(workspace=workspace).order_by("pk")
    assert [(entry.action, entry.change) for entry in entries] == [
        ("quota.changed", {"upload_bytes": [None, 100], "runs": [None, 0]}),
        ("quota.changed", {"upload_bytes": [100, None]}),
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["Nobody"], "There is no workspace 'Nobody'"),
        (["Ours", "bytes=1"], "'bytes' is not a quota. Use one of upload_bytes"),
        (["Ours", "runs=-1"], "write a whole number"),
        (["Ours", "runs"], "write a whole number"),
        (["Twice"], "2 workspaces are called 'Twice'"),
    ],
)
def test_the_command_says_what_is_wrong(workspace, words, told):
    for _ in range(2):
        Workspace.objects.create(name="Twice")
    with pytest.raises(CommandError, match=told):
        _quota(*words)
    assert not AuditEntry.objects.exists()


def test_refusals_are_logged_once_a_minute(agent, settings, caplog, monkeypatch):
    monkeypatch.setattr(refusals, "_logged_at", {})
    settings.WORKSPACE_RUNS_A_DAY = 1
    agent.declare()
    for _ in range(3):
        _is_refused(_another(agent).declare(), "may begin")
    said = [record.message for record in caplog.records if record.name.startswith("webapp.quotas")]
    assert said == ["an upload is beyond a quota"]


# As the API shows it


def _used(workspace: Workspace) -> dict[str, int]:
    token = Token.make(workspace, "reader", ["read"])[1]
    answer = Client().get("/api/v1/usage", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    return {quota["name"]: quota["used"] for quota in answer.json()["quotas"]}


def test_the_api_tells_use_limits_tokens_and_jobs(agent, workspace, settings, clock):
    settings.WORKSPACE_RUNS_A_DAY = 1
    settings.WORKSPACE_STORAGE_BYTES = 0
    agent.put(agent.segment(0))
    counting.count(timezone.now())
    token = Token.make(workspace, "reader", ["read"])[1]
    answer = Client().get("/api/v1/usage", headers={"Authorization": f"Bearer {token}"}).json()
    size = _size(agent, 0)
    by_name = {quota["name"]: quota for quota in answer["quotas"]}
    assert by_name["upload_bytes"]["used"] == by_name["storage_bytes"]["used"] == size
    assert by_name["series"]["used"] == 3
    assert by_name["storage_bytes"]["limit"] is None
    assert by_name["runs"] == {
        "name": "runs",
        "title": "New runs in 24 hours",
        "used": 1,
        "limit": 1,
        "state": "over",
        "frees_at": "2023-11-16T12:00:00Z",
    }
    (use,) = answer["tokens"]
    assert (use["name"], [quota["used"] for quota in use["quotas"]]) == ("agent", [size, 1])
    assert [(job["name"], job["stored_bytes"]) for job in answer["jobs"]] == [("digits", size)]


def test_what_is_unknown_is_not_zero(agent, workspace, settings):
    agent.put(agent.segment(0))
    assert _used(workspace)["storage_bytes"] is None
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    used = _used(workspace)
    of_imports = {used.pop(quota.name) for quota in OF_IMPORTS}
    assert set(used.values()) == {None}
    assert of_imports == {0}, "counted in the database"
