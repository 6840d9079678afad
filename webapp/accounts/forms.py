"""What people fill in about accounts and workspaces."""

from __future__ import annotations

import zoneinfo
from typing import Any

from django import forms
from django.contrib.auth import password_validation
from django.core.exceptions import ValidationError

from webapp.accounts import setup
from webapp.accounts.models import Membership, Token, User, Workspace

EXPIRIES = [("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year"), ("", "never")]


class SignInForm(forms.Form):
    email = forms.EmailField(label="Address", max_length=254)
    password = forms.CharField(label="Password", widget=forms.PasswordInput, strip=False)


class AddressForm(forms.Form):
    email = forms.EmailField(label="Address", max_length=254)


class NewPasswordForm(forms.Form):
    """Checked against Django's validators, as of the person that it is for."""

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
    """Whoever has a password proves it; whoever came by a link has none yet."""

    field_order = ("current", "password", "again")
    current = forms.CharField(label="Current password", widget=forms.PasswordInput, strip=False)

    def __init__(self, user: User, *args: Any, **more: Any) -> None:
        super().__init__(user, *args, **more)
        if not user.has_usable_password():
            del self.fields["current"]

    def clean_current(self) -> str:
        current: str = self.cleaned_data["current"]
        if not self.user.check_password(current):
            raise ValidationError("Wrong password.")
        return current


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
        """An address proves who somebody is: only the first owner, who has none, may set it."""
        super().__init__(*args, **more)
        self.fields["email"].disabled = self.instance.email != setup.OWNER_EMAIL

    def clean_email(self) -> str:
        return User.normalised(self.cleaned_data["email"])


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


class NewWorkspaceForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Workspace
        fields = ("name",)
        labels = {"name": "Name"}


class InvitationForm(forms.Form):
    email = forms.EmailField(label="Address", max_length=254)
    role = forms.ChoiceField(label="Role", choices=Membership.ROLES, initial=Membership.MEMBER)


class TokenForm(forms.Form):
    """`days` is a number of days as text; empty: it never expires."""

    name = forms.CharField(label="Name", max_length=120)
    scopes = forms.MultipleChoiceField(
        label="May",
        choices=[(scope, scope) for scope in (Token.INGEST, Token.READ, Token.WRITE)],
        error_messages={"required": "Choose at least one scope."},
    )
    days = forms.ChoiceField(label="Expires", choices=EXPIRIES, required=False)

    def lifetime_days(self) -> int | None:
        return int(self.cleaned_data["days"]) if self.cleaned_data["days"] else None
