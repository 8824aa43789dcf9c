"""Requests to the API of a CI system, with a token of the job: few, short and bounded."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from partita_client.addresses import parse_address
from partita_client.errors import BadConfiguration, NoConnection, NotPartita
from partita_client.patience import is_absence
from partita_client.transport import HttpTransport, pause_s

_TRIES: Final = 4
_ALL_S: Final = 40.0
_ONE_S: Final = 20.0
_MESSAGE_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAnswer:
    """`status` is 0 where there was no answer; `document` is None where it is not JSON.

    `may_pass`: another answer may come by itself.
    """

    status: int
    document: Any = None
    message: str = ""
    may_pass: bool = False

    @property
    def is_success(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


@dataclass(slots=True, kw_only=True)
class WebApi:
    """An API below an address; `headers` have the token. Raise BadConfiguration for plain http.

    Proxies and authorities are those of the environment.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    _transport: HttpTransport = field(init=False, repr=False)
    _path: str = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        self._transport = HttpTransport(f"{parts.scheme}://{parts.netloc}", timeout_s=_ONE_S)
        require_https(self._transport.address.url, "the address")
        self._path = parts.path.rstrip("/")

    def ask(
        self, method: str, path: str, body: object = None, *, repeats: bool = True
    ) -> WebAnswer:
        """Return the answer, whatever it is; again while the API is away, if `repeats` is set."""
        ends_at = time.monotonic() + _ALL_S
        answer = self._ask_once(method, path, body)
        for failures in range(_TRIES - 1 if repeats else 0):
            if not answer.may_pass or time.monotonic() > ends_at:
                break
            time.sleep(pause_s(failures))
            answer = self._ask_once(method, path, body)
        return answer

    def _ask_once(self, method: str, path: str, body: object) -> WebAnswer:
        try:
            answer = self._transport.ask(
                f"{self._path}{path}", method=method, body=body, headers=self.headers
            )
        except (NoConnection, NotPartita) as error:
            return WebAnswer(status=0, message=error.detail, may_pass=not error.is_permanent)
        try:
            document = json.loads(answer.body)
        except ValueError:
            document = None
        said = document.get("message") or document.get("error") if _is_object(document) else ""
        message = str(said or "")[:_MESSAGE_CHARACTERS]
        return WebAnswer(
            status=answer.status,
            document=document,
            message=message,
            may_pass=is_absence(answer.status),
        )

    def close(self) -> None:
        self._transport.close()


def _is_object(document: object) -> bool:
    return isinstance(document, dict)


def require_https(url: str, name: str) -> None:
    """Raise BadConfiguration for an address to which a token would go as plain text."""
    address = parse_address(url)
    if address.scheme != "https" and not address.is_loopback:
        raise BadConfiguration(f"{name} must be an https address: tokens are sent there")
