"""`trimtab report` saves the report of a run, and the API gives it to those who may read it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client
from trimtab.cli import main

from tests.web import factories, training
from webapp.accounts.models import Token
from webapp.runs.models import Run


@pytest.fixture
def run(owner) -> Run:
    return factories.costed(training.uploaded_run(owner.workspace))


@pytest.fixture
def said(live_server, owner, monkeypatch, tmp_path, capsys):
    """Runs `trimtab report` in a folder of its own: exit code, output, errors."""
    token = Token.make(owner.workspace, "script", [Token.READ])[1]
    monkeypatch.setenv("TRIMTAB_URL", live_server.url)
    monkeypatch.setenv("TRIMTAB_TOKEN", token)
    monkeypatch.chdir(tmp_path)

    def say(*words: str) -> tuple[int, str, str]:
        code = main(("report", *words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return say


def test_the_command_saves_the_file(said, run):
    name = f"{run.job.name}#{run.number}"
    code, out, _ = said(name)
    assert (code, out) == (0, "vision-train.py-1-report.html\n")
    saved = Path("vision-train.py-1-report.html").read_text()
    assert saved.endswith("</html>\n")
    assert str(run.pk) in saved

    assert said(str(run.pk), "-o", "here.html")[0] == 0
    assert run.job.name in Path("here.html").read_text()
    code, _, error = said(name, "-o", "no/such/folder.html")
    assert (code, "can't write" in error) == (1, True)


def test_the_command_says_why_there_is_no_report(said, run, stranger, monkeypatch):
    code, _, error = said("vision/train.py#99")
    assert (code, "404" in error) == (2, True)
    monkeypatch.setenv("TRIMTAB_TOKEN", Token.make(stranger.workspace, "x", [Token.READ])[1])
    code, _, error = said(str(run.pk))
    assert (code, "404" in error) == (2, True)
    assert not list(Path().glob("*.html"))


def test_an_agents_token_reads_the_runs_that_it_uploaded(owner, run):
    other = Token.make(owner.workspace, "agent", [Token.INGEST])[1]
    headers = {"authorization": f"Bearer {other}"}
    name = quote(f"{run.job.name}#{run.number}", safe="")
    for reference in (str(run.pk), name):
        answer = Client().get(f"/api/v1/runs/{reference}/report.html", headers=headers)
        assert answer.status_code == 404
