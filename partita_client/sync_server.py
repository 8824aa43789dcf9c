"""The orchestrator of the configuration sync: which one is meant, and what it tells over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from partita_client import conf
from partita_client.addresses import parse_address
from partita_client.errors import ApiProblem, NoConnection, NoServer, NotPartita
from partita_client.list_pages import read_entries
from partita_client.server_choice import read_token_file
from partita_client.transport import HttpTransport

URL_VARIABLE: Final = "PARTITA_SYNC_URL"
_NO_SERVER: Final = (
    "name the HTTP API of the orchestrator: PARTITA_SYNC_URL=https://sync.example.com, or --server"
)
_ADVICE: Final = {
    "unauthenticated": "set PARTITA_SYNC_KEY or PARTITA_SYNC_KEY_FILE to one of the orchestrator's "
    "TASK_API_KEYS (in Compose: docker compose exec orchestrator-api cat /state/task-api-key)",
    "task_not_found": "`partita sync history` lists tasks; an ended one is kept for 30 days",
    "not_found": "name the HTTP address of an orchestrator of this version, such as "
    "https://sync.example.com",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncServerChoice:
    """`origin` says where the choice comes from. `key` is empty where none is known for it."""

    url: str
    origin: str
    key: str = field(default="", repr=False)
    ca_file: str = ""

    @property
    def is_key_open(self) -> bool:
        """Whether the key would go over a network that others can read."""
        address = parse_address(self.url)
        return bool(self.key) and address.scheme == "http" and not address.is_loopback


def is_sync_server_named(given_url: str) -> bool:
    """Return whether an option or the environment names an orchestrator."""
    return bool(given_url or conf.variable(URL_VARIABLE))


def choose_sync_server(given_url: str = "", ca_file: str = "") -> SyncServerChoice:
    """Return the orchestrator that is meant; raise NoServer, BadConfiguration.

    The key of the environment is for the server of the environment: another address that
    `--server` names does not get it.
    """
    known = conf.variable(URL_VARIABLE)
    if not given_url and not known:
        raise NoServer("no orchestrator of the sync is known", advice=_NO_SERVER)
    url = parse_address(given_url or known).url
    is_of_environment = not known or parse_address(known).url == url
    return SyncServerChoice(
        url=url,
        origin="--server" if given_url else URL_VARIABLE,
        key=_given_key() if is_of_environment else "",
        ca_file=ca_file or conf.variable("PARTITA_CA_FILE"),
    )


def _given_key() -> str:
    if file := conf.variable("PARTITA_SYNC_KEY_FILE"):
        return read_token_file(Path(file))
    return conf.variable("PARTITA_SYNC_KEY")


class SyncClient:
    """The HTTP API of an orchestrator, for one thread; it only reads.

    `is_incomplete`: an answer said that it leaves out what was too much to read.
    """

    is_incomplete = False

    def __init__(
        self, url: str, *, key: str = "", ca_file: str = "", timeout_s: float = 30.0
    ) -> None:
        self.transport = HttpTransport(url, key, ca_file, timeout_s)

    @property
    def url(self) -> str:
        return self.transport.address.url

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def targets(self, *, limit: int = 0, **filters: str) -> list[Any]:
        """Return targets by `rule`, `repo`, `env`, `datasource`, `status`.

        `behind` of one says why it does not hold the head of its ref.
        """
        return list(self._pages("/targets", "targets", limit, filters))

    def unapplied_refs(self, **filters: str) -> list[Any]:
        """Return refs of which nothing was applied yet, by `rule` and `repo`, at most 200."""
        return list(self._get("/refs/unapplied", filters)["refs"])

    def tasks(self, *, limit: int = 0, **filters: str) -> list[Any]:
        """Return tasks, newest first: `rule`, `repo`, `ref`, `env`, `state`, `kind`, `commit`."""
        return list(self._pages("/tasks", "tasks", limit, filters))

    def task(self, task_id: str) -> Any:
        """Return one task; raise ApiProblem (task_not_found)."""
        return self._get(f"/tasks/{quote(task_id, safe='')}", {})

    def drift(self, *, limit: int = 0, **filters: str) -> list[Any]:
        """Return episodes of drift, newest first: `rule`, `env`, `datasource`, `state`."""
        return list(self._pages("/drift", "drift", limit, filters))

    def _pages(self, path: str, name: str, limit: int, filters: dict[str, str]) -> Iterator[Any]:
        """Yield the entries of a list over its pages; at most `limit` unless that is 0."""

        def ask(size: int, cursor: str) -> Any:
            return self._get(path, filters | {"limit": str(size), "cursor": cursor})

        return read_entries(ask, name, limit=limit)

    def _get(self, path: str, query: dict[str, str]) -> Any:
        asked = {name: value for name, value in query.items() if value}
        try:
            answer = self.transport.send("GET", f"/v1{path}", query=asked)
        except ApiProblem as error:
            error.advice = _ADVICE.get(error.code, error.advice)
            raise
        except NoConnection as error:
            error.advice = error.advice.replace("partita up", "partita run_orchestrator")
            raise
        if answer.status != HTTPStatus.OK:
            raise self._no_orchestrator(path)
        try:
            document = json.loads(answer.body)
        except ValueError:
            raise self._no_orchestrator(path) from None
        if isinstance(document, dict) and {"incomplete", "behindIncomplete"} & document.keys():
            self.is_incomplete = True
        return document

    def _no_orchestrator(self, path: str) -> NotPartita:
        return NotPartita(
            f"{self.url} answered /v1{path} with something that is not JSON",
            advice=_ADVICE["not_found"],
        )
