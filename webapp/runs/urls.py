"""URLs to edit jobs and runs, and of a run's samples and files."""

from django.urls import path

from webapp.runs.views import artefacts, deletion, job_edit, run_edit, series

app_name = "runs"
urlpatterns = [
    path("jobs/<uuid:job_uuid>/edit/", job_edit.edit_job, name="edit_job"),
    path("jobs/<uuid:job_uuid>/merge/", job_edit.merge_job, name="merge_job"),
    path("jobs/<uuid:job_uuid>/unmerge/", job_edit.unmerge_job, name="unmerge_job"),
    path("jobs/<uuid:job_uuid>/delete/", deletion.delete_job, name="delete_job"),
    path("jobs/<uuid:job_uuid>/restore/", deletion.restore_job, name="restore_job"),
    path("runs/<uuid:run_id>/edit/", run_edit.edit_run, name="edit_run"),
    path("runs/<uuid:run_id>/bill/", run_edit.bill_run, name="bill_run"),
    path("runs/<uuid:run_id>/machine/", run_edit.correct_machine, name="correct_machine"),
    path(
        "runs/<uuid:run_id>/machine/take-back/",
        run_edit.take_back_correction,
        name="take_back_correction",
    ),
    path("runs/<uuid:run_id>/delete/", deletion.delete_run, name="delete_run"),
    path("runs/<uuid:run_id>/restore/", deletion.restore_run, name="restore_run"),
    path("runs/<uuid:run_id>/artefacts/<str:sha256>/", artefacts.artefact, name="artefact"),
    path("runs/<uuid:run_id>/series.json", series.as_json, name="series_json"),
    path("runs/<uuid:run_id>/series.csv", series.as_csv, name="series_csv"),
]
