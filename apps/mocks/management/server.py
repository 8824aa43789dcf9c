"""The running control plane, which has the calls and the state of mocks, and commands ask it.

Without Redis they are in the memory of its process; with Redis it reads them there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import httpx

from apps.accounts.api import operator_access_token
from apps.http.api import public_url
from kernel.errors import PlatformError
from kernel.problems import PROBLEMS

TIMEOUT_S: Final = 10.0
_TOKEN_S: Final = 30.0  # shorter than its life


class ServerUnreachable(PlatformError):
    code = "backend_unavailable"


def add_server(parser: Any) -> None:
    parser.add_argument(
        "--server", default="", metavar="URL", help="the control plane (default: PUBLIC_API_URL)"
    )


class MockServer:
    """`/api/v1/mocks` of a control plane on the same store, asked as its first administrator."""

    def __init__(self, url: str = "") -> None:
        self.url = (url or public_url()).rstrip("/")
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v1/mocks/", timeout=TIMEOUT_S, trust_env=False
        )
        self._token, self._renew_at = "", 0.0

    def ask(
        self,
        method: str,
        what: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the answer; raise its problem, or ServerUnreachable."""
        if time.monotonic() >= self._renew_at:
            self._token, self._renew_at = operator_access_token(), time.monotonic() + _TOKEN_S
        try:
            answer = self._client.request(
                method,
                what,
                params={name: value for name, value in (query or {}).items() if value},
                json=body,
                headers={"Authorization": f"Bearer {self._token}"},
            )
            document = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            why = str(error) or type(error).__name__
            raise ServerUnreachable(
                f"no control plane answers at {self.url}: {why}. It has the calls and the state "
                "of its mocks: start it (`partita up`), or name it with --server or "
                "PUBLIC_API_URL"
            ) from None
        if answer.is_error:
            code = str(document.get("code", ""))
            raise PlatformError(
                str(document.get("detail", answer.reason_phrase)),
                code=code if code in PROBLEMS else "internal_error",
            )
        return dict(document)


def space_query(options: Mapping[str, Any]) -> dict[str, str]:
    return {
        "suiteId": options["suite"],
        "executionId": options["run"],
        "import": options["path_of_import"],
    }


def add_space(parser: Any) -> None:
    """Add the arguments that name a space, and the server that has it."""
    parser.add_argument("suite", help="the id of the suite that serves the mocks")
    parser.add_argument(
        "--run",
        default="",
        type=run_id_of,
        metavar="RUN",
        help="the space of this run, its id or the address of its page (default: the shared one)",
    )
    parser.add_argument(
        "--import",
        default="",
        dest="path_of_import",
        metavar="PATH",
        help="where the run imports the suite, such as pay",
    )
    add_server(parser)


def run_id_of(text: str) -> str:
    """Return a run's id, also of the address of its page."""
    return text.rstrip("/").rsplit("/", 1)[-1].split("?")[0].split("#")[0]
