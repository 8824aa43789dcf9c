"""The primary store: one DATABASES entry per DB_DRIVER."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from django.core.exceptions import ImproperlyConfigured

from apps.observability.domain.request_context import is_awaited
from platform_site.settings import env

_CONTRIB = {"contenttypes": "ContentTypes", "auth": "Auth", "admin": "Admin"}

# How long a request or a probe waits for a connection, a lock or a statement: it answers within 2 s
# that the store is away. Everything else has the longer limits below.
ANSWER_S = 1.2

# IMMEDIATE: a transaction that will write takes the write lock at once and waits for it;
# a deferred one fails at its first write with "database is locked", whatever the timeout.
_SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=wal;PRAGMA synchronous=NORMAL;PRAGMA foreign_keys=ON;",
}

# A process that stands still inside a transaction must not hold up the others: its locks end with
# its session, and who waits for a lock gives up and tries again.
_POSTGRES_TIMEOUTS = "-c idle_in_transaction_session_timeout=10s -c lock_timeout=5s"


def answer_limit_s() -> float | None:
    """Return ANSWER_S where a request or a probe of the control plane waits, else None."""
    return ANSWER_S if is_awaited() else None


class Database(TypedDict, total=False):
    """An entry of DATABASES; `OPTIONS` are the driver's."""

    ENGINE: str
    NAME: str
    HOST: str
    PORT: str
    USER: str
    PASSWORD: str
    CONN_HEALTH_CHECKS: bool
    OPTIONS: dict[str, object]
    TEST: dict[str, str]


def databases(driver: str, data_dir: Path) -> dict[str, Database]:
    builders = {"sqlite": _sqlite, "postgres": _postgres, "mongo": _mongo}
    return {"default": builders[driver](data_dir)}


def auto_field(driver: str) -> str:
    """Return DEFAULT_AUTO_FIELD for that store."""
    if driver == "mongo":
        return "django_mongodb_backend.fields.ObjectIdAutoField"
    return "django.db.models.BigAutoField"


def contrib_apps(driver: str) -> list[str]:
    """Return Django's apps that have models of their own, as that store needs them."""
    if driver == "mongo":
        return [f"platform_site.mongodb.contrib.Mongo{name}Config" for name in _CONTRIB.values()]
    return [
        "django.contrib.contenttypes",
        "django.contrib.auth",
        "platform_site.admin_app.AdminConfig",
    ]


def contrib_migrations(driver: str) -> dict[str, str]:
    """Return MIGRATION_MODULES: on MongoDB the keys of those apps are ObjectIds."""
    if driver == "mongo":
        return {name: f"platform_site.mongodb.migrations.{name}" for name in _CONTRIB}
    return {}


def apps(driver: str) -> list[str]:
    """Apps that INSTALLED_APPS needs for that store."""
    return ["platform_site.mongodb"] if driver == "mongo" else []


def _sqlite(data_dir: Path) -> Database:
    path = env.text("SQLITE_PATH", str(data_dir / "partita.sqlite3"))
    return {"ENGINE": "platform_site.sqlite", "NAME": path, "OPTIONS": dict(_SQLITE_OPTIONS)}


def _postgres(_data_dir: Path) -> Database:
    dsn = env.secret("POSTGRES_DSN")
    if not dsn:
        raise ImproperlyConfigured("DB_DRIVER=postgres needs POSTGRES_DSN, a libpq connection text")
    from psycopg.conninfo import conninfo_to_dict  # other stores start without it

    known = conninfo_to_dict(dsn)
    options: dict[str, object] = {
        key: str(text) for key, text in known.items() if key not in _DSN_KEYS
    }
    options.setdefault("options", _POSTGRES_TIMEOUTS)
    options.setdefault("connect_timeout", _POSTGRES_CONNECT_S)
    return {
        "ENGINE": "platform_site.postgresql",
        "NAME": str(known.get("dbname", "")),
        "USER": str(known.get("user", "")),
        "PASSWORD": str(known.get("password", "")),
        "HOST": str(known.get("host", "")),
        "PORT": str(known.get("port", "")),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options | {"pool": dict(_POSTGRES_POOL)} | _POSTGRES_BINDING,
    }


# reconnect_timeout: the pauses between attempts double until it is over; then whoever asks next
# starts anew. With the default, 5 min, a server away for 2 min was found again 1 min after it.
_POSTGRES_POOL = {"min_size": 1, "max_size": 20, "timeout": 10, "reconnect_timeout": 2}
_POSTGRES_CONNECT_S = "2"  # a frozen server takes connections and says nothing
# by the server: to write every value into the statement's text took a tenth of a worker's CPU
_POSTGRES_BINDING = {"server_side_binding": True}
_DSN_KEYS = ("dbname", "user", "password", "host", "port")


def _mongo(_data_dir: Path) -> Database:
    uri = env.secret("MONGO_URI") or "mongodb://localhost:27017"
    if not uri.startswith(("mongodb://", "mongodb+srv://")):
        raise ImproperlyConfigured(  # without the value: it may hold a password
            "MONGO_URI: expected mongodb://HOST:PORT/?OPTIONS or mongodb+srv://HOST/?OPTIONS"
            " (`bundle` is for processes of the sync stack)"
        )
    named = "@" in uri.partition("://")[2].partition("/")[0]  # its own user and password win
    user, password = env.text("MONGO_USER"), env.secret("MONGO_PASSWORD")
    return mongo(uri, user="" if named else user, password="" if named else password)


def mongo(uri: str, *, user: str, password: str, **options: Any) -> Database:
    """The entry of DATABASES; `options` are pymongo's. The database is MONGO_DB."""
    return {
        "ENGINE": "platform_site.mongodb",
        "HOST": uri,
        "NAME": env.text("MONGO_DB", "partita"),
        "USER": user,
        "PASSWORD": password,
        "OPTIONS": {"serverSelectionTimeoutMS": 5000, **options},
    }
