"""The whole orchestrator: gRPC in, a file out, HTTP to look at it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import grpc.aio
import httpx
import pytest

from sync_stack.configuration.conf import BundleSettings
from sync_stack.configuration.process_configuration import open_configuration
from sync_stack.core.bundle.secret_use import Process
from sync_stack.orchestrator.server.process import OrchestratorProcess
from sync_stack.rpc.gen.partita.sync.v1 import orchestrator_pb2 as pb
from sync_stack.rpc.gen.partita.sync.v1.orchestrator_pb2_grpc import OrchestratorStub
from tests.support.git_server import Repository


def bundle_file(folder: Path, repository: Repository) -> Path:
    path = folder / "config.json"
    bundle = {
        "platforms": [{"github": {"endpoint": f"file://{repository.folder}/bare"}}],
        "datasources": [{"file": {"root": str(folder / "out"), "format": "json"}}],
        "rules": [
            {
                "name": "shop",
                "platform": "github",
                "datasource": "file",
                "repositories": ["acme/*"],
                "file_name": "app.yaml",
                "branch_map": {"main": "production"},
            }
        ],
    }
    path.write_text(json.dumps({"bundle": bundle}), encoding="utf-8")
    return path


@pytest.fixture
def orchestrator(tmp_path, settings):
    settings.SYNC_GRPC_ADDR = settings.SYNC_HTTP_ADDR = "127.0.0.1:0"
    settings.SYNC_GIT_CACHE_DIR = tmp_path / "cache"
    settings.SYNC_TASK_API_KEYS = ("key-for-tests",)
    repository = Repository(tmp_path / "git")
    bundle = BundleSettings(path=bundle_file(tmp_path, repository), reload_interval_s=0)
    process = OrchestratorProcess(open_configuration(bundle, Process.ORCHESTRATOR))
    return process, repository


async def finished(stub, task_id: str):
    for _ in range(200):
        task = await stub.GetTask(pb.GetTaskRequest(task_id=task_id))
        if task.HasField("finished_at"):
            return task
        await asyncio.sleep(0.05)
    raise AssertionError("the task does not end")


async def test_a_delivery_over_grpc_becomes_a_file_and_a_task_to_look_at(orchestrator, tmp_path):
    """Sync invariants 1, 8."""
    process, repository = orchestrator
    commit = await asyncio.to_thread(repository.commit, {"app.yaml": "db:\n  port: 0123\n"})
    ended = asyncio.Event()
    running = asyncio.create_task(process.run(ended))
    await asyncio.wait_for(process.serving.wait(), timeout=180)
    payload = {"ref": "refs/heads/main", "after": commit, "repository": {"full_name": "acme/shop"}}
    request = pb.ProcessWebhookRequest(
        platform="github",
        datasource="file",
        event="push",
        raw_payload=json.dumps(payload).encode(),
        idempotency_key="k1",
        signature_verified=True,
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{process.grpc_port}") as channel:
        stub = OrchestratorStub(channel)
        accepted = await stub.ProcessWebhook(request)
        task = await finished(stub, accepted.task_id)
        again = await stub.ProcessWebhook(request)
        ping = await stub.Ping(pb.PingRequest())
    assert (task.message, task.targets[0].commit) == ("completed", commit)
    assert (again.task_id, again.duplicate, ping.ready) == (accepted.task_id, True, True)
    written = next((tmp_path / "out").glob("*.json"))
    assert json.loads(written.read_text()) == {"db.port": "0123"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{process.http_port}") as client:
        await looks_right(client, accepted.task_id)
    ended.set()
    await running


async def looks_right(client: httpx.AsyncClient, task_id: str) -> None:
    key = {"Authorization": "Bearer key-for-tests"}
    assert (await client.get(f"/v1/tasks/{task_id}")).status_code == 401
    found = await client.get(f"/v1/tasks/{task_id}", headers=key)
    assert found.json()["result"]["written"] == 1
    tag = {"If-None-Match": found.headers["etag"]}
    assert (await client.get(f"/v1/tasks/{task_id}", headers=key | tag)).status_code == 304
    listed = await client.get(
        "/v1/tasks?repo=acme/shop&state=succeeded&env=production&rule=shop", headers=key
    )
    assert [task["task_id"] for task in listed.json()["tasks"]] == [task_id]
    targets = (await client.get("/v1/targets/", headers=key)).json()["targets"]
    assert [target["env"] for target in targets] == ["production"]
    assert (await client.get("/v1/tasks/none", headers=key)).json()["code"] == "task_not_found"
    bad = await client.get("/v1/tasks?colour=red", headers=key)
    assert (bad.status_code, bad.json()["code"]) == (400, "unknown_parameter")
    assert (await client.post("/v1/tasks", headers=key)).headers["allow"] == "GET, HEAD"
    assert (await client.get("/v1/health/readiness")).json()["status"] == "READY"
    assert b"orch_tasks_total" in (await client.get("/metrics")).content
    assert (await client.get("/openapi.json")).json()["info"]["title"] == "Partita Orchestrator"
