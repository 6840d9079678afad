"""`trimtab cost` and `trimtab compare` against the real service, compared with its pages and
API."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.utils import timezone
from trimtab.cli import main
from trimtab.wire import decode_declaration, decode_segment

from tests.web import factories
from webapp.accounts.models import Token
from webapp.analysis import tasks
from webapp.ingest import declarations
from webapp.ingest.upload import Upload
from webapp.ingest.write import write_segment
from webapp.prices.bundled import sync_bundled
from webapp.runs.models import Job, Run, Session
from webapp.sample_data.load import DECLARATION_TYPE, uploads_of
from webapp.sample_data.published import JOB, published_runs

ATTRIBUTION = {"instance type": "-3.907", "node count": "-1.177", "duration": "-0.006"}
PLAIN = str.maketrans({"−": "-", "\\": ""})


@pytest.fixture
def service(live_server, owner, monkeypatch) -> SimpleNamespace:
    """Return a service over HTTP, and a token for it in the environment."""
    token = Token.make(owner.workspace, "script", [Token.READ])[1]
    monkeypatch.setenv("TRIMTAB_URL", live_server.url)
    monkeypatch.setenv("TRIMTAB_TOKEN", token)
    return SimpleNamespace(url=live_server.url, token=token, owner=owner)


@pytest.fixture
def published(service) -> SimpleNamespace:
    """Return the published case: uploaded, analysed, priced from the bundled table."""
    sync_bundled()
    for simulated in published_runs("Sample data"):
        _upload(service.owner.workspace, simulated)
        tasks.evaluate(str(simulated.run_id))
    return service


def _upload(workspace, simulated) -> None:  # type: ignore[no-untyped-def]
    for upload in uploads_of(simulated):
        if upload.content_type == DECLARATION_TYPE:
            declarations.store_declaration(workspace, decode_declaration(upload.body))
        else:
            segment = decode_segment(upload.body)
            write_segment(Upload(workspace, segment, upload.body, time.time_ns()))


def ask(service: SimpleNamespace, path: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {service.token}"}
    request = urllib.request.Request(f"{service.url}/api/v1/{path}", headers=headers)  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        document: dict[str, Any] = json.load(answer)
        return document


def say(capsys, *words: str) -> tuple[int, str, str]:  # type: ignore[no-untyped-def]
    """Return exit code, output and errors of a command."""
    code = main(words)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def terms(text: str) -> dict[str, str]:
    """Return the signed terms of `$6 - $3 instance type - … = $1` to a tenth of a cent."""
    matches = re.findall(r"([-+]) \$([0-9.]+) (instance type|node count|duration)", text)
    return {name: f"{Decimal(sign + usd):.3f}" for sign, usd, name in matches}


def test_page_api_markdown_and_command_say_the_published_case_alike(published, capsys):
    first, second = Run.objects.order_by("number")
    answer = ask(published, f"compare?a={first.pk}&b={second.pk}")
    page = published.owner.page(f"/compare/?a={first.pk}&b={second.pk}")
    exactly = re.search(r'id="exactly">(.*?)</p>', page, re.DOTALL)
    code, markdown, _ = say(capsys, "compare", f"{JOB}#1", f"{JOB}#2", "--markdown")
    assert code == 0
    assert markdown == answer["markdown"]
    assert exactly is not None
    for told in (answer["exactly"], exactly[1], markdown):
        plain = told.translate(PLAIN)
        assert "$6.15672 - $" in plain
        assert "= $1.06675 (-82.67 %)" in plain
        assert terms(plain) == ATTRIBUTION
    sums = [Decimal(term["usd"]) for term in answer["attribution"]]
    assert sum(sums) == Decimal("1.06675") - Decimal("6.15672")
    assert f"{answer['cost_change_pct']:.2f}" == "-82.67"

    _, text, _ = say(capsys, "compare", str(first.pk), str(second.pk))
    assert answer["sentence"] in text
    assert answer["sentence"] in page
    assert re.search(r"#1 +\$6\.15672\n", text)
    assert re.search(r"#2 +\$1\.06675  \(-82\.67 %\)", text)
    for name, usd in ATTRIBUTION.items():
        shown = re.search(rf"  {name} +(-)\$([0-9.]+)", text)
        assert shown is not None
        assert f"{Decimal(shown[1] + shown[2]):.3f}" == usd

    code, text, _ = say(capsys, "cost", f"{JOB}#1")
    assert code == 0
    assert f"{JOB} #1, finished: $6.16" in text
    assert text.count("ml.p3.8xlarge") == 3
    assert text.count("$2.05") == 3


@pytest.fixture
def job(service) -> Job:
    return factories.job(service.owner.workspace)


def pair(job: Job, first: str | None, second: str | None, **more: Any) -> tuple[str, str]:
    runs = [factories.run(job, cost=first), factories.run(job, cost=second, **more)]
    for run in runs:
        factories.analysis(run)
    return f"{job.name}#{runs[0].number}", str(runs[1].pk)


@pytest.mark.parametrize(
    ("second", "allowed", "code", "words"),
    [
        ("1.04", "5%", 0, ""),
        ("1.05", "5", 0, ""),
        ("1.051", "5%", 1, "the same work costs 5.10 % more, and --fail-if-cost-up allows 5 %"),
        ("0.5", "0%", 0, ""),
        ("1.0001", "0 %", 1, "costs 0.01 % more"),
        (None, "5%", 3, "can't be compared"),
    ],
)
def test_it_fails_if_the_cost_went_up_by_more_than_is_allowed(
    job, capsys, second, allowed, code, words
):
    runs = pair(job, "1.000000000", second)
    printed, _, errors = say(capsys, "compare", *runs, f"--fail-if-cost-up={allowed}")
    assert printed == code
    assert words in errors


def test_more_of_the_same_work_is_no_higher_cost(job, capsys):
    runs = pair(job, "1", "2", work={"samples": 38_400.0})
    assert say(capsys, "compare", *runs, "--fail-if-cost-up", "1%")[0] == 0


@pytest.mark.parametrize("more", [{"state": Run.FAILED}, {"workload": {"entry_point": "x.py"}}])
def test_whether_the_cost_went_up_is_not_told_of_other_or_unfinished_work(job, capsys, more):
    runs = pair(job, "1", "9", **more)
    assert say(capsys, "compare", *runs, "--fail-if-cost-up", "1%")[0] == 3


def test_the_cost_of_a_run_says_what_is_known_and_json_is_the_answer(service, job, capsys):
    run = factories.costed(_with_node(factories.run(job)))
    Run.objects.filter(pk=run.pk).update(
        summary=factories.summary(
            phase_usd={"train": Decimal("0.01")}, cost_notes=["Half was paid."]
        )
    )
    code, printed, _ = say(capsys, "cost", f"{job.name}#{run.number}", "--json")
    assert code == 0
    assert json.loads(printed) == ask(service, f"cost?run={quote(job.name)}%23{run.number}")
    _, printed, _ = say(capsys, "cost", str(run.pk), "--markdown")
    assert printed.startswith(f"**{job.name} #{run.number}, finished: $0.0142**")
    assert "| train | $0.0100 |" in printed
    assert "Half was paid." in printed


def _with_node(run: Run) -> Run:
    factories.node(run)
    return run


def test_the_cost_of_a_run_that_failed_says_why(job, capsys):
    run = factories.run(job, state=Run.FAILED)
    node = factories.node(run, hostname="trainer-a")
    ending = {"signal": 9, "oom_kills": 1, "oom_scope": "container"}
    Session.objects.create(
        id=uuid4(),
        node=node,
        boot_id="b",
        started_at=run.started_at,
        ended_ms=1000,
        end_state=Run.FAILED,
        exit_code=137,
        ending=ending,
    )
    _, printed, _ = say(capsys, "cost", str(run.pk))
    assert "failed on trainer-a: Killed by the kernel for memory" in printed


def test_it_waits_for_the_analysis_of_a_run(job, capsys, monkeypatch):
    monkeypatch.setattr("trimtab.cli.completeness.FIRST_PAUSE_SECONDS", 0.01)
    run = factories.run(job)
    analysis = factories.analysis(run, done=0)
    code, _, errors = say(capsys, "cost", str(run.pk), "--wait", "0.2")
    assert code == 3
    assert "not complete after 0.2 s: run #1 (finished): its analysis isn't final yet" in errors
    assert say(capsys, "cost", str(run.pk))[0] == 0
    waits = iter([None, None])

    def analysed(seconds: float) -> None:
        if next(waits, run) is not None:
            type(analysis).objects.filter(pk=analysis.pk).update(done=analysis.wanted)

    monkeypatch.setattr("trimtab.cli.completeness.time.sleep", analysed)
    code, printed, errors = say(capsys, "cost", "--wait", str(run.pk))
    assert (code, errors) == (0, "")
    assert "finished: $" in printed


def test_waiting_for_what_no_time_brings_ends_at_once(job, capsys):
    run = factories.run(job)
    factories.analysis(run, done=0, given_up_at=timezone.now(), error="out of memory.")
    code, _, errors = say(capsys, "cost", str(run.pk), "--wait")
    assert code == 3
    assert "waiting doesn't help: run #1 (finished): its analysis failed: out of memory" in errors
    code, _, errors = say(capsys, "cost", "nightly", "--wait")
    assert code == 2
    assert "--wait waits for one run" in errors


def test_a_run_without_a_price_has_an_exit_code_of_its_own(job, capsys):
    run = factories.run(job, cost=None, summary=factories.summary(missing=["no price of x9"]))
    code, printed, _ = say(capsys, "cost", str(run.pk))
    assert code == 3
    assert "finished: no price" in printed
    assert "no price of x9" in printed


@pytest.mark.parametrize("run", ["nobody/train.py#1", "no-such-run", "vision/train.py#99999999999"])
def test_a_run_that_is_not_there_is_said_and_is_an_error(job, capsys, run):
    code, printed, errors = say(capsys, "cost", run)
    assert (code, printed) == (2, "")
    assert "404" in errors


def test_an_agents_token_asks_about_its_own_runs(service, job, capsys, monkeypatch):
    monkeypatch.setenv("TRIMTAB_TOKEN", Token.make(job.workspace, "agent", [Token.INGEST])[1])
    a, b = pair(job, "1", "2")
    assert say(capsys, "cost", a)[0] == 2
    agents = Token.objects.filter(name="agent")
    Run.objects.get(number=1).uploaders.set(agents)
    assert say(capsys, "cost", a)[0] == 0
    code, _, errors = say(capsys, "compare", a, b)
    assert code == 2
    assert "Not among the runs that this token uploaded to" in errors
    Run.objects.get(number=2).uploaders.set(agents)
    assert say(capsys, "compare", a, b)[0] == 0


def test_without_a_service_it_says_what_to_set(capsys, monkeypatch, tmp_path):
    for name in ("TRIMTAB_URL", "TRIMTAB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    code, _, errors = say(capsys, "cost", "a#1")
    assert code == 2
    assert "TRIMTAB_URL" in errors


@pytest.mark.parametrize("percent", ["five", "-1%", "nan"])
def test_a_percentage_that_is_none_is_refused(capsys, percent):
    with pytest.raises(SystemExit) as ended:
        main(["compare", "a", "b", f"--fail-if-cost-up={percent}"])
    assert ended.value.code == 2
