"""Each runtime behind one driver: the same words for a step's behaviour."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import parts, servers, steps
from tests.support.fake_runtime import FakeRuntime
from tests.support.local_cluster import Faults, LocalCluster
from worker.domain.cluster_options import ClusterOptions
from worker.domain.launch import LaunchRules, launch_of
from worker.domain.output_records import OutputRecord
from worker.domain.runtime import Launch, Runtime, RuntimeOptions, Unit
from worker.domain.step_spec import parse_step_spec
from worker.runtimes import runtimes
from worker.runtimes.kubernetes.runtime import KubernetesRuntime


@dataclass
class Driver:
    """One runtime, one run; `words` say what a step does, see tests/support/fake_runtime.py."""

    runtime: Runtime
    reopen: Callable[[], Runtime]
    words_to_node: Callable[[Sequence[str]], dict[str, Any]]
    run_id: str = field(default_factory=lambda: f"run-{secrets.token_hex(6)}")
    files: dict[str, str] = field(default_factory=lambda: {"tasks/hello.sh": "echo hello\n"})

    successors: list[Runtime] = field(default_factory=list)

    def again(self) -> Runtime:
        """The same runtime as a successor process sees it."""
        self.successors.append(self.reopen())
        return self.successors[-1]

    async def open(self, stack: AsyncExitStack) -> None:
        """Start what the runtime needs."""

    async def close(self) -> None:
        await self.runtime.release(self.run_id, steps.owner())
        for each in (*self.successors, self.runtime):
            await each.close()

    def launch(
        self, *words: str, node_id: str = "step", attempt: int = 1, **changes: Any
    ) -> Launch:
        node = self.words_to_node(words) | changes.pop("node", {})
        body = steps.claim(self.run_id, node_id, attempt=attempt, node=node, **changes)
        return self.launch_of(body)

    def launch_of(self, body: dict[str, Any]) -> Launch:
        return launch_of(
            parse_step_spec(body),
            LaunchRules(),
            steps.owner(),
            folders=lambda name, workspace: self.runtime.folders(name=name, workspace=workspace),
            fetch=self._fetch,
            started_at="2026-01-02T03:04:05.123Z",
        )

    async def _fetch(self) -> bytes:
        return steps.content(self.files) if self.files else b""

    async def start(self, *words: str, **changes: Any) -> Unit:
        return await self.runtime.start(self.launch(*words, **changes))

    async def records(self, unit: Unit, *, after: int = 0) -> list[OutputRecord]:
        return [each async for batch in self.runtime.output(unit, after=after) for each in batch]

    async def texts(self, unit: Unit) -> list[str]:
        return [record.data.decode() for record in await self.records(unit)]


@dataclass(kw_only=True)
class LocalClusterDriver(Driver):
    """The runtime `kubernetes` on an API server of these tests, whose pods are processes."""

    cluster: LocalCluster
    port: int

    async def open(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(self.cluster.serve(self.port))


_MARKS = {"docker": [pytest.mark.docker], "kubernetes": [pytest.mark.cluster]}
_SHELL = {
    "out": "echo '{}'",
    "err": "echo '{}' >&2",
    "sleep": "sleep {}",
    "exit": "exit {}",
    "serve": "while :; do sleep 0.1; done",
    "busy": "while :; do :; done",
    "env": 'echo "${}"',
}


def shell_node(words: Sequence[str]) -> dict[str, Any]:
    return {"commands": [_shell(word) for word in words]}


def _shell(word: str) -> str:
    verb, _, rest = word.partition(":")
    if verb == "write":
        name, _, text = rest.partition("=")
        path = f'"$PARTITA_ARTIFACTS_DIR/{name}"'
        return f"mkdir -p \"$(dirname {path})\"; printf %s '{text}' > {path}"
    if verb in ("drop", "share"):  # in the directory that it starts in, and in the shared one
        name, _, text = rest.partition("=")
        folder = "." if verb == "drop" else '"$PARTITA_WORKSPACE_DIR"'
        return f"printf %s '{text}' > {folder}/{name}"
    return _SHELL.get(verb, rest).replace("{}", rest)


def fake_node(words: Sequence[str]) -> dict[str, Any]:
    return {"command": list(words)}


def _fake(_path: Path) -> Driver:
    runtime = FakeRuntime()
    return Driver(runtime=runtime, reopen=lambda: runtime, words_to_node=fake_node)


def _options(name: str, path: Path) -> RuntimeOptions:
    cluster = ClusterOptions()
    if name == "kubernetes":
        cluster = ClusterOptions(kubeconfig=parts.need_cluster())
    return RuntimeOptions(state_dir=path, installation_id=steps.INSTALLATION, cluster=cluster)


def plugin_driver(name: str) -> Callable[[Path], Driver]:
    def make(path: Path) -> Driver:
        options = _options(name, path)
        return Driver(
            runtime=runtimes[name].open(options),
            reopen=lambda: runtimes[name].open(options),
            words_to_node=shell_node,
        )

    return make


def local_cluster_driver(
    path: Path, faults: Faults | None = None, **options: Any
) -> LocalClusterDriver:
    port = servers.free_port()
    cluster = ClusterOptions(server=f"http://127.0.0.1:{port}", namespace="apps")
    settings = RuntimeOptions(state_dir=path, installation_id=steps.INSTALLATION, cluster=cluster)

    def opened() -> KubernetesRuntime:
        return KubernetesRuntime(settings, **options)

    return LocalClusterDriver(
        runtime=opened(),
        reopen=opened,
        words_to_node=shell_node,
        cluster=LocalCluster(path / "pods", faults),
        port=port,
    )


@pytest.fixture(
    params=[
        pytest.param(_fake, id="fake"),
        pytest.param(local_cluster_driver, id="kubernetes-local"),
        *(
            pytest.param(plugin_driver(name), id=name, marks=_MARKS.get(name, ()))
            for name in runtimes
        ),
    ]
)
async def driver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Driver]:
    made: Driver = request.param(tmp_path)
    async with AsyncExitStack() as stack:
        await made.open(stack)
        if not await made.runtime.ping():
            pytest.fail("the container runtime does not answer; is DOCKER_HOST set?")
        yield made
        await made.close()


@pytest.fixture
async def docker_driver(tmp_path: Path) -> AsyncGenerator[Driver]:
    parts.need("TEST_DOCKER_HOST", "a Docker engine")
    made = plugin_driver("docker")(tmp_path)
    yield made
    await made.close()
