"""URL of the page about a workspace's use of its quotas."""

from django.urls import path

from webapp.quotas import views

app_name = "quotas"
urlpatterns = [path("settings/usage/", views.usage, name="usage")]
