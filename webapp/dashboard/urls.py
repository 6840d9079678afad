"""The home page, and the pages of jobs and runs."""

from django.urls import path

from webapp.dashboard.views import (
    compare,
    deleted,
    home,
    job,
    jobs,
    jobs_csv,
    node,
    removal,
    report,
    run,
    run_charts,
    runs,
    runs_csv,
    saved_views,
    shared,
    training,
)

app_name = "dashboard"
urlpatterns = [
    path("", home.home, name="home"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs.csv", jobs_csv.jobs_csv, name="jobs_csv"),
    path("jobs/<uuid:job_uuid>/", job.job, name="job"),
    path("runs/", runs.runs, name="runs"),
    path("runs.csv", runs_csv.runs_csv, name="runs_csv"),
    path("runs/views/", saved_views.save_view, name="save_view"),
    path("runs/views/delete/", saved_views.delete_view, name="delete_view"),
    path("runs/<uuid:run_id>/", run.run, name="run"),
    path("runs/<uuid:run_id>/charts/series.json", run_charts.run_charts, name="run_charts"),
    path("runs/<uuid:run_id>/nodes/<int:node_number>/", node.node, name="node"),
    path("runs/<uuid:run_id>/report/", report.report, name="report"),
    path("runs/<uuid:run_id>/training/", training.training, name="training"),
    path("compare/", compare.compare, name="compare"),
    path("shared/<str:secret>/", shared.shared, name="shared"),
    path("shared/<str:secret>/charts.json", shared.shared_charts, name="shared_charts"),
    path("shared/<str:secret>/series-<str:side>.json", shared.shared_series, name="shared_series"),
    path("settings/members/leave/", removal.leave, name="leave"),
    path(
        "settings/members/<int:membership_id>/remove/", removal.remove_member, name="remove_member"
    ),
    path("settings/deleted/", deleted.deleted, name="deleted"),
]
