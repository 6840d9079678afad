"""What was tried too often was told by its counts alone."""

from django.db import migrations
from django.db.models import F, Q
from django.utils import timezone

MAX_ATTEMPTS, MAX_KILLS = 3, 10


def give_up(apps, schema_editor):
    worn_out = Q(attempts__gte=MAX_ATTEMPTS) | Q(kills__gte=MAX_KILLS)
    pending = apps.get_model("analysis", "Analysis").objects.filter(wanted__gt=F("done"))
    pending.filter(worn_out, given_up_at=None).update(given_up_at=timezone.now())


class Migration(migrations.Migration):

    dependencies = [
        ('analysis', '0006_background_work'),
    ]

    operations = [
        migrations.RunPython(give_up, migrations.RunPython.noop),
    ]
