"""The page about background work, and its figures for Prometheus."""

from django.urls import path

from webapp.background import metrics, views

app_name = "background"
urlpatterns = [
    path("metrics", metrics.metrics, name="metrics"),
    path("settings/background/", views.background, name="background"),
    path("settings/background/try-again/", views.try_again, name="try_again"),
]
