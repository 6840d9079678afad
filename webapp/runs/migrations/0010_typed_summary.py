from django.db import migrations

import advisor.run_summary
import webapp.runs.fields


class Migration(migrations.Migration):
    """The column stays as it is: SQLite would remake the table of runs to change nothing."""

    dependencies = [("runs", "0009_metric_progress_and_indexes")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="run",
                    name="summary",
                    field=webapp.runs.fields.RunSummaryField(
                        blank=True, default=advisor.run_summary.RunSummary
                    ),
                ),
            ]
        )
    ]
