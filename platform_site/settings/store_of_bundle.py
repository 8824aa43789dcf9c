"""MONGO_URI=bundle: the primary store is the server of the bundle's first mongo datasource."""

from __future__ import annotations

import contextlib
import os

from django.core.exceptions import ImproperlyConfigured

from platform_site.settings.store import Database, mongo
from sync_stack.configuration.bundle_file import bundle_of, read_text
from sync_stack.configuration.conf import Environment, bundle_settings
from sync_stack.configuration.secrets import SecretError, SecretResolver
from sync_stack.configuration.vault import VaultClient
from sync_stack.core.bundle.model import Bundle
from sync_stack.sinks.mongo import MongoOptions
from sync_stack.sinks.mongo.client import server_settings

_NO_MONGO = "MONGO_URI=bundle: the bundle has no mongo datasource; set MONGO_URI to the store"


def mongo_of_bundle(app_env: str) -> Database:
    """Return the entry of DATABASES. Raises ImproperlyConfigured."""
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
