"""Who wrote a file, and may delete it; nobody knows it of earlier files."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0008_allowed_purchases"), ("mlflow_api", "0001_tracked_runs")]

    operations = [
        migrations.AddField(
            model_name="loggedfile",
            name="written_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="accounts.token",
            ),
        ),
    ]
