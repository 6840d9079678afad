"""The files that `tests/ops/test_contributing.py` adds, as docs/development/ lists them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from tests import scratch
from tests.money.test_providers import MODULE, TABLE
from tests.offline.folders import as_files, command, simulated
from tests.rules.test_adding_a_rule import RULE
from tests.rules.test_adding_a_rule import TEST as RULE_TEST

Edit = Callable[[str], str]
"""The old text of a file (empty if it is new) -> its new text."""


@dataclass(frozen=True)
class Addition:
    """An addition with its files, and a check that the copy has it."""

    name: str
    files: dict[str, Edit]
    """The files by the path that the page of adding it gives."""
    check: Callable[[Path], str]
    """The problems in the copy; empty: it works."""


def _new(text: str) -> Edit:
    return lambda _: text


SOURCE = '''\
"""Processes since boot, from /proc/stat."""

from trimtab.sources.procfile import ProcFile, Reading


class Forks:
    """`host.forks_total`."""

    def __init__(self, path: str = "/proc/stat") -> None:
        self._file = ProcFile(path)

    def read(self) -> Reading:
        lines = self._file.read().splitlines()
        return {"host.forks_total": int(line.split()[1]) for line in lines if b"processes" in line}
'''
SOURCE_TEST = """\
from trimtab.sources.forks import Forks


def test_it_counts_processes(tmp_path):
    (tmp_path / "stat").write_text("cpu 1 2\\nprocesses 17\\n")
    assert Forks(str(tmp_path / "stat")).read() == {"host.forks_total": 17}
"""
DOCUMENTED = "tests/rules/test_engine.py::test_every_rule_documents_itself[quiet_network]"
ROW = "| `host.runnable_count` |"


def _listed(text: str) -> str:
    imported = text.replace(
        "from trimtab.sources.gpu",
        "from trimtab.sources.forks import Forks\nfrom trimtab.sources.gpu",
        1,
    )
    return imported.replace("    HostCpu,\n", "    HostCpu,\n    Forks,\n", 1)


def _documented(text: str) -> str:
    row = "| `host.forks_total` | processes | `/proc/stat` | started since boot |\n"
    return text.replace(ROW, row + ROW, 1)


CHANNEL = '''\
"""A file a message, in a folder that the person names."""

from contextlib import contextmanager
from pathlib import Path

from django import forms
from django.template.loader import render_to_string

from webapp.notify.channels.channel import Channel, DeliveryFailure, Setup


class FolderForm(forms.Form):
    folder = forms.CharField(label="Folder", max_length=300)

    def clean_folder(self):
        if not self.cleaned_data["folder"].startswith("/"):
            raise forms.ValidationError("Write the folder in full.")
        return self.cleaned_data["folder"]


class FolderChannel(Channel):
    id = "folder"
    title = "Folder"
    most_seconds = 5
    form = FolderForm

    def setup(self):
        return Setup(True, "Messages are written to a folder.")

    def target(self, user, entered):
        return entered["folder"]

    @contextmanager
    def connect(self):
        yield self

    def send(self, message):
        text = render_to_string(f"{message.template}.txt", message.context)
        (Path(message.target) / f"{len(message.id)}.txt").write_text(text)

    def failure(self, error):
        return DeliveryFailure(str(error), is_final=isinstance(error, NotADirectoryError))


CHANNEL = FolderChannel()
'''
CHANNEL_TEST = """\
import pytest
from django.core import mail as django_mail

from tests.service import mailing
from webapp.notify.models import Mail

pytestmark = pytest.mark.django_db
PAGE = "/settings/notifications/"


@pytest.fixture
def team():
    return mailing.team()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "messages"
    made.mkdir()
    return made


def choose(team, folder):
    values = {"channel": "folder", "folder": folder}
    return mailing.signed_in(team.owner).post(f"{PAGE}channel/", values, follow=True)


def outcome():
    return list(Mail.objects.filter(channel="folder").values_list("user__email", "state"))


def test_it_delivers_beside_mail_to_whoever_has_set_it_up(team, folder):
    assert "Write the folder in full." in choose(team, "somewhere").content.decode()
    assert str(folder) in choose(team, folder).content.decode()
    mailing.advised_run(team.agent())
    mailing.one_round()
    assert outcome() == [("ada@example.org", "sent")]
    (written,) = folder.iterdir()
    assert "Saves a month" in written.read_text()
    assert len(django_mail.outbox) == 2
    mailing.signed_in(team.owner).post(f"{PAGE}channel/", {"channel": "folder", "off": ""})
    mailing.advised_run(team.agent("another"))
    mailing.one_round()
    assert len(outcome()) == 1


def test_what_was_sent_before_is_no_news_on_a_new_channel(team, folder):
    mailing.advised_run(team.agent())
    mailing.one_round()
    choose(team, folder)
    mailing.one_round()
    assert outcome() == []


@pytest.mark.parametrize(("where", "state"), [("missing", "waiting"), ("file/below", "failed")])
def test_a_failure_is_retried_or_final_and_mail_still_goes_out(team, folder, where, state):
    (folder / "file").touch()
    choose(team, folder / where)
    mailing.advised_run(team.agent())
    mailing.one_round()
    assert outcome() == [("ada@example.org", state)]
    assert len(django_mail.outbox) == 2


def test_a_test_message_arrives(team, folder):
    choose(team, folder)
    mailing.signed_in(team.owner).post(f"{PAGE}test/", {"channel": "folder"})
    (written,) = folder.iterdir()
    assert "Folder works." in written.read_text()
"""


def _passes(*tests: str) -> Callable[[Path], str]:
    def check(copy: Path) -> str:
        done = scratch.pytest(copy, *tests)
        return done.stdout + done.stderr if done.returncode else ""

    return check


def _prices_a_run(copy: Path) -> str:
    """Price a run: 3 machines for 503 s, of which 1,200 s are billed, at $3.60."""
    run = copy / "run"
    as_files(simulated()[0], run)
    words = ("--provider", "nimbus", "--service", "nimbus_vm", "--region", "sky-1")
    done = command(run, *words, "--instance-type", "vm.n1.large", "--json", root=copy)
    if done.returncode:
        return done.stderr
    cost = json.loads(done.stdout)["cost_usd"]
    return "" if cost and Decimal(cost) == Decimal("3.60") else f"It costs {cost}."


ADDITIONS = {
    "Rule": Addition(
        "quiet_network",
        {
            "rules/catalogue/NAME.py": _new(RULE),
            "tests/rules/test_NAME.py": _new(RULE_TEST),
        },
        _passes(DOCUMENTED, "tests/rules/test_quiet_network.py"),
    ),
    "Series": Addition(
        "forks",
        {
            "agent/trimtab/sources/NAME.py": _new(SOURCE),
            "agent/trimtab/sources/__init__.py": _listed,
            "docs/series.md": _documented,
            "tests/agent/test_NAME.py": _new(SOURCE_TEST),
        },
        _passes("tests/agent/test_series.py", "tests/agent/test_forks.py"),
    ),
    "Channel": Addition(
        "folder",
        {
            "webapp/notify/channels/NAME.py": _new(CHANNEL),
            "tests/service/channels/test_NAME.py": _new(CHANNEL_TEST),
        },
        _passes("tests/service/channels/test_folder.py"),
    ),
    "Provider": Addition(
        "nimbus",
        {
            "advisor/pricing/providers/NAME.py": _new(MODULE),
            "advisor/pricing/tables/NAME/prices.csv": _new(TABLE),
        },
        _prices_a_run,
    ),
}
