"""Spend by month, savings, and budgets."""

from django.urls import path

from webapp.spend.views import budgets, failures, savings, spend

app_name = "spend"
urlpatterns = [
    path("spend/", spend.spend, name="spend"),
    path("spend/spend.csv", spend.as_csv, name="spend_csv"),
    path("spend/failures/", failures.failures, name="failures"),
    path("spend/failures.csv", failures.as_csv, name="failures_csv"),
    path("savings/", savings.savings, name="savings"),
    path("savings/recount/", savings.close_recount, name="close_recount"),
    path("savings.csv", savings.as_csv, name="savings_csv"),
    path("budgets/", budgets.budgets, name="budgets"),
    path("budgets/new/", budgets.new_budget, name="new_budget"),
    path("budgets/<uuid:budget_uuid>/", budgets.edit_budget, name="edit_budget"),
    path("budgets/<uuid:budget_uuid>/delete/", budgets.delete_budget, name="delete_budget"),
    path("budgets/<uuid:budget_uuid>/restore/", budgets.restore_budget, name="restore_budget"),
]
