"""Copies of task records in `task_backend_datasource`."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from sync_stack.core.bundle.datasources import Datasource
from sync_stack.core.bundle.model import Bundle
from sync_stack.orchestrator.server.documents import task_document
from sync_stack.orchestrator.server.task_copies import TaskCopies
from sync_stack.sinks.redis import RedisOptions
from tests.support.parts import need
from tests.support.processes import until
from tests.support.sync_world import World

pytestmark = pytest.mark.store


def backed_by(world: World, address: str) -> TaskCopies:
    source = Datasource(
        name="cache", kind="redis", options=RedisOptions(hosts=(address,)), timeout_s=2.0
    )

    def bundle() -> Bundle:
        known = world.bundle
        return replace(
            known,
            datasources=(*known.datasources, source),
            task_backend_datasource="cache",
        )

    return TaskCopies(bundle, lambda secret: secret.value)


@pytest.fixture
def server() -> Iterator[redis.Redis]:
    host, _, port = need("TEST_REDIS_ADDR", "Redis").rpartition(":")
    client = redis.Redis(host=host, port=int(port))
    yield client
    client.close()


def test_every_change_of_a_task_is_copied_for_a_day(world, server):
    copies = backed_by(world, need("TEST_REDIS_ADDR", "Redis"))
    task = world.commit_and_push({"app.yaml": "a: 1\n"})
    key = f"partita:task:{task.id}"
    copies.beside(world.published.extend)([task.id])
    until(lambda: server.exists(key), within_s=30, what="the first copy")
    assert json.loads(server.get(key))["state"] == "PENDING"
    done = world.finish(task, task_changed=copies)
    until(
        lambda: json.loads(server.get(key))["state"] == "SUCCEEDED",
        within_s=30,
        what="the copy of the end",
    )
    assert json.loads(server.get(key)) == json.loads(json.dumps(task_document(done)))
    assert 23 * 3600 < server.ttl(key) <= 24 * 3600
    server.delete(key)


def test_a_copy_that_cannot_be_written_fails_no_task(world):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there
        copies = backed_by(world, f"127.0.0.1:{closed.getsockname()[1]}")
        task = world.finish(world.commit_and_push({"app.yaml": "a: 1\n"}), task_changed=copies)
        assert (task.state, world.values()) == ("SUCCEEDED", {"a": "1"})
