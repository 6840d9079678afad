"""Settings, from the environment only. One file; `docs/configuration.md` explains each variable."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONE, SELF
from django.core.management.utils import get_random_secret_key

from webapp import env, private_files

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.text("TRIMTAB_DATA_DIR") or BASE_DIR / "var").resolve()
private_files.make_folder(DATA_DIR)
# Temporary files of any size: /tmp may be memory. Beside the objects, a full disk is met by both.
SCRATCH_DIR = Path(env.text("TRIMTAB_SCRATCH_DIR") or DATA_DIR / "scratch").resolve()
private_files.make_folder(SCRATCH_DIR)


def _secret_key() -> str:
    """Return `SECRET_KEY`, or one made on the first start and kept beside the data."""
    key = env.text("SECRET_KEY")
    path = DATA_DIR / "secret-key"
    if key:
        return key
    # An empty one was made before a power loss, by a version that didn't flush it.
    if not path.exists() or not path.stat().st_size:
        private_files.write_durably(path, get_random_secret_key())
    return path.read_text(encoding="utf-8")


SECRET_KEY = _secret_key()
DEBUG = env.boolean("DEBUG")

# The address under which the service is seen from outside: links in mails and pages, allowed hosts,
# CSRF.
BASE_URL = env.text("TRIMTAB_BASE_URL", "http://127.0.0.1:8000").rstrip("/")
BASE_URL_IS_SET = bool(env.text("TRIMTAB_BASE_URL"))
_base = urlsplit(BASE_URL)
HTTPS = _base.scheme == "https"
_local = ["127.0.0.1", "localhost", "[::1]"]
ALLOWED_HOSTS = [_base.hostname or "", *_local, *env.names("ALLOWED_HOSTS")]
CSRF_TRUSTED_ORIGINS = [BASE_URL, *env.names("CSRF_TRUSTED_ORIGINS")]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 14 * 86_400
SESSION_COOKIE_HTTPONLY = True
SECURE_HSTS_SECONDS = env.integer("SECURE_HSTS_SECONDS", 3600 if HTTPS else 0)
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "csp",
    "axes",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "webapp",
    "webapp.database",
    "webapp.accounts",
    "webapp.background",
    "webapp.runs",
    "webapp.directives",
    "webapp.sharing",
    "webapp.quotas",
    "webapp.prices",
    "webapp.thresholds",
    "webapp.rulebook",
    "webapp.analysis",
    "webapp.measurements",
    "webapp.imports",
    "webapp.advice",
    "webapp.spend",
    "webapp.retention",
    "webapp.notify",
    "webapp.ingest",
    "webapp.mlflow_api",
    "webapp.api",
    "webapp.dashboard",
]
MIDDLEWARE = [
    "webapp.http.problems.ApiProblemsMiddleware",
    "webapp.http.trouble.TroubleMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "webapp.http.pages.PagesMiddleware",
]
PAGE_MIDDLEWARE = [
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "webapp.accounts.middleware.PrivatePagesMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "webapp.accounts.middleware.LastSeenMiddleware",
    "webapp.accounts.middleware.CurrentWorkspaceMiddleware",
    "webapp.accounts.middleware.AccessMiddleware",
    "axes.middleware.AxesMiddleware",
]
# These checks look for middleware that is in PAGE_MIDDLEWARE.
SILENCED_SYSTEM_CHECKS = ["axes.W002", "security.W002", "security.W003"]
ROOT_URLCONF = "webapp.urls"
WSGI_APPLICATION = "webapp.wsgi.application"
# The module whose requests the web server answers many at a time: see webapp/http/gathered.py.
GATHERED_OPERATION = "webapp.ingest.segment_requests.SegmentRequests"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "webapp" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# Rows
DATABASES = {"default": env.database("DATABASE_URL", DATA_DIR / "trimtab.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
_validators = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"{_validators}.UserAttributeSimilarityValidator"},
    {"NAME": f"{_validators}.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": f"{_validators}.CommonPasswordValidator"},
    {"NAME": f"{_validators}.NumericPasswordValidator"},
]
PASSWORD_RESET_TIMEOUT = 3600
LOGIN_URL = "accounts:sign_in"
LOGIN_REDIRECT_URL = "dashboard:home"

# Sign-in by an OpenID Connect provider, beside passwords; off without an issuer.
OIDC_ISSUER = env.text("OIDC_ISSUER")
OIDC_CLIENT_ID = env.text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = env.text("OIDC_CLIENT_SECRET")
OIDC_NAME = env.text("OIDC_NAME", "your organisation")
# The domains whose verified addresses become viewers without an invitation; empty: nobody's.
OIDC_ALLOWED_DOMAINS = [name.lower() for name in env.names("OIDC_ALLOWED_DOMAINS")]

# Wrong passwords are counted by network and account together, so that nobody can lock somebody else
# out; in the database, so that a restart of Redis doesn't reset them.
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AXES_FAILURE_LIMIT = env.integer("TRIMTAB_SIGN_IN_FAILURES", 8, low=1)
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "webapp.accounts.passwords.attempting_address"
AXES_USERNAME_CALLABLE = "webapp.accounts.passwords.attempted_name"
AXES_LOCKOUT_CALLABLE = "webapp.accounts.views.sign_in.locked_out"
AXES_RESET_ON_SUCCESS = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
# Sign-ins, right or wrong, of one address and of one account in 15 minutes, and password resets
# that one address may request an hour; 0: any number. Counted in Redis.
ADDRESS_SIGN_INS = env.integer("TRIMTAB_ADDRESS_SIGN_INS", 100)
ACCOUNT_SIGN_INS = env.integer("TRIMTAB_ACCOUNT_SIGN_INS", 30)
ADDRESS_PASSWORD_RESETS = env.integer("TRIMTAB_ADDRESS_PASSWORD_RESETS", 20)
OTP_TOTP_ISSUER = "Trimtab"

# Samples
OBJECTS_URL = env.text("OBJECTS_URL") or str(DATA_DIR / "objects")
FILE_UPLOAD_TEMP_DIR = SCRATCH_DIR
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

# The parts of buckets that each workspace may import from, with the service's AWS credentials.
IMPORT_S3 = env.grants("TRIMTAB_IMPORT_S3")
IMPORTS_DIR = SCRATCH_DIR / "imports"
IMPORT_MEMORY_MB = env.integer("TRIMTAB_IMPORT_MEMORY_MB", 1000, low=300)

# Redis: broker, cache, rate limits
REDIS_URL = env.text("REDIS_URL", "redis://127.0.0.1:6379/0")
_redis_socket = REDIS_URL.startswith("unix://")
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "trimtab",
    }
}

# Requests to the API that one token and one address may make a minute; 0: any number.
TOKEN_REQUESTS_A_MINUTE = env.integer("TRIMTAB_TOKEN_REQUESTS_A_MINUTE", 30_000)
ADDRESS_REQUESTS_A_MINUTE = env.integer("TRIMTAB_ADDRESS_REQUESTS_A_MINUTE", 60_000)
WRONG_TOKENS_A_MINUTE = env.integer("TRIMTAB_WRONG_TOKENS_A_MINUTE", 300)
# The limits of what a workspace may send, begin and store, and of what it may send and begin with
# one token; "a day" is the last 24 hours; 0: any amount. `manage.py quota` sets other limits for
# one workspace. 500 nodes with 100 series at 2 Hz send 28 GB a day and keep 2.5 TB by the default
# retention.
WORKSPACE_UPLOAD_BYTES_A_DAY = env.integer("TRIMTAB_WORKSPACE_UPLOAD_BYTES_A_DAY", 200 * 2**30)
TOKEN_UPLOAD_BYTES_A_DAY = env.integer("TRIMTAB_TOKEN_UPLOAD_BYTES_A_DAY", 150 * 2**30)
WORKSPACE_RUNS_A_DAY = env.integer("TRIMTAB_WORKSPACE_RUNS_A_DAY", 200_000)
TOKEN_RUNS_A_DAY = env.integer("TRIMTAB_TOKEN_RUNS_A_DAY", 150_000)
WORKSPACE_SERIES_A_DAY = env.integer("TRIMTAB_WORKSPACE_SERIES_A_DAY", 5_000_000)
WORKSPACE_STORAGE_BYTES = env.integer("TRIMTAB_WORKSPACE_STORAGE_BYTES", 5 * 2**40)
# The limits of what a workspace's imports may use. A hundred people who profile ten runs a day each
# make 1,000 imports of some CPU seconds; the largest import that may end takes an hour.
WORKSPACE_IMPORTS_A_DAY = env.integer("TRIMTAB_WORKSPACE_IMPORTS_A_DAY", 2_000)
WORKSPACE_UNPACKED_BYTES_A_DAY = env.integer("TRIMTAB_WORKSPACE_UNPACKED_BYTES_A_DAY", 200 * 2**30)
WORKSPACE_IMPORT_CPU_SECONDS_A_DAY = env.integer(
    "TRIMTAB_WORKSPACE_IMPORT_CPU_SECONDS_A_DAY", 4 * 3600
)

# The token that Prometheus sends to read /metrics; empty: nobody may.
METRICS_TOKEN = env.text("TRIMTAB_METRICS_TOKEN")

# The number of our proxies that stand before the service and add to X-Forwarded-For
TRUSTED_PROXIES = env.integer("TRIMTAB_TRUSTED_PROXIES", 0)

# Celery carries wake-ups and the schedule; the rows are the truth.
# Why each value is what it is: docs/decisions/0003-rows-are-the-truth.md
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://") if _redis_socket else REDIS_URL
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 1800,
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
    "global_keyprefix": "trimtab:",
    "socket_timeout": 10,
    "socket_connect_timeout": 5,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# Celery closes no connection to the database: `webapp.celery` does, if it must.
CELERY_DB_REUSE_MAX = sys.maxsize
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SOFT_TIME_LIMIT = 540
CELERY_TASK_TIME_LIMIT = 600
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_TASK_DEFAULT_QUEUE = "work"
CELERY_TASK_QUEUES: dict[str, dict[str, str]] = {"work": {}, "schedule": {}}
# The processes of all machines together: from it follows how many of them one workspace may keep
# busy. At least two: one is always free of imports.
WORKER_PROCESSES = max(env.integer("TRIMTAB_WORKER_PROCESSES", 2, low=1), 2)
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_AUTOSCALER = "webapp.service.worker:PoolSize"
# A message that nobody can work on yet stays with the broker, where it is seen to wait.
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "beat-schedule")
CELERY_BEAT_SCHEDULER = "webapp.service.beat:Scheduler"
# The queue is named here: beat knows the schedule only, not the tasks. Nothing expires: under load,
# a sweep is late, and then it is needed most. The scheduler sends no more while enough wait.
CELERY_BEAT_SCHEDULE = {
    name: {
        "task": task,
        "schedule": float(seconds),
        "options": {"queue": "schedule"},
    }
    for name, task, seconds in (
        ("sweep", "background.sweep", 5),
        ("mark-lost", "analysis.mark_lost", 30),
        ("compact", "analysis.compact_due", 60),
        ("renew", "analysis.renew", 600),
        ("recount", "analysis.recount", 3_600),
        ("wake", "advice.wake", 600),
        ("retention", "retention.carry_out", 86_400),
        ("storage", "quotas.count_storage", 900),
        ("imports", "imports.tidy", 600),
        ("notify", "notify.sweep", 15),
        ("prices", "prices.refresh", 86_400),
        ("budgets", "spend.watch_budgets", 300),
        ("optimise", "database.optimise", 3_600),
        ("sessions", "accounts.forget_expired_sessions", 86_400),
    )
}

# Mail. Certificates are verified against the system's authorities (or SSL_CERT_FILE).
_mail = env.mail("EMAIL_URL")
EMAIL_BACKEND = _mail.backend
EMAIL_HOST, EMAIL_PORT = _mail.host, _mail.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail.user, _mail.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.uses_starttls, _mail.uses_tls
EMAIL_TIMEOUT = _mail.timeout_seconds
EMAIL_FILE_PATH = _mail.folder
_name = _base.hostname or ""
_domain = _name if _name.strip("0123456789.") and ":" not in _name else "localhost"
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.sender("EMAIL_FROM", f"Trimtab <trimtab@{_domain}>")

# Static files: ours, and the browser libraries that npm's lock file names
STATIC_URL = "static/"
STATIC_ROOT = Path(env.text("TRIMTAB_STATIC_ROOT") or DATA_DIR / "static")
STATICFILES_DIRS = [BASE_DIR / "webapp" / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "webapp.service.browser_libraries.BrowserLibrariesFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "webapp.http.static_storage.HashedModulesStorage"},
}

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False

# The time for which a silent node is "running" before it is "lost"
LOST_AFTER_SECONDS = env.integer("TRIMTAB_LOST_AFTER_SECONDS", 300, low=5)

LOG_FORMAT = env.choice("TRIMTAB_LOG_FORMAT", "json", ("json", "text"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": "webapp.http.log_format.JsonLineFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s %(message)s",
        },
        "text": {
            "()": "webapp.http.log_format.TextLineFormatter",
            "format": "%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        },
    },
    # Trouble of ours has its own line, once a minute: every agent and page meets it.
    "filters": {
        "untroubled": {
            "()": "django.utils.log.CallbackFilter",
            "callback": lambda record: getattr(record, "status_code", 0) != 503,
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["console"], "level": env.text("TRIMTAB_LOG_LEVEL", "INFO")},
    "loggers": {
        "django.server": {"handlers": ["console"], "level": "INFO", "propagate": False},
        "django.request": {"filters": ["untroubled"]},
        "trimtab.access": {"level": "INFO" if env.boolean("TRIMTAB_ACCESS_LOG") else "WARNING"},
    },
}
