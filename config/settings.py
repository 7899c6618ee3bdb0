"""Every setting of the service, read from the environment. docs/settings.md lists them; tests keep the two in step."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import environ
import structlog
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse_lazy
from psycopg.conninfo import conninfo_to_dict

from config import embedded, logs, setting_values
from config.setting_values import check_servers, switch, with_gate_options

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = "0.1.0"

env = environ.Env()

# --- Mode and secrets -------------------------------------------------------------------------------------------------
DEBUG = switch("DEBUG", default=False)
_DEBUG_SECRET_KEY = "insecure-secret-key-for-debug-only"  # noqa: S105
SECRET_KEY = env.str("SECRET_KEY", default=_DEBUG_SECRET_KEY if DEBUG else "")
if not DEBUG and (len(SECRET_KEY) < 40 or SECRET_KEY == _DEBUG_SECRET_KEY):
    raise ImproperlyConfigured(
        "SECRET_KEY must be set to at least 40 random characters (or DEBUG=true for development). Make one with: "
        "python -c 'import secrets; print(secrets.token_urlsafe(50))'"
    )
ALLOWED_HOSTS: list[str] = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"] if DEBUG else [])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CSRF_TRUSTED_ORIGINS", default=[])
# HTTPS_ONLY=false is for a service on loopback: cookies then go over plain HTTP.
HTTPS_ONLY = switch("HTTPS_ONLY", default=not DEBUG)
# The number of entries at the right end of X-Forwarded-For that our own proxies write.
PROXIES = env.int("PROXIES", default=0)

# --- Servers: your own by URL, or the embedded ones -------------------------------------------------------------------
LOCAL_DIR = Path(env.str("ENDPOINTS_LOCAL_DIR", default=str(BASE_DIR / ".local")))
_embedded = embedded.known_urls(LOCAL_DIR) or embedded.Servers()
# The settings must load even before the embedded servers exist (checks, makemigrations); connecting then fails.
_NOWHERE = f"postgresql://nobody@/none?host={LOCAL_DIR}/run"
DATABASE_URL = env.str("DATABASE_URL", default=_embedded.database_url or _NOWHERE)
LOGS_DATABASE_URL = env.str("LOGS_DATABASE_URL", default=_embedded.logs_database_url or _NOWHERE)
LOGS_GATE_URL = env.str("LOGS_GATE_URL", default=_embedded.logs_gate_url or _NOWHERE)
REDIS_URL = env.str("REDIS_URL", default=_embedded.redis_url or "redis://127.0.0.1:1/0")


def _django_database(url: str) -> dict[str, Any]:
    """Return Django's settings of a PostgreSQL URL; query parameters (host=, sslmode=, …) become libpq options."""
    parameters = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parameters.pop("dbname", ""),
        "USER": parameters.pop("user", ""),
        "PASSWORD": parameters.pop("password", ""),
        "HOST": parameters.pop("host", ""),
        "PORT": parameters.pop("port", ""),
        "OPTIONS": {"connect_timeout": 3, **parameters},
    }


DATABASES = {"default": _django_database(DATABASE_URL), "logs": _django_database(LOGS_DATABASE_URL)}
# One connection per thread, checked before use, so that a restarted PostgreSQL does not cause a 500; the wait for it
# is no longer than a call may take.
DATABASES["default"] |= {"ENGINE": "config.state_database", "CONN_MAX_AGE": 600, "CONN_HEALTH_CHECKS": True}
DATABASE_ROUTERS = ["logsources.databases.LogDatabaseRouter"]
LOGS_GATE: dict[str, Any] = with_gate_options(conninfo_to_dict(LOGS_GATE_URL))
check_servers(LOGS_GATE, setting="LOGS_GATE_URL", may_prefer=True)
check_servers(conninfo_to_dict(LOGS_DATABASE_URL), setting="LOGS_DATABASE_URL", may_prefer=False)
check_servers(conninfo_to_dict(DATABASE_URL), setting="DATABASE_URL", may_prefer=False)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {
            "SOCKET_CONNECT_TIMEOUT": 0.25,
            "SOCKET_TIMEOUT": 0.25,
            # RESP3 brings nothing to plain commands, and redis-py then no longer notices a connection left unread.
            "CONNECTION_POOL_KWARGS": {"protocol": 2, "max_connections": 1000},
        },
    }
}

