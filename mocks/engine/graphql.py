"""Calls of GraphQL: root fields choose the mocks, the query shapes the answer.

(reference: control-plane 18.2)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from graphql import (
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    build_ast_schema,
    execute_sync,
    get_operation_ast,
    is_leaf_type,
    is_list_type,
    is_non_null_type,
    parse,
    validate,
)
from graphql.language import ast

from mocks.engine.tables import CompiledOperation
from mocks.model.calls import CallOutcome, MockAnswer, MockRequest
from mocks.model.paths import MISSING, value_at
from mocks.templates.coercions import coerce
from mocks.templates.templates import JSON
from surfaces.contract_formats.graphql import MAX_TOKENS

MAX_QUERY_TOKENS: Final = 10_000
MAX_FIELDS: Final = 500  # of a query, fragments written out
MAX_DEPTH: Final = 20
MAX_ROOT_FIELDS: Final = 20
MAX_ERRORS: Final = 20
_OK, _BAD = 200, 400
_SAMPLES: Final = {"Int": 1, "Float": 1.0, "Boolean": True, "ID": "1"}
Answer = Callable[[CompiledOperation, MockRequest], Awaitable[MockAnswer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    document: ast.DocumentNode
    operation: ast.OperationDefinitionNode
    name: str
    variables: Mapping[str, Any]

    @property
    def fragments(self) -> Mapping[str, ast.FragmentDefinitionNode]:
        return {
            each.name.value: each
            for each in self.document.definitions
            if isinstance(each, ast.FragmentDefinitionNode)
        }


@dataclass(frozen=True, slots=True)
class _FieldAnswer:
    """What the mock of a root field answers; `value` is MISSING where it is no data of GraphQL."""

    operation: CompiledOperation
    answer: MockAnswer
    key: str
    value: Any
    errors: Sequence[Any]


class QueryRefused(Exception):
    """A query that is answered with `errors`."""

    def __init__(self, errors: Sequence[GraphQLError], status: int = _OK) -> None:
        super().__init__(errors)
        self.errors = errors
        self.status = status


async def answer_graphql(
    first: CompiledOperation, request: MockRequest, answer: Answer
) -> tuple[CompiledOperation, MockAnswer]:
    """Return the operation of the first root field, and the answer to the whole query.

    A query that is wrong is answered with `errors`. Conditions and templates see the arguments of
    their root field as `arguments` of the body. What is no data of GraphQL, such as another status,
    is answered as it is written.
    """
    schema = await _schema_of(first)
    try:
        query = _read_query(request)
        _validate(schema, query)
        fields = _root_fields(query)
    except QueryRefused as refused:
        return first, _error_answer(refused)
    answers = []
    for field in fields:
        operation = _operation_of(first, query, field.name.value)
        if operation is not None:
            made = await answer(operation, _with_arguments(request, query, field))
            answers.append(_field_answer(operation, made, field))
    if schema is None:
        return (answers[0].operation, answers[0].answer) if answers else (
            first, await answer(first, request)
        )  # fmt: skip
    other = next((each for each in answers if each.value is MISSING), None)
    if other is not None:
        return other.operation, other.answer
    base = answers[0].answer if answers else MockAnswer(media_type=JSON)
    body = _execute(schema, query, answers)
    return answers[0].operation if answers else first, replace(base, body=body)


def _validate(schema: GraphQLSchema | None, query: _Query) -> None:
    """Raise QueryRefused with what a schema does not allow."""
    try:
        errors = validate(schema, query.document, max_errors=MAX_ERRORS) if schema else ()
    except RecursionError:
        errors = [GraphQLError("nested too deep")]
    if errors:
        raise QueryRefused(errors)


def _key(field: ast.FieldNode) -> str:
    """Return the name of a field in the answer."""
    return field.alias.value if field.alias else field.name.value


def locate_graphql(
    first: CompiledOperation, request: MockRequest
) -> tuple[CompiledOperation, MockRequest]:
    """Return the operation of the first root field that has one, and the request as it sees it."""
    try:
        query = _read_query(request)
        for field in _root_fields(query):
            operation = _operation_of(first, query, field.name.value)
            if operation is not None:
                return operation, _with_arguments(request, query, field)
    except QueryRefused:
        pass  # the answer of a call says why
    return first, request


async def _schema_of(operation: CompiledOperation) -> GraphQLSchema | None:
    """Return the schema of the operation's contract, None without one that can be used."""
    known, path = operation.space.schemas, operation.operation.contract_path
    if path not in known:
        content = operation.space.content.files.get(path)
        # a large schema takes a second
        known[path] = await asyncio.to_thread(_build_schema, content) if content else None
    return known[path]


