"""Imports that people begin on a page."""

from django.urls import path

from webapp.imports import views

app_name = "imports"
urlpatterns = [
    path("settings/imports/", views.sources, name="sources"),
    path("runs/<uuid:run_id>/imports/retry/", views.retry, name="retry"),
]
