"""The table stays as it is: only the app that the model belongs to changes."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('rulebook', '0001_parameter_values'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel(name='ParameterValue')],
        ),
    ]
