"""What a cluster lacks for running steps: access, rights, namespace, pods, claim, images.

Nothing is changed: pods are created with `dryRun`. Only a pull starts a pod, and removes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import httpx
import msgspec

from worker.domain.runtime import (
    Launch,
    RuntimeOptions,
    RuntimeUnavailable,
    RuntimeUnusable,
    SharedDirectory,
    UnitLimits,
    UnitProgram,
)
from worker.runtimes.kubernetes import pod_spec, reasons
from worker.runtimes.kubernetes.access import open_access
from worker.runtimes.kubernetes.client import ClusterClient, ClusterError, Gone, RequestDenied
from worker.runtimes.kubernetes.objects import STEP_CONTAINER, Meta, Pod
from worker.runtimes.kubernetes.pod_spec import Body, PodExtras
from worker.runtimes.kubernetes.pod_starts import rules_of
from worker.runtimes.kubernetes.rights import CREATE_PODS, RIGHTS, Right

State = Literal["ok", "missing", "unknown"]
PULL_S: Final = 120.0
_ANSWER_S: Final = 5.0
_LOOK_EVERY_S: Final = 1.0
_ENFORCED: Final = "pod-security.kubernetes.io/enforce"
_ADVICE: Final = f"label the namespace {_ENFORCED}=baseline"
_SHARED: Final = "ReadWriteMany"
_PULLED: Final = frozenset({"CreateContainerError", "RunContainerError"})
_DRY_RUN: Final = {"dryRun": "All"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked. `unknown`: the account may not see it, or it was not tried.

    `name` is stable: access, api, account, namespace, right, pod-security, pod, claim, pull.
    """

    name: str
    state: State
    subject: str = ""
    detail: str = ""


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _ReviewStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _User = _User()
    allowed: bool = False
    reason: str = ""


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


class _Namespace(msgspec.Struct, frozen=True):
    metadata: Meta


class _ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] = ()


