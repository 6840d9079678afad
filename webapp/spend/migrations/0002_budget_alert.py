"""Renames `Crossing` to `BudgetAlert`: the word that pages and mails use."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('spend', '0001_budgets'),
    ]

    operations = [
        migrations.RemoveConstraint(model_name='crossing', name='one_crossing_a_month_and_state'),
        migrations.RenameModel(old_name='Crossing', new_name='BudgetAlert'),
        migrations.RenameField(model_name='budgetalert', old_name='crossed_at', new_name='reached_at'),
        migrations.AlterField(
            model_name='budgetalert',
            name='budget',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='spend.budget'),
        ),
        migrations.AddConstraint(
            model_name='budgetalert',
            constraint=models.UniqueConstraint(fields=('budget', 'month', 'state'), name='one_alert_a_month_and_state'),
        ),
    ]
