"""JSONPath by RFC 9535: patterns in linear time, and a bounded number of steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import re2
from jsonpath import JSONPath, JSONPathEnvironment, JSONPathMatch
from jsonpath.exceptions import JSONPathError
from jsonpath.filter import BaseExpression, FilterQuery
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.parse import Parser
from jsonpath.stream import TokenStream

MAX_STEPS: Final = 20_000  # nodes and comparisons of one search
MAX_FOUND: Final = 1_000
_PATTERN_STEPS: Final = 20  # what a match of a pattern counts
_MAX_PATTERN: Final = 2_000
_MAX_TEXT: Final = 8 * 2**10  # characters that patterns see
_QUIET: Final = re2.Options()
_QUIET.log_errors = False
_left = threading.local()


class _TooMuchWork(Exception):
    pass


def _take(steps: int = 1) -> None:
    _left.steps -= steps
    if _left.steps < 0:
        raise _TooMuchWork


class _CountedNode(JSONPathMatch):
    """A node without the text of its path, which would grow with the keys of a body."""

    __slots__ = ()

    def __init__(self, **parts: Any) -> None:
        _take()
        super().__init__(**parts)

    def new_child(self, obj: object, _key: int | str) -> JSONPathMatch:
        return _node(obj, self.root)


def _node(obj: object, root: Any) -> JSONPathMatch:
    return _CountedNode(filter_context={}, obj=obj, parent=None, parts=(), path="", root=root)


class _Path(JSONPath):
    """A query of nodes that are counted: the library's begins with one of its own."""

    __slots__ = ()

    def finditer(self, data: Any, **_context: Any) -> Iterable[JSONPathMatch]:
        matches: Iterable[JSONPathMatch] = [_node(data, data)]
        for segment in self.segments:
            matches = segment.resolve(matches)
        return matches


class _PathParser(Parser):
    def parse_absolute_query(self, stream: TokenStream) -> BaseExpression:
        return _count_nodes(super().parse_absolute_query(stream))

    def parse_relative_query(self, stream: TokenStream) -> BaseExpression:
        return _count_nodes(super().parse_relative_query(stream))


def _count_nodes(query: BaseExpression) -> BaseExpression:
    assert isinstance(query, FilterQuery)
    query.path = _Path(env=query.path.env, segments=query.path.segments)
    return query


class _Pattern(FilterFunction):
    """`match` and `search` of the RFC, by RE2."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]
    return_type = ExpressionType.LOGICAL

    def __init__(self, verb: str) -> None:
        self._verb = verb

    def __call__(self, value: object, pattern: object) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        _take(_PATTERN_STEPS)
        compiled = _compile_pattern(pattern[: _MAX_PATTERN + 1])
        return compiled is not None and bool(getattr(compiled, self._verb)(value[:_MAX_TEXT]))


@lru_cache(maxsize=200)
def _compile_pattern(pattern: str) -> Any:
    if len(pattern) > _MAX_PATTERN:
        return None
    try:
        return re2.compile(pattern, options=_QUIET)
    except (re2.error, UnicodeEncodeError):
        return None


class _Environment(JSONPathEnvironment):
    parser_class = _PathParser

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Pattern("fullmatch")
        self.function_extensions["search"] = _Pattern("search")

    def compare(self, left: object, operator: str, right: object) -> bool:
        _take()
        return super().compare(left, operator, right)

    def is_truthy(self, obj: object) -> bool:
        _take()
        return super().is_truthy(obj)


_ENVIRONMENT: Final = _Environment(strict=True, filter_caching=False)
_FAILURES: Final = (
    _TooMuchWork, JSONPathError, RecursionError, ArithmeticError, LookupError, TypeError,
    UnicodeError, ValueError,
)  # fmt: skip


def compile_json_path(text: str) -> Callable[[Any], Sequence[Any]]:
    """Return what finds values in a parsed body, at most `MAX_FOUND`; raise ValueError.

    A search that takes more than `MAX_STEPS` finds nothing.
    """
    try:
        parsed = _ENVIRONMENT.compile(text)
        assert isinstance(parsed, JSONPath)  # unions are no part of the RFC
        compiled = _Path(env=_ENVIRONMENT, segments=parsed.segments)
    except (JSONPathError, RecursionError) as error:
        raise ValueError(str(error).partition("\n")[0][:200]) from None

    def find(body: Any) -> Sequence[Any]:
        if not isinstance(body, dict | list):
            return ()
        _left.steps = MAX_STEPS
        found: list[Any] = []
        try:
            for node in compiled.finditer(body):
                found.append(node.obj)
                if len(found) >= MAX_FOUND:
                    break
        except _FAILURES:
            return ()
        return found

    return find
