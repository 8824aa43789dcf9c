"""Calls and tasks have spans by OpenTelemetry's instrumentations, which tell no value.

As everywhere, a collector on loopback receives the spans.
"""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import redis
from celery import Celery
from celery.signals import task_prerun
from opentelemetry.trace import use_span
from redis.backoff import NoBackoff
from redis.retry import Retry

from kernel import telemetry
from kernel.telemetry import TelemetrySettings
from kernel.trace_context import new_span, parse_traceparent
from platform_site.postgresql.base import BoundedConnection, BoundedPool
from tests.support.otlp import Collector, attributes, collecting
from tests.support.parts import need

NOBODY = redis.Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))


@pytest.fixture
def collector() -> Iterator[Collector]:
    """What was exported, after `telemetry.shutdown()`."""
    with collecting() as received:
        telemetry.configure(TelemetrySettings(endpoint=received.endpoint))
        yield received
        telemetry.shutdown()
        telemetry._state.last_export_ok = True


@contextlib.contextmanager
def request() -> Iterator[None]:
    span = telemetry.server_span("/api/v1/suites", {}, {})
    with use_span(span, end_on_exit=True):
        yield


def exported(collector: Collector) -> dict[str, Any]:
    """Return the spans by their names."""
    telemetry.shutdown()
    return {span.name: span for span in collector.spans}


@pytest.fixture
def database() -> str:
    return need("TEST_POSTGRES_DSN", "PostgreSQL")


@pytest.mark.postgres
def test_a_statement_is_a_span_below_its_request_without_its_values(
    collector: Collector, database: str
) -> None:
    with psycopg.connect(database) as connection, request():
        connection.execute("SELECT %s::text", ["hunter2"])

    spans = exported(collector)
    statement = spans["SELECT"]
    assert statement.parent_span_id == spans["/api/v1/suites"].span_id
    assert statement.trace_id == spans["/api/v1/suites"].trace_id
    assert attributes(statement)["db.statement"] == "SELECT %s::text"
    assert b"hunter2" not in statement.SerializeToString()


@pytest.mark.postgres
def test_statements_of_the_stores_pool_have_spans(collector: Collector, database: str) -> None:
    pool = BoundedPool(database, connection_class=BoundedConnection, min_size=1, open=True)
    with contextlib.closing(pool), pool.connection() as connection, request():
        assert isinstance(connection, BoundedConnection)
        connection.execute("SELECT 1")

    assert "SELECT" in exported(collector)


@pytest.mark.postgres
def test_what_a_server_says_of_an_error_is_not_exported(
    collector: Collector, database: str
) -> None:
    refused = pytest.raises(psycopg.Error, match="hunter2")
    with psycopg.connect(database) as connection, request(), refused:
        connection.execute("SELECT %s::int", ["hunter2"])

    statement = exported(collector)["SELECT"]
    assert statement.status.code == 2
    assert b"hunter2" not in statement.SerializeToString()


def test_a_command_of_redis_is_a_span_below_its_request_without_its_arguments(
    collector: Collector,
) -> None:
    with request(), contextlib.suppress(redis.ConnectionError):
        NOBODY.set("key", "hunter2")

    spans = exported(collector)
    command = spans["SET"]
    assert command.parent_span_id == spans["/api/v1/suites"].span_id
    assert attributes(command)["db.statement"] == "SET ? ?"
    assert command.status.code == 2
    assert (command.status.message, list(command.events)) == ("", [])


def test_calls_of_background_loops_have_no_spans(collector: Collector) -> None:
    with contextlib.suppress(redis.ConnectionError):
        NOBODY.get("key")

    assert exported(collector) == {}


def test_a_call_below_an_unsampled_request_has_no_span(collector: Collector) -> None:
    caller = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-00"}
    unsampled = telemetry.server_span("/x", caller, {})
    with use_span(unsampled, end_on_exit=True), contextlib.suppress(redis.ConnectionError):
        NOBODY.get("key")

    assert exported(collector) == {}


def test_calls_are_spans_below_one_that_is_recorded_at_its_end(collector: Collector) -> None:
    attempt = new_span()
    with telemetry.spans_below(attempt), contextlib.suppress(redis.ConnectionError):
        NOBODY.get("key")

    command = exported(collector)["GET"]
    assert command.trace_id.hex() == attempt.trace_id
    assert command.parent_span_id.hex() == attempt.span_id


@pytest.fixture
def application() -> Iterator[Celery]:
    app = Celery("tests", broker="memory://", set_as_current=False)
    yield app
    app.close()


def test_a_task_is_a_span_around_its_calls(collector: Collector, application: Celery) -> None:
    @application.task(name="tests.call", shared=False)
    def call(_secret: str) -> None:
        with contextlib.suppress(redis.ConnectionError):
            NOBODY.get("key")

    call.apply(args=("hunter2",))

    spans = exported(collector)
    task = spans["run/tests.call"]
    assert not task.parent_span_id
    assert attributes(task)["celery.task_name"] == "tests.call"
    assert spans["GET"].parent_span_id == task.span_id
    assert b"hunter2" not in task.SerializeToString()


def test_a_message_is_a_span_and_its_task_one_below_it(
    collector: Collector, application: Celery
) -> None:
    @application.task(name="tests.send", shared=False)
    def send() -> None: ...

    application.send_task("tests.send")
    with application.connection() as connection:
        message = connection.SimpleQueue(application.conf.task_default_queue).get(timeout=5)

    sent = exported(collector)["apply_async/tests.send"]
    carried = parse_traceparent(message.headers["traceparent"])
    assert carried is not None
    assert (carried.trace_id, carried.span_id) == (sent.trace_id.hex(), sent.span_id.hex())


@pytest.mark.parametrize("retries", [0, 1])
def test_the_error_of_a_task_is_told_without_its_text(
    collector: Collector, application: Celery, retries: int
) -> None:
    @application.task(
        name="tests.fail", shared=False, autoretry_for=(RuntimeError,), max_retries=retries
    )
    def fail() -> None:
        raise RuntimeError("hunter2")

    fail.apply()

    task = exported(collector)["run/tests.fail"]
    assert task.status.code == 2
    assert b"hunter2" not in task.SerializeToString()


def test_nothing_is_instrumented_after_the_end(collector: Collector) -> None:
    telemetry.shutdown()

    assert not hasattr(redis.Redis.execute_command, "__wrapped__")
    assert not hasattr(psycopg.connect, "__wrapped__")
    assert inspect.ismethod(connect := BoundedConnection.connect)
    assert connect.__self__ is BoundedConnection
    assert not [each for each in task_prerun.receivers if "opentelemetry" in repr(each)]


PROGRAM = """
import sys
from kernel import telemetry
from kernel.telemetry import TelemetrySettings
telemetry.configure(TelemetrySettings(endpoint="127.0.0.1:1"))
print([name for name in ("celery", "psycopg", "redis", "django") if name in sys.modules])
"""


def test_a_library_that_a_process_does_not_use_is_not_imported_for_its_spans() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)

    assert ended.stdout.strip() == b"[]"
