"""Settings that every way of running shares. The environment is read here and nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from kernel.registry import plugin_names
from kernel.scripts import INTERPRETERS
from platform_site.settings import api_description, embedded, env
from platform_site.settings.keys import derived_key, encryption_keys
from platform_site.settings.shared import *
from platform_site.settings.store import apps as apps_of_store
from platform_site.settings.store import (
    auto_field,
    contrib_apps,
    contrib_migrations,
    databases,
)

# the checkout, or `site-packages/partita`: only read
BASE_DIR = Path(__file__).resolve().parents[2]
env.load_dotenv_files(BASE_DIR / ".env", BASE_DIR.parent / ".env")

# ── listener and files ────────────────────────────────────────────────────────
HOST = env.text("HOST", "0.0.0.0")  # noqa: S104 - a server listens; `up` narrows it
PORT = env.integer("PORT", 8090, low=1, high=65535)
PUBLIC_API_URL = env.text("PUBLIC_API_URL", f"http://localhost:{PORT}").rstrip("/")
FRONTEND_URLS = env.words("FRONTEND_URL")
TRUSTED_PROXIES = env.words("TRUSTED_PROXIES")
DATA_DIR = Path(env.text("DATA_DIR", "var")).absolute()
UP_HOST = env.text("HOST", "127.0.0.1")
UP_LISTENER_FILE: Path = DATA_DIR / embedded.LISTENER_FILE_NAME
UP_DEMO = env.flag("UP_DEMO", default=True)
UP_PASSWORD_ORIGIN = "kept"  # see embedded.prepare
SECURE_SITE = PUBLIC_API_URL.startswith("https://")
HTTPS_REDIRECT = env.flag("HTTPS_REDIRECT", default=False)
if HTTPS_REDIRECT and not SECURE_SITE:
    raise ImproperlyConfigured("HTTPS_REDIRECT: PUBLIC_API_URL does not begin with https://")

# ── primary store ─────────────────────────────────────────────────────────────
DB_DRIVER = env.choice("DB_DRIVER", "mongo", ("mongo", "postgres", "sqlite"))
DATABASES = databases(DB_DRIVER, DATA_DIR)
DEFAULT_AUTO_FIELD = auto_field(DB_DRIVER)
MIGRATION_MODULES: dict[str, str | None] = {**contrib_migrations(DB_DRIVER)}

# ── cache, coordination, background work ──────────────────────────────────────
REDIS_ADDR = env.text("REDIS_ADDR")
REDIS_PASSWORD = env.secret("REDIS_PASSWORD")
REDIS_DB = env.integer("REDIS_DB", 0)
REDIS_PREFIX = env.text("REDIS_PREFIX", "partita")
REDIS_URL = env.redis_url(REDIS_ADDR, REDIS_PASSWORD, REDIS_DB)
CACHE_TTL_S = {  # cached reads by topic (reference: control-plane 20)
    "platform": env.duration_s("CACHE_TTL_PLATFORM", "2m"),
    "profiles": env.duration_s("CACHE_TTL_PROFILES", "2m"),
    "catalog": env.duration_s("CACHE_TTL_CATALOG", "45s"),
    "favorites": env.duration_s("CACHE_TTL_FAVORITES", "2m"),
    "workspaces": env.duration_s("CACHE_TTL_WORKSPACE", "5m"),
    "executions": env.duration_s("CACHE_TTL_EXECUTION_RUNTIME", "24h"),
}
CELERY_BROKER_URL = env.secret("CELERY_BROKER_URL") or REDIS_URL or "memory://localhost/"
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_WORKER_PREFETCH_MULTIPLIER = 10
CELERY_TASK_ROUTES = {"sync.*": {"queue": "sync"}}
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "executions.sweep", "schedule": 2.0},
    "registries": {"task": "oci.sync_due", "schedule": 15.0},
}
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, float] = (
    {"polling_interval": 0.01}
    if CELERY_BROKER_URL.startswith("memory:")
    else {"socket_timeout": 5, "socket_connect_timeout": 2, "visibility_timeout": 600}
)

# ── secrets ───────────────────────────────────────────────────────────────────
JWT_SECRET = env.secret("JWT_SECRET")
JWT_PREVIOUS_SECRETS = env.secret_words("JWT_PREVIOUS_SECRETS")
SECRET_KEY = env.secret("SECRET_KEY") or derived_key(JWT_SECRET, "secret-key", size=48)
AUTH_STATE_SECRET = env.secret("AUTH_STATE_SECRET") or derived_key(JWT_SECRET, "auth-state")
ENCRYPTION_KEY_ORIGINS = encryption_keys(
    (JWT_SECRET, *JWT_PREVIOUS_SECRETS),
    key=env.secret("SETTINGS_ENCRYPTION_KEY"),
    previous=env.secret_words("SETTINGS_PREVIOUS_ENCRYPTION_KEYS"),
)
ENCRYPTION_KEYS = list(ENCRYPTION_KEY_ORIGINS)  # the first one encrypts, every one decrypts

# ── accounts ──────────────────────────────────────────────────────────────────
AUTH_ACCESS_TTL_S = env.duration_s("AUTH_ACCESS_TTL", "12h")
AUTH_REFRESH_TTL_S = env.duration_s("AUTH_REFRESH_TTL", "168h")
AUTH_PASSWORD_LOGIN_ENABLED = env.flag("AUTH_PASSWORD_LOGIN_ENABLED", default=True)
AUTH_SIGNUP_ENABLED = env.optional_flag("AUTH_SIGNUP_ENABLED")  # None: see accounts.conf
OIDC_ENABLED = env.flag("OIDC_ENABLED", default=False)
OIDC_PROVIDER_ID = env.text("OIDC_PROVIDER_ID", "oidc")
OIDC_PROVIDER_NAME = env.text("OIDC_PROVIDER_NAME", "Single Sign-On")
OIDC_ISSUER_URL = env.text("OIDC_ISSUER_URL")
OIDC_CLIENT_ID = env.text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = env.secret("OIDC_CLIENT_SECRET")
OIDC_REDIRECT_URL = env.text("OIDC_REDIRECT_URL", f"{PUBLIC_API_URL}/api/v1/auth/oidc/callback")
OIDC_FRONTEND_CALLBACK_URL = env.text("OIDC_FRONTEND_CALLBACK_URL")
OIDC_SCOPES = env.words("OIDC_SCOPES", "openid,profile,email,groups")
OIDC_STATE_COOKIE_NAME = env.text("OIDC_STATE_COOKIE_NAME", "partita_oidc_state")
OIDC_EMAIL_CLAIM = env.text("OIDC_EMAIL_CLAIM", "email")
OIDC_NAME_CLAIM = env.text("OIDC_NAME_CLAIM", "name")
OIDC_GROUPS_CLAIM = env.text("OIDC_GROUPS_CLAIM", "groups")
OIDC_ADMIN_GROUPS = env.words("OIDC_ADMIN_GROUPS")
SOCIAL_PROVIDERS = env.words("SOCIAL_PROVIDERS")
SOCIALACCOUNT_PROVIDERS = env.social_providers(SOCIAL_PROVIDERS)
SOCIALACCOUNT_ADAPTER = "apps.social.services.SettingsAdapter"
SOCIALACCOUNT_QUERY_EMAIL = True
_MAIL = env.mail_address("EMAIL_URL")  # into Django's own settings, which its mail uses
EMAIL_HOST, EMAIL_PORT = _MAIL.host, _MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL.username, _MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL, EMAIL_TIMEOUT = _MAIL.use_tls, _MAIL.use_ssl, 10
DEFAULT_FROM_EMAIL = _MAIL.sender
ADMIN_EMAIL = env.text("ADMIN_EMAIL")
ADMIN_PASSWORD = env.secret("ADMIN_PASSWORD")

# ── suites, profiles, platform settings ───────────────────────────────────────
SUITES_DIR = Path(env.text("SUITES_DIR", str(BASE_DIR / "examples" / "oci-suites")))
SUITE_REGISTRATION = env.choice("SUITE_REGISTRATION", "admin", ("admin", "members", "off"))
MODULES_DIR = Path(env.text("MODULES_DIR", str(BASE_DIR / "examples" / "oci-modules")))
SUITE_MAX_NODES = env.integer("SUITE_MAX_NODES", 2000, low=1)
PLATFORM_SETTINGS_FILE = Path(env.text("PLATFORM_SETTINGS_FILE", "configuration.yaml"))
PROFILES_FILE = Path(env.text("PROFILES_FILE", "svc-profiles.yaml"))
PROFILE_WRITES = env.choice("PROFILE_WRITES", "", ("", "members", "admin"))
SECRET_REFERENCE_RULE = "apps.platform_settings.domain.secrets.reference_problem"
IN_CLUSTER = bool(env.text("KUBERNETES_SERVICE_HOST"))
CONFIG_VARIABLES = env.with_prefix("PARTITA_CONFIG_")
REGISTRY_CA_FILE = env.text("REGISTRY_CA_FILE")
REGISTRY_SYNC_INTERVAL_S = env.duration_s("REGISTRY_SYNC_INTERVAL", "5m")
VAULT_ADDR = env.text("VAULT_ADDR")  # the one Vault that gets the credentials, if set
VAULT_TOKEN = env.text("VAULT_TOKEN")
VAULT_TOKEN_FILE = env.text("VAULT_TOKEN_FILE")  # read at each use: it may be renewed there
SECRET_FILES_DIR = env.text("SECRET_FILES_DIR")  # of secrets that profiles name; empty: none

# ── executions and steps ──────────────────────────────────────────────────────
EXECUTION_MAX_ACTIVE = env.integer("EXECUTION_MAX_ACTIVE", 10, low=1)
EXECUTION_MAX_QUEUED = env.integer("EXECUTION_MAX_QUEUED", 200)
EXECUTION_MAX_DURATION_S = env.duration_s("EXECUTION_MAX_DURATION", "4h")
EXECUTION_LOG_MAX_BYTES = env.integer("EXECUTION_LOG_MAX_BYTES", 268_435_456, low=1)
EXECUTION_RETENTION_S = env.duration_s("EXECUTION_RETENTION", "720h")
# of the bytes of artifacts, after their run: as long as the run, unless it is shorter
EXECUTION_ARTIFACT_RETENTION_S = env.duration_s(
    "EXECUTION_ARTIFACT_RETENTION", env.text("EXECUTION_RETENTION", "720h")
)
ARTIFACT_LOCATION = env.artifact_location("ARTIFACT_STORAGE", DATA_DIR)  # None: the store
RUNNER_MAX_PARALLEL_STEPS = env.integer("RUNNER_MAX_PARALLEL_STEPS", 16, low=1)
STEP_DEFAULT_TIMEOUT_S = env.duration_s("STEP_DEFAULT_TIMEOUT", "10m")
STEP_MAX_TIMEOUT_S = env.duration_s("STEP_MAX_TIMEOUT", "2h")
STEP_MAX_MEMORY = env.size("STEP_MAX_MEMORY", "4Gi")
STEP_MAX_CPU = env.number("STEP_MAX_CPU", 4)
STEP_ENV_PREFIXES = env.words("STEP_ENV_PREFIXES", "PARTITA")
STEP_DEFAULT_IMAGES = {
    **{name: each.image for name, each in INTERPRETERS.items()},
    **env.mapping("STEP_DEFAULT_IMAGES"),
}
STEP_INIT_IMAGE = env.text("STEP_INIT_IMAGE", "busybox:1.36")
STEP_IMAGE_PULL_POLICY = env.choice(
    "STEP_IMAGE_PULL_POLICY", "IfNotPresent", ("IfNotPresent", "Always", "Never")
)
LOCAL_RUNTIME = env.choice("LOCAL_RUNTIME", "docker", plugin_names([f"{BASE_DIR}/worker/runtimes"]))
START_AHEAD = env.integer("START_AHEAD", 2, low=0, high=32)  # units of one runner or worker
KUBECONFIG = env.text("KUBECONFIG")  # of LOCAL_RUNTIME=kubernetes; backends name their own
LEASE_S = env.duration_s("LEASE", "30s")  # how long a claim lives without renewal
LEASE_GRACE_S = env.duration_s("LEASE_GRACE", "30s")  # after its end it may still be renewed
# the same where nobody else could go on with the step: its units are out of reach for all others
LEASE_OWNER_PATIENCE_S = env.duration_s("LEASE_OWNER_PATIENCE", "10m")
EXECUTION_MAX_KEPT = env.integer("EXECUTION_MAX_KEPT", 5, low=0)  # environments of a workspace
EXECUTION_KEEP_MAIL = env.flag("EXECUTION_KEEP_MAIL", default=False)
ENVIRONMENT_AUTO_REAP = env.flag("ENVIRONMENT_AUTO_REAP", default=False)
SHELL_ACCESS = env.choice("SHELL_ACCESS", "members", ("off", "owner", "members"))
SHELL_MAX = env.integer("SHELL_MAX", 8, low=1, high=100)  # at once, in one workspace
SHELL_IDLE_S = env.duration_s("SHELL_IDLE", "15m")
UNIT_OF_WORK_PATIENCE_S = env.duration_s("UNIT_OF_WORK_PATIENCE", "2s")
STREAM_MAX_PER_USER = env.integer("STREAM_MAX_PER_USER", 50, low=1)

# ── workers ───────────────────────────────────────────────────────────────────
AGENT_SHARED_SECRET = env.secret("AGENT_SHARED_SECRET")
AGENT_PORT = env.integer("AGENT_PORT", 8091, low=1, high=65535)
AGENT_ID = env.text("AGENT_ID")
AGENT_NAME = env.text("AGENT_NAME")
AGENT_PUBLIC_URL = env.text("AGENT_PUBLIC_URL")
AGENT_CONTROL_PLANE_URL = env.text("AGENT_CONTROL_PLANE_URL").rstrip("/")
AGENT_BACKENDS = env.words("AGENT_BACKENDS")
AGENT_LABELS = env.words("AGENT_LABELS")
AGENT_CONCURRENCY = env.integer("AGENT_CONCURRENCY", 4, low=1)
AGENT_DRAIN_TIMEOUT_S = env.duration_s("AGENT_DRAIN_TIMEOUT", "60s")
MOCK_BASE_URL = env.text("MOCK_BASE_URL", PUBLIC_API_URL).rstrip("/")
MOCK_SHARED_SECRET = env.secret("MOCK_SHARED_SECRET")  # for the resolver and shared spaces
MOCK_PROXY_ALLOW_CIDRS = env.words("MOCK_PROXY_ALLOW_CIDRS")
MOCK_VALIDATE = env.choice("MOCK_VALIDATE", "warn", ("off", "warn", "enforce"))
MOCK_GRPC_ADDR = env.text("MOCK_GRPC_ADDR")

# ── telemetry ─────────────────────────────────────────────────────────────────
OTEL_ENDPOINT = env.text("OTEL_EXPORTER_OTLP_ENDPOINT")
OTEL_PROTOCOL = env.choice("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", ("grpc", "http/protobuf"))
OTEL_HEADERS = env.secret("OTEL_EXPORTER_OTLP_HEADERS")
OTEL_INSECURE = env.text("OTEL_EXPORTER_OTLP_INSECURE")
OTEL_SERVICE_NAME = env.text("OTEL_SERVICE_NAME", "partita-control-plane")
OTEL_RESOURCE_ATTRIBUTES = env.text("OTEL_RESOURCE_ATTRIBUTES")
METRICS_ADDR = env.text("METRICS_ADDR")
AUDIT_ROWS = True  # tests that do not look at them do without

# ── Django ────────────────────────────────────────────────────────────────────
# The edge compares Host with SERVED_HOSTS, before Django and for WebSockets too (apps.http.hosts);
# every absolute URL is built from PUBLIC_API_URL, never from Host.
ALLOWED_HOSTS = ["*"]
SERVED_HOSTS = env.served_hosts("ALLOWED_HOSTS", (PUBLIC_API_URL, MOCK_BASE_URL, *FRONTEND_URLS))
SERVE_ANY_ADDRESS = False
ROOT_URLCONF = "platform_site.urls"
ASGI_APPLICATION = "platform_site.asgi.application"
APPEND_SLASH = False
INSTALLED_APPS = [
    # serves `runserver` over ASGI, and must stand first; importing it takes a tenth of any start
    *(["daphne"] if sys.argv[1:2] == ["runserver"] else []),
    *contrib_apps(DB_DRIVER),
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "channels",
    "apps.observability",
    "apps.operations",
    "apps.http",
    "apps.health",
    "apps.streams",
    "apps.accounts",
    "apps.social",
    "apps.platform_settings",
    "apps.agents",
    "apps.oci",
    "apps.profiles",
    "apps.suites",
    "apps.catalog",
    "apps.mocks",
    "apps.executions",
    "apps.environments",
    "apps.shells",
    "apps.workers",
    "apps.console",
    "sync_stack.orchestrator",
    "sync_stack.gateway",  # for `partita help`: it has no rows
    "sync_stack.watcher",  # likewise
    *apps_of_store(DB_DRIVER),
]
if SOCIAL_PROVIDERS:  # nobody else pays for its import; its tables stay unused
    INSTALLED_APPS += [
        "allauth.account",
        "allauth.socialaccount",
        *(f"{env.SOCIAL_PACKAGE}.{name}" for name in SOCIAL_PROVIDERS),
    ]
    MIGRATION_MODULES = {**MIGRATION_MODULES, "account": None, "socialaccount": None}
MIDDLEWARE = [  # outermost first (reference: control-plane 2)
    "apps.http.middleware.request.ExceptionMiddleware",
    "apps.http.middleware.compression.CompressionMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "apps.http.middleware.headers.ContentPolicyMiddleware",
    "apps.http.middleware.headers.CorsMiddleware",
    "apps.http.middleware.request.RequestIdMiddleware",
    "apps.accounts.middleware.AuthSessionMiddleware",
    "apps.accounts.middleware.UserMiddleware",
    "apps.accounts.middleware.FlashMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "apps.http.middleware.observation.TraceMiddleware",
    "apps.http.middleware.observation.HttpMetricsMiddleware",
    "apps.http.middleware.observation.AuditMiddleware",
    "apps.http.middleware.request.RequestLimitsMiddleware",
    "platform_site.error_handler.ProblemAnswers",
    *(["allauth.account.middleware.AccountMiddleware"] if SOCIAL_PROVIDERS else []),
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,  # the page that shows the API's description
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.console.context_processors.script_urls",
                "apps.console.context_processors.documentation",
            ]
        },
    }
]
STATIC_URL = "/static/"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "apps.http.static_files.VersionedStaticFiles"},
    **({"artifacts": ARTIFACT_LOCATION.as_entry()} if ARTIFACT_LOCATION else {}),
}
STATICFILES_DIRS = [BASE_DIR / "static"]
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["apps.accounts.backends.PasswordBackend"]
LOGIN_URL = "/sign-in"
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
SESSION_ENGINE = "apps.accounts.sessions"
SESSION_COOKIE_NAME = "partita_session"
SESSION_COOKIE_AGE = int(AUTH_REFRESH_TTL_S)
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = SECURE_SITE
CSRF_COOKIE_SECURE = SECURE_SITE
CSRF_HEADER_NAME = "HTTP_X_CSRFTOKEN"
CSRF_FAILURE_VIEW = "platform_site.error_handler.on_csrf_failure"
SECURE_REFERRER_POLICY = "no-referrer"
SECURE_HSTS_SECONDS = 31_536_000 if SECURE_SITE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.flag("HSTS_INCLUDE_SUBDOMAINS", default=False)
SECURE_HSTS_PRELOAD = env.flag("HSTS_PRELOAD", default=False)
SECURE_SSL_REDIRECT = HTTPS_REDIRECT
SECURE_SSL_HOST = urlsplit(PUBLIC_API_URL).netloc
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]  # asked without the proxy
# A client that sends this itself skips the redirect and gains nothing: addresses and cookies go by
# PUBLIC_API_URL.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS_REDIRECT else None
X_FRAME_OPTIONS = "DENY"
CSRF_TRUSTED_ORIGINS = [PUBLIC_API_URL]
DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 2**20
FILE_UPLOAD_MAX_MEMORY_SIZE = 10 * 2**20
REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_AUTHENTICATION_CLASSES": ["apps.accounts.rest.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["apps.accounts.rest.IsSignedIn"],
    "DEFAULT_SCHEMA_CLASS": "apps.http.rest.documents.DocumentSchema",
    "EXCEPTION_HANDLER": "platform_site.error_handler.handle",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = api_description.SPECTACULAR_SETTINGS
LOG_HANDLERS: dict[str, dict[str, object]] = {
    "stderr": {
        "class": "logging.StreamHandler",
        "formatter": "line",
        "filters": ["request_id", "without_credentials"],
    },
    "audit": {
        "class": "logging.StreamHandler",
        "formatter": "bare",
        "filters": ["without_credentials"],
    },
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s"},
        "bare": {"format": "%(message)s"},
    },
    "filters": {
        "request_id": {"()": "apps.observability.logs.RequestIdFilter"},
        "with_stack": {"()": "apps.observability.logs.WithStackFilter"},
        "without_credentials": {"()": "apps.observability.logs.WithoutCredentialsFilter"},
    },
    "handlers": LOG_HANDLERS,
    "root": {"handlers": ["stderr"], "level": env.text("LOG_LEVEL", "WARNING")},
    "loggers": {
        "partita": {"level": env.text("LOG_LEVEL", "INFO")},
        "django.request": {"filters": ["with_stack"]},
        "partita.audit": {"handlers": ["audit"], "level": "INFO", "propagate": False},
    },
}
