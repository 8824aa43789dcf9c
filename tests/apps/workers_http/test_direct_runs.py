"""Jobs of callers who talk to a worker themselves (reference: control-plane 15.3, `run`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import steps
from worker.direct_runs import DirectRunRecord, DirectRuns
from worker.domain.runtime import RuntimeOptions
from worker.domain.step_spec import parse_step_spec
from worker.runtimes.process.runtime import ProcessRuntime
from worker.supervisor.attempt import SupervisorOptions

RUN = "run-0123456789ab"


async def told(folder: Path, node: dict[str, Any], files: bytes | None) -> list[DirectRunRecord]:
    """What a worker of child processes answers to one job, record by record."""
    runtime = ProcessRuntime(RuntimeOptions(state_dir=folder, installation_id=steps.INSTALLATION))
    direct = DirectRuns(runtime, SupervisorOptions(owner=steps.owner(), state_dir=folder))
    try:
        spec = parse_step_spec(steps.claim(RUN, "call", node=node))
        return [record async for record in await direct.start(spec, files)]
    finally:
        await direct.close()
        await runtime.release(RUN, steps.owner())
        await runtime.close()


async def test_a_node_without_a_file_runs_without_content(tmp_path: Path) -> None:
    node = {"command": ["sh", "-c", "echo here; ls"]}

    records = await told(tmp_path, node, files=None)

    assert [each["line"]["text"] for each in records if each["type"] == "log"] == ["here"]
    assert (records[-1]["status"], records[-1].get("reason")) == ("succeeded", None)


async def test_a_node_with_a_file_runs_what_came_with_it(tmp_path: Path) -> None:
    node = {"file": "tasks/hello.sh"}

    records = await told(tmp_path, node, steps.content({"tasks/hello.sh": "echo hello\n"}))

    assert [each["line"]["text"] for each in records if each["type"] == "log"] == ["hello"]
    assert records[-1]["status"] == "succeeded"
