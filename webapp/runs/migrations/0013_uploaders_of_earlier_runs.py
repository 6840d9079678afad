"""Runs from before uploaders were recorded, where only one token can have uploaded them.

That is so in a workspace that ever had one token with the scope `ingest`: tokens are revoked, never
deleted. The uploaders of other earlier runs stay unknown until their agents upload again.
"""

from django.db import migrations


def record_only_tokens(apps, schema_editor):
    Token = apps.get_model("accounts", "Token")
    Run = apps.get_model("runs", "Run")
    uploads = Run.uploaders.through.objects
    by_workspace = {}
    for token in Token.objects.iterator():
        if "ingest" in token.scopes:
            by_workspace.setdefault(token.workspace_id, []).append(token)
    for workspace_id, tokens in by_workspace.items():
        if len(tokens) == 1:
            runs = Run.objects.filter(workspace_id=workspace_id, created_at__gte=tokens[0].created_at)
            rows = [
                Run.uploaders.through(run_id=run_id, token_id=tokens[0].pk)
                for run_id in runs.values_list("pk", flat=True).iterator()
            ]
            uploads.bulk_create(rows, batch_size=500, ignore_conflicts=True)


class Migration(migrations.Migration):
    dependencies = [("runs", "0012_uploaders")]
    operations = [migrations.RunPython(record_only_tokens, migrations.RunPython.noop)]
