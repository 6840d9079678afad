"""What a workspace uses of its quotas."""

from django.urls import path

from webapp.quotas import views

app_name = "quotas"
urlpatterns = [path("settings/usage/", views.usage, name="usage")]
