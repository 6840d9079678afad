"""The forms of accounts and workspaces."""

from __future__ import annotations

import zoneinfo
from typing import Any

from django import forms
from django.contrib.auth import password_validation
from django.core.exceptions import ValidationError

from webapp.accounts import passwords, second_factor, setup
from webapp.accounts.models import Membership, Token, User, Workspace
from webapp.http import rate_limits

EXPIRIES = [("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year"), ("", "never")]


class SignInForm(forms.Form):
    email = forms.EmailField(label="Address", max_length=254)
    password = forms.CharField(label="Password", widget=forms.PasswordInput, strip=False)


class AddressForm(forms.Form):
    email = forms.EmailField(label="Address", max_length=254)


class NewPasswordForm(forms.Form):
    """Form of a new password. Django's validators, which know the person's name and address, check
    it.
    """

    password = forms.CharField(label="New password", widget=forms.PasswordInput, strip=False)
    again = forms.CharField(label="Repeat the password", widget=forms.PasswordInput, strip=False)

    def __init__(self, user: User, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.user = user

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        password = cleaned.get("password")
        if password and cleaned.get("again") != password:
            raise ValidationError({"again": "The two passwords differ."})
        if password:
            try:
                password_validation.validate_password(password, self.user)
            except ValidationError as error:
                raise ValidationError({"password": error.messages}) from None
        return cleaned


class ChangePasswordForm(NewPasswordForm):
    """Form of a changed password. People who have a password enter it first."""

    field_order = ("current", "password", "again")
    current = forms.CharField(label="Current password", widget=forms.PasswordInput, strip=False)

    def __init__(self, user: User, *args: Any, **more: Any) -> None:
        super().__init__(user, *args, **more)
        if not user.has_usable_password():
            del self.fields["current"]

    def clean_current(self) -> str:
        return _right_password(self.user, self.cleaned_data["current"])


class CodeForm(forms.Form):
    """A code of the authenticator app, or a recovery code."""

    code = forms.CharField(label="Code", max_length=64)


class SetUpTwoFactorForm(CodeForm):
    """The first code of an app. People who have a password confirm it, so that a stolen session
    can't lock them out."""

    password = forms.CharField(label="Password", widget=forms.PasswordInput, strip=False)

    def __init__(self, user: User, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.user = user
        self.fields["code"].label = "6-digit code from the app"
        if not user.has_usable_password():
            del self.fields["password"]

    def clean_password(self) -> str:
        return _right_password(self.user, self.cleaned_data["password"])


class ConfirmForm(forms.Form):
    """Confirms a change to two-factor sign-in: by password, or by a code without one."""

    password = forms.CharField(label="Password", widget=forms.PasswordInput, strip=False)
    code = forms.CharField(label="Code from the app, or a recovery code", max_length=64)

    def __init__(self, user: User, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.user = user
        del self.fields["code" if user.has_usable_password() else "password"]

    def clean_password(self) -> str:
        return _right_password(self.user, self.cleaned_data["password"])

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        try:
            device = second_factor.accept_code(self.user, code)
        except second_factor.TooManyCodesError as error:
            raise ValidationError(str(error)) from None
        if device is None:
            raise ValidationError("Wrong code.")
        return code


def _right_password(user: User, password: str) -> str:
    """Check the person's password. Raises ValidationError if it is wrong or was tried too often."""
    wait = rate_limits.seconds_until_person_may("password", user.pk, passwords.TRIES_A_MINUTE)
    if wait:
        raise ValidationError(f"Too many tries. Try again in {wait} s.")
    if not user.check_password(password):
        raise ValidationError("Wrong password.")
    return password


class JoinForm(NewPasswordForm):
    """A new account for an invited address."""

    field_order = ("name", "password", "again")
    name = forms.CharField(label="Your name", max_length=120, required=False)


class PersonForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = ("name", "email")
        labels = {"name": "Name", "email": "Address"}

    def __init__(self, *args: Any, **more: Any) -> None:
        """Show the address only to the first owner, who has none yet and may set one: it identifies
        the account.
        """
        super().__init__(*args, **more)
        self.fields["email"].disabled = self.instance.email != setup.OWNER_EMAIL

    def clean_email(self) -> str:
        return User.normalise_email(self.cleaned_data["email"])


class WorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Workspace
        fields = ("name", "time_zone")
        labels = {"name": "Name", "time_zone": "Time zone of months and budgets"}

    def clean_time_zone(self) -> str:
        name: str = self.cleaned_data["time_zone"]
        if name not in zoneinfo.available_timezones():
            raise ValidationError(f"There is no time zone {name!r}; write it like Europe/Berlin.")
        return name


class TwoFactorRequirementForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Workspace
        fields = ("requires_two_factor",)
        labels = {"requires_two_factor": "Require two-factor sign-in of all members"}


class NewWorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Workspace
        fields = ("name",)
        labels = {"name": "Name"}


class InvitationForm(forms.Form):
    email = forms.EmailField(label="Address", max_length=254)
    role = forms.ChoiceField(label="Role", choices=Membership.ROLES, initial=Membership.MEMBER)


class TokenForm(forms.Form):
    """Form of a new token. `days` is a number of days as text; empty if the token never expires."""

    name = forms.CharField(label="Name", max_length=120)
    scopes = forms.MultipleChoiceField(
        label="May",
        choices=[(scope, scope) for scope in (Token.INGEST, Token.READ, Token.WRITE)],
        error_messages={"required": "Choose at least one scope."},
    )
    days = forms.ChoiceField(label="Expires", choices=EXPIRIES, required=False)

    def lifetime_days(self) -> int | None:
        return int(self.cleaned_data["days"]) if self.cleaned_data["days"] else None
