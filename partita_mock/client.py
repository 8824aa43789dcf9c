"""What a test asks the mocks of Partita: a client of `/api/v1/mocks`, of one file.

    from partita_mock.client import MockClient

    mocks = MockClient("http://127.0.0.1:8095")      # of `partita mock serve`
    mocks.verify("POST", "/orders", count=2)         # an AssertionError that says what came instead

A control plane needs the space and a token: `MockClient(url, space="shop@run-x", token="…")`.
Tests that run at once have a tag each, `MockClient(url, tag="test-1")`: they send `headers` with
what they call, and see no other calls. It needs Python's standard library alone: a project may
copy the file. (reference: control-plane 18.1)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NotRequired, TypedDict, Unpack
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

TAG_HEADER: Final = "X-Partita-Mock-Tag"
TIMEOUT_S: Final = 30.0
_PAGE: Final = "200"
_PLACES: Final[tuple[Literal["query", "header", "body"], ...]] = ("query", "header", "body")
Condition = Mapping[
    str, object
]  # as in example files: {"from": "query", "param": "q", "value": "x"}


class Which(TypedDict, total=False):
    """What calls have in common, beside method and path; `tag` "" means whatever their tag is.

    `query`, `header` and `body` are short for `when` with equality: `body={"card.type": "visa"}`.
    """

    surface: str
    operation: str
    example: str
    outcome: str
    valid: bool
    tag: str
    since: str  # RFC 3339
    when: Sequence[Condition]
    query: Mapping[str, str | float]
    header: Mapping[str, str | float]
    body: Mapping[str, str | float | None]


_WIRE: Final = {
    "surface": "surfaceId", "operation": "operationId", "example": "example", "tag": "tag",
    "outcome": "outcome", "valid": "valid", "since": "since",
}  # fmt: skip


class KeptCall(TypedDict):
    """A call as the journal has it, without credentials; `nearest` says why nothing answered it."""

    id: str
    time: str
    method: str
    path: str
    surfaceId: str
    operationId: NotRequired[str]
    matchedExample: NotRequired[str]
    outcome: str
    status: int
    durationMs: int
    requestQuery: NotRequired[str]
    requestHeaders: dict[str, str]
    requestBody: NotRequired[str]
    cut: NotRequired[list[str]]
    stateKey: NotRequired[str]
    stepId: NotRequired[str]
    tag: NotRequired[str]
    nearest: NotRequired[Mapping[str, Any]]
    contractErrors: NotRequired[list[Mapping[str, Any]]]


class NearMiss(TypedDict):
    """Another call, and how it differs from those that were meant."""

    call: KeptCall
    differences: list[str]


class VerifyAnswer(TypedDict):
    """What verify answers; `nearest` is another call, where there are too few."""

    count: int
    verified: bool
    detail: str
    calls: list[KeptCall]
    nearest: NotRequired[NearMiss]


class MockError(Exception):
    """Partita refuses a question, or does not answer; `problem` is its problem document."""

    def __init__(self, detail: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.problem = dict(problem or {})


class UnexpectedCalls(AssertionError):
    """Other calls came than a test expects; `answer` is what verify answers."""

    def __init__(self, answer: VerifyAnswer) -> None:
        super().__init__(answer["detail"])
        self.answer = answer


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, which would take the token elsewhere."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None


class MockClient:
    """The calls and the state of one space: `shop`, `shop@run-x` or `shop@run-x+pay/db`.

    `mock serve` has one space and needs neither name nor token. Each method raises MockError.
    """

    def __init__(
        self, url: str, *, space: str = "", token: str = "", tag: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> None:  # fmt: skip
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r}: expected an address such as http://127.0.0.1:8095")
        suite, _, run = space.partition("@")
        run, _, path = run.partition("+")
        named = {"suiteId": suite, "executionId": run, "import": path.replace("~", "/")}
        self._space = {name: value for name, value in named.items() if value}
        self._url = f"{url.rstrip('/')}/api/v1/mocks/"
        self._token = token
        self._timeout_s = timeout_s
        self._opener = build_opener(ProxyHandler({}), _NoRedirects())
        self.tag = tag

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that a test sends with what it calls, so that `tag` finds it."""
        return {TAG_HEADER: self.tag} if self.tag else {}

    def verify(
        self, method: str = "", path: str = "", *, count: int | None = None,
        at_least: int | None = None, at_most: int | None = None, **which: Unpack[Which],
    ) -> VerifyAnswer:  # fmt: skip
        """Raise UnexpectedCalls unless so many such calls came; without a number, at least one.

        `which` is as for `calls`. Return `{count, verified, detail, calls}`.
        """
        if count is None and at_most is None and at_least is None:
            at_least = 1
        numbers = {"count": count, "atLeast": at_least, "atMost": at_most}
        answer = self._ask(method, path, numbers, which)
        if not answer["verified"]:
            raise UnexpectedCalls(answer)
        return answer

    def count(self, method: str = "", path: str = "", **which: Unpack[Which]) -> int:
        """Return how many such calls came; `which` is as for `calls`."""
        return int(self._ask(method, path, {"limit": 0}, which)["count"])

    def calls(
        self, method: str = "", path: str = "", *, limit: int = 50, **which: Unpack[Which]
    ) -> list[KeptCall]:
        """Return the newest such calls as the journal has them, newest first.

        A `{x}` of `path` is any one segment; `which` has what else they have in common.
        """
        return list(self._ask(method, path, {"limit": limit}, which)["calls"])

    def unmatched_calls(self, *, limit: int = 50) -> list[KeptCall]:
        """Return the newest calls that nothing answered; `nearest` of each says why."""
        return list(self._ask("", "", {"limit": limit, "unmatched": True}, {})["calls"])

    def reset(self, *, tag: str | None = None, state: bool = False) -> int:
        """Forget the calls of a tag (default: that of this client, "" for all); return how many.

        With `state`, the records and counters of the whole space go, too.
        """
        if state:
            self._send("DELETE", "state", self._space)
        query = {**self._space, "tag": self.tag if tag is None else tag}
        return int(self._send("DELETE", "journal", query)["removed"])

    def state(self, key: str = "") -> dict[str, dict[str, str]]:
        """Return the fields of each record by its key, or of the one record, if it is there."""
        query = {**self._space, "key": key, "limit": _PAGE}
        page = self._send("GET", "state", query)
        records = list(page["records"])
        while cursor := page.get("nextCursor"):
            page = self._send("GET", "state", {**query, "cursor": cursor})
            records += page["records"]
        return {each["key"]: each["fields"] for each in records}

    def _ask(self, method: str, path: str, how: Mapping[str, object], which: Which) -> VerifyAnswer:
        given: Mapping[str, object] = which
        if unknown := given.keys() - Which.__annotations__.keys():
            known = ", ".join(sorted(Which.__annotations__))
            raise TypeError(f"unknown argument {min(unknown)!r}; known: {known}")
        equal = [
            {"from": source, "param": param, "value": value}
            for source in _PLACES
            for param, value in (which.get(source) or {}).items()
        ]
        question = {
            **self._space, **how, "method": method, "path": path, "tag": self.tag,
            **{wire: given[name] for name, wire in _WIRE.items() if name in given},
            "when": [*which.get("when", ()), *equal],
        }  # fmt: skip
        answer: VerifyAnswer = self._send("POST", "verify", body=question)
        return answer

    def _send(
        self, method: str, what: str, query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Any:  # fmt: skip
        text = urlencode({name: value for name, value in (query or {}).items() if value})
        request = Request(  # noqa: S310 - http or https, as checked above
            f"{self._url}{what}{'?' if text else ''}{text}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Accept": "application/json"},
            method=method,
        )
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise _problem_of(error) from None
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise MockError(f"{self._url}{what} does not answer: {reason}") from None


def _problem_of(error: HTTPError) -> MockError:
    try:
        with error:
            problem = dict(json.load(error))
    except ValueError:
        problem = {}
    return MockError(str(problem.get("detail") or f"status {error.code}"), problem)
