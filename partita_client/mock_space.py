"""A space of mocks: its records and counters, the calls that it got, and why it answers as it does.

(reference: control-plane 18)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from partita_client.client import Client, drop_unset
from partita_client.list_pages import read_pages


class SuiteMocks:
    """The mocks of a suite: of one run, or the space that those who name no run share.

    `path_of_import`: where the run imports the suite, such as `pay`.
    """

    def __init__(
        self, client: Client, suite: str, *, run: str = "", path_of_import: str = ""
    ) -> None:
        self._client = client
        self._name = drop_unset({"suiteId": suite, "executionId": run, "import": path_of_import})

    def state(self, *, key: str = "") -> Any:
        """Return the `records`, of one key if that is named, and the `counters`."""
        pages = list(self._pages("state", "records", {"key": key}))
        records = [record for page in pages for record in page["records"]]
        return {"records": records, "counters": pages[0]["counters"]}

    def set_fields(
        self, key: str, fields: Mapping[str, str], *, unset: Sequence[str] = (), surface: str = ""
    ) -> Any:
        """Change the fields of a record and return it; a new one belongs to the surface."""
        body = {**self._name, "key": key, "set": dict(fields), "delete": list(unset)}
        sent = {**body, **drop_unset({"surfaceId": surface})}
        return self._client.send("PATCH", "/mocks/state", sent)

    def journal(self, **only: str) -> Iterator[list[Any]]:
        """Yield pages of the kept calls, the newest first.

        `only`: `surfaceId`, `operationId`, `outcome`, `tag`.
        """
        for page in self._pages("journal", "entries", only):
            yield list(page["entries"])

    def reset(self, *, surface: str = "", key: str = "") -> int:
        """Remove records and counters; return how many."""
        query = drop_unset({**self._name, "surfaceId": surface, "key": key})
        return int(self._client.send("DELETE", "/mocks/state", **query)["removed"])

    def forget_calls(self, *, surface: str = "") -> int:
        query = drop_unset({**self._name, "surfaceId": surface})
        return int(self._client.send("DELETE", "/mocks/journal", **query)["removed"])

    def explain(self, **call: Any) -> Any:
        """Return what would answer a call, and why; nothing is called.

        `call`: `surfaceId`, `method`, `path` or `operationId`, `headers`, `body`.
        """
        return self._client.send("POST", "/mocks/explain", {**self._name, **call})

    def verify(self, **question: Any) -> Any:
        """Return how many kept calls fit the question, and whether so many were asked for."""
        sent = {**self._name, **drop_unset(question)}
        return self._client.send("POST", "/mocks/verify", sent)

    def _pages(self, what: str, name: str, query: Mapping[str, str]) -> Iterator[Any]:
        def ask(size: int, cursor: str) -> Any:
            asked = {**self._name, **query}
            return self._client.get(f"/mocks/{what}", **asked, limit=size, cursor=cursor)

        return read_pages(ask, name)
