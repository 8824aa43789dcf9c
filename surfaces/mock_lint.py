"""What is legal in mocks and most likely wrong: examples that never answer or break a contract.

lint_mocks(surfaces, warnings)       # those of hydration; by file and line
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from kernel.errors import FileWarning
from readers import Unreadable
from readers.diagnostics import Diagnostic, Severity
from readers.json import unescape_pointer
from readers.tree import Tree
from surfaces.contract_checks import unchecked_parts
from surfaces.contract_examples.message_examples import AsyncApiExamples
from surfaces.contract_examples.openapi_examples import OpenApiExamples
from surfaces.contract_examples.schema_checks import Problem, is_of_type, problems
from surfaces.contract_examples.text_examples import UnreadText
from surfaces.json_documents import Located
from surfaces.model import (
    Condition,
    ContractExamples,
    Exchange,
    Operation,
    RandomRules,
    SequenceRules,
    Surface,
    has_own_answers,
)
from surfaces.samples import SampleBudget, Sampler
from surfaces.schemas import is_json
from surfaces.trees import NOTHING, child, read_tree

DEAD: Final = "mock_unreachable_example"
IMPOSSIBLE: Final = "mock_impossible_condition"
BREAKS: Final = "mock_breaks_contract"
UNDECLARED: Final = "mock_not_in_contract"
TEXT: Final = "mock_example_is_text"
UNCHECKED: Final = "contract_not_checked"
UNREAD: Final = "mock_example_not_read"
UNFIT: Final = "contract_example_invalid"
MAX_PROBLEMS: Final = 5  # of one example
# what makes an operation answer 500, or an example vanish
_ERRORS: Final = ("mock_metadata_invalid", "mock_examples_invalid", "cue_unsupported")
_PARAMETER: Final = re.compile(r"\{([^{}]*)\}")
_WITHOUT_BODY: Final = ("GET", "HEAD", "OPTIONS", "TRACE")


def lint_mocks(
    surfaces: Sequence[Surface], warnings: Sequence[FileWarning] = ()
) -> list[Diagnostic]:
    """Return the diagnostics of all mocks, each once, by file and line."""
    found = [_of_warning(each) for each in warnings]
    places = _Places()
    for surface in surfaces:
        has_contract = any(each.contract_examples is not None for each in surface.operations)
        for operation in surface.operations:
            found += _Lint(operation, places, has_contract=has_contract).diagnostics()
    return sorted(dict.fromkeys(found), key=Diagnostic.order)


def _of_warning(warning: FileWarning) -> Diagnostic:
    return Diagnostic(
        code=warning.code,
        severity="error" if warning.code in _ERRORS else "warning",
        message=warning.detail,
        file=warning.file or "",
        line=warning.line or 0,
        column=warning.column or 0,
    )


class _Places:
    """Where values of contracts are written."""

    def __init__(self) -> None:
        self.files: Mapping[str, bytes] = {}
        self.trees: dict[str, Tree] = {}

    def at(self, file: str, pointer: str) -> tuple[int, int]:
        """Return line and column of a value, or of the nearest one above it that is written."""
        if file not in self.trees:
            self.trees[file] = NOTHING
            with suppress(Unreadable):
                text = self.files.get(file, b"").decode(errors="replace")
                self.trees[file] = read_tree(text, file)
        tree = self.trees[file]
        for part in pointer.split("/")[1:]:
            below = child(tree, unescape_pointer(part))
            if below is None and part == "content":
                below = tree.get("examples")  # of Swagger 2
            tree = below or tree
        return tree.line, tree.column


class _Lint:
    """The diagnostics of one operation."""

    def __init__(self, operation: Operation, places: _Places, *, has_contract: bool) -> None:
        self.operation = operation
        self.places = places
        self.has_contract = has_contract
        found = operation.contract_examples
        self.contract = found if isinstance(found, OpenApiExamples) else None
        if isinstance(found, OpenApiExamples | AsyncApiExamples):
            places.files = found.documents.files

    def diagnostics(self) -> Iterator[Diagnostic]:
        mock = self.operation.mock
        if mock.metadata_path and self.has_contract and self.operation.contract_examples is None:
            detail = (
                f"no contract of this surface declares {self.operation.operation_id} "
                f"({self.operation.method} {self.operation.name})"
            )
            file = mock.mock_path or mock.metadata_path
            yield Diagnostic(code=UNDECLARED, severity="warning", message=detail[:400], file=file)
        yield from self._check_texts()
        if self.contract is not None:
            for where, reason in islice(unchecked_parts(self.contract), MAX_PROBLEMS):
                detail = f"{self.operation.operation_id}: {where} is not checked whole: {reason}"
                file = self.contract.path
                yield Diagnostic(
                    code=UNCHECKED, severity="warning", message=detail[:600], file=file
                )
        for exchange in self.operation.exchanges:
            yield from self._dead(exchange)
            if mock.dispatcher in ("example", "random") or mock.rules is None:
                for condition in exchange.when:
                    if reason := self._impossible(exchange, condition):
                        yield self._at(exchange, IMPOSSIBLE, f"never answers: {reason}")
            yield from self._check_response(exchange)

    def _check_texts(self) -> Iterator[Diagnostic]:
        """Yield the examples of an OpenAPI document that are answered as a text, or not at all."""
        contract = self.operation.contract_examples
        if contract is None or has_own_answers(self.operation):
            return
        for code, listed, what in _unfit_examples(contract):
            for each in listed:
                detail = f"the example at {each.pointer[:300]} {what}: {each.reason}"
                line, column = self.places.at(each.file, each.pointer)
                yield Diagnostic(
                    code=code, severity="warning", message=detail[:600], file=each.file,
                    line=line, column=column,
                )  # fmt: skip

    def _at(
        self, exchange: Exchange, code: str, message: str, severity: Severity = "warning"
    ) -> Diagnostic:
        return Diagnostic(
            code=code,
            severity=severity,
            message=f'"{exchange.name[:80]}" {message}'[:600],
            file=exchange.source_artifact,
            line=exchange.line,
        )

    def _dead(self, exchange: Exchange) -> Iterator[Diagnostic]:
        """Yield that an example is drawn by no rule; equal conditions are found by hydration."""
        rules, fallback = self.operation.mock.rules, self.operation.mock.fallback
        if isinstance(rules, SequenceRules):
            used = set(rules.names)
        elif isinstance(rules, RandomRules) and rules.weights:
            used = {name for name, weight in rules.weights.items() if weight}
        else:
            return
        if fallback is not None and fallback.mode == "example":
            used.add(fallback.example_name)
        if exchange.name not in used:
            yield self._at(exchange, DEAD, "never answers: dispatcherRules do not name it")

    def _impossible(self, exchange: Exchange, condition: Condition) -> str:
        """Return why no request can fulfil a condition, "" if one may."""
        source, param, value = condition.source, condition.param, condition.value
        shown = f"{source} {param}"
        if condition.alternative or condition.negated or condition.operator == "absent":
            return ""
        for other in exchange.when if condition.is_equality else ():
            same = (other.source, other.param) == (source, param) and not other.alternative
            if same and other.is_equality and other.value != value:
                return f'{shown} cannot be both "{value[:40]}" and "{other.value[:40]}"'
        if self.operation.mock.adapter == "rest":
            if source == "path" and param not in _PARAMETER.findall(self.operation.path):
                return f"{self.operation.path} has no parameter {param}"
            if source == "body" and self.operation.method in _WITHOUT_BODY:
                return f"a {self.operation.method} has no body"
        return self._outside_schema(condition)

    def _outside_schema(self, condition: Condition) -> str:
        """Return why a declared parameter cannot have the value."""
        if self.contract is None or condition.source not in ("path", "query", "header"):
            return ""
        if not condition.is_equality:
            return ""
        for place in self.contract.request().parameters:
            name = place.value["name"]
            same = name == condition.param or (
                condition.source == "header" and name.lower() == condition.param.lower()
            )
            if place.value["in"] == condition.source and same:
                return self._outside(place, condition)
        return ""

    def _outside(self, parameter: Located, condition: Condition) -> str:
        documents = self.contract.documents if self.contract else None
        schema = parameter.get("schema")
        if documents is None or not isinstance(schema.value, dict):
            return ""
        for value in _readings(condition.value):
            if next(problems(documents, value, schema), None) is None:
                return ""
        resolved = documents.resolve(schema).value
        if isinstance(resolved, dict) and resolved.get("type") in ("array", "object"):
            return ""  # written in one of several styles
        found = next(problems(documents, condition.value, schema), None)
        reason = found.reason if found else "it does not suit its schema"
        return f'{condition.source} {condition.param} is "{condition.value[:80]}", but {reason}'

    def _check_response(self, exchange: Exchange) -> Iterator[Diagnostic]:
        """Yield what a response has that its contract does not allow."""
        response = self._response(exchange.status)
        is_unseen = exchange.fault is not None and not exchange.fault.shows_answer
        if self.contract is None or response is None or is_unseen:
            return
        if response.value is None:
            detail = f"answers {exchange.status}, which {self.contract.path} does not declare"
            yield self._at(exchange, UNDECLARED, detail)
            return
        found = list(islice(self._body_problems(self.contract, exchange, response), MAX_PROBLEMS))
        for each in found:
            where = f" at {each.pointer}" if each.pointer else ""
            detail = f"breaks its contract{where}: {each.reason} ({self.contract.path})"
            yield self._at(exchange, BREAKS, detail, "error")

    def _response(self, status: str) -> Located | None:
        """Return what is declared for a status; a value of None if nothing is."""
        if self.contract is None:
            return None
        operation = self.contract.operation()
        responses = operation.members("responses")
        if not responses:
            return None
        named = {key.upper(): each for key, each in responses.items()}
        for key in (status, f"{status[:1]}XX", "DEFAULT"):
            if key in named:
                return self.contract.documents.resolve(Located(named[key], operation.file))
        return Located(None, operation.file)

    def _body_problems(
        self, contract: OpenApiExamples, exchange: Exchange, response: Located
    ) -> Iterator[Problem]:
        content = response.members("content")
        kinds = [each for each in content if is_json(each) or each == "*/*"]
        kind = exchange.media_type.partition(";")[0].strip()
        chosen = kind if kind in content else next(iter(kinds), "")
        schema = response.get("content", chosen, "schema")
        text = self._body(exchange)
        if not text or chosen not in kinds or not isinstance(schema.value, dict):
            return
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            if "{{" not in text:
                yield Problem("", "the body is not JSON")
            return
        for each in problems(contract.documents, value, schema):
            if "{{" not in text or not _is_template(value, each.pointer):
                yield each

    def _body(self, exchange: Exchange) -> str:
        message = exchange.response
        if message.body is not None or message.body_node is None:
            return message.body or ""
        sampler = Sampler(SampleBudget(), self.operation.operation_id, exchange.name)
        return json.dumps(sampler.value(message.body_node))


def _unfit_examples(
    contract: ContractExamples,
) -> Iterator[tuple[str, Iterator[UnreadText], str]]:
    """Yield code, places and a predicate of the examples that are not as they should be."""
    if isinstance(contract, OpenApiExamples):
        what = "is answered as a text, though its schema wants an object or array"
        yield TEXT, contract.unread_texts(), what
        yield UNREAD, contract.unread_values(), "is not answered"
    if isinstance(contract, OpenApiExamples | AsyncApiExamples):
        yield UNFIT, islice(contract.broken_examples(), MAX_PROBLEMS), "breaks its schema"


def _readings(text: str) -> Iterator[Any]:
    """Yield what a parameter of this text may be: a string, a number or boolean."""
    yield text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if is_of_type(value, "number") or isinstance(value, bool):
        yield value


def _is_template(value: Any, pointer: str) -> bool:
    """Return whether what stands at the pointer, or something in it, is made by a template."""
    for part in pointer.split("/")[1:]:
        key = unescape_pointer(part)
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            return False
    return "{{" in json.dumps(value, ensure_ascii=False)