# --- Endpoints --------------------------------------------------------------------------------------------------------
ENDPOINTS_HEADER_PREFIX = env.str("ENDPOINTS_HEADER_PREFIX", default="SVC")
ENDPOINTS_POOL_SIZE = env.int("ENDPOINTS_POOL_SIZE", default=8)  # gate connections per process
ENDPOINTS_POOL_WAIT_SECONDS = env.float("ENDPOINTS_POOL_WAIT_SECONDS", default=0.8)  # then 503 overloaded
# How far a standby may be behind the primary and still take calls; one that is further behind takes none.
ENDPOINTS_STANDBY_MAX_LAG_SECONDS = env.float("ENDPOINTS_STANDBY_MAX_LAG_SECONDS", default=10.0)
# Calls of a process that may wait for another call's result: half of its threads, then 503 overloaded.
ENDPOINTS_WAITING_CALLS = env.int("ENDPOINTS_WAITING_CALLS", default=8)
# The guarantees that manage.py check_sandbox must confirm: "row_security" if the log database has no superuser.
ENDPOINTS_SANDBOX_LEVEL = env.str("ENDPOINTS_SANDBOX_LEVEL", default="full")
# The threads of one web process, as started by config.serve.
ENDPOINTS_WEB_THREADS = env.int("ENDPOINTS_WEB_THREADS", default=16)
ENDPOINTS_BODY_SECONDS = env.float("ENDPOINTS_BODY_SECONDS", default=60.0)  # until a body has arrived, then 408
ENDPOINTS_BODY_MIN_BYTES_PER_SECOND = env.int("ENDPOINTS_BODY_MIN_BYTES_PER_SECOND", default=4096)
ENDPOINTS_MAX_BODY_BYTES = env.int("ENDPOINTS_MAX_BODY_BYTES", default=1_048_576)
ENDPOINTS_SANDBOX_MAX_SQL_BYTES = env.int("ENDPOINTS_SANDBOX_MAX_SQL_BYTES", default=16_384)  # of the consumer's text
ENDPOINTS_SANDBOX_MAX_BYTES = env.int("ENDPOINTS_SANDBOX_MAX_BYTES", default=33_554_432)  # of a result, encoded
ENDPOINTS_MAX_RESULT_BYTES = env.int("ENDPOINTS_MAX_RESULT_BYTES", default=67_108_864)  # of a stored query's, encoded
# Streams: how many a process sends at once, and those of one access token over all processes, a number or "none".
ENDPOINTS_STREAMS = env.int("ENDPOINTS_STREAMS", default=2)
ENDPOINTS_STREAMS_AT_ONCE = setting_values.read_limit(
    env.str("ENDPOINTS_STREAMS_AT_ONCE", default="2"), setting="ENDPOINTS_STREAMS_AT_ONCE"
)
ENDPOINTS_STREAM_SECONDS = env.float("ENDPOINTS_STREAM_SECONDS", default=1800.0)  # of one, slow readers included
# Of the cached results of one access token's sandbox queries, as Redis has them; more are computed and not stored.
ENDPOINTS_SANDBOX_CACHE_BYTES = env.int("ENDPOINTS_SANDBOX_CACHE_BYTES", default=33_554_432)
# How long after its caching period a result may still be sent, marked stale, if there is nothing newer.
ENDPOINTS_STALE_SECONDS = env.int("ENDPOINTS_STALE_SECONDS", default=3600)
ENDPOINTS_WARM_RESULTS = env.int("ENDPOINTS_WARM_RESULTS", default=100)  # argument sets of one warm run
ENDPOINTS_WARM_SECONDS = env.float("ENDPOINTS_WARM_SECONDS", default=60.0)  # in the database, of one warm run
ENDPOINTS_WARM_CONCURRENCY = env.int("ENDPOINTS_WARM_CONCURRENCY", default=2)  # endpoints warmed at the same time
# Calls of one access token, such as 600/minute; empty: no limit.
ENDPOINTS_RATE_LIMIT = setting_values.read_rate(
    env.str("ENDPOINTS_RATE_LIMIT", default=""), setting="ENDPOINTS_RATE_LIMIT"
)
# Limits of calls that reach PostgreSQL, a number or "none"; below the pool's size, or one access token takes it all.
ENDPOINTS_CALLS_AT_ONCE = setting_values.read_limit(
    env.str("ENDPOINTS_CALLS_AT_ONCE", default="6"), setting="ENDPOINTS_CALLS_AT_ONCE"
)
ENDPOINTS_SANDBOX_QUERIES_AT_ONCE = setting_values.read_limit(
    env.str("ENDPOINTS_SANDBOX_QUERIES_AT_ONCE", default="4"), setting="ENDPOINTS_SANDBOX_QUERIES_AT_ONCE"
)
# How long an access token gets no sandbox queries after one of them reached the statement timeout; 0: no pause.
ENDPOINTS_OVERRUN_SECONDS = env.float("ENDPOINTS_OVERRUN_SECONDS", default=30.0)
# A row is in a tail if it is stored at most so long after its timestamp.
ENDPOINTS_TAIL_LATE_SECONDS = env.float("ENDPOINTS_TAIL_LATE_SECONDS", default=60.0)
# ?api_key=… as an access token, for clients that send no header. A secret in an address ends up in logs of others.
ENDPOINTS_API_KEY_IN_ADDRESS = switch("ENDPOINTS_API_KEY_IN_ADDRESS", default=False)
# Without a token nobody can read /metrics, except programs on the same machine if that is switched on.
ENDPOINTS_METRICS_TOKEN = env.str("ENDPOINTS_METRICS_TOKEN", default="")
ENDPOINTS_METRICS_LOOPBACK = switch("ENDPOINTS_METRICS_LOOPBACK", default=False)
ENDPOINTS_MAX_LOAD_BYTES = env.int("ENDPOINTS_MAX_LOAD_BYTES", default=16_777_216)  # of a load, also when expanded
ENDPOINTS_MAX_LOAD_ROWS = env.int("ENDPOINTS_MAX_LOAD_ROWS", default=100_000)  # of a load, which has ten values each
# Of message and metadata of one stored row: a query works on it without a look at the clock.
ENDPOINTS_MAX_ROW_BYTES = env.int("ENDPOINTS_MAX_ROW_BYTES", default=1_048_576)
ENDPOINTS_LOAD_CONCURRENCY = env.int("ENDPOINTS_LOAD_CONCURRENCY", default=2)  # loads at once per process
# The audit log of calls: how long it is kept, 0: none is; and how many rows it may have of one day.
ENDPOINTS_AUDIT_DAYS = env.int("ENDPOINTS_AUDIT_DAYS", default=14)
ENDPOINTS_AUDIT_ROWS_A_DAY = env.int("ENDPOINTS_AUDIT_ROWS_A_DAY", default=2_000_000)
# Webhooks of alerts over http and to private and loopback addresses too. Off: an alert could ask what only this
# machine can reach.
ALERT_WEBHOOK_PRIVATE = switch("ALERT_WEBHOOK_PRIVATE", default=False)
# The OpenAPI document names every endpoint: public only if that is wanted, otherwise with an access token.
ENDPOINTS_PUBLIC_SCHEMA = switch("ENDPOINTS_PUBLIC_SCHEMA", default=DEBUG)
# Answers over 8 kB in gzip or zstd for who asks for it; off where a proxy compresses, or to be safe from BREACH.
RESPONSE_COMPRESSION = switch("RESPONSE_COMPRESSION", default=True)
# Spans for a collector of OpenTelemetry; where it is, the standard variables OTEL_… say.
ENDPOINTS_SPANS = switch("ENDPOINTS_SPANS", default=False)
if ENDPOINTS_SPANS:
    setting_values.check_spans()
