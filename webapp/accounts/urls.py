"""People, their workspaces, and the tokens of agents."""

from django.urls import path

from webapp.accounts.views import (
    account,
    history,
    invitations,
    members,
    oidc,
    passwords,
    sign_in,
    tokens,
    workspace,
)

app_name = "accounts"
urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign_in"),
    path("sign-in/provider/", oidc.oidc_begin, name="oidc_begin"),
    path("sign-in/provider/return/", oidc.oidc_return, name="oidc_return"),
    path("sign-in/<str:secret>/", sign_in.use_link, name="use_link"),
    path("sign-out/", sign_in.sign_out, name="sign_out"),
    path("password/", passwords.forgot_password, name="forgot_password"),
    path(
        "password/<str:user_key>/<str:reset_token>/",
        passwords.new_password,
        name="new_password",
    ),
    path("invitation/<str:secret>/", invitations.accept_invitation, name="accept_invitation"),
    path("account/", account.account, name="account"),
    path("account/password/", account.change_password, name="change_password"),
    path("workspace/", workspace.switch, name="switch_workspace"),
    path("no-workspace/", workspace.no_workspace, name="no_workspace"),
    path("workspace/new/", workspace.new_workspace, name="new_workspace"),
    path("settings/", workspace.general, name="general"),
    path("settings/members/", members.list_members, name="members"),
    path("settings/members/leave/", members.leave, name="leave"),
    path("settings/members/<int:membership_id>/role/", members.change_role, name="change_role"),
    path(
        "settings/members/<int:membership_id>/remove/",
        members.remove_member,
        name="remove_member",
    ),
    path(
        "settings/invitations/<uuid:invitation_uuid>/withdraw/",
        members.withdraw_invitation,
        name="withdraw_invitation",
    ),
    path("settings/tokens/", tokens.list_tokens, name="tokens"),
    path("settings/tokens/<int:token_id>/revoke/", tokens.revoke_token, name="revoke_token"),
    path("settings/history/", history.history, name="history"),
    path("settings/history.csv", history.history_csv, name="history_csv"),
]
