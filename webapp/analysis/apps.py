from django.apps import AppConfig


class AnalysisConfig(AppConfig):
    name = "webapp.analysis"
    label = "analysis"

    def ready(self) -> None:
        from webapp.analysis import queue, service_figures
        from webapp.analysis.hooks import follow_analyses
        from webapp.analysis.pricing import sharing
        from webapp.analysis.renewal import recounting
        from webapp.analysis.renewal.repricing import (
            price_what_had_no_price,
            price_what_has_ended,
            reprice_run,
        )
        from webapp.analysis.samples import compaction
        from webapp.analysis.successive.verdicts import rejudge_job
        from webapp.analysis.trainings import numbered_steps
        from webapp.background import metrics
        from webapp.background.kinds import register
        from webapp.prices.signals import prices_ended, rates_changed
        from webapp.runs.signals import history_changed, machine_corrected, runs_came_or_went

        follow_analyses(recounting.prepare)
        register(queue.KIND)
        register(compaction.KIND)
        metrics.register(service_figures.HELP, service_figures.figures)
        rates_changed.connect(price_what_had_no_price)
        prices_ended.connect(price_what_has_ended)
        history_changed.connect(rejudge_job)
        machine_corrected.connect(reprice_run)
        runs_came_or_went.connect(sharing.reprice_sharing_runs)
        runs_came_or_went.connect(numbered_steps.recount_trainings)
