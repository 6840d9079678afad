"""The URLs of recommendations and of the advice settings."""

from django.urls import path

from webapp.advice.views import buying, decisions, inbox, recommendation, scheduler, what_if

app_name = "advice"
urlpatterns = [
    path("recommendations/", inbox.inbox, name="inbox"),
    path("recommendations.csv", inbox.as_csv, name="inbox_csv"),
    path("recommendations/scheduler/", scheduler.choose_scheduler, name="choose_scheduler"),
    path("recommendations/decide/", decisions.decide_many, name="decide_many"),
    path(
        "recommendations/<uuid:recommendation_uuid>/",
        recommendation.recommendation,
        name="recommendation",
    ),
    path("recommendations/<uuid:recommendation_uuid>/dismiss/", decisions.dismiss, name="dismiss"),
    path("recommendations/<uuid:recommendation_uuid>/snooze/", decisions.snooze, name="snooze"),
    path("recommendations/<uuid:recommendation_uuid>/follow/", decisions.follow, name="follow"),
    path("recommendations/<uuid:recommendation_uuid>/reopen/", decisions.reopen, name="reopen"),
    path("runs/<uuid:run_id>/what-if/", what_if.what_if, name="what_if"),
    path("settings/advice/", buying.buying, name="buying"),
]
