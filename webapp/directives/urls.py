"""URLs of directives to running runs."""

from django.urls import path

from webapp.directives.views import interval, profile, stop

app_name = "directives"
urlpatterns = [
    path("runs/<uuid:run_id>/stop/", stop.stop_run, name="stop_run"),
    path("runs/<uuid:run_id>/profile/", profile.profile_run, name="profile_run"),
    path("runs/<uuid:run_id>/interval/", interval.change_interval, name="change_interval"),
]
