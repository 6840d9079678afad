from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "webapp.runs"
    label = "runs"

    def ready(self) -> None:
        from django.db.models.signals import post_save

        from webapp.runs import run_values
        from webapp.runs.models import Run

        post_save.connect(run_values.write_after_save, sender=Run)
