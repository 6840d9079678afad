from django.apps import AppConfig


class ImportsConfig(AppConfig):
    name = "webapp.imports"
    label = "imports"

    def ready(self) -> None:
        from webapp.background.kinds import register
        from webapp.imports import queue

        register(queue.KIND)
