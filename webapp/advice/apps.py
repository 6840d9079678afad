from django.apps import AppConfig


class AdviceConfig(AppConfig):
    name = "webapp.advice"
    label = "advice"

    def ready(self) -> None:
        from webapp.advice.advising import advise_again, prepare
        from webapp.advice.life_cycle import move
        from webapp.analysis.hooks import follow_analyses
        from webapp.runs.signals import history_changed, runs_moved

        follow_analyses(prepare)
        history_changed.connect(advise_again)
        runs_moved.connect(move)
