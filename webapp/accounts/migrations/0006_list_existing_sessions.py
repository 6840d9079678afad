"""Sessions from before this version are listed, and end, like new ones."""

from datetime import timedelta

from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.db import migrations
from django.utils import timezone


def list_sessions(apps, schema_editor):
    Session = apps.get_model("sessions", "Session")
    SignedInSession = apps.get_model("accounts", "SignedInSession")
    people = set(apps.get_model("accounts", "User").objects.values_list("pk", flat=True))
    rows = []
    for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator():
        user = SessionStore().decode(session.session_data).get("_auth_user_id", "")
        if str(user).isdecimal() and int(user) in people:
            seen = session.expire_date - timedelta(seconds=settings.SESSION_COOKIE_AGE)
            rows.append(SignedInSession(session=session, user_id=int(user), signed_in_at=seen, last_seen_at=seen))
    SignedInSession.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_sessions_and_two_factor"),
        ("sessions", "0001_initial"),
    ]
    operations = [migrations.RunPython(list_sessions, migrations.RunPython.noop)]
