"""Two workspaces, an administrator and two workers on one control plane, and what they have."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from asgiref.sync import async_to_sync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.db import connections
from django.test import Client

from apps.accounts import selectors as accounts_memory
from apps.accounts.api import Principal, Role, TokenScope, create_api_token, invite
from apps.accounts.models import Invitation, LimitHit, Membership, User
from apps.accounts.services.administrators import ensure_seed_admin
from apps.accounts.services.sign_up import sign_up
from apps.accounts.services.token_pairs import issue_tokens
from apps.agents.api import Registration, get_agent, register, resume
from apps.executions import api as executions
from apps.streams.services.hub import stop_hub
from apps.workers.services.remote_workers import supervisor_of
from kernel.agent_protocol import ArtifactUpload, Completion, StepSpecBody, job_of
from platform_site.asgi import application
from tests.apps.executions.runs import Run, booted_run, node
from tests.support.people import principal_of

SECRET = "the-shared-secret-of-the-world"
PASSWORD = "Correct-Horse-1"
CANARY = "only-adas-workspace-may-read-this"
SETTINGS = "agents:\n  - {agentId: edge, name: Edge, type: remote-agent}\n"
COLUMNS = (
    "anonymous", "other", "viewer", "runner", "member", "admin", "read", "run", "all",
    "agent", "agent-2", "secret",
)  # fmt: skip
TOKENS = {
    "read": TokenScope.READ,
    "run": TokenScope.RUN,
    "all": TokenScope.ADMIN,
}  # API tokens of Ada
AGENTS = {"agent": "edge-1", "agent-2": "edge-2"}  # caller → its id
PATIENCE_S: Final = 20
ROOT = Path(__file__).resolve().parents[2]


def prepare(settings: Any, folder: Path) -> None:
    """One backend `edge` for workers, one suite `hello`."""
    settings.PLATFORM_SETTINGS_FILE = folder / "configuration.yaml"
    settings.PLATFORM_SETTINGS_FILE.write_text(SETTINGS)
    settings.SUITES_DIR = folder / "suites"
    shutil.copytree(ROOT / "examples" / "oci-suites" / "hello", settings.SUITES_DIR / "hello")
    settings.AGENT_SHARED_SECRET = SECRET
    settings.EXECUTION_MAX_ACTIVE = 1000
    accounts_memory._cache.clear()


@dataclass(frozen=True)
class Caller:
    """`agent_id` is empty for people; nobody has no token."""

    name: str
    token: str = ""
    agent_id: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        sent = b"" if body is None else json.dumps(body).encode()
        client = Client(raise_request_exception=False)
        return client.generic(method, path, sent, content_type="application/json", headers=headers)

    def reads(self, path: str, *, until: Callable[[bytes], bool]) -> StreamRead:
        """Open a stream of the application as a server does; leave it when `until` says so."""
        return async_to_sync(self._read)(path, until)

    async def _read(self, path: str, until: Callable[[bytes], bool]) -> StreamRead:
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"host", b"x"), (b"authorization", f"Bearer {self.token}".encode())],
            "client": ("127.0.0.1", 1),
            "http_version": "1.1",
        }
        call = ApplicationCommunicator(application, scope)
        await call.send_input({"type": "http.request", "body": b"", "more_body": False})
        head = await call.receive_output(PATIENCE_S)
        read = StreamRead(
            {name.decode().lower(): value.decode() for name, value in head["headers"]}
        )
        while not (read.ended or until(read.body)):
            part = await call.receive_output(PATIENCE_S)
            read.body += part.get("body", b"")
            read.ended = not part.get("more_body", False)
        if not read.ended:
            await call.send_input({"type": "http.disconnect"})
        await call.wait(PATIENCE_S)
        await stop_hub()
        await sync_to_async(connections.close_all)()
        return read


@dataclass
class StreamRead:
    headers: dict[str, str]
    body: bytes = b""
    ended: bool = False  # by the server


@dataclass(frozen=True)
class Belongings:
    """What the caller under test is let loose on; made anew for each."""

    run: Run
    spec: StepSpecBody
    artifact_id: str
    workspace_id: str
    member_id: str
    invitation_id: str

    @property
    def job_id(self) -> str:
        return str(self.spec["jobId"])


class World:
    def __init__(self) -> None:
        self.ada = sign_up(full_name="Ada", email="ada@example.org", password=PASSWORD)
        self.bob = sign_up(full_name="Bob", email="bob@example.org", password=PASSWORD)
        ensure_seed_admin("root@example.org", PASSWORD)
        self.root = User.objects.get(email="root@example.org")
        self.viewer = self._member("Vera", Role.VIEWER)
        self.runner = self._member("Rita", Role.RUNNER)
        self.agent_tokens: dict[str, str] = {}

    def _member(self, name: str, role: Role) -> User:
        """A member of Ada's workspace, who works there."""
        email = f"{name.lower()}@example.org"
        user = User.objects.filter(email=email).first() or sign_up(
            full_name=name, email=email, password=PASSWORD
        )
        Membership.objects.update_or_create(
            user=user, workspace=self.ada.workspace, defaults={"role": role}
        )
        User.objects.filter(pk=user.pk).update(workspace=self.ada.workspace)
        return User.objects.get(pk=user.pk)

    def caller(self, name: str, *, again: bool = True) -> Caller:
        """One of COLUMNS. `again`: both agents register, and their tokens before count no more."""
        people = {
            "other": self.bob,
            "viewer": self.viewer,
            "runner": self.runner,
            "member": self.ada,
            "admin": self.root,
        }
        if again:
            self.agent_tokens = {
                id_: register(_registration(id_)).agent_token for id_ in AGENTS.values()
            }
        if name in people:
            return Caller(name, issue_tokens(people[name]).token)
        if name in TOKENS:
            ada = self._ada()
            made = create_api_token(ada, name=name, scope=TOKENS[name], days=1)
            return Caller(name, made.token)
        if name in AGENTS:
            return Caller(name, self.agent_tokens[AGENTS[name]], AGENTS[name])
        return Caller(name, SECRET if name == "secret" else "")

    def belongings(self, *, finished: bool = False) -> Belongings:
        """A run of Ada's workspace whose job the first agent holds, or has completed.

        Make a caller first: then there are agents.
        """
        resume("edge-1")  # a caller may have drained it
        run = booted_run(node("a", name=CANARY), principal=self._ada(), files={"x": b"y"})
        supervisor = supervisor_of(get_agent("edge-1"))
        (spec,) = executions.record_reports(supervisor, claims=1).claimed
        upload = ArtifactUpload(
            path="x", name="", format="raw", on="always", media_type="text/plain",
            body=CANARY.encode(),
        )  # fmt: skip
        job = job_of(spec)
        artifact_id, _ = executions.store_artifact(supervisor, job, upload)
        if finished:
            done = Completion(job=job, exit_code=0)
            executions.record_reports(supervisor, completions=[done])
        carol = self._member("Carol", Role.VIEWER)
        self._make_room_for_an_invitation()
        invitation = invite(self._ada(), self.ada.workspace_id, role=Role.VIEWER, email="")
        return Belongings(
            run, spec, artifact_id, str(self.ada.workspace_id), str(carol.id),
            str(invitation.invitation.id),
        )  # fmt: skip

    def _make_room_for_an_invitation(self) -> None:
        """Delete old ones: a workspace has at most 200, and each belongings one."""
        newest = Invitation.objects.filter(workspace_id=self.ada.workspace_id)
        old = list(newest.order_by("-created_at").values_list("pk", flat=True)[100:])
        Invitation.objects.filter(pk__in=old).delete()

    def forget_attempts(self) -> None:
        """Of this address: the limits have tests of their own."""
        LimitHit.objects.all().delete()

    def _ada(self) -> Principal:
        return principal_of(self.ada, full_name=CANARY)


def _registration(agent_id: str) -> Registration:
    """Each time of the same process, so that what it holds stays its own."""
    return Registration(
        agent_id=agent_id,
        incarnation=str(uuid.uuid5(uuid.NAMESPACE_DNS, agent_id)),
        kind="worker",
        backends=("edge",),
    )
