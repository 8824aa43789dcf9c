"""HTTP in a few words: requests, answers, problems, parameters (reference: sync-stack 4.11)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from kernel.errors import FieldError, PlatformError
from kernel.ids import new_uuid
from kernel.problems import PROBLEMS, problem_document, problem_headers

Scope = Mapping[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
MAX_LIMIT: Final = 200
DEFAULT_LIMIT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`path` has no `/` at its end; header names are lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, scope: Scope) -> Request:
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        return cls(
            method=scope["method"],
            path=scope["path"].rstrip("/") or "/",
            query=scope["query_string"].decode("latin-1"),
            headers=headers,
        )

    def parameters(
        self, known: Sequence[str], repeated: Sequence[str] = ()
    ) -> dict[str, list[str]]:
        """Name → values. Raises PlatformError for unknown and repeated ones."""
        found: dict[str, list[str]] = {}
        for name, value in parse_qsl(self.query, keep_blank_values=True):
            if name not in known:
                raise invalid("unknown_parameter", name, f"known: {', '.join(sorted(known))}")
            if name in found and name not in repeated:
                raise invalid("invalid_parameter", name, "given more than once")
            if "\0" in value:
                raise invalid("invalid_parameter", name, "holds a NUL, which no name does")
            found.setdefault(name, []).append(value)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    async def send(self, send: Send, *, head_only: bool, extra: Mapping[str, str]) -> None:
        headers = {
            "content-type": self.content_type,
            "content-length": str(len(self.body)),
            "x-content-type-options": "nosniff",
            "cache-control": "no-store",
            **self.headers,
            **extra,
        }
        pairs = [(name.lower().encode(), text.encode()) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": pairs})
        body = b"" if head_only else self.body
        await send({"type": "http.response.body", "body": body})


def answer(document: Any, **options: Any) -> Answer:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return Answer(body=text.encode(), **options)


def problem(error: PlatformError, request: Request, **headers: str) -> Answer:
    document = problem_document(error, instance=request.path, request_id=str(new_uuid()))
    return answer(
        document,
        status=PROBLEMS[error.problem_code],
        content_type="application/problem+json",
        headers=problem_headers(error) | headers,
    )


def invalid(code: str, name: str, detail: str) -> PlatformError:
    entry = FieldError(pointer=name, code=code, detail=detail)
    return PlatformError(f"{name}: {detail}", code=code, errors=[entry])


def limit_of(parameters: Mapping[str, list[str]]) -> int:
    """1 to 200, else 50. Raises PlatformError."""
    text = parameters.get("limit", [str(DEFAULT_LIMIT)])[0]
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise invalid("invalid_parameter", "limit", f"expected 1 to {MAX_LIMIT}")
    return int(text)
