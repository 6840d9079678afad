"""Subscriptions, channel settings, and mails: due, leased to a worker, sent or not.

A row is written before its mail is sent, one per person, kind, subject and channel. This keeps a
mail from being sent twice.
"""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone

from webapp.accounts.models import Membership, User, Workspace
from webapp.background.models import Claimable


class Subscription(models.Model):
    """Person's choice whether to get one kind of mail from one workspace."""

    membership = models.ForeignKey(Membership, models.CASCADE, related_name="subscriptions")
    kind = models.CharField(max_length=32)
    is_on = models.BooleanField(null=True, blank=True)
    """The person's choice; None for the default of their role."""
    since = models.DateTimeField(default=timezone.now)
    """The time at which they joined or subscribed. Earlier events are never mailed."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["membership", "kind"], name="one_subscription_a_member_and_kind"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.membership}"

    @property
    def is_wanted(self) -> bool:
        if self.is_on is not None:
            return self.is_on
        return self.membership.role in (Membership.OWNER, Membership.MEMBER)


class ChannelSettings(models.Model):
    """A person's settings for a channel in a workspace."""

    membership = models.ForeignKey(Membership, models.CASCADE, related_name="channel_settings")
    channel = models.CharField(max_length=32)
    entered = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["membership", "channel"], name="one_settings_a_member_and_channel"
            )
        ]

    def __str__(self) -> str:
        return f"{self.channel} of {self.membership}"


class Mail(Claimable):
    """One message to one person about one subject over one channel, sent or to be sent. Named after
    the first channel."""

    WAITING, SENT, FAILED, WITHDRAWN = "waiting", "sent", "failed", "withdrawn"
    wanted = models.PositiveBigIntegerField(default=1)
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="mails")
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="mails")
    kind = models.CharField(max_length=32)
    channel = models.CharField(max_length=32, default="mail")
    subject_key = models.CharField(max_length=100)
    """The key of the mail's subject, for its kind: a recommendation's uuid."""
    about = models.CharField(max_length=300)
    """The subject as text, which is kept when the subject is deleted."""
    message_id = models.CharField(max_length=300, unique=True)
    """The Message-ID, which is the same for every attempt, so that a mail server can detect
    duplicates."""
    state = models.CharField(
        max_length=16,
        default=WAITING,
        choices=[
            (WAITING, "Waiting"),
            (SENT, "Sent"),
            (FAILED, "Failed"),
            (WITHDRAWN, "Not sent"),
        ],
    )
    created_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta(Claimable.Meta):
        constraints = [
            *Claimable.Meta.constraints,
            models.UniqueConstraint(
                fields=["user", "kind", "subject_key", "channel"],
                name="one_mail_a_person_subject_and_channel",
            ),
        ]
        indexes = [
            *Claimable.Meta.indexes,
            models.Index(fields=["user", "workspace", "-created_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.user}: {self.about}"


class PasswordReset(Claimable):
    """A request for a link to a new password. The worker looks for the account: the request takes
    the same time whether or not there is one."""

    wanted = models.PositiveBigIntegerField(default=1)
    email = models.EmailField()
    """The address as requested, normalised."""
    created_at = models.DateTimeField(default=timezone.now)
    granted_at = models.DateTimeField(null=True, blank=True)
    """The time at which it was counted as one of the account's mails of this hour; None if there
    was no mail."""

    class Meta(Claimable.Meta):
        indexes = [*Claimable.Meta.indexes, models.Index(fields=["email", "created_at"])]

    def __str__(self) -> str:
        return f"password reset of {self.email}"
