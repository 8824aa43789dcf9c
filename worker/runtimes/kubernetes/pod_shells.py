"""Shells in pods: an exec where the step runs, else a container beside it.

A container that has ended runs nothing, and one of an image without `sh` has no shell. The pod
takes a further ("ephemeral") container with the step's variables and directories: of the step's
image, or of the helper image if that has no `sh`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import (
    STEP_DIRECTORY,
    RuntimeUnavailable,
    ShellUnavailable,
    UnitLost,
)
from worker.domain.shells import KILL_MARKED, MARK, TERMINAL, Shell, ShellRequest
from worker.runtimes.kubernetes.client import (
    ClusterClient,
    ClusterError,
    Gone,
    RequestDenied,
    StreamBroken,
)
from worker.runtimes.kubernetes.objects import KEEPER, STEP_CONTAINER, Pod
from worker.runtimes.kubernetes.pod_spec import Body
from worker.runtimes.kubernetes.pod_watch import PodWatch
from worker.runtimes.kubernetes.terminal import PodTerminal

log = logging.getLogger("partita.workers")
NOTICE: Final = (
    "This is a new container beside the ended step: its image, its variables, and the files of its "
    "directories (/partita/…) as it left them. Files that it changed elsewhere are gone."
)
HELPER_NOTICE: Final = (
    "The image of the step has no `sh`: this is a container of the helper image beside it, with "
    "its variables and the files of its directories (/partita/…). Its processes are in /proc, and "
    "what else its container holds is below /proc/PID/root while it runs, as far as rights allow."
)
_START_S: Final = 60.0
_HAS_SHELL: Final = 44
_ENTER: Final = f"""printf '\\001'; [ "$PWD" != / ] || cd {STEP_DIRECTORY}
export TERM="$1" {MARK}="$2"; shift 2
[ $# -eq 0 ] || exec "$@"
command -v bash >/dev/null 2>&1 && exec bash
exec sh"""
_WAIT: Final = 'trap "exit 0" TERM HUP; while :; do sleep 3600 & wait $!; done'
_NO_SHELL: Final = "neither the image of the step nor the helper image has a `sh`"


class _ShellMissing(Exception):
    """The image of a container has no `sh`."""


class PodShells:
    """Opens shells, and ends what an earlier process left: each is recorded in `state_dir`."""

    def __init__(self, client: ClusterClient, pods: PodWatch, state_dir: Path) -> None:
        self._client = client
        self._pods = pods
        self._records = state_dir / "pod-shells"
        self._open: set[str] = set()

    async def open(self, pod: Pod, request: ShellRequest) -> Shell:
        """Raises ShellUnavailable, UnitLost, RuntimeUnavailable."""
        self._open.add(request.shell_id)
        try:
            with _cluster_errors(pod):
                return await self._open_somewhere(pod, request)
        except BaseException:
            self._open.discard(request.shell_id)
            raise

    async def _open_somewhere(self, pod: Pod, request: ShellRequest) -> PodTerminal:
        """Open it in the step, or beside it. Raises ClusterError, ShellUnavailable."""
        beside = container_name(request.shell_id)
        with contextlib.suppress(_ShellMissing):
            if pod.step.running:
                return await self._enter(pod, STEP_CONTAINER, request, notice="")
            await self._add_container(pod, beside, request, image_of=STEP_CONTAINER)
            return await self._enter(pod, beside, request, notice=NOTICE)
        helper = f"{beside}-helper"
        try:
            await self._add_container(pod, helper, request, image_of=KEEPER)
            return await self._enter(pod, helper, request, notice=HELPER_NOTICE)
        except _ShellMissing:
            raise ShellUnavailable(_NO_SHELL) from None

    async def _enter(
        self, pod: Pod, container: str, request: ShellRequest, *, notice: str
    ) -> PodTerminal:
        """Start the program on a terminal; end what it began if that fails.

        Raises ClusterError, _ShellMissing, ShellUnavailable.
        """
        try:
            await self._require_shell(pod, container)
            self._record(pod, container, request.shell_id)
            return await self._start(pod, container, request, notice=notice)
        except _ShellMissing:  # nothing was begun
            raise
        except BaseException:
            await self._end(pod.name, container, request.shell_id)
            raise

    async def _require_shell(self, pod: Pod, container: str) -> None:
        """Raises _ShellMissing if the container has no `sh`; ClusterError."""
        tried = await self._client.run(pod.name, container, ["sh", "-c", f"exit {_HAS_SHELL}"])
        if tried.exit_code != _HAS_SHELL:
            raise _ShellMissing

    async def _start(
        self, pod: Pod, container: str, request: ShellRequest, *, notice: str
    ) -> PodTerminal:
        argv = ["sh", "-c", _ENTER, "sh", TERMINAL, request.shell_id, *request.command]
        shell = PodTerminal(
            await self._client.open_terminal(pod.name, container, argv),
            notice=notice,
            end=lambda: self._end(pod.name, container, request.shell_id),
        )
        try:
            await shell.resize(columns=request.columns, rows=request.rows)
            await shell.until_started()
        except TimeoutError:
            await shell.close()
            raise StreamBroken("the program did not start in time") from None
        return shell

    async def _add_container(
        self, pod: Pod, name: str, request: ShellRequest, *, image_of: str
    ) -> None:
        """Start a container beside the step. Raises ClusterError, _ShellMissing, ShellUnavailable.

        `image_of`: the container of the pod whose image it has.
        """
        if pod.keeper is None or pod.is_going:
            raise ShellUnavailable("the pod of the step has ended: run the step again")
        body = await self._client.get("pods", pod.name, dict)
        spec = body["spec"]
        made = beside_step(spec, name, request.shell_id, image_of=image_of)
        change = {"spec": {"ephemeralContainers": [*spec.get("ephemeralContainers", ()), made]}}
        await self._client.patch("pods", pod.name, change, part="ephemeralcontainers")
        try:
            await self._until_running(pod, name)
        except _ShellMissing:  # it never ran
            raise
        except BaseException:
            await self._end(pod.name, name, request.shell_id)
            raise

    async def _until_running(self, pod: Pod, name: str) -> None:
        def is_over(each: Pod) -> bool:
            state = each.state_of(name)
            return bool(state.running or state.terminated)

        try:
            async with asyncio.timeout(_START_S):
                found = await self._pods.until(pod.name, is_over)
        except TimeoutError:
            raise ShellUnavailable(
                f"the container of the shell did not start within {_START_S:g} s"
            ) from None
        if found is None:
            raise UnitLost(f"the pod {pod.name} is gone")
        if ended := found.state_of(name).terminated:
            if "no such file" in ended.message or "not found" in ended.message:
                raise _ShellMissing
            raise ShellUnavailable(ended.message or "the shell ended at once")

    # The end

    def _record(self, pod: Pod, container: str, shell_id: str) -> None:
        self._records.mkdir(parents=True, exist_ok=True)
        owner = pod.metadata.annotations.get(ownership.ORCHESTRATOR, "")
        scratch = self._records / f"{shell_id}.new"
        scratch.write_text(json.dumps({"pod": pod.name, "container": container, "owner": owner}))
        scratch.replace(scratch.with_suffix(".json"))

    async def _end(self, pod: str, container: str, shell_id: str) -> None:
        """Hang up and kill what has the mark. Raises RuntimeUnavailable."""
        argv = ["sh", "-c", KILL_MARKED, "sh", f"{MARK}={shell_id}"]
        try:
            result = await self._client.run(pod, container, argv)
            if result.exit_code:
                log.warning("shell %s: processes may be left in %s", shell_id, pod)
        except (Gone, RequestDenied):
            log.info("shell %s ended with its container in %s", shell_id, pod)
        except StreamBroken as error:
            known = await self._pods.read(pod) if container == STEP_CONTAINER else None
            if known and known.step.running:
                raise RuntimeUnavailable(f"the shell cannot be ended: {error}") from error
        finally:
            self._open.discard(shell_id)
        (self._records / f"{shell_id}.json").unlink(missing_ok=True)

    async def end_earlier(self, owner: UnitOwner) -> int:
        """End the owner's shells that this process has not open; return how many."""
        count = 0
        for path in sorted(self._records.glob("*.json")):
            record = json.loads(path.read_bytes())
            if record["owner"] == owner.orchestrator_id and path.stem not in self._open:
                await self._end(record["pod"], record["container"], path.stem)
                count += 1
        return count


@contextlib.contextmanager
def _cluster_errors(pod: Pod) -> Iterator[None]:
    """Translate what goes wrong while a shell is opened to the port's errors."""
    try:
        yield
    except Gone as error:
        raise UnitLost(f"the pod {pod.name} is gone") from error
    except RequestDenied as error:
        raise ShellUnavailable(f"the cluster refused the shell: {error}") from error
    except ClusterError as error:
        raise RuntimeUnavailable(f"the shell cannot be opened: {error}") from error


def container_name(shell_id: str) -> str:
    return f"shell-{hashlib.sha256(shell_id.encode()).hexdigest()[:16]}"


def beside_step(spec: Mapping[str, Any], name: str, shell_id: str, *, image_of: str) -> Body:
    """Return a container beside the step, of the image of a container: its variables, directories.

    A directory on a claim is left out: such containers mount no part of a volume.
    """
    containers = {each["name"]: each for each in spec["containers"]}
    step = containers[STEP_CONTAINER]
    taken = ("envFrom", "securityContext", "workingDir")
    return {
        "name": name,
        "image": containers[image_of]["image"],
        **{key: step[key] for key in taken if key in step},
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _WAIT],
        "env": [{"name": MARK, "value": shell_id}],
        "volumeMounts": [each for each in step["volumeMounts"] if "subPath" not in each],
    }
