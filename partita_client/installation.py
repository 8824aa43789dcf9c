"""What those who run an installation do with it: its settings, registries, runners and workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from partita_client.client import API, Client

_SETTINGS: Final = "/platform-settings"
_YAML: Final = "application/yaml"  # JSON is YAML, too
_REGISTRY_S: Final = 90.0  # a server reads a registry for at most a minute


class ServerInstallation:
    """The installation that a client asks. What changes it is for administrators."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def settings(self) -> tuple[Any, str]:
        """Return the settings with masked secrets, and their entity tag."""
        answer = self._client.transport.send("GET", f"{API}{_SETTINGS}")
        return dict(json.loads(answer.body)), answer.headers.get("etag", "")

    def preview_settings(self, file: bytes) -> list[Any]:
        """Return what the settings of a file, YAML or JSON, would change; change nothing."""
        found = self._send("POST", f"{_SETTINGS}/preview", file, repeats=True)
        return list(found["changes"])

    def replace_settings(self, file: bytes, *, if_match: str = "") -> Any:
        """Replace the settings by those of a file; return them as they are stored.

        `if_match`: the entity tag of the settings that the file came from. Raise ApiProblem
        (precondition_failed) where others changed them since.
        """
        tag = {"If-Match": if_match} if if_match else {}
        return self._send("PUT", _SETTINGS, file, headers=tag)

    def sync_registry(self, registry_id: str) -> Any:
        """Have the server read what a registry offers now; return packages and errors."""
        return self._ask_registry(registry_id, "sync")["sync"]

    def test_registry(self, registry_id: str) -> Any:
        """Return whether a registry answers the server and lets it in."""
        return self._ask_registry(registry_id, "test")

    def agents(self, *, status: str = "") -> list[Any]:
        """Return the runners and workers by name; `status` is `online` or `offline`."""
        return list(self._client.pages("/agents", "agents", status=status))

    def drain_agent(self, agent_id: str) -> Any:
        """Keep new runs from a runner or worker, which finishes its own; return it."""
        return self._client.send("POST", f"{_of_agent(agent_id)}/drain", {})

    def resume_agent(self, agent_id: str) -> Any:
        """Let a runner or worker take new runs again; return it."""
        return self._client.send("POST", f"{_of_agent(agent_id)}/resume", {})

    def remove_agent(self, agent_id: str) -> None:
        """Revoke the credential of a runner or worker; what it runs is lost."""
        self._client.send("DELETE", _of_agent(agent_id))

    def run_counts(self) -> Any:
        """Return how many runs and steps are in which status."""
        return self._client.get("/executions/overview")["summary"]

    def _ask_registry(self, registry_id: str, what: str) -> Any:
        transport = self._client.transport
        transport.close()  # a connection keeps the time-out that it was made with
        transport.timeout_s = max(transport.timeout_s, _REGISTRY_S)
        path = f"{_SETTINGS}/registries/{quote(registry_id, safe='')}/{what}"
        return self._client.send("POST", path, {})

    def _send(
        self,
        method: str,
        path: str,
        file: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        repeats: bool = False,
    ) -> Any:
        sent = {"Content-Type": _YAML, **(headers or {})}
        answer = self._client.transport.send(
            method, f"{API}{path}", body=file, headers=sent, repeats=repeats
        )
        return json.loads(answer.body)


def _of_agent(agent_id: str) -> str:
    return f"/agents/{quote(agent_id, safe='')}"
