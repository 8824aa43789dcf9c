"""Programs in containers: their deadlines, and what their ends mean."""

from __future__ import annotations

import asyncio
import io
import ssl
import tarfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.server import ServerConnection, serve

from kernel.cluster_access import ClusterAccess
from tests.support.cluster_api import RUNNING, ClusterApi, launch
from worker.domain.runtime import RuntimeUnavailable
from worker.runtimes.kubernetes import keeper
from worker.runtimes.kubernetes.client import ClusterClient, StreamBroken
from worker.runtimes.kubernetes.exec_stream import ExecResult
from worker.runtimes.kubernetes.pod_keepers import Keepers
from worker.runtimes.kubernetes.pod_watch import PodWatch

Program = Callable[[Sequence[str], Callable[[bytes], None]], Awaitable[ExecResult]]


def replace_programs(monkeypatch: pytest.MonkeyPatch, program: Program) -> None:
    async def run(
        self: ClusterClient, pod: str, container: str, argv: Sequence[str], **options: Any
    ) -> ExecResult:
        return await program(argv, options.get("take") or bytearray().extend)

    monkeypatch.setattr(ClusterClient, "run", run)


def archive(**files: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, text in files.items():
            info = tarfile.TarInfo(f"artifacts/{name}")
            info.size = len(text)
            made.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


async def test_a_program_that_never_ends_breaks_at_its_limit() -> None:
    async def say_nothing(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with serve(say_nothing, "127.0.0.1", 0, subprotocols=["v5.channel.k8s.io"]) as server:  # type: ignore[list-item]
        port = server.sockets[0].getsockname()[1]
        access = ClusterAccess(
            server=f"http://127.0.0.1:{port}",
            trust=ssl.create_default_context(),
            token=lambda: "t",
        )
        client = ClusterClient(access, "apps")

        async with asyncio.timeout(10):
            with pytest.raises(StreamBroken, match=r"exec in api: no end within 0\.2 s"):
                await client.run("api", "keeper", ["true"], limit_s=0.2)
        await client.close()


@pytest.mark.parametrize("verb", ["stop", "collect"])
async def test_a_node_that_never_answers_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    async def hang(argv: Sequence[str], take: Callable[[bytes], None]) -> ExecResult:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr("worker.runtimes.kubernetes.runtime.COLLECT_S", 0.4)
    replace_programs(monkeypatch, hang)
    runtime = ClusterApi().runtime(tmp_path, unavailable_after_s=0.2)
    unit = await runtime.start(launch())

    async with asyncio.timeout(10):
        with pytest.raises(RuntimeUnavailable, match="does not answer: no end in time"):
            await (runtime.stop(unit) if verb == "stop" else runtime.collect(unit, "*.txt"))
    await runtime.close()


async def test_a_signal_that_failed_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ClusterApi()
    runtime = api.runtime(tmp_path)
    unit = await runtime.start(launch())
    codes = [1, 0]

    async def signal(argv: Sequence[str], take: Callable[[bytes], None]) -> ExecResult:
        code = codes.pop(0)
        if not code:
            ended = [{"name": "step", "state": {"terminated": {"exitCode": 143}}}]
            pod = api.objects["pods"][unit.name]
            api.store("pods", {**pod, "status": {**RUNNING, "containerStatuses": ended}})
        return ExecResult(exit_code=code, errors=b"kill: (7) - No such process")

    monkeypatch.setattr("worker.runtimes.kubernetes.pod_watch.READ_EVERY_S", 0.1)
    replace_programs(monkeypatch, signal)

    async with asyncio.timeout(10):
        await runtime.stop(unit, grace_s=5)

    assert codes == []
    await runtime.close()


async def collect(monkeypatch: pytest.MonkeyPatch, output: bytes, code: int) -> Any:
    async def pack(argv: Sequence[str], take: Callable[[bytes], None]) -> ExecResult:
        if argv[-1] != "artifacts":
            return ExecResult(exit_code=44)
        take(output)
        return ExecResult(exit_code=code, errors=b"tar: /partita: Input/output error\n")

    replace_programs(monkeypatch, pack)
    access = ClusterAccess(
        server="http://cluster", trust=ssl.create_default_context(), token=lambda: "t"
    )
    transport = httpx.MockTransport(lambda request: httpx.Response(500))
    client = ClusterClient(access, "apps", transport=transport)
    keepers = Keepers(client, PodWatch(client, ""))
    return await keeper.collect(keepers, "api", "*.txt")


async def test_files_are_taken_though_tar_left_out_a_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await collect(monkeypatch, archive(**{"a.txt": "hello"}), 1)

    assert [each.body for each in found.files] == [b"hello"]


async def test_a_folder_that_does_not_exist_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await collect(monkeypatch, b"", 44)).files == ()


@pytest.mark.parametrize("size", [0, 100, 512, 1024, 1536, 2000])
async def test_a_broken_archive_is_no_missing_folder(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    whole = archive(**{"a.txt": "hello", "b.txt": "world"})

    with pytest.raises(keeper.ExecFailed, match="Input/output error"):
        await collect(monkeypatch, whole[:size], 1)
