"""Retention settings, and deletion of a workspace."""

from django.urls import path

from webapp.retention.views import deletion, retention

app_name = "retention"
urlpatterns = [
    path("settings/retention/", retention.retention, name="retention"),
    path("settings/delete/", deletion.delete_workspace, name="delete_workspace"),
    path("deleted-workspaces/", deletion.deleted_workspaces, name="deleted_workspaces"),
    path(
        "deleted-workspaces/<uuid:deleted_uuid>/restore/",
        deletion.restore_workspace,
        name="restore_workspace",
    ),
]
