"""Where a shell in a pod is opened: in the step, or beside it, by which image."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.unit.worker.test_pod_spec import RULES, launch
from tests.unit.worker.test_pod_spec import pod as body_of
from worker.domain.runtime import ShellUnavailable
from worker.domain.shells import ShellRequest
from worker.runtimes.kubernetes.client import ClusterClient
from worker.runtimes.kubernetes.exec_stream import STDOUT, ExecResult
from worker.runtimes.kubernetes.objects import KEEPER, STEP_CONTAINER, Pod
from worker.runtimes.kubernetes.pod_shells import (
    HELPER_NOTICE,
    NOTICE,
    PodShells,
    beside_step,
    container_name,
)
from worker.runtimes.kubernetes.pod_watch import PodWatch
from worker.runtimes.kubernetes.terminal import STARTED

NAME = "partita-run-1-api-a1"
HELPER_IMAGE = RULES.helper_image
RUNNING: dict[str, Any] = {"running": {}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 0}}
NO_SHELL: dict[str, Any] = {
    "terminated": {"exitCode": 128, "message": 'exec: "sh": file not found in $PATH'}
}
BESIDE = container_name("one")


class Connection:
    """A terminal whose program has started."""

    async def recv(self, *, decode: bool) -> bytes:
        del decode
        return bytes([STDOUT]) + STARTED

    async def send(self, data: bytes) -> None:
        """Take what is typed."""

    async def close(self) -> None:
        """Do nothing."""


@dataclass
class Cluster:
    """One pod, with the images that have a `sh`; both the client and the watch of it."""

    step: Mapping[str, Any]
    shells_of: Sequence[str]
    body: dict[str, Any]
    added: list[dict[str, Any]] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    @property
    def images(self) -> dict[str, str]:
        found = {each["name"]: each["image"] for each in self.body["spec"]["containers"]}
        return found | {each["name"]: each["image"] for each in self.added}

    def pod(self) -> Pod:
        status = {
            "containerStatuses": [
                {"name": STEP_CONTAINER, "state": self.step},
                {"name": KEEPER, "state": RUNNING},
            ],
            "ephemeralContainerStatuses": [
                {"name": each["name"], "state": self._state_of(each)} for each in self.added
            ],
        }
        return msgspec.convert({"metadata": {"name": NAME}, "status": status}, Pod)

    def _state_of(self, container: Mapping[str, Any]) -> Mapping[str, Any]:
        return RUNNING if container["image"] in self.shells_of else NO_SHELL

    async def run(self, pod: str, container: str, argv: Sequence[str], **_more: Any) -> ExecResult:
        assert pod == NAME
        if not argv[2].startswith("exit "):
            self.ended.append(container)
            return ExecResult(exit_code=0)
        return ExecResult(exit_code=44 if self.images[container] in self.shells_of else 127)

    async def get(self, kind: str, name: str, form: type[Any]) -> dict[str, Any]:
        assert (kind, name, form) == ("pods", NAME, dict)
        return self.body

    async def patch(self, kind: str, name: str, body: Mapping[str, Any], *, part: str) -> None:
        assert (kind, name, part) == ("pods", NAME, "ephemeralcontainers")
        self.added = list(body["spec"]["ephemeralContainers"])
        self.body["spec"]["ephemeralContainers"] = self.added

    async def open_terminal(self, pod: str, container: str, argv: Sequence[str]) -> Connection:
        assert (pod, argv[0]) == (NAME, "sh")
        self.opened.append(container)
        return Connection()

    async def until(self, name: str, reached: Callable[[Pod], bool]) -> Pod:
        assert name == NAME
        assert reached(self.pod())
        return self.pod()

    def shells(self, path: Path) -> PodShells:
        return PodShells(cast("ClusterClient", self), cast("PodWatch", self), path)


def cluster(step: Mapping[str, Any], *shells_of: str) -> Cluster:
    return Cluster(step, shells_of, body_of(launch(node={"image": "shop/api:2"})))


@pytest.mark.parametrize(
    ("step", "shells_of", "container", "notice"),
    [
        (RUNNING, ["shop/api:2", HELPER_IMAGE], STEP_CONTAINER, ""),
        (ENDED, ["shop/api:2", HELPER_IMAGE], BESIDE, NOTICE),
        (RUNNING, [HELPER_IMAGE], f"{BESIDE}-helper", HELPER_NOTICE),
        (ENDED, [HELPER_IMAGE], f"{BESIDE}-helper", HELPER_NOTICE),
    ],
)
async def test_a_shell_is_opened_where_there_is_a_sh(
    tmp_path: Path, step: Mapping[str, Any], shells_of: list[str], container: str, notice: str
) -> None:
    made = cluster(step, *shells_of)

    shell = await made.shells(tmp_path).open(made.pod(), ShellRequest(shell_id="one"))

    assert made.opened == [container]
    assert shell.notice == notice
    record = json.loads((tmp_path / "pod-shells" / "one.json").read_text())
    assert record["container"] == container
    await shell.close()
    assert made.ended == [container]
    assert not list((tmp_path / "pod-shells").iterdir())


@pytest.mark.parametrize("step", [RUNNING, ENDED])
async def test_without_any_sh_a_shell_is_refused_and_leaves_no_record(
    tmp_path: Path, step: Mapping[str, Any]
) -> None:
    made = cluster(step)

    with pytest.raises(ShellUnavailable, match="neither the image of the step nor the helper"):
        await made.shells(tmp_path).open(made.pod(), ShellRequest(shell_id="one"))

    assert made.opened == []
    assert not (tmp_path / "pod-shells").exists()


def test_a_container_beside_the_step_has_what_the_step_has_but_no_part_of_a_volume() -> None:
    spec = body_of(launch(node={"image": "shop/api:2", "file": "tasks/x.sh"}))["spec"]
    step = spec["containers"][0]
    step["volumeMounts"][2]["subPath"] = "run-1"

    made = beside_step(spec, "beside", "one", image_of=KEEPER)

    assert made["image"] == HELPER_IMAGE
    assert made["envFrom"] == step["envFrom"]
    assert made["securityContext"] == step["securityContext"]
    assert made["workingDir"] == step["workingDir"]
    assert made["volumeMounts"] == step["volumeMounts"][:2]
