"""One runner, several engines."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.agents.api import Agent, list_agents
from apps.executions.services.admission import dispatch
from apps.executions.services.sweep import sweep
from apps.workers import runner, supervisor_setup
from apps.workers.runner import Runner
from tests.apps.executions.runs import node, queued_run
from tests.support.processes import until
from tests.support.tls_engine import Authority
from worker import host
from worker.runtimes.docker.runtime import DockerRuntime

pytestmark = pytest.mark.django_db(transaction=True)
DEAD = "tcp://127.0.0.1:9"
SEVERAL = f"""\
agents:
  - {{agentId: here, name: Here, type: local, default: true}}
  - {{agentId: beside, name: Beside, type: local, dockerSocket: /run/other.sock}}
  - {{agentId: far, name: Far, type: remote-docker, hostUrl: "{DEAD}"}}
  - {{agentId: off, name: Off, type: remote-docker, hostUrl: "{DEAD}", enabled: false}}
  - {{agentId: edge, name: Edge, type: remote-agent}}
"""


@pytest.fixture(autouse=True)
def _settings(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path / "data"
    settings.PLATFORM_SETTINGS_FILE = tmp_path / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(SEVERAL)


def _served(runtime: str) -> dict[str, tuple[str, ...]]:
    return {post.agent_id: post.backends for post in supervisor_setup.set_up_supervisors(runtime)}


def test_each_engine_has_a_supervisor_of_its_own() -> None:
    name = f"runner:{host.host_name()}"

    assert _served("docker") == {
        name: ("here",),
        f"{name}:beside": ("beside",),
        f"{name}:far": ("far",),
    }


def test_a_socket_is_no_engine_where_steps_are_processes() -> None:
    name = f"runner:{host.host_name()}"

    assert _served("process") == {name: ("here", "beside"), f"{name}:far": ("far",)}


def test_what_others_reach_too_is_shared_and_has_its_own_folder() -> None:
    found = {post.backends[0]: post for post in supervisor_setup.set_up_supervisors("docker")}

    assert {name: post.runtime.shared for name, post in found.items()} == {
        "here": False,
        "beside": False,
        "far": True,
    }
    assert len({post.state_dir for post in found.values()}) == 3
    assert all(isinstance(post.runtime, DockerRuntime) for post in found.values())


def test_a_backend_whose_keys_cannot_be_read_leaves_the_others(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Invariants 19 and 37."""
    key = Authority().pair("partita").key.replace("\n", "\\n")
    settings.PLATFORM_SETTINGS_FILE.write_text(
        f'{SEVERAL}  - {{agentId: odd, name: Odd, type: remote-docker, hostUrl: "{DEAD}",\n'
        f'     tlsCert: "no certificate", tlsKey: "{key}"}}\n'
    )

    served = _served("docker").values()

    assert ("odd",) not in served
    assert ("far",) in served
    assert "odd cannot be served" in caplog.text
    assert key.split("\\n")[1] not in caplog.text


def _until(holds: Callable[[dict[str, Agent]], bool], within_s: float = 20) -> dict[str, Agent]:
    deadline = time.monotonic() + within_s
    while not holds(found := {agent.agent_id: agent for agent in list_agents()}):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@pytest.mark.timed
def test_an_engine_that_is_away_holds_up_neither_the_others_nor_the_end() -> None:
    """Invariant 37."""
    runner = Runner("process")
    thread = threading.Thread(target=runner.run)
    thread.start()
    name = f"runner:{host.host_name()}"
    try:
        found = _until(lambda agents: name in agents)
    finally:
        began = time.monotonic()
        runner.stop()
        thread.join(20)

    assert found[name].runtime_available
    assert found[name].backends == ("here", "beside")
    assert f"{name}:far" not in found
    assert not thread.is_alive()
    assert time.monotonic() - began < 10


