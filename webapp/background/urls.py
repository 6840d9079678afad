"""The page about background work."""

from django.urls import path

from webapp.background import views

app_name = "background"
urlpatterns = [
    path("settings/background/", views.background, name="background"),
    path("settings/background/try-again/", views.try_again, name="try_again"),
]
