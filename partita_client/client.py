"""The client of the API: a method for each use case that a program or a terminal has."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from partita_client.downloads import download_file
from partita_client.errors import NotPartita
from partita_client.event_stream import ResumingStream, StreamFrame
from partita_client.list_pages import read_entries
from partita_client.transport import HttpTransport, Query

if TYPE_CHECKING:  # dictionaries by another name: a command does without
    from partita_client.documents import (
        CiSignIn,
        DeviceCode,
        GreenDifferences,
        OutputLine,
        RunArtifact,
        RunExplanation,
        RunListing,
        RunReport,
        RunShell,
        ServerHealth,
        StreamedLine,
        WhoIsThis,
    )

API: Final = "/api/v1"
ENDED: Final = ("Healthy", "Failed", "Canceled")
PARTS: Final = ("suite", "events", "steps", "artifacts", "verdict", "attempts")
Sent = Mapping[str, Any]


class Client:
    """A server of Partita, for one thread. `token` is an API token or an access token.

    `ca_file` is a PEM file with a private certificate authority. Proxies are those of the
    environment. `on_away` is told when a stream waits for a server that is away; `new_token` is
    asked after a 401 for the token of now, where that changes.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        ca_file: str = "",
        timeout_s: float = 30.0,
        on_away: Callable[[str], None] = lambda _words: None,
        new_token: Callable[[], str] | None = None,
    ) -> None:
        self.transport = HttpTransport(url, token, ca_file, timeout_s, new_token)
        self._on_away = on_away

    @property
    def url(self) -> str:
        return self.transport.address.url

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def get(self, path: str, **query: Any) -> Any:
        """Return any document below `/api/v1`; empty values of the query are left out."""
        asked = {name: value for name, value in query.items() if value not in ("", None)}
        return self._call("GET", path, query=asked)

    def _call(self, method: str, path: str, **request: Any) -> Any:
        answer = self.transport.send(method, f"{API}{path}", **request)
        if not answer.body:
            return {}
        try:
            return json.loads(answer.body)
        except ValueError:
            raise NotPartita(
                f"{self.url} answered {path} with something that is not JSON",
                advice="check the address: partita login URL, then partita doctor",
            ) from None

    def pages(self, path: str, name: str, *, limit: int = 0, **query: Any) -> Iterator[Any]:
        """Yield the entries `name` of a list, over its pages; at most `limit` unless that is 0."""

        def ask(size: int, cursor: str) -> Any:
            return self.get(path, limit=size, cursor=cursor, **query)

        return read_entries(ask, name, limit=limit)

    # who and where

    def health(self) -> ServerHealth:
        answer = self.transport.send("GET", "/healthz")
        try:
            return cast("ServerHealth", dict(json.loads(answer.body)))
        except (ValueError, TypeError):
            raise NotPartita(
                f"{self.url} is not a Partita server: /healthz is not JSON",
                advice="check the address",
            ) from None

    def readiness(self) -> Any:
        """Return the components that `/readyz` lists, also where one of them is not ready."""
        answer = self.transport.ask(f"{API}/system/readyz")
        if answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
            self.transport.require_success(answer)
        return json.loads(answer.body)

    def me(self) -> WhoIsThis:
        return cast("WhoIsThis", self.get("/auth/me"))

    # runs

    def runs(
        self, *, status: Sequence[str] = (), suite: str = "", limit: int = 20, **query: Any
    ) -> list[RunListing]:
        """Return runs, the newest first. `query` has further filters of the list, as `q`."""
        found = self.pages(
            "/executions",
            "executions",
            limit=limit,
            status=",".join(status),
            suiteId=suite,
            **query,
        )
        return list(found)

    def run(self, run_id: str, *, parts: Sequence[str] = PARTS) -> RunReport:
        omit = ",".join(part for part in PARTS if part not in parts)
        return cast("RunReport", self.get(_of_run(run_id), omit=omit))

    def why(self, run_id: str) -> RunExplanation:
        """Return the verdict of a run."""
        return self.run(run_id, parts=("verdict",))["verdict"]

    def since_green(self, run_id: str) -> GreenDifferences:
        return cast("GreenDifferences", self.get(_of_run(run_id, "since-green")))

    def timeline(self, run_id: str) -> Any:
        """Return what each attempt of each step did when, and the critical path."""
        return self.get(_of_run(run_id, "timeline"))

    def launch(self, suite: str, *, idempotency_key: str = "", **body: Any) -> RunListing:
        """Launch a suite: `profile`, `backend`, `keepAliveMs`, `trigger`, `commit`, `branch`, ….

        It is repeated while the server is away; the key makes sure that there is one run.
        """
        sent = {"suiteId": suite, **drop_unset(body)}
        return cast("RunListing", self._launch("/executions", sent, idempotency_key))

    def rerun(self, run_id: str, *, idempotency_key: str = "", **body: Any) -> RunListing:
        """Run an ended run again: `scope` (all, failed, step), `step`, `profile`, …."""
        sent = drop_unset(body)
        return cast("RunListing", self._launch(_of_run(run_id, "rerun"), sent, idempotency_key))

    def plan_rerun(self, run_id: str, **body: Any) -> Any:
        """Return which steps a rerun would run, and why; nothing is started."""
        sent = {**drop_unset(body), "dryRun": True}
        return self._call("POST", _of_run(run_id, "rerun"), body=sent)

    def _launch(self, path: str, body: Sent, key: str) -> Any:
        headers = {"Idempotency-Key": key or os.urandom(16).hex()}
        return self._call("POST", path, body=body, headers=headers, repeats=True)

    def cancel(self, run_id: str, *, reason: str = "") -> RunListing:
        body = drop_unset({"reason": reason})
        path = _of_run(run_id, "cancel")
        return cast("RunListing", self._call("POST", path, body=body, repeats=True))

    def keep(self, run_id: str, keep_ms: int) -> Any:
        """Keep the environment of a run for so long from now on; return until when."""
        body = {"keepAliveMs": keep_ms}
        return self._call("PUT", _of_run(run_id, "keep"), body=body, repeats=True)

    def end_keeping(self, run_id: str) -> None:
        self._call("DELETE", _of_run(run_id, "keep"))

    def repeat_step(self, run_id: str, step: str, **body: Any) -> Any:
        """Run a step once more in the kept environment of its run; return the repeat."""
        sent = {"stepId": step, **drop_unset(body)}
        return self._call("POST", _of_run(run_id, "repeats"), body=sent)

    def repeat(self, run_id: str, repeat_id: str) -> Any:
        return self.get(_of_run(run_id, "repeats", repeat_id))

    def shells(self, run_id: str) -> list[RunShell]:
        """Return the shells of a run, the newest first."""
        return cast("list[RunShell]", self.get(_of_run(run_id, "shells"))["shells"])

    def open_shell(self, run_id: str, step: str, **body: Any) -> RunShell:
        """Open a shell in a step: `command`, `columns`, `rows`. Its terminal is a WebSocket."""
        sent = {"stepId": step, **drop_unset(body)}
        return cast("RunShell", self._call("POST", _of_run(run_id, "shells"), body=sent))

    def end_shell(self, run_id: str, shell_id: str, *, repeats: bool = True) -> None:
        self._call("DELETE", _of_run(run_id, "shells", shell_id), repeats=repeats)

    def wait(self, run_id: str, *, timeout_s: float | None = None) -> RunReport:
        """Return the run once it has ended; raise WaitTimeout."""
        for _frame in self.events(run_id, timeout_s=timeout_s):
            pass
        return self.run(run_id)

    # streams

    def log(
        self, run_id: str, *, after: int = 0, timeout_s: float | None = None
    ) -> Iterator[StreamedLine]:
        """Yield the log of a run from a record on until it has ended, each line once.

        Records that can no longer be had are left out. Raise WaitTimeout.
        """
        for frame in self.log_frames(run_id, after=after, timeout_s=timeout_s):
            if not frame.kind:
                yield frame.data

    def repeat_log(
        self, run_id: str, repeat_id: str, *, timeout_s: float | None = None
    ) -> Iterator[OutputLine]:
        """Yield the log of a repeat until it has ended, each line once; raise WaitTimeout."""
        for frame in self._stream(_of_run(run_id, "repeats", repeat_id, "logs"), 0, timeout_s):
            if not frame.kind:
                yield frame.data["line"]

    def log_frames(
        self, run_id: str, *, after: int = 0, timeout_s: float | None = None
    ) -> Iterator[StreamFrame]:
        """Yield records, gaps and the end of the log."""
        return self._stream(_of_run(run_id, "logs"), after, timeout_s)

    def events(
        self, run_id: str, *, after: int = 0, timeout_s: float | None = None
    ) -> Iterator[StreamFrame]:
        """Yield the events of a run until it has ended, each once."""
        return self._stream(_of_run(run_id, "events"), after, timeout_s)

    def _stream(self, path: str, after: int, timeout_s: float | None) -> Iterator[StreamFrame]:
        return ResumingStream(
            transport=self.transport,
            path=f"{API}{path}",
            after=after,
            deadline=None if timeout_s is None else time.monotonic() + timeout_s,
            on_away=self._on_away,
        ).frames()

    # files

    def artifacts(self, run_id: str) -> list[RunArtifact]:
        return self.run(run_id, parts=("artifacts",))["artifacts"]

    def download_artifact(self, run_id: str, artifact_id: str, to: Path) -> int:
        """Write one file, which must not exist yet; return its size. Goes on after a cut."""
        path = _of_run(run_id, "artifacts", artifact_id)
        return download_file(self.transport, f"{API}{path}", to)

    def download_archive(self, run_id: str, to: Path, *, timeout_s: float = math.inf) -> int:
        """Write all artifacts as one zip file, which must not exist yet; return its size.

        Raise WaitTimeout.
        """
        path = f"{API}{_of_run(run_id, 'artifacts', 'archive')}"
        return download_file(self.transport, path, to, resumes=False, timeout_s=timeout_s)

    def junit(self, run_id: str) -> bytes:
        """Return the JUnit report of a run as XML."""
        path = f"{API}{_of_run(run_id, 'junit')}"
        accept = {"Accept": "application/xml"}
        return self.transport.send("GET", path, headers=accept).body

    # suites, profiles, environments, catalog

    def suites(self, *, query: str = "", limit: int = 0) -> list[Any]:
        return list(self.pages("/suites", "suites", limit=limit, q=query, view="summary"))

    def suite(self, suite_id: str) -> Any:
        return self.get(f"/suites/{quote(suite_id, safe='')}", wait=10)

    def profile_counts(self) -> list[Any]:
        """Return each suite with the number of its profiles."""
        return list(self.pages("/profiles/suites", "suites"))

    def profiles(self, suite_id: str) -> Any:
        """Return the profiles of a suite, with the entity tag of all of them as `etag`."""
        path = f"{API}/profiles/suites/{quote(suite_id, safe='')}"
        answer = self.transport.send("GET", path)
        return {**json.loads(answer.body), "etag": answer.headers.get("etag", "")}

    def environments(self, **query: str) -> Any:
        return self.get("/sandboxes", **query)

    def packages(self, *, limit: int = 0, **query: str) -> list[Any]:
        return list(self.pages("/catalog/packages", "packages", limit=limit, **query))

    def launch_options(self) -> list[Any]:
        """Return the suites that can be launched, with profiles and backends."""
        return list(self.pages("/executions/launch-suites", "suites"))

    # sign-in

    def begin_device_sign_in(self, client_name: str) -> DeviceCode:
        """Return the codes of a sign-in that a person confirms on a page (RFC 8628)."""
        codes = self._call("POST", "/auth/device", body={"client": client_name})
        return cast("DeviceCode", codes)

    def device_token(self, device_code: str) -> Any:
        """Return the token once it is confirmed; raise ApiProblem (authorization_pending, …)."""
        return self._call("POST", "/auth/device/token", body={"deviceCode": device_code})

    def sign_in_ci(self, id_token: str) -> CiSignIn:
        """Exchange the OIDC token of a CI job, once, for a session (reference: control-plane 3)."""
        return cast("CiSignIn", self._call("POST", "/auth/ci", body={"token": id_token}))

    def revoke_token(self, token_id: str) -> None:
        """Revoke an API token; an API token may revoke itself alone."""
        self._call("DELETE", f"/auth/tokens/{quote(token_id, safe='')}")

    def sign_out(self) -> None:
        """End the session of the token; raise ApiProblem (session_required) for an API token."""
        self._call("POST", "/auth/sign-out")

    def send(self, method: str, path: str, body: Sent | None = None, **query: Query) -> Any:
        """Send any request below `/api/v1` and return its document."""
        return self._call(method, path, body=body, query=query)


def _of_run(run_id: str, *parts: str) -> str:
    return "/".join(["/executions", *(quote(each, safe="") for each in (run_id, *parts))])


def drop_unset(body: Sent) -> Sent:
    """Return the members that have a value."""
    return {name: value for name, value in body.items() if value not in ("", None)}
