"""GraphQL contracts: the root fields of a schema in SDL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from graphql import GraphQLError, parse
from graphql.language import ast

from surfaces.contract_examples.message_examples import SampleExample
from surfaces.contract_formats.graphql_mistakes import schema_problems, syntax_problem
from surfaces.contract_formats.graphql_samples import SchemaTypes, named_type
from surfaces.contracts import INVALID, Contract, ContractOperation, Sources

PROTOCOL: Final = "GraphQL"
GRAPHQL: Final = (".graphql", ".graphqls", ".gql")
PATH: Final = "/graphql"
MAX_TOKENS: Final = 100_000
_ROOTS: Final = {"query": "Query", "mutation": "Mutation", "subscription": "Subscription"}
_SCALARS: Final = ("String", "ID", "Int", "Float", "Boolean")
_TYPES: Final = (ast.ObjectTypeDefinitionNode, ast.ObjectTypeExtensionNode)
_SCHEMAS: Final = (ast.SchemaDefinitionNode, ast.SchemaExtensionNode)


def read_graphql(path: str, sources: Sources) -> Contract | None:
    """Return what the file declares; None for a file without root fields."""
    text = sources.text(path)
    try:
        document = parse(text, max_tokens=MAX_TOKENS)
    except GraphQLError as error:
        detail, line, column = syntax_problem(text, error)
        sources.warnings.add_at(INVALID, detail, path, line, column)
        return None
    except RecursionError:
        sources.warnings.add_at(INVALID, "nested too deep", path)
        return None
    others = (sources.files[each] for each in sources.files if each.lower().endswith(GRAPHQL))
    for detail, line, column in schema_problems(document, others):
        sources.warnings.add_at(INVALID, detail, path, line, column)
    operations = tuple(_operations(document, path, sources))
    if not operations:
        return None
    return Contract(path=path, protocol=PROTOCOL, operations=operations)


def _operations(
    document: ast.DocumentNode, path: str, sources: Sources
) -> Iterator[ContractOperation]:
    roots = dict(_ROOTS)
    for node in document.definitions:
        if isinstance(node, _SCHEMAS):
            roots |= {each.operation.value: each.type.name.value for each in node.operation_types}
    kinds = {name: kind for kind, name in roots.items()}
    scalars = {*_SCALARS, *_leaf_types(document)}
    types = SchemaTypes(document)
    for node in document.definitions:
        if not isinstance(node, _TYPES) or node.name.value not in kinds:
            continue
        for field in node.fields or ():
            if sources.take_operation(path):
                found = _operation(kinds[node.name.value], node.name.value, field, scalars)
                sample = partial(types.answer, field)
                yield replace(found, examples=SampleExample(path, sample))


def _operation(
    kind: str, root: str, field: ast.FieldDefinitionNode, scalars: set[str]
) -> ContractOperation:
    name = field.name.value
    said = field.description.value.strip().partition("\n")[0][:300] if field.description else ""
    selection = "" if named_type(field.type) in scalars else " { __typename }"
    location = field.loc
    token = location.start_token if location else None
    return ContractOperation(
        operation_id=name,
        method="POST",
        name=f"{root}.{name}",
        path=PATH,
        summary=said,
        body=json.dumps({"query": f"{kind} {{ {name}{selection} }}"}),
        media_type="application/json",
        line=token.line if token else 0,
        column=token.column if token else 0,
    )


def _leaf_types(document: ast.DocumentNode) -> Iterator[str]:
    for node in document.definitions:
        if isinstance(node, ast.ScalarTypeDefinitionNode | ast.EnumTypeDefinitionNode):
            yield node.name.value
