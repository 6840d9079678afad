"""Findings claim labels of the ledger, where each had an estimate of its own."""

from django.db import migrations, models

from advisor.money import share_of_usd

AT_ONCE = 500
_IDLE = ["gpu_idle", "low_sm", "data_stall", "epoch_gap", "checkpoint", "communication"]
_WORK = ["effective", "gpu_idle", "low_sm", "unused_cores", "data_stall", "communication"]
LABELS = {
    "batch_size": _IDLE,
    "checkpoint_interval": ["checkpoint"],
    "checkpoint_stalls": ["checkpoint"],
    "cpu_bottleneck": _IDLE,
    "cpu_oversized": ["unused_cores"],
    "dataloader": ["data_stall"],
    "epoch_gaps": ["epoch_gap"],
    "evaluation_share": ["evaluation"],
    "hung": ["hung", "idle_tail", "restart"],
    "idle_notebook": ["unused_cores", *_IDLE, "idle_tail", "unused_gpu"],
    "idle_tail": ["idle_tail"],
    "input_bound": ["data_stall"],
    "io_bottleneck": _IDLE,
    "load_balancing": ["gpu_idle", "low_sm", "communication", "data_stall", "effective"],
    "lost_work": ["lost"],
    "low_gpu_utilization": [*_IDLE, "unused_gpu"],
    "max_initialization_time": ["initialise", "restore"],
    "repeated_failures": ["lost", *_WORK],
    "restart_loop": ["restart", "lost", "restore", "initialise", *_WORK],
    "slow_restart": ["restart", "restore", "initialise"],
    "startup_breakdown": ["initialise", "restore"],
    "unused_gpus": ["unused_gpu", "gpu_idle"],
}
"""On which labels each rule claimed its waste, when this was written; the others' is work."""


def claim(apps, schema_editor):
    """Turn the waste of each finding into one claim, and leave of it what was counted."""
    rows = apps.get_model("analysis", "Judgement").objects
    found = rows.filter(state="fired", waste_seconds_high__gt=0).only(
        "rule",
        "counted_share",
        "waste_seconds_low",
        "waste_seconds_high",
        "waste_usd_low",
        "waste_usd_high",
    )
    batch = []
    for row in found.iterator(AT_ONCE):
        high = row.waste_seconds_high
        labels = LABELS.get(row.rule, _WORK)
        row.claims = [[labels, high, min(row.waste_seconds_low / high, 1.0), 1.0]]
        for name in ("waste_seconds_low", "waste_seconds_high"):
            setattr(row, name, getattr(row, name) * row.counted_share)
        for name in ("waste_usd_low", "waste_usd_high"):
            if (usd := getattr(row, name)) is not None:
                setattr(row, name, share_of_usd(usd, row.counted_share))
        batch.append(row)
        if len(batch) == AT_ONCE:
            write(rows, batch)
            batch = []
    write(rows, batch)


def write(rows, batch):
    """Write the changed columns of some rows."""
    columns = ("claims", "waste_seconds_low", "waste_seconds_high")
    rows.bulk_update(batch, [*columns, "waste_usd_low", "waste_usd_high"])


class Migration(migrations.Migration):
    dependencies = [("analysis", "0020_rules_called_for")]

    operations = [
        migrations.AddField(
            model_name="judgement",
            name="claims",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="judgement",
            name="taken",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.RunPython(claim, migrations.RunPython.noop, elidable=True),
        migrations.RemoveField(model_name="judgement", name="counted_share"),
    ]
