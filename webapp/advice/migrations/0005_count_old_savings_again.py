from datetime import timedelta

from django.db import migrations
from django.db.models import F, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

PROVEN = ("verified", "failed")


def want_recounts(apps, schema_editor):
    """What had been followed more than a year ago was counted for other recommendations, too."""
    a_year_ago = timezone.now() - timedelta(days=365)
    rows = apps.get_model("advice", "Recommendation").objects
    saved = apps.get_model("advice", "RealisedSaving").objects
    recounts = apps.get_model("advice", "SavingsRecount").objects
    began_at = Coalesce("claimed_by__started_at", "claimed_by__created_at")
    old = rows.alias(claimed_at=began_at).filter(claimed_at__lt=a_year_ago)
    for workspace_id in list(old.order_by().values_list("job__workspace", flat=True).distinct()):
        proven = saved.filter(
            recommendation__job__workspace=workspace_id,
            recommendation__state__in=PROVEN,
            recommendation__run__deleted_at=None,
            run__deleted_at=None,
        )
        before = proven.aggregate(usd=Sum("usd"))["usd"] or 0
        figures = {"before_usd": before, "after_usd": None, "finished_at": None, "is_told": False}
        fresh = {"attempts": 0, "kills": 0, "given_up_at": None}
        recount, _ = recounts.update_or_create(
            workspace_id=workspace_id, defaults=figures | fresh
        )
        recounts.filter(pk=recount.pk).update(wanted=F("wanted") + 1, due_at=timezone.now())


class Migration(migrations.Migration):
    dependencies = [
        ("advice", "0004_order_by_counted_saving"),
    ]

    operations = [migrations.RunPython(want_recounts, migrations.RunPython.noop)]
