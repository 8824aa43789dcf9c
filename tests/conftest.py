"""What every test has: a process of its own, as far as that remembers secrets."""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import cache

import httpx
import pytest
from django.contrib.contenttypes.management import create_contenttypes
from django.db import connection
from django.db.models.signals import post_migrate
from hypothesis import settings

from apps.executions.selectors.run_queue import recent_starts
from apps.executions.services.start_forecasts import forecast_pace
from apps.executions.services.step_queue import workspace_count
from apps.operations.api import CachedReads
from apps.platform_settings.services.live_settings import live_settings
from kernel.garbage import collect_seldom
from kernel.redaction import known_secrets
from tests.support import mongo_queries
from tests.support.broken import broken, quick_loops
from tests.support.empty_tables import empty_quickly
from tests.support.left_loops import FAILED, own_loops

__all__ = ["broken", "quick_loops"]

# Each run tries other examples; `make faults` tries many more of them.
settings.register_profile("each run", max_examples=20, deadline=None)
settings.register_profile("faults", max_examples=1000, deadline=None)
settings.load_profile("each run")


# Every HTTP client would read the file of all certificate authorities anew: 20 ms of CPU.
httpx._transports.default.create_ssl_context = cache(httpx.create_ssl_context)  # type: ignore[attr-defined]

# Calls of tests have 30 s, not the library's 5, for a server on a busy machine.
for _step in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, _step, 30.0)

# Each test that commits empties the store, and Django then wrote its permissions anew, which no
# one here asks for, and its content types, which are written when they are asked for.
post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
post_migrate.disconnect(create_contenttypes)
empty_quickly()

# Each `up` writes down there where it is; one that runs beside the tests, or belongs to tests of
# another process, is not found by commands that look for one.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="partita-test-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes of some length by their argument: an archive holds the second of its making.

    Workers that collect in different seconds would have different tests, and run none of them.
    """
    return argname if isinstance(val, bytes) and len(val) > 32 else None


def pytest_collection_finish() -> None:
    """Keep what stays until the end, 250,000 objects, out of each collection: 3 % of the CPU."""
    collect_seldom()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(autouse=True)
def _loops_of_one_test(request: pytest.FixtureRequest) -> Iterator[None]:
    with own_loops(request.node):
        yield


@pytest.fixture(autouse=True)
def _secrets_of_one_test() -> Iterator[None]:
    """What a test resolves, a user `partita` say, is not masked in the next one's texts."""
    known, redactor = dict(known_secrets._known), known_secrets._redactor
    yield
    known_secrets._known, known_secrets._redactor = known, redactor


@pytest.fixture(autouse=True)
def _settings_of_one_test() -> None:
    """No test takes the platform settings that the one before read a moment ago."""
    live_settings.forget()
    workspace_count.forget()
    recent_starts.forget()
    forecast_pace.forget()


@pytest.fixture(autouse=True)
def _profiles_of_one_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Suites of a test that has no store have the profiles of their files.

    Where there is one, nothing is known of the rows of other tests, which had the same generations,
    nor that a command of another test found no store.
    """
    fixtures = {"db", "transactional_db"} & set(request.fixturenames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("apps.suites.profiles.profile_join.files_only", False)
        if not fixtures and not request.node.get_closest_marker("django_db"):
            patch.setattr("apps.suites.profiles.stored_profiles", dict)
            patch.setattr("apps.suites.profiles.stored_generation", lambda: 0)
        else:
            patch.setattr("apps.profiles.selectors._reads", CachedReads("profiles"))
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Keep the file of SQLite open while there are tests.

    Who closes it last copies its log into it and removes that, and each request closes it.
    """
    if connection.vendor != "sqlite":
        yield
        return
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as kept:
        kept.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield


@pytest.fixture(scope="session")
def _watch() -> Iterator[mongo_queries.Watch]:
    with mongo_queries.watched() as watch:
        yield watch


@pytest.fixture(autouse=True)
def _each_query_has_an_index_on_mongodb(_watch: mongo_queries.Watch) -> Iterator[None]:
    """Whatever our code asked in the test, on any store, does not read a whole collection there."""
    yield
    unserved = _watch.unserved()
    assert not unserved, (
        "no index serves these on MongoDB: give their models one, or a line in"
        " READ_WHOLE (tests/support/mongo_queries.py):\n" + "\n".join(unserved)
    )
