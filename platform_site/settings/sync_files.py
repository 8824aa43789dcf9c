"""What settings of the sync stack take from files: the store's server, secrets of a first start."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from kernel import clock
from platform_site.settings import env
from platform_site.settings.store import Database, mongo
from sync_stack.configuration.bundle_file import bundle_of, read_text
from sync_stack.configuration.conf import Environment, bundle_settings
from sync_stack.configuration.secrets import SecretError, SecretResolver
from sync_stack.configuration.startup import StateFolderUnusable, read_secret
from sync_stack.configuration.vault import VaultClient
from sync_stack.core.bundle.model import Bundle
from sync_stack.sinks.mongo import MongoOptions
from sync_stack.sinks.mongo.client import server_settings

_NO_MONGO = "MONGO_URI=bundle: the bundle has no mongo datasource; set MONGO_URI to the store"


def mongo_of_bundle(app_env: str) -> Database:
    """Return the entry of DATABASES for MONGO_URI=bundle; raise ImproperlyConfigured.

    The primary store is then the server of the bundle's first mongo datasource.
    """
    bundle = _bundle(app_env)
    found = [each for each in bundle.datasources if isinstance(each.options, MongoOptions)]
    if not found:
        raise ImproperlyConfigured(_NO_MONGO)
    options = found[0].options
    assert isinstance(options, MongoOptions)
    with contextlib.closing(SecretResolver(VaultClient, variables=os.environ)) as secrets:
        secrets.use(bundle)
        try:
            settings = server_settings(options, secrets.resolve)
        except SecretError as error:
            raise ImproperlyConfigured(f"datasource {found[0].name}: {error}") from None
    uri = options.endpoint or f"mongodb://{','.join(options.hosts)}"
    user, password = settings.pop("username", ""), settings.pop("password", "")
    return mongo(uri, user=user, password=password, **settings)


def _bundle(app_env: str) -> Bundle:
    environment = Environment(os.environ)
    settings = bundle_settings(environment, app_env=app_env)
    reading = bundle_of(
        read_text(settings.path, name=settings.name),
        production=settings.production,
        strict=settings.strict,
        cue_binary=settings.cue_binary,
    )
    lines = [*environment.problems, *map(str, reading.errors)]
    if reading.bundle is None or lines:
        raise ImproperlyConfigured("\n".join(lines))
    return reading.bundle


def make_first_start() -> tuple[str, ...]:
    """Make what is missing below TLS_AUTO_DIR, before anything asks for it; return lines to log.

    (reference: sync-stack 7.3)
    """
    from sync_stack.rpc.first_start import prepare  # it loads gRPC: workers do without

    folder = env.text("TLS_AUTO_DIR")
    if not folder:
        return ()
    try:
        return prepare(Path(folder), clock.now()).lines()
    except StateFolderUnusable as error:
        raise ImproperlyConfigured(str(error)) from None


def first_start_secret(name: str) -> str:
    """Return a secret below TLS_AUTO_DIR, empty without that folder or where nothing was made."""
    folder = env.text("TLS_AUTO_DIR")
    try:
        return read_secret(Path(folder), name) if folder else ""
    except StateFolderUnusable as error:
        raise ImproperlyConfigured(str(error)) from None
