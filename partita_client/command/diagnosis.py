"""`doctor`: whether the server, the way there, the clock, the token and the backends are well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from partita_client.client import Client
from partita_client.command.output import ListColumn, note, printable_lines, show_list
from partita_client.command.parser import CommandNoun, CommandSession, CommandVerb
from partita_client.errors import ApiProblem, ClientError
from partita_client.exit_codes import ExitCode
from partita_client.release import VERSION

_CLOCK_S: Final = 30.0  # leeway of the server for the times of a token
_GOOD: Final = ("ready", "disabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPart:
    """`state` is ready, degraded or not_ready; `advice` says what to do about the latter two."""

    name: str
    state: str
    detail: str
    advice: str = ""

    @property
    def document(self) -> dict[str, str]:
        return {
            "check": self.name,
            "state": self.state,
            "detail": self.detail,
            "advice": self.advice,
        }


CHECK_COLUMNS: Final = (
    ListColumn(heading="CHECK", cell=lambda each: each["check"]),
    ListColumn(heading="STATE", cell=lambda each: each["state"], is_status=True),
    ListColumn(heading="DETAIL", cell=lambda each: each["detail"]),
)


def examine(session: CommandSession) -> int:
    """Print each check; return 1 where one is not ready, 6 where there is no server at all."""
    parts = [*_parts_of(session)]
    documents = [each.document for each in parts]
    show_list("checks", documents, CHECK_COLUMNS, session.form, key="check")
    for each in parts:
        if each.advice and session.is_for_people:
            note(f"next, for {each.name}: {printable_lines(each.advice)}")
    worst = {each.state for each in parts}
    if "not_ready" not in worst:
        return ExitCode.OK
    is_away = any(each.name == "server" and each.state == "not_ready" for each in parts)
    return ExitCode.UNAVAILABLE if is_away else ExitCode.ERROR


def _parts_of(session: CommandSession) -> Iterator[CheckedPart]:
    try:
        choice = session.choice
        client = session.client
    except ClientError as error:
        yield _failed_part("server", error)
        return
    yield CheckedPart(name="context", state="ready", detail=f"{choice.url}, by {choice.origin}")
    began = time.monotonic()
    try:
        health = client.health()
    except ClientError as error:
        yield _failed_part("server", error)
        return
    took_ms = (time.monotonic() - began) * 1000
    yield CheckedPart(name="server", state="ready", detail=f"answers in {took_ms:.0f} ms")
    yield _version_part(health.get("version", ""))
    yield _clock_part(str(health.get("time", "")))
    yield from _parts_inside(client)


def _failed_part(name: str, error: ClientError) -> CheckedPart:
    return CheckedPart(name=name, state="not_ready", detail=error.detail, advice=error.advice)


def _version_part(version: str) -> CheckedPart:
    if not version:
        detail = f"client {VERSION}; the server does not tell its own"
        return CheckedPart(name="version", state="degraded", detail=detail)
    if version == VERSION:
        return CheckedPart(name="version", state="ready", detail=f"client and server {VERSION}")
    return CheckedPart(
        name="version",
        state="degraded",
        detail=f"client {VERSION}, server {version}",
        advice="install the client of the server's version where a command is missing something",
    )


def _clock_part(server_time: str) -> CheckedPart:
    try:
        skew_s = time.time() - datetime.fromisoformat(server_time).timestamp()
    except (ValueError, OverflowError):
        return CheckedPart(
            name="clock", state="degraded", detail="the server does not tell its time"
        )
    state = "ready" if abs(skew_s) < _CLOCK_S else "degraded"
    where = "ahead of" if skew_s > 0 else "behind"
    detail = f"{abs(skew_s):.1f} s {where} the server's"
    advice = "" if state == "ready" else "set the clock: tokens are refused, ages are wrong"
    return CheckedPart(name="clock", state=state, detail=detail, advice=advice)


def _parts_inside(client: Client) -> Iterator[CheckedPart]:
    """Yield what only somebody who is signed in can see, and the parts of the server."""
    try:
        who = client.me()
        detail = f"{who['user']['email']}, {who['role']} in {who['workspace']['name']}"
        yield CheckedPart(name="token", state="ready", detail=detail)
    except ApiProblem as error:
        yield _failed_part("token", error)
    for each in client.readiness()["components"]:
        if each["status"] not in _GOOD:
            yield CheckedPart(
                name=each["name"], state=each["status"], detail=each["detail"] or "no reason given"
            )
    try:
        yield from _backend_parts(client.launch_options())
    except ApiProblem as error:
        if error.status != HTTPStatus.UNAUTHORIZED:  # the token was named above
            yield _failed_part("suites", error)


def _backend_parts(suites: list[Any]) -> Iterator[CheckedPart]:
    backends = {each["id"]: each for suite in suites for each in suite["backends"]}
    yield CheckedPart(
        name="suites",
        state="ready" if suites else "not_ready",
        detail=f"{len(suites)} can be launched",
    )
    for name, each in sorted(backends.items()):
        is_there = each["available"]
        yield CheckedPart(
            name=f"backend {name}",
            state="ready" if is_there else "degraded",
            detail="available" if is_there else "no online runner or worker serves it",
            advice="" if is_there else "start `partita run_runner` or `run_worker` where it is",
        )


DOCTOR: Final = CommandNoun(
    name="doctor",
    text="Check the server, the way there, the clock, the token and the backends.",
    verbs=(
        CommandVerb(
            name="",
            text="check the server, versions, the clock, the token and the backends",
            run=examine,
        ),
    ),
    examples="""\
  partita doctor
  partita doctor --server https://partita.example.com --ca-file ca.pem
  partita doctor -o json""",
)
