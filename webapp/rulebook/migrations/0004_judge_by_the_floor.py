"""Every rule has two more parameters, so what was judged before is judged again."""

from django.db import migrations
from django.utils import timezone


def want_all(apps, schema_editor):
    rejudgings = apps.get_model("rulebook", "Rejudging").objects
    workspaces = apps.get_model("analysis", "Judgement").objects.order_by()
    for workspace_id in workspaces.values_list("run__workspace", flat=True).distinct():
        row, _ = rejudgings.get_or_create(workspace_id=workspace_id)
        row.wanted += 1
        row.due_at = timezone.now()
        row.save(update_fields=["wanted", "due_at"])


class Migration(migrations.Migration):

    dependencies = [
        ('analysis', '0008_causes_of_findings'),
        ('rulebook', '0003_background_work'),
    ]

    operations = [
        migrations.RunPython(want_all, migrations.RunPython.noop),
    ]
