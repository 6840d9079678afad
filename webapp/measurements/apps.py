from django.apps import AppConfig


class MeasurementsConfig(AppConfig):
    name = "webapp.measurements"
    label = "measurements"

    def ready(self) -> None:
        from webapp.analysis.hooks import follow_analyses
        from webapp.measurements.measuring import prepare

        follow_analyses(prepare)