def _build_schema(content: bytes) -> GraphQLSchema | None:
    try:
        document = parse(content.decode(errors="replace"), max_tokens=MAX_TOKENS)
        return build_ast_schema(document, assume_valid=True, assume_valid_sdl=True)
    except (GraphQLError, TypeError, RecursionError):
        return None


def _read_query(request: MockRequest) -> _Query:
    """Return the query of a call; raise QueryRefused."""
    body: Any = request.query if request.method in ("GET", "HEAD") else request.body
    if isinstance(body, str) and "graphql" in request.headers.get("content-type", ""):
        body = {"query": body}
    if not isinstance(body, Mapping) or not isinstance(text := body.get("query"), str):
        raise QueryRefused([GraphQLError("the request is not JSON with a query")], _BAD)
    name, variables = body.get("operationName") or "", body.get("variables") or {}
    if isinstance(variables, str):
        variables = coerce(variables, "object")
    if not isinstance(variables, dict) or not isinstance(name, str):
        raise QueryRefused([GraphQLError("variables must be an object, operationName a text")])
    try:
        return _parse_query(text, name, variables)
    except GraphQLError as error:
        raise QueryRefused([error]) from None
    except RecursionError:
        raise QueryRefused([GraphQLError("nested too deep")]) from None


def _parse_query(text: str, name: str, variables: Mapping[str, Any]) -> _Query:
    """Return a query; raise GraphQLError or RecursionError for one that is none, or too large."""
    document = parse(text, max_tokens=MAX_QUERY_TOKENS)
    operation = get_operation_ast(document, name or None)
    if operation is None:
        wanted = f'named "{name[:80]}"' if name else "alone; name one by operationName"
        raise GraphQLError(f"the query has no operation {wanted}")
    query = _Query(document=document, operation=operation, name=name, variables=variables)
    for each in document.definitions:
        if isinstance(each, ast.ExecutableDefinitionNode):
            _count_fields(each.selection_set, query.fragments, MAX_FIELDS, 0)
    return query


def _count_fields(
    selections: ast.SelectionSetNode | None,
    fragments: Mapping[str, ast.FragmentDefinitionNode],
    room: int,
    depth: int,
) -> int:
    """Return how many fields more there may be; raise GraphQLError for a query that is too large.

    Fragments count as if they were written out.
    """
    if depth > MAX_DEPTH:
        raise GraphQLError(f"the query is more than {MAX_DEPTH} levels deep")
    for each in selections.selections if selections else ():
        if room <= 0:
            raise GraphQLError(f"the query has more than {MAX_FIELDS} fields")
        below = fragments.get(each.name.value) if isinstance(each, ast.FragmentSpreadNode) else each
        room = _count_fields(getattr(below, "selection_set", None), fragments, room - 1, depth + 1)
    return room


def _root_fields(query: _Query) -> list[ast.FieldNode]:
    """Return the root fields that mocks answer, each response name once; raise QueryRefused."""
    found: dict[str, ast.FieldNode] = {}
    waiting: list[ast.SelectionNode] = list(query.operation.selection_set.selections)
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, ast.FieldNode):
            if not each.name.value.startswith("__"):
                found.setdefault(_key(each), each)
            continue
        known = query.fragments.get(each.name.value) if hasattr(each, "name") else each
        waiting[:0] = getattr(known, "selection_set", _NOTHING).selections
    if len(found) > MAX_ROOT_FIELDS:
        error = GraphQLError(f"the query has more than {MAX_ROOT_FIELDS} root fields")
        raise QueryRefused([error])
    return list(found.values())


