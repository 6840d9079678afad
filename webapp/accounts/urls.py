"""People, their workspaces, and the tokens of agents."""

from django.urls import path

from webapp.accounts.views import (
    account,
    history,
    invitations,
    members,
    oidc,
    passwords,
    sessions,
    sign_in,
    tokens,
    two_factor,
    workspace,
)

app_name = "accounts"
urlpatterns = [
    path("sign-in/", sign_in.sign_in, name="sign_in"),
    path("sign-in/provider/", oidc.oidc_begin, name="oidc_begin"),
    path("sign-in/provider/return/", oidc.oidc_return, name="oidc_return"),
    path("sign-in/code/", sign_in.sign_in_code, name="sign_in_code"),
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
    path("account/sessions/", sessions.list_sessions, name="sessions"),
    path("account/sessions/end/", sessions.end_all_sessions, name="end_all_sessions"),
    path("account/sessions/<uuid:session_uuid>/end/", sessions.end_session, name="end_session"),
    path("account/two-factor/", two_factor.two_factor, name="two_factor"),
    path("account/two-factor/codes/", two_factor.new_recovery_codes, name="new_recovery_codes"),
    path("account/two-factor/off/", two_factor.switch_off, name="switch_off_two_factor"),
    path("workspace/", workspace.switch, name="switch_workspace"),
    path("no-workspace/", workspace.no_workspace, name="no_workspace"),
    path("workspace/new/", workspace.new_workspace, name="new_workspace"),
    path("settings/", workspace.general, name="general"),
    path("settings/members/", members.list_members, name="members"),
    path("settings/members/two-factor/", members.require_two_factor, name="require_two_factor"),
    path("settings/members/<int:membership_id>/role/", members.change_role, name="change_role"),
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
