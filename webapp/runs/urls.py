"""Jobs, runs and their comparison."""

from django.urls import path

from webapp.runs.views import compare, job, jobs, run, run_edit, series

app_name = "runs"
urlpatterns = [
    path("", jobs.jobs, name="jobs"),
    path("jobs/<uuid:job_uuid>/", job.job, name="job"),
    path("runs/<uuid:run_id>/", run.run, name="run"),
    path("runs/<uuid:run_id>/edit/", run_edit.edit_run, name="edit_run"),
    path("runs/<uuid:run_id>/series.json", series.as_json, name="series_json"),
    path("runs/<uuid:run_id>/series.csv", series.as_csv, name="series_csv"),
    path("compare/", compare.compare, name="compare"),
]
