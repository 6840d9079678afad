from django.apps import AppConfig


class AdviceConfig(AppConfig):
    name = "webapp.advice"
    label = "advice"

    def ready(self) -> None:
        from webapp.advice.advising import prepare
        from webapp.advice.life_cycle import move, queue_advice
        from webapp.advice.recounting import KIND
        from webapp.advice.settling import settle
        from webapp.analysis.hooks import follow_analyses
        from webapp.analysis.signals import runs_judged
        from webapp.background.kinds import register
        from webapp.runs.signals import history_changed, metrics_set, runs_moved

        register(KIND)
        follow_analyses(prepare)
        runs_judged.connect(settle)
        metrics_set.connect(settle)
        history_changed.connect(queue_advice)
        runs_moved.connect(move)
