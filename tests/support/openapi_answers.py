"""Whether a document is what the API's description says that an operation answers.

For what a client prints: `check_against_openapi("executions_list", json.loads(stdout))`. A key that
the description does not have is a fault, too: nothing says what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import jsonschema_rs
from drf_spectacular.generators import SchemaGenerator

_URLS: Final = "platform_site.urls"
_OPEN: Final = ("ResolvedNode",)  # a kind of node adds keys of its own
_MAX_FAULTS: Final = 20


def check_against_openapi(
    operation_id: str, document: Any, *, member: str = "", status: int = 200
) -> None:
    """Raise AssertionError that names each place where a document differs from the description.

    `member`: the document is this member of the answer alone (`executions`, or `items.0` for one
    entry of a list). `status`: of the answer.
    """
    _check(_validator(operation_id, member, status), document, f"{operation_id} answers otherwise")


def check_against_schema(name: str, document: Any) -> None:
    """The same for a schema of the description by its name: what streams carry."""
    _check(_schema_validator(name), document, f"{name} is described otherwise")


def _check(validator: Any, document: Any, title: str) -> None:
    faults = [
        f"/{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in validator.iter_errors(document)
    ]
    assert not faults, "\n".join([f"{title}:", *faults[:_MAX_FAULTS]])


@cache
def _schema_validator(name: str) -> Any:
    components = _description()["components"]
    assert name in components["schemas"], f"no schema {name!r}"
    whole = {"components": components, "$ref": f"#/components/schemas/{name}"}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


@cache
def _validator(operation_id: str, member: str, status: int) -> Any:
    description = _description()
    schema = _answer(operation_id, status)
    for name in filter(None, member.split(".")):
        schema = _part(schema, name)
    whole = {"components": description["components"], **schema}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def _answer(operation_id: str, status: int) -> Mapping[str, Any]:
    """Return the schema of the JSON that an operation answers with this status."""
    known = {
        operation["operationId"]: operation["responses"]
        for methods in _description()["paths"].values()
        for operation in methods.values()
        if isinstance(operation, dict) and "operationId" in operation
    }
    assert operation_id in known, f"no operation {operation_id!r}; known: {sorted(known)}"
    answers = known[operation_id]
    assert str(status) in answers, f"{operation_id} has the answers {sorted(answers)}"
    schema: Mapping[str, Any] = answers[str(status)]["content"]["application/json"]["schema"]
    return schema


def _part(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the schema of a member of an object, or of an entry of a list, by its number."""
    if reference := schema.get("$ref"):
        schema = _description()["components"]["schemas"][reference.rpartition("/")[2]]
    parts: Mapping[str, Any] = schema.get("properties", {})
    part: Mapping[str, Any] | None = schema.get("items") if name.isdigit() else parts.get(name)
    assert part is not None, f"there is no {name!r} in {sorted(parts)}"
    return part


@cache
def _description() -> Mapping[str, Any]:
    """Return the description of the whole API, in which no object has keys without words."""
    made = SchemaGenerator(urlconf=_URLS).get_schema(public=True)
    closed: dict[str, Any] = _closed(made)
    for name in _OPEN:
        del closed["components"]["schemas"][name]["additionalProperties"]
    return closed


def _closed(part: Any) -> Any:
    """Return a part of the description whose objects allow only the properties that it lists."""
    if isinstance(part, list):
        return [_closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    closed = {name: _closed(each) for name, each in part.items()}
    if part.get("type") == "object" and isinstance(part.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed
