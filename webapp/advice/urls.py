"""The URLs of the advice settings, and of decisions on recommendations."""

from django.urls import path

from webapp.advice import views

app_name = "advice"
urlpatterns = [
    path("settings/advice/", views.buying, name="buying"),
    path("recommendations/<uuid:recommendation_uuid>/dismiss/", views.dismiss, name="dismiss"),
    path("recommendations/<uuid:recommendation_uuid>/snooze/", views.snooze, name="snooze"),
    path("recommendations/<uuid:recommendation_uuid>/follow/", views.follow, name="follow"),
    path("recommendations/<uuid:recommendation_uuid>/reopen/", views.reopen, name="reopen"),
]
