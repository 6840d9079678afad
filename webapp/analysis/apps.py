from django.apps import AppConfig


class AnalysisConfig(AppConfig):
    name = "webapp.analysis"
    label = "analysis"

    def ready(self) -> None:
        from webapp.analysis.repricing import price_what_had_no_price
        from webapp.prices.signals import rates_changed

        rates_changed.connect(price_what_had_no_price)
