"""The URLs of analyses."""

from django.urls import path

from webapp.analysis import views
from webapp.analysis.trainings import views as training_views

app_name = "analysis"
urlpatterns = [
    path("runs/<uuid:run_id>/analyse/", views.analyse_again, name="analyse_again"),
    path("runs/<uuid:run_id>/training/join/", training_views.join_training, name="join_training"),
    path(
        "runs/<uuid:run_id>/training/split/", training_views.split_training, name="split_training"
    ),
    path(
        "runs/<uuid:run_id>/training/undo/",
        training_views.put_back_training,
        name="put_back_training",
    ),
    path("jobs/<uuid:job_uuid>/compared/", views.compared_by, name="compared_by"),
    path("jobs/<uuid:job_uuid>/compared/roles/", views.choose_roles, name="choose_roles"),
    path(
        "jobs/<uuid:job_uuid>/regressions/<int:number>/accept/",
        views.accept_regression,
        name="accept_regression",
    ),
    path(
        "runs/<uuid:run_id>/accepted/undo/",
        views.open_regression_again,
        name="open_regression_again",
    ),
]
