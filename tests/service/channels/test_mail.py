"""A real mail server on loopback that accepts, refuses, hangs, disconnects, or isn't trusted."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.utils import timezone

from tests.service import mailing
from tests.smtp import PASSWORD, Mailbox, certificate, knows_password, mail_server, silent_server
from webapp.background import pulling
from webapp.notify import queue, tasks
from webapp.notify.models import Mail

pytestmark = pytest.mark.django_db
QUICK = "timeout=1"
LIMITS = queue.KIND.limits


@pytest.fixture
def team() -> mailing.Team:
    made = mailing.team()
    mailing.membership(made.member).delete()
    return made


@pytest.fixture
def send_through(settings, monkeypatch):
    return lambda url: mailing.send_through(settings, monkeypatch, url)


@pytest.fixture
def mailbox(send_through):
    box = Mailbox()
    with mail_server(box) as port:
        send_through(f"smtp://127.0.0.1:{port}?{QUICK}")
        yield box


def again() -> None:
    """Let another round begin, when the pause and every lease are over."""
    Mail.objects.update(due_at=timezone.now(), leased_until=None)
    mailing.one_round()


def the_mail() -> Mail:
    return Mail.objects.get()


def test_it_arrives_byte_for_byte_as_mail_programs_need_it(team, mailbox):
    mailing.advised_run(team.agent("\U0001f600 Grüße"))
    mailing.one_round()
    (delivery,) = mailbox.deliveries
    header = _unfolded(delivery.body)
    assert delivery.recipient == "ada@example.org"
    # A mail program looks for the address between < and >, on one line, not encoded.
    assert re.fullmatch(rb"<http://[!-~]+/>", header[b"List-Unsubscribe"])
    assert header[b"Message-ID"] == the_mail().message_id.encode()
    assert max(map(len, delivery.body.split(b"\r\n"))) <= 998
    assert delivery.message["Subject"].strip().startswith("\U0001f600 Grüße: Load data")
    assert the_mail().state == "sent"


def _unfolded(body: bytes) -> dict[bytes, bytes]:
    """Return the header lines as they came, only unfolded."""
    lines = body.split(b"\r\n\r\n")[0].replace(b"\r\n ", b" ").split(b"\r\n")
    return {name: value.strip() for name, _, value in (line.partition(b":") for line in lines)}


def test_a_refusal_for_good_is_kept_with_its_reason_and_can_be_sent_again(team, mailbox):
    mailbox.recipient_answer = "550 5.1.1 No such user"
    mailing.advised_run(team.agent())
    mailing.one_round()
    again()
    mail = the_mail()
    assert (mail.state, mail.attempts) == ("failed", 1)
    assert mail.error == "The mail server said 550 5.1.1 No such user"
    mailbox.recipient_answer = "250 OK"
    assert queue.retry_mail(mail)
    again()
    assert the_mail().state == "sent"
    assert not queue.retry_mail(the_mail())
    assert len(mailbox.deliveries) == 1


@pytest.mark.parametrize("answer", ["recipient_answer", "data_answer"])
def test_a_refusal_for_now_is_tried_again_after_a_pause(team, mailbox, answer):
    setattr(mailbox, answer, "451 4.7.1 Try later")
    mailing.advised_run(team.agent())
    mailing.one_round()
    waiting = the_mail()
    assert (waiting.state, waiting.leased_until) == ("waiting", None)
    assert "451 4.7.1 Try later" in waiting.error
    assert timezone.now() - timedelta(seconds=5) <= waiting.due_at
    assert waiting.due_at <= timezone.now() + LIMITS.first_pause
    setattr(mailbox, answer, "250 OK")
    again()
    assert (the_mail().state, the_mail().error) == ("sent", "")
    assert len(mailbox.deliveries) == 1


def test_a_text_that_is_refused_for_good_is_not_sent_again(team, mailbox):
    mailbox.data_answer = "554 5.6.0 Not here"
    mailing.advised_run(team.agent())
    mailing.one_round()
    again()
    assert (the_mail().state, the_mail().attempts) == ("failed", 1)


def test_one_refused_recipient_does_not_hold_up_the_others(mailbox):
    team = mailing.team()
    mailbox.answers["ada@example.org"] = "550 5.1.1 No such user"
    mailing.advised_run(team.agent())
    mailing.one_round()
    states = dict(Mail.objects.values_list("user__email", "state"))
    assert states == {"ada@example.org": "failed", "bob@example.org": "sent"}


def test_what_may_have_arrived_is_sent_again_under_the_same_message_id(team, mailbox):
    mailbox.breaks_off = True
    mailing.advised_run(team.agent())
    mailing.one_round()
    assert (the_mail().state, len(mailbox.deliveries)) == ("waiting", 1)
    assert "closed" in the_mail().error
    mailbox.breaks_off = False
    again()
    assert the_mail().state == "sent"
    first, second = mailbox.deliveries
    assert first.message_id == second.message_id == the_mail().message_id
    assert first.message["Subject"] == second.message["Subject"]


def test_a_server_that_says_nothing_is_given_up_on_and_tried_later(team, send_through):
    mailing.advised_run(team.agent())
    with silent_server() as port:
        send_through(f"smtp://127.0.0.1:{port}?{QUICK}")
        mailing.one_round()
    assert (the_mail().state, the_mail().attempts) == ("waiting", 1)
    assert the_mail().error == "The mail server did not answer in time."


def test_no_server_at_all_is_tried_later(team, send_through):
    mailing.advised_run(team.agent())
    send_through(f"smtp://127.0.0.1:1?{QUICK}")
    mailing.one_round()
    assert the_mail().state == "waiting"
    assert "can't be reached" in the_mail().error


def test_it_stops_trying_some_time_and_says_so(team, send_through):
    mailing.advised_run(team.agent())
    send_through(f"smtp://127.0.0.1:1?{QUICK}")
    tasks.sweep()
    for _ in range(LIMITS.max_attempts + 1):
        again()
    assert (the_mail().state, the_mail().attempts) == ("failed", LIMITS.max_attempts)
    assert "can't be reached" in the_mail().error


def test_a_mail_whose_workers_all_died_ends_too(team):
    mailing.advised_run(team.agent())
    tasks.sweep()
    Mail.objects.update(kills=LIMITS.max_kills, leased_until=timezone.now())
    pulling.sweep()
    assert (the_mail().state, the_mail().error[:8]) == ("failed", "Given up")


@pytest.mark.parametrize("scheme", ["smtp+tls", "smtp+ssl"])
def test_a_certificate_that_nobody_vouches_for_gets_neither_mail_nor_password(
    team, send_through, tmp_path, monkeypatch, scheme
):
    context, authority = certificate(tmp_path)
    tls = {"tls_context": context, "auth_require_tls": True}
    if scheme == "smtp+ssl":
        # aiosmtpd takes STARTTLS alone for TLS.
        tls = {"ssl_context": context, "auth_require_tls": False}
    secret = quote(PASSWORD, safe="")
    box = Mailbox()
    mailing.advised_run(team.agent())
    with mail_server(box, authenticator=knows_password, **tls) as port:
        send_through(f"{scheme}://ada:{secret}@localhost:{port}?{QUICK}")
        mailing.one_round()
        assert box.deliveries == []
        assert "certificate verify failed" in the_mail().error.lower().replace("_", " ")
        assert the_mail().state == "waiting"
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        again()
    assert the_mail().state == "sent"
    assert len(box.deliveries) == 1


def test_a_wrong_password_leaves_the_mail_waiting_for_the_operator(team, send_through, tmp_path):
    mailing.advised_run(team.agent())
    box = Mailbox()
    options = {"authenticator": knows_password, "auth_require_tls": False}
    with mail_server(box, **options) as port:
        send_through(f"smtp://ada:wrong@127.0.0.1:{port}?{QUICK}")
        mailing.one_round()
        assert the_mail().state == "waiting"
        assert "535" in the_mail().error
        assert "wrong" not in the_mail().error
        send_through(f"smtp://ada:{quote(PASSWORD, safe='')}@127.0.0.1:{port}?{QUICK}")
        again()
    assert the_mail().state == "sent"


def test_only_one_worker_gets_a_mail_until_its_lease_ends(team):
    mailing.advised_run(team.agent())
    tasks.sweep()
    held = queue.claim(the_mail().pk)
    assert held is not None
    assert queue.claim(held.pk) is None
    Mail.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    second = queue.claim(held.pk)
    assert second is not None
    queue.fail(held, "too late")
    assert the_mail().state == "waiting"
    queue.mark_sent(second)
    assert queue.claim(held.pk) is None
