"""Signing in and out, and the choice of workspace."""

from django.urls import path

from webapp.accounts.views import sign_in, workspace

app_name = "accounts"
urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign_in"),
    path("sign-in/<str:secret>/", sign_in.use_link, name="use_link"),
    path("sign-out/", sign_in.sign_out, name="sign_out"),
    path("workspace/", workspace.switch, name="switch_workspace"),
]
