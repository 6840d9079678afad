"""Workspaces (the tenants), people, and the tokens of agents."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.utils import timezone


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **extra: Any) -> User:
        user = self.model(email=self.normalize_email(email).lower(), **extra)
        user.set_password(password)
        user.save(using=self._db)
        return user


class User(AbstractBaseUser):
    """A person. Known by the address; a password is optional (links sign in as well)."""

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[UserManager] = UserManager()
    USERNAME_FIELD = "email"

    def __str__(self) -> str:
        return self.name or self.email


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
    created_at = models.DateTimeField(default=timezone.now)
    members: models.ManyToManyField[User, Membership] = models.ManyToManyField(
        User, through="Membership", related_name="workspaces"
    )

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One person in one workspace."""

    OWNER, MEMBER, VIEWER = "owner", "member", "viewer"
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    role = models.CharField(
        max_length=16,
        default=MEMBER,
        choices=[(OWNER, "Owner"), (MEMBER, "Member"), (VIEWER, "Viewer")],
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "user"], name="one_membership_a_person")
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace}"


def digest(secret: str) -> str:
    """How a token or sign-in link is stored: they are random, so one SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Token(models.Model):
    """A bearer token of an agent or script. Only its digest is kept."""

    INGEST, READ, WRITE = "ingest", "read", "write"
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=120)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, blank=True)
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
        """A new token and its plain text, which is never seen again."""
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
    def is_valid(self) -> bool:
        expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.revoked_at is None and not expired


class SignInLink(models.Model):
    """A link that signs one person in, once."""

    user = models.ForeignKey(User, models.CASCADE)
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"sign-in link of {self.user}"
