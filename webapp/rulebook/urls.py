"""The pages of the rules, and the thresholds of workspaces and jobs."""

from django.urls import path

from webapp.rulebook.views import parameters, rules

app_name = "rulebook"
urlpatterns = [
    path("rules/", rules.rules, name="rules"),
    path("rules/<slug:rule_id>/", rules.rule, name="rule"),
    path("settings/rules/", parameters.of_workspace, name="parameters"),
    path("jobs/<uuid:job_uuid>/rules/", parameters.of_job, name="job_parameters"),
]
