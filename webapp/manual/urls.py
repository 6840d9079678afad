"""The documentation."""

from django.urls import path

from webapp.accounts.access import open_to_everybody
from webapp.manual import views

app_name = "manual"
urlpatterns = [
    path("docs/", open_to_everybody(views.contents), name="contents"),
    path("docs/<path:name>/", open_to_everybody(views.page), name="page"),
]