class _ClaimStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class _VolumeClaim(msgspec.Struct, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


async def check_cluster(
    options: RuntimeOptions,
    *,
    pulls: Sequence[str] = (),
    pull_s: float = PULL_S,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncGenerator[Check]:
    """Yield what is checked, in the order in which things depend on each other.

    It ends after the first check if the cluster cannot be reached. `pulls`: images that a pod of
    the namespace shall pull, each within `pull_s`.
    """
    try:
        access, namespace = open_access(options)
    except RuntimeUnusable as error:
        yield Check(name="access", state="missing", detail=str(error))
        return
    client = ClusterClient(access, namespace, unavailable_after_s=_ANSWER_S, transport=transport)
    try:
        checker = _NamespaceChecker(client, options)
        async with contextlib.aclosing(checker.checks()) as found:
            async for each in found:
                yield each
        for image in pulls if checker.may_create_pods else ():
            yield await checker.check_pull(image, pull_s)
    except RuntimeUnavailable as error:
        yield Check(name="api", state="missing", subject=access.server, detail=str(error))
    finally:
        await client.close()


class _NamespaceChecker:
    """The checks of one namespace; each raises RuntimeUnavailable if there is no answer."""

    def __init__(self, client: ClusterClient, options: RuntimeOptions) -> None:
        self._client = client
        self._rules = rules_of(options)
        self.may_create_pods = False

    async def checks(self) -> AsyncGenerator[Check]:
        version = await self._client.request("GET", "/version", _Version)
        server = str(self._client.server).rstrip("/")
        yield Check(name="api", state="ok", subject=server, detail=version.git_version)
        yield await self._check_account()
        async for each in self._check_namespace():
            yield each
        for right in RIGHTS:
            yield await self._check_right(right)
        yield await self._check_pod()
        if self._rules.claim:
            yield await self._check_claim()

    async def _check_account(self) -> Check:
        try:
            found = await self._review("authentication", "SelfSubjectReview", {})
        except ClusterError as error:
            return Check(name="account", state="unknown", detail=str(error))
        return Check(name="account", state="ok", subject=found.status.user_info.username)

    async def _check_namespace(self) -> AsyncGenerator[Check]:
        name = self._client.namespace
        try:
            found = await self._client.request("GET", f"/api/v1/namespaces/{name}", _Namespace)
        except Gone:
            detail = f"there is no such namespace: kubectl create namespace {name}"
            yield Check(name="namespace", state="missing", subject=name, detail=detail)
        except RequestDenied:
            detail = "the account may not read namespaces, and does not need to"
            yield Check(name="namespace", state="unknown", subject=name, detail=detail)
        else:
            yield Check(name="namespace", state="ok", subject=name)
            yield _pod_security(found.metadata.labels.get(_ENFORCED, ""))

    async def _check_right(self, right: Right) -> Check:
        spec = {"resourceAttributes": right.attributes(self._client.namespace)}
        try:
            found = await self._review("authorization", "SelfSubjectAccessReview", {"spec": spec})
        except ClusterError as error:
            return Check(name="right", state="unknown", subject=str(right), detail=str(error))
        if right == CREATE_PODS:
            self.may_create_pods = found.status.allowed
        if found.status.allowed:
            return Check(name="right", state="ok", subject=str(right))
        detail = f"the account may not {right} in {self._client.namespace}: add it to its Role"
        return Check(name="right", state="missing", subject=str(right), detail=detail)

    async def _review(self, group: str, kind: str, body: Body) -> _Review:
        path = f"/apis/{group}.k8s.io/v1/{kind.lower()}s"
        head = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind}
        return await self._client.request("POST", path, _Review, body={**head, **body})

    async def _check_pod(self) -> Check:
        """Have the cluster check the pod of a step: Pod Security, quota, limits, webhooks."""
        subject = "of a step"
        if not self.may_create_pods:
            detail = f"not tried without the right to {CREATE_PODS}"
            return Check(name="pod", state="unknown", subject=subject, detail=detail)
        body = pod_spec.pod(_sample_launch(), self._rules, PodExtras(hosts={}))
        try:
            await self._client.request(
                "POST", self._client.path("pods"), Pod, body=body, query=_DRY_RUN
            )
        except ClusterError as error:
            detail = _refusal(error)
            return Check(name="pod", state="missing", subject=subject, detail=detail)
        detail = "the cluster would accept it"
        return Check(name="pod", state="ok", subject=subject, detail=detail)

    async def _check_claim(self) -> Check:
        name = self._rules.claim
        state: State = "missing"
        try:
            found = await self._client.get("persistentvolumeclaims", name, _VolumeClaim)
        except Gone:
            detail = f"there is no claim of this name in {self._client.namespace}"
        except RequestDenied:
            state, detail = "unknown", "the account may not read claims, and does not need to"
        else:
            state, detail = _claim_state(found)
        return Check(name="claim", state=state, subject=name, detail=detail)

    async def check_pull(self, image: str, limit_s: float) -> Check:
        """Start a pod of the image, and remove it as soon as its image is there."""
        body = _pull_pod(image)
        state: State = "missing"
        try:
            name = (await self._client.create("pods", body, Pod)).name
        except ClusterError as error:
            return Check(name="pull", state=state, subject=image, detail=_refusal(error))
        problems: list[str] = []
        try:
            async with asyncio.timeout(limit_s):
                await self._wait_for_image(name, problems)
            state, detail = "ok", ""
        except (ClusterError, TimeoutError) as error:
            waited = f"the image was not there within {limit_s:g} s"
            detail = (problems or [str(error) or waited])[-1]
        finally:
            with contextlib.suppress(Gone):
                await self._client.delete("pods", name)
        return Check(name="pull", state=state, subject=image, detail=detail)

    async def _wait_for_image(self, name: str, problems: list[str]) -> None:
        """Return once the image is there, whatever its program does. Raises ClusterError.

        `problems`: gets why it is not there yet.
        """
        while True:
            pod = await self._client.get("pods", name, Pod)
            waiting = pod.step.waiting
            if pod.step.running or pod.step.terminated or (waiting and waiting.reason in _PULLED):
                return
            if problem := reasons.pending_problem(pod):
                problems.append(problem.sentence)
                if problem.is_final:
                    raise ClusterError(problem.sentence)
            await asyncio.sleep(_LOOK_EVERY_S)


def _pod_security(enforced: str) -> Check:
    """Check the level of the namespace, which the API server enforces."""
    if enforced == "restricted":
        detail = f"pods of steps do not satisfy restricted: {_ADVICE}"
        return Check(name="pod-security", state="missing", subject=enforced, detail=detail)
    detail = "" if enforced else f"the namespace has no level of its own: {_ADVICE}"
    return Check(name="pod-security", state="ok", subject=enforced or "none", detail=detail)


def _refusal(error: ClusterError) -> str:
    """Return the cluster's own words, and what helps against Pod Security."""
    sentence = reasons.refusal_problem(str(error)).sentence
    return f"{sentence}; {_ADVICE}" if "violates PodSecurity" in sentence else sentence


def _claim_state(claim: _VolumeClaim) -> tuple[State, str]:
    modes, phase = claim.spec.access_modes, claim.status.phase
    if _SHARED not in modes:
        return "missing", f"its access modes are {', '.join(modes)}: steps need {_SHARED}"
    if phase == "Pending":
        return "unknown", "it is not bound yet; its storage class may wait for the first pod"
    if phase != "Bound":
        return "missing", f"it is not bound but {phase}"
    return "ok", f"bound, {_SHARED}"


def _sample_launch() -> Launch:
    """Return a task with the default limits: what most steps are."""
    return Launch(
        name=_name(),
        run_id="check",
        step_id="check",
        kind="task",
        attempt=1,
        image="busybox:1.36",
        program=UnitProgram(entrypoint=("true",)),
        environment={},
        workspace=SharedDirectory(name="partita-check", fetch=_no_files),
        networks={},
        ports=(),
        limits=UnitLimits(memory_bytes=512 * 2**20, cpus=1, pids=256),
        labels={},
        run_labels={},
    )


async def _no_files() -> bytes:
    return b""


def _pull_pod(image: str) -> Body:
    resources = {"cpu": "10m", "memory": "32Mi"}
    container: Body = {
        "name": STEP_CONTAINER,
        "image": image,
        "imagePullPolicy": "Always" if image.endswith(":latest") else "IfNotPresent",
        "command": ["true"],
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec: Body = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _name()}, "spec": spec}


def _name() -> str:
    return f"partita-check-{secrets.token_hex(4)}"
