"""Whether a mail is to be sent was told by its state alone."""

from django.db import migrations
from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone


def carry_states_over(apps, schema_editor):
    """Mails that wait stay as they are, with their attempts and the time of the next."""
    mails = apps.get_model("notify", "Mail").objects.all()
    over = mails.filter(state__in=("sent", "withdrawn"))
    over.update(done=F("wanted"), finished_at=Coalesce("sent_at", "created_at"))
    mails.filter(state="failed").update(given_up_at=timezone.now())


class Migration(migrations.Migration):

    dependencies = [
        ('notify', '0002_background_work'),
    ]

    operations = [
        migrations.RunPython(carry_states_over, migrations.RunPython.noop),
    ]
