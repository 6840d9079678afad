"""The URLs to share a run or a comparison, and of the list of links."""

from django.urls import path

from webapp.sharing import views

app_name = "sharing"
urlpatterns = [
    path("runs/<uuid:run_id>/share/", views.share_run, name="share_run"),
    path("compare/share/", views.share_comparison, name="share_comparison"),
    path("settings/shared/", views.list_links, name="links"),
    path("settings/shared/allowed/", views.allow_sharing, name="allow_sharing"),
    path("settings/shared/<uuid:link_uuid>/revoke/", views.revoke_link, name="revoke_link"),
]
