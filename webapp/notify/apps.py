from django.apps import AppConfig


class NotifyConfig(AppConfig):
    name = "webapp.notify"
    label = "notify"

    def ready(self) -> None:
        from django.db.models.signals import post_save

        from webapp.accounts.models import Membership
        from webapp.accounts.signals import password_reset_asked
        from webapp.background.kinds import register
        from webapp.notify import (
            checks,  # noqa: F401 - registers the system checks
            password_reset,
            queue,
            subscriptions,
        )

        register(queue.KIND)
        register(password_reset.KIND)
        password_reset_asked.connect(password_reset.request)
        post_save.connect(subscriptions.subscribe_member, sender=Membership)
