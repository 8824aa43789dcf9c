"""A call against the OpenAPI operation that it is for: everything that the contract says of it.

(reference: control-plane 18.2)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol, cast

from kernel.errors import FieldErrorDocument
from surfaces.contract_checks.bodies import CONTENT_TYPE, MALFORMED, BodyCheck
from surfaces.contract_checks.parameters import Call, parameter_checks
from surfaces.contract_checks.schemas import MAX_ERRORS, schema_problems
from surfaces.contract_checks.security import SecurityCheck
from surfaces.contract_examples.openapi_examples import OpenApiExamples
from surfaces.json_documents import Located
from surfaces.model import Operation

_BODY: Final = "/body"
_ANSWER: Final = "/response/body"
_NAMES: Final = re.compile(r"\{([^{}]*)\}")
_UNAUTHORIZED, _UNSUPPORTED, _INVALID, _BAD_REQUEST = 401, 415, 422, 400


class Request(Protocol):
    """A call: decoded path parameters, headers by lower-case name, and the body as it came.

    `body` is what the body is as JSON, and the text of one that is none.
    """

    @property
    def params(self) -> Mapping[str, str]: ...
    @property
    def raw_query(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def raw_body(self) -> bytes: ...
    @property
    def body(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong with a call, and the status that refuses it.

    `challenges` is the value of WWW-Authenticate for 401.
    """

    status: int
    errors: tuple[FieldErrorDocument, ...]
    challenges: str = ""


class OperationChecks:
    """The checks of one operation, compiled. `path_names` are the parameters of its own path."""

    def __init__(self, contract: OpenApiExamples, path_names: list[str]) -> None:
        documents, operation = contract.documents, contract.operation()
        root = Located(documents.value(contract.path), contract.path)
        self._documents = documents
        self._operation = operation
        self._security = SecurityCheck(documents, root, operation)
        owners = (contract.item(), operation)
        self._parameters = parameter_checks(documents, owners, path_names)
        self._body = BodyCheck(
            documents, documents.resolve(operation.get("requestBody")), "readOnly"
        )
        self._answers: dict[str, BodyCheck] = {}  # by key of `responses`
        declared = operation.members("responses")
        is_bad_request = "400" in declared and "422" not in declared
        self._invalid = _BAD_REQUEST if is_bad_request else _INVALID

    @property
    def checks_anything(self) -> bool:
        """Whether a call can be wrong at all."""
        return (
            bool(self._parameters) or self._body.checks_anything or self._security.checks_anything
        )

    def check(self, request: Request) -> Violation | None:
        """Return what is wrong with a call, None if nothing is; never raise."""
        call = Call(request.params, request.raw_query, request.headers)
        missing = self._security.errors(call)
        errors = [*missing]
        for each in self._parameters:
            errors += each.errors(call)
            if len(errors) > MAX_ERRORS:
                break
        errors += self._body_errors(request)
        if not errors:
            return None
        listed = tuple(errors[:MAX_ERRORS])
        if missing:
            return Violation(_UNAUTHORIZED, listed, self._security.challenges)
        return Violation(self._status(listed), listed)

    def _body_errors(self, request: Request) -> Iterable[FieldErrorDocument]:
        raw, body = request.raw_body, self._body
        if not raw:
            missing = {"pointer": _BODY, "code": "required", "detail": "a body is required"}
            return [cast("FieldErrorDocument", missing)] if body.is_required else ()
        if not body.media_types:
            return ()
        content_type = request.headers.get("content-type", "")
        media = body.media(content_type)
        if media is not None:
            found = media.errors(raw, content_type, _BODY, lambda: request.body)
            return islice(found, MAX_ERRORS)
        detail = f"must be one of {body.media_types}"[:500]
        return [{"pointer": CONTENT_TYPE, "code": "invalid_value", "detail": detail}]

    def _status(self, errors: Sequence[FieldErrorDocument]) -> int:
        if any(each["pointer"] == CONTENT_TYPE for each in errors):
            return _UNSUPPORTED
        is_malformed = any(each["code"] == MALFORMED for each in errors)
        return _BAD_REQUEST if is_malformed else self._invalid

    def answer_errors(
        self, status: int, media_type: str, body: bytes
    ) -> tuple[FieldErrorDocument, ...]:
        """Return what is wrong with an answer: its status, media type and body."""
        declared = {str(key).upper(): each
                    for key, each in self._operation.members("responses").items()}  # fmt: skip
        keys = (str(status), f"{status // 100}XX", "DEFAULT")
        key = next((each for each in keys if each in declared), "")
        if not declared:
            return ()
        if not key:
            return ({"pointer": "/response/status", "code": "invalid_value",
                     "detail": "is not one that the contract declares"},)  # fmt: skip
        if key not in self._answers:
            response = self._documents.resolve(Located(declared[key], self._operation.file))
            self._answers[key] = BodyCheck(self._documents, response, "writeOnly")
        check = self._answers[key]
        media = check.media(media_type)
        if not body or not check.media_types:
            return ()
        if media is None:
            return ({"pointer": "/response/header/Content-Type", "code": "invalid_value",
                     "detail": f"must be one of {check.media_types}"[:500]},)  # fmt: skip
        return tuple(islice(media.errors(body, media_type, _ANSWER), MAX_ERRORS))


def checks_of(operation: Operation) -> OperationChecks | None:
    """Return the checks of an operation of OpenAPI; None for any other one."""
    contract = operation.contract_examples
    if not isinstance(contract, OpenApiExamples) or operation.mock.adapter != "rest":
        return None
    made = OperationChecks(contract, _NAMES.findall(operation.path))
    return made if made.checks_anything or operation.mock.fallback else None


def unchecked_parts(contract: OpenApiExamples) -> Iterator[tuple[str, str]]:
    """Yield what of an operation's requests is not checked: where, and why."""
    documents, operation = contract.documents, contract.operation()
    for owner in (contract.item(), operation):
        for each in owner.items("parameters"):
            place = documents.resolve(Located(each, owner.file))
            shown = f"{place.get('in').value} {place.get('name').value}"
            for reason in schema_problems(documents, place.get("schema")):
                yield shown[:200], reason
    body = documents.resolve(operation.get("requestBody"))
    for kind in body.members("content"):
        for reason in schema_problems(documents, body.get("content", kind, "schema")):
            yield f"the body as {kind}"[:200], reason
