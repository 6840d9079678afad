"""The page on which people choose their mails and see their state."""

from __future__ import annotations

import pytest
from django.core import mail as django_mail

from tests.html import read_page
from tests.service import mailing
from tests.smtp import Mailbox, mail_server
from webapp.accounts.models import Membership
from webapp.http import rate_limits
from webapp.notify.models import Mail

pytestmark = pytest.mark.django_db
PAGE = "/settings/notifications/"


@pytest.fixture
def team() -> mailing.Team:
    return mailing.team()


def page(client) -> str:  # type: ignore[no-untyped-def]
    answer = client.get(PAGE)
    assert answer.status_code == 200
    return str(read_page(answer))


def is_ticked(shown: str) -> bool:
    (box,) = [line for line in shown.splitlines() if 'id="kind-recommendation"' in line]
    return " checked" in box


def test_owners_and_members_get_mail_unless_they_say_no_and_viewers_if_they_say_yes(team):
    assert is_ticked(page(mailing.signed_in(team.owner)))
    assert is_ticked(page(mailing.signed_in(team.member)))
    assert not is_ticked(page(mailing.signed_in(team.viewer)))
    mailing.signed_in(team.owner).post(PAGE, {})
    mailing.signed_in(team.viewer).post(PAGE, {"kind": "recommendation"})
    mailing.advised_run(team.agent())
    mailing.one_round()
    assert sorted(m.to[0] for m in django_mail.outbox) == ["bob@example.org", "eve@example.org"]


def test_owners_set_the_least_saving_that_is_mailed(team):
    address = f"{PAGE}least/"
    assert (
        mailing.signed_in(team.member).post(address, {"least_mailed_usd": "5"}).status_code == 403
    )
    owner = mailing.signed_in(team.owner)
    for wrong in ("-1", "a lot", "", "1e9"):
        assert "form-error" in read_page(owner.post(address, {"least_mailed_usd": wrong}))
    owner.post(address, {"least_mailed_usd": "2.50"})
    assert "less than $2.50 a month" in page(mailing.signed_in(team.viewer))


def test_a_choice_outlives_a_change_of_role(team):
    mailing.signed_in(team.owner).post(PAGE, {"kind": "recommendation"})
    Membership.objects.filter(user=team.owner).update(role=Membership.VIEWER)
    assert is_ticked(page(mailing.signed_in(team.owner)))


def test_it_is_of_this_person_and_this_workspace_only(team):
    other = mailing.Workspace.objects.create(name="Elsewhere")
    Membership.objects.create(workspace=other, user=team.member, role=Membership.OWNER)
    mailing.advised_run(team.agent("secret-job"))
    mailing.one_round()
    assert "secret-job" in page(mailing.signed_in(team.owner))
    assert "secret-job" not in page(mailing.signed_in(team.viewer))
    elsewhere = mailing.signed_in(team.member)
    elsewhere.post("/workspace/", {"workspace": str(other.uuid)})
    assert "secret-job" not in page(elsewhere)


def test_a_failed_mail_shows_why_and_can_be_sent_again_by_its_reader_only(
    team, settings, monkeypatch
):
    box = Mailbox(recipient_answer="550 5.1.1 No such <b>user</b>")
    with mail_server(box) as port:
        mailing.send_through(settings, monkeypatch, f"smtp://127.0.0.1:{port}?timeout=1")
        mailing.advised_run(team.agent())
        mailing.one_round()
    mail = Mail.objects.get(user=team.owner)
    shown = page(mailing.signed_in(team.owner))
    assert "550 5.1.1 No such &lt;b&gt;user&lt;/b&gt;" in shown
    assert "Send again" in shown
    for other in (team.member, team.viewer):
        mailing.signed_in(other).post(f"{PAGE}send-again/", {"mail": str(mail.uuid)})
        assert Mail.objects.get(pk=mail.pk).state == "failed"
    client = mailing.signed_in(team.owner)
    for wrong in ("", "x", str(team.workspace.uuid)):
        assert client.post(f"{PAGE}send-again/", {"mail": wrong}).status_code == 302
    client.post(f"{PAGE}send-again/", {"mail": str(mail.uuid)})
    assert Mail.objects.get(pk=mail.pk).state == "waiting"


def test_a_test_mail_goes_to_oneself(team):
    answer = mailing.signed_in(team.viewer).post(f"{PAGE}test/", follow=True)
    assert "Test mail sent to eve@example.org" in read_page(answer)
    (message,) = django_mail.outbox
    assert message.to == ["eve@example.org"]
    assert message.message()["Auto-Submitted"] == "auto-generated"


def test_a_test_mail_that_fails_says_why(team, settings, monkeypatch):
    with mail_server(Mailbox(recipient_answer="550 5.7.1 Not from you")) as port:
        mailing.send_through(settings, monkeypatch, f"smtp://127.0.0.1:{port}?timeout=1")
        answer = mailing.signed_in(team.owner).post(f"{PAGE}test/", follow=True)
    shown = read_page(answer)
    assert "notice-caution" in shown
    assert "The mail server said 550 5.7.1 Not from you" in shown


def test_test_mails_are_counted(team, monkeypatch):
    monkeypatch.setattr(rate_limits, "seconds_until_person_may", lambda *_: 7)
    answer = mailing.signed_in(team.owner).post(f"{PAGE}test/", follow=True)
    assert "Try again in 7 s" in read_page(answer)
    assert django_mail.outbox == []


def test_it_says_when_mail_goes_nowhere_and_never_the_password(team, settings, monkeypatch):
    settings.EMAIL_HOST = ""
    assert "No mail server is configured" in page(mailing.signed_in(team.owner))
    mailing.send_through(settings, monkeypatch, "smtp+tls://ada:hunter2@mail.example.org")
    shown = page(mailing.signed_in(team.owner))
    assert "mail.example.org:587 (STARTTLS)" in shown
    assert "hunter2" not in shown
