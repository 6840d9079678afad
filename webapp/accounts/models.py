"""Workspaces (the tenants), people, and the tokens of agents."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from decimal import Decimal
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.sessions.models import Session
from django.db import models
from django.utils import timezone
from django_otp.models import Device, ThrottlingMixin

from webapp.database.money import UsdField


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **extra: Any) -> User:
        user = self.model(email=self.model.normalise_email(email), **extra)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email=self.model.normalise_email(username or ""))


class User(AbstractBaseUser):
    """A person, identified by the email address. A password is optional: links sign in as well."""

    EMAIL_FIELD = "email"
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_active = models.BooleanField(default=True)
    scheduler = models.CharField(max_length=16, blank=True)
    """The scheduler for which pages write how to start a run; empty if not chosen yet."""
    created_at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[UserManager] = UserManager()
    USERNAME_FIELD = "email"

    def __str__(self) -> str:
        return self.name or self.email

    @classmethod
    def normalise_email(cls, email: str) -> str:
        """Return an address as it is stored: in lower case, as mail hosts read it."""
        return cls.objects.normalize_email(email).strip().lower()


class Workspace(models.Model):
    """The tenant: members, tokens, jobs, prices, settings."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(max_length=120)
    time_zone = models.CharField(max_length=64, default="UTC")
    is_sample_data = models.BooleanField(default=False)
    preset = models.CharField(
        max_length=16,
        default="balanced",
        choices=[("save", "Save"), ("balanced", "Balanced"), ("safe", "Safe")],
    )
    may_buy = models.JSONField(default=list, blank=True)
    """Ways to buy that the advisor may propose, as `advisor.advice.buying.WAYS` names them."""
    other_regions = models.JSONField(default=list, blank=True)
    """Regions beside that of a run in which its job may run, too."""
    created_at = models.DateTimeField(default=timezone.now)
    keep_raw_days = models.PositiveIntegerField(null=True, blank=True, default=30)
    """Days to keep single samples; None: no limit. The same for the other two."""
    keep_tiers_days = models.PositiveIntegerField(null=True, blank=True, default=365)
    """Days to keep 10 s and 60 s means, steps, events and artefacts."""
    keep_runs_days = models.PositiveIntegerField(null=True, blank=True, default=None)
    """Days to keep runs with their findings."""
    quotas = models.JSONField(default=dict, blank=True)
    """Limits that the operator set for it, name -> number; 0: no limit. Others have the default."""
    deleted_at = models.DateTimeField(null=True, blank=True)
    """The time at which an owner deleted it: nobody can open it, and it can be restored for a
    week."""
    requires_two_factor = models.BooleanField(default=False)
    """Members open it only with a second factor, or after single sign-on."""
    allows_sharing = models.BooleanField(default=True)
    """Links of members to single runs, reports and comparisons open for people outside."""
    least_mailed_usd = UsdField(default=Decimal(1))
    """The saving per month below which no recommendation is mailed."""
    members: models.ManyToManyField[User, Membership] = models.ManyToManyField(
        User, through="Membership", related_name="workspaces"
    )

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One person in one workspace."""

    OWNER, MEMBER, VIEWER = "owner", "member", "viewer"
    ROLES: ClassVar = [(OWNER, "Owner"), (MEMBER, "Member"), (VIEWER, "Viewer")]
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    role = models.CharField(
        max_length=16,
        default=MEMBER,
        choices=ROLES,
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "user"], name="one_membership_a_person")
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace}"


class Invitation(models.Model):
    """A membership offered to an email address. Only the digest of its link is stored."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="invitations")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    email = models.EmailField()
    role = models.CharField(max_length=16, default=Membership.MEMBER, choices=Membership.ROLES)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, models.SET_NULL, null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "email"], name="one_invitation_an_address")
        ]

    def __str__(self) -> str:
        return f"{self.email} to {self.workspace}"

    @property
    def has_expired(self) -> bool:
        return self.expires_at <= timezone.now()


def digest(secret: str) -> str:
    """Return the digest under which tokens, links and recovery codes are stored. They are random,
    so one SHA-256 is enough.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


class Token(models.Model):
    """A bearer token of an agent or script. Only its digest is stored."""

    INGEST, READ, WRITE = "ingest", "read", "write"
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=120)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, blank=True)
    kept_by = models.ForeignKey(User, models.SET_NULL, null=True, blank=True, related_name="+")
    """The owner who kept it when its creator was removed. Its permissions don't grow by this."""
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @classmethod
    def make(
        cls, workspace: Workspace, name: str, scopes: list[str], **extra: Any
    ) -> tuple[Token, str]:
        """Return a new token and its plain text, which isn't stored."""
        plain = f"tt_{secrets.token_urlsafe(30)}"
        token = cls.objects.create(
            workspace=workspace,
            name=name,
            scopes=scopes,
            prefix=plain[:8],
            digest=digest(plain),
            **extra,
        )
        return token, plain

    def allows(self, scope: str) -> bool:
        return scope in self.scopes

    @property
    def is_an_owners(self) -> bool:
        """Return whether the token's creator is still an owner: then it has the permissions of
        owners.
        """
        owners = Membership.objects.filter(workspace=self.workspace, role=Membership.OWNER)
        return owners.filter(user=self.created_by).exists()

    @property
    def is_valid(self) -> bool:
        return self.revoked_at is None and not self.has_expired

    @property
    def has_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()


class SignInLink(models.Model):
    """A link that signs a person in once."""

    user = models.ForeignKey(User, models.CASCADE)
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"sign-in link of {self.user}"


class SignedInSession(models.Model):
    """Device and address of one of Django's sessions; deleted with it."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="+")
    user = models.ForeignKey(User, models.CASCADE, related_name="sessions")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    """The session's name on pages: its key is a secret."""
    address = models.GenericIPAddressField(null=True, blank=True)
    user_agent = models.CharField(max_length=300, blank=True)
    signed_in_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"session of {self.user}"


class RecoveryCodes(ThrottlingMixin, Device):  # type: ignore[misc]
    """Codes for a person who lost the phone; each can be used once. Only digests are stored."""

    user = models.OneToOneField(User, models.CASCADE, related_name="recovery_codes")
    digests = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"recovery codes of {self.user}"

    def get_throttle_factor(self) -> int:
        """Return the seconds to wait after the first wrong code; they double with each."""
        return 1

    def verify_token(self, token: str) -> bool:
        """Use a code up. Call with the row locked."""
        if not self.verify_is_allowed()[0]:
            return False
        if digest(token) not in self.digests:
            self.throttle_increment(commit=True)
            return False
        self.digests.remove(digest(token))
        self.throttle_reset(commit=False)
        self.save()
        return True


class AuditEntry(models.Model):
    """A change to money, access or rules: who, what, when, before and after."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="audit_entries")
    at = models.DateTimeField(default=timezone.now)
    actor = models.ForeignKey(User, models.SET_NULL, null=True, blank=True)
    actor_name = models.CharField(max_length=300)
    """The actor's name, which is kept after the person or token is deleted."""
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=300)
    change = models.JSONField(default=dict, blank=True)
    """Field -> [before, after]."""

    class Meta:
        indexes = [models.Index(fields=["workspace", "-at"])]

    def __str__(self) -> str:
        return f"{self.actor_name}: {self.action} {self.subject}"
