"""The notification settings, and the unsubscribe link."""

from django.urls import path

from webapp.notify.views import settings, unsubscribe

app_name = "notify"
urlpatterns = [
    path("settings/notifications/", settings.notifications, name="notifications"),
    path("settings/notifications/least/", settings.set_least_saving, name="set_least_saving"),
    path("settings/notifications/channel/", settings.set_up_channel, name="set_up_channel"),
    path("settings/notifications/test/", settings.send_test_mail, name="send_test_mail"),
    path("settings/notifications/send-again/", settings.send_again, name="send_again"),
    path("unsubscribe/<str:unsubscribe_token>/", unsubscribe.unsubscribe, name="unsubscribe"),
]
