"""Setting up two-factor sign-in, its recovery codes, and switching it off."""

from __future__ import annotations

from base64 import b32encode

import segno
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django_otp import login as remember_device
from django_otp.plugins.otp_totp.models import TOTPDevice

from webapp.accounts import second_factor, sessions
from webapp.accounts.access import PersonRequest, signed_in_only
from webapp.accounts.forms import ConfirmForm, SetUpTwoFactorForm
from webapp.accounts.views.sign_in import NEXT, remember


@signed_in_only
@require_http_methods(["GET", "POST"])
@sensitive_post_parameters()
def two_factor(request: PersonRequest) -> HttpResponse:
    """Shows the set-up with its QR code; once it is on, recovery codes and switching off."""
    remember(request, request.GET.get("next", ""))
    if second_factor.is_on(request.user):
        return _on_page(request, ConfirmForm(request.user))
    form = SetUpTwoFactorForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        codes = _switch_on(request, form)
        if codes:
            return _codes_page(request, codes)
    return _set_up_page(request, form)


@signed_in_only
@require_POST
@sensitive_post_parameters()
def new_recovery_codes(request: PersonRequest) -> HttpResponse:
    """Replace the recovery codes, and show the new ones once."""
    if not second_factor.is_on(request.user):
        return redirect("accounts:two_factor")
    form = ConfirmForm(request.user, request.POST)
    if not form.is_valid():
        return _on_page(request, form)
    return _codes_page(request, second_factor.new_recovery_codes(request.user))


@signed_in_only
@require_POST
@sensitive_post_parameters()
def switch_off(request: PersonRequest) -> HttpResponse:
    """Delete app and recovery codes."""
    if not second_factor.is_on(request.user):
        return redirect("accounts:two_factor")
    form = ConfirmForm(request.user, request.POST)
    if not form.is_valid():
        return _on_page(request, form)
    second_factor.disable_two_factor(request.user, request.user)
    messages.success(request, "Two-factor sign-in is off.")
    return redirect("accounts:account")


def _switch_on(request: PersonRequest, form: SetUpTwoFactorForm) -> list[str]:
    """Return the recovery codes; none with the reason in the form. All other sessions end."""
    try:
        done = second_factor.enable_two_factor(request.user, form.cleaned_data["code"])
    except second_factor.TooManyCodesError as error:
        form.add_error("code", str(error))
        return []
    if done is None:
        form.add_error("code", "Wrong code. Check the clock of your phone, then try the next code.")
        return []
    app, codes = done
    remember_device(request, app)
    sessions.end_others(request, request.user)
    return codes


def _set_up_page(request: PersonRequest, form: SetUpTwoFactorForm) -> HttpResponse:
    app = second_factor.pending_app(request.user)
    secret = b32encode(app.bin_key).decode()
    workspace = request.workspace
    context = {
        "form": form,
        "qr": _qr(app),
        "address": app.config_url,
        "secret": " ".join(secret[start : start + 4] for start in range(0, len(secret), 4)),
        "requiring": workspace if workspace and workspace.requires_two_factor else None,
    }
    return render(request, "accounts/two_factor_set_up.html", context)


def _on_page(request: PersonRequest, form: ConfirmForm) -> HttpResponse:
    left = second_factor.recovery_codes_left(request.user)
    context = {"form": form, "left": left, "most": second_factor.RECOVERY_CODES}
    return render(request, "accounts/two_factor_on.html", context)


def _codes_page(request: PersonRequest, codes: list[str]) -> HttpResponse:
    context = {"codes": codes, "next": request.session.pop(NEXT, "")}
    return render(request, "accounts/recovery_codes.html", context)


def _qr(app: TOTPDevice) -> SafeString:
    """Return the QR code: black on white in both themes, for cameras; without styles, which our
    policy forbids.
    """
    code = segno.make(app.config_url, error="m")
    return mark_safe(code.svg_inline(omitsize=True, border=4, light="#fff"))  # noqa: S308
