from django.db import migrations
from django.db.models import Exists, F, OuterRef


def settle(apps, schema_editor):
    """Set the state of runs of which nothing but files has arrived, as `imports.run_states` does."""
    run_model = apps.get_model("runs", "Run")
    imports = apps.get_model("imports", "Import").objects.filter(
        artefact__run=OuterRef("pk"), artefact__kind="import", wanted__gt=F("done")
    )
    bare = run_model.objects.filter(started_at=None, state__in=("running", "lost")).order_by()
    is_pending = Exists(imports.filter(given_up_at=None))
    has_failed = Exists(imports.exclude(given_up_at=None))
    for state, runs in (
        ("importing", bare.filter(is_pending)),
        ("import_failed", bare.filter(has_failed)),
    ):
        keys = list(runs.values_list("pk", flat=True))
        for start in range(0, len(keys), 500):
            run_model.objects.filter(pk__in=keys[start : start + 500]).update(state=state)


class Migration(migrations.Migration):
    dependencies = [
        ("imports", "0004_operator_times"),
        ("runs", "0030_importing_states"),
    ]

    operations = [migrations.RunPython(settle, migrations.RunPython.noop)]
