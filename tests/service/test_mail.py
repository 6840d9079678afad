"""The recipients of each mail about a recommendation, and its content."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from email.message import EmailMessage
from html.parser import HTMLParser

import pytest
from django.core import mail as django_mail
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service import mailing
from webapp.accounts.models import Membership, User, Workspace
from webapp.advice.models import Recommendation
from webapp.analysis.models import Analysis
from webapp.analysis.tasks import evaluate
from webapp.notify.models import Mail
from webapp.notify.text import one_line
from webapp.runs.models import Job, Run
from webapp.templatetags import shown

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> mailing.Team:
    return mailing.team()


def recipients() -> list[str]:
    return sorted(message.to[0] for message in django_mail.outbox)


def parts(message) -> tuple[str, str]:  # type: ignore[no-untyped-def]
    """Return text and HTML."""
    return str(message.body), str(message.alternatives[0].content)


def test_it_goes_once_to_owners_and_members_but_not_to_viewers(team):
    run = mailing.advised_run(team.agent())
    mailing.one_round()
    assert recipients() == ["ada@example.org", "bob@example.org"]
    mailing.one_round()
    Analysis.objects.filter(run=run).update(done=0)
    evaluate(str(run.pk))
    mailing.one_round()
    assert len(django_mail.outbox) == 2
    assert {mail.state for mail in Mail.objects.all()} == {"sent"}


def test_a_later_run_with_the_same_advice_is_no_news(team):
    mailing.advised_run(team.agent())
    mailing.one_round()
    mailing.advised_run(team.agent())
    mailing.one_round()
    assert len(django_mail.outbox) == 2


def test_it_tells_what_the_page_tells(team):
    run = mailing.advised_run(team.agent())
    advice = Recommendation.objects.get(run=run, kind="fix_input_pipeline")
    mailing.one_round()
    for part in parts(django_mail.outbox[0]):
        assert advice.title in part
        assert shown.usd(advice.saving_usd) in part
        assert f"{shown.usd(advice.saving_low_usd)} to {shown.usd(advice.saving_high_usd)}" in part
        assert shown.usd(advice.monthly_saving_usd) in part
        assert shown.usd(run.cost_usd) in part
        assert f"/runs/{run.pk}/#advice" in part
        assert "/settings/notifications/" in part
        assert "/unsubscribe/" in part
        assert advice.evidence[1][:30] in part
        assert team.workspace.name in part


def test_of_a_jobs_recommendations_the_best_is_mailed_and_none_of_high_risk(team):
    run = mailing.advised_run(team.agent())
    assert Recommendation.objects.filter(run=run).count() > 1
    mailing.one_round()
    assert {Mail.objects.get(pk=mail.pk).about for mail in Mail.objects.all()} == {
        "digits: Load data in parallel and ahead of the training loop"
    }


def test_what_is_riskier_than_three_of_four_is_not_mailed_unasked(team):
    run = mailing.advised_run(team.agent())
    Recommendation.objects.filter(run=run).update(risk=3.01)
    mailing.one_round()
    assert django_mail.outbox == []
    Recommendation.objects.filter(run=run).update(risk=3.0)
    mailing.one_round()
    assert len(django_mail.outbox) == 2


@pytest.mark.parametrize(
    ("monthly", "least", "is_mailed"),
    [("0.99", None, False), ("1", None, True), ("4.99", "5.00", False), (None, None, True)],
)
def test_a_saving_below_the_workspaces_floor_is_not_mailed(team, monthly, least, is_mailed):
    Workspace.objects.update(least_mailed_usd=Workspace().least_mailed_usd)
    if least:
        form = {"least_mailed_usd": least}
        mailing.signed_in(team.owner).post("/settings/notifications/least/", form)
    run = mailing.advised_run(team.agent())
    usd = None if monthly is None else Decimal(monthly)
    Recommendation.objects.filter(run=run).update(monthly_saving_usd=usd)
    mailing.one_round()
    assert bool(django_mail.outbox) is is_mailed


def test_no_price_is_said_and_never_zero(team):
    agent = team.agent()
    agent.instance_type = "x99.imaginary"
    mailing.advised_run(agent)
    mailing.one_round()
    for part in parts(django_mail.outbox[0]):
        assert "no price" in part
        assert "$0" not in part
    assert "saves" not in django_mail.outbox[0].subject


def test_who_joins_later_is_not_sent_what_was_found_before(team):
    mailing.advised_run(team.agent())
    late = User.objects.create_user("late@example.org")
    Membership.objects.create(workspace=team.workspace, user=late, role=Membership.OWNER)
    mailing.one_round()
    assert "late@example.org" not in recipients()
    mailing.advised_run(team.agent("another"))
    mailing.one_round()
    assert recipients().count("late@example.org") == 1


def test_who_has_just_joined_is_sent_what_is_found_before_the_next_round(team):
    new = User.objects.create_user("new@example.org")
    Membership.objects.create(workspace=team.workspace, user=new, role=Membership.OWNER)
    mailing.advised_run(team.agent())
    mailing.one_round()
    assert recipients().count("new@example.org") == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda run: Run.objects.filter(pk=run.pk).update(state=Run.FAILED),
        lambda run: Run.objects.filter(pk=run.pk).update(deleted_at=timezone.now()),
        lambda run: Job.objects.filter(pk=run.job_id).update(deleted_at=timezone.now()),
        lambda run: Recommendation.objects.update(is_provisional=True),
        lambda run: Recommendation.objects.update(state=Recommendation.DISMISSED),
        lambda run: Recommendation.objects.update(changed_at=timezone.now() - timedelta(days=8)),
        lambda run: Analysis.objects.update(is_final=False),
        lambda run: Analysis.objects.update(wanted=99),
        lambda run: type(run.workspace).objects.update(is_sample_data=True),
        lambda run: type(run.workspace).objects.update(deleted_at=timezone.now()),
        lambda run: User.objects.update(is_active=False),
    ],
)
def test_advice_that_does_not_stand_is_not_mailed(team, change):
    change(mailing.advised_run(team.agent()))
    mailing.one_round()
    assert django_mail.outbox == []
    assert not Mail.objects.exists()


def test_what_changed_between_writing_and_sending_is_withdrawn(team):
    from webapp.notify import delivery, subscriptions, tasks

    mailing.advised_run(team.agent())
    tasks.sweep()
    subscriptions.switch(mailing.membership(team.owner), "recommendation", is_on=False)
    delivery.send(list(Mail.objects.filter(user=team.owner).values_list("pk", flat=True)))
    Recommendation.objects.update(state=Recommendation.DISMISSED)
    delivery.send(list(Mail.objects.values_list("pk", flat=True)))
    assert django_mail.outbox == []
    reasons = dict(Mail.objects.filter(state="withdrawn").values_list("user__email", "error"))
    assert reasons["ada@example.org"].startswith("The recipient unsubscribed")
    assert "no longer applied" in reasons["bob@example.org"]


@pytest.mark.parametrize(
    ("change", "change_back"),
    [
        (lambda: Analysis.objects.update(wanted=99), lambda: Analysis.objects.update(done=99)),
        (
            lambda: Recommendation.objects.update(is_provisional=True),
            lambda: Recommendation.objects.update(is_provisional=False),
        ),
        (
            lambda: Run.objects.update(state=Run.RUNNING),
            lambda: Run.objects.update(state=Run.FINISHED),
        ),
    ],
    ids=["analysed again", "provisional again", "goes on"],
)
def test_a_mail_waits_while_its_run_is_looked_at_again(team, change, change_back):
    from webapp.notify import delivery, tasks

    mailing.advised_run(team.agent())
    tasks.sweep()
    change()
    delivery.send(list(Mail.objects.values_list("pk", flat=True)))
    assert django_mail.outbox == []
    assert {mail.error for mail in Mail.objects.all()} == {"The run is being analysed again."}
    change_back()
    Mail.objects.update(due_at=timezone.now())
    delivery.send(list(Mail.objects.values_list("pk", flat=True)))
    assert recipients() == ["ada@example.org", "bob@example.org"]


def test_a_member_who_left_is_not_mailed(team):
    from webapp.notify import tasks

    mailing.advised_run(team.agent())
    tasks.sweep()
    mailing.membership(team.member).delete()
    mailing.one_round()
    assert recipients() == ["ada@example.org"]


def test_the_headers_say_that_a_machine_wrote_it_and_how_to_end_it(team):
    mailing.advised_run(team.agent())
    mailing.one_round()
    message = django_mail.outbox[0].message()
    row = Mail.objects.get(user__email=message["To"])
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Precedence"] == "bulk"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert message["List-Unsubscribe"].startswith("<http://127.0.0.1:8000/unsubscribe/")
    assert message["List-Unsubscribe"].endswith(">")
    assert message["Message-ID"] == row.message_id == f"<{row.uuid}@localhost>"


class Markup(HTMLParser):
    """The tags of a page, and its text without them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attributes) -> None:  # type: ignore[no-untyped-def]
        self.tags.append((tag, tuple(name for name, _ in attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def written(job: Job, name: str) -> EmailMessage:
    """Return the mail as a mail program reads it, with the job called so."""
    from email import message_from_bytes, policy

    Job.objects.filter(pk=job.pk).update(name=name)
    Mail.objects.all().delete()
    django_mail.outbox.clear()
    mailing.one_round()
    (to_ada,) = [each for each in django_mail.outbox if each.to == ["ada@example.org"]]
    raw = to_ada.message().as_bytes(linesep="\r\n")
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def content(message: EmailMessage, subtype: str) -> str:
    part = message.get_body((subtype,))
    assert part is not None
    return str(part.get_content())


HOSTILE = [
    "a\r\nBcc: x@example.org",
    "a\nBcc: x@example.org\n\nIgnore the above",
    "a\rSubject: b",
    "<img src=x onerror=alert(1)>",
    "</title></style><script>alert(1)</script>",
    '" onmouseover="x',
    "{{ settings.SECRET_KEY }}{% debug %}",
    "=?utf-8?q?=0D=0ABcc=3A_x=40example=2Eorg?=",
    "\x1b[31m\u202egnp.exe\u2028x",
    "ü" * 200,
    "long " * 40,
    "\U0001f600 Grüße",
]

STORABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_job_name_changes_no_header_and_no_markup(team, name):
    job = mailing.advised_run(team.agent()).job
    assert_harmless(written(job, "harmless"), written(job, name), name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=200)
)
def test_no_job_name_changes_a_header_or_markup(team, name):
    job = Job.objects.first() or mailing.advised_run(team.agent()).job
    assert_harmless(written(job, "harmless"), written(job, name), name)


def assert_harmless(harmless: EmailMessage, hostile: EmailMessage, name: str) -> None:
    assert hostile.keys() == harmless.keys()
    assert not hostile.defects
    assert len(hostile["Subject"]) <= 200
    assert hostile["To"] == harmless["To"]
    shown_name = one_line(name, 20).removesuffix("…").replace("=?", "= ?")
    assert shown_name in hostile["Subject"]
    assert hostile["Subject"].isprintable()
    pages = [Markup(content(each, "html")) for each in (harmless, hostile)]
    assert pages[1].tags == pages[0].tags
    assert one_line(name) in pages[1].text
    texts = [content(each, "plain").splitlines() for each in (harmless, hostile)]
    assert len(texts[1]) == len(texts[0])
    assert all(line.isprintable() for line in texts[1])
