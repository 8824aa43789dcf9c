"""What is wrong in a GraphQL schema, in graphql-core's words; a schema may be in several files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Final

from graphql import (
    DirectiveLocation,
    GraphQLError,
    ParallelVisitor,
    build_ast_schema,
    specified_directives,
    validate_schema,
    visit,
)
from graphql.language import ast
from graphql.validation import SDLValidationContext
from graphql.validation.specified_rules import specified_sdl_rules

from readers.diagnostics import nearest_name

MAX_PROBLEMS: Final = 50
MAX_ERRORS: Final = 500  # of a file, of which some are none
MAX_COMPARED: Final = 50_000  # names, to find those that are like unknown ones
_KEYWORDS: Final = tuple(
    """type input enum interface union scalar schema directive extend implements query mutation
    subscription repeatable on""".split()  # noqa: SIM905
)
_ROOTS: Final = ("Query", "Mutation", "Subscription")
# Scalars that servers bring along, and what samples know.
_SCALARS: Final = frozenset(
    """DateTime Date Time URI URL JSON JSONObject UUID BigInt Long Upload Void Timestamp
    Decimal""".split()  # noqa: SIM905
)
_DECLARED: Final = re.compile(
    r"(?<!extend )\b(?:type|interface|union|enum|input|scalar)\s+(\w+)|\bdirective\s+@(\w+)"
)
_DESCRIBED: Final = re.compile(r'(?:"""(?:[^"]|"(?!""))*"""|"[^"\n]*")\s*(\w+)')
_PLACE: Final = re.compile(r"GraphQL request:(\d+):(\d+)")
_WORD: Final = re.compile(r"\w+")
_BUILT_IN: Final = ("Int", "Float", "String", "Boolean", "ID")
_LOCATIONS: Final = tuple(each.name for each in DirectiveLocation)
_UNKNOWN: Final = re.compile(r'^(?:Unknown (type|directive)|Cannot extend type) "@?(\w+)"')
_LIKE: Final = 0.75
Problem = tuple[str, int, int]  # detail, line, column


def syntax_problem(text: str, error: GraphQLError) -> Problem:
    """Return a syntax error with its place, and with the keyword that was most likely meant."""
    detail = _with_double_quotes(error.message)
    line, column = next(((each.line, each.column) for each in error.locations or ()), (0, 0))
    offset = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
    if "Unexpected description" in detail and (found := _DESCRIBED.match(text, max(offset, 0))):
        offset = found.start(1)  # of the keyword behind it
        line, before = text.count("\n", 0, offset) + 1, text.rfind("\n", 0, offset)
        column = offset - before
    at = _WORD.match(text, max(offset, 0))
    before_it = text[max(offset - 100, 0) : max(offset, 0)].split()[-1:]
    for word in (*([at[0]] if at else ()), *before_it):
        near = nearest_name(word, _LOCATIONS if word.isupper() else _KEYWORDS, least=_LIKE)
        if near and near != word:
            return f"{detail.rstrip('.')}; did you mean {near}?", line, column
    return detail, line, column


def _with_double_quotes(message: str) -> str:
    return re.sub(r"'([^'\n]*)'", r'"\1"', message[:400])


def schema_problems(document: ast.DocumentNode, files: Iterable[bytes]) -> Iterator[Problem]:
    """Yield what is wrong in a schema; `files` are all of its files, which may declare types."""
    texts = (each.decode(errors="replace") for each in files)
    declared = {name for text in texts for pair in _DECLARED.findall(text) for name in pair if name}
    errors = _sdl_errors(document, declared)
    return islice(chain(_misspelled_roots(document, declared), errors), MAX_PROBLEMS)


def _sdl_errors(document: ast.DocumentNode, declared: set[str]) -> Iterator[Problem]:
    try:
        errors = _validation_errors(document)
        if not errors:
            errors = validate_schema(build_ast_schema(document, assume_valid_sdl=True))
    except GraphQLError as refused:  # an argument of a directive
        errors = [refused]
    except (RecursionError, TypeError):
        return
    for error in errors:
        if detail := _detail(error, declared):
            if error.locations:
                place = error.locations[-1]  # of two, where the later one disagrees
                yield detail, place.line, place.column
            elif found := _PLACE.search(error.message):
                yield detail, int(found[1]), int(found[2])


def _validation_errors(document: ast.DocumentNode) -> list[GraphQLError]:
    """Return the first errors; each is compared with all names of the document."""
    left = min(MAX_ERRORS, MAX_COMPARED // max(len(document.definitions), 1)) or 1
    errors: list[GraphQLError] = []

    def keep(error: GraphQLError) -> None:
        errors.append(error)
        if len(errors) >= left:
            raise _Enough

    context = SDLValidationContext(document, None, keep)
    with suppress(_Enough):
        visit(document, ParallelVisitor([rule(context) for rule in specified_sdl_rules]))
    return errors


class _Enough(Exception):
    """There are as many errors as are listed."""


def _detail(error: GraphQLError, declared: set[str]) -> str:
    """Return what is said of an error, "" for what other files or servers may declare."""
    detail = _with_double_quotes(error.message.partition("\n")[0])
    found = _UNKNOWN.match(detail)
    if found is None:
        return detail
    if found[2] in declared or found[2] in _SCALARS:
        return ""
    if found[1] == "directive":  # those of servers and gateways are not declared
        known = {each.name for each in specified_directives} | declared
        near = nearest_name(found[2], known, least=_LIKE)
        return f"{detail} Did you mean @{near}?" if near else ""
    near = "" if "Did you" in detail else nearest_name(found[2], _BUILT_IN)
    return f'{detail} Did you mean "{near}"?' if near else detail


def _misspelled_roots(document: ast.DocumentNode, declared: set[str]) -> Iterator[Problem]:
    """Yield the types that would be roots if they were spelled so."""
    nodes = document.definitions
    if any(isinstance(each, ast.SchemaDefinitionNode) for each in nodes):
        return
    missing = [each for each in _ROOTS if each not in declared]
    for node in nodes:
        if isinstance(node, ast.ObjectTypeDefinitionNode | ast.ObjectTypeExtensionNode):
            near = nearest_name(node.name.value, missing, least=0.7)
            if near and near != node.name.value and node.name.loc:
                token = node.name.loc.start_token
                detail = f'the type "{node.name.value[:80]}" is not a root; did you mean {near}?'
                yield detail, token.line, token.column
