"""How gunicorn serves the application; the address is given on its command line."""

from pathlib import Path

from django.conf import settings

from webapp import env

wsgi_app = "webapp.wsgi:application"
worker_class = "gthread"
workers = env.integer("TRIMTAB_WEB_WORKERS", 1, low=1)
threads = env.integer("TRIMTAB_WEB_THREADS", 8, low=1)
# Its default is a socket in the home directory, shared by every gunicorn of the user.
control_socket_disable = True
graceful_timeout = 5
timeout = 60
keepalive = 65
# Heartbeats to a disk can block for longer than `timeout`.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
logconfig_dict = settings.LOGGING | {
    "loggers": {"gunicorn.error": {"level": "INFO", "propagate": True}},
}