_NOTHING: Final = ast.SelectionSetNode(selections=())


def _operation_of(first: CompiledOperation, query: _Query, field: str) -> CompiledOperation | None:
    """Return the operation of a root field: by `Query.field`, by its id, else by operationName."""
    listed = first.at_same_address
    kind = query.operation.operation.value
    tests: list[Callable[[CompiledOperation], bool]] = [
        lambda each: each.operation.name.casefold() == f"{kind}.{field}".casefold(),
        lambda each: each.operation.name.rpartition(".")[2] == field,
        lambda each: each.operation.operation_id == field,
        lambda each: query.name != "" and each.operation.operation_id == query.name,
    ]
    return next((each for test in tests for each in listed if test(each)), None)


def _with_arguments(request: MockRequest, query: _Query, field: ast.FieldNode) -> MockRequest:
    """Return the request as the mock of a root field sees it."""
    arguments = {
        each.name.value: _plain(each.value, query.variables) for each in field.arguments or ()
    }
    given = request.body if isinstance(request.body, dict) else {}
    own = {"query": "", "variables": query.variables, **given, "arguments": arguments}
    return request.with_body(own)


def _plain(node: ast.ValueNode, variables: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.VariableNode):
        return variables.get(node.name.value)
    if isinstance(node, ast.ListValueNode):
        return [_plain(each, variables) for each in node.values]
    if isinstance(node, ast.ObjectValueNode):
        return {each.name.value: _plain(each.value, variables) for each in node.fields}
    if isinstance(node, ast.IntValueNode | ast.FloatValueNode):
        return msgspec.json.decode(node.value)
    return getattr(node, "value", None)


def _field_answer(
    operation: CompiledOperation, answer: MockAnswer, field: ast.FieldNode
) -> _FieldAnswer:
    """Return what the `data` and the `errors` of an example have for a root field."""
    is_data = not answer.error_code and answer.status == _OK
    body = coerce(answer.body.decode(errors="replace"), "object") if is_data else MISSING
    errors = value_at(body, ("errors",))
    return _FieldAnswer(
        operation, answer, _key(field), value_at(body, ("data", field.name.value)),
        errors if isinstance(errors, list) else (),
    )  # fmt: skip


def _execute(schema: GraphQLSchema, query: _Query, answers: Sequence[_FieldAnswer]) -> bytes:
    """Return the answer: what the query selects of the values of its root fields."""
    values = {each.key: each.value for each in answers}

    def resolve(source: Any, info: GraphQLResolveInfo[Any], **_arguments: Any) -> Any:
        if info.path.prev is None:
            return values.get(str(info.path.key))
        value = source.get(info.field_name) if isinstance(source, dict) else None
        return _sample(info.return_type) if value is None else value

    try:
        found = execute_sync(
            schema, query.document, {}, None, dict(query.variables), query.name or None, resolve
        )
    except (TypeError, RecursionError) as error:
        return msgspec.json.encode({"errors": [{"message": str(error)[:400]}]})
    document: dict[str, object] = {"data": found.data}
    own = [error for each in answers for error in each.errors]
    errors = [*own, *(each.formatted for each in (found.errors or [])[:MAX_ERRORS])]
    if errors:
        document["errors"] = errors
    return msgspec.json.encode(document)


def _sample(type_: Any) -> Any:
    """Return a value for a field that must have one and that the example leaves out."""
    if not is_non_null_type(type_):
        return None
    inner = type_.of_type
    if is_list_type(inner):
        return []
    if is_leaf_type(inner):
        names = list(getattr(inner, "values", {}))
        return names[0] if names else _SAMPLES.get(inner.name, "string")
    return {}


def _error_answer(refused: QueryRefused) -> MockAnswer:
    return MockAnswer(
        status=refused.status,
        media_type=JSON,
        body=msgspec.json.encode({"errors": [each.formatted for each in refused.errors]}),
        outcome=CallOutcome.REJECTED,
    )
