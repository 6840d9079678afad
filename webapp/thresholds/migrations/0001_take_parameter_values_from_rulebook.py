"""The table stays as it is: only the app that the model belongs to changes."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0004_invitations'),
        ('rulebook', '0002_give_parameter_values_to_thresholds'),
        ('runs', '0006_stops_and_artefacts'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='ParameterValue',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('rule', models.CharField(max_length=64)),
                        ('name', models.CharField(max_length=64)),
                        ('value', models.FloatField()),
                        ('job', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='parameter_values', to='runs.job')),
                        ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='parameter_values', to='accounts.workspace')),
                    ],
                    options={
                        'db_table': 'rulebook_parametervalue',
                        'constraints': [models.UniqueConstraint(condition=models.Q(('job__isnull', False)), fields=('job', 'rule', 'name'), name='one_value_a_job_and_parameter'), models.UniqueConstraint(condition=models.Q(('job', None)), fields=('workspace', 'rule', 'name'), name='one_value_a_workspace_and_parameter')],
                    },
                ),
            ],
        ),
    ]