# Django reads multipart and form bodies, with the same limit.
DATA_UPLOAD_MAX_MEMORY_SIZE = ENDPOINTS_MAX_BODY_BYTES

# --- Applications -----------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "unfold",
    "endpoints.apps.LoginsConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "corsheaders",
    "django_ace",
    "django_celery_beat",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "simple_history",
    "logsources",
    "endpoints",
]
MIDDLEWARE = [
    "endpoints.api.middleware.RequestMiddleware",
    "endpoints.admin.middleware.ContentSecurityMiddleware",
    "endpoints.admin.middleware.PatienceMiddleware",
    "endpoints.admin.logins.PasswordsBusyMiddleware",  # before a session is read
    "endpoints.api.cors.CorsMiddleware",
    "endpoints.api.authentication.InsecureTokenMiddleware",  # before the redirect to HTTPS
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "endpoints.admin.middleware.ForPeopleSessions",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "endpoints.admin.middleware.ForPeopleAuthentication",
    "endpoints.admin.middleware.ForPeopleMessages",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "endpoints.admin.middleware.for_people_history",
    "endpoints.admin.refusal_pages.RefusalPagesMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
APPEND_SLASH = True  # for the admin; the API's routes take both forms without a redirect
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {
            "loaders": [("django.template.loaders.cached.Loader", ["endpoints.admin.template_loader.Loader"])],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

# --- Logins of the admin: django-axes counts failures, endpoints/access/logins.py logins and checks at once -----------
LOGIN_FAILURES = env.int("LOGIN_FAILURES", default=5)
LOGIN_LOCKOUT_SECONDS = env.int("LOGIN_LOCKOUT_SECONDS", default=900)
if LOGIN_FAILURES < 1 or LOGIN_LOCKOUT_SECONDS < 1 or PROXIES < 0:
    raise ImproperlyConfigured("LOGIN_FAILURES and LOGIN_LOCKOUT_SECONDS must be at least 1, PROXIES at least 0.")
PASSWORD_HASHERS = ["endpoints.access.logins.BoundedPasswordHasher"]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AXES_CLIENT_IP_CALLABLE = "endpoints.access.logins.client_address"
AXES_LOCKOUT_CALLABLE = "endpoints.admin.logins.locked_out_page"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT = LOGIN_FAILURES
AXES_COOLOFF_TIME = timedelta(seconds=LOGIN_LOCKOUT_SECONDS)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # a lock-out ends, even if more attempts come meanwhile
AXES_RESET_ON_SUCCESS = True
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "csrfmiddlewaretoken"]  # not in its rows, nor in its lines
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False  # endpoints/admin/logins.py shows the counters
AXES_VERBOSE = False
LOGIN_REDIRECT_URL = "admin:index"  # of a login page that was opened by itself

# --- Single sign-on: a provider of OpenID Connect logs people in to the admin -----------------------------------------
OIDC_ISSUER = env.str("OIDC_ISSUER", default="")  # empty: there is none, and nothing of it is loaded
OIDC_CLIENT_ID = env.str("OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET = env.str("OIDC_CLIENT_SECRET", default="")
OIDC_NAME = env.str("OIDC_NAME", default="single sign-on")  # "Log in with …"
OIDC_SCOPES = env.str("OIDC_SCOPES", default="openid profile email")
OIDC_GROUPS_CLAIM = env.str("OIDC_GROUPS_CLAIM", default="groups")
# Group of the provider -> role of the admin.
OIDC_ROLES = setting_values.read_roles(env.str("OIDC_ROLES", default=""), setting="OIDC_ROLES")
OIDC_SESSION_SECONDS = env.int("OIDC_SESSION_SECONDS", default=14_400)  # then the groups are read again
# Passwords are then for superusers alone: accounts for an emergency.
OIDC_ONLY = switch("OIDC_ONLY", default=False)
if OIDC_ISSUER:
    setting_values.check_single_sign_on(
        OIDC_ISSUER,
        {"OIDC_CLIENT_ID": OIDC_CLIENT_ID, "OIDC_CLIENT_SECRET": OIDC_CLIENT_SECRET, "OIDC_ROLES": OIDC_ROLES},
        scopes=OIDC_SCOPES,
        session_seconds=OIDC_SESSION_SECONDS,
    )
    AUTHENTICATION_BACKENDS = [
        "axes.backends.AxesStandaloneBackend",
        "endpoints.access.single_sign_on.PasswordBackend",
        "endpoints.access.single_sign_on.SingleSignOnBackend",
    ]
elif OIDC_ONLY:
    raise ImproperlyConfigured("OIDC_ONLY needs OIDC_ISSUER: otherwise nobody but superusers could log in.")

# --- Pages ------------------------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "config.formats"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = Path(env.str("STATIC_ROOT", default=str(BASE_DIR / "staticfiles")))
with suppress(OSError):  # the account of the service need not be able to write here
    STATIC_ROOT.mkdir(exist_ok=True)  # whitenoise warns at every start if it is missing
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.static_files.CollectedFiles"},
}
WHITENOISE_USE_FINDERS = True  # what is not collected is sent too: the demo and the tests collect nothing
FIXTURE_DIRS = [BASE_DIR / "fixtures"]

# --- Security headers, cookies and CORS -------------------------------------------------------------------------------
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS_ONLY
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 60 * 60  # one working day
SECURE_SSL_REDIRECT = HTTPS_ONLY
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS_ONLY else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS_ONLY
# Probes call the container over plain HTTP, and so does Prometheus: the view of /metrics refuses it from elsewhere.
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^health$", r"^metrics/?$"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if switch("BEHIND_HTTPS_PROXY", default=False):
    # Only if a proxy that sets (and strips) this header is the only way in.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CORS_ALLOWED_ORIGINS: list[str] = env.list("CORS_ALLOWED_ORIGINS", default=[])
CORS_URLS_REGEX = r"^/(api/|endpoints/|logs|v1/logs|mcp/?$)"  # loggers in browsers too
CORS_ALLOW_HEADERS = [
    "accept", "authorization", "cache-control", "content-type", "if-none-match", "traceparent", "tracestate",
    "x-api-key", "x-request-id", "idempotency-key", "mcp-protocol-version", "mcp-method", "mcp-name",
    f"{ENDPOINTS_HEADER_PREFIX.lower()}-endpoint-redact-pii",
]  # fmt: skip
CORS_EXPOSE_HEADERS = [
    "Age", "Content-Disposition", "ETag", "Link", "RateLimit", "RateLimit-Policy", "Retry-After", "Server-Timing",
    "X-Cache", "X-Ignored-Arguments", "X-Request-ID", "X-Result-Notes", "X-Result-Rows", "X-Result-Truncated",
]  # fmt: skip

# --- API framework ----------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["endpoints.api.authentication.AccessTokenAuthentication"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "endpoints.api.negotiation.NoNegotiation",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "endpoints.api.replies.handle_exception",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,  # no query parameter name is reserved except sql and lql
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Log Query Endpoints",
    "VERSION": VERSION,
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "ENABLE_DJANGO_DEPLOY_CHECK": False,  # it builds the document, which needs the database
    "POSTPROCESSING_HOOKS": ["endpoints.api.openapi.describe_endpoints"],
}
UNFOLD = {
    "SITE_TITLE": "Log Query Endpoints",
    "SITE_HEADER": "Log Query Endpoints",
    "SITE_URL": reverse_lazy("api-docs"),
    "SHOW_HISTORY": True,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "endpoints.admin.dashboard.favicon"}],
    "SIDEBAR": {"navigation": "endpoints.admin.dashboard.sidebar"},
    "DASHBOARD_CALLBACK": "endpoints.admin.dashboard.dashboard",
    # Otherwise unfold writes its colours into the page, which the admin's content security policy refuses.
    "COLORS": "endpoints.admin.dashboard.no_inline_colors",
    "STYLES": ["endpoints.admin.dashboard.theme_styles"],
    "SCRIPTS": ["endpoints.admin.dashboard.strict_scripts"],
}

# --- Scheduled work ---------------------------------------------------------------------------------------------------
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_TIME_LIMIT = 600  # seconds
CELERY_TIMEZONE = "UTC"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULER = "config.beat:Scheduler"
CELERY_BEAT_SCHEDULE = {
    "roll-partitions": {"task": "logsources.tasks.roll_partitions", "schedule": 3600.0},
    # A heartbeat that a worker takes only after the next one is due is meaningless.
    "note-heartbeat": {"task": "endpoints.tasks.note_heartbeat", "schedule": 60.0, "options": {"expires": 60}},
    "check-alerts": {"task": "endpoints.tasks.check_alerts", "schedule": 60.0, "options": {"expires": 60}},
    "roll-call-partitions": {"task": "endpoints.tasks.roll_call_partitions", "schedule": 3600.0},
    "drop-old-sandbox-schemas": {"task": "endpoints.tasks.drop_old_sandbox_schemas", "schedule": 3600.0},
}

# --- Logs: one JSON object a line on stderr ---------------------------------------------------------------------------
LOGGING = logs.LOGGING
structlog.configure(
    processors=logs.STRUCTLOG_PROCESSORS,
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
