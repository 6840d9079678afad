"""The URLs of analyses."""

from django.urls import path

from webapp.analysis import views

app_name = "analysis"
urlpatterns = [
    path("runs/<uuid:run_id>/analyse/", views.analyse_again, name="analyse_again"),
]