def test_an_engine_whose_supervisor_fails_takes_nothing_from_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Invariant 37; the failure ends the runner's work with an error when it is stopped."""
    running = threading.Event()

    class Brittle:
        def __init__(self, control_plane: Any, _runtime: Any, options: Any) -> None:
            self._agent_id = options.owner.orchestrator_id
            self._stopping = asyncio.Event()

        async def run(self) -> None:
            if self._agent_id.endswith(":far"):
                raise RuntimeError("no such colour")
            await asyncio.sleep(0.05)
            running.set()
            await self._stopping.wait()

        def stop(self) -> None:
            self._stopping.set()

    monkeypatch.setattr(runner, "Supervisor", Brittle)
    whole = Runner("docker")

    def stop_when_running() -> None:
        running.wait(30)
        whole.stop()

    stopper = threading.Thread(target=stop_when_running)
    stopper.start()

    with pytest.raises(RuntimeError, match="no such colour"):
        whole.run()

    stopper.join()
    assert running.is_set()
    assert f"runner:{host.host_name()}:far has failed" in caplog.text


# The settings change while it runs

HERE = "  - {agentId: here, name: Here, type: local}\n"
SECOND = "  - {agentId: second, name: Second, type: local}\n"
FAR = f'  - {{agentId: far, name: Far, type: remote-docker, hostUrl: "{DEAD}"}}\n'
ELSEWHERE = FAR.replace(":9", ":10")


@pytest.fixture
def running(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner of child processes that began with the backend `here` alone."""
    monkeypatch.setattr(runner, "POLL_INTERVAL_S", 0.1)
    _list(settings, HERE)
    made = Runner("process")
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        _until(lambda agents: any(each.backends == ("here",) for each in agents.values()))
        yield made
    finally:
        made.stop()
        thread.join(20)
    assert not thread.is_alive()


def _list(settings: Any, *agents: str) -> None:
    settings.PLATFORM_SETTINGS_FILE.write_text("agents:\n" + "".join(agents))


def test_a_backend_that_is_added_while_it_runs_gets_its_steps(
    settings: Any, running: Runner
) -> None:
    _list(settings, SECOND, HERE)  # the first one is what runs are launched on
    run = queued_run(node("a", commands=["true"]), files={"a.txt": b"a"})
    assert run.row.backend_id == "second"

    dispatch()
    deadline = time.monotonic() + 20
    while run.status != "Healthy":
        sweep()
        assert time.monotonic() < deadline, (run.status, run.statuses)
        time.sleep(0.1)


def test_a_backend_that_is_taken_out_gets_no_more_steps(settings: Any, running: Runner) -> None:
    name = f"runner:{host.host_name()}"
    _list(settings, SECOND)
    _until(lambda agents: agents[name].backends == ("second",))

    settings.PLATFORM_SETTINGS_FILE.write_text("mode: local\n")

    found = _until(lambda agents: agents[name].backends == ("local-docker",))
    assert found[name].is_online(found[name].last_heartbeat_at)


@pytest.mark.slow
def test_an_engine_is_taken_up_changed_and_let_go_without_a_restart(
    settings: Any, running: Runner
) -> None:
    name = f"runner:{host.host_name()}:far"

    _list(settings, HERE, FAR)
    _wait(lambda: name in running._running)
    first = running._running[name].setup
    _list(settings, HERE, ELSEWHERE)
    _wait(lambda: name in running._running and running._running[name].setup is not first)
    second = running._running[name].setup
    _list(settings, HERE)
    _wait(lambda: name not in running._running)

    urls = [setup.spec.engine and setup.spec.engine.host_url for setup in (first, second)]
    assert urls == [DEAD, DEAD.replace(":9", ":10")]
    assert list(running._running) == [f"runner:{host.host_name()}"]


def test_an_engine_that_cannot_be_set_up_is_told_of_once(
    settings: Any, running: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    odd = FAR.replace("hostUrl", 'tlsCert: "no certificate", hostUrl')

    _list(settings, HERE, odd)
    _wait(lambda: "cannot be served" in caplog.text)
    time.sleep(0.5)  # several looks

    assert caplog.text.count("cannot be served") == 1


def _wait(holds: Callable[[], bool]) -> None:
    until(holds, within_s=30, what="the settings are followed")
