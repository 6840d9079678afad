"""URLs of prices and of the workspace's rates."""

from django.urls import path

from webapp.prices.views import explorer, machine, rates, update

app_name = "prices"
urlpatterns = [
    path("prices/", explorer.prices, name="prices"),
    path("prices/update/", update.update_prices, name="update_prices"),
    path("prices.csv", explorer.as_csv, name="prices_csv"),
    path("prices/types/<str:instance_type>/", machine.machine, name="machine"),
    path("settings/rates/", rates.rates, name="rates"),
    path("settings/rates.csv", rates.as_csv, name="rates_csv"),
    path("settings/rates/add/", rates.add_rate, name="add_rate"),
    path("settings/rates/import/", rates.import_rates, name="import_rates"),
    path("settings/rates/discount/", rates.add_discount, name="add_discount"),
    path("settings/rates/<int:price_id>/end/", rates.end_rate, name="end_rate"),
    path("settings/discounts/<int:discount_id>/end/", rates.end_discount, name="end_discount"),
]
