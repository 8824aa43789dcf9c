"""Every service of docker-compose.yml gets healthy with MONGO_ROOT_PASSWORD alone."""

from __future__ import annotations

import json
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2 import PingRequest
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import OrchestratorStub
from tests.support.compose_stack import ComposeStack
from tests.support.parts import need
from tests.support.processes import until
from tests.support.servers import database
from tests.support.webhooks import github_push, signed

pytestmark = [pytest.mark.redis, pytest.mark.postgres, pytest.mark.slow]
PASSWORD = "any $characters/work:@ here"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[ComposeStack]:
    redis = need("TEST_REDIS_ADDR", "Redis")
    server = need("TEST_POSTGRES_DSN", "PostgreSQL")
    with database(server, f"compose_{secrets.token_hex(6)}") as dsn:
        made = ComposeStack(
            tmp_path, {"MONGO_ROOT_PASSWORD": PASSWORD}, redis_address=redis, dsn=dsn
        )
        try:
            made.redis.flushdb()
            yield made
        finally:
            made.end()


def contents(stack: ComposeStack, volume: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in stack.volume(volume).iterdir()}


def state_files(stack: ComposeStack) -> list[Path]:
    return [
        path
        for volume in (stack.folder / "volumes").glob("state-*")
        for path in volume.rglob("*")
        if path.is_file() and not path.is_symlink()
    ]


def secret_lines(stack: ComposeStack) -> set[str]:
    """Of each generated secret and key a line that only it has."""
    files = [each for each in state_files(stack) if each.stat().st_size and each.suffix != ".crt"]
    lines = {path.read_text().splitlines()[1 if path.suffix == ".key" else 0] for path in files}
    assert min(map(len, lines)) > 40
    return lines


def outcome_without_a_certificate(stack: ComposeStack) -> grpc.StatusCode:
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports[50051]}") as plain:
        try:
            OrchestratorStub(plain).Ping(PingRequest(), timeout=30)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_with_the_root_password_alone_everything_starts_and_a_webhook_becomes_a_task(stack):
    """Sync invariants 24, 26, 27."""
    stack.start("orchestrator-api")
    stack.wait_until_healthy("orchestrator-api")
    others = ("orchestrator-worker", "gateway", "watcher")
    made = {name: contents(stack, f"state-{name}") for name in others}
    assert set(made["gateway"]) == {
        "ca.crt", "client.crt", "client.key", "inbound.crt", "inbound.key", "webhook-secret",
    }  # fmt: skip
    assert set(made["watcher"]) == {"ca.crt", "client.crt", "client.key", "secret-key"}
    assert set(made["orchestrator-worker"]) == {"secret-key"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in state_files(stack))

    stack.start(*others)
    stack.wait_until_healthy(*others)

    assert outcome_without_a_certificate(stack) is grpc.StatusCode.UNAVAILABLE
    key = made["gateway"]["webhook-secret"].decode().strip()
    body = github_push()
    answer = stack.post_webhook("/webhooks/mongo", body, signed(body, secret=key))
    assert (answer["status"], answer["message"]) == (202, "queued")  # in the inbox
    assert stack.ask_api("/v1/tasks")[0] == 401
    api_key = (stack.volume("state-orchestrator-api") / "task-api-key").read_text().strip()
    of_delivery = "/v1/tasks?delivery_id=d-1"
    (found,) = until(
        lambda: stack.ask_api(of_delivery, api_key)[1].get("tasks"),
        within_s=60,
        what=stack.processes["gateway"].tail,
    )
    task = f"/v1/tasks/{found['task_id']}"
    until(
        lambda: stack.ask_api(task, api_key)[1].get("started_at"),
        within_s=60,
        what=stack.processes["orchestrator-worker"].tail,
    )

    assert stack.stop() == dict.fromkeys(("orchestrator-api", *others), 0)
    assert {name: contents(stack, f"state-{name}") for name in others} == made
    told = stack.logs()
    for secret in secret_lines(stack):
        assert secret not in told
    assert PASSWORD not in told
    first = json.loads(stack.processes["orchestrator-api"].text().splitlines()[0])
    assert first["event"] == "first_start"
    assert str(stack.volume("state-orchestrator-api") / "task-api-key") in first["message"]
